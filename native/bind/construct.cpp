// Tensors from Python data: nested sequences, numbers, and memory of other libraries through the buffer protocol.
#include <cstring>

#include "python.h"

namespace flambeau {
namespace {

// --- foreign memory ---------------------------------------------------------------------------------------------------

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
  if (*f == '>' || *f == '!') value_error("from_numpy: big-endian arrays are not supported; use array.astype(array.dtype.newbyteorder('='))");
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
  type_error("can't convert an array with element format '", f, "'. The supported types are: float64, float32, float16, complex64, "
             "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.");
}

// A tensor over the memory of `o` (an exporter of the buffer protocol).
TensorRef from_buffer(PyObject* o) {
  auto hold = std::make_unique<BufferHold>();
  checked(PyObject_GetBuffer(o, &hold->view, PyBUF_STRIDES | PyBUF_FORMAT));
  Py_buffer& b = hold->view;
  struct Release { Py_buffer* b; ~Release() { if (b) PyBuffer_Release(b); } } guard{&b};
  DType dtype = buffer_dtype(b);
  std::vector<int64_t> shape(b.shape, b.shape + b.ndim), strides(b.ndim);
  int64_t contiguous_step = b.itemsize;
  for (int k = b.ndim; k-- > 0;) {
    int64_t step = b.strides ? b.strides[k] : contiguous_step;
    contiguous_step *= shape[k];
    if (step % b.itemsize) value_error("given numpy array strides not a multiple of the element byte size. Copy the array first (array.copy())");
    strides[k] = step / b.itemsize;
  }
  Storage* s = blank_storage();
  // the storage spans the addresses the array reaches, also with negative strides
  char* low = static_cast<char*>(b.buf);
  char* high = low;
  for (int k = 0; k < b.ndim; ++k)
    if (shape[k] > 0) (strides[k] < 0 ? low : high) += (shape[k] - 1) * strides[k] * b.itemsize;
  s->data = low;
  s->nbytes = size_t(high - low) + size_t(b.itemsize);
  s->resizable = false;
  s->readonly = b.readonly;
  s->free = free_buffer;
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->storage = s;
  t->device = s->device;
  t->dtype = dtype;
  t->data = static_cast<char*>(b.buf);
  set_dims(*t, shape, strides);
  guard.b = nullptr;
  s->context = hold.release();
  return t;
}

// --- sequences -----------------------------------------------------------------------------------------------------

bool is_sequence(PyObject* o) {
  return (PyList_Check(o) || PyTuple_Check(o) || PySequence_Check(o)) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !PyDict_Check(o);
}

PyObject* item_at(PyObject* seq, Py_ssize_t k) {  // new
  if (PyList_Check(seq)) return k < PyList_GET_SIZE(seq) ? Py_NewRef(PyList_GET_ITEM(seq, k)) : PySequence_GetItem(seq, k);
  return PySequence_GetItem(seq, k);
}

void find_shape(PyObject* o, std::vector<int64_t>& shape) {
  Held hold = Held::borrow(o);
  while (true) {
    if (is_tensor(hold.p)) {
      shape.insert(shape.end(), as_tensor(hold.p)->sizes, as_tensor(hold.p)->sizes + as_tensor(hold.p)->ndim);
      return;
    }
    if (!is_sequence(hold.p)) return;
    Py_ssize_t n = PySequence_Size(hold.p);
    if (n < 0) throw PythonError();
    shape.push_back(n);
    if (shape.size() > size_t(kMaxDims)) value_error("too many dimensions: nested more than ", kMaxDims, " deep");
    if (n == 0) return;
    hold = checked(item_at(hold.p, 0));
  }
}

struct Inferred {
  Category category = Category::Bool;
  DType dtype = DType::Undefined;  // of tensors inside
  bool any = false;
};

void infer(PyObject* o, Inferred& in) {
  Value v;
  if (is_tensor(o)) {
    DType d = as_tensor(o)->dtype;
    in.dtype = in.dtype == DType::Undefined ? d : promote_types(in.dtype, d);
    return;
  }
  if (is_sequence(o)) {
    Py_ssize_t n = PySequence_Size(o);
    if (n < 0) throw PythonError();
    if (Py_EnterRecursiveCall(" while reading nested data")) throw PythonError();
    for (Py_ssize_t k = 0; k < n; ++k) {
      Held item = checked(item_at(o, k));
      infer(item.p, in);
    }
    Py_LeaveRecursiveCall();
    return;
  }
  if (std::strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0 && PyObject_CheckBuffer(o) && !PyFloat_Check(o)) {  // NumPy scalars keep their dtype
    TensorRef t = from_buffer(o);
    in.dtype = in.dtype == DType::Undefined ? t->dtype : promote_types(in.dtype, t->dtype);
    return;
  }
  int overflow = 0;
  if (PyLong_CheckExact(o)) PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow) value_error("Overflow when unpacking long long: an int64 holds less than ", overflow < 0 ? "-2**63" : "2**63", "; dtype=uint64 holds up to 2**64 - 1");
  if (!number_value(o, v)) {
    if (PyObject_HasAttrString(o, "__float__")) v = Value(0.0);
    else if (PyUnicode_Check(o) || PyBytes_Check(o)) type_error("tensor(): invalid data type '", Py_TYPE(o)->tp_name, "'; expected numbers, tensors or nested sequences of them");
    else runtime_error("Could not infer dtype of ", Py_TYPE(o)->tp_name, "; expected numbers, tensors or nested sequences of them");
  }
  in.any = true;
  in.category = std::max(in.category, v.scalar().category);
}

void write(char* at, DType dtype, const Value& v) {
  Scalar s = v.scalar();
  if (is_integral(dtype) && dtype != DType::UInt64 && s.category <= Category::Integer) {
    int64_t bits = item_size(dtype) * 8;
    bool is_signed = dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int32 || dtype == DType::Int64;
    bool fits = bits == 64 || (is_signed ? s.i >= -(int64_t(1) << (bits - 1)) && s.i < (int64_t(1) << (bits - 1))
                                         : s.i > -(int64_t(1) << bits) && s.i < (int64_t(1) << bits));  // negative numbers wrap
    if (!fits) runtime_error("value cannot be converted to type ", dtype_name(dtype), " without overflow: ", s.i);
  }
  if (is_integral(dtype) && s.category == Category::Floating && !(s.re > -9.3e18 && s.re < 1.85e19))
    fail(s.re != s.re ? ErrorKind::Value : ErrorKind::Overflow, "tensor(): cannot convert float ", s.re, " to ", dtype_name(dtype));
  if (s.category == Category::Complex && !is_complex(dtype)) type_error("tensor(): a complex number cannot become ", dtype_name(dtype));
  visit_dtype(dtype, [&]<class T>() { *reinterpret_cast<T*>(at) = s.to<T>(); });
}

void store(PyObject* o, Tensor& t, int dim, char*& at) {
  if (is_tensor(o) && as_tensor(o)->ndim > 0) {
    Tensor& part = *as_tensor(o);
    check_own_values(part);
    if (part.ndim != t.ndim - dim || !std::equal(part.sizes, part.sizes + part.ndim, t.sizes + dim))
      value_error("tensor(): expected a tensor of shape ", shape_text({t.sizes + dim, size_t(t.ndim - dim)}), " at dim ", dim, " (got ", shape_text(part.shape()), ")");
    TensorRef c = to_dtype(*contiguous(part), t.dtype);
    std::memcpy(at, c->data, size_t(c->nbytes()));
    at += c->nbytes();
    return;
  }
  if (dim == t.ndim) {
    Value v;
    if (is_tensor(o)) {
      TensorRef inner = readable(*as_tensor(o));
      Held number = checked(element_object(*inner, inner->data));
      number_value(number.p, v);
    } else if (is_sequence(o)) {
      value_error("tensor(): too many dimensions at dim ", dim, ": expected a number, got a sequence");
    } else if (!number_value(o, v)) {
      double d = PyFloat_AsDouble(o);
      if (d == -1 && PyErr_Occurred()) throw PythonError();
      v = Value(d);
    }
    write(at, t.dtype, v);
    at += t.itemsize();
    return;
  }
  Py_ssize_t n = is_sequence(o) ? PySequence_Size(o) : -1;
  if (n < 0 && PyErr_Occurred()) throw PythonError();
  if (n < 0) type_error("tensor(): expected a sequence of length ", t.sizes[dim], " at dim ", dim, " (got ", Py_TYPE(o)->tp_name, ")");
  if (n != t.sizes[dim]) value_error("expected sequence of length ", t.sizes[dim], " at dim ", dim, " (got ", n, ")");
  if (dim + 1 == t.ndim && PyList_CheckExact(o) && t.dtype == DType::Float32) {  // the common case, without dispatch per element
    auto* out = reinterpret_cast<float*>(at);
    Py_ssize_t k = 0;
    for (; k < n && PyFloat_CheckExact(PyList_GET_ITEM(o, k)); ++k) out[k] = float(PyFloat_AS_DOUBLE(PyList_GET_ITEM(o, k)));
    if (k == n) {
      at += n * 4;
      return;
    }
  }
  for (Py_ssize_t k = 0; k < n; ++k) {
    Held item = checked(item_at(o, k));
    store(item.p, t, dim + 1, at);
  }
}

bool numpy_array(PyObject* o) { return PyObject_CheckBuffer(o) && std::strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0; }

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
      if (!t.is_meta()) copy_into(*out, t);
      return take_object(std::move(out));
    }
    if (!copy && (numpy_array(a[0]) || PyByteArray_Check(a[0]) || PyMemoryView_Check(a[0]))) {
      TensorRef t = from_buffer(a[0]);
      return take_object(dtype == DType::Undefined ? std::move(t) : to_dtype(*t, dtype));
    }
    return take_object(tensor_from_data(a[0], dtype));
  });
}

PyObject* from_numpy(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!numpy_array(o)) type_error("from_numpy(): expected np.ndarray (got ", Py_TYPE(o)->tp_name, ")");
    return take_object(from_buffer(o));
  });
}

// frombuffer(buffer, dtype, count, offset)
PyObject* frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
  PyObject *buffer, *dtype = nullptr;
  long long count = -1, offset = 0;
  int requires_grad = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLp", const_cast<char**>(names), &buffer, &dtype, &count, &offset, &requires_grad)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!dtype) type_error("frombuffer: expected a dtype");
    DType d = parse_dtype(dtype, "frombuffer");
    auto hold = std::make_unique<BufferHold>();
    if (PyObject_GetBuffer(buffer, &hold->view, PyBUF_WRITABLE) < 0) {
      PyErr_Clear();
      checked(PyObject_GetBuffer(buffer, &hold->view, PyBUF_SIMPLE));
    }
    Py_buffer& b = hold->view;
    struct Release { Py_buffer* b; ~Release() { if (b) PyBuffer_Release(b); } } guard{&b};
    int64_t room = b.len - offset, size = item_size(d);
    if (b.len == 0) value_error("frombuffer: the buffer is empty");
    if (offset < 0 || room < 0) value_error("frombuffer: offset (", offset, " bytes) must be non-negative and no greater than the buffer length (", b.len, " bytes)");
    if (count < 0 && room % size) value_error("frombuffer: buffer length (", room, " bytes) after offset must be a multiple of element size (", size, ")");
    if (count >= 0 && count > room / size) value_error("frombuffer: requested buffer length (", count, " * ", size, " bytes) is larger than what is left (", room, " bytes)");
    int64_t shape[] = {count < 0 ? room / size : count};
    Storage* s = blank_storage();
    s->data = b.buf;
    s->nbytes = size_t(b.len);
    s->resizable = false;
    s->readonly = b.readonly;
    s->free = free_buffer;
    TensorRef t = TensorRef::steal(allocate_tensor());
    t->storage = s;
    t->device = s->device;
    t->dtype = d;
    t->data = static_cast<char*>(b.buf) + offset;
    set_contiguous_dims(*t, shape);
    guard.b = nullptr;
    s->context = hold.release();
    if (requires_grad) t->flags |= kRequiresGrad;
    return take_object(std::move(t));
  });
}

// placed(tensor, device or None): on that device, or where tensors are made that name none
PyObject* placed(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0])) type_error("placed takes a tensor and a device");
    Device d = a[1] == Py_None ? default_device() : parse_device(a[1]);
    bool same = d.type == as_tensor(a[0])->device.type && d.index <= 0;
    if (same || (a[1] == Py_None && d.type == DeviceType::CPU)) return Py_NewRef(a[0]);
    return PyObject_CallMethod(a[0], "to", "N", device_object(d));
  });
}

PyMethodDef functions[] = {
    {"placed", (PyCFunction)(void*)placed, METH_FASTCALL},
    {"array", (PyCFunction)(void*)array, METH_FASTCALL},
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray, /)\n--\n\nA tensor over the array's memory."},
    {"frombuffer", (PyCFunction)(void*)frombuffer, METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\n"
     "A 1-d tensor over the buffer's memory."},
    {}};

}  // namespace

TensorRef tensor_from_data(PyObject* data, DType dtype) {
  if (numpy_array(data) || PyMemoryView_Check(data)) {
    TensorRef t = from_buffer(data);
    TensorRef out = empty(t->shape(), dtype == DType::Undefined ? t->dtype : dtype);
    copy_into(*out, *t);
    return out;
  }
  std::vector<int64_t> shape;
  find_shape(data, shape);
  if (dtype == DType::Undefined) {
    Inferred in;
    infer(data, in);
    DType numbers = in.category == Category::Bool && in.any ? DType::Bool
                    : in.category == Category::Integer ? DType::Int64
                    : in.category == Category::Complex ? complex_of(default_dtype()) : default_dtype();
    dtype = in.dtype == DType::Undefined ? numbers : !in.any ? in.dtype : category(numbers) > category(in.dtype) ? numbers : in.dtype;
  }
  TensorRef t = empty(shape, dtype);
  char* at = t->data;
  if (t->numel > 0) store(data, *t, 0, at);
  return t;
}

void add_construction(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
