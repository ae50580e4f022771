// Rows that are made of other operators on CUDA: Python says of which. The size of the results of those in
// flambeau.cuda._values depends on values; those in flambeau.cuda._matrices fill results for which there is room.
#include "../core/device_table.h"
#include "../core/op.h"
#include "../cuda/plan.h"
#include "../cuda/stream.h"
#include "python.h"

namespace flambeau {
namespace {

// What Python cannot do while a graph is recorded ends the recording, as any failure there does.
[[noreturn]] void not_recorded() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const Held kept_type{type}, kept_value{value}, kept_trace{trace};
  runtime_error(value ? text_of(value) : "an operator has failed");
}

// Calls the module's function of the row's name with its arguments.
Held called(const Call& c, const char* where) {
  GradMode off(false);
  Held module = checked(PyImport_ImportModule(where));
  Held function = checked(PyObject_GetAttrString(module.p, c.op->row->name));
  Held args = checked(PyTuple_New(c.nargs));
  for (int k = 0; k < c.nargs; ++k) PyTuple_SET_ITEM(args.p, k, checked(value_object(c.args[k])).give());
  Held result{PyObject_CallObject(function.p, args.p)};
  if (!result && cuda::any_capture() && PyErr_ExceptionMatches(PyExc_RuntimeError)) not_recorded();
  return checked(result.give());
}

// What the function returns are the results.
void in_python(Call& c) {
  Held found = called(c, "flambeau.cuda._values");
  if (is_tensor(found.p)) return c.push(TensorRef::borrow(as_tensor(found.p)));
  Held results = checked(PySequence_Tuple(found.p));
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results.p); ++k)
    c.push(TensorRef::borrow(as_tensor(PyTuple_GET_ITEM(results.p, k))));
}

// What it returns is copied into the results.
void copied_from_python(Call& c) {
  Held found = called(c, "flambeau.cuda._matrices");
  if (is_tensor(found.p)) return copy_into(c.out(), *as_tensor(found.p));
  Held results = checked(PySequence_Tuple(found.p));
  for (int k = 0; k < c.nout(); ++k) copy_into(c.out(k), *as_tensor(PyTuple_GET_ITEM(results.p, k)));
}

// The number of classes is given, or the largest class says it.
void one_hot(Call& c) {
  if (c.integer_or(1, -1) == -1) return in_python(c);
  c.op->row->infer(c);
  cuda::run_row(c);
}

// Indices of integers on the tensor's own device decide the size by their shapes alone.
void index(Call& c) {
  bool plain = true;
  for (const Tensor* t : c.tensors(1))
    plain = plain && (!t || (t->device == c.tensor(0).device && t->dtype != DType::Bool && t->dtype != DType::UInt8));
  if (!plain) return in_python(c);
  c.op->row->infer(c);
  cuda::run_row(c);
}

const Kernels rows(DeviceType::CUDA, {{"nonzero_rows", in_python},
                                      {"nonzero_numpy", in_python},
                                      {"masked_select", in_python},
                                      {"_unique", in_python},
                                      {"_without_repeats", in_python},
                                      {"_bincount", in_python},
                                      {"repeat_interleave_index", in_python},
                                      {"nms", in_python},
                                      {"one_hot", one_hot},
                                      {"cholesky_solve", copied_from_python},
                                      {"_lu_solve", copied_from_python},
                                      {"_linalg_solve_ex", copied_from_python},
                                      {"linalg_inv_ex", copied_from_python},
                                      {"_linalg_det", copied_from_python},
                                      {"_linalg_slogdet", copied_from_python},
                                      {"_linalg_lstsq", copied_from_python},
                                      {"_linalg_pinv", copied_from_python},
                                      {"_smallest_pivot", copied_from_python},
                                      {"cholesky_inverse", copied_from_python},
                                      {"index", index},
                                      {"index_put", index}});

}  // namespace
}  // namespace flambeau
