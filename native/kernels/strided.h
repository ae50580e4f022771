// Iteration space of several strided operands: dimensions sorted by memory order and merged where all of them allow.
#pragma once
#include <algorithm>
#include <cstring>

#include "../core/tensor.h"
#include "move.h"

namespace flambeau {

// Orders the dimensions of a fresh result by memory, in `perm` from the innermost on, which begins with the last one:
// order(a, b) > 0 where a takes larger steps than b, < 0 where it takes smaller ones, 0 where nothing tells. Gives the
// strides of dense memory in that order; false, and no strides, where no dimension moved.
template <class F> bool ordered_strides(Dims sizes, F order, int64_t* strides) {
  const int n = int(sizes.size());
  int perm[kMaxDims];
  for (int d = 0; d < n; ++d) perm[d] = n - 1 - d;
  bool moved = false;
  for (int i = 1; i < n; ++i) {
    int slot = i;
    for (int j = i - 1; j >= 0; --j) {
      const int o = order(perm[j], perm[slot]);
      if (o < 0) break;
      if (o == 0) continue;
      std::swap(perm[j], perm[slot]);
      slot = j;
      moved = true;
    }
  }
  int64_t step = 1;
  for (int k = 0; moved && k < n; ++k) strides[perm[k]] = step, step *= std::max<int64_t>(sizes[size_t(perm[k])], 1);
  return moved;
}

// Dimension 0 is the innermost. Strides are in bytes; operand 0 is the result.
template <int N>
struct Strided {
  int ndim = 0, operands = 0;
  int64_t size[kMaxDims];
  int64_t stride[N][kMaxDims];

  void add_dim(int64_t n) { size[ndim++] = n; }

  bool before(int a, int b) const {  // a moves through memory in smaller steps than b
    for (int k = 0; k < operands; ++k) {
      int64_t x = std::abs(stride[k][a]), y = std::abs(stride[k][b]);
      if (x == 0 || y == 0 || x == y) continue;
      return x < y;
    }
    return false;
  }
  void swap_dims(int a, int b) {
    std::swap(size[a], size[b]);
    for (int k = 0; k < operands; ++k) std::swap(stride[k][a], stride[k][b]);
  }
  void sort() {
    for (int i = 1; i < ndim; ++i)
      for (int j = i; j > 0 && before(j, j - 1); --j) swap_dims(j, j - 1);
  }
  bool mergeable(int inner, int outer) const {
    for (int k = 0; k < operands; ++k)
      if (stride[k][outer] != stride[k][inner] * size[inner]) return false;
    return true;
  }
  void merge() {
    int last = 0;
    for (int d = 1; d < ndim; ++d) {
      if (mergeable(last, d)) {
        size[last] *= size[d];
        continue;
      }
      ++last;
      size[last] = size[d];
      for (int k = 0; k < operands; ++k) stride[k][last] = stride[k][d];
    }
    ndim = ndim ? last + 1 : 0;
  }
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= size[d];
    return n;
  }
  bool constant(int k) const {
    for (int d = 0; d < ndim; ++d)
      if (stride[k][d]) return false;
    return true;
  }
  // One contiguous run in iteration order.
  bool linear(int k, int64_t itemsize) const {
    int64_t expected = itemsize;
    for (int d = 0; d < ndim; ++d) {
      if (stride[k][d] != expected) return false;
      expected *= size[d];
    }
    return true;
  }
};

// The elements up to `last` backwards.
template <class U>
inline void reverse_run(U* dst, const U* last, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(U) <= 2) {
    typedef U Block __attribute__((vector_size(16)));
    constexpr int lanes = 16 / sizeof(U);
    Block backwards;
    for (int k = 0; k < lanes; ++k) backwards[k] = U(lanes - 1 - k);
    for (; i + lanes <= n; i += lanes) {
      Block b;
      std::memcpy(&b, last - i - (lanes - 1), sizeof b);
      b = __builtin_shuffle(b, backwards);
      std::memcpy(dst + i, &b, sizeof b);
    }
  }
#pragma GCC ivdep
  for (; i < n; ++i) dst[i] = last[-i];
}

// n elements between a strided and a contiguous place (one of the strides is the item size).
template <class U>
inline void move_run(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) {
  if (dst_stride == sizeof(U) && src_stride == sizeof(U)) {
    move_bytes(dst, src, n * int64_t(sizeof(U)));
  } else if (dst_stride == sizeof(U)) {
    U* d = reinterpret_cast<U*>(dst);
    if (src_stride == -int64_t(sizeof(U))) reverse_run(d, reinterpret_cast<const U*>(src), n);
    else gather_run(d, src, src_stride, n);
  } else {
    for (int64_t i = 0; i < n; ++i)
      *reinterpret_cast<U*>(dst + i * dst_stride) = *reinterpret_cast<const U*>(src + i * src_stride);
  }
}

// `rows` times n elements: steps of dst_step and src_step bytes from row to row. Neither side overlaps the other.
template <class U>
void move_rows(char* dst, int64_t dst_stride, int64_t dst_step, const char* src, int64_t src_stride, int64_t src_step,
               int64_t n, int64_t rows);

// Elements [start, start + n) of operand k in iteration order: to (gather) or from (scatter) a contiguous buffer.
template <bool kGather, class U, int N>
void block_move(const Strided<N>& space, int k, char* base, int64_t start, int64_t n, char* buffer) {
  int64_t index[kMaxDims];
  char* p = base;
  for (int d = 0; d < space.ndim; ++d) {
    index[d] = start % space.size[d];
    start /= space.size[d];
    p += index[d] * space.stride[k][d];
  }
  const int64_t length = space.size[0], step = space.stride[k][0];
  while (n > 0) {
    int64_t run = std::min(n, length - index[0]);
    if (const int64_t whole = index[0] ? 0 : n / length; whole > 1 && space.ndim > 1) {
      const int64_t rows = space.ndim == 2 ? whole : std::min(whole, space.size[1] - index[1]);
      const int64_t pitch = space.stride[k][1];
      const int64_t packed = length * int64_t(sizeof(U));
      if constexpr (kGather) move_rows<U>(buffer, sizeof(U), packed, p, step, pitch, length, rows);
      else move_rows<U>(p, step, pitch, buffer, sizeof(U), packed, length, rows);
      p += (rows - 1) * pitch;
      index[1] += rows - 1;
      run = length;
      buffer += (rows - 1) * packed;
      n -= (rows - 1) * length;
    } else if constexpr (kGather) {
      move_run<U>(buffer, sizeof(U), p, step, run);
    } else {
      move_run<U>(p, step, buffer, sizeof(U), run);
    }
    buffer += run * int64_t(sizeof(U));
    n -= run;
    p += run * step;
    index[0] += run;
    for (int d = 0; d + 1 < space.ndim && index[d] == space.size[d]; ++d) {
      p += space.stride[k][d + 1] - index[d] * space.stride[k][d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

}  // namespace flambeau
