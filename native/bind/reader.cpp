#include "reader.h"

#include "../core/device_table.h"

#include "symbols.h"

namespace flambeau {

void bad_argument(const OpObject& op, const Arg& arg, int position, const char* expected, PyObject* got) {
  // where PyTorch has an overload for 0-d tensors, another tensor is of the right type and has a wrong value
  for (const char* name : {"linspace", "logspace", "narrow"})
    if (is_tensor(got) && op.def->shown == name)
      runtime_error(name, "(): argument '", arg.name, "' must be a number or a 0-d tensor of one, got ",
                    dtype_name(as_tensor(got)->dtype), " of shape ", shape_text(as_tensor(got)->shape()));
  type_error(op.def->shown, "(): argument '", arg.name, "' (position ", position + 1, ") must be ", expected,
             ", not ", Py_TYPE(got)->tp_name);
}

bool overrides(PyObject* o) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  PyTypeObject* t = Py_TYPE(o);
  return t->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyType_IsSubtype(t, TensorType) && _PyType_Lookup(t, name);
}

int64_t Reader::index_of(PyObject* o) {
  if (int64_t small; PyLong_CheckExact(o) && small_integer(o, small)) return small;
  if (!PyLong_CheckExact(o) && is_tensor(o)) {
    if (modes_decide()) return 0;
    Tensor& t = *as_tensor(o);
    if (t.numel != 1 || is_differentiable(t.dtype)) type_error("only a tensor of one integer can be an index or a "
                                                               "size, got ", dtype_name(t.dtype), " ",
                                                               shape_text(t.shape()));
    return element_scalar(t).to<int64_t>();
  }
  Value symbol;
  if (!PyLong_Check(o) && symbol_value(o, symbol) && symbol.tag == Tag::Int) return symbol.i;
  Held index = PyLong_CheckExact(o) ? Held::borrow(o) : checked(PyNumber_Index(o));
  int64_t v = PyLong_AsLongLong(index.p);
  if (v == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail(ErrorKind::Value, "an integer argument has more than 64 bits");
  }
  return v;
}

bool is_index(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);  // sum(True): a keepdim where the dim belongs
  if (PyFloat_Check(o) || PyUnicode_Check(o)) return false;
  if (is_tensor(o)) return as_tensor(o)->numel == 1 && !is_differentiable(as_tensor(o)->dtype);
  return PyIndex_Check(o);
}

int64_t* Reader::int_memory(Py_ssize_t n) {
  if (f.nints + n <= Py_ssize_t(std::size(f.ints))) {
    int64_t* p = f.ints + f.nints;
    f.nints += int(n);
    return p;
  }
  f.more().ints.push_back(std::make_unique<int64_t[]>(size_t(n)));
  return f.more().ints.back().get();
}

// A list or tuple whose items may be read one by one although reading one runs Python code (__index__, __float__):
// itself where no item can, else a tuple of them.
PyObject* Reader::owned(PyObject* list) {
  if (!PyList_Check(list)) return list;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k) {
    PyObject* item = PyList_GET_ITEM(list, k);
    if (!PyLong_CheckExact(item) && !PyFloat_CheckExact(item)) return f.keep(checked(PyList_AsTuple(list)));
  }
  return list;
}

bool Reader::ints(PyObject* const* items, Py_ssize_t n, Value& v) {
  int64_t* p = int_memory(n);
  for (Py_ssize_t k = 0; k < n; ++k) {
    if (PyLong_CheckExact(items[k])) {
      if (small_integer(items[k], p[k])) continue;
      p[k] = PyLong_AsLongLong(items[k]);
      if (p[k] == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        fail(ErrorKind::Type, PyUnicode_AsUTF8(op.name), ": an integer argument has more than 64 bits");
      }
    } else if (is_index(items[k])) {
      p[k] = index_of(items[k]);
    } else {
      return false;
    }
  }
  v.tag = Tag::Ints;
  v.ints = {p, n};
  return true;
}

bool Reader::tensors(PyObject* const* items, Py_ssize_t n, Value& v, bool optional) {
  Tensor** p;
  if (f.ntensors + n <= Py_ssize_t(std::size(f.tensors))) {
    p = f.tensors + f.ntensors;
    f.ntensors += int(n);
  } else {
    f.more().tensors.push_back(std::make_unique<Tensor*[]>(size_t(n)));
    p = f.more().tensors.back().get();
  }
  for (Py_ssize_t k = 0; k < n; ++k) {
    if (optional && items[k] == Py_None) {
      p[k] = nullptr;
    } else if (is_tensor(items[k])) {
      p[k] = as_tensor(items[k]);
      note(p[k]);
    } else if (overrides(items[k])) {
      f.foreign = true;
      p[k] = nullptr;
    } else {
      type_error("expected Tensor as element ", k, " in argument of ", PyUnicode_AsUTF8(op.name), "(), but got ",
                 Py_TYPE(items[k])->tp_name);
    }
  }
  v.tag = Tag::Tensors;
  v.tensors = {p, n};
  return true;
}

bool Reader::foreign(PyObject* o) {
  if (!overrides(o)) return false;
  return f.foreign = true;
}

bool Reader::taken_over(PyObject* o) {
  if (tls.overrides_disabled) return false;
  if (!PyTuple_Check(o) && !PyList_Check(o)) return foreign(o);
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
    if (foreign(PySequence_Fast_GET_ITEM(o, k))) return true;
  return false;
}

// A tensor in the place of a number gives its value and no more.
void Reader::check_no_gradient(const Tensor& t) {
  if (trying || !tls.grad_enabled || !tensor_requires_grad(t)) return;
  if (op.def->shown == "linspace" || op.def->shown == "logspace") return;  // PyTorch's take tensors
  type_error(PyUnicode_AsUTF8(op.name), "(): a tensor that requires grad cannot be a number here, since its gradient "
             "would be lost; pass x.item(), or multiply by it");
}

bool Reader::modes_decide() {
  if (!tls.function_modes || tls.overrides_disabled) return false;
  return f.foreign = true;
}

bool Reader::read_scalar(PyObject* o, Value& v) {
  if (number_value(o, v) || symbol_value(o, v)) return true;
  if (!is_tensor(o) || as_tensor(o)->ndim != 0 || (trying && as_tensor(o)->level)) return false;
  if (modes_decide()) return v = Value(int64_t(0)), true;
  check_no_gradient(*as_tensor(o));
  Scalar s = element_scalar(*as_tensor(o));
  Held number = checked(scalar_object(s));
  return number_value(number.p, v);
}

bool Reader::read_float(PyObject* o, Value& v) {
  if (PyFloat_Check(o)) {
    v = Value(PyFloat_AS_DOUBLE(o));
  } else if (PyLong_Check(o)) {
    v = Value(PyLong_AsDouble(o));
    if (PyErr_Occurred()) throw PythonError();
  } else if (number_value(o, v) && v.tag != Tag::Complex) {
    v = Value(v.scalar().to<double>());
  } else if (is_tensor(o) && as_tensor(o)->numel == 1) {
    if (modes_decide()) return v = Value(0.), true;
    check_no_gradient(*as_tensor(o));
    v = Value(element_scalar(*as_tensor(o)).to<double>());
  } else if (!symbol_value(o, v, true)) {
    return false;
  }
  return true;
}

bool Reader::read_bool(PyObject* o, Value& v) {
  if (!PyLong_Check(o) && !is_symbol(o)) return number_value(o, v) && v.tag == Tag::Bool;
  const int on = PyObject_IsTrue(o);
  checked(on);  // an int's subclass may refuse
  v = Value(on == 1);
  return true;
}

bool Reader::read_ints(const Arg& arg, PyObject* o, Value& v) {
  if (usual_ints(arg, o, v)) return true;
  if (PyList_Check(o)) {
    PyObject* t = owned(o);
    if (ints(PySequence_Fast_ITEMS(t), PySequence_Fast_GET_SIZE(t), v)) return true;
  }
  if (PyLong_CheckExact(o) || is_index(o)) {
    int n = arg.repeat ? arg.repeat : 1;
    int64_t* p = int_memory(n);
    std::fill(p, p + n, index_of(o));
    v.tag = Tag::Ints;
    v.ints = {p, n};
    return true;
  }
  if (PyTuple_Check(o) || PyList_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) || PyByteArray_Check(o) ||
      !PySequence_Check(o) || is_tensor(o) || overrides(o))
    return false;
  PyObject* t = f.keep(checked(PySequence_Tuple(o)));
  return ints(&PyTuple_GET_ITEM(t, 0), PyTuple_GET_SIZE(t), v);
}

bool Reader::read_floats(const Arg& arg, PyObject* o, Value& v) {
  if (arg.repeat && (PyFloat_CheckExact(o) || PyLong_CheckExact(o))) {
    double* p = new (static_cast<void*>(int_memory(arg.repeat))) double[size_t(arg.repeat)];
    std::fill(p, p + arg.repeat, PyFloat_AsDouble(o));
    if (p[0] == -1 && PyErr_Occurred()) throw PythonError();
    v.tag = Tag::Floats;
    v.floats = {p, arg.repeat};
    return true;
  }
  if ((!PyTuple_Check(o) && !PyList_Check(o)) || taken_over(o)) return false;
  PyObject* t = owned(o);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(t);
  static_assert(sizeof(double) == sizeof(int64_t));
  double* p = new (static_cast<void*>(int_memory(n))) double[size_t(n)];  // the frame's memory for ints does as well
  for (Py_ssize_t k = 0; k < n; ++k) {
    p[k] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(t, k));
    if (p[k] == -1 && PyErr_Occurred()) throw PythonError();
  }
  v.tag = Tag::Floats;
  v.floats = {p, n};
  return true;
}

bool Reader::read_bools(const Arg& arg, PyObject* o, Value& v) {
  if ((!PyTuple_Check(o) && !PyList_Check(o)) || taken_over(o)) return false;
  PyObject* t = owned(o);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(t);
  if (arg.repeat && n != arg.repeat) return false;
  int64_t* p = int_memory(n);
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(t, k);
    if (!PyBool_Check(item)) return false;
    p[k] = item == Py_True;
  }
  v.tag = Tag::Bools;
  v.ints = {p, n};
  return true;
}

bool Reader::read_tensors(PyObject* o, Value& v, bool optional) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  // a tuple of its own: the list could change while operators run
  PyObject* t = PyList_Check(o) ? f.keep(checked(PyList_AsTuple(o))) : o;
  return tensors(&PyTuple_GET_ITEM(t, 0), PyTuple_GET_SIZE(t), v, optional);
}

bool Reader::read_str(PyObject* o, Value& v) {
  if (!PyUnicode_Check(o)) return false;
  Py_ssize_t n;
  const char* s = PyUnicode_AsUTF8AndSize(o, &n);
  if (!s) throw PythonError();
  v.tag = Tag::Str;
  v.str = {s, n};
  return true;
}

bool Reader::read_format(const Arg& arg, PyObject* o, Value& v) {
  if (Py_TYPE(o) != FormatType) return false;
  v = Value(int64_t(reinterpret_cast<FormatObject*>(o)->code));
  if (arg.type == Type::Layout && v.i > 100) {
    if (tls.overrides_disabled)
      not_implemented(PyUnicode_AsUTF8(op.name), "(): only layout=strided is available, got ",
                      reinterpret_cast<FormatObject*>(o)->name);
    f.foreign = true;  // Python makes tensors of other layouts
  }
  return true;
}

// long because: one case per type of the schema
bool Reader::converted(const Arg& arg, int position, PyObject* o, Value& v) {
  switch (arg.type) {
    case Type::Tensor:  // no tensor: `read` has looked
      if (arg.number && !(op.inplace && position == 0) && (number_value(o, v) || symbol_value(o, v))) return true;
      v = Value();
      return foreign(o);
    case Type::Scalar: return read_scalar(o, v);
    case Type::Int:
      if (!is_index(o)) return false;
      v = Value(index_of(o));
      return true;
    case Type::Float: return read_float(o, v);
    case Type::Bool: return read_bool(o, v);
    case Type::Ints: return read_ints(arg, o, v);
    case Type::Bools: return read_bools(arg, o, v);
    case Type::Floats: return read_floats(arg, o, v);
    case Type::Tensors:
    case Type::OptionalTensors: return read_tensors(o, v, arg.type == Type::OptionalTensors);
    case Type::Str: return read_str(o, v);
    case Type::DType:
      if (Py_TYPE(o) != DTypeType && taken_over(o)) return true;
      v.tag = Tag::DType;
      v.dtype = parse_dtype(o, PyUnicode_AsUTF8(op.name));
      return true;
    case Type::Device:
      if (Py_TYPE(o) != DeviceObjectType && taken_over(o)) return true;
      v.tag = Tag::Device;
      v.device = parse_device(o);
      if (v.device.type == DeviceType::CPU || v.device.type == DeviceType::Meta) v.device.index = -1;  // there is one
      else v.device = placed(v.device);
      return true;
    case Type::Layout:
    case Type::MemoryFormat: return read_format(arg, o, v);
    case Type::Generator:
      if (!GeneratorType || !PyObject_TypeCheck(o, GeneratorType)) return false;
      v.tag = Tag::Generator;
      v.object = o;
      return true;
    default:  // Any
      v.tag = Tag::Object;
      v.object = o;
      if (is_tensor(o)) note(as_tensor(o));
      else foreign(o);
      return true;
  }
}

void Reader::refuse(const Arg& arg, int position, PyObject* o) {
  static constexpr const char* expected[] = {
      "Tensor", "tuple of Tensors", "tuple of Tensors", "Number", "int", "tuple of ints", "float",
      "tuple of floats", "bool", "tuple of bools", "str", "flambeau.dtype", "flambeau.device", "flambeau.layout",
      "flambeau.memory_format", "flambeau.Generator", "object"};
  bad_argument(op, arg, position, expected[int(arg.type)], o);
}

}  // namespace flambeau
