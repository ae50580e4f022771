// The Tensor type: how its objects come and go, and what the type is made of.
#include "tensor_type.h"
#include "upward.h"

namespace flambeau {

PyTypeObject* TensorType;

namespace {

PyObject* disabled_override;  // `__torch_function__ = _C._disabled_torch_function_impl`
PyObject *s_function, *s_dispatch;

// --- life ------------------------------------------------------------------------------------------------------------

Tensor* new_exact() {
  auto* t = PyObject_GC_New(Tensor, TensorType);
  if (!t) throw std::bad_alloc();
  blank_tensor(t);
  return t;
}

}  // namespace

// A blank instance of a Python subclass.
Tensor* new_subclass(PyTypeObject* type) {
  auto* t = as_tensor(type->tp_alloc(type, 0));
  if (!t) throw PythonError();
  blank_tensor(t);
  PyObject* f = _PyType_Lookup(type, s_function);
  if (f != disabled_override && type != TensorType) t->flags |= kOverrides;
  PyObject* d = _PyType_Lookup(type, s_dispatch);
  if (d && d != Py_None && d != disabled_override && d != _PyType_Lookup(TensorType, s_dispatch)) t->flags |= kDispatch;
  return t;
}

namespace {

// A long chain of gradients of gradients must not recurse: each gives up its own before it goes.
void release_gradient(Tensor* g) {
  while (g->refcount == 1 && g->grad && !g->weakrefs) release(std::exchange(g, std::exchange(g->grad, nullptr)));
  release(g);
}

void drop_references(Tensor* t) {
  auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  if (__builtin_expect(!(bits(t->dict) | bits(t->grad) | bits(t->base) | bits(t->grad_fn) | bits(t->extra)), 1)) return;
  Py_CLEAR(*reinterpret_cast<PyObject**>(&t->dict));
  if (auto* g = std::exchange(t->grad, nullptr)) release_gradient(g);
  if (auto* b = std::exchange(t->base, nullptr)) release(b);
  if (auto* n = std::exchange(t->grad_fn, nullptr)) release(n);
  if (auto* e = std::exchange(t->extra, nullptr)) {
    Py_XDECREF(static_cast<PyObject*>(e->hooks));
    Py_XDECREF(static_cast<PyObject*>(e->accumulate_hooks));
    if (e->owns_accumulate) release(e->accumulate);
    delete e;
  }
}

void tensor_dealloc(PyObject* o) {
  Tensor* t = as_tensor(o);
  PyTypeObject* type = Py_TYPE(o);
  if (is_tracked(o)) PyObject_GC_UnTrack(o);
  if (t->weakrefs) PyObject_ClearWeakRefs(o);
  drop_references(t);
  if (Storage* s = std::exchange(t->storage, nullptr)) release(s);
  if (t->sizes && t->sizes != t->inline_dims) delete[] t->sizes;
  if (type == TensorType) {
    recycle_tensor(t);
  } else {
    type->tp_free(o);
    Py_DECREF(type);
  }
}

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Tensor* t = as_tensor(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(static_cast<PyObject*>(t->dict));
  Py_VISIT(py(t->grad));
  Py_VISIT(py(t->base));
  Py_VISIT(reinterpret_cast<PyObject*>(t->grad_fn));
  if (t->extra) {
    Py_VISIT(static_cast<PyObject*>(t->extra->hooks));
    Py_VISIT(static_cast<PyObject*>(t->extra->accumulate_hooks));
    if (t->extra->owns_accumulate) Py_VISIT(reinterpret_cast<PyObject*>(t->extra->accumulate));
  }
  return 0;
}

int tensor_clear(PyObject* o) {
  drop_references(as_tensor(o));
  return 0;
}

}  // namespace

// A new object of `type` over the memory of `source`, without history.
PyObject* as_subclass(PyTypeObject* type, const Tensor& source, bool requires_grad) {
  if (__builtin_expect(source.level, 0))
    runtime_error("inside a transform (vmap, jvp …) a tensor cannot become an instance of another class (",
                  type->tp_name, ")");
  if (type == TensorType) {
    TensorRef t = alias(source);
    t->flags &= ~kWrappedNumber;
    if (requires_grad) t->flags |= kRequiresGrad;
    return take_object(std::move(t));
  }
  Tensor* t = new_subclass(type);
  t->dtype = source.dtype;
  t->device = source.device;
  set_dims(*t, source.shape(), source.stride());
  t->storage = source.storage;
  if (t->storage) retain(t->storage);
  t->data = source.data;
  t->flags |= source.flags & kPending;
  if (requires_grad) t->flags |= kRequiresGrad;
  return py(t);
}

namespace {

PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY},
                         {}};

PyObject* disabled(PyObject*, PyObject*, PyObject*) { Py_RETURN_NOTIMPLEMENTED; }
PyMethodDef disabled_def = {"_disabled_torch_function_impl", method<disabled>(), METH_VARARGS | METH_KEYWORDS,
                            "As a class's __torch_function__: its tensors take part in operators like plain ones."};

}  // namespace

void add_tensor_type(PyObject* module) {
  s_function = PyUnicode_InternFromString("__torch_function__");
  s_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  disabled_override = checked(PyCFunction_New(&disabled_def, nullptr)).give();
  checked(PyModule_AddObjectRef(module, "_disabled_torch_function_impl", disabled_override));
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, type_slot<tensor_new>()},
      {Py_tp_dealloc, type_slot<tensor_dealloc>()},
      {Py_tp_traverse, type_slot<tensor_traverse>()},
      {Py_tp_clear, type_slot<tensor_clear>()},
      {Py_tp_setattro, type_slot<set_attribute>()},
      {Py_tp_getset, tensor_getset},
      {Py_tp_methods, tensor_methods},
      {Py_tp_members, members},
      {Py_bf_getbuffer, type_slot<get_buffer>()},
      {Py_bf_releasebuffer, type_slot<release_buffer>()},
      {Py_tp_doc, (void*)"Tensor(*args)\n--\n\nAn array of one dtype on one device, with gradients."}};
  add_number_slots(slots);
  slots.push_back({0, nullptr});
  static PyType_Spec spec = {"flambeau.Tensor", sizeof(Tensor), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, nullptr};
  spec.slots = slots.data();
  TensorType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  for (PyMethodDef* m = conversion_methods; m->ml_name; ++m)
    checked(PyObject_SetAttrString((PyObject*)TensorType, m->ml_name, checked(PyDescr_NewMethod(TensorType, m)).p));
  checked(PyModule_AddFunctions(module, conversion_functions));
  checked(PyModule_AddObjectRef(module, "Tensor", (PyObject*)TensorType));
  checked(PyModule_AddObject(module, "_legacy_tensor", checked(PyCFunction_New(&legacy_tensor_def, nullptr)).give()));
}

namespace upward {

Tensor* allocate_object() { return new_exact(); }
void release_object(Object* o) { _Py_Dealloc(py(o)); }
void free_object(Object* o) {
  PyTypeObject* type = Py_TYPE(py(o));
  PyObject_GC_Del(o);
  Py_DECREF(type);
}
void track_object(Object* o) {
  if (!is_tracked(py(o))) PyObject_GC_Track(py(o));
}

}  // namespace upward

}  // namespace flambeau
