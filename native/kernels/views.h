// Shape arithmetic of views that bind/indexing.cpp shares with the view operators.
#pragma once
#include "../core/call.h"

namespace flambeau {

// Sizes and strides of a view while it is being worked out; no allocation.
struct Layout {
  int64_t sizes[kMaxDims + 1];
  int64_t strides[kMaxDims + 1];
  int ndim = 0;
  char* data = nullptr;

  Layout() = default;
  explicit Layout(const Tensor& t) : ndim(t.ndim), data(t.data) {
    std::copy(t.sizes, t.sizes + t.ndim, sizes);
    std::copy(t.strides, t.strides + t.ndim, strides);
  }
  void push(int64_t size, int64_t stride) {
    if (ndim >= kMaxDims) runtime_error("tensors have at most ", kMaxDims, " dimensions");
    sizes[ndim] = size;
    strides[ndim++] = stride;
  }
  void insert(int at, int64_t size, int64_t stride) {
    push(0, 0);
    for (int k = ndim - 1; k > at; --k) sizes[k] = sizes[k - 1], strides[k] = strides[k - 1];
    sizes[at] = size;
    strides[at] = stride;
  }
  void erase(int at) {
    --ndim;
    for (int k = at; k < ndim; ++k) sizes[k] = sizes[k + 1], strides[k] = strides[k + 1];
  }
  Dims shape() const { return {sizes, size_t(ndim)}; }
  TensorRef of(const Tensor& base) const { return view_of(base, shape(), {strides, size_t(ndim)}, data); }
};

struct Slice {
  int64_t start, step, length;
};
// Python's slice rule; absent start and stop are INT64_MIN/INT64_MAX (either end according to the step's sign).
inline constexpr int64_t kNoBound = INT64_MIN;
Slice slice_of(int64_t size, int64_t start, int64_t stop, int64_t step);
void apply_slice(Layout& l, int dim, const Slice& s, int64_t itemsize);

// Strides under which memory with these sizes and strides has the shape `to` (same number of elements), if there are
// any.
bool view_strides(Dims sizes, Dims strides, Dims to, int64_t* result);
inline void check_dims(const Call& c, size_t n) {
  if (n > size_t(kMaxDims)) runtime_error(c.name(), ": tensors have at most ", kMaxDims, " dimensions, got ", n);
}
// A shape without an allocation of its own.
struct Sizes {
  int64_t size[kMaxDims];
  int ndim = 0;
  operator Dims() const { return {size, size_t(ndim)}; }
};
// Replaces one -1 in `size`, which has at most kMaxDims entries; throws when it does not fit `numel`.
Sizes resolve_size(const char* op, Dims size, int64_t numel);

}  // namespace flambeau
