// What NumPy objects are: its scalars and arrays, also those of subclasses, recognised without importing NumPy.
#pragma once
#include "python.h"

namespace flambeau {

bool is_other_array(PyObject* o);
bool is_other_scalar(PyObject* o);
// Tensors and Python's own numbers and sequences, which almost all calls have, are told apart without a function call.
inline bool is_ordinary(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  return is_tensor(o) || t == &PyFloat_Type || t == &PyLong_Type || t == &PyList_Type || t == &PyTuple_Type ||
         t == &PyBool_Type;
}
inline bool is_numpy_array(PyObject* o) { return !is_ordinary(o) && is_other_array(o); }
// np.float32(1), np.datetime64(…), a record: anything NumPy calls a scalar
inline bool is_numpy_scalar(PyObject* o) { return !is_ordinary(o) && is_other_scalar(o); }
DType numpy_scalar_dtype(PyObject* o);  // Undefined: no NumPy scalar, or one that tensors do not hold

}  // namespace flambeau
