// Tiles of a convolution, read straight from the (padded) image through a table of tap offsets: nothing is unfolded.
#include "../conv.h"

#include <cstring>

#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int kWide = 3;

// NV vectors of columns, the last of which ends with the last column and may overlap the one before. NV = 0: a part of
// a vector. Nothing else is masked: masked stores take some processors ten cycles and more.
template <class X, int MR, int NV>
void tile(int64_t k, const typename X::T* a, const typename X::T* b, const int64_t* offset, typename X::T* c,
          int64_t crs, int cols, const typename X::T* bias) {
  using V = typename X::V;
  constexpr int W = X::width, N = NV ? NV : 1;
  const auto part = X::mask(cols);
  const int last = NV ? cols - W : 0;
  V acc[MR][N];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) acc[i][j] = bias ? X::set(bias[i]) : X::zero();
  for (int64_t p = 0; p < k; ++p, a += X::rows) {
    const typename X::T* from = b + offset[p];
    V row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) row[j] = NV ? X::load(from + (j + 1 < N ? j * W : last)) : X::load(from, part);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      V x = X::set(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) acc[i][j] = X::fma(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      if (NV) X::store(c + i * crs + (j + 1 < N ? j * W : last), acc[i][j]);
      else X::store(c + i * crs, acc[i][j], part);
    }
}

template <class X>
void line(int64_t k, const typename X::T* a, int64_t step, const typename X::T* x, const int64_t* offset,
          typename X::T* y, int64_t cols, typename X::T bias) {
  constexpr int W = X::width, N = 4;
  for (int64_t j = 0; j < cols; j += N * W) {
    decltype(X::mask(0)) mask[N];
    typename X::V acc[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v)
      mask[v] = X::mask(int(std::clamp<int64_t>(cols - j - v * W, 0, W))), acc[v] = X::set(bias);
    for (int64_t p = 0; p < k; ++p) {
      const auto weight = X::set(a[p * step]);
      const auto* from = x + offset[p] + j;
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) acc[v] = X::fma(weight, X::load(from + v * W, mask[v]), acc[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) X::store(y + j + v * W, acc[v], mask[v]);
  }
}

template <class X, int MR, int NT>
void taps(int64_t length, const typename X::T* g, int64_t grs, const typename X::T* x, const int64_t* offset,
          typename X::T* w, int64_t wrs) {
  using V = typename X::V;
  constexpr int W = X::width;
  V acc[MR][NT];
  const typename X::T* from[NT];
#pragma GCC unroll 4
  for (int s = 0; s < NT; ++s) from[s] = x + offset[s];
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 4
    for (int s = 0; s < NT; ++s) acc[r][s] = X::zero();
  auto step = [&](int64_t t, auto... mask) __attribute__((always_inline)) {
    V v[NT];
#pragma GCC unroll 4
    for (int s = 0; s < NT; ++s) v[s] = X::load(from[s] + t, mask...);
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
      V u = X::load(g + r * grs + t, mask...);
#pragma GCC unroll 4
      for (int s = 0; s < NT; ++s) acc[r][s] = X::fma(u, v[s], acc[r][s]);
    }
  };
  int64_t t = 0;
  for (; t + W <= length; t += W) step(t);
  if (t < length) step(t, X::mask(int(length - t)));
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 4
    for (int s = 0; s < NT; ++s) w[r * wrs + s] += X::sum(acc[r][s]);
}

#if FLAMBEAU_LEVEL == 1
#define ROWS(F, X) {F(X, 1), F(X, 2), F(X, 3), F(X, 4), F(X, 5), F(X, 6), F(X, 7), F(X, 8)}
#else
#define ROWS(F, X) {F(X, 1), F(X, 2), F(X, 3), F(X, 4)}
#endif
#define TILE(X, R) {tile<X, R, 0>, tile<X, R, 1>, tile<X, R, 2>, tile<X, R, 3>}
#define TAPS(X, R) {taps<X, R, 1>, taps<X, R, 2>, taps<X, R, 3>}

template <class X>
using TileFn = void (*)(int64_t, const typename X::T*, const typename X::T*, const int64_t*, typename X::T*, int64_t,
                        int, const typename X::T*);
template <class X>
constexpr TileFn<X> kTile[X::rows][kWide + 1] = ROWS(TILE, X);
template <class X>
using TapsFn = void (*)(int64_t, const typename X::T*, int64_t, const typename X::T*, const int64_t*, typename X::T*,
                        int64_t);
template <class X>
constexpr TapsFn<X> kTaps[X::rows][kWide] = ROWS(TAPS, X);

template <class X>
void run_tile(int64_t k, const typename X::T* a, const typename X::T* b, const int64_t* offset, typename X::T* c,
              int64_t crs, int rows, int cols, const typename X::T* bias) {
  const int vectors = cols < X::width ? 0 : (cols + X::width - 1) / X::width;
  kTile<X>[rows - 1][vectors](k, a, b, offset, c, crs, cols, bias);
}

template <class X>
void run_taps(int64_t length, const typename X::T* g, int64_t grs, const typename X::T* x, const int64_t* offset,
              typename X::T* w, int64_t wrs, int rows, int taps) {
  kTaps<X>[rows - 1][taps - 1](length, g, grs, x, offset, w, wrs);
}

// n numbers in pieces of P, or of fewer where there are not as many; the last may overlap the one before.
template <int P, class T>
inline void copy_run(const T* from, T* to, int n) {
  if (n < P) {
    if constexpr (P > 1) copy_run<P / 2>(from, to, n);
    return;
  }
  for (int j = 0; j + P < n; j += P) std::memcpy(to + j, from + j, P * sizeof(T));
  std::memcpy(to + n - P, from + n - P, P * sizeof(T));
}

template <class X>
void scatter(const typename X::T* tile, int64_t tile_rs, int rows, typename X::T* y, int64_t yrs, int64_t step,
             const Segment* segments, int count) {
  for (int s = 0; s < count; ++s) {
    const auto* from = tile + segments[s].from;
    auto* to = y + segments[s].to;
    int n = segments[s].length;
    for (int r = 0; r < rows; ++r) {
      if (step == 1) copy_run<X::width>(from + r * tile_rs, to + r * yrs, n);
      else for (int j = 0; j < n; ++j) to[r * yrs + j * step] = from[r * tile_rs + j];
    }
  }
}

template <class X>
constexpr ConvKernels<typename X::T> kKernels{X::rows,     X::width, kWide * X::width, kWide,
                                              run_tile<X>, line<X>,  run_taps<X>,      scatter<X>};

const bool registered = [] {
  conv_kernels_f32[FLAMBEAU_LEVEL] = &kKernels<F32>;
  conv_kernels_f64[FLAMBEAU_LEVEL] = &kKernels<F64>;
  conv_kernels_u64[FLAMBEAU_LEVEL] = &kKernels<U64>;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
