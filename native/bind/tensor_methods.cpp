// The methods of tensors that are not operators: sizes and addresses, items, history, subclasses.
#include "../core/recording.h"
#include "../core/stamp.h"
#include "tensor_type.h"

namespace flambeau {
namespace {

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
  if (t.flags & kPending) need_memory(t);
  about_to_read(t);
  about_to_write(t);  // by whoever asks
  if (t.storage) lose_writes(*t.storage);
}
PyObject* t_data_ptr(PyObject* o, PyObject*) {
  return guarded([&] {
    need_address(self(o));
    return PyLong_FromVoidPtr(self(o).numel ? self(o).data : nullptr);
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
PyObject* t_is_conj(PyObject* o, PyObject*) { return PyBool_FromLong(self(o).flags & kConj); }
PyObject* t_is_neg(PyObject* o, PyObject*) { return PyBool_FromLong(self(o).flags & kNeg); }
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
    if (!(t.flags & kIndirect || t.level || tls.dispatch_modes) && t.device.type == DeviceType::CPU)
      return element_object(t, t.data);  // nothing stands between it and its memory
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
    const bool keeps_class = self(o).flags & kOverrides && !tls.overrides_disabled;
    return keeps_class ? as_subclass(Py_TYPE(o), self(o), false) : take_object(alias(self(o)));
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
PyObject* t_make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"", "data", "require_grad", "dispatch_sizes_strides_policy", "dispatch_device",
                                "dispatch_layout", nullptr};
  PyObject *type, *data, *policy = Py_None;
  int requires_grad = 0, device = 0, layout = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|p$Opp", const_cast<char**>(names), &PyType_Type, &type, &data,
                                   &requires_grad, &policy, &device, &layout))
    return nullptr;
  return guarded([&] {
    if (policy != Py_None || device || layout)
      not_implemented("_make_subclass: sizes, strides, device and layout are the data's, and no dispatch asks for "
                      "them; leave the dispatch_… arguments out");
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
    need_memory(t), need_memory(s);
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

}  // namespace

PyMethodDef tensor_methods[] = {
    {"size", method<t_size>(), METH_FASTCALL | METH_KEYWORDS,
     "size($self, /, dim=None)\n--\n\nAll sizes as a Size, or that of one dimension."},
    {"stride", method<t_stride>(), METH_FASTCALL | METH_KEYWORDS,
     "stride($self, /, dim=None)\n--\n\nSteps between elements, in elements."},
    {"dim", slot<t_dim>, METH_NOARGS, "dim($self, /)\n--\n\nNumber of dimensions."},
    {"ndimension", slot<t_dim>, METH_NOARGS, "ndimension($self, /)\n--\n\nNumber of dimensions."},
    {"numel", slot<t_numel>, METH_NOARGS, "numel($self, /)\n--\n\nNumber of elements."},
    {"nelement", slot<t_numel>, METH_NOARGS, "nelement($self, /)\n--\n\nNumber of elements."},
    {"data_ptr", slot<t_data_ptr>, METH_NOARGS,
     "data_ptr($self, /)\n--\n\nAddress of the first element; 0 where there is none."},
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
    {"is_conj", slot<t_is_conj>, METH_NOARGS,
     "is_conj($self, /)\n--\n\nWhether its memory holds the conjugate of its values (conj() computes when used)."},
    {"is_neg", slot<t_is_neg>, METH_NOARGS,
     "is_neg($self, /)\n--\n\nWhether its memory holds the negative of its values (imag of a conjugate)."},
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
    {"_make_subclass", method<t_make_subclass>(), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, /, data, require_grad=False, *, dispatch_sizes_strides_policy=None, dispatch_device=False, "
     "dispatch_layout=False)\n--\n\nThe memory of `data` as an instance of cls."},
    {"as_subclass", slot<t_as_subclass>, METH_O,
     "as_subclass($self, cls, /)\n--\n\nThe same tensor as an instance of cls."},
    {"_bump_version", slot<t_bump_version>, METH_NOARGS,
     "_bump_version($self, /)\n--\n\nCounts one more write: what autograd saved before is stale."},
    {"_is_view", slot<t_is_view>, METH_NOARGS,
     "_is_view($self, /)\n--\n\nWhether it shares the memory of a tensor it was made from."},
    {}};

}  // namespace flambeau
