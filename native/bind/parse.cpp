// Arguments of a call: Python objects to Values, as the schema asks, with errors that name the op and the argument.
#include "python.h"

namespace flambeau {
namespace {

PyObject* s_torch_function;

[[noreturn]] void bad_argument(const OpObject& op, const Arg& arg, int position, const char* expected, PyObject* got) {
  // where PyTorch has an overload for 0-d tensors, another tensor is of the right type and has a wrong value
  for (const char* name : {"linspace", "logspace", "narrow"})
    if (is_tensor(got) && op.def->shown == name)
      runtime_error(name, "(): argument '", arg.name, "' must be a number or a 0-d tensor of one, got ",
                    dtype_name(as_tensor(got)->dtype), " of shape ", shape_text(as_tensor(got)->shape()));
  type_error(op.def->shown, "(): argument '", arg.name, "' (position ", position + 1, ") must be ", expected,
             ", not ", Py_TYPE(got)->tp_name);
}

bool overrides(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  if (t->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyType_IsSubtype(t, TensorType)) {
    if (PyObject* f = _PyType_Lookup(t, s_torch_function)) return f != nullptr;
  }
  return false;
}

int64_t index_of(PyObject* o) {
  if (is_tensor(o)) {
    Tensor& t = *as_tensor(o);
    if (t.numel != 1 || is_differentiable(t.dtype)) type_error("only a tensor of one integer can be an index or a "
                                                               "size, got ", dtype_name(t.dtype), " ",
                                                               shape_text(t.shape()));
    return element_scalar(t).to<int64_t>();
  }
  Held index = checked(PyNumber_Index(o));
  int64_t v = PyLong_AsLongLong(index.p);
  if (v == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    runtime_error("Overflow when unpacking long: an integer argument does not fit in 64 bits");
  }
  return v;
}

bool is_index(PyObject* o) {
  if (PyLong_Check(o)) return true;
  if (PyFloat_Check(o) || PyUnicode_Check(o)) return false;
  if (is_tensor(o)) return as_tensor(o)->numel == 1 && !is_differentiable(as_tensor(o)->dtype);
  return PyIndex_Check(o);
}

struct Reader {
  const OpObject& op;
  Frame& f;
  bool trying;  // another overload is tried when this one does not fit

  void tensor(Tensor* t) { f.flags |= t->flags; }

  int64_t* int_memory(Py_ssize_t n) {
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
  PyObject* owned(PyObject* list) {
    if (!PyList_Check(list)) return list;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k) {
      PyObject* item = PyList_GET_ITEM(list, k);
      if (!PyLong_CheckExact(item) && !PyFloat_CheckExact(item)) return f.keep(checked(PyList_AsTuple(list)));
    }
    return list;
  }

  bool ints(PyObject* const* items, Py_ssize_t n, Value& v) {
    int64_t* p = int_memory(n);
    for (Py_ssize_t k = 0; k < n; ++k) {
      if (PyLong_CheckExact(items[k])) {
        p[k] = PyLong_AsLongLong(items[k]);
        if (p[k] == -1 && PyErr_Occurred()) {
          PyErr_Clear();
          runtime_error("Overflow when unpacking long: ", PyUnicode_AsUTF8(op.name),
                        " got an integer that does not fit in 64 bits");
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

  bool tensors(PyObject* const* items, Py_ssize_t n, Value& v, bool optional) {
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
        tensor(p[k]);
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

  // One argument; throws TypeError when it does not fit.
  void read(const Arg& arg, int position, PyObject* o, Value& v) {
    switch (arg.type) {
      case Type::Tensor:
        if (is_tensor(o)) {
          v = Value(as_tensor(o));
          tensor(v.tensor);
          return;
        }
        if (arg.number && !(op.inplace && position == 0) && number_value(o, v)) return;
        if (overrides(o)) { f.foreign = true; v = Value(); return; }
        break;
      case Type::Scalar:
        if (number_value(o, v)) return;
        if (is_tensor(o) && as_tensor(o)->ndim == 0 && !(trying && as_tensor(o)->level)) {
          Scalar s = element_scalar(*as_tensor(o));
          Held number = checked(scalar_object(s));
          if (number_value(number.p, v)) return;
        }
        break;
      case Type::Int:
        if (is_index(o)) { v = Value(index_of(o)); return; }
        break;
      case Type::Float:
        if (PyFloat_Check(o)) { v = Value(PyFloat_AS_DOUBLE(o)); return; }
        if (PyLong_Check(o)) { v = Value(PyLong_AsDouble(o)); if (PyErr_Occurred()) throw PythonError(); return; }
        if (number_value(o, v) && v.tag != Tag::Complex) { v = Value(v.scalar().to<double>()); return; }
        if (is_tensor(o) && as_tensor(o)->numel == 1) { v = Value(element_scalar(*as_tensor(o)).to<double>()); return; }
        break;
      case Type::Bool:
        if (PyBool_Check(o)) { v = Value(o == Py_True); return; }
        if (PyLong_Check(o)) { v = Value(PyObject_IsTrue(o) == 1); return; }
        if (number_value(o, v) && v.tag == Tag::Bool) return;
        break;
      case Type::Ints:
        if (PyTuple_Check(o) && ints(&PyTuple_GET_ITEM(o, 0), PyTuple_GET_SIZE(o), v)) return;
        if (PyList_Check(o)) {
          PyObject* t = owned(o);
          if (ints(PySequence_Fast_ITEMS(t), PySequence_Fast_GET_SIZE(t), v)) return;
        }
        if (is_index(o)) {
          int n = arg.repeat ? arg.repeat : 1;
          int64_t* p = int_memory(n);
          std::fill(p, p + n, index_of(o));
          v.tag = Tag::Ints;
          v.ints = {p, n};
          return;
        }
        if (!PyTuple_Check(o) && !PyList_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) &&
            !PyByteArray_Check(o) && PySequence_Check(o) && !is_tensor(o)) {
          PyObject* t = f.keep(checked(PySequence_Tuple(o)));
          if (ints(&PyTuple_GET_ITEM(t, 0), PyTuple_GET_SIZE(t), v)) return;
        }
        break;
      case Type::Floats: {
        if (!PyTuple_Check(o) && !PyList_Check(o)) break;
        PyObject* t = owned(o);
        Py_ssize_t n = PySequence_Fast_GET_SIZE(t);
        f.more().floats.push_back(std::make_unique<double[]>(size_t(n) + 1));
        double* p = f.more().floats.back().get();
        for (Py_ssize_t k = 0; k < n; ++k) {
          p[k] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(t, k));
          if (p[k] == -1 && PyErr_Occurred()) throw PythonError();
        }
        v.tag = Tag::Floats;
        v.floats = {p, n};
        return;
      }
      case Type::Tensors:
      case Type::OptionalTensors:
        if (PyTuple_Check(o) || PyList_Check(o)) {
          // a tuple of its own: the list could change while operators run
          PyObject* t = o;
          if (PyList_Check(o)) {
            t = f.keep(checked(PyList_AsTuple(o)));
          }
          tensors(&PyTuple_GET_ITEM(t, 0), PyTuple_GET_SIZE(t), v, arg.type == Type::OptionalTensors);
          return;
        }
        break;
      case Type::Str:
        if (PyUnicode_Check(o)) {
          Py_ssize_t n;
          const char* s = PyUnicode_AsUTF8AndSize(o, &n);
          if (!s) throw PythonError();
          v.tag = Tag::Str;
          v.str = {s, n};
          return;
        }
        break;
      case Type::DType:
        v.tag = Tag::DType;
        v.dtype = parse_dtype(o, PyUnicode_AsUTF8(op.name));
        return;
      case Type::Device:
        v.tag = Tag::Device;
        v.device = parse_device(o);
        return;
      case Type::Layout:
      case Type::MemoryFormat:
        if (Py_TYPE(o) != FormatType) break;
        v = Value(int64_t(reinterpret_cast<FormatObject*>(o)->code));
        if (arg.type == Type::Layout && v.i > 100)
          not_implemented(PyUnicode_AsUTF8(op.name), "(): only layout=strided is available, got ",
                          reinterpret_cast<FormatObject*>(o)->name);
        return;
      case Type::Generator:
        if (!GeneratorType || !PyObject_TypeCheck(o, GeneratorType)) break;
        v.tag = Tag::Generator;
        v.object = o;
        return;
      case Type::Any:
        v.tag = Tag::Object;
        v.object = o;
        if (is_tensor(o)) tensor(as_tensor(o));
        else if (overrides(o)) f.foreign = true;
        return;
    }
    static const char* expected[] = {"Tensor",
                                     "tuple of Tensors",
                                     "tuple of Tensors",
                                     "Number",
                                     "int",
                                     "tuple of ints",
                                     "float",
                                     "tuple of floats",
                                     "bool",
                                     "str",
                                     "flambeau.dtype",
                                     "flambeau.device",
                                     "flambeau.layout",
                                     "flambeau.memory_format",
                                     "flambeau.Generator",
                                     "object"};
    bad_argument(op, arg, position, expected[int(arg.type)], o);
  }
};

struct Alias { const char* from; const char* to; };
const Alias kAliases[] = {{"input", "self"}, {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "self"},
                          {"a", "self"},     {"x1", "self"},  {"x2", "other"}};

// The position of keyword `name`, or -1.
int find_keyword(const Schema& schema, PyObject* name) {
  int n = int(schema.args.size());
  for (int k = 0; k < n; ++k)
    if (schema.args[k].py_name == name) return k;
  for (int k = 0; k < n; ++k)  // not interned
    if (PyUnicode_CompareWithASCIIString(name, schema.args[k].name.c_str()) == 0) return k;
  for (const Alias& a : kAliases)
    if (PyUnicode_CompareWithASCIIString(name, a.from) == 0)
      for (int k = 0; k < n; ++k)
        if (schema.args[k].name == a.to) return k;
  return -1;
}

// What makes a tensor of numbers alone makes it in the dtype of `out=`: arange(5, out=halves).
void dtype_of_out(const Schema& schema, Frame& f, int k) {
  for (const Arg& arg : schema.args)
    if (arg.type == Type::Tensor || arg.type == Type::Tensors || arg.type == Type::Any) return;
  if (!is_tensor(f.out)) return;
  f.values[k].tag = Tag::DType;
  f.values[k].dtype = as_tensor(f.out)->dtype;
  f.objects[k] = f.keep(checked(value_object(f.values[k])));
}

void parse(const OpObject& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Frame& f, bool trying) {
  const Schema& schema = op.def->schema;
  const char* name = op.def->shown.c_str();
  int count = int(schema.args.size());
  Reader reader{op, f, trying};
  uint32_t given = 0;
  bool composite = op.def->kind == Kind::Composite;
  Py_ssize_t positional = n;
  bool variadic = n > 0 && schema.npositional == 1 && schema.args[0].type == Type::Tensors && schema.args[0].repeat &&
                  (is_tensor(args[0]) || overrides(args[0]));
  if (variadic) {  // Tensor[1]: meshgrid(x, y)
    Held all = checked(PyTuple_New(n));
    for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(all.p, k, Py_NewRef(args[k]));
    f.objects[0] = f.keep(std::move(all));
    reader.tensors(args, n, f.values[0], false);
    given |= 1;
    positional = 0;
  } else if (__builtin_expect(n > schema.npositional, 0)) {
    // x.view(2, 3): trailing ints are the last positional int list
    int last = schema.npositional - 1;
    if (last < 0 || last > 1 || schema.args[last].type != Type::Ints || !is_index(args[last]))
      type_error(name, "() takes ", schema.npositional, " positional argument", schema.npositional == 1 ? "" : "s",
                 " but ", n, " were given");
    if (!reader.ints(args + last, n - last, f.values[last]))
      bad_argument(op, schema.args[last], last, "tuple of ints", args[last]);
    given |= 1u << last;
    if (composite) {
      f.objects[last] = f.keep(checked(value_object(f.values[last])));
    }
    positional = last;
  }
  auto take = [&](int k, PyObject* o) {
    const Arg& arg = schema.args[k];
    if (o == Py_None && (arg.optional || (arg.has_default && arg.value.none()))) f.values[k] = Value();
    else if (o == Py_None && arg.type != Type::Any && arg.has_default && arg.type != Type::Tensor) {
      if (arg.type == Type::MemoryFormat || arg.type == Type::Layout || arg.type == Type::DType ||
          arg.type == Type::Device)
        f.values[k] = arg.value;
      else reader.read(arg, k, o, f.values[k]);
    }
    else reader.read(arg, k, o, f.values[k]);
    f.objects[k] = o;
    if (composite) {  // bodies get tuples and devices in one form
      const Value& v = f.values[k];
      if ((v.tag == Tag::Ints && !PyTuple_CheckExact(o)) || (v.tag == Tag::Device && Py_TYPE(o) != DeviceObjectType) ||
          (v.tag == Tag::DType && Py_TYPE(o) != DTypeType)) {
        f.objects[k] = f.keep(checked(value_object(v)));
      }
    }
    given |= 1u << k;
  };
  for (Py_ssize_t k = 0; k < positional; ++k) take(int(k), args[k]);
  if (kwnames) {
    Py_ssize_t nkw = PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t j = 0; j < nkw; ++j) {
      PyObject* key = PyTuple_GET_ITEM(kwnames, j);
      int k = find_keyword(schema, key);
      if (k < 0) {
        if (op.takes_out && PyUnicode_CompareWithASCIIString(key, "out") == 0) {
          PyObject* o = args[n + j];
          if (o != Py_None) f.out = o;
          continue;
        }
        type_error(name, "() got an unexpected keyword argument '", text_of(key), "'; it takes ", schema.text);
      }
      if (given >> k & 1) type_error(name, "() got multiple values for argument '", schema.args[k].name, "'");
      take(k, args[n + j]);
    }
  }
  for (int k = 0; k < count; ++k) {
    if (given >> k & 1) continue;
    const Arg& arg = schema.args[k];
    if (!arg.has_default) {
      if (!arg.optional || arg.type != Type::Tensor)
        type_error(name, "() missing required argument '", arg.name, "' (position ", k + 1, "); it takes ",
                   schema.text);
      f.values[k] = Value();
      f.objects[k] = Py_None;
      continue;
    }
    f.values[k] = arg.value;
    f.objects[k] = static_cast<PyObject*>(arg.py_default);
    if (__builtin_expect(f.out && arg.type == Type::DType, 0)) dtype_of_out(schema, f, k);
  }
  if (__builtin_expect(op.def->needs_tensor, 0) && !f.foreign) {
    bool tensor = false;
    for (int k = 0; k < count; ++k) tensor |= f.values[k].tag == Tag::Tensor;
    if (!tensor) type_error(name, "(): one of the arguments must be a Tensor; it takes ", schema.text);
  }
}

}  // namespace

bool parse_arguments(const OpObject& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Frame& frame,
                     std::string* why) {
  if (!s_torch_function) s_torch_function = PyUnicode_InternFromString("__torch_function__");
  try {
    parse(op, args, n, kwnames, frame, why != nullptr);
    return true;
  } catch (const Error& e) {
    if (why && e.kind == ErrorKind::Type) *why = e.text;
    else if (why && e.kind == ErrorKind::Python && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      *why = "type error";
    } else if (why) {
      *why = "";
      set_error(e);
    } else
      set_error(e);
    return false;
  } catch (const std::exception& e) {  // no memory
    if (why) why->clear();
    set_error(e);
    return false;
  }
}

}  // namespace flambeau
