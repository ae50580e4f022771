// Writes one number into every element of a tensor.
#include <algorithm>
#include <cstring>

#include "../core/recording.h"
#include "cast.h"
#include "strided.h"

namespace flambeau {

static constexpr int64_t kGrain = 32768;

void fill(Tensor& dst, const Scalar& value) {
  need_memory(dst);
  if (__builtin_expect(tls.dispatch_modes != 0, 0)) about_to_write(dst);
  if (dst.device.type != DeviceType::CPU) {
    check_fits(value, dst.dtype);
    return fill_by_table(dst, value);
  }
  const bool zero = value.category == Category::Integer && value.i == 0 && dst.dtype != DType::Float8_e8m0fnu;
  if (zero && dst.contiguous() && dst.nbytes() <= 256) {
    std::memset(dst.data, 0, size_t(dst.nbytes()));
    return;
  }
  check_fits(value, dst.dtype);
  fill_on_cpu(dst, value);
}

// Along the innermost dimension, row after row, of which long ones are cut.
template <class U>
static void fill_rows(const Strided<1>& s, char* data, U v) {
  const int64_t n = s.size[0], step = s.stride[0][0], cuts = (n + kGrain - 1) / kGrain, all = s.numel() / n;
  parallel_for(all * cuts, std::max<int64_t>(1, kGrain / n), [&](int64_t t, int64_t end) {
    for (; t < end; ++t) {
      const int64_t first = t % cuts * kGrain, some = std::min(kGrain, n - first);
      char* to = data + first * step;
      for (int64_t d = 1, row = t / cuts; d < s.ndim; row /= s.size[d++]) to += row % s.size[d] * s.stride[0][d];
      if (step == sizeof(U)) std::fill_n(reinterpret_cast<U*>(to), some, v);
      else for (int64_t i = 0; i < some; ++i) *reinterpret_cast<U*>(to + i * step) = v;
    }
  });
}

// Every element of a larger or strided tensor becomes the one in `bytes`.
static void fill_strided(Tensor& dst, const char* bytes) {
  Strided<1> s;
  s.operands = 1;
  for (int d = dst.ndim - 1; d >= 0; --d) {
    if (dst.sizes[d] == 1) continue;
    s.stride[0][s.ndim] = dst.strides[d] * dst.itemsize();
    s.add_dim(dst.sizes[d]);
  }
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    s.stride[0][0] = dst.itemsize();
    s.add_dim(1);
  }
  LockRelease lock(dst.numel, {&dst});
  visit_size(dst.itemsize(), [&]<class U>() {
    const U v = *reinterpret_cast<const U*>(bytes);
    if (s.linear(0, sizeof(U))) {
      const bool alike = std::all_of(bytes, bytes + sizeof(U), [&](char b) { return b == bytes[0]; });
      return parallel_for(dst.numel, kGrain, [&](int64_t begin, int64_t end) {
        U* to = reinterpret_cast<U*>(dst.data);
        if (alike) std::memset(static_cast<void*>(to + begin), bytes[0], size_t(end - begin) * sizeof(U));
        else std::fill(to + begin, to + end, v);
      });
    }
    constexpr int64_t kRow = 16;
    if (s.size[0] >= kRow) return fill_rows(s, dst.data, v);
    constexpr int64_t kBlock = 256;
    U block[kBlock];
    std::fill_n(block, kBlock, v);
    parallel_for(dst.numel, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kBlock)
        block_move<false, U>(s, 0, dst.data, at, std::min(kBlock, end - at), reinterpret_cast<char*>(block));
    });
  });
}

void fill_on_cpu(Tensor& dst, const Scalar& value) {
  if (dst.numel == 0) return;
  alignas(16) char bytes[16];
  store_scalar(bytes, value, dst.dtype);
  if (!dst.contiguous() || dst.numel > 64) return fill_strided(dst, bytes);
  visit_size(dst.itemsize(), [&]<class U>() {
    std::fill_n(reinterpret_cast<U*>(dst.data), dst.numel, *reinterpret_cast<const U*>(bytes));
  });
}

}  // namespace flambeau
