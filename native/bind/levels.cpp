// Wrappers: tensors that stand for others. Those of a transform level (vmap, jvp) hold what they wrap in slots of their
// Python class; they share the memory of what they wrap, so that version counters and views are common, but are never
// read through it. Those of a user's class with __torch_dispatch__ have no memory at all.
#include <unordered_set>

#include "../core/lazy.h"
#include "python.h"
#include "reading.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

LevelHandlers handlers{};

PyObject* set_level_handlers(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 4) return PyErr_Format(PyExc_TypeError, "set_level_handlers takes four callables");
  handlers = {Py_NewRef(a[0]), Py_NewRef(a[1]), Py_NewRef(a[2]), Py_NewRef(a[3])};
  Py_RETURN_NONE;
}

void share(Tensor& to, const Tensor& from) {
  to.dtype = from.dtype;
  to.device = from.device;
  to.data = from.data;
  to.storage = from.storage;
  to.flags = uint16_t((to.flags & ~kPending) | (from.flags & kPending));
  if (to.storage) retain(to.storage);
}

// make_level(cls, value, level, hidden): a blank wrapper of `value` without its first `hidden` dimensions
PyObject* make_level(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 4 || !PyType_Check(a[0]) || !is_tensor(a[1]))
      type_error("make_level takes a class, a tensor, a level, a number of dimensions");
    const Tensor& value = *as_tensor(a[1]);
    const int64_t level = integer_of(a[2]), hidden = integer_of(a[3]);
    if (level < 1 || level > 255 || hidden < 0 || hidden > value.ndim)
      value_error("make_level: level ", level, ", hidden ", hidden);
    Tensor* t = new_subclass(reinterpret_cast<PyTypeObject*>(a[0]));
    share(*t, value);
    set_dims(*t, value.shape().subspan(size_t(hidden)), value.stride().subspan(size_t(hidden)));
    t->level = uint8_t(level);
    t->flags |= kDispatch;
    return py(t);
  });
}

// set_like(wrapper, value, hidden): the wrapper takes the geometry of `value` (squeeze_ and its kind)
PyObject* set_like(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 3 || !is_tensor(a[0]) || !is_tensor(a[1]))
      type_error("set_like takes two tensors and a number of dimensions");
    Tensor& t = *as_tensor(a[0]);
    const Tensor& value = *as_tensor(a[1]);
    const size_t hidden = size_t(integer_of(a[2]));
    if (hidden > value.ndim) value_error("set_like: ", hidden, " hidden dimensions of ", int(value.ndim));
    await_calls(t);
    set_dims(t, value.shape().subspan(hidden), value.stride().subspan(hidden));  // first: it may fail
    if (Storage* old = std::exchange(t.storage, nullptr)) release(old);
    share(t, value);
    Py_RETURN_NONE;
  });
}

// leads_elsewhere(outputs, inputs): whether the outputs' graph ends in a leaf that is none of `inputs`
PyObject* leads_elsewhere(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !PyTuple_Check(a[0]) || !PyTuple_Check(a[1]))
      type_error("leads_elsewhere takes two tuples of tensors");
    std::unordered_set<Object*> seen;
    for (PyObject* list : {a[0], a[1]})
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k)
        if (!is_tensor(PyTuple_GET_ITEM(list, k))) type_error("leads_elsewhere takes two tuples of tensors");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a[1]); ++k) seen.insert(as_tensor(PyTuple_GET_ITEM(a[1], k)));
    std::vector<Node*> open;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a[0]); ++k) {
      Tensor& t = *as_tensor(PyTuple_GET_ITEM(a[0], k));
      if (Node* fn = grad_fn_of(t)) {
        if (seen.insert(fn).second) open.push_back(fn);
      } else if (t.flags & kRequiresGrad && !seen.contains(&t)) {
        Py_RETURN_TRUE;
      }
    }
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (int k = 0; k < node->nedges; ++k) {
        const Edge& e = node->edges[k];
        if (!e.target || seen.contains(e.target)) continue;
        if (e.leaf) {
          if (e.tensor()->flags & kRequiresGrad) Py_RETURN_TRUE;  // else: a leaf of a transform that has ended
          continue;
        }
        seen.insert(e.target);
        open.push_back(e.node());
      }
    }
    Py_RETURN_FALSE;
  });
}

PyObject* level_of_tensor(PyObject*, PyObject* o) { return PyLong_FromLong(is_tensor(o) ? as_tensor(o)->level : 0); }

// What a class keeps in `__slots__` rather than in the dict of its objects.
void copy_slots(PyObject* to, PyObject* from) {
  static PyObject* copyreg = checked(PyImport_ImportModule("copyreg")).give();
  Held names = checked(PyObject_CallMethod(copyreg, "_slotnames", "O", Py_TYPE(from)));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(names.p); ++k) {
    PyObject* name = PyList_GET_ITEM(names.p, k);
    Held value(PyObject_GetAttr(from, name));
    if (!value && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    if (!value) PyErr_Clear();
    else if (PyObject_SetAttr(to, name, value.p) < 0) throw PythonError();
  }
}

// A second wrapper of the same, without history.
TensorRef copy_wrapper(const Tensor& t) {
  auto* object = py(const_cast<Tensor*>(&t));
  TensorRef copy = TensorRef::steal(new_subclass(Py_TYPE(object)));
  share(*copy, t);
  set_dims(*copy, t.shape(), t.stride());
  copy->level = t.level;
  copy->flags |= t.flags & (kDispatch | kInference);
  if (t.level) {
    checked(PyObject_CallFunctionObjArgs(handlers.copy, py(copy.get()), object, nullptr));
    return copy;
  }
  if (t.dict) {
    Held dict = checked(PyObject_GenericGetDict(py(copy.get()), nullptr));
    checked(PyDict_Update(dict.p, static_cast<PyObject*>(t.dict)));
  }
  copy_slots(py(copy.get()), object);
  return copy;
}

std::vector<int64_t> integers(PyObject* sequence, const char* what) {
  Held items = checked(PySequence_Tuple(sequence));
  std::vector<int64_t> values = integers_of(items.p);
  for (int64_t v : values)
    if (v < 0) runtime_error("_make_wrapper_subclass: ", what, " must not be negative, got ", v);
  return values;
}

// What _make_wrapper_subclass is given.
struct WrapperArguments {
  PyObject *cls, *size, *strides = Py_None, *offset = Py_None, *format = Py_None, *dtype = Py_None, *layout = Py_None,
           *device = Py_None, *policy = Py_None;
  int pinned = 0, requires_grad = 0, dispatch_device = 0, dispatch_layout = 0;
};

TensorRef new_wrapper(const WrapperArguments& a) {
  auto* type = reinterpret_cast<PyTypeObject*>(a.cls);
  if (!PyType_IsSubtype(type, TensorType) || type == TensorType)
    type_error("_make_wrapper_subclass: cls must be a subclass of Tensor, got ", type->tp_name);
  if (a.policy != Py_None || a.dispatch_device || a.dispatch_layout)
    not_implemented("_make_wrapper_subclass: dispatch_sizes_strides_policy, dispatch_device and dispatch_layout are "
                    "not available");
  std::vector<int64_t> shape = integers(a.size, "sizes");
  std::vector<int64_t> steps = a.strides == Py_None ? contiguous_strides(shape) : integers(a.strides, "strides");
  if (steps.size() != shape.size())
    runtime_error("_make_wrapper_subclass: ", shape.size(), " sizes but ", steps.size(), " strides");
  TensorRef t = TensorRef::steal(new_subclass(type));
  if (!(t->flags & kDispatch))
    runtime_error("_make_wrapper_subclass: ", type->tp_name, " must define __torch_dispatch__");
  t->dtype = a.dtype == Py_None ? default_dtype() : parse_dtype(a.dtype, "_make_wrapper_subclass");
  t->device = a.device == Py_None ? Device{} : parse_device(a.device);
  if (int(t->device.type) >= kDeviceTypes)
    not_implemented("_make_wrapper_subclass: no device of kind ", device_name(t->device), " is known to operators");
  set_dims(*t, shape, steps);
  t->storage = blank_storage();
  t->storage->device = t->device;
  t->storage->resizable = false;
  // never read: `offset()` alone looks at it
  if (a.offset != Py_None) t->data = reinterpret_cast<char*>(integer_of(a.offset) * t->itemsize());
  if (a.requires_grad && !is_differentiable(t->dtype))
    runtime_error("_make_wrapper_subclass: requires_grad=True needs a floating-point or complex dtype, got ",
                  dtype_name(t->dtype));
  if (a.requires_grad) t->flags |= kRequiresGrad;
  return t;
}

// A tensor of a user's class that has sizes, dtype and device but no memory.
PyObject* make_wrapper_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"cls",
                                "size",
                                "strides",
                                "storage_offset",
                                "memory_format",
                                "dtype",
                                "layout",
                                "device",
                                "pin_memory",
                                "requires_grad",
                                "dispatch_sizes_strides_policy",
                                "dispatch_device",
                                "dispatch_layout",
                                nullptr};
  WrapperArguments a;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|OOOOOOppOpp", const_cast<char**>(names), &PyType_Type, &a.cls,
                                   &a.size, &a.strides, &a.offset, &a.format, &a.dtype, &a.layout, &a.device, &a.pinned,
                                   &a.requires_grad, &a.policy, &a.dispatch_device, &a.dispatch_layout))
    return nullptr;
  return guarded([&] { return take_object(new_wrapper(a)); });
}

PyMethodDef functions[] = {{"set_level_handlers", method<set_level_handlers>(), METH_FASTCALL},
                           {"make_level", method<make_level>(), METH_FASTCALL},
                           {"set_like", method<set_like>(), METH_FASTCALL},
                           {"level_of", slot<level_of_tensor>, METH_O},
                           {"leads_elsewhere", method<leads_elsewhere>(), METH_FASTCALL},
                           {}};
PyMethodDef wrapper_def = {
    "_make_wrapper_subclass", method<make_wrapper_subclass>(), METH_VARARGS | METH_KEYWORDS,
    "_make_wrapper_subclass(cls, size, *, strides=None, dtype=None, device=None, requires_grad=False, "
    "**others)\n--\n\nA tensor of the class that has sizes but no memory; the class's __torch_dispatch__ runs every "
    "operator on it."};

}  // namespace

const LevelHandlers& level_handlers() {
  if (!handlers.interpret) runtime_error("a tensor of a transform level came without flambeau.func");
  return handlers;
}

void tell_modes_of_reading(const Tensor& t) {
  Held overrides = checked(PyImport_ImportModule("flambeau._tensor.overriding"));
  checked(PyObject_CallMethod(overrides.p, "_before_reading", "O", py(const_cast<Tensor*>(&t))));
}

TensorRef readable(const Tensor& t) {
  if (__builtin_expect(!t.level, 1)) {
    before_reading(t);
    if (__builtin_expect(t.flags & kDispatch, 0) && t.storage && !t.storage->data && t.numel == 1 && !t.is_meta()) {
      Held overrides = checked(PyImport_ImportModule("flambeau._tensor.overriding"));
      Held value = checked(PyObject_CallMethod(overrides.p, "_value_of", "O", py(const_cast<Tensor*>(&t))));
      if (!is_tensor(value.p)) type_error("_value_of must return a tensor");
      return TensorRef::borrow(as_tensor(value.p));
    }
    if (is_lazy(t)) return readable(*resolved(t));
    need_values(t);
    if (t.device.type == DeviceType::CPU) return TensorRef::borrow(const_cast<Tensor*>(&t));
    TensorRef here = empty(t.shape(), t.dtype);
    copy_into(*here, t);
    return here;
  }
  Held inner = checked(PyObject_CallOneArg(level_handlers().values, py(const_cast<Tensor*>(&t))));
  return TensorRef::borrow(as_tensor(inner.p));
}

TensorRef upward::alias_wrapper(const Tensor& t) { return copy_wrapper(t); }

TensorRef detach_wrapper(const Tensor& t) {
  if (!t.level) return copy_wrapper(t);
  Held r = checked(PyObject_CallOneArg(level_handlers().detach, py(const_cast<Tensor*>(&t))));
  return TensorRef::borrow(as_tensor(r.p));
}

void add_levels(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  Held method = checked(PyCFunction_New(&wrapper_def, nullptr));
  Held wrapped = checked(PyStaticMethod_New(method.p));
  checked(PyDict_SetItemString(TensorType->tp_dict, "_make_wrapper_subclass", wrapped.p));
  PyType_Modified(TensorType);
}

}  // namespace flambeau
