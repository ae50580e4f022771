// Asks Python for the launch plan of a signature that is new: what a call is, as Python values; what comes back, as the
// plan native code repeats. flambeau.cuda._plans says in which form both are.
#include "upward.h"  // first: it says of which kind the sizes beside texts are, before Python's header is read

#include <nanobind/nanobind.h>

#include <set>

#include "../cuda/launch.h"
#include "../cuda/pinned.h"
#include "../cuda/plan.h"
#include "cuda.h"

namespace nb = nanobind;

namespace flambeau {
namespace {

using cuda::OperandKind;
using cuda::ScalarKind;

Held make(const char* function, PyObject* arguments) {  // `arguments` is used up
  Held args = checked(arguments);
  Held module = checked(PyImport_ImportModule("flambeau.cuda._plans"));
  Held f = checked(PyObject_GetAttrString(module.p, function));
  return checked(PyObject_CallObject(f.p, args.p));
}

PyObject* text(DType t) { return PyUnicode_FromString(dtype_name(t)); }

// (kind, dtype, the dtype it is computed in) of each operand
PyObject* operands_of(const cuda::PointwiseKey& k) {
  static const char* names[] = {"tensor", "number", "absent", "repeated", "across"};
  Held all = checked(PyTuple_New(k.count));
  for (int j = 0; j < k.count; ++j) {
    const auto& o = k.operand[j];
    Held entry = checked(Py_BuildValue("(sNN)", names[int(o.kind)], text(o.dtype), text(o.loop_dtype)));
    PyTuple_SET_ITEM(all.p, j, entry.give());
  }
  return all.give();
}

// "absent", "int", "float", "complex", ("str", the first letter) or ("bool", its value)
PyObject* scalars_of(const cuda::PointwiseKey& k) {
  static const char* names[] = {"absent", "str", "bool", "int", "float", "complex"};
  Held all = checked(PyTuple_New(k.scalars));
  for (int j = 0; j < k.scalars; ++j) {
    const auto& s = k.scalar[j];
    PyObject* entry = s.kind == ScalarKind::Text   ? Py_BuildValue("(sC)", "str", int(s.value))
                      : s.kind == ScalarKind::Bool ? Py_BuildValue("(sN)", "bool", PyBool_FromLong(s.value))
                                                   : PyUnicode_FromString(names[int(s.kind)]);
    PyTuple_SET_ITEM(all.p, j, checked(entry).give());
  }
  return all.give();
}

// --- calls of rows ---------------------------------------------------------------------------------------------------

// Tensors are numbered in the order in which the steps of a plan name them.
struct Described {
  int next = 0;
  PyObject* tensor(const Tensor* t) {
    if (!t) Py_RETURN_NONE;
    const bool aligned = reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
    return Py_BuildValue("(siNNNN)", "tensor", next++, text(t->dtype), dims(t->shape()), dims(t->stride()),
                         PyBool_FromLong(aligned));
  }
  static PyObject* dims(Dims d) {
    Held t = checked(PyTuple_New(Py_ssize_t(d.size())));
    for (size_t k = 0; k < d.size(); ++k) PyTuple_SET_ITEM(t.p, Py_ssize_t(k), PyLong_FromLongLong(d[k]));
    return t.give();
  }
  PyObject* value(const Value& v) {
    switch (v.tag) {
      case Tag::Tensor: return tensor(v.tensor);
      case Tag::Tensors: {
        Held t = checked(PyTuple_New(v.tensors.size));
        for (int64_t k = 0; k < v.tensors.size; ++k)
          PyTuple_SET_ITEM(t.p, k, checked(tensor(v.tensors.data[k])).give());
        return Py_BuildValue("(sN)", "tensors", t.give());
      }
      case Tag::Generator: return Py_BuildValue("(s)", "generator");
      case Tag::DType: return text(v.dtype);
      case Tag::Device: return PyUnicode_FromString(device_name(v.device).c_str());
      default: return value_object(v);
    }
  }
};

// --- plans -----------------------------------------------------------------------------------------------------------

std::string bytes_of(PyObject* o) {
  char* data;
  Py_ssize_t size;
  checked(PyBytes_AsStringAndSize(o, &data, &size));
  return std::string(data, size_t(size));
}
std::array<unsigned, 3> triple_of(PyObject* o) {
  const std::vector<int64_t> v = integers_of(o);
  return {unsigned(v.at(0)), unsigned(v.at(1)), unsigned(v.at(2))};
}

// ("pointer", k, offset), ("scratch", k, offset), ("number", bytes), ("seed", count)
cuda::Parameter parameter_of(PyObject* o, cuda::RowPlan& plan, int tensors) {
  const std::string kind = text_of(PyTuple_GET_ITEM(o, 0));
  PyObject* first = PyTuple_GET_ITEM(o, 1);
  if (kind == "number") return {cuda::Parameter::Number, 0, 0, bytes_of(first)};
  if (kind == "seed") {
    plan.draws = true;
    return {cuda::Parameter::Seed, 0, integer_of(first), {}};
  }
  const bool scratch = kind == "scratch";
  const int64_t k = integer_of(first), most = scratch ? int64_t(plan.scratch.size()) : tensors;
  if (scratch && !most) return {cuda::Parameter::Number, 0, 0, std::string(8, 0)};  // a kernel that uses none
  if (k < 0 || k >= most) value_error("a launch plan names ", kind, " ", k, " of ", most);
  const auto as = scratch ? cuda::Parameter::Scratch : cuda::Parameter::Pointer;
  return {as, int(k), integer_of(PyTuple_GET_ITEM(o, 2)), {}};
}

// {name: an integer, a tuple of them, a number with a fraction, or a word}
cuda::Constants constants_of(PyObject* dict, const char* op, PyObject* path) {
  cuda::Constants c{op, text_of(path), {}, {}, {}};
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    const std::string name = text_of(key);
    if (PyTuple_Check(value)) c.integers[name] = integers_of(value);
    else if (PyFloat_Check(value)) c.numbers[name] = PyFloat_AS_DOUBLE(value);
    else if (PyUnicode_Check(value)) c.words[name] = text_of(value);
    else c.integers[name] = {integer_of(value)};
  }
  return c;
}

// ("library", function, path, operands, constants): its workspace becomes scratch memory of the plan.
cuda::Step library_step(PyObject* o, const char* op, int device, cuda::RowPlan& plan, int tensors) {
  cuda::Step s{cuda::Step::Library};
  PyObject* operands = PyTuple_GET_ITEM(o, 3);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(operands); ++k)
    s.parameters.push_back(parameter_of(PyTuple_GET_ITEM(operands, k), plan, tensors));
  const cuda::Constants constants = constants_of(PyTuple_GET_ITEM(o, 4), op, PyTuple_GET_ITEM(o, 2));
  s.call = cuda::make_library_call(text_of(PyTuple_GET_ITEM(o, 1)), device, constants);
  if (s.call->workspace) {
    s.parameters.push_back({cuda::Parameter::Scratch, int(plan.scratch.size()), 0, {}});
    plan.scratch.push_back(s.call->workspace);
  }
  return s;
}

// ("launch", digest, image, function, grid, block, shared, parameters), ("fill", to, value, bytes), ("copy", to, from,
// bytes), ("check", place, how many, api, whether there is a batch), and that of libraries
cuda::Step step_of(PyObject* o, const char* op, int device, cuda::RowPlan& plan, int tensors) {
  auto item = [&](Py_ssize_t k) { return PyTuple_GET_ITEM(o, k); };
  const std::string kind = text_of(item(0));
  if (kind == "library") return library_step(o, op, device, plan, tensors);
  cuda::Step s{cuda::Step::Launch};
  if (kind == "check") {
    s.kind = cuda::Step::Check;
    s.parameters.push_back(parameter_of(item(1), plan, tensors));
    s.nbytes = integer_of(item(2));
    s.api = text_of(item(3));
    s.value = PyObject_IsTrue(item(4));
    return s;
  }
  if (kind == "launch") {
    s.grid = triple_of(item(4));
    s.block = triple_of(item(5));
    s.shared = unsigned(integer_of(item(6)));
    s.function = cuda::kernel_of(device, bytes_of(item(1)), bytes_of(item(2)), text_of(item(3)), s.shared);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(item(7)); ++k)
      s.parameters.push_back(parameter_of(PyTuple_GET_ITEM(item(7), k), plan, tensors));
    return s;
  }
  s.kind = kind == "fill" ? cuda::Step::Fill : cuda::Step::Copy;
  s.parameters.push_back(parameter_of(item(1), plan, tensors));
  if (kind == "fill") s.value = int(integer_of(item(2)));
  else s.parameters.push_back(parameter_of(item(2), plan, tensors));
  s.nbytes = integer_of(item(3));
  return s;
}

}  // namespace

// (digest, image, function, elements per thread, threads per block)
cuda::PointwisePlan upward::plan_pointwise(const cuda::PointwiseKey& k, const char* name) {
  static const char* forms[] = {"flat", "strided", "packed", "tiled"};
  const bool flat = k.form == cuda::Form::Flat;
  Held plan = make("pointwise", Py_BuildValue("(issNNNNNiNi)", int(k.device), name, forms[int(k.form)],
                                              operands_of(k), text(k.compute), text(k.loop_out), text(k.result),
                                              scalars_of(k), k.wide ? 64 : 32, PyBool_FromLong(flat && k.pack),
                                              flat ? 0 : int(k.pack)));
  auto item = [&](Py_ssize_t j) { return PyTuple_GET_ITEM(plan.p, j); };
  cuda::PointwisePlan made;
  made.vector = int(integer_of(item(3)));
  made.threads = int(integer_of(item(4)));
  made.function = cuda::kernel_of(k.device, bytes_of(item(0)), bytes_of(item(1)), text_of(item(2)), 0);
  return made;
}

// (digest, image, function)
void* upward::make_kernel(int device, const char* family, const std::string& key) {
  Held made = make("kernel", Py_BuildValue("(iss#)", device, family, key.data(), Py_ssize_t(key.size())));
  auto item = [&](Py_ssize_t j) { return PyTuple_GET_ITEM(made.p, j); };
  return cuda::kernel_of(device, bytes_of(item(0)), bytes_of(item(1)), text_of(item(2)), 0);
}

namespace {

// (sizes of scratch memory, steps)
void plan_row_with(const Call& c, int device, cuda::RowPlan& made) {
  Described d;
  const char* op = c.op->row->name;
  Held args = checked(PyTuple_New(c.nargs)), results = checked(PyTuple_New(c.nout()));
  for (int k = 0; k < c.nargs; ++k) PyTuple_SET_ITEM(args.p, k, checked(d.value(c.args[k])).give());
  for (int k = 0; k < c.nout(); ++k) PyTuple_SET_ITEM(results.p, k, checked(d.tensor(&c.out(k))).give());
  Held plan = make("row", Py_BuildValue("(isOOi)", device, op, args.p, results.p, int(made.use)));
  for (int64_t n : integers_of(PyTuple_GET_ITEM(plan.p, 0))) made.scratch.push_back(size_t(n));
  PyObject* steps = PyTuple_GET_ITEM(plan.p, 1);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(steps); ++k)
    made.steps.push_back(step_of(PyTuple_GET_ITEM(steps, k), op, device, made, d.next));
  if (made.scratch.size() > cuda::kMostScratch)
    value_error(op, ": a plan with ", made.scratch.size(), " pieces of scratch memory");
}

}  // namespace

// What a library cannot do is asked for in smaller parts, then done by kernels of our own; where there are none, its
// own words are the error.
void upward::plan_row(const Call& c, int device, cuda::RowPlan& made) {
  std::string refusal;
  while (true) {
    try {
      return plan_row_with(c, device, made);
    } catch (const cuda::Unsupported& e) {
      if (made.use == cuda::LibraryUse::None) throw;
      refusal = e.text;
      const auto left = e.after(made.use);
      made = {};
      made.use = left;
    } catch (const PythonError&) {
      if (refusal.empty() || !PyErr_ExceptionMatches(PyExc_NotImplementedError)) throw;
      PyErr_Clear();
      not_implemented(refusal, "; move the tensors to the CPU by .cpu()");
    }
  }
}

namespace {

// A kernel on the device's current stream: tensors are passed by their addresses, numbers as their bytes. Tensors of
// the CPU lie in pinned memory, which stays until the kernel is done.
void launch_given(nb::str name, int device, uintptr_t kernel, nb::tuple grid, nb::tuple block, unsigned shared,
                  nb::args given) {
  static auto* names = new std::set<std::string>;  // errors name them later
  const std::string& op = *names->insert(text_of(name.ptr())).first;
  std::vector<std::array<char, 256>> values(given.size());
  std::vector<void*> parameters;
  std::vector<Tensor*> pinned;
  for (size_t k = 0; k < given.size(); ++k) {
    PyObject* o = PyTuple_GET_ITEM(given.ptr(), Py_ssize_t(k));
    if (is_tensor(o)) {
      Tensor& t = *as_tensor(o);
      need_values(t);
      std::memcpy(values[k].data(), &t.data, sizeof(void*));
      if (t.device.type == DeviceType::CPU) pinned.push_back(&t);
    } else {
      const std::string bytes = bytes_of(o);
      if (bytes.size() > values[k].size()) value_error(op, ": a parameter of ", bytes.size(), " bytes");
      std::memcpy(values[k].data(), bytes.data(), bytes.size());
    }
    parameters.push_back(values[k].data());
  }
  cuda::use_device(device);
  cuda::launch(op.c_str(), device, reinterpret_cast<cuda::Function>(kernel), triple_of(grid.ptr()),
               triple_of(block.ptr()), shared, parameters.data());
  for (Tensor* t : pinned) cuda::pinned_used(*t->storage, device, cuda::current_stream(device));
}

}  // namespace

void add_cuda_plans(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module);
  m.def("kept_by_layers", [](nb::handle input, nb::args layers) {  // what flambeau.cuda._plans answers
    const Tensor& x = *as_tensor(input.ptr());
    Held first = checked(Py_BuildValue("(iNL)", int(x.device.index), text(x.dtype), (long long)x.size(1)));
    Held made = make("kept_by_layers", PySequence_Concat(first.p, layers.ptr()));
    return integer_of(made.p);
  });
  // (device, digest, image, function, shared memory beyond what every kernel may ask for) -> a handle for `launch`
  m.def("load_kernel", [](int device, nb::bytes digest, nb::bytes image, nb::str function, unsigned shared) {
    return reinterpret_cast<uintptr_t>(
        cuda::kernel_of(device, bytes_of(digest.ptr()), bytes_of(image.ptr()), text_of(function.ptr()), shared));
  });
  m.def("launch", launch_given);
  m.def("kept_by_library", [](nb::str function, nb::str path, int device, nb::dict constants) {
    const auto call = cuda::make_library_call(text_of(function.ptr()), device,
                                              constants_of(constants.ptr(), "_recurrent_stack", path.ptr()));
    return int64_t(call->kept);
  });
}

}  // namespace flambeau
