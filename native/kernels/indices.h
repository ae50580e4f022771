// What kernels share that pick elements or slices along one dimension by number: the numbers are checked first, and
// used from a private copy or read once more, since another thread may change them meanwhile (steady.h).
#pragma once
#include <algorithm>
#include <cstring>

#include "../core/call.h"

namespace flambeau::indices {

inline constexpr int64_t kGrain = 1 << 14;
inline constexpr int64_t kBlock = 512;  // indices that are checked at a time

// A 0-d tensor counts as one of shape [1].
inline int dims_of(const Tensor& t) { return std::max<int>(t.ndim, 1); }
inline int64_t size_at(const Tensor& t, int d) { return t.ndim ? t.sizes[d] : 1; }
inline int64_t stride_at(const Tensor& t, int d) { return t.ndim ? t.strides[d] : 1; }

// Whether n numbers, `stride` apart, lie in [0, size): one outside sets the sign bit of itself or of size - 1 - itself.
inline bool all_within(const int64_t* at, int64_t n, int64_t stride, int64_t size) {
  uint64_t signs = 0, last = uint64_t(size) - 1;
  if (stride == 1) {
    for (int64_t k = 0; k < n; ++k) signs |= uint64_t(at[k]) | (last - uint64_t(at[k]));
  } else {
    for (int64_t k = 0; k < n; ++k) signs |= uint64_t(at[k * stride]) | (last - uint64_t(at[k * stride]));
  }
  return !(signs >> 63);
}
inline int64_t first_outside(const int64_t* at, int64_t n, int64_t stride, int64_t size) {
  for (int64_t k = 0; k < n; ++k)
    if (uint64_t(at[k * stride]) >= uint64_t(size)) return k;
  return 0;
}
// A private copy of `count` indices, so that nobody changes them between a check and their use, and whether all of them
// lie in [0, size).
inline bool copy_within(const int64_t* at, int64_t count, int64_t stride, int64_t size, int64_t* __restrict own) {
  uint64_t signs = 0, last = uint64_t(size) - 1;
  auto copy = [&](int64_t step) {
    for (int64_t k = 0; k < count; ++k) {
      own[k] = at[k * step];
      signs |= uint64_t(own[k]) | (last - uint64_t(own[k]));
    }
  };
  stride == 1 ? copy(1) : copy(stride);
  return !(signs >> 63);
}
// The same of checked ones: those that another thread has put out of bounds since the check are 0.
inline void own_indices(const int64_t* at, int64_t count, int64_t size, int64_t* own) {
  if (!copy_within(at, count, 1, size, own))
    for (int64_t k = 0; k < count; ++k) own[k] = uint64_t(own[k]) < uint64_t(size) ? own[k] : 0;
}
// Throws unless all of `index` (contiguous int64) lie in [0, size).
void check_indices(const Call& c, const Tensor& index, int64_t d, int64_t size);  // gather.cpp
inline TensorRef index_vector(const Tensor& t) { return contiguous(*to_dtype(t, DType::Int64)); }
// out[…, k, …] = t[…, index[k], …] along dimension d, `out` being contiguous; slices.cpp.
void select_rows(const Call& c, const Tensor& t, const Tensor& index, Tensor& out, int64_t d);

}  // namespace flambeau::indices
