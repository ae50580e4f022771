// Storages as save and load see them: the bytes of a whole storage as a tensor, and tensors of any dtype over such
// bytes.
#include "storage.h"

#include "../core/images.h"

#include <fcntl.h>

#include "../core/recording.h"
#include "../core/stamp.h"
#include "../kernels/checksum.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

// storage_id(t): the same for tensors that share memory.
PyObject* storage_id(PyObject*, PyObject* o) {
  return guarded([&] {
    if (!is_tensor(o)) type_error("storage_id: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Storage* s = as_tensor(o)->storage;
    return PyLong_FromVoidPtr(s && s->data ? s->data : static_cast<void*>(s));
  });
}

// storage_bytes(t): a uint8 tensor over all of t's storage.
PyObject* storage_bytes(PyObject*, PyObject* o) {
  return guarded([&] {
    if (!is_tensor(o)) type_error("storage_bytes: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Tensor& t = *as_tensor(o);
    need_values(t);
    if (t.is_meta() || !t.storage) runtime_error("storage_bytes: the tensor has no memory");
    int64_t size[] = {int64_t(t.storage->nbytes)}, step[] = {1};
    TensorRef bytes = view_of(t, size, step, static_cast<char*>(t.storage->data));
    bytes->dtype = DType::UInt8;
    bytes->flags &= uint16_t(~kLazy);  // the memory itself, whatever it stands for
    return take_object(std::move(bytes));
  });
}

// The elements from the first to the last that a layout reaches must lie in [0, room).
void check_reach(Dims shape, Dims strides, int64_t offset, int64_t room) {
  if (shape.size() != strides.size() || shape.size() > size_t(kMaxDims))
    value_error("storage_view: ", shape.size(), " sizes and ", strides.size(), " strides");
  bool none = false, overflow = offset < 0;
  int64_t last = offset;
  for (size_t k = 0; k < shape.size(); ++k) {
    int64_t reach;
    none |= shape[k] == 0;
    overflow |= shape[k] < 0 || strides[k] < 0;
    overflow |= shape[k] > 0 && (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) ||
                                 __builtin_add_overflow(last, reach, &last));
  }
  count(shape);
  if (overflow || (!none && last >= room))
    value_error("storage_view: shape ", shape_text(shape), " with strides ", shape_text(strides), " at ", offset,
                " reaches outside the storage of ", room, " elements");
}

// storage_view(bytes, dtype, offset, shape, strides): a tensor over the memory of a contiguous uint8 tensor.
PyObject* storage_view(PyObject*, PyObject* args) {
  PyObject *source, *dtype, *shape, *strides;
  long long offset;
  if (!PyArg_ParseTuple(args, "O!O!LO!O!", TensorType, &source, DTypeType, &dtype, &offset, &PyTuple_Type, &shape,
                        &PyTuple_Type, &strides))
    return nullptr;
  return guarded([&] {
    Tensor& bytes = *as_tensor(source);
    need_values(bytes);
    if (bytes.dtype != DType::UInt8 || !bytes.contiguous())
      type_error("storage_view: expected contiguous uint8 memory");
    DType type = reinterpret_cast<DTypeObject*>(dtype)->dtype;
    std::vector<int64_t> sizes = integers_of(shape), steps = integers_of(strides);
    int64_t item = item_size(type);
    check_reach(sizes, steps, offset, bytes.numel / item);
    offset = std::min<long long>(offset, bytes.numel / item);  // without elements it may begin anywhere: not outside
    if (reinterpret_cast<uintptr_t>(bytes.data) % item)
      value_error("storage_view: the memory is not aligned for ", dtype_name(type));
    TensorRef t = view_of(bytes, sizes, steps, bytes.data + offset * item);
    t->dtype = type;
    return take_object(std::move(t));
  });
}

// storage_resizable(t): whether t's memory may be replaced by a larger one.
PyObject* storage_resizable(PyObject*, PyObject* o) {
  return guarded([&] {
    if (!is_tensor(o)) type_error("storage_resizable: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    return PyBool_FromLong(!as_tensor(o)->storage || as_tensor(o)->storage->resizable);
  });
}

// storage_resize(t, nbytes): whether t's storage could get that size where it is.
PyObject* storage_resize(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0])) type_error("storage_resize takes a tensor and a number of bytes");
    Tensor& t = *as_tensor(a[0]);
    const int64_t nbytes = integer_of(a[1]);
    if (nbytes < 0) value_error("storage_resize: expected a number of bytes, got ", nbytes);
    need_values(t);
    await_calls(t);
    if (t.storage->readonly || !resize_in_place(t.storage, size_t(nbytes))) Py_RETURN_FALSE;
    count_write(*t.storage, 1);
    Py_RETURN_TRUE;
  });
}

// bump_version(t, times=1): a write that native code did not see (into memory shared with NumPy, say) counts as one.
PyObject* bump(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n < 1 || n > 2 || !is_tensor(a[0])) type_error("bump_version takes a tensor and how often it was written");
    const int64_t times = n == 2 ? integer_of(a[1]) : 1;
    if (times < 0) value_error("bump_version: versions only grow, got ", times);
    if (Storage* s = as_tensor(a[0])->storage) count_write(*s, uint64_t(times));
    Py_RETURN_NONE;
  });
}

// follow_writes(t): t is a parameter, of whose weights something may be kept until they are written to.
PyObject* follow(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("follow_writes: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    if (Storage* s = as_tensor(o)->storage) follow_writes(*s);
    Py_RETURN_NONE;
  });
}

// stamp_of(t): what changes with every write to t's memory (core/stamp.h); None where nobody can tell.
PyObject* stamp(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("stamp_of: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    const Storage* s = as_tensor(o)->storage;
    const Stamp now = s ? stamp_of(*s) : Stamp{};
    return now ? Py_BuildValue("KK", now.memory, now.writes) : Py_NewRef(Py_None);
  });
}

// lies_channels_last(t): whether t, which looks contiguous, has its channels last in memory (core/images.h).
PyObject* lies_channels_last(PyObject*, PyObject* o) {
  return guarded([&] {
    if (!is_tensor(o)) type_error("lies_channels_last: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    return PyBool_FromLong(last_images(*as_tensor(o)) != nullptr);
  });
}

// storage_users(t): how many tensors lie over t's storage.
PyObject* storage_users(PyObject*, PyObject* o) {
  return guarded([&] {
    if (!is_tensor(o)) type_error("storage_users: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Storage* s = as_tensor(o)->storage;
    return PyLong_FromLongLong(s ? s->refcount : 0);
  });
}

// crc32(bytes, before=0): the checksum of a buffer, as zlib.crc32 computes it; other threads go on meanwhile.
PyObject* checksum(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int before = 0;
  if (!PyArg_ParseTuple(args, "y*|I", &view, &before)) return nullptr;
  uint32_t found;
  Py_BEGIN_ALLOW_THREADS
  found = crc32(before, static_cast<const uint8_t*>(view.buf), size_t(view.len));
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(found);
}

// start_writing(descriptor, first byte, bytes): asks the system to begin bringing a part of a file to the disk. It is a
// wish: where the system has no such thing, or the file none, nothing happens.
PyObject* start_writing(PyObject*, PyObject* args) {
  int descriptor;
  long long first, bytes;
  if (!PyArg_ParseTuple(args, "iLL", &descriptor, &first, &bytes)) return nullptr;
#if defined(SYNC_FILE_RANGE_WRITE)
  Py_BEGIN_ALLOW_THREADS
  sync_file_range(descriptor, first, bytes, SYNC_FILE_RANGE_WRITE);
  Py_END_ALLOW_THREADS
#endif
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start_writing", slot<start_writing>, METH_VARARGS, nullptr},
    {"crc32", slot<checksum>, METH_VARARGS, nullptr},
    {"lies_channels_last", slot<lies_channels_last>, METH_O, nullptr},
    {"storage_users", slot<storage_users>, METH_O, nullptr},
    {"storage_resizable", slot<storage_resizable>, METH_O, nullptr},
    {"storage_resize", method<storage_resize>(), METH_FASTCALL, nullptr},
    {"bump_version", method<bump>(), METH_FASTCALL, nullptr},
    {"follow_writes", slot<follow>, METH_O, nullptr},
    {"stamp_of", slot<stamp>, METH_O, nullptr},
    {"storage_id", slot<storage_id>, METH_O, nullptr},
    {"storage_bytes", slot<storage_bytes>, METH_O, nullptr},
    {"storage_view", slot<storage_view>, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_storage(_object* module) {
  if (PyModule_AddFunctions(module, methods) < 0) throw PythonError();
}

}  // namespace flambeau
