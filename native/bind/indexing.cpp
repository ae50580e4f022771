// x[…] and x[…] = y.
#include "python.h"

namespace flambeau {
namespace {

PyObject* subscript(PyObject* o, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (PyLong_Check(key)) {
      int64_t k = PyLong_AsLongLong(key);
      static OpHandle select{"select"};
      if (as_tensor(o)->ndim == 0) index_error("invalid index of a 0-dim tensor. Use `tensor.item()`");
      return take_object(invoke(select, {Value(as_tensor(o)), Value(int64_t(0)), Value(k)}));
    }
    not_implemented("index of type ", Py_TYPE(key)->tp_name);
  });
}

}  // namespace

void add_index_slots(std::vector<PyType_Slot>& slots) { slots.push_back({Py_mp_subscript, (void*)subscript}); }

}  // namespace flambeau
