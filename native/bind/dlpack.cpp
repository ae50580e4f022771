// DLPack: tensors handed to other libraries and taken from them, over the same memory. The structures are the ones of
// the DLPack specification, versions 0.x ("dltensor" capsules) and 1.x ("dltensor_versioned").
#include <memory>

#include "../core/device_table.h"
#include "../core/recording.h"
#include "../core/stamp.h"
#include "foreign.h"
#include "slot.h"

namespace flambeau {
namespace {

// --- the specification's structures ---------------------------------------------------------------------------------

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
struct Unversioned {
  DLTensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};
struct Versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  DLTensor tensor;
};
enum : uint64_t { kReadOnly = 1, kIsCopy = 2 };
enum : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };
enum : uint8_t { kInt, kUInt, kFloat, kOpaque, kBfloat, kComplex, kBool, kFloat8_e4m3fn = 10, kFloat8_e5m2 = 12 };

const struct { DType dtype; DLDataType code; } kTypes[] = {
    {DType::Bool, {kBool, 8, 1}}, {DType::UInt8, {kUInt, 8, 1}}, {DType::Int8, {kInt, 8, 1}},
    {DType::Int16, {kInt, 16, 1}}, {DType::UInt16, {kUInt, 16, 1}}, {DType::Int32, {kInt, 32, 1}},
    {DType::UInt32, {kUInt, 32, 1}}, {DType::Int64, {kInt, 64, 1}}, {DType::UInt64, {kUInt, 64, 1}},
    {DType::Float16, {kFloat, 16, 1}}, {DType::BFloat16, {kBfloat, 16, 1}}, {DType::Float32, {kFloat, 32, 1}},
    {DType::Float64, {kFloat, 64, 1}}, {DType::Complex64, {kComplex, 64, 1}}, {DType::Complex128, {kComplex, 128, 1}},
    {DType::Float8_e4m3fn, {kFloat8_e4m3fn, 8, 1}}, {DType::Float8_e5m2, {kFloat8_e5m2, 8, 1}}};

// --- out
// --------------------------------------------------------------------------------------------------------------

// What a consumer holds until it calls the deleter: the tensor, and the sizes the structure points to.
template <class Managed>
struct Export {
  Managed managed{};
  TensorRef tensor;
  std::vector<int64_t> dims;
};

template <class Managed>
void delete_export(Managed* m) {
  PyGILState_STATE lock = PyGILState_Ensure();  // the consumer may run without the interpreter's lock
  delete static_cast<Export<Managed>*>(m->context);
  PyGILState_Release(lock);
}

template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) {  // nobody consumed it
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  m->deleter(m);
}

template <class Managed>
Managed* describe(const Tensor& t) {
  auto e = std::make_unique<Export<Managed>>();
  e->tensor = alias(t);
  e->dims.assign(t.sizes, t.sizes + t.ndim);
  e->dims.insert(e->dims.end(), t.strides, t.strides + t.ndim);
  // a step over a dimension of one element may be anything; consumers take 1
  for (int k = 0; k < t.ndim; ++k)
    if (t.sizes[k] < 2) e->dims[size_t(t.ndim + k)] = 1;
  DLTensor& d = e->managed.tensor;
  d.data = t.data;
  d.device = t.device.type == DeviceType::CUDA ? DLDevice{kCuda, t.device.index} : DLDevice{kCpu, 0};
  d.ndim = t.ndim;
  for (const auto& entry : kTypes)
    if (entry.dtype == t.dtype) d.dtype = entry.code;
  d.shape = e->dims.data();
  d.strides = e->dims.data() + t.ndim;
  e->managed.deleter = delete_export<Managed>;
  e->managed.context = e.get();
  return &e.release()->managed;
}

// to_dlpack(tensor, versioned, copied) -> capsule
PyObject* to_dlpack(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 3 || !is_tensor(a[0])) type_error("to_dlpack(): expected a Tensor");
    Tensor& t = *as_tensor(a[0]);
    auto refuse = [](const char* text) -> PyObject* {
      PyErr_SetString(PyExc_BufferError, text);
      return nullptr;
    };
    if (tensor_requires_grad(t)) return refuse("this tensor requires grad, which an exported one cannot; export "
                                               "x.detach()");
    if (t.level) return refuse("a tensor inside a transform (vmap, jvp …) has no memory of its own there");
    if (t.flags & kLazy) return refuse("the tensor's memory holds its conjugate or negative; export "
                                       "x.resolve_conj() or x.resolve_neg()");
    if (t.is_meta()) return refuse("Cannot pack tensors on meta: they have no memory");
    if (t.device.type != DeviceType::CPU && t.device.type != DeviceType::CUDA) 
      return refuse("the tensor's device has no number in DLPack; export x.cpu()");
    if (t.flags & kPending) need_memory(t);
    about_to_read(t);
    about_to_write(t);  // by whoever gets it
    bool readonly = t.storage && t.storage->readonly;
    if (a[1] != Py_True) {
      if (readonly)
        return refuse(
            "the tensor's memory is read-only, which only DLPack 1.0 can say: ask with max_version=(1, 0), or copy it");
      if (t.storage) give_address(*t.storage);
      return PyCapsule_New(describe<Unversioned>(t), "dltensor",
                           [](PyObject* c) { destroy_capsule<Unversioned>(c, "dltensor"); });
    }
    if (t.storage) give_address(*t.storage);
    Versioned* m = describe<Versioned>(t);
    m->major = 1;
    m->minor = 1;
    m->flags = (readonly ? uint64_t(kReadOnly) : 0) | (a[2] == Py_True ? uint64_t(kIsCopy) : 0);
    return PyCapsule_New(m, "dltensor_versioned",
                         [](PyObject* c) { destroy_capsule<Versioned>(c, "dltensor_versioned"); });
  });
}

// --- in
// ---------------------------------------------------------------------------------------------------------------

template <class Managed>
void free_import(Storage* s) {
  auto* m = static_cast<Managed*>(s->context);
  if (m->deleter) m->deleter(m);
}

DType dtype_of(DLDataType d) {
  if (d.lanes != 1) not_implemented("from_dlpack: elements with ", int(d.lanes), " lanes are not supported");
  for (const auto& entry : kTypes)
    if (entry.code.code == d.code && entry.code.bits == d.bits) return entry.dtype;
  not_implemented("from_dlpack: unsupported element type (code ", int(d.code), ", ", int(d.bits), " bits)");
}

// The addresses that such an array reaches, also with negative strides, in bytes around its first element.
struct Reach {
  int64_t low = 0, high = 0;
  bool none = false;  // it has no elements
};
Reach reach_of(Dims shape, Dims strides, int64_t item) {
  Reach r;
  for (size_t k = 0; k < shape.size(); ++k) {
    int64_t reach;
    r.none |= shape[k] == 0;
    if (shape[k] > 0 &&
        (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) || __builtin_mul_overflow(reach, item, &reach) ||
         __builtin_add_overflow(reach < 0 ? r.low : r.high, reach, reach < 0 ? &r.low : &r.high)))
      value_error("from_dlpack: shape ", shape_text(shape), " with strides ", shape_text(strides), " overflows");
  }
  return r.none ? Reach{0, 0, true} : r;
}

template <class Managed>
TensorRef take(Managed* m, bool readonly) {
  const DLTensor& d = m->tensor;
  const bool there = d.device.type == kCuda && has_device({DeviceType::CUDA, -1});
  if (d.device.type != kCpu && d.device.type != kCudaHost && !there)
    runtime_error("from_dlpack: the memory is on DLPack device type ", d.device.type,
                  ", and this build uses the CPU only");
  if (d.ndim < 0 || d.ndim > kMaxDims || (d.ndim && !d.shape)) value_error("from_dlpack: ", d.ndim, " dimensions");
  DType dtype = dtype_of(d.dtype);
  int64_t item = item_size(dtype);
  std::vector<int64_t> shape(d.shape, d.shape + d.ndim);
  for (int64_t size : shape)
    if (size < 0) value_error("from_dlpack: negative size in ", shape_text(shape));
  count(shape);
  std::vector<int64_t> strides =
      d.strides ? std::vector<int64_t>(d.strides, d.strides + d.ndim) : contiguous_strides(shape);
  char* start = static_cast<char*>(d.data) + d.byte_offset;
  const auto [low, high, none] = reach_of(shape, strides, item);
  if (!none && !d.data) value_error("from_dlpack: elements but no memory");
  if (reinterpret_cast<uintptr_t>(start) % uintptr_t(std::min<int64_t>(item, 8)))
    value_error("from_dlpack: the memory is not aligned for ", dtype_name(dtype));
  TensorRef t = over_foreign(start + low, none ? 0 : size_t(high - low + item), readonly, dtype, start);
  if (there) t->device = t->storage->device = placed({DeviceType::CUDA, int8_t(d.device.id)});
  set_dims(*t, shape, strides);
  t->storage->context = m;  // last: from here on the tensor owns it
  t->storage->free = free_import<Managed>;
  return t;
}

// from_dlpack(capsule) -> Tensor; the capsule is used up
PyObject* from_dlpack(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
      auto* m = static_cast<Versioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      if (m->major > 1) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: DLPack %u.%u is newer than the versions known here (1.x)",
                     m->major, m->minor);
        return nullptr;
      }
      TensorRef t = take(m, m->flags & kReadOnly);
      PyCapsule_SetName(capsule, "used_dltensor_versioned");
      return take_object(std::move(t));
    }
    if (!PyCapsule_IsValid(capsule, "dltensor"))
      runtime_error("from_dlpack: this capsule holds no tensor: it was used up by an earlier from_dlpack, or is "
                    "something else");
    TensorRef t = take(static_cast<Unversioned*>(PyCapsule_GetPointer(capsule, "dltensor")), false);
    PyCapsule_SetName(capsule, "used_dltensor");
    return take_object(std::move(t));
  });
}

PyMethodDef functions[] = {{"to_dlpack", method<to_dlpack>(), METH_FASTCALL, nullptr},
                           {"from_dlpack", slot<from_dlpack>, METH_O, nullptr},
                           {}};

}  // namespace

void add_dlpack(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
