// dtype, device, Size, memory formats and layouts as Python objects.
#include "../core/memory_format.h"
#include "../core/device_table.h"
#include "slot.h"
#include "symbols.h"

namespace flambeau {

PyTypeObject* DTypeType;
PyTypeObject* DeviceObjectType;
PyTypeObject* SizeType;
PyTypeObject* FormatType;

namespace {

PyObject* dtypes[kDTypes];
PyObject* formats[std::size(kFormats)];

// --- dtype
DType of(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->dtype; }
PyObject* dtype_repr(PyObject* o) { return PyUnicode_FromFormat("torch.%s", dtype_name(of(o))); }
PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(dtype_name(of(o))); }
PyObject* dtype_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(item_size(of(o))); }
PyObject* dtype_is_floating(PyObject* o, void*) { return PyBool_FromLong(is_floating(of(o))); }
PyObject* dtype_is_complex(PyObject* o, void*) { return PyBool_FromLong(is_complex(of(o))); }
PyObject* dtype_is_signed(PyObject* o, void*) {
  DType d = of(o);
  if (is_quantized(d)) runtime_error("is_signed: whether ", dtype_name(d), " holds negative numbers depends on its "
                                     "zero point");
  return PyBool_FromLong((is_differentiable(d) && d != DType::Float8_e8m0fnu) || d == DType::Int8 ||
                         d == DType::Int16 || d == DType::Int32 || d == DType::Int64);
}
PyObject* dtype_to_real(PyObject* o, PyObject*) { return Py_NewRef(dtype_object(real_of(of(o)))); }
PyObject* dtype_to_complex(PyObject* o, PyObject*) { return Py_NewRef(dtype_object(complex_of(of(o)))); }
PyGetSetDef dtype_getset[] = {
    {"itemsize", slot<dtype_itemsize>, nullptr, "Bytes of one element."},
    {"is_floating_point", slot<dtype_is_floating>, nullptr, "Whether it is a floating-point type."},
    {"is_complex", slot<dtype_is_complex>, nullptr, "Whether its numbers are complex."},
    {"is_signed", slot<dtype_is_signed>, nullptr, "Whether it holds negative numbers."},
    {}};
PyMethodDef dtype_methods[] = {{"__reduce__", slot<dtype_reduce>, METH_NOARGS},
                               {"to_real", slot<dtype_to_real>, METH_NOARGS,
                                "to_real($self, /)\n--\n\nThe real dtype of a complex number's parts; itself if real."},
                               {"to_complex", slot<dtype_to_complex>, METH_NOARGS,
                                "to_complex($self, /)\n--\n\nThe complex dtype with parts of this one."},
                               {}};
PyType_Slot dtype_slots[] = {{Py_tp_repr, type_slot<dtype_repr>()},
                             {Py_tp_getset, dtype_getset},
                             {Py_tp_methods, dtype_methods},
                             {Py_tp_doc, (void*)"The type of a tensor's elements, as float32."},
                             {}};
PyType_Spec dtype_spec = {"flambeau.dtype", sizeof(DTypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

// --- device
Device device_of(PyObject* o) { return reinterpret_cast<DeviceObject*>(o)->device; }
PyObject* device_repr(PyObject* o) {
  Device d = device_of(o);
  std::string type = device_name({d.type, -1});
  return d.index >= 0 ? PyUnicode_FromFormat("device(type='%s', index=%d)", type.c_str(), int(d.index))
                      : PyUnicode_FromFormat("device(type='%s')", type.c_str());
}
PyObject* device_str(PyObject* o) { return PyUnicode_FromString(device_name(device_of(o)).c_str()); }
PyObject* device_type(PyObject* o, void*) { return PyUnicode_FromString(device_name({device_of(o).type, -1}).c_str()); }
PyObject* device_index(PyObject* o, void*) {
  Device d = device_of(o);
  if (d.index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(d.index);
}
Py_hash_t device_hash(PyObject* o) {
  Device d = device_of(o);
  return 1000 * int(d.type) + d.index + 2;
}
PyObject* device_compare(PyObject* a, PyObject* b, int how) {
  if (Py_TYPE(a) != DeviceObjectType || Py_TYPE(b) != DeviceObjectType || (how != Py_EQ && how != Py_NE))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((device_of(a) == device_of(b)) == (how == Py_EQ));
}
PyObject* device_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("(O(N))", DeviceObjectType, device_str(o));
}
PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject *type, *index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", const_cast<char**>(names), &type, &index)) return nullptr;
  return guarded([&]() -> PyObject* {
    Device d = parse_device(type);
    if (index != Py_None) {
      if (d.index >= 0) runtime_error("device: the index is given twice, in the string and as an argument");
      const int64_t k = integer_of(index);
      if (k < 0 || k > 127) runtime_error("device: index must be between 0 and 127, got ", k);
      d.index = int8_t(k);
    }
    return device_object(d);
  });
}
// `with device:` the device of tensors that name none; the ones outside are kept for the way back
thread_local std::vector<Device> outer_devices;
PyObject* device_enter(PyObject* o, PyObject*) {
  outer_devices.push_back(default_device());
  set_default_device(device_of(o));
  return Py_NewRef(o);
}
PyObject* device_exit(PyObject*, PyObject*) {
  if (outer_devices.empty()) return PyErr_Format(PyExc_RuntimeError, "device: __exit__ without __enter__");
  set_default_device(outer_devices.back());
  outer_devices.pop_back();
  Py_RETURN_NONE;
}
PyGetSetDef device_getset[] = {{"type", slot<device_type>}, {"index", slot<device_index>}, {}};
PyMethodDef device_methods[] = {{"__reduce__", slot<device_reduce>, METH_NOARGS},
                                {"__enter__", slot<device_enter>, METH_NOARGS},
                                {"__exit__", slot<device_exit>, METH_VARARGS},
                                {}};
PyType_Slot device_slots[] = {
    {Py_tp_new, type_slot<device_new>()},
    {Py_tp_repr, type_slot<device_repr>()},
    {Py_tp_str, type_slot<device_str>()},
    {Py_tp_hash, type_slot<device_hash>()},
    {Py_tp_richcompare, type_slot<device_compare>()},
    {Py_tp_getset, device_getset},
    {Py_tp_methods, device_methods},
    {Py_tp_doc, (void*)"device(type, index=None)\n--\n\nWhere a tensor's memory is: \"cpu\" or \"meta\"."},
    {}};
PyType_Spec device_spec = {"flambeau.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, device_slots};

// --- memory formats and layouts
PyObject* format_repr(PyObject* o) { return PyUnicode_FromString(reinterpret_cast<FormatObject*>(o)->name); }
PyObject* format_reduce(PyObject* o, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<FormatObject*>(o)->name + 6);
}
PyMethodDef format_methods[] = {{"__reduce__", slot<format_reduce>, METH_NOARGS}, {}};
PyType_Slot format_slots[] = {{Py_tp_repr, type_slot<format_repr>()}, {Py_tp_methods, format_methods},
                              {Py_tp_doc, (void*)"The order of a tensor's elements in memory, as channels_last."}, {}};
PyType_Spec format_spec = {"flambeau.memory_format", sizeof(FormatObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, format_slots};

// --- Size: a tuple of ints
PyObject* size_repr(PyObject* o) {
  Held list = Held(PySequence_List(o));
  if (!list) return nullptr;
  return PyUnicode_FromFormat("torch.Size(%R)", list.p);
}
PyObject* size_numel(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(size_product("Size.numel", integers_of(o)));
}
PyObject* as_size(PyObject* tuple) {  // steals
  if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  PyObject* size = SizeType->tp_alloc(SizeType, n);
  if (size)
    for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(size, k, Py_NewRef(PyTuple_GET_ITEM(tuple, k)));
  Py_DECREF(tuple);
  return size;
}
PyObject* size_subscript(PyObject* o, PyObject* key) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(o, key));
}
PyObject* size_repeat(PyObject* o, Py_ssize_t n) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(o, n));
}
// The items of a tuple that nobody else has seen as ints; steals it.
PyObject* with_ints(PyObject* size) {
  if (!size) return nullptr;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(size); ++k) {
    PyObject* item = PyTuple_GET_ITEM(size, k);
    if (PyLong_CheckExact(item) || is_symbol(item)) continue;
    PyObject* index = PyNumber_Index(item);
    if (!index) {
      PyErr_Format(PyExc_TypeError, "Size(): sizes are ints, item %zd is a %s", k, Py_TYPE(item)->tp_name);
      Py_DECREF(size);
      return nullptr;
    }
    PyTuple_SET_ITEM(size, k, index);
    Py_DECREF(item);
  }
  return size;
}
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return with_ints(PyTuple_Type.tp_new(type, args, kwargs));
}
// A Size and a tuple, in either order.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return with_ints(as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b)));
}
PyObject* size_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("(O(N))", SizeType, PyTuple_GetSlice(o, 0, PyTuple_GET_SIZE(o)));
}
// What a tuple's own does, without the search for a subclass's: nothing else can be in a Size.
void size_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  for (Py_ssize_t k = PyTuple_GET_SIZE(o); k-- > 0;) Py_XDECREF(PyTuple_GET_ITEM(o, k));
  type->tp_free(o);
  Py_DECREF(type);
}
PyMethodDef size_methods[] = {{"numel", slot<size_numel>, METH_NOARGS,
                               "numel($self, /)\n--\n\nNumber of elements of a tensor of this size."},
                              {"__reduce__", slot<size_reduce>, METH_NOARGS}, {}};
PyType_Slot size_slots[] = {{Py_tp_new, type_slot<size_new>()},
                            {Py_tp_repr, type_slot<size_repr>()},
                            {Py_tp_dealloc, type_slot<size_dealloc>()},
                            {Py_tp_methods, size_methods},
                            {Py_mp_subscript, type_slot<size_subscript>()},
                            {Py_nb_add, type_slot<size_add>()},
                            {Py_sq_repeat, type_slot<size_repeat>()},
                            {Py_tp_doc, (void*)"Size(iterable=(), /)\n--\n\nThe sizes of a tensor: a tuple of ints."},
                            {}};
PyType_Spec size_spec = {"flambeau.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots};

}  // namespace

PyObject* dtype_object(DType d) { return d == DType::Undefined ? Py_None : dtypes[int(d)]; }

PyObject* device_object(Device d) {
  auto* o = PyObject_New(DeviceObject, DeviceObjectType);
  if (o) o->device = d;
  return reinterpret_cast<PyObject*>(o);
}

// Ints alone are no garbage's business: the collector need not know of such a tuple.
PyObject* size_object(Dims shape) {
  PyObject* size = (PyObject*)PyObject_GC_NewVar(PyTupleObject, SizeType, Py_ssize_t(shape.size()));
  if (!size) return nullptr;
  std::memset(&PyTuple_GET_ITEM(size, 0), 0, shape.size() * sizeof(PyObject*));
  for (size_t k = 0; k < shape.size(); ++k) {
    PyObject* number = PyLong_FromLongLong(shape[k]);
    if (!number) {
      Py_DECREF(size);
      return nullptr;
    }
    PyTuple_SET_ITEM(size, k, number);
  }
  return size;
}

PyObject* format_object(int code) {
  for (size_t k = 0; k < std::size(kFormats); ++k)
    if (kFormats[k].code == code) return formats[k];
  return Py_None;
}

// A number alone is a CUDA device's.
static Device bare_index(int64_t k) {
  if (!has_device({DeviceType::CUDA, -1}))
    runtime_error("device: a bare index ", k, " names a CUDA device, and this build has none; use \"cpu\"");
  if (k < 0 || k > 127) runtime_error("device: index must be between 0 and 127, got ", k);
  return {DeviceType::CUDA, int8_t(k)};
}

Device parse_device(PyObject* o) {
  if (Py_TYPE(o) == DeviceObjectType) return device_of(o);
  if (PyLong_Check(o))
    return bare_index(integer_of(o));
  if (!PyUnicode_Check(o))
    type_error("device: expected a flambeau.device or a string such as \"cpu\", got ", Py_TYPE(o)->tp_name);
  std::string text = text_of(o);
  std::string type = text.substr(0, text.find(':'));
  Device d;
  if (!find_device(type, d.type))
    runtime_error("device: unknown device ", text, "; known are cpu, cuda and meta, with an index as in cuda:0");
  if (text.size() > type.size()) {
    std::string digits = text.substr(type.size() + 1);
    if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(digits) > 127)
      runtime_error("Invalid device string: '", text, "' (expected for example \"cuda:0\")");
    d.index = int8_t(std::stoi(digits));
  }
  return d;
}

DType parse_dtype(PyObject* o, const char* op) {
  if (Py_TYPE(o) == DTypeType) {
    if (is_quantized(of(o)) && std::strcmp(op, "_make_wrapper_subclass") && std::strcmp(op, "promote_types"))
      not_implemented(op, ": numbers of ", dtype_name(of(o)), " need a scale and a zero point; make them with "
                      "quantize_per_tensor or quantize_per_channel");
    return of(o);
  }
  if (o == (PyObject*)&PyFloat_Type) return DType::Float64;
  if (o == (PyObject*)&PyLong_Type) return DType::Int64;
  if (o == (PyObject*)&PyBool_Type) return DType::Bool;
  if (o == (PyObject*)&PyComplex_Type) return DType::Complex128;
  if (PyObject_HasAttrString(o, "_unavailable_dtype"))
    not_implemented(op, ": tensors of dtype ", text_of(o), " are not available");
  type_error(op, "(): argument 'dtype' must be a flambeau.dtype, not ", Py_TYPE(o)->tp_name);
}

void add_types(PyObject* module) {
  auto make = [&](PyType_Spec& spec, const char* name, PyObject* base = nullptr) {
    PyObject* type = checked(base ? PyType_FromSpecWithBases(&spec, base) : PyType_FromSpec(&spec)).give();
    checked(PyModule_AddObjectRef(module, name, type));
    return reinterpret_cast<PyTypeObject*>(type);
  };
  DTypeType = make(dtype_spec, "dtype");
  DeviceObjectType = make(device_spec, "device");
  FormatType = make(format_spec, "memory_format");
  Held bases(Py_BuildValue("(O)", &PyTuple_Type));
  SizeType = make(size_spec, "Size", bases.p);
  for (int k = 0; k < kDTypes; ++k) {
    auto* d = PyObject_New(DTypeObject, DTypeType);
    d->dtype = DType(k);
    dtypes[k] = reinterpret_cast<PyObject*>(d);
    checked(PyModule_AddObjectRef(module, dtype_name(DType(k)), dtypes[k]));
  }
  for (size_t k = 0; k < std::size(kFormats); ++k) {
    auto* f = PyObject_New(FormatObject, FormatType);
    f->code = kFormats[k].code;
    f->name = kFormats[k].shown;
    formats[k] = reinterpret_cast<PyObject*>(f);
    checked(PyModule_AddObjectRef(module, kFormats[k].name, formats[k]));
  }
}

}  // namespace flambeau
