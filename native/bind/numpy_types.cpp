// Recognises NumPy's scalars and arrays by their types. NumPy is not imported for this: where nobody has, there are
// none.
#include "numpy_types.h"

namespace flambeau {
namespace {

struct ScalarType { const char* name; DType dtype; PyTypeObject* type; };
// types of one size have two names on most platforms (longlong beside int64), and each has its own type object
ScalarType scalar_types[] = {
    {"bool_", DType::Bool},          {"int8", DType::Int8},
    {"int16", DType::Int16},         {"int32", DType::Int32},
    {"int64", DType::Int64},         {"uint8", DType::UInt8},
    {"uint16", DType::UInt16},       {"uint32", DType::UInt32},
    {"uint64", DType::UInt64},       {"longlong", DType::Int64},
    {"ulonglong", DType::UInt64},    {"float16", DType::Float16},
    {"float32", DType::Float32},     {"float64", DType::Float64},
    {"complex64", DType::Complex64}, {"complex128", DType::Complex128},
};
PyTypeObject *array_type, *scalar_base;

PyTypeObject* type_named(PyObject* module, const char* name) {
  PyObject* type = PyObject_GetAttrString(module, name);
  if (type && PyType_Check(type)) return reinterpret_cast<PyTypeObject*>(type);  // kept for good
  Py_XDECREF(type);
  PyErr_Clear();
  return nullptr;
}

bool loaded() {
  if (__builtin_expect(scalar_base != nullptr, 1)) return true;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (!module) return false;
  for (ScalarType& s : scalar_types) s.type = type_named(module, s.name);
  array_type = type_named(module, "ndarray");
  scalar_base = array_type ? type_named(module, "generic") : nullptr;  // last: from now on the table is complete
  return scalar_base != nullptr;
}

}  // namespace

bool is_other_array(PyObject* o) { return loaded() && PyObject_TypeCheck(o, array_type); }
bool is_other_scalar(PyObject* o) { return loaded() && PyObject_TypeCheck(o, scalar_base); }

DType numpy_scalar_dtype(PyObject* o) {
  if (!is_numpy_scalar(o)) return DType::Undefined;
  for (const ScalarType& s : scalar_types)
    if (Py_TYPE(o) == s.type) return s.dtype;
  for (const ScalarType& s : scalar_types)
    if (s.type && PyObject_TypeCheck(o, s.type)) return s.dtype;
  return DType::Undefined;
}

}  // namespace flambeau
