// The Tensor type: life cycle, attributes, and the methods that are not operators.
#include <cstring>

#include "python.h"
#include "slot.h"
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
  if (d && d != Py_None && d != disabled_override) t->flags |= kDispatch;
  return t;
}

namespace {

// A long chain of gradients of gradients must not recurse: each gives up its own before it goes.
void release_gradient(Tensor* g) {
  while (g->refcount == 1 && g->grad && !g->weakrefs) release(std::exchange(g, std::exchange(g->grad, nullptr)));
  release(g);
}

void drop_references(Tensor* t) {
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
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
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

bool is_size(PyObject* o) {
  return !PyBool_Check(o) && !is_tensor(o) && !PyFloat_Check(o) && !PySequence_Check(o) && PyIndex_Check(o);
}

// What Tensor(...) is given: sizes, or one object.
struct LegacyArguments {
  PyObject* shape = nullptr;  // a tuple of sizes
  PyObject* data = nullptr;
  Py_ssize_t n;
};

LegacyArguments legacy_arguments(PyObject* args, PyObject* kwargs) {
  LegacyArguments a{.n = PyTuple_GET_SIZE(args)};
  if (a.n == 1) a.data = PyTuple_GET_ITEM(args, 0);
  PyObject *key, *value;
  for (Py_ssize_t k = 0; kwargs && PyDict_Next(kwargs, &k, &key, &value);) {
    std::string name = text_of(key);
    if (name == "device") {
      if (value == Py_None) continue;
      Device d = parse_device(value);
      if (d.type != DeviceType::CPU)
        runtime_error("Tensor(): makes tensors on the CPU, got device ", device_name({d.type, -1}),
                      "; use flambeau.empty or tensor");
    } else if (name == "size" && a.n == 0 && PyTuple_Check(value)) {
      a.shape = value;
    } else if ((name == "data" || name == "other") && a.n == 0) {
      a.data = value, a.n = 1;
    } else {
      type_error("new() got an unexpected keyword argument '", name, "'; it takes sizes, size=, data= or device=");
    }
  }
  if (!a.shape && a.data && Py_TYPE(a.data) == SizeType) a.shape = a.data;
  bool all_sizes = a.n > 0 && PyTuple_GET_SIZE(args) == a.n;
  for (Py_ssize_t k = 0; all_sizes && k < a.n; ++k) all_sizes = is_size(PyTuple_GET_ITEM(args, k));
  if (all_sizes || (a.n == 0 && !a.shape)) a.shape = args;
  return a;
}

TensorRef tensor_of_sizes(PyObject* shape, bool none, DType dtype) {
  std::vector<int64_t> dims;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); ++k) {
    dims.push_back(PyNumber_AsSsize_t(PyTuple_GET_ITEM(shape, k), PyExc_OverflowError));
    if (dims.back() == -1 && PyErr_Occurred()) throw PythonError();
  }
  if (none) dims.push_back(0);
  for (int64_t size : dims)
    if (size < 0) runtime_error("sizes must not be negative, got ", size, " in ", shape_text(dims));
  return empty(dims, dtype);
}

// (), (2, 3), (Size), (size=…): an uninitialised tensor; (data): a sequence of numbers, an array; (storage): over its
// memory.
TensorRef legacy_tensor(DType dtype, PyObject* args, PyObject* kwargs) {
  const LegacyArguments a = legacy_arguments(args, kwargs);
  if (a.shape) return tensor_of_sizes(a.shape, a.n == 0 && a.shape == args, dtype);
  if (a.n != 1)
    type_error("new(): got ", a.n, " arguments; it takes sizes, one sequence, one tensor or one storage; use "
               "flambeau.tensor(data)");
  if (is_tensor(a.data)) {
    if (as_tensor(a.data)->dtype != dtype)
      type_error("new(): expected a tensor of ", dtype_name(dtype), ", got ", dtype_name(as_tensor(a.data)->dtype),
                 "; use x.to(dtype)");
    return alias(*as_tensor(a.data));
  }
  if (PyObject_HasAttrString(a.data, "_elements")) {  // a storage
    Held t = checked(PyObject_CallMethod(a.data, "_elements", "O", dtype_object(dtype)));
    return TensorRef::borrow(as_tensor(t.p));
  }
  if (PyUnicode_Check(a.data) || PyBytes_Check(a.data))
    type_error("new(): invalid data type '", Py_TYPE(a.data)->tp_name, "'");
  if (!PySequence_Check(a.data) && !PyObject_CheckBuffer(a.data))
    type_error("new(): expected a sequence of numbers, got ", Py_TYPE(a.data)->tp_name);
  if (is_integral(dtype))
    return to_dtype(*tensor_from_data(a.data, DType::Undefined), dtype);  // numbers are cut, not refused
  return tensor_from_data(a.data, dtype);
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    bool copy = PyTuple_GET_SIZE(args) == 1 && is_tensor(PyTuple_GET_ITEM(args, 0));  // of any dtype
    TensorRef t =
        copy ? TensorRef::borrow(as_tensor(PyTuple_GET_ITEM(args, 0))) : legacy_tensor(default_dtype(), args, kwargs);
    if (type == TensorType && !copy) return take_object(std::move(t));
    return as_subclass(type, *t, false);
  });
}

// _legacy_tensor(dtype, args, kwargs)
PyObject* legacy_tensor_object(PyObject*, PyObject* args) {
  PyObject *dtype, *positional, *keywords;
  if (!PyArg_ParseTuple(args, "O!O!O!", DTypeType, &dtype, &PyTuple_Type, &positional, &PyDict_Type, &keywords))
    return nullptr;
  return guarded(
      [&] { return take_object(legacy_tensor(reinterpret_cast<DTypeObject*>(dtype)->dtype, positional, keywords)); });
}
PyMethodDef legacy_def = {"_legacy_tensor", slot<legacy_tensor_object>, METH_VARARGS, nullptr};

// --- attributes ------------------------------------------------------------------------------------------------------

Tensor& self(PyObject* o) { return *as_tensor(o); }

PyObject* get_shape(PyObject* o, void*) { return size_object(self(o).shape()); }
PyObject* get_dtype(PyObject* o, void*) { return Py_NewRef(dtype_object(self(o).dtype)); }
PyObject* get_device(PyObject* o, void*) { return device_object(self(o).device); }
PyObject* get_layout(PyObject*, void*) { return Py_NewRef(format_object(100)); }
PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLong(self(o).ndim); }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(self(o).itemsize()); }
PyObject* get_nbytes(PyObject* o, void*) {
  return PyLong_FromLongLong(size_product("nbytes", {self(o).numel, self(o).itemsize()}));
}
PyObject* get_requires_grad(PyObject* o, void*) { return PyBool_FromLong(tensor_requires_grad(self(o))); }
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_is_meta(PyObject* o, void*) { return PyBool_FromLong(self(o).is_meta()); }
PyObject* get_is_cpu(PyObject* o, void*) { return PyBool_FromLong(self(o).device.type == DeviceType::CPU); }
PyObject* get_is_leaf(PyObject* o, void*) { return PyBool_FromLong(!grad_fn_of(self(o))); }
PyObject* get_output_nr(PyObject* o, void*) { return PyLong_FromLong(self(o).grad_fn ? self(o).output_nr : 0); }
PyObject* get_version(PyObject* o, void*) {
  if (!(self(o).flags & kInference)) return PyLong_FromUnsignedLongLong(self(o).storage ? self(o).storage->version : 0);
  PyErr_SetString(PyExc_RuntimeError, "a tensor made under inference_mode counts no versions");
  return nullptr;
}
PyObject* get_base(PyObject* o, void*) { return Py_NewRef(self(o).base ? py(self(o).base) : Py_None); }
PyObject* get_grad(PyObject* o, void*) {
  Tensor& t = self(o);
  if (t.grad) return Py_NewRef(py(t.grad));
  if (t.grad_fn && !(t.flags & kRetainGrad) &&
      PyErr_WarnEx(PyExc_UserWarning, "grad of a tensor that is not a leaf is read: backward() fills only that of "
                   "leaves. Call retain_grad() on this tensor before backward(), or ask the leaf.", 1) < 0)
    return nullptr;
  Py_RETURN_NONE;
}
PyObject* get_retains_grad(PyObject* o, void*) { return PyBool_FromLong(self(o).flags & kRetainGrad); }
PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] {
    Node* n = grad_fn_of(self(o));
    return n ? node_object(*n) : Py_NewRef(Py_None);
  });
}
int set_requires_grad_of(Tensor& t, bool on) {
  if (t.grad_fn) {
    if (on) return 0;
    runtime_error("requires_grad can be changed on leaves only, and this tensor was computed; x.detach() is a leaf");
  }
  if (on && !is_differentiable(t.dtype))
    runtime_error("requires_grad=True needs a floating-point or complex dtype, got ", dtype_name(t.dtype));
  if (on && t.flags & kInference && !tls.inference_enabled)
    runtime_error("requires_grad=True: this tensor was made under inference_mode; clone() it first");
  t.flags = uint16_t(on ? t.flags | kRequiresGrad : t.flags & ~kRequiresGrad);
  return 0;
}
int set_requires_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !PyBool_Check(value)) runtime_error("requires_grad must be a bool");
    return set_requires_grad_of(self(o), value == Py_True);
  });
}
int set_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    Tensor& t = self(o);
    Tensor* g = nullptr;
    if (value && value != Py_None) {
      if (!is_tensor(value)) type_error("grad must be a Tensor or None, got ", Py_TYPE(value)->tp_name);
      g = as_tensor(value);
      if (g == &t) runtime_error("a tensor cannot be its own grad");
      if (g->dtype != t.dtype) runtime_error("grad must have the tensor's dtype ", dtype_name(t.dtype), ", got ",
                                             dtype_name(g->dtype));
      if (g->device != t.device)
        runtime_error("grad must be on the tensor's device, ", device_name(t.device), ", got ", device_name(g->device));
      if (!(g->ndim == t.ndim && std::equal(t.sizes, t.sizes + t.ndim, g->sizes)))
        runtime_error("grad must have the tensor's shape ", shape_text(t.shape()), ", got ", shape_text(g->shape()));
      retain(g);
      hooks.track_object(&t);
    }
    if (Tensor* old = std::exchange(t.grad, g)) release(old);
    return 0;
  });
}

void release_context(Storage* s) { release(static_cast<Storage*>(s->context)); }

// .data: the same memory with a version counter of its own, so that writes through it go unnoticed by autograd.
PyObject* get_data(PyObject* o, void*) {
  return guarded([&] {
    if (self(o).flags & kDispatch) return take_object(detach_wrapper(self(o)));
    need_values(self(o));
    TensorRef t = alias(self(o));
    t->flags &= ~kInference;
    if (Storage* shared = t->storage) {
      Storage* s = blank_storage();
      s->data = shared->data;
      s->nbytes = shared->nbytes;
      s->device = shared->device;
      s->readonly = shared->readonly;
      s->resizable = false;
      if (shared->free == release_context) {  // .data of .data: straight to the owner, no chain
        retain(static_cast<Storage*>(shared->context));
        release(std::exchange(shared, static_cast<Storage*>(shared->context)));
      }
      s->context = shared;  // takes over the alias's count
      s->free = release_context;
      t->storage = s;
    }
    return take_object(std::move(t));
  });
}
int set_data(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !is_tensor(value)) type_error("data must be a Tensor, got ",
                                                value ? Py_TYPE(value)->tp_name : "nothing");
    Tensor &t = self(o), &v = self(value);
    await_calls(t);
    if (t.level || v.level) runtime_error("data of a tensor inside a transform cannot be set");
    if (t.dtype != v.dtype && t.requires_grad() && !is_differentiable(v.dtype)) runtime_error("this tensor requires "
        "grad, so its data must be floating point or complex, got ", dtype_name(v.dtype));
    if (t.base) runtime_error("data of a view cannot be set");
    need_values(v);  // a wrapper has no memory to share
    set_dims(t, v.shape(), v.stride());  // first: the one thing here that may fail
    if (v.storage) retain(v.storage);
    Storage* old = std::exchange(t.storage, v.storage);
    t.data = v.data;
    t.flags &= uint16_t(~kPending);  // v passed the gate
    t.dtype = v.dtype;
    t.device = v.device;
    if (old) release(old);
    return 0;
  });
}

// An object with attributes may be part of a cycle (x.me = x).
int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(o, name, value);
  if (self(o).dict) hooks.track_object(&self(o));
  return status;
}
PyObject* get_dict(PyObject* o, void*) {
  PyObject* dict = PyObject_GenericGetDict(o, nullptr);
  if (dict) hooks.track_object(&self(o));
  return dict;
}
int set_dict(PyObject* o, PyObject* value, void*) {
  int status = PyObject_GenericSetDict(o, value, nullptr);
  if (status == 0) hooks.track_object(&self(o));
  return status;
}

PyGetSetDef getset[] = {
    {"shape", slot<get_shape>, nullptr, "The sizes of the dimensions, as a Size."},
    {"dtype", slot<get_dtype>, nullptr, "The element type."},
    {"device", slot<get_device>, nullptr, "Where the memory is."},
    {"layout", slot<get_layout>, nullptr, "How the memory is organised: strided."},
    {"ndim", slot<get_ndim>, nullptr, "Number of dimensions."},
    {"itemsize", slot<get_itemsize>, nullptr, "Bytes of one element."},
    {"nbytes", slot<get_nbytes>, nullptr, "Bytes of all elements."},
    {"requires_grad", slot<get_requires_grad>, slot<set_requires_grad>, "Whether gradients flow to this tensor."},
    {"grad", slot<get_grad>, slot<set_grad>, "The gradient that backward() accumulated, or None."},
    {"grad_fn", slot<get_grad_fn>, nullptr, "The graph node that made this tensor, or None."},
    {"is_leaf", slot<get_is_leaf>, nullptr, "Whether no recorded operation made this tensor."},
    {"retains_grad", slot<get_retains_grad>, nullptr, "Whether retain_grad() was called on this non-leaf tensor."},
    {"data", slot<get_data>, slot<set_data>, "The same memory without history."},
    {"output_nr", slot<get_output_nr>, nullptr, "Which result of grad_fn this is."},
    {"_version", slot<get_version>, nullptr, "How often the memory was written in place."},
    {"_base", slot<get_base>, nullptr, "The tensor this is a view of, or None."},
    {"is_cuda", slot<get_false>, nullptr, "Whether it is on a CUDA device."},
    {"is_sparse", slot<get_false>, nullptr, "False: every tensor is strided."},
    {"is_quantized", slot<get_false>, nullptr, "False: no tensor is quantized."},
    {"is_mps", slot<get_false>, nullptr, "False: this build has no MPS device."},
    {"is_nested", slot<get_false>, nullptr, "False: no tensor is nested."},
    {"is_sparse_csr", slot<get_false>, nullptr, "False: every tensor is strided."},
    {"is_xpu", slot<get_false>, nullptr, "False: this build has no XPU device."},
    {"is_mkldnn", slot<get_false>, nullptr, "False: every tensor is strided."},
    {"is_cpu", slot<get_is_cpu>, nullptr, "Whether it is on the CPU."},
    {"is_meta", slot<get_is_meta>, nullptr, "Whether it has no elements, only a shape, a dtype and strides."},
    {"__dict__", slot<get_dict>, slot<set_dict>},
    {}};

// --- methods that are not operators ---------------------------------------------------------------------------------

// The one argument of size() and stride(), a dimension: null where none (or None) is given.
PyObject* only_dim(PyObject* const* a, Py_ssize_t n, PyObject* kw, const char* name) {
  const Py_ssize_t named = kw ? PyTuple_GET_SIZE(kw) : 0;
  if (n + named > 1) type_error(name, " takes one argument, dim, but ", n + named, " were given");
  if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, 0), "dim"))
    type_error(name, " takes one argument, dim, and none called ", text_of(PyTuple_GET_ITEM(kw, 0)));
  return n + named == 0 || a[0] == Py_None ? nullptr : a[0];
}
int dim_of(PyObject* index, const Tensor& t, const char* name) {
  const int64_t d = integer_of(index);
  if (t.ndim == 0) index_error(name, ": dim ", d, " of a tensor that has no dimensions");
  return int(wrap_dim(d, t.ndim, name));
}
PyObject* t_size(PyObject* o, PyObject* const* a, Py_ssize_t n, PyObject* kw) {
  if (n == 0 && !kw) return size_object(self(o).shape());
  return guarded([&] {
    PyObject* dim = only_dim(a, n, kw, "size");
    return dim ? PyLong_FromLongLong(self(o).size(dim_of(dim, self(o), "size"))) : size_object(self(o).shape());
  });
}
PyObject* t_stride(PyObject* o, PyObject* const* a, Py_ssize_t n, PyObject* kw) {
  return guarded([&] {
    PyObject* dim = only_dim(a, n, kw, "stride");
    const Tensor& t = self(o);
    return dim ? PyLong_FromLongLong(t.strides[dim_of(dim, t, "stride")]) : value_object(Value(t.stride()));
  });
}
PyObject* t_dim(PyObject* o, PyObject*) { return PyLong_FromLong(self(o).ndim); }
PyObject* t_numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(self(o).numel); }
void need_address(const Tensor& t) {  // of a wrapper the address is asked, too: it says nothing
  if (t.flags & kPending) need_values(t);
}
PyObject* t_data_ptr(PyObject* o, PyObject*) {
  return guarded([&] {
    need_address(self(o));
    return PyLong_FromVoidPtr(self(o).data);
  });
}
PyObject* t_storage_ptr(PyObject* o, PyObject*) {
  return guarded([&] {
    need_address(self(o));
    return PyLong_FromVoidPtr(self(o).storage ? self(o).storage->data : nullptr);
  });
}
PyObject* t_storage_nbytes(PyObject* o, PyObject*) {
  return PyLong_FromSize_t(self(o).storage ? self(o).storage->nbytes : 0);
}
PyObject* t_storage_offset(PyObject* o, PyObject*) { return PyLong_FromLongLong(self(o).offset()); }
PyObject* t_element_size(PyObject* o, PyObject*) { return PyLong_FromLongLong(self(o).itemsize()); }
PyObject* t_is_floating(PyObject* o, PyObject*) { return PyBool_FromLong(is_floating(self(o).dtype)); }
PyObject* t_is_complex(PyObject* o, PyObject*) { return PyBool_FromLong(is_complex(self(o).dtype)); }
PyObject* t_get_device(PyObject* o, PyObject*) { return PyLong_FromLong(self(o).device.index); }
PyObject* t_is_inference(PyObject* o, PyObject*) { return PyBool_FromLong(self(o).flags & kInference); }

bool channels_last(const Tensor& t, int ndim) {  // dense with the channel dimension innermost
  if (t.ndim != ndim) return false;
  int64_t step = 1;
  std::vector<int> order{1};
  for (int k = ndim - 1; k > 1; --k) order.push_back(k);
  order.push_back(0);
  for (int k : order) {
    if (t.sizes[k] != 1 && t.strides[k] != step) return false;
    step *= t.sizes[k];
  }
  return true;
}
PyObject* t_is_contiguous(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"memory_format", nullptr};
  PyObject* format = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &format)) return nullptr;
  int code = format && Py_TYPE(format) == FormatType ? reinterpret_cast<FormatObject*>(format)->code : 0;
  if (code == 1 || code == 2) return PyBool_FromLong(channels_last(self(o), code + 3));
  return PyBool_FromLong(self(o).contiguous());
}

PyObject* t_item(PyObject* o, PyObject*) {
  return guarded([&] {
    Tensor& t = self(o);
    if (t.numel != 1) runtime_error("item(): only a tensor of one element is a number, got ", t.numel, " elements");
    if (t.is_meta()) runtime_error("item(): a tensor on the meta device has no data");
    TensorRef inner = readable(t);
    return element_object(*inner, inner->data);
  });
}

PyObject* list_of(const Tensor& t, int dim, const char* data) {
  if (dim == t.ndim) return element_object(t, data);
  Held list = checked(PyList_New(t.sizes[dim]));
  for (int64_t k = 0; k < t.sizes[dim]; ++k) {
    PyObject* item = list_of(t, dim + 1, data + k * t.strides[dim] * t.itemsize());
    if (!item) throw PythonError();
    PyList_SET_ITEM(list.p, k, item);
  }
  return list.give();
}
PyObject* t_tolist(PyObject* o, PyObject*) {
  return guarded([&] {
    if (self(o).is_meta()) runtime_error("tolist(): a tensor on the meta device has no data");
    TensorRef inner = readable(self(o));
    return list_of(*inner, 0, inner->data);
  });
}

PyObject* t_detach(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (self(o).flags & kDispatch) return take_object(detach_wrapper(self(o)));
    if (self(o).flags & kOverrides) {
      PyTypeObject* type = Py_TYPE(o);
      return as_subclass(type, self(o), false);
    }
    return take_object(alias(self(o)));
  });
}
PyObject* t_detach_(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor& t = self(o);
    if (t.base) runtime_error("detach_: this tensor is a view, whose base would keep the history; use detach()");
    if (Node* n = std::exchange(t.grad_fn, nullptr)) release(n);
    t.flags &= ~(kRequiresGrad | kRetainGrad);
    t.output_nr = 0;
    return Py_NewRef(o);
  });
}
PyObject* t_requires_grad_(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"requires_grad", nullptr};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &on)) return nullptr;
  return guarded([&] {
    set_requires_grad_of(self(o), on);
    return Py_NewRef(o);
  });
}
PyObject* t_make_subclass(PyObject*, PyObject* args) {
  PyObject *type, *data;
  int requires_grad = 0;
  if (!PyArg_ParseTuple(args, "O!O|p", &PyType_Type, &type, &data, &requires_grad)) return nullptr;
  return guarded([&] {
    if (!is_tensor(data)) type_error("expected a Tensor, got ", Py_TYPE(data)->tp_name);
    auto* t = reinterpret_cast<PyTypeObject*>(type);
    if (!PyType_IsSubtype(t, TensorType)) type_error("cls must be a subclass of Tensor, got ", t->tp_name);
    if (requires_grad && !is_differentiable(self(data).dtype))
      runtime_error("requires_grad=True needs a floating-point or complex dtype, got ", dtype_name(self(data).dtype));
    if (requires_grad && self(data).flags & kInference && !tls.inference_enabled)
      runtime_error("requires_grad=True: this tensor was made under inference_mode; clone() it first");
    return as_subclass(t, self(data), requires_grad);
  });
}
PyObject* t_as_subclass(PyObject* o, PyObject* type) {  // keeps the history
  return guarded([&] {
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject*)type, TensorType))
      type_error("as_subclass: cls must be a subclass of Tensor");
    PyObject* r = as_subclass((PyTypeObject*)type, self(o), false);
    if (Node* fn = grad_fn_of(self(o)))
      set_history(self(r), fn, self(o).output_nr);
    else if (self(o).flags & kRequiresGrad)
      self(r).flags |= kRequiresGrad;
    return r;
  });
}
PyObject* t_set_storage(PyObject* o,
                        PyObject* args) {  // _set_storage(source, offset, shape, strides): a view of source's memory
  PyObject *source, *shape, *strides;
  long long offset;
  if (!PyArg_ParseTuple(args, "O!LO!O!", TensorType, &source, &offset, &PyTuple_Type, &shape, &PyTuple_Type, &strides))
    return nullptr;
  return guarded([&] {
    const std::vector<int64_t> sizes = integers_of(shape), steps = integers_of(strides);
    if (sizes.size() != steps.size()) runtime_error("_set_storage: shape and strides must have the same length");
    Tensor &t = self(o), &s = self(source);
    await_calls(t);
    need_values(t), need_values(s);
    int64_t low = offset, high = offset, room = s.storage ? int64_t(s.storage->nbytes) / s.itemsize() : 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
      int64_t reach;
      if (sizes[k] < 0 || __builtin_mul_overflow(sizes[k] - 1, steps[k], &reach))
        runtime_error("_set_storage: bad shape ", shape_text(sizes));
      if (__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
        runtime_error("_set_storage: shape ", shape_text(sizes), " overflows");
    }
    if (count(sizes) > 0 && (low < 0 || high >= room))
      runtime_error("_set_storage: shape ", shape_text(sizes), " with strides ", shape_text(steps),
                    " reaches outside the storage of ", room, " elements");
    set_dims(t, sizes, steps);  // first: the one thing here that may fail
    if (s.storage) retain(s.storage);
    Storage* old = std::exchange(t.storage, s.storage);
    t.dtype = s.dtype;
    t.device = s.device;
    t.data = static_cast<char*>(t.storage->data) + offset * t.itemsize();
    if (old) release(old);
    return Py_NewRef(o);
  });
}
PyObject* t_bump_version(PyObject* o, PyObject*) {
  bump_version(self(o));
  Py_RETURN_NONE;
}
PyObject* t_is_view(PyObject* o, PyObject*) { return PyBool_FromLong(self(o).base != nullptr); }

PyMethodDef methods[] = {
    {"size", method<t_size>(), METH_FASTCALL | METH_KEYWORDS,
     "size($self, /, dim=None)\n--\n\nAll sizes as a Size, or that of one dimension."},
    {"stride", method<t_stride>(), METH_FASTCALL | METH_KEYWORDS,
     "stride($self, /, dim=None)\n--\n\nSteps between elements, in elements."},
    {"dim", slot<t_dim>, METH_NOARGS, "dim($self, /)\n--\n\nNumber of dimensions."},
    {"ndimension", slot<t_dim>, METH_NOARGS, "ndimension($self, /)\n--\n\nNumber of dimensions."},
    {"numel", slot<t_numel>, METH_NOARGS, "numel($self, /)\n--\n\nNumber of elements."},
    {"nelement", slot<t_numel>, METH_NOARGS, "nelement($self, /)\n--\n\nNumber of elements."},
    {"data_ptr", slot<t_data_ptr>, METH_NOARGS, "data_ptr($self, /)\n--\n\nAddress of the first element."},
    {"_storage_ptr", slot<t_storage_ptr>, METH_NOARGS,
     "_storage_ptr($self, /)\n--\n\nAddress of the storage's first byte."},
    {"_storage_nbytes", slot<t_storage_nbytes>, METH_NOARGS, "_storage_nbytes($self, /)\n--\n\nBytes of the storage."},
    {"_set_storage", slot<t_set_storage>, METH_VARARGS,
     "_set_storage($self, /, *args)\n--\n\nViews another storage from here on."},
    {"storage_offset", slot<t_storage_offset>, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nElements between the start of the storage and the first element."},
    {"element_size", slot<t_element_size>, METH_NOARGS, "element_size($self, /)\n--\n\nBytes of one element."},
    {"is_floating_point", slot<t_is_floating>, METH_NOARGS,
     "is_floating_point($self, /)\n--\n\nWhether the dtype is a floating-point type."},
    {"is_complex", slot<t_is_complex>, METH_NOARGS, "is_complex($self, /)\n--\n\nWhether the dtype is complex."},
    {"is_inference", slot<t_is_inference>, METH_NOARGS,
     "is_inference($self, /)\n--\n\nWhether it was made in inference mode."},
    {"get_device", slot<t_get_device>, METH_NOARGS, "get_device($self, /)\n--\n\nIndex of the device; -1 on the CPU."},
    {"is_contiguous", method<t_is_contiguous>(), METH_VARARGS | METH_KEYWORDS,
     "is_contiguous($self, /, memory_format=None)\n--\n\nWhether the elements lie in that order without gaps."},
    {"item", slot<t_item>, METH_NOARGS, "item($self, /)\n--\n\nThe only element, as a Python number."},
    {"tolist", slot<t_tolist>, METH_NOARGS, "tolist($self, /)\n--\n\nThe elements as nested lists (a number for 0-d)."},
    {"detach", slot<t_detach>, METH_NOARGS, "detach($self, /)\n--\n\nThe same memory without history."},
    {"detach_", slot<t_detach_>, METH_NOARGS, "detach_($self, /)\n--\n\nForgets this tensor's history."},
    {"requires_grad_", method<t_requires_grad_>(), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_($self, /, requires_grad=True)\n--\n\nSets requires_grad; returns self."},
    {"_make_subclass", slot<t_make_subclass>, METH_VARARGS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False, /)\n--\n\nThe memory of `data` as an instance of cls."},
    {"as_subclass", slot<t_as_subclass>, METH_O,
     "as_subclass($self, cls, /)\n--\n\nThe same tensor as an instance of cls."},
    {"_bump_version", slot<t_bump_version>, METH_NOARGS,
     "_bump_version($self, /)\n--\n\nCounts one more write: what autograd saved before is stale."},
    {"_is_view", slot<t_is_view>, METH_NOARGS,
     "_is_view($self, /)\n--\n\nWhether it shares the memory of a tensor it was made from."},
    {}};

// --- buffer protocol
// --------------------------------------------------------------------------------------------------

const char* buffer_format(DType d) {
  switch (d) {
    case DType::Bool: return "?";
    case DType::UInt8: return "B";
    case DType::Int8: return "b";
    case DType::Int16: return "h";
    case DType::UInt16: return "H";
    case DType::Int32: return "i";
    case DType::UInt32: return "I";
    case DType::Int64: return "q";
    case DType::UInt64: return "Q";
    case DType::Float16: return "e";
    case DType::Float32: return "f";
    case DType::Float64: return "d";
    case DType::Complex64: return "Zf";
    case DType::Complex128: return "Zd";
    default: return nullptr;
  }
}

// What a consumer of the buffer holds until it gives it back. The memory is its storage's, not the tensor's: `x.data =
// …` may give the tensor another one meanwhile.
struct GivenBuffer {
  Storage* storage;
  std::vector<Py_ssize_t> dims;  // sizes, then steps in bytes
  explicit GivenBuffer(const Tensor& t) : storage(t.storage), dims(2 * size_t(t.ndim) + 1) {
    for (int k = 0; k < t.ndim; ++k) {
      dims[size_t(k)] = t.sizes[k];
      dims[size_t(t.ndim + k)] = t.strides[k] * t.itemsize();
    }
    retain(storage);
  }
  ~GivenBuffer() { release(storage); }
};

int get_buffer(PyObject* o, Py_buffer* view, int flags) {
  Tensor& t = self(o);
  if (t.flags & kPending && guarded_int([&] { return need_values(t), 0; }) < 0) return -1;
  const char* format = buffer_format(t.dtype);
  const char* problem = t.flags & kDispatch && (t.level || !t.storage || !t.storage->data)
                            ? "its values are not in its own memory (it is inside a transform, or a wrapper)"
                        : !t.storage                                      ? "it has no memory"
                        : !format                                         ? "its dtype has no buffer format"
                        : t.is_meta()                                     ? "meta tensors have no data"
                        : t.device.type != DeviceType::CPU ? "its memory is on another device: export x.cpu()"
                        : tls.grad_enabled && tensor_requires_grad(t)         ? "it requires grad: export x.detach()"
                        : (flags & PyBUF_WRITABLE) && t.storage->readonly ? "its memory is read-only"
                                                                          : nullptr;
  if (!(flags & PyBUF_STRIDES) && !t.contiguous()) problem = "it is not contiguous";
  if (problem) {
    PyErr_Format(PyExc_BufferError, "Tensor: %s", problem);
    return -1;
  }
  const int64_t nbytes = size_product("Tensor", {t.numel, t.itemsize()});
  t.storage->resizable = false;  // the address was given away
  auto* given = new GivenBuffer(t);
  *view = Py_buffer{};
  view->buf = t.data;
  view->obj = Py_NewRef(o);
  view->len = nbytes;
  view->itemsize = t.itemsize();
  view->readonly = t.storage->readonly;
  view->ndim = t.ndim;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? given->dims.data() : nullptr;
  view->strides = flags & PyBUF_STRIDES ? given->dims.data() + t.ndim : nullptr;
  view->internal = given;
  return 0;
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<GivenBuffer*>(view->internal); }

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
      {Py_tp_getset, getset},
      {Py_tp_methods, methods},
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
  checked(PyModule_AddObjectRef(module, "Tensor", (PyObject*)TensorType));
  checked(PyModule_AddObject(module, "_legacy_tensor", checked(PyCFunction_New(&legacy_def, nullptr)).give()));
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
  if (!PyObject_GC_IsTracked(py(o))) PyObject_GC_Track(py(o));
}

}  // namespace upward

}  // namespace flambeau
