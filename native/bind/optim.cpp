// _C.optim_step: one call per parameter group. Gathers gradients and state natively, so that Python's share of a step
// does not grow with the number of parameters.
#include "optim.h"

#include "../core/recording.h"
#include "../kernels/optim_step.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

constexpr Py_ssize_t kKeys = 4;     // the step count, then up to three tensors like the parameter; None: not kept
constexpr Py_ssize_t kNumbers = 5;  // OptimArgs in its order

struct Gathered {
  std::vector<OptimSlot> slots;
  std::vector<Tensor*> steps;   // per slot; null when no count is kept
  std::vector<TensorRef> held;  // everything in slots: another thread may change the dicts while the lock is released
  Held missing;                 // parameters whose state is not there yet
};

double number(PyObject* o) {
  double value = PyFloat_AsDouble(o);  // one-element tensors have __float__
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

bool contains(PyObject* list, PyObject* item) {
  if (list == Py_None) return false;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k)
    if (PyList_GET_ITEM(list, k) == item) return true;
  return false;
}

// The entries `keys` of one parameter's state; false when one is absent, or sparse as SGD's momentum may be.
bool gather_state(PyObject* state, PyObject* param, PyObject* keys, Tensor* (&found)[kKeys]) {
  PyObject* own = PyDict_GetItemWithError(state, param);
  if (!own && PyErr_Occurred()) throw PythonError();
  for (Py_ssize_t k = 0; k < kKeys; ++k) {
    PyObject* key = PyTuple_GET_ITEM(keys, k);
    if (key == Py_None) continue;
    if (!own) return false;
    if (!PyDict_Check(own))
      type_error("optimizer state: expected a dict for each parameter, got ", Py_TYPE(own)->tp_name);
    PyObject* value = PyDict_GetItemWithError(own, key);
    if (!value && PyErr_Occurred()) throw PythonError();
    if (!value || value == Py_None) return false;
    if (!is_tensor(value))
      type_error("optimizer state: expected a Tensor for '", text_of(key), "', got ", Py_TYPE(value)->tp_name);
    found[k] = as_tensor(value);
    if (found[k]->flags & kDispatch) return false;
  }
  return true;
}

Gathered gather(PyObject* list, PyObject* state, PyObject* keys, PyObject* fresh) {
  Gathered all;
  Held params = checked(PyList_AsTuple(list));  // a parameter's own __hash__ may change the list
  Py_ssize_t count = PyTuple_GET_SIZE(params.p);
  all.slots.reserve(count);
  all.steps.reserve(count);
  all.held.reserve(5 * count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(params.p, i);
    if (!is_tensor(item)) type_error("optimizer: expected parameters to be Tensors, got ", Py_TYPE(item)->tp_name);
    Tensor* param = as_tensor(item);
    if (!param->grad) continue;
    // a sparse gradient has no memory of its own: the caller is told of it first, and takes the step itself
    const bool apart = param->grad->flags & kDispatch;
    if (apart && contains(fresh, item)) continue;
    Tensor* found[kKeys] = {};
    if (apart || !gather_state(state, item, keys, found)) {
      if (!all.missing) all.missing = checked(PyList_New(0));
      checked(PyList_Append(all.missing.p, item));
      continue;
    }
    OptimSlot slot{param, param->grad, {found[1], found[2], found[3]}, 0, contains(fresh, item)};
    if (found[0]) {
      if (found[0]->numel != 1 || found[0]->is_meta())
        runtime_error("optimizer state: expected 'step' to be one number, got shape ", shape_text(found[0]->shape()));
      slot.step = element_scalar(*found[0]).to<double>() + 1;
    }
    all.slots.push_back(slot);
    all.steps.push_back(found[0]);
    for (Tensor* t : {slot.param, slot.grad, slot.state[0], slot.state[1], slot.state[2], found[0]})
      if (t) {
        need_values(*t);
        if (tls.dispatch_modes) about_to_write(*t);
        all.held.push_back(TensorRef::borrow(t));
      }
  }
  return all;
}

void count_step(Tensor& step, double value) {
  need_values(step);
  if (step.dtype == DType::Float32)
    *step.ptr<float>() = float(value);
  else
    fill(step, Scalar(value));
  ++step.storage->version;
}

// optim_step(kind, params, state, keys, numbers, flags, fresh) -> None, or the list of parameters without state or with
// a sparse gradient or state; then nothing was done. `fresh` are those of the list that begin or stay sparse.
PyObject* step(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 7 || !PyList_Check(args[1]) || !PyDict_Check(args[2]) || !PyTuple_Check(args[3]) ||
        PyTuple_GET_SIZE(args[3]) != kKeys || !PyTuple_Check(args[4]) || PyTuple_GET_SIZE(args[4]) != kNumbers ||
        !(args[6] == Py_None || PyList_Check(args[6])))
      type_error("optim_step: expected (kind, params list, state dict, 4 keys, 5 numbers, flags, fresh list or None)");
    const int64_t kind = integer_of(args[0]), flags = integer_of(args[5]);
    if (kind < 0 || kind >= kOptimKinds) value_error("optim_step: no optimizer number ", kind);
    double numbers[kNumbers];
    for (Py_ssize_t k = 0; k < kNumbers; ++k) numbers[k] = number(PyTuple_GET_ITEM(args[4], k));
    OptimArgs options{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], uint32_t(flags)};
    Gathered all = gather(args[1], args[2], args[3], args[6]);
    if (all.missing) return all.missing.give();
    Calling calling(all.held);
    optim_step(OptimKind(kind), options, all.slots);
    for (size_t k = 0; k < all.slots.size(); ++k)
      if (all.steps[k]) count_step(*all.steps[k], all.slots[k].step);
    Py_RETURN_NONE;
  });
}

PyMethodDef methods[] = {
    {"optim_step", method<step>(), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_optim(_object* module) {
  if (PyModule_AddFunctions(module, methods) < 0) throw PythonError();
}

}  // namespace flambeau
