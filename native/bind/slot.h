// The door between Python and native code: everything Python calls goes through slot<f>, so no C++ exception ever
// crosses a C frame.
//
//   PyGetSetDef getset[] = {{"itemsize", slot<dtype_itemsize>}, …};
//
// f may throw and may return its failure value with a Python exception set; both become the Python exception.
#pragma once
#include "python.h"

namespace flambeau {

template <class R>
R failed() {
  if constexpr (std::is_pointer_v<R>) return nullptr;
  else if constexpr (!std::is_void_v<R>) return R(-1);  // int, Py_ssize_t, Py_hash_t
}

// From a deallocation: nobody to tell, and an exception may be on its way.
inline void unheard(const std::exception& e) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  set_error(e);
  PyErr_WriteUnraisable(nullptr);
  PyErr_Restore(type, value, trace);
}

template <auto f>
struct Slot;
template <class R, class... A, R (*f)(A...)>
struct Slot<f> {
  static R call(A... a) {
    try {
      return f(a...);
    } catch (const std::exception& e) {
      if constexpr (std::is_void_v<R>) return unheard(e);
      else set_error(e);
    } catch (...) {
      PyErr_SetString(PyExc_SystemError, "an unknown C++ exception");
    }
    if constexpr (!std::is_void_v<R>) return failed<R>();
  }
};
template <auto f>
inline constexpr auto slot = &Slot<f>::call;
// The same as the one type that PyMethodDef has for functions of every kind of argument, and as a type's slot.
template <auto f>
PyCFunction method() { return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(slot<f>)); }
template <auto f>
void* type_slot() { return reinterpret_cast<void*>(slot<f>); }

}  // namespace flambeau
