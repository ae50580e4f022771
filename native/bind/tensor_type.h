// What the files of the Tensor type share: tensor_type.cpp makes the type out of what the others define.
#pragma once
#include "slot.h"

namespace flambeau {

inline Tensor& self(PyObject* o) { return *as_tensor(o); }

// tensor_type.cpp: a new object of `type` over the memory of `source`, without history
PyObject* as_subclass(PyTypeObject* type, const Tensor& source, bool requires_grad);
// tensor_new.cpp
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs);
extern PyMethodDef legacy_tensor_def;
// tensor_attributes.cpp
extern PyGetSetDef tensor_getset[];
int set_attribute(PyObject* o, PyObject* name, PyObject* value);
int set_requires_grad_of(Tensor& t, bool on);
// tensor_methods.cpp
extern PyMethodDef tensor_methods[];
// conversion.cpp
extern PyMethodDef conversion_methods[], conversion_functions[];
// tensor_buffer.cpp
int get_buffer(PyObject* o, Py_buffer* view, int flags);
void release_buffer(PyObject* o, Py_buffer* view);

}  // namespace flambeau
