// What the files about operators share: op_type.cpp (the type), define.cpp (how one is made), call.cpp (how it is
// called), out.cpp (where results go that the caller names).
#pragma once
#include "python.h"

namespace flambeau {

inline OpObject* as_op(PyObject* o) { return reinterpret_cast<OpObject*>(o); }

// op_type.cpp: makes the operator a method of Tensor under this name
void set_method(PyObject* name, OpObject* op);
// call.cpp
PyObject* call_composite(OpObject& op, Frame& f);
// out.cpp: throws where no more may be written to a tensor of inference mode
void check_out_of_inference(const char* name, const Tensor& out);
// Writes `result` (stolen; null: an error is set) into out=; returns what the call returns.
PyObject* finish_out(OpObject& op, const Frame& f, PyObject* result);
// define.cpp
extern PyMethodDef definition_functions[];

}  // namespace flambeau
