// x.to(dtype), x.float() and its kin: a copy in that dtype, or x itself; x.to(device) where x is on it. All other forms
// of `to` are read in Python (_tensor/methods.py).
#include "op_type.h"
#include "tensor_type.h"

namespace flambeau {
namespace {

PyObject* to_handler;  // converted(tensor, *args, **kwargs)

PyObject* ask_python(PyObject* o, PyObject* dtype, PyObject* const* a, Py_ssize_t n, PyObject* kw) {
  std::vector<PyObject*> args{o};
  if (dtype) args.push_back(dtype);
  const size_t positional = args.size() + size_t(n);
  args.insert(args.end(), a, a + n + (kw ? PyTuple_GET_SIZE(kw) : 0));
  return PyObject_Vectorcall(to_handler, args.data(), positional, kw);
}

PyObject* in_dtype(PyObject* o, DType dtype) {
  static OpHandle copy{"_to_copy"};
  if (self(o).dtype == dtype) return Py_NewRef(o);
  OpDef& def = copy.get();
  Frame f;
  f.values[0] = Value(as_tensor(o));
  for (size_t k = 1; k < def.schema.args.size(); ++k) f.values[k] = def.schema.args[k].value;
  f.values[1].tag = Tag::DType;
  f.values[1].dtype = dtype;
  return call_parsed(*as_op(static_cast<PyObject*>(def.py_op)), f);
}

// Whether another library's or the user's code may want to know.
bool plain(PyObject* o) { return !(self(o).flags & kOverrides) && !tls.function_modes; }

// Whether a tensor is on the device that an argument names, and the argument names one for certain.
bool is_on(PyObject* o, PyObject* where) {
  const Device here = self(o).device;
  if (Py_TYPE(where) == DeviceObjectType) return reinterpret_cast<DeviceObject*>(where)->device == here;
  return here == Device{} && PyUnicode_CheckExact(where) && !PyUnicode_CompareWithASCIIString(where, "cpu");
}

PyObject* t_to(PyObject* o, PyObject* const* a, Py_ssize_t n, PyObject* kw) {
  if (n == 1 && !kw && plain(o)) {
    if (Py_TYPE(a[0]) == DTypeType) return in_dtype(o, reinterpret_cast<DTypeObject*>(a[0])->dtype);
    if (is_on(o, a[0])) return Py_NewRef(o);
  }
  return ask_python(o, nullptr, a, n, kw);
}
template <DType dtype>
PyObject* t_in(PyObject* o, PyObject* const* a, Py_ssize_t n, PyObject* kw) {
  if (n == 0 && !kw && plain(o)) return in_dtype(o, dtype);
  const Py_ssize_t named = kw ? PyTuple_GET_SIZE(kw) : 0;
  if (n + named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, 0), "memory_format")))
    type_error("the conversion to ", dtype_name(dtype), " takes no argument but memory_format");
  static PyObject* const names = Py_BuildValue("(N)", PyUnicode_InternFromString("memory_format"));
  return ask_python(o, dtype_object(dtype), a, 0, n || kw ? names : nullptr);
}

PyObject* set_to_handler(PyObject*, PyObject* function) {
  to_handler = Py_NewRef(function);
  Py_RETURN_NONE;
}

constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

#define FLAMBEAU_CONVERSION(name, dtype, shown) \
  {name, method<t_in<DType::dtype>>(), kFlags,  \
   name "($self, /, memory_format=None)\n--\n\nThis tensor as torch." shown "."}
PyMethodDef conversion_methods[] = {
    {"to", method<t_to>(), kFlags,
     "to($self, /, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None, other=None)\n"
     "--\n\nThis tensor in another dtype or on another device; itself when nothing changes and `copy` is false.\n\n"
     "Forms: to(dtype), to(device, dtype=None), to(other), each with non_blocking, copy and memory_format.\n\n"
     ">>> import flambeau\n>>> flambeau.tensor([1.5, 2.]).to(flambeau.int64)\ntensor([1, 2])"},
    FLAMBEAU_CONVERSION("bool", Bool, "bool"),
    FLAMBEAU_CONVERSION("byte", UInt8, "uint8"),
    FLAMBEAU_CONVERSION("char", Int8, "int8"),
    FLAMBEAU_CONVERSION("short", Int16, "int16"),
    FLAMBEAU_CONVERSION("int", Int32, "int32"),
    FLAMBEAU_CONVERSION("long", Int64, "int64"),
    FLAMBEAU_CONVERSION("half", Float16, "float16"),
    FLAMBEAU_CONVERSION("bfloat16", BFloat16, "bfloat16"),
    FLAMBEAU_CONVERSION("float", Float32, "float32"),
    FLAMBEAU_CONVERSION("double", Float64, "float64"),
    FLAMBEAU_CONVERSION("chalf", Complex32, "complex32"),
    FLAMBEAU_CONVERSION("cfloat", Complex64, "complex64"),
    FLAMBEAU_CONVERSION("cdouble", Complex128, "complex128"),
    {}};
#undef FLAMBEAU_CONVERSION
PyMethodDef conversion_functions[] = {{"set_to_handler", slot<set_to_handler>, METH_O, nullptr}, {}};

}  // namespace flambeau
