// Dot products of rows of halves with vectors of float32: halves are widened in registers, so that half the bytes are
// read.
#include "../half_rows.h"

#include "halves.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// R rows of B with M vectors. The last k mod width halves are copied to a block that ends in zeros.
template <class H, int R, int M>
void block(int64_t k, const uint16_t* b, int64_t bs, const float* x, int64_t xs, float* y, int64_t ms) {
  constexpr int W = F32::width;
  F32::V sums[M][R];
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) sums[i][r] = F32::zero();
  int64_t p = 0;
  for (; p + W <= k; p += W) {
    F32::V wide[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) wide[r] = H::load(b + r * bs + p);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const F32::V v = F32::load(x + i * xs + p);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[i][r] = F32::fma(wide[r], v, sums[i][r]);
    }
  }
  if (const int rest = int(k - p)) {
    const auto mask = F32::mask(rest);
    for (int r = 0; r < R; ++r) {
      uint16_t last[W] = {};
      std::copy_n(b + r * bs + p, rest, last);
      const F32::V wide = H::load(last);
      for (int i = 0; i < M; ++i) sums[i][r] = F32::fma(wide, F32::load(x + i * xs + p, mask), sums[i][r]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) y[i * ms + r] = F32::sum(sums[i][r]);
}

template <class H, int M>
void all_rows(int64_t count, int64_t k, const uint16_t* b, int64_t bs, const float* x, int64_t xs, float* y,
              int64_t ms) {
  constexpr int R = M == 1 ? 8 : M == 2 ? 4 : 2;
  int64_t j = 0;
  for (; j + R <= count; j += R) block<H, R, M>(k, b + j * bs, bs, x, xs, y + j, ms);
  for (; j < count; ++j) block<H, 1, M>(k, b + j * bs, bs, x, xs, y + j, ms);
}

template <class H>
void dots(int64_t count, int64_t k, const uint16_t* b, int64_t bs, int m, const float* x, int64_t xs, float* y,
          int64_t ms) {
  switch (m) {
    case 1: return all_rows<H, 1>(count, k, b, bs, x, xs, y, ms);
    case 2: return all_rows<H, 2>(count, k, b, bs, x, xs, y, ms);
    case 3: return all_rows<H, 3>(count, k, b, bs, x, xs, y, ms);
    default: return all_rows<H, 4>(count, k, b, bs, x, xs, y, ms);
  }
}

constexpr HalfKernels kKernels{dots<Bfloat16>, dots<Float16>};
const bool registered = [] {
  half_kernels[FLAMBEAU_LEVEL] = &kKernels;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
