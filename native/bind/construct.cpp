// Tensors from Python data: nested sequences, numbers, and memory of other libraries through the buffer protocol.
#include <cstring>

#include "../core/device_table.h"
#include "../core/lazy.h"
#include "../core/recording.h"
#include "../kernels/cast.h"
#include "../core/foreign.h"
#include "numpy_types.h"
#include "slot.h"

namespace flambeau {
namespace {

// --- foreign memory
// ---------------------------------------------------------------------------------------------------

struct BufferHold {
  Py_buffer view;
};
void free_buffer(Storage* s) {
  auto* hold = static_cast<BufferHold*>(s->context);
  PyBuffer_Release(&hold->view);
  delete hold;
}

DType buffer_dtype(const Py_buffer& b) {
  const char* f = b.format ? b.format : "B";
  if (*f == '@' || *f == '=' || *f == '<') ++f;
  if (*f == '>' || *f == '!')
    value_error("from_numpy: big-endian arrays are not supported; use array.astype(array.dtype.newbyteorder('='))");
  struct Entry { const char* format; DType dtype; };
  static const Entry table[] = {{"?", DType::Bool}, {"e", DType::Float16}, {"f", DType::Float32}, {"d", DType::Float64},
                                {"Zf", DType::Complex64}, {"Zd", DType::Complex128}};
  for (const Entry& e : table)
    if (std::strcmp(f, e.format) == 0) return e.dtype;
  if (f[0] && !f[1]) {
    bool is_signed = std::strchr("bhilqn", f[0]), is_unsigned = std::strchr("BHILQN", f[0]);
    if (is_signed || is_unsigned) switch (b.itemsize) {
        case 1: return is_signed ? DType::Int8 : DType::UInt8;
        case 2: return is_signed ? DType::Int16 : DType::UInt16;
        case 4: return is_signed ? DType::Int32 : DType::UInt32;
        case 8: return is_signed ? DType::Int64 : DType::UInt64;
      }
  }
  type_error("no dtype corresponds to array elements of format '", f, "'; supported are booleans, integers, "
             "floating-point numbers of 16 to 64 bits and complex numbers of 64 and 128 bits");
}

// A tensor without dimensions yet, over `nbytes` of a buffer from `low` on; the caller hands the buffer over.
TensorRef over_buffer(const Py_buffer& b, DType dtype, char* low, size_t nbytes, char* data) {
  TensorRef t = over_foreign(low, nbytes, b.readonly, dtype, data);
  t->storage->free = free_buffer;
  return t;
}

// A tensor over the memory of `o` (an exporter of the buffer protocol).
TensorRef from_buffer(PyObject* o) {
  auto hold = std::make_unique<BufferHold>();
  if (PyObject_GetBuffer(o, &hold->view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
    if (!is_numpy_array(o) || !PyErr_ExceptionMatches(PyExc_ValueError)) throw PythonError();
    PyErr_Clear();  // dates, and other dtypes that NumPy itself cannot describe to others
    Held dtype = checked(PyObject_GetAttrString(o, "dtype"));
    type_error("tensor(): tensors cannot hold a NumPy array of dtype ", text_of(dtype.p),
               "; convert it first: array.astype('int64')");
  }
  Py_buffer& b = hold->view;
  struct Release { Py_buffer* b; ~Release() { if (b) PyBuffer_Release(b); } } guard{&b};
  DType dtype = buffer_dtype(b);
  std::vector<int64_t> shape(b.shape, b.shape + b.ndim), strides(b.ndim);
  int64_t contiguous_step = b.itemsize;
  for (int k = b.ndim; k-- > 0;) {
    int64_t step = b.strides ? b.strides[k] : contiguous_step;
    contiguous_step *= shape[k];
    if (step % b.itemsize) value_error("an array whose strides (here ", step, " bytes) are no multiple of its element "
                                       "size (", b.itemsize, ") cannot be shared; copy it first (array.copy())");
    strides[k] = step / b.itemsize;
  }
  // the storage spans the addresses the array reaches, also with negative strides
  char* low = static_cast<char*>(b.buf);
  char* high = low;
  for (int k = 0; k < b.ndim; ++k)
    if (shape[k] > 0) (strides[k] < 0 ? low : high) += (shape[k] - 1) * strides[k] * b.itemsize;
  TensorRef t = over_buffer(b, dtype, low, size_t(high - low) + size_t(b.itemsize), static_cast<char*>(b.buf));
  set_dims(*t, shape, strides);
  guard.b = nullptr;
  t->storage->context = hold.release();
  return t;
}

// --- sequences -----------------------------------------------------------------------------------------------------

bool is_sequence(PyObject* o) {
  return (PyList_Check(o) || PyTuple_Check(o) || PySequence_Check(o)) && !PyUnicode_Check(o) && !PyBytes_Check(o) &&
         !PyDict_Check(o);
}

PyObject* item_at(PyObject* seq, Py_ssize_t k) {  // new
  if (k % 1024 == 1023 && PyErr_CheckSignals()) return nullptr;  // a range of 2**62 can be interrupted
  if (PyList_Check(seq))
    return k < PyList_GET_SIZE(seq) ? Py_NewRef(PyList_GET_ITEM(seq, k)) : PySequence_GetItem(seq, k);
  if (PyTuple_CheckExact(seq)) return Py_NewRef(PyTuple_GET_ITEM(seq, k));
  return PySequence_GetItem(seq, k);
}

// What ends the nesting and is copied whole: a tensor or an array with dimensions. One element of a tensor, in whatever
// shape, counts as a number; an array keeps its shape.
bool is_block(PyObject* o) {
  if (is_tensor(o)) return as_tensor(o)->numel != 1;
  return is_numpy_array(o);
}
void refuse_meta(const Tensor& t) {
  if (t.is_meta()) runtime_error("tensor(): a meta tensor inside the data has no values to copy");
}
TensorRef block(PyObject* o) {
  if (!is_tensor(o)) return from_buffer(o);
  refuse_meta(*as_tensor(o));
  need_values(*as_tensor(o));
  return resolved(*as_tensor(o));
}

void find_shape(PyObject* o, std::vector<int64_t>& shape) {
  Held hold = Held::borrow(o);
  while (true) {
    if (is_tensor(hold.p) || is_numpy_array(hold.p)) {
      if (is_block(hold.p)) {
        TensorRef t = block(hold.p);
        for (int64_t size : t->shape()) {
          shape.push_back(size);
          if (size == 0) return;  // nothing below has a size, as in an empty list
        }
      }
      break;
    }
    if (is_numpy_scalar(hold.p) || !is_sequence(hold.p)) return;
    Py_ssize_t n = PySequence_Size(hold.p);
    if (n < 0) throw PythonError();
    shape.push_back(n);
    if (shape.size() > size_t(kMaxDims)) value_error("tensor(): the data is nested more than ", kMaxDims, " deep");
    if (n == 0) return;
    hold = checked(item_at(hold.p, 0));
  }
  if (shape.size() > size_t(kMaxDims)) value_error("tensor(): the data has more than ", kMaxDims, " dimensions");
}

[[noreturn]] void no_number(PyObject* o, int depth) {
  const char* type = Py_TYPE(o)->tp_name;
  bool text = PyUnicode_Check(o) || PyBytes_Check(o);
  if (text || is_numpy_scalar(o))
    fail(PyUnicode_Check(o) && depth ? ErrorKind::Value : ErrorKind::Type, "tensor(): a ", type,
         " is no number; expected numbers, tensors or nested sequences of them");
  runtime_error("tensor(): no dtype for a ", type, "; expected numbers, tensors or nested sequences of them");
}

// The dtype one element asks for: its own where it has one, else what Python's kind of number stands for.
DType leaf_dtype(PyObject* o, int depth) {
  if (is_tensor(o)) return as_tensor(o)->dtype;
  if (is_numpy_array(o)) return from_buffer(o)->dtype;
  if (DType d = numpy_scalar_dtype(o); d != DType::Undefined) return d;
  if (is_numpy_scalar(o)) no_number(o, depth);
  if (PyFloat_Check(o)) return default_dtype();
  if (PyBool_Check(o)) return DType::Bool;
  if (PyLong_Check(o)) return DType::Int64;
  if (PyComplex_Check(o)) return complex_of(default_dtype());
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) return default_dtype();
  no_number(o, depth);
}

// The dtype all elements of `o` promote to. `depth` levels of the shape are behind; what nests deeper is no array.
void infer(PyObject* o, int depth, int ndim, DType& dtype) {
  bool leaf = is_tensor(o) || is_numpy_array(o) || is_numpy_scalar(o) || !is_sequence(o);
  if (leaf) {
    DType d = leaf_dtype(o, depth);
    dtype = dtype == DType::Undefined || dtype == d ? d : promote_types(dtype, d);
    return;
  }
  Py_ssize_t n = PySequence_Size(o);
  if (n < 0) throw PythonError();
  if (depth == ndim)
    type_error("tensor(): expected a number at depth ", depth, ", where the first element is one (got a ",
               Py_TYPE(o)->tp_name, ")");
  const PyTypeObject* plain = nullptr;  // type of the item before, if another of that type adds nothing
  for (Py_ssize_t k = 0; k < n; ++k) {
    Held item = checked(item_at(o, k));
    if (Py_TYPE(item.p) == plain) continue;
    infer(item.p, depth + 1, ndim, dtype);
    const bool adds_nothing = PyFloat_CheckExact(item.p) || PyLong_CheckExact(item.p) || PyBool_Check(item.p);
    plain = adds_nothing ? Py_TYPE(item.p) : nullptr;
  }
}

void write(char* at, DType dtype, const Value& v) {
  Scalar s = v.scalar();
  if (is_integral(dtype) && dtype != DType::UInt64 && s.category <= Category::Integer) {
    int64_t bits = item_size(dtype) * 8;
    bool is_signed = dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int32 || dtype == DType::Int64;
    bool fits =
        bits == 64 || (is_signed ? s.i >= -(int64_t(1) << (bits - 1)) && s.i < (int64_t(1) << (bits - 1))
                                 : s.i > -(int64_t(1) << bits) && s.i < (int64_t(1) << bits));  // negative numbers wrap
    if (!fits) runtime_error("tensor(): ", s.i, " does not fit in ", dtype_name(dtype));
  }
  if (is_integral(dtype) && s.category == Category::Floating) check_fits(s, dtype);
  if (s.category == Category::Complex && !is_complex(dtype) && dtype != DType::Bool)
    type_error("tensor(): a complex number cannot become ", dtype_name(dtype));
  store_scalar(at, s, dtype);
}

// A Python integer of any size: exact where the dtype holds it, rounded for floating point.
void write_integer(char* at, DType dtype, PyObject* o) {
  int overflow;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return write(at, dtype, Value(int64_t(i)));
  if (is_differentiable(dtype)) {
    double d = PyLong_AsDouble(o);
    if (d == -1 && PyErr_Occurred()) throw PythonError();
    return write(at, dtype, Value(d));
  }
  if (dtype == DType::Bool) return write(at, dtype, Value(true));
  unsigned long long u = 0;
  bool fits = dtype == DType::UInt64 && overflow > 0;
  if (fits) {
    u = PyLong_AsUnsignedLongLong(o);
    fits = !PyErr_Occurred();
    PyErr_Clear();
  }
  if (!fits)
    fail(dtype == DType::UInt64 ? ErrorKind::Overflow : ErrorKind::Value, "tensor(): an integer ",
         overflow < 0             ? "below -2**63"
         : dtype == DType::UInt64 ? "of 2**64 or more"
                                  : "of 2**63 or more",
         " does not fit in ", dtype_name(dtype),
         dtype == DType::Int64 && overflow > 0 ? "; dtype=uint64 holds up to 2**64 - 1" : "");
  *reinterpret_cast<uint64_t*>(at) = u;
}

void write_number(char* at, DType dtype, PyObject* o, int depth) {
  if (PyFloat_Check(o)) return write(at, dtype, Value(PyFloat_AS_DOUBLE(o)));
  if (PyLong_Check(o) && !PyBool_Check(o)) return write_integer(at, dtype, o);
  if (numpy_scalar_dtype(o) != DType::Undefined) {
    Held item = checked(PyObject_CallMethod(o, "item", nullptr));
    return write_number(at, dtype, item.p, depth);
  }
  if (is_numpy_scalar(o) || PyUnicode_Check(o) || PyBytes_Check(o)) no_number(o, depth);
  Value v;
  if (!number_value(o, v)) {
    double d = PyFloat_AsDouble(o);
    if (d == -1 && PyErr_Occurred()) throw PythonError();
    v = Value(d);
  }
  write(at, dtype, v);
}

void store_block(PyObject* o, Tensor& t, int dim, char*& at) {
  TensorRef part = block(o);
  if (part->ndim != t.ndim - dim || !std::equal(part->sizes, part->sizes + part->ndim, t.sizes + dim))
    value_error("tensor(): expected a tensor of shape ", shape_text({t.sizes + dim, size_t(t.ndim - dim)}), " at dim ",
                dim, " (got ", shape_text(part->shape()), ")");
  TensorRef c = to_dtype(*contiguous(*part), t.dtype);
  if (c->nbytes()) std::memcpy(at, c->data, size_t(c->nbytes()));
  at += c->nbytes();
}

template <class T>
Py_ssize_t store_floats(PyObject** items, Py_ssize_t n, char* at) {
  Py_ssize_t k = 0;
  for (; k < n && PyFloat_CheckExact(items[k]); ++k) reinterpret_cast<T*>(at)[k] = T(PyFloat_AS_DOUBLE(items[k]));
  return k;
}

Py_ssize_t store_integers(PyObject** items, Py_ssize_t n, char* at) {
  int overflow = 0;
  Py_ssize_t k = 0;
  for (; k < n && PyLong_CheckExact(items[k]); ++k) {
    const long long i = PyLong_AsLongLongAndOverflow(items[k], &overflow);
    if (overflow) break;
    reinterpret_cast<int64_t*>(at)[k] = i;
  }
  return k;
}

Py_ssize_t store_bools(PyObject** items, Py_ssize_t n, char* at) {
  Py_ssize_t k = 0;
  for (; k < n && PyBool_Check(items[k]); ++k) at[k] = items[k] == Py_True;
  return k;
}

// The common case, without dispatch per element: how many of the first items are plain numbers, which are written.
Py_ssize_t store_plain(PyObject* o, Py_ssize_t n, DType dtype, char* at) {
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return 0;
  PyObject** items = PySequence_Fast_ITEMS(o);
  if (dtype == DType::Float32) return store_floats<float>(items, n, at);
  if (dtype == DType::Float64) return store_floats<double>(items, n, at);
  if (dtype == DType::Int64) return store_integers(items, n, at);
  return dtype == DType::Bool ? store_bools(items, n, at) : 0;
}

void store(PyObject* o, Tensor& t, int dim, char*& at) {
  if (is_block(o)) return store_block(o, t, dim, at);
  if (dim == t.ndim) {
    if (is_tensor(o)) {
      refuse_meta(*as_tensor(o));
      TensorRef inner = readable(*as_tensor(o));
      Held number = checked(element_object(*inner, inner->data));
      write_number(at, t.dtype, number.p, dim);
    } else if (is_sequence(o) && !is_numpy_scalar(o)) {
      type_error("tensor(): expected a number at depth ", dim, ", where the first element is one (got a ",
                 Py_TYPE(o)->tp_name, ")");
    } else {
      write_number(at, t.dtype, o, dim);
    }
    at += t.itemsize();
    return;
  }
  Py_ssize_t n = is_sequence(o) ? PySequence_Size(o) : -1;
  if (n < 0 && PyErr_Occurred()) throw PythonError();
  if (n < 0 || is_tensor(o))
    type_error("tensor(): expected a sequence of length ", t.sizes[dim], " at dim ", dim, " (got ", Py_TYPE(o)->tp_name,
               ")");
  if (n != t.sizes[dim])
    value_error("tensor(): expected a sequence of length ", t.sizes[dim], " at dim ", dim, " (got length ", n, ")");
  Py_ssize_t k = dim + 1 == t.ndim ? store_plain(o, n, t.dtype, at) : 0;
  at += k * t.itemsize();
  for (; k < n; ++k) {
    Held item = checked(item_at(o, k));
    store(item.p, t, dim + 1, at);
  }
}

// The array that a container of another library says it is: a data frame's items are columns by name, a series' items
// have labels. Null where it says nothing; lists of numbers, tensors and NumPy's own objects are read as they are.
Held said_array(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || !PySequence_Check(o)) return {};
  if (is_tensor(o) || is_numpy_array(o) || is_numpy_scalar(o) || PyType_Check(o)) return {};
  Held make = Held(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__array__"));
  if (!make.p) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
    return {};
  }
  Held found = checked(PyObject_CallOneArg(make.p, o));
  if (!is_numpy_array(found.p)) type_error("tensor(): __array__ of a ", Py_TYPE(o)->tp_name, " gave a ",
                                           Py_TYPE(found.p)->tp_name, ", expected a NumPy array");
  return found;
}

// array(data, dtype or None, copy) -> Tensor
PyObject* array(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 3) type_error("array takes data, dtype, copy");
    DType dtype = a[1] == Py_None ? DType::Undefined : parse_dtype(a[1], "tensor");
    bool copy = a[2] == Py_True;
    if (is_tensor(a[0])) {
      Tensor& t = *as_tensor(a[0]);
      bool same = dtype == DType::Undefined || dtype == t.dtype;
      if (!copy && same) return Py_NewRef(a[0]);
      TensorRef out = empty(t.shape(), same ? t.dtype : dtype, t.device);
      copy_into(*out, t);
      return take_object(std::move(out));
    }
    if (!PyList_Check(a[0]) && !PyNumber_Check(a[0]) && PyObject_HasAttrString(a[0], "_as_tensor")) {  // a storage
      Held t = checked(PyObject_CallMethod(a[0], "_as_tensor", "O", a[1]));
      PyObject* again[] = {t.p, a[1], a[2]};
      return array(nullptr, again, 3);
    }
    const Held said = said_array(a[0]);
    PyObject* data = said.p ? said.p : a[0];
    if (!copy && is_numpy_array(data)) {
      TensorRef t = from_buffer(data);
      return take_object(dtype == DType::Undefined ? std::move(t) : to_dtype(*t, dtype));
    }
    return take_object(tensor_from_data(data, dtype));
  });
}

PyObject* from_numpy(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_numpy_array(o)) type_error("from_numpy(): expected np.ndarray (got ", Py_TYPE(o)->tp_name, ")");
    return take_object(from_buffer(o));
  });
}

// from_buffer(exporter) -> Tensor over its memory, in the buffer's own shape and dtype
PyObject* from_any_buffer(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* { return take_object(from_buffer(o)); });
}

// How many elements frombuffer takes; a negative count: all behind the offset.
int64_t elements_in(const Py_buffer& b, int64_t size, int64_t count, int64_t offset) {
  if (b.len == 0) value_error("frombuffer: the buffer is empty");
  if (offset < 0 || offset >= b.len)
    value_error("frombuffer: offset ", offset, " lies outside the buffer of ", b.len, " bytes");
  if (count == 0) value_error("frombuffer: count=0 asks for no elements; use zeros(0) for an empty tensor");
  const int64_t room = b.len - offset;
  if (count < 0 && room % size)
    value_error("frombuffer: the ", room, " bytes after offset hold no whole number of elements of ", size,
                " bytes; pass count=");
  if (count >= 0 && count > room / size)
    value_error("frombuffer: requested buffer length (", count, " * ", size, " bytes) is larger than what is left (",
                room, " bytes)");
  return count < 0 ? room / size : count;
}

// frombuffer(buffer, dtype, count, offset)
PyObject* frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
  PyObject *buffer, *dtype = nullptr;
  long long count = -1, offset = 0;
  int requires_grad = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLp", const_cast<char**>(names), &buffer, &dtype, &count, &offset,
                                   &requires_grad))
    return nullptr;
  return guarded([&]() -> PyObject* {
    if (!dtype) type_error("frombuffer: expected a dtype");
    DType d = parse_dtype(dtype, "frombuffer");
    if (requires_grad && !is_differentiable(d))
      runtime_error("frombuffer: numbers of ", dtype_name(d), " have no derivatives; requires_grad=True needs a "
                    "floating-point or complex dtype");
    auto hold = std::make_unique<BufferHold>();
    if (PyObject_GetBuffer(buffer, &hold->view, PyBUF_WRITABLE) < 0) {
      PyErr_Clear();
      if (!PyObject_CheckBuffer(buffer))
        value_error("frombuffer: expected a buffer (bytes, bytearray, memoryview …), got a ", Py_TYPE(buffer)->tp_name);
      checked(PyObject_GetBuffer(buffer, &hold->view, PyBUF_SIMPLE));
    }
    Py_buffer& b = hold->view;
    struct Release { Py_buffer* b; ~Release() { if (b) PyBuffer_Release(b); } } guard{&b};
    int64_t shape[] = {elements_in(b, item_size(d), count, offset)};
    char* low = static_cast<char*>(b.buf);
    TensorRef t = over_buffer(b, d, low, size_t(b.len), low + offset);
    set_contiguous_dims(*t, shape);
    guard.b = nullptr;
    t->storage->context = hold.release();
    if (requires_grad) t->flags |= kRequiresGrad;
    return take_object(std::move(t));
  });
}

// placed(tensor, device or None): on that device, or where tensors are made that name none
PyObject* placed_tensor(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0])) type_error("placed takes a tensor and a device");
    Device d = a[1] == Py_None ? default_device() : parse_device(a[1]);
    if (d.type == DeviceType::CUDA) d = placed(d);
    const Device here = as_tensor(a[0])->device;
    bool same = d.type == DeviceType::CUDA ? d == here : d.type == here.type && d.index <= 0;
    if (same || (a[1] == Py_None && d.type == DeviceType::CPU)) return Py_NewRef(a[0]);
    return PyObject_CallMethod(a[0], "to", "N", device_object(d));
  });
}

PyMethodDef functions[] = {
    {"placed", method<placed_tensor>(), METH_FASTCALL},
    {"array", method<array>(), METH_FASTCALL},
    {"from_numpy", slot<from_numpy>, METH_O, "from_numpy(ndarray, /)\n--\n\nA tensor over the array's memory."},
    {"from_buffer", slot<from_any_buffer>, METH_O},
    {"frombuffer", method<frombuffer>(), METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\n"
     "A 1-d tensor over the buffer's memory."},
    {}};

}  // namespace

TensorRef tensor_from_data(PyObject* data, DType dtype) {
  if (PyMemoryView_Check(data) && PyMemoryView_GET_BUFFER(data)->ndim != 1)
    value_error("tensor(): a memoryview of ", PyMemoryView_GET_BUFFER(data)->ndim, " dimensions is no sequence of "
                "numbers; from_numpy(numpy.asarray(view)) keeps its shape and dtype");
  if (is_numpy_array(data)) {
    TensorRef t = from_buffer(data);
    TensorRef out = empty(t->shape(), dtype == DType::Undefined ? t->dtype : dtype);
    copy_into(*out, *t);
    return out;
  }
  std::vector<int64_t> shape;
  find_shape(data, shape);
  if (dtype == DType::Undefined) infer(data, 0, int(shape.size()), dtype);
  if (dtype == DType::Undefined) dtype = default_dtype();  // no elements
  TensorRef t = empty(shape, dtype);
  char* at = t->data;
  if (t->numel > 0) store(data, *t, 0, at);
  return t;
}

void add_construction(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
