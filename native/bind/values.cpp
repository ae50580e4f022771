// Numbers and the values of arguments as Python objects, both ways; which dtype several of them have together.
#include "numpy_types.h"
#include "reading.h"
#include "slot.h"
#include "symbols.h"

namespace flambeau {

PyObject* scalar_object(const Scalar& s) {
  switch (s.category) {
    case Category::Bool: return PyBool_FromLong(s.i != 0);
    case Category::Integer: return s.huge ? PyLong_FromUnsignedLongLong(uint64_t(s.i)) : PyLong_FromLongLong(s.i);
    case Category::Floating: return PyFloat_FromDouble(s.re);
    default: return PyComplex_FromDoubles(s.re, s.im);
  }
}

PyObject* element_object(const Tensor& t, const char* data) {
  switch (t.dtype) {
    case DType::Bool: return PyBool_FromLong(*data != 0);
    case DType::UInt64: return PyLong_FromUnsignedLongLong(*reinterpret_cast<const uint64_t*>(data));
    case DType::Float4_e2m1fn_x2:
      not_implemented("item: an element of float4_e2m1fn_x2 holds two numbers; view the bytes, as uint8");
    case DType::Complex32: {
      TensorRef z = to_dtype(*view_of(t, {}, {}, const_cast<char*>(data)), DType::Complex64);
      return PyComplex_FromDoubles(z->ptr<complex64>()->real(), z->ptr<complex64>()->imag());
    }
    case DType::Float8_e4m3fn: case DType::Float8_e5m2: case DType::Float8_e4m3fnuz: case DType::Float8_e5m2fnuz:
    case DType::Float8_e8m0fnu: {
      TensorRef f = to_dtype(*view_of(t, {}, {}, const_cast<char*>(data)), DType::Float32);
      return PyFloat_FromDouble(*f->ptr<float>());
    }
    default: break;
  }
  return visit_dtype(t.dtype, [&]<class T>() -> PyObject* {
    T v = *reinterpret_cast<const T*>(data);
    if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>)
      return PyComplex_FromDoubles(v.real(), v.imag());
    else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(int64_t(v));
    else return PyFloat_FromDouble(double(v));
  });
}

Scalar element_scalar(const Tensor& t) {
  before_reading(t);
  if (__builtin_expect(t.flags & kIndirect || t.device.type != DeviceType::CPU, 0)) {
    if (t.is_meta()) runtime_error("item(): a tensor on the meta device has no data");
    TensorRef inner = readable(t);
    if (inner.get() != &t) return element_scalar(*inner);
  }
  if (is_float8(t.dtype)) return element_scalar(*to_dtype(t, DType::Float32));
  if (t.dtype == DType::Complex32) return element_scalar(*to_dtype(t, DType::Complex64));
  return visit_dtype(t.dtype, [&]<class T>() -> Scalar {
    T v = *t.ptr<T>();
    if constexpr (std::is_same_v<T, bool>) return Scalar(v);
    else if constexpr (std::is_same_v<T, complex64>) return Scalar(complex128(v));
    else if constexpr (std::is_same_v<T, complex128>) return Scalar(v);
    else if constexpr (std::is_integral_v<T>) return Scalar(int64_t(v));
    else return Scalar(double(v));
  });
}

bool number_value(PyObject* o, Value& v) {
  if (PyFloat_Check(o)) {
    v = Value(PyFloat_AS_DOUBLE(o));
  } else if (PyBool_Check(o)) {
    v = Value(o == Py_True);
  } else if (PyLong_Check(o)) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) {
      unsigned long long u = PyLong_AsUnsignedLongLong(o);
      if (PyErr_Occurred()) {
        PyErr_Clear();
        fail(ErrorKind::Overflow,
             "the Python int has more than 64 bits, which no number of a tensor holds; use a float");
      }
      i = (long long)u;
    }
    v = Value(int64_t(i));
    v.huge = overflow != 0;
  } else if (PyComplex_Check(o)) {
    v = Value();
    v.tag = Tag::Complex;
    v.c = {PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)};
  } else if (numpy_scalar_dtype(o) != DType::Undefined) {
    Held item = checked(PyObject_CallMethod(o, "item", nullptr));
    return !is_numpy_scalar(item.p) && number_value(item.p, v);
  } else {
    return false;
  }
  return true;
}

namespace {

PyObject* integer_object(int64_t i) {
  PyObject* number = PyLong_FromLongLong(i);
  return __builtin_expect(is_token(i), 0) ? symbol_object(number) : number;
}
PyObject* float_object(double f) {
  PyObject* number = PyFloat_FromDouble(f);
  return __builtin_expect(is_token(f), 0) ? symbol_object(number) : number;
}

}  // namespace

PyObject* value_object(const Value& v) {
  switch (v.tag) {
    case Tag::None: Py_RETURN_NONE;
    case Tag::Tensor: return Py_NewRef(py(v.tensor));
    case Tag::Bool: return PyBool_FromLong(v.b);
    case Tag::Int: return v.huge ? PyLong_FromUnsignedLongLong(uint64_t(v.i)) : integer_object(v.i);
    case Tag::Float: return float_object(v.f);
    case Tag::Complex: return PyComplex_FromDoubles(v.c.re, v.c.im);
    case Tag::Bools: {
      PyObject* t = PyTuple_New(v.ints.size);
      for (int64_t k = 0; t && k < v.ints.size; ++k) PyTuple_SET_ITEM(t, k, PyBool_FromLong(v.ints.data[k]));
      return t;
    }
    case Tag::Ints: {
      PyObject* t = PyTuple_New(v.ints.size);
      for (int64_t k = 0; t && k < v.ints.size; ++k) PyTuple_SET_ITEM(t, k, integer_object(v.ints.data[k]));
      return t;
    }
    case Tag::Floats: {
      PyObject* t = PyTuple_New(v.floats.size);
      for (int64_t k = 0; t && k < v.floats.size; ++k) PyTuple_SET_ITEM(t, k, float_object(v.floats.data[k]));
      return t;
    }
    case Tag::Tensors: {
      PyObject* t = PyTuple_New(v.tensors.size);
      for (int64_t k = 0; t && k < v.tensors.size; ++k)
        PyTuple_SET_ITEM(t, k, Py_NewRef(v.tensors.data[k] ? py(v.tensors.data[k]) : Py_None));
      return t;
    }
    case Tag::Str: return PyUnicode_FromStringAndSize(v.str.data, v.str.size);
    case Tag::DType: return Py_NewRef(dtype_object(v.dtype));
    case Tag::Device: return device_object(v.device);
    default: return Py_NewRef(static_cast<PyObject*>(v.object));
  }
}

namespace {

PyObject* promote_types_(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2) type_error("promote_types takes two dtypes");
    return Py_NewRef(
        dtype_object(promote_types(parse_dtype(a[0], "promote_types"), parse_dtype(a[1], "promote_types"))));
  });
}

// Tensors with dimensions count before 0-d ones, and these before numbers, where the kind of number is the same.
PyObject* result_type(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    DType by_rank[3] = {DType::Undefined, DType::Undefined, DType::Undefined};
    for (Py_ssize_t k = 0; k < n; ++k) {
      Value v;
      int rank = 2;
      DType d;
      if (is_tensor(a[k])) {
        const Tensor& t = *as_tensor(a[k]);
        d = t.dtype;
        rank = t.ndim > 0 ? 0 : t.flags & kWrappedNumber ? 2 : 1;
      } else if (number_value(a[k], v)) {
        d = v.scalar().dtype(default_dtype());
      } else {
        type_error("result_type(): expected tensors or numbers, got ", Py_TYPE(a[k])->tp_name);
      }
      by_rank[rank] = by_rank[rank] == DType::Undefined ? d : promote_types(by_rank[rank], d);
    }
    DType result = by_rank[0];
    for (int rank = 1; rank < 3; ++rank) {
      DType d = by_rank[rank];
      if (d == DType::Undefined) continue;
      if (result == DType::Undefined) result = d;
      else if (category(d) > category(result))
        result = is_complex(d) && is_floating(result) ? complex_of(result)
                 : is_floating(d) && rank == 2        ? default_dtype()
                                                      : d;
    }
    return Py_NewRef(dtype_object(result));
  });
}

// wrap_dim(dim, ndim, name of the operator)
PyObject* wrap_dim_(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 3) type_error("wrap_dim takes a dimension, the number of dimensions, and a name");
    const int64_t dim = integer_of(a[0]), ndim = integer_of(a[1]);
    const char* name = PyUnicode_AsUTF8(a[2]);
    if (!name) throw PythonError();
    return PyLong_FromLongLong(wrap_dim(dim, ndim, name));
  });
}

PyMethodDef functions[] = {{"promote_types", method<promote_types_>(), METH_FASTCALL},
                           {"wrap_dim", method<wrap_dim_>(), METH_FASTCALL},
                           {"result_type", method<result_type>(), METH_FASTCALL}, {}};

}  // namespace

void add_values(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
