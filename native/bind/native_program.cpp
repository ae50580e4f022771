// Programs for the library without Python, run here: to plan them as they are exported, and to test them.
#include "../programs/loaded.h"
#include "graph_parts.h"
#include "slot.h"

namespace flambeau {
namespace {

std::vector<TensorRef> tensors_of(PyObject* tuple) {
  std::vector<TensorRef> all;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); ++k) {
    PyObject* o = PyTuple_GET_ITEM(tuple, k);
    if (!is_tensor(o)) type_error("run_native: expected tensors, got ", Py_TYPE(o)->tp_name);
    all.push_back(TensorRef::borrow(as_tensor(o)));
  }
  return all;
}

// run_native(words, weights, inputs) -> results
PyObject* run_native(PyObject*, PyObject* args) {
  const char* bytes;
  Py_ssize_t n;
  PyObject *weights, *inputs;
  if (!PyArg_ParseTuple(args, "y#O!O!", &bytes, &n, &PyTuple_Type, &weights, &PyTuple_Type, &inputs)) return nullptr;
  return guarded([&] {
    const programs::Loaded program({bytes, size_t(n)}, tensors_of(weights));
    std::vector<TensorRef> made = program.run(tensors_of(inputs));
    Held results = checked(PyTuple_New(Py_ssize_t(made.size())));
    for (size_t k = 0; k < made.size(); ++k)
      PyTuple_SET_ITEM(results.p, Py_ssize_t(k), take_object(std::move(made[k])));
    return results.give();
  });
}

// note_plans(list or None): plans that are made from now on are also added there, as (key, words).
PyObject* note_plans(PyObject*, PyObject* list) {
  if (list != Py_None && !PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "note_plans takes a list or None");
    return nullptr;
  }
  Py_XDECREF(std::exchange(noted_plans, list == Py_None ? nullptr : Py_NewRef(list)));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"run_native", slot<run_native>, METH_VARARGS, nullptr},
                           {"note_plans", slot<note_plans>, METH_O, nullptr},
                           {}};

}  // namespace

void add_native_program(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
