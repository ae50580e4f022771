// Tensor and Storage: what memory an array uses and how it is laid out.
//
// A Tensor *is* its Python object: it begins with CPython's object header (count, type), so native code and Python
// share one object with one reference count and one identity. Native code knows the header only as two words. Reference
// counts of objects and storages move only while the interpreter lock is held; kernels that release it borrow.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "device.h"
#include "dtype.h"
#include "hooks.h"
#include "parallel.h"
#include "sanitize.h"
#include "scalar.h"
#include "size.h"
#include "state.h"

namespace flambeau {

struct Object {
  intptr_t refcount;
  void* type;
};
inline void retain(Object* o) {
  assert_locked();
  ++o->refcount;
}
inline void release(Object* o) {
  assert_locked();
  if (--o->refcount == 0) hooks.release_object(o);
}

// A counted reference to a Tensor, a Node or any other Object.
template <class T>
struct Ref {
  T* p = nullptr;
  Ref() = default;
  Ref(std::nullptr_t) {}
  static Ref steal(T* p) { Ref r; r.p = p; return r; }
  static Ref borrow(T* p) { if (p) retain(p); return steal(p); }
  Ref(const Ref& o) : p(o.p) { if (p) retain(p); }
  Ref(Ref&& o) noexcept : p(std::exchange(o.p, nullptr)) {}
  Ref& operator=(Ref o) noexcept { std::swap(p, o.p); return *this; }
  ~Ref() { if (p) release(p); }
  T* operator->() const { return p; }
  T& operator*() const { return *p; }
  T* get() const { return p; }
  T* detach() { return std::exchange(p, nullptr); }
  explicit operator bool() const { return p; }
};

struct Storage {
  int64_t refcount;
  uint64_t version;        // bumped by every in-place write through any view
  uint64_t followed;       // not 0: changes with writes that `version` does not count (stamp.h)
  void* data;
  size_t nbytes;
  Device device;
  bool resizable;          // false: memory belongs to NumPy, DLPack, a mapped file
  bool readonly;
  bool unversioned;        // inference-mode memory
  void (*free)(Storage*);  // how `data` goes back
  void* context;           // for `free`
};
Storage* new_storage(size_t nbytes, Device device);  // uninitialised memory; count 1
Storage* blank_storage();                            // no memory yet: for memory of other libraries; count 1
void resize_storage(Storage*, size_t nbytes);        // keeps the first bytes
// Within the memory it has, or false: what is given up goes back to the system, and reads as zeros through the tensors
// that still reach there.
bool resize_in_place(Storage*, size_t nbytes);
void free_storage(Storage*);
inline void retain(Storage* s) {
  assert_locked();
  ++s->refcount;
}
inline void release(Storage* s) {
  assert_locked();
  if (--s->refcount == 0) free_storage(s);
}

struct Node;         // autograd/node.h
struct TensorExtra;  // autograd/node.h: hooks; present only when used

using Dims = std::span<const int64_t>;
inline constexpr int kInlineDims = 5;
inline constexpr int kMaxDims = 64;

enum TensorFlag : uint16_t {
  kRequiresGrad = 1,     // a leaf that wants a gradient
  kWrappedNumber = 2,    // came from a Python number: weak in type promotion
  kOverrides = 4,        // its Python type defines __torch_function__ or __torch_dispatch__
  kContiguous = 8,       // C order, no gaps (kept true by set_dims)
  kRetainGrad = 32,
  kInference = 64,
  kNoGradView = 128,     // a view made while gradients were off
  kDispatch = 256,       // its Python type defines __torch_dispatch__
  kPending = 512,        // its values are not in its memory yet (pending.h)
  kConj = 1024,          // its memory holds the conjugate of its values (lazy.h)
  kNeg = 2048,           // its memory holds their negative
  kLazy = kConj | kNeg,
  kIndirect = kDispatch | kPending | kLazy,
};

struct Tensor : Object {
  void* dict;      // Python's __dict__, made on first use
  void* weakrefs;  // Python's
  Storage* storage;
  char* data;      // address of element [0, 0, …]
  int64_t numel;
  int64_t* sizes;    // ndim sizes, then ndim strides (in elements)
  int64_t* strides;
  uint8_t ndim;
  DType dtype;
  Device device;
  uint16_t flags;
  uint8_t level;  // 0: ordinary; else a wrapper of that transform level (bind/levels.cpp): its memory is not its value
  uint32_t output_nr;      // which output of grad_fn this is
  uint32_t uses;           // of a leaf: edges of live graph nodes that lead here
  uint64_t view_version;   // of a view: the version its grad_fn was made for
  uint64_t first_use;      // of a leaf: the oldest of those nodes is not older than this one (autograd/engine.cpp)
  Node* grad_fn;
  Tensor* grad;
  Tensor* base;            // of a view: the tensor whose memory this is (never itself a view)
  TensorExtra* extra;
  int64_t inline_dims[2 * kInlineDims];

  Dims shape() const { return {sizes, ndim}; }
  Dims stride() const { return {strides, ndim}; }
  int64_t size(int d) const { return sizes[d]; }
  int64_t itemsize() const { return item_size(dtype); }
  int64_t nbytes() const { return numel * itemsize(); }
  bool contiguous() const { return flags & kContiguous; }
  bool is_meta() const { return device.type == DeviceType::Meta; }
  bool requires_grad() const { return grad_fn || (flags & kRequiresGrad); }
  int64_t offset() const {  // in elements; a pending tensor's `data` is the offset itself
    if (flags & kPending) return reinterpret_cast<intptr_t>(data) / itemsize();
    return storage ? (data - static_cast<char*>(storage->data)) / itemsize() : 0;
  }
  template <class T> T* ptr() const { return reinterpret_cast<T*>(data); }
};
using TensorRef = Ref<Tensor>;
[[noreturn]] void no_values(const Tensor& t);
FLAMBEAU_API void make_values(const Tensor& t);  // pending.cpp
// Memory is about to be read outside of execute(): what was recorded to be written there is written first.
FLAMBEAU_API void about_to_read(const Tensor& t);  // recording.cpp
// Afterwards t.data is an address. Throws for wrappers, which have no memory of their own.
inline void need_memory(const Tensor& t) {
  if (__builtin_expect(t.flags & kIndirect, 0)) make_values(t);
}
// The gate before raw data: afterwards t.data points to t's values. Kernels need not ask: execute() has, for all
// arguments.
inline void need_values(const Tensor& t) {
  need_memory(t);
  if (__builtin_expect(tls.recorder != nullptr, 0)) about_to_read(t);
}

// --- making tensors -----------------------------------------------------------------------------------------------
FLAMBEAU_API TensorRef empty(Dims shape, DType dtype, Device device = {});                          // contiguous
FLAMBEAU_API TensorRef empty_strided(Dims shape, Dims strides, DType dtype, Device device = {});
// A view of `base`'s storage. No autograd here: the call layer records views.
FLAMBEAU_API TensorRef view_of(const Tensor& base, Dims shape, Dims strides, char* data);
TensorRef alias(const Tensor& t);             // same memory, same layout, no history
TensorRef wrap_number(const Scalar& value, DType dtype);  // 0-d, CPU, flag kWrappedNumber
FLAMBEAU_API TensorRef contiguous(const Tensor& t);        // t itself when it is already
TensorRef to_dtype(const Tensor& t, DType);   // t itself when it is already
FLAMBEAU_API void copy_into(Tensor& dst, const Tensor& src);  // any strides, dtypes; broadcasts src: kernels/copy.cpp
FLAMBEAU_API void fill(Tensor& dst, const Scalar& value);
void set_dims(Tensor& t, Dims shape, Dims strides);  // also numel and kContiguous
void set_contiguous_dims(Tensor& t, Dims shape);
Tensor* allocate_tensor();                     // blank object, count 1 (free list; bind/ makes the type)
void recycle_tensor(Tensor*);                  // onto the free list; it must hold nothing any more
void blank_tensor(Tensor*);                    // zero everything after the object header
void clear_tensor(Tensor*);                    // drops what it holds

// --- shapes -------------------------------------------------------------------------------------------------------
FLAMBEAU_API std::string shape_text(Dims shape);            // "[2, 3]"
int64_t count(Dims shape);                     // product; throws on overflow
inline int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  int64_t n = ndim > 0 ? ndim : 1;  // a 0-d tensor accepts dim 0 and -1
  if (dim < -n || dim >= n)
    index_error(op, ": dim ", dim, " is out of range for ", n, n == 1 ? " dimension: " : " dimensions: ", -n, " to ",
                n - 1);
  return dim < 0 ? dim + n : dim;
}
std::vector<int64_t> contiguous_strides(Dims shape);
std::vector<int64_t> broadcast_shapes(Dims a, Dims b, const char* op);
// The strides of a copy that keeps the order of t's dimensions (preserve_format): t's own where they are dense; empty:
// plain contiguous ones.
std::vector<int64_t> dense_strides(const Tensor& t);
bool may_overlap(const Tensor& t);             // two indices can name one address (expanded, …)
// Whether each element can be written by itself: none shares its address, and the memory is not read-only.
bool takes_writes(const Tensor& t);
// The addresses of a tensor with elements: that of the lowest, and what follows the highest.
std::pair<const char*, const char*> address_range(const Tensor& t);
// Whether those ranges of two tensors share bytes: in one storage, or in two that hold memory of another library.
bool ranges_meet(const Tensor& a, const Tensor& b);
// Whether the caller's reference is the only way to the tensor's memory, so that a write is seen by nobody else. The
// storage decides: two tensors may share one, and it may stand for memory of another library.
inline bool unshared(const Tensor& t) {
  const Storage* s = t.storage;
  return t.refcount == 1 && s && s->refcount == 1 && s->resizable && !(t.flags & kIndirect) && !t.weakrefs &&
         (t.contiguous() || !may_overlap(t));
}

DType default_dtype();
void set_default_dtype(DType);
Device default_device();  // where tensors are made that name no device
void set_default_device(Device);
// Numbers too small to be normal count as zero, in this thread and in those of large operations.
void set_flush_denormal(bool on);

}  // namespace flambeau
