#include "tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "free_list.h"
#include "machine.h"

namespace flambeau {

// --- shapes ---------------------------------------------------------------------------------------------------------

std::string shape_text(Dims shape) {
  std::string text = "[";
  for (size_t k = 0; k < shape.size(); ++k) text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + "]";
}

void size_overflow(const char* op, const char* between, std::span<const int64_t> sizes) {
  std::string text;
  for (size_t k = 0; k < sizes.size(); ++k) text += (k ? between : "") + std::to_string(sizes[k]);
  runtime_error(op, ": ", text, " is more than an int64 holds (size calculation overflowed); use smaller sizes");
}

int64_t count(Dims shape) {
  int64_t n = 1;
  bool empty = false, overflow = false;
  for (int64_t s : shape) {
    if (s < 0) runtime_error("sizes must not be negative, got ", s, " in ", shape_text(shape));
    if (s == 0) empty = true;
    else overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (empty) return 0;
  if (overflow)
    runtime_error("shape ", shape_text(shape),
                  " has more elements than an int64 can count (size calculation overflowed)");
  return n;
}

// Of a shape without elements the other sizes may be anything, and so may its strides.
static int64_t wrapping_product(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

std::vector<int64_t> contiguous_strides(Dims shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = step;
    step = wrapping_product(step, std::max<int64_t>(shape[k], 1));
  }
  return strides;
}

std::vector<int64_t> broadcast_shapes(Dims a, Dims b, const char* op) {
  size_t n = std::max(a.size(), b.size());
  std::vector<int64_t> shape(n);
  for (size_t k = 0; k < n; ++k) {  // k counts from the last dimension
    int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1)
      runtime_error(op, ": shapes ", shape_text(a), " and ", shape_text(b), " do not broadcast: dimension ", n - 1 - k,
                    " has sizes ", x, " and ", y, ", which must be equal or 1");
    shape[n - 1 - k] = x == 1 ? y : x;
  }
  return shape;
}

std::vector<int64_t> dense_strides(const Tensor& t) {
  if (t.contiguous()) return {};
  std::vector<int> order;
  for (int k = 0; k < t.ndim; ++k) {
    if (t.strides[k] < 0) return {};
    order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return t.strides[a] < t.strides[b]; });
  int64_t step = 1;
  std::vector<int64_t> strides(t.ndim);
  for (int k : order) {
    if (t.sizes[k] != 1 && t.strides[k] != step) return {};
    strides[k] = t.sizes[k] == 1 ? std::max<int64_t>(t.strides[k], 1) : step;
    step = wrapping_product(step, t.sizes[k]);
  }
  return strides;
}

bool may_overlap(const Tensor& t) {
  if (t.contiguous() || t.numel < 2) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;  // (|stride|, size), innermost first
  for (int k = 0; k < t.ndim; ++k)
    if (t.sizes[k] > 1) dims.emplace_back(std::abs(t.strides[k]), t.sizes[k]);
  std::sort(dims.begin(), dims.end());
  int64_t reach = 1;
  for (auto [stride, size] : dims) {
    if (stride < reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

bool takes_writes(const Tensor& t) { return !may_overlap(t) && !(t.storage && t.storage->readonly); }

std::pair<const char*, const char*> address_range(const Tensor& t) {
  const char *low = t.data, *high = t.data;
  for (int d = 0; d < t.ndim; ++d) {
    int64_t reach = (t.sizes[d] - 1) * t.strides[d] * t.itemsize();
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + t.itemsize()};
}

bool ranges_meet(const Tensor& a, const Tensor& b) {
  if (!a.numel || !b.numel || !a.storage || !b.storage) return false;
  if (a.storage != b.storage && (a.storage->resizable || b.storage->resizable || !a.data || !b.data)) return false;
  const auto [low, high] = address_range(a);
  const auto [first, last] = address_range(b);
  return first < high && low < last;
}

// --- tensors --------------------------------------------------------------------------------------------------------

namespace {

void destroy_tensor(void* t) { hooks.free_object(static_cast<Tensor*>(t)); }
FreeList<Tensor, offsetof(Tensor, storage)> free_tensors{"tensors", destroy_tensor};

[[gnu::always_inline]] inline int64_t* dims_memory(Tensor& t, size_t ndim) {
  if (ndim > size_t(kMaxDims)) runtime_error("tensors have at most ", kMaxDims, " dimensions, got ", ndim);
  int64_t* memory = ndim <= size_t(kInlineDims) ? t.inline_dims : new int64_t[2 * ndim];
  if (t.sizes && t.sizes != t.inline_dims) delete[] t.sizes;
  t.sizes = memory;
  t.strides = t.sizes + ndim;
  t.ndim = uint8_t(ndim);
  return t.sizes;
}

size_t checked_bytes(int64_t numel, DType dtype, Dims shape) {
  int64_t bytes;
  if (__builtin_mul_overflow(numel, item_size(dtype), &bytes))
    runtime_error("shape ", shape_text(shape), " of ", dtype_name(dtype),
                  " needs more bytes than an int64 can count (Storage size calculation overflowed)");
  return size_t(bytes);
}

}  // namespace

// Inlined where a tensor is made, which every call does.
[[gnu::always_inline]] static inline void lay_contiguously(Tensor& t, Dims shape) {
  int64_t numel = 1;
  if (shape.size() == 1 && shape[0] >= 0) {
    numel = shape[0];
  } else if (!shape.empty()) {
    numel = count(shape);
  }
  int64_t* sizes = dims_memory(t, shape.size());
  int64_t step = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    sizes[k] = shape[k];
    t.strides[k] = step;
    step = wrapping_product(step, shape[k] > 1 ? shape[k] : 1);
  }
  t.numel = numel;
  t.flags |= kContiguous;
}
void set_contiguous_dims(Tensor& t, Dims shape) { lay_contiguously(t, shape); }

void set_dims(Tensor& t, Dims shape, Dims strides) {
  std::vector<int64_t> keep;  // `shape` may point into t itself
  if (t.sizes && shape.data() >= t.sizes && shape.data() < t.sizes + 2 * t.ndim + 1) {
    keep.assign(shape.begin(), shape.end());
    keep.insert(keep.end(), strides.begin(), strides.end());
    size_t n = shape.size();
    shape = {keep.data(), n};
    strides = {keep.data() + n, n};
  }
  int64_t numel = 1, least = 0;
  bool overflow = false, contiguous = true;
  for (size_t k = shape.size(); k-- > 0;) {
    const int64_t size = shape[k];
    if (size != 1 && strides[k] != numel) contiguous = false;
    least = std::min(least, size);
    overflow |= __builtin_mul_overflow(numel, size, &numel);
  }
  if (__builtin_expect(overflow || least < 0, 0)) numel = count(shape);  // nothing, or an error
  int64_t* sizes = dims_memory(t, shape.size());
  for (size_t k = 0; k < shape.size(); ++k) sizes[k] = shape[k], t.strides[k] = strides[k];
  t.numel = numel;
  t.flags = uint16_t((contiguous || numel == 0) ? t.flags | kContiguous : t.flags & ~kContiguous);
}

Tensor* allocate_tensor() {
  assert_locked();
  Tensor* t = free_tensors.take();
  if (t) {
    t->refcount = 1;
    t->storage = nullptr;
    return t;
  }
  return hooks.allocate_object();
}

void blank_tensor(Tensor* t) {  // everything after the object header
  blank_words(reinterpret_cast<char*>(t) + sizeof(Object), offsetof(Tensor, inline_dims) - sizeof(Object));
}

void recycle_tensor(Tensor* t) {
  assert_locked();
  blank_tensor(t);
  free_tensors.give(t);
}

TensorRef empty(Dims shape, DType dtype, Device device) {
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->dtype = dtype;
  t->device = device;
  lay_contiguously(*t, shape);
  t->storage = new_storage(checked_bytes(t->numel, dtype, shape), device);
  t->data = static_cast<char*>(t->storage->data);
  return t;
}

TensorRef empty_strided(Dims shape, Dims strides, DType dtype, Device device) {
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->dtype = dtype;
  t->device = device;
  set_dims(*t, shape, strides);
  int64_t last = 0;  // index of the furthest element
  for (size_t k = 0; k < shape.size(); ++k) {
    int64_t reach;
    if (strides[k] < 0) runtime_error("empty_strided: strides must not be negative, got ", shape_text(strides));
    if (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) || __builtin_add_overflow(last, reach, &last))
      runtime_error("empty_strided: shape ", shape_text(shape), " with strides ", shape_text(strides),
                    " overflows an int64");
  }
  t->storage = new_storage(t->numel == 0 ? 0 : checked_bytes(last + 1, dtype, shape), device);
  t->data = static_cast<char*>(t->storage->data);
  return t;
}

void no_values(const Tensor& t) {
  if (t.level)
    runtime_error(
        "this operation reads the values of a tensor inside a transform (vmap, jvp …), which has none of its own "
        "there: use operators alone");
  runtime_error(
      "this tensor wraps others and has no memory of its own: its type's __torch_dispatch__ must handle the operation");
}

TensorRef view_of(const Tensor& base, Dims shape, Dims strides, char* data) {
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->dtype = base.dtype;
  t->device = base.device;
  set_dims(*t, shape, strides);
  t->storage = base.storage;
  if (t->storage) retain(t->storage);
  t->data = data;
  t->flags |= base.flags & (kPending | kLazy);
  return t;
}

TensorRef alias(const Tensor& t) {
  if (__builtin_expect(t.flags & kDispatch, 0)) return hooks.alias_wrapper(t);
  TensorRef a = TensorRef::steal(allocate_tensor());
  a->dtype = t.dtype;
  a->device = t.device;
  int64_t* sizes = dims_memory(*a, t.ndim);
  std::copy(t.sizes, t.sizes + 2 * t.ndim, sizes);
  a->numel = t.numel;
  a->flags = t.flags & (kContiguous | kWrappedNumber | kInference | kPending | kLazy);
  a->storage = t.storage;
  if (a->storage) retain(a->storage);
  a->data = t.data;
  return a;
}

TensorRef wrap_number(const Scalar& value, DType dtype) {
  TensorRef t = empty({}, dtype);
  fill(*t, value);
  t->flags |= kWrappedNumber;
  return t;
}

// --- settings -------------------------------------------------------------------------------------------------------

DType default_dtype() { return process.default_dtype; }
void set_default_dtype(DType d) { process.default_dtype = d; }
Device default_device() { return tls.default_device; }
void set_default_device(Device d) {
  if (d.type == DeviceType::CPU || d.type == DeviceType::Meta) d.index = -1;  // there is one of them
  tls.default_device = d;
}
void set_flush_denormal(bool on) {
  run_on_every_thread([](void* on) { flush_denormals_here(*static_cast<bool*>(on)); }, &on);
}
}  // namespace flambeau
