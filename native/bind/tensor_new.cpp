// What Tensor(...) makes of its arguments: sizes, numbers, another tensor or a storage.
#include "tensor_type.h"

namespace flambeau {
namespace {

bool is_size(PyObject* o) {
  return !PyBool_Check(o) && !is_tensor(o) && !PyFloat_Check(o) && !PySequence_Check(o) && PyIndex_Check(o);
}

// What Tensor(...) is given: sizes, or one object.
struct LegacyArguments {
  PyObject* shape = nullptr;  // a tuple of sizes
  PyObject* data = nullptr;
  Py_ssize_t n;
};

LegacyArguments legacy_arguments(PyObject* args, PyObject* kwargs) {
  LegacyArguments a{.n = PyTuple_GET_SIZE(args)};
  if (a.n == 1) a.data = PyTuple_GET_ITEM(args, 0);
  PyObject *key, *value;
  for (Py_ssize_t k = 0; kwargs && PyDict_Next(kwargs, &k, &key, &value);) {
    std::string name = text_of(key);
    if (name == "device") {
      if (value == Py_None) continue;
      Device d = parse_device(value);
      if (d.type != DeviceType::CPU)
        runtime_error("Tensor(): makes tensors on the CPU, got device ", device_name({d.type, -1}),
                      "; use flambeau.empty or tensor");
    } else if (name == "size" && a.n == 0 && PyTuple_Check(value)) {
      a.shape = value;
    } else if ((name == "data" || name == "other") && a.n == 0) {
      a.data = value, a.n = 1;
    } else {
      type_error("new() got an unexpected keyword argument '", name, "'; it takes sizes, size=, data= or device=");
    }
  }
  if (!a.shape && a.data && Py_TYPE(a.data) == SizeType) a.shape = a.data;
  bool all_sizes = a.n > 0 && PyTuple_GET_SIZE(args) == a.n;
  for (Py_ssize_t k = 0; all_sizes && k < a.n; ++k) all_sizes = is_size(PyTuple_GET_ITEM(args, k));
  if (all_sizes || (a.n == 0 && !a.shape)) a.shape = args;
  return a;
}

TensorRef tensor_of_sizes(PyObject* shape, bool none, DType dtype) {
  std::vector<int64_t> dims;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); ++k) {
    dims.push_back(PyNumber_AsSsize_t(PyTuple_GET_ITEM(shape, k), PyExc_OverflowError));
    if (dims.back() == -1 && PyErr_Occurred()) throw PythonError();
  }
  if (none) dims.push_back(0);
  for (int64_t size : dims)
    if (size < 0) runtime_error("sizes must not be negative, got ", size, " in ", shape_text(dims));
  return empty(dims, dtype);
}

// (), (2, 3), (Size), (size=…): an uninitialised tensor; (data): a sequence of numbers, an array; (storage): over its
// memory.
TensorRef legacy_tensor(DType dtype, PyObject* args, PyObject* kwargs) {
  const LegacyArguments a = legacy_arguments(args, kwargs);
  if (a.shape) return tensor_of_sizes(a.shape, a.n == 0 && a.shape == args, dtype);
  if (a.n != 1)
    type_error("new(): got ", a.n, " arguments; it takes sizes, one sequence, one tensor or one storage; use "
               "flambeau.tensor(data)");
  if (is_tensor(a.data)) {
    if (as_tensor(a.data)->dtype != dtype)
      type_error("new(): expected a tensor of ", dtype_name(dtype), ", got ", dtype_name(as_tensor(a.data)->dtype),
                 "; use x.to(dtype)");
    return alias(*as_tensor(a.data));
  }
  if (PyObject_HasAttrString(a.data, "_as_tensor")) {  // a storage
    Held t = checked(PyObject_CallMethod(a.data, "_as_tensor", "O", dtype_object(dtype)));
    return TensorRef::borrow(as_tensor(t.p));
  }
  if (PyUnicode_Check(a.data) || PyBytes_Check(a.data))
    type_error("new(): invalid data type '", Py_TYPE(a.data)->tp_name, "'");
  if (!PySequence_Check(a.data) && !PyObject_CheckBuffer(a.data))
    type_error("new(): expected a sequence of numbers, got ", Py_TYPE(a.data)->tp_name);
  if (is_integral(dtype))
    return to_dtype(*tensor_from_data(a.data, DType::Undefined), dtype);  // numbers are cut, not refused
  return tensor_from_data(a.data, dtype);
}

}  // namespace

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    bool copy = PyTuple_GET_SIZE(args) == 1 && is_tensor(PyTuple_GET_ITEM(args, 0));  // of any dtype
    TensorRef t =
        copy ? TensorRef::borrow(as_tensor(PyTuple_GET_ITEM(args, 0))) : legacy_tensor(default_dtype(), args, kwargs);
    if (type != TensorType || copy) return as_subclass(type, *t, false);
    Held made(take_object(std::move(t)));
    if (!tls.user_modes) return made.give();
    Held creation = checked(PyImport_ImportModule("flambeau._tensor.creation"));
    return checked(PyObject_CallMethod(creation.p, "told", "O", made.p)).give();
  });
}

namespace {

// _legacy_tensor(dtype, args, kwargs)
PyObject* legacy_tensor_object(PyObject*, PyObject* args) {
  PyObject *dtype, *positional, *keywords;
  if (!PyArg_ParseTuple(args, "O!O!O!", DTypeType, &dtype, &PyTuple_Type, &positional, &PyDict_Type, &keywords))
    return nullptr;
  return guarded(
      [&] { return take_object(legacy_tensor(reinterpret_cast<DTypeObject*>(dtype)->dtype, positional, keywords)); });
}

}  // namespace

PyMethodDef legacy_tensor_def = {"_legacy_tensor", slot<legacy_tensor_object>, METH_VARARGS, nullptr};

}  // namespace flambeau
