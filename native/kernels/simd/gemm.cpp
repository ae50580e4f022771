// The inner loops of matrix products, for the instruction set this file is compiled for.
//
// One register tile (kernel<>) serves packed panels and small operands read in place. Tile heights are powers of two
// because layer widths are; a tile three vectors wide keeps both multipliers busy with few loads.
#include "../gemm.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int kWide = 3;  // vectors across a tile

// One tile: C[MR, cols] += A B. Packed: a[k][X::rows], whole vectors of B. Otherwise A through its strides, and the
// last vector of B is masked.
template <class X, int MR, int NV, bool Packed>
void kernel(int64_t k, const typename X::T* a, int64_t ars, int64_t acs, const typename X::T* b, int64_t brs,
            typename X::T* c, int64_t crs, int cols, const Epilogue<typename X::T>& e) {
  using T = typename X::T;
  using V = typename X::V;
  constexpr int W = X::width;
  const auto last = X::mask(cols - (NV - 1) * W);
  V acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) acc[i][j] = X::zero();
  for (int64_t p = 0; p < k; ++p) {
    V row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) row[j] = Packed || j + 1 < NV ? X::load(b + j * W) : X::load(b + j * W, last);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      V x = X::set(Packed ? a[i] : a[i * ars]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = X::fma(x, row[j], acc[i][j]);
    }
    a += Packed ? X::rows : acs;
    b += brs;
  }
  const V alpha = X::set(e.alpha), beta = X::set(e.beta);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    T* to = c + i * crs;
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      V v = X::mul(acc[i][j], alpha);
      if (e.beta != 0)
        v = j + 1 < NV ? X::fma(beta, X::load(to + j * W), v) : X::fma(beta, X::load(to + j * W, last), v);
      if (e.bias_col)
        v = X::add(v, j + 1 < NV ? X::load(e.bias_col + j * W) : X::load(e.bias_col + j * W, last));
      if (e.bias_row) v = X::add(v, X::set(e.bias_row[i]));
      if (j + 1 < NV) X::store(to + j * W, v);
      else X::store(to + j * W, v, last);
    }
  }
}

template <class X>
using Kernel = void (*)(int64_t, const typename X::T*, int64_t, int64_t, const typename X::T*, int64_t,
                        typename X::T*, int64_t, int, const Epilogue<typename X::T>&);

#define ROW(X, MR, P) {kernel<X, MR, 1, P>, kernel<X, MR, 2, P>, kernel<X, MR, 3, P>}
#if FLAMBEAU_LEVEL == 1
#define TILES(X, P) {ROW(X, 1, P), ROW(X, 2, P), ROW(X, 3, P), ROW(X, 4, P), ROW(X, 5, P), ROW(X, 6, P), \
                     ROW(X, 7, P), ROW(X, 8, P)}
#else
#define TILES(X, P) {ROW(X, 1, P), ROW(X, 2, P), ROW(X, 3, P), ROW(X, 4, P)}
#endif
template <class X, bool Packed>
constexpr Kernel<X> kTiles[X::rows][kWide] = TILES(X, Packed);

template <class X>
void micro(int64_t k, const typename X::T* a, const typename X::T* b, typename X::T* c, int64_t crs, int rows, int cols,
           const Epilogue<typename X::T>& e) {
  kTiles<X, true>[rows - 1][(cols - 1) / X::width](k, a, 0, 0, b, kWide * X::width, c, crs, cols, e);
}

// 8x8 floats or 4x4 doubles, rows `rs` apart, written as columns `width` apart.
inline void transpose(const float* src, int64_t rs, float* dst, int64_t width) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(src + i * rs);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(dst + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(dst + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
inline void transpose(const double* src, int64_t rs, double* dst, int64_t width) {
  __m256d a = _mm256_loadu_pd(src), b = _mm256_loadu_pd(src + rs), c = _mm256_loadu_pd(src + 2 * rs),
          d = _mm256_loadu_pd(src + 3 * rs);
  __m256d ab = _mm256_unpacklo_pd(a, b), ba = _mm256_unpackhi_pd(a, b), cd = _mm256_unpacklo_pd(c, d),
          dc = _mm256_unpackhi_pd(c, d);
  _mm256_storeu_pd(dst, _mm256_permute2f128_pd(ab, cd, 0x20));
  _mm256_storeu_pd(dst + width, _mm256_permute2f128_pd(ba, dc, 0x20));
  _mm256_storeu_pd(dst + 2 * width, _mm256_permute2f128_pd(ab, cd, 0x31));
  _mm256_storeu_pd(dst + 3 * width, _mm256_permute2f128_pd(ba, dc, 0x31));
}

template <class X>
void pack(typename X::T* panel, int width, const typename X::T* src, int64_t rs, int64_t ks, int64_t rows, int64_t k) {
  using T = typename X::T;
  constexpr int B = sizeof(T) == 4 ? 8 : 4;
  if (rs == 1) {
    if (rows == width && width % B == 0) {
      for (int64_t p = 0; p < k; ++p, src += ks, panel += width)
        for (int j = 0; j < width; j += B)
          if constexpr (B == 8) _mm256_storeu_ps(panel + j, _mm256_loadu_ps(src + j));
          else _mm256_storeu_pd(panel + j, _mm256_loadu_pd(src + j));
      return;
    }
    for (int64_t p = 0; p < k; ++p, src += ks, panel += width) {
      for (int64_t i = 0; i < rows; ++i) panel[i] = src[i];
      for (int64_t i = rows; i < width; ++i) panel[i] = 0;
    }
    return;
  }
  if (rows < width)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = rows; i < width; ++i) panel[p * width + i] = 0;
  int64_t i = 0;
  if (ks == 1)
    for (; i + B <= rows; i += B) {
      int64_t p = 0;
      for (; p + B <= k; p += B) transpose(src + i * rs + p, rs, panel + p * width + i, width);
      for (; p < k; ++p)
        for (int64_t q = 0; q < B; ++q) panel[p * width + i + q] = src[(i + q) * rs + p];
    }
  for (; i < rows; ++i)
    for (int64_t p = 0; p < k; ++p) panel[p * width + i] = src[i * rs + p * ks];
}

// Four rows share each load of x.
template <class X, int R>
void dot_rows(int64_t k, const typename X::T* a, int64_t ars, const typename X::T* x, typename X::T* sums) {
  constexpr int W = X::width;
  typename X::V acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = X::zero();
  int64_t p = 0;
  for (; p + W <= k; p += W) {
    auto v = X::load(x + p);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = X::fma(X::load(a + r * ars + p), v, acc[r]);
  }
  if (p < k) {
    auto m = X::mask(int(k - p));
    auto v = X::load(x + p, m);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = X::fma(X::load(a + r * ars + p, m), v, acc[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] = X::sum(acc[r]);
}

template <class X>
void dots(int64_t rows, int64_t k, const typename X::T* a, int64_t ars, const typename X::T* x, typename X::T* y,
          int64_t ys, typename X::T alpha, typename X::T beta, const typename X::T* bias) {
  using T = typename X::T;
  T sums[8];
  for (int64_t i = 0; i < rows;) {
    int64_t take = rows - i >= 8 ? 8 : rows - i >= 4 ? 4 : 1;
    if (take == 8) dot_rows<X, 8>(k, a + i * ars, ars, x, sums);
    else if (take == 4) dot_rows<X, 4>(k, a + i * ars, ars, x, sums);
    else dot_rows<X, 1>(k, a + i * ars, ars, x, sums);
    for (int64_t r = 0; r < take; ++r) {
      T v = alpha * sums[r];
      if (beta != 0) v += beta * y[(i + r) * ys];
      y[(i + r) * ys] = bias ? v + bias[i + r] : v;
    }
    i += take;
  }
}

template <class X>
void direct(int64_t m, int64_t n, int64_t k, const typename X::T* a, int64_t ars, int64_t acs, const typename X::T* b,
            int64_t brs, int64_t bcs, typename X::T* c, int64_t crs, const Epilogue<typename X::T>& e,
            typename X::T* scratch) {
  constexpr int NR = kWide * X::width;
  bool packed = bcs != 1 && n > 1;
  for (int64_t j = 0; j < n; j += NR) {
    int cols = int(std::min<int64_t>(NR, n - j));
    const typename X::T* panel = b + j * bcs;
    int64_t step = brs;
    if (packed) {
      step = (cols + X::width - 1) / X::width * X::width;
      pack<X>(scratch, int(step), panel, bcs, brs, cols, k);
      panel = scratch;
    }
    for (int64_t i = 0; i < m; i += X::rows) {
      int rows = int(std::min<int64_t>(X::rows, m - i));
      Epilogue<typename X::T> tile = e;
      if (e.bias_col) tile.bias_col += j;
      if (e.bias_row) tile.bias_row += i;
      kTiles<X, false>[rows - 1][(cols - 1) / X::width](k, a + i * ars, ars, acs, panel, step, c + i * crs + j, crs,
                                                       cols, tile);
    }
  }
}

template <class X>
constexpr GemmKernels<typename X::T> kKernels{X::rows, kWide * X::width, X::width, micro<X>, pack<X>, direct<X>, dots<X>};

const bool registered = [] {
  gemm_kernels_f32[FLAMBEAU_LEVEL] = &kKernels<F32>;
  gemm_kernels_f64[FLAMBEAU_LEVEL] = &kKernels<F64>;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
