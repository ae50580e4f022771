// The buffer protocol: which tensors give their memory to memoryview, NumPy and others, and for how long.
#include "../core/recording.h"
#include "../core/stamp.h"
#include "tensor_type.h"

namespace flambeau {
namespace {

const char* buffer_format(DType d) {
  switch (d) {
    case DType::Bool: return "?";
    case DType::UInt8: return "B";
    case DType::Int8: return "b";
    case DType::Int16: return "h";
    case DType::UInt16: return "H";
    case DType::Int32: return "i";
    case DType::UInt32: return "I";
    case DType::Int64: return sizeof(long) == 8 ? "l" : "q";  // of two C types of 64 bits the one that is numpy.int64
    case DType::UInt64: return sizeof(long) == 8 ? "L" : "Q";
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
  Py_ssize_t* dims() { return reinterpret_cast<Py_ssize_t*>(this + 1); }  // sizes, then steps in bytes: one allocation
};
GivenBuffer* give(const Tensor& t) {
  auto* given = static_cast<GivenBuffer*>(PyMem_Malloc(sizeof(GivenBuffer) + 2 * size_t(t.ndim) * sizeof(Py_ssize_t)));
  if (!given) return nullptr;
  given->storage = t.storage;
  retain(given->storage);
  for (int k = 0; k < t.ndim; ++k) {
    given->dims()[k] = t.sizes[k];
    given->dims()[t.ndim + k] = t.strides[k] * t.itemsize();
  }
  return given;
}

}  // namespace

int get_buffer(PyObject* o, Py_buffer* view, int flags) {
  Tensor& t = self(o);
  if (t.flags & kPending && guarded_int([&] { return need_memory(t), 0; }) < 0) return -1;
  if (guarded_int([&] { return about_to_read(t), about_to_write(t), 0; }) < 0) return -1;  // by whoever gets it
  const char* format = buffer_format(t.dtype);
  const char* problem = t.flags & kDispatch && (t.level || !t.storage || !t.storage->data)
                            ? "its values are not in its own memory (it is inside a transform, or a wrapper)"
                        : !t.storage                                      ? "it has no memory"
                        : !format                                         ? "its dtype has no buffer format"
                        : t.flags & kConj ? "its memory holds the conjugate: export x.resolve_conj()"
                        : t.flags & kNeg  ? "its memory holds the negative: export x.resolve_neg()"
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
  give_address(*t.storage);
  GivenBuffer* given = give(t);
  if (!given) return PyErr_NoMemory(), -1;
  *view = Py_buffer{};
  view->buf = t.data;
  view->obj = Py_NewRef(o);
  view->len = nbytes;
  view->itemsize = t.itemsize();
  view->readonly = t.storage->readonly;
  view->ndim = t.ndim;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? given->dims() : nullptr;
  view->strides = flags & PyBUF_STRIDES ? given->dims() + t.ndim : nullptr;
  view->internal = given;
  return 0;
}
void release_buffer(PyObject*, Py_buffer* view) {
  auto* given = static_cast<GivenBuffer*>(view->internal);
  release(given->storage);
  PyMem_Free(given);
}

}  // namespace flambeau
