// Where the results of a call go when the caller names a place: what out= accepts, and what it looks like afterwards.
#include "op_type.h"
#include "tensor_type.h"

namespace flambeau {

void check_out_of_inference(const char* name, const Tensor& out) {
  if (out.flags & kInference && !tls.inference_enabled)
    runtime_error(name, "(): the out= tensor was made under inference_mode and can be changed only there; clone() it "
                  "first");
}

namespace {

bool stands_in(std::string_view list, std::string_view name) {  // whole words
  for (size_t at = list.find(name); at != list.npos; at = list.find(name, at + 1))
    if ((at == 0 || list[at - 1] == ' ') && (at + name.size() == list.size() || list[at + name.size()] == ' '))
      return true;
  return false;
}

// out=: `result` goes into `out`, which takes its shape.
void write_out(const char* name, PyObject* out, Tensor& result) {
  if (!is_tensor(out)) type_error(name, "(): argument 'out' must be Tensor, not ", Py_TYPE(out)->tp_name);
  Tensor& t = *as_tensor(out);
  if (&t == &result) return;
  const bool asked = result.flags & kRequiresGrad && !result.grad_fn;  // by requires_grad=True
  if (tls.grad_enabled && (tensor_requires_grad(t) || (tensor_requires_grad(result) && !asked)))
    runtime_error(name, "(): out= has no gradient, and an argument requires grad; leave out= away, or call it under "
                  "no_grad");
  check_out_of_inference(name, t);
  if (category(result.dtype) > category(t.dtype) && !stands_in("bernoulli range", name))
    runtime_error(name, ": the result is ", dtype_name(result.dtype), ", which out= of ", dtype_name(t.dtype),
                  " cannot hold");
  if (t.numel > 1)
    for (int d = 0; d < t.ndim; ++d)
      if (t.strides[d] == 0 && t.sizes[d] > 1)
        runtime_error(name, ": elements of the tensor written to share memory (it is expanded), so they cannot be "
                      "written one by one; clone() it first");
  if (t.device != result.device)
    runtime_error(name, ": out= is on ", device_name(t.device), " but the result on ", device_name(result.device));
  const bool fits = t.ndim == result.ndim && std::equal(t.sizes, t.sizes + t.ndim, result.sizes);
  await_calls(t);
  // numbers in a row go into a tensor of as many elements in the order of its indices, whatever its shape is
  if (!fits && t.numel == result.numel && stands_in("arange linspace logspace range", name))
    set_dims(result, t.shape(), contiguous_strides(t.shape()));
  const bool wrapper = t.flags & kDispatch && !(t.storage && t.storage->data);  // its class knows what resize_ does
  if (wrapper && !fits) checked(PyObject_CallMethod(out, "resize_", "O", Held(size_object(result.shape())).p));
  else resize_for_out(t, result.shape(), name);
  // linalg gives an empty `out` the order of dimensions that LAPACK writes in
  if (!fits && result.ndim >= 2 && std::string_view(name).starts_with("linalg_")) {
    std::vector<int64_t> columns = contiguous_strides(result.shape());
    columns[result.ndim - 2] = 1, columns[result.ndim - 1] = result.sizes[result.ndim - 2];
    if (std::equal(columns.begin(), columns.end(), result.strides)) set_dims(t, result.shape(), columns);
  }
  copy_into(t, result);
  bump_version(t);
  if (asked) set_requires_grad_of(t, true);
}

// What PyTorch refuses of out=: another dtype than the one asked for, or than the result's where nothing is converted
// on the way, and the memory of an operand that is read out of order.
void check_out(const OpDef& op, const Frame& f, PyObject* out, Tensor& result) {
  constexpr std::string_view kStrict =
      "mm bmm addmm baddbmm matmul dot mv sort topk max.dim min.dim index_select take softmax log_softmax tril triu "
      "amax amin "
      "argmax argmin kthvalue nonzero masked_select index_add index_copy scatter_src scatter_value scatter_add "
      "scatter_reduce "
      "gather "
      "aminmax median.dim nanmedian.dim mode multinomial logcumsumexp cummax cummin index_reduce diag quantile "
      "nanquantile";
  constexpr std::string_view kApart = "gather index_select take masked_select kthvalue mode max.dim min.dim cat stack";
  if (!is_tensor(out)) return;
  Tensor& t = *as_tensor(out);
  if (t.dtype != result.dtype && stands_in(kStrict, op.name))
    runtime_error(op.shown, ": out= must be ", dtype_name(result.dtype), ", as the result, got ", dtype_name(t.dtype));
  if (stands_in("any all", op.name) && t.dtype != DType::Bool && t.dtype != DType::UInt8)
    runtime_error(op.shown, ": out= must be bool or uint8, got ", dtype_name(t.dtype));
  for (size_t k = 0; k < op.schema.args.size(); ++k)
    if (const Value& v = f.values[k]; v.tag == Tag::DType && v.dtype != t.dtype)
      runtime_error(op.shown, ": dtype=", dtype_name(v.dtype), " and out= of ", dtype_name(t.dtype),
                    " do not go together; leave dtype out");
  if (!stands_in(kApart, op.name)) return;
  auto check = [&](const Tensor* x) {
    if (x && (x == &t || ranges_meet(t, *x)))
      runtime_error(op.shown, ": the tensor written to shares memory with an input, at other places; clone() the input "
                    "first");
  };
  for (size_t k = 0; k < op.schema.args.size(); ++k) {
    const Value& v = f.values[k];
    if (v.tag == Tag::Tensor) check(v.tensor);
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j) check(v.tensors.data[j]);
  }
}

}  // namespace

PyObject* finish_out(OpObject& op, const Frame& f, PyObject* result) {
  Held r(result), own;  // a tuple of its own: the list could change while results are written
  if (!r) return nullptr;
  if (PyList_Check(f.out) && !(own = Held(PyList_AsTuple(f.out)))) return nullptr;
  PyObject* out = own ? own.p : f.out;
  return guarded([&]() -> PyObject* {
    const char* name = op.def->shown.c_str();
    if (is_tensor(r.p)) {
      check_out(*op.def, f, out, *as_tensor(r.p));
      write_out(name, out, *as_tensor(r.p));
    } else {
      Py_ssize_t n = PyTuple_GET_SIZE(r.p);
      if (!PyTuple_Check(out) && !PyList_Check(out))
        type_error(name, "(): argument 'out' must be a tuple of ", n, " Tensors, not ", Py_TYPE(out)->tp_name);
      Held own =
          Held(PyList_Check(out) ? PyList_AsTuple(out) : Py_NewRef(out));  // a warning's filter may change the list
      checked(own ? 0 : -1);
      out = own.p;
      if (PySequence_Fast_GET_SIZE(out) != n)
        type_error(name, "(): expected ", n, " tensors in out=, got ", PySequence_Fast_GET_SIZE(out));
      for (Py_ssize_t k = 0; k < n; ++k)
        check_out(*op.def, f, PySequence_Fast_GET_ITEM(out, k), *as_tensor(PyTuple_GET_ITEM(r.p, k)));
      for (Py_ssize_t k = 0; k < n; ++k)
        write_out(name, PySequence_Fast_GET_ITEM(out, k), *as_tensor(PyTuple_GET_ITEM(r.p, k)));
      if (op.result_type) {
        PyObject* named = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(op.result_type));
        for (Py_ssize_t k = 0; k < n; ++k)
          PyStructSequence_SetItem(named, k, Py_NewRef(PySequence_Fast_GET_ITEM(out, k)));
        return named;
      }
    }
    if (op.def->schema.list_result) Py_RETURN_NONE;
    return Py_NewRef(f.out);
  });
}

}  // namespace flambeau
