// The attributes of tensors: what shape, grad, data and their kind answer, and what may be set.
#include "../core/pending.h"
#include "../core/stamp.h"
#include "tensor_type.h"

namespace flambeau {
namespace {

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
PyObject* get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(self(o).device.type == DeviceType::CUDA); }
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

}  // namespace

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

namespace {

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


// .data: the same memory with a version counter of its own, so that writes through it go unnoticed by autograd.
PyObject* get_data(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    if (self(o).flags & kDispatch) return take_object(detach_wrapper(self(o)));
    need_memory(self(o));
    TensorRef t = alias(self(o));
    t->flags &= ~kInference;
    if (Storage* shared = t->storage) {
      t->storage = blank_storage();
      show_memory(*t->storage, shared);  // takes over the alias's count
    }
    if (self(o).flags & kOverrides && !tls.overrides_disabled) return as_subclass(Py_TYPE(o), *t, false);
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
    need_memory(v);  // a wrapper has none to share
    set_dims(t, v.shape(), v.stride());  // first: the one thing here that may fail
    if (v.storage) retain(v.storage);
    if (t.storage && v.storage && stamp_of(*t.storage)) follow_writes(*v.storage);
    Storage* old = std::exchange(t.storage, v.storage);
    t.data = v.data;
    t.flags = uint16_t((t.flags & ~(kPending | kLazy)) | (v.flags & kLazy));  // v passed the gate
    t.dtype = v.dtype;
    t.device = v.device;
    if (old) release(old);
    return 0;
  });
}

}  // namespace

// An object with attributes may be part of a cycle (x.me = x).
int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(o, name, value);
  if (self(o).dict) hooks.track_object(&self(o));
  return status;
}

namespace {

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

}  // namespace

PyGetSetDef tensor_getset[] = {
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
    {"is_cuda", slot<get_is_cuda>, nullptr, "Whether it is on a CUDA device."},
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

}  // namespace flambeau
