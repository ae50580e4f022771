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

// What the functions below are given: words, weights, inputs.
struct Given {
  std::string_view words;
  std::vector<TensorRef> weights, inputs;
  explicit Given(PyObject* args) {
    const char* bytes;
    Py_ssize_t n;
    PyObject *held, *given;
    if (!PyArg_ParseTuple(args, "y#O!O!", &bytes, &n, &PyTuple_Type, &held, &PyTuple_Type, &given)) throw PythonError();
    words = {bytes, size_t(n)};
    weights = tensors_of(held);
    inputs = tensors_of(given);
  }
};

// run_native(words, weights, inputs) -> results
PyObject* run_native(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args);
    std::vector<TensorRef> made = programs::Loaded(given.words, given.weights).run(given.inputs);
    Held results = checked(PyTuple_New(Py_ssize_t(made.size())));
    for (size_t k = 0; k < made.size(); ++k)
      PyTuple_SET_ITEM(results.p, Py_ssize_t(k), take_object(std::move(made[k])));
    return results.give();
  });
}

// plan_native(words, weights, inputs) -> [(key, where sizes stand in it, words) of each plan]; inputs need no values
PyObject* plan_native(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args);
    Held plans = checked(PyList_New(0));
    struct Noted {
      PyObject* before;
      explicit Noted(PyObject* list) : before(std::exchange(noted_plans, list)) {}
      ~Noted() { noted_plans = before; }
    } noted(plans.p);
    programs::Loaded(given.words, given.weights).plan(given.inputs);
    return plans.give();
  });
}

PyMethodDef functions[] = {{"run_native", slot<run_native>, METH_VARARGS, nullptr},
                           {"plan_native", slot<plan_native>, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_native_program(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
