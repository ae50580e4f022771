// _C.optim_step: one call per parameter group. Gathers gradients and state natively, so that Python's share of a step
// does not grow with the number of parameters.
#include "optim.h"

#include <algorithm>

#include "../core/lazy.h"
#include "../core/pending.h"
#include "../core/recording.h"
#include "../core/stamp.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

constexpr Py_ssize_t kKeys = 4;     // the step count, then up to three tensors like the parameter; None: not kept
constexpr Py_ssize_t kNumbers = 5;  // OptimArgs in its order

struct Gathered {
  std::vector<Tensor*> grads;
  std::vector<Tensor*> written;  // parameters, three kinds of state, step counts, as many of each; null: not kept
  std::vector<int64_t> fresh;    // which of them begin
  std::vector<TensorRef> held;   // all of these: another thread may change the dicts while the lock is released
  Held missing;                  // parameters whose state is not there yet
};

Value list_value(const std::vector<Tensor*>& tensors) {
  Value v;
  v.tag = Tag::Tensors;
  v.tensors = {tensors.data(), int64_t(tensors.size())};
  return v;
}

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
  all.held.reserve(size_t(6 * count));
  all.grads.reserve(size_t(count));
  all.written.resize(size_t((1 + kKeys) * count));
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
    if (contains(fresh, item)) all.fresh.push_back(int64_t(all.grads.size()));
    Tensor* kinds[1 + kKeys] = {param, found[1], found[2], found[3], found[0]};
    for (Py_ssize_t k = 0; k <= kKeys; ++k) {
      all.written[size_t(k * count) + all.grads.size()] = kinds[k];
      if (kinds[k]) all.held.push_back(TensorRef::borrow(kinds[k]));
    }
    all.held.push_back(resolved(*param->grad));
    all.grads.push_back(all.held.back().get());
  }
  const size_t n = all.grads.size();  // those without a gradient leave room
  for (size_t k = 1; k <= kKeys && n < size_t(count); ++k)
    std::copy_n(all.written.begin() + long(k) * count, n, all.written.begin() + long(k * n));
  all.written.resize((1 + kKeys) * n);
  return all;
}

// The operator, now or as part of the program that this thread writes.
void run_step(Call& c, const Gathered& all) {
  bool plain = true;
  for (const TensorRef& t : all.held) {
    settle(*t);
    plain &= !(t->flags & kDispatch);
  }
  if (plain && tls.recorder && tls.recorder->take(c)) return;
  for (const TensorRef& t : all.held) {
    need_values(*t);
    if (tls.recorder) about_to_write(*t);
  }
  run_on_memory(c, all.grads[0]);
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
    static OpHandle op{"_optim_step"};
    Value values[5 + kNumbers];
    for (Py_ssize_t k = 0; k < kNumbers; ++k) values[5 + k] = Value(number(PyTuple_GET_ITEM(args[4], k)));
    Gathered all = gather(args[1], args[2], args[3], args[6]);
    if (all.missing) return all.missing.give();
    if (all.grads.empty()) Py_RETURN_NONE;
    values[0] = Value(kind);
    values[1] = list_value(all.written);
    values[2] = list_value(all.grads);
    values[3] = Value(flags);
    values[4] = Value(Dims(all.fresh));
    Call c;
    c.op = &op.get();
    c.args = values;
    c.nargs = 5 + int(kNumbers);
    run_step(c, all);
    for (Tensor* t : all.written)
      if (t && t->storage) count_write(*t->storage);
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
