// The inner loops of matrix products, for the instruction set this file is compiled for.
//
// One register tile (kernel<>) serves packed panels and small operands read in place. Its sums fill the registers but
// for one row of B and a number of A: 6 x 2 vectors of the 16 that AVX2 has, 8 x 3 of the 32 of AVX-512.
#include <array>
#include <cstring>
#include <utility>

#include "../gemm.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

#if FLAMBEAU_LEVEL == 1
constexpr int kRows = 8, kWide = 3;
#else
constexpr int kRows = 6, kWide = 2;
#endif
constexpr int kPackedRows = 48, kMaskedRows = 16;
constexpr int64_t kWholeBytes = 40 << 10;  // of a matrix B that the first cache holds as it lies, or nearly

// What a tile of sums becomes in C where all its vectors are whole: step by step, so that the sums stay in registers.
template <class X, int MR, int NV>
inline void finish_whole(typename X::V (&acc)[MR][NV], typename X::T* c, int64_t crs,
                         const Epilogue<typename X::T>& e) {
  constexpr int W = X::width;
  auto each = [&](auto&& step) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) step(acc[i][j], i, j);
  };
  const auto alpha = X::set(e.alpha), beta = X::set(e.beta);
  each([&](auto& v, int, int) { v = X::mul(v, alpha); });
  if (e.beta != 0) each([&](auto& v, int i, int j) { v = X::fma(beta, X::load(c + i * crs + j * W), v); });
  if (e.bias_col) each([&](auto& v, int, int j) { v = X::add(v, X::load(e.bias_col + j * W)); });
  if (e.bias_row) each([&](auto& v, int i, int) { v = X::add(v, X::set(e.bias_row[i])); });
  each([&](auto& v, int i, int j) { X::store(c + i * crs + j * W, v); });
}

template <class X, int MR, int NV>
void finish(typename X::V (&acc)[MR][NV], typename X::T* c, int64_t crs, int cols, const Epilogue<typename X::T> e) {
  using T = typename X::T;
  using V = typename X::V;
  constexpr int W = X::width;
  const auto last = X::mask(cols - (NV - 1) * W);
  auto load = [&](const T* p, int j) { return j + 1 < NV ? X::load(p + j * W) : X::load(p + j * W, last); };
  const V alpha = X::set(e.alpha), beta = X::set(e.beta);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i, c += crs)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      V v = X::mul(acc[i][j], alpha);
      if (e.beta != 0) v = X::fma(beta, load(c, j), v);
      if (e.bias_col) v = X::add(v, load(e.bias_col, j));
      if (e.bias_row) v = X::add(v, X::set(e.bias_row[i]));
      if (j + 1 < NV) X::store(c + j * W, v);
      else X::store(c + j * W, v, last);
    }
}

// How a tile's operands lie. Packed: a[k][kRows], b[k][kWide vectors]. Padded: A through its strides, rows of B `brs`
// apart that may be read to the end of the last vector. InPlace: both through their strides, the last vector of B
// masked; a masked load in the inner loop takes half the speed or more.
enum class Lies { Packed, Padded, InPlace };

// C is wanted when the sums are done.
template <class X, int MR, int NV>
inline void fetch_sums(typename X::T* c, int64_t crs) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i, c += crs) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) __builtin_prefetch(c + j * X::width, 1);
    __builtin_prefetch(c + NV * X::width - 1, 1);
  }
}

template <class V, int MR, int NV>
inline void clear(V (&acc)[MR][NV]) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) acc[i][j] = V{};
}
template <class X>
constexpr int64_t kLineSteps = 64 / sizeof(typename X::T);  // after which a row of A has been read by a line

// One tile: C[MR, cols] += A B.
// long because: the sums must stay in registers, whichever of three ways B is read
template <class X, int MR, int NV, Lies L>
void kernel(int64_t k, const typename X::T* a, int64_t ars, int64_t acs, const typename X::T* b, int64_t brs,
            typename X::T* c, int64_t crs, int cols, const Epilogue<typename X::T>& e) {
  using V = typename X::V;
  constexpr int W = X::width;
  constexpr bool Packed = L == Lies::Packed;
  V acc[MR][NV];
  clear(acc);
  auto add = [&](int64_t steps, auto&& vector_of_b) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < steps; ++p) {
      V row[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) row[j] = vector_of_b(j);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        V x = X::set(Packed ? a[i] : a[i * ars]);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) acc[i][j] = X::fma(x, row[j], acc[i][j]);
      }
      a += Packed ? kRows : acs;
      b += Packed ? kWide * W : brs;
    }
  };
  auto all = [&](int j) { return X::load(b + j * W); };
  if (L != Lies::InPlace) {
    fetch_sums<X, MR, NV>(c, crs);
    int64_t steps = k;
    for (int64_t p = 0, n = 0; p < k; p += steps) {
      steps = k - p;
      if (e.ahead && n < e.ahead->lines) e.ahead->ask_for(n++), steps = std::min(steps, kLineSteps<X>);
      add(steps, all);
    }
  } else if (cols == NV * W) {
    fetch_sums<X, MR, NV>(c, crs);
    add(k, all);
  } else {
    const auto last = X::mask(cols - (NV - 1) * W);
    add(k, [&](int j) { return j + 1 < NV ? X::load(b + j * W) : X::load(b + j * W, last); });
  }
  if (cols == NV * W) return finish_whole<X>(acc, c, crs, e);
  V sums[MR][NV];  // in memory, where `acc` would have to be from the beginning
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sums[i][j] = acc[i][j];
  finish<X>(sums, c, crs, cols, e);
}

template <class X>
using Kernel = void (*)(int64_t, const typename X::T*, int64_t, int64_t, const typename X::T*, int64_t,
                        typename X::T*, int64_t, int, const Epilogue<typename X::T>&);

#if FLAMBEAU_LEVEL == 1
#define ROW(X, MR, P) {kernel<X, MR, 1, P>, kernel<X, MR, 2, P>, kernel<X, MR, 3, P>}
#define TILES(X, P) {ROW(X, 1, P), ROW(X, 2, P), ROW(X, 3, P), ROW(X, 4, P), ROW(X, 5, P), ROW(X, 6, P), \
                     ROW(X, 7, P), ROW(X, 8, P)}
#else
#define ROW(X, MR, P) {kernel<X, MR, 1, P>, kernel<X, MR, 2, P>}
#define TILES(X, P) {ROW(X, 1, P), ROW(X, 2, P), ROW(X, 3, P), ROW(X, 4, P), ROW(X, 5, P), ROW(X, 6, P)}
#endif
template <class X, Lies L>
constexpr Kernel<X> kTiles[kRows][kWide] = TILES(X, L);

template <class X>
void micro(int64_t k, const typename X::T* a, const typename X::T* b, typename X::T* c, int64_t crs, int rows, int cols,
           const Epilogue<typename X::T>& e) {
  kTiles<X, Lies::Packed>[rows - 1][(cols - 1) / X::width](k, a, 0, 0, b, 0, c, crs, cols, e);
}

// C[rows, cols] from A through its strides and B with rows `brs` apart, padded to whole vectors.
template <class X>
void tile(int64_t k, const typename X::T* a, int64_t ars, int64_t acs, const typename X::T* b, int64_t brs,
          typename X::T* c, int64_t crs, int rows, int cols, const Epilogue<typename X::T>& e) {
  kTiles<X, Lies::Padded>[rows - 1][(cols - 1) / X::width](k, a, ars, acs, b, brs, c, crs, cols, e);
}

// Vectors that are loaded in parts of 16 bytes, from `p` on, of rows so many apart as a part has numbers; and the pairs
// of two vectors, part by part.
struct Floats8 {
  using T = float;
  using V = __m256;
  static V parts(const T* const* row, int64_t p) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row[0] + p)), _mm_loadu_ps(row[4] + p), 1);
  }
  static V low(V a, V b) { return _mm256_unpacklo_ps(a, b); }
  static V high(V a, V b) { return _mm256_unpackhi_ps(a, b); }
};
struct Doubles4 {
  using T = double;
  using V = __m256d;
  static V parts(const T* const* row, int64_t p) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(row[0] + p)), _mm_loadu_pd(row[2] + p), 1);
  }
  static V low(V a, V b) { return _mm256_unpacklo_pd(a, b); }
  static V high(V a, V b) { return _mm256_unpackhi_pd(a, b); }
};
#if FLAMBEAU_LEVEL == 1
struct Floats {
  using T = float;
  using V = __m512;
  static V parts(const T* const* row, int64_t p) {
    V v = _mm512_castps128_ps512(_mm_loadu_ps(row[0] + p));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(row[4] + p), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(row[8] + p), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(row[12] + p), 3);
  }
  static V low(V a, V b) { return _mm512_unpacklo_ps(a, b); }
  static V high(V a, V b) { return _mm512_unpackhi_ps(a, b); }
};
struct Doubles {
  using T = double;
  using V = __m512d;
  static V parts(const T* const* row, int64_t p) {
    V v = _mm512_castpd128_pd512(_mm_loadu_pd(row[0] + p));
    v = _mm512_insertf64x2(v, _mm_loadu_pd(row[2] + p), 1);
    v = _mm512_insertf64x2(v, _mm_loadu_pd(row[4] + p), 2);
    return _mm512_insertf64x2(v, _mm_loadu_pd(row[6] + p), 3);
  }
  static V low(V a, V b) { return _mm512_unpacklo_pd(a, b); }
  static V high(V a, V b) { return _mm512_unpackhi_pd(a, b); }
};
#else
using Floats = Floats8;
using Doubles = Doubles4;
#endif
template <class B>
constexpr int kBlockRows = sizeof(typename B::V) / sizeof(typename B::T);
template <class B>
constexpr int kBlockColumns = 16 / sizeof(typename B::T);

// A block of kBlockRows rows as columns `width` apart.
template <class B>
inline void transpose(const typename B::T* const* row, int64_t p, typename B::T* to, int64_t width) {
  auto put = [&](int column, typename B::V v) { std::memcpy(to + column * width, &v, sizeof v); };
  if constexpr (kBlockColumns<B> == 2) {
    const auto a = B::parts(row, p), b = B::parts(row + 1, p);
    put(0, B::low(a, b)), put(1, B::high(a, b));
  } else {
    const auto r0 = B::parts(row, p), r1 = B::parts(row + 1, p), r2 = B::parts(row + 2, p), r3 = B::parts(row + 3, p);
    const auto a = B::low(r0, r2), b = B::high(r0, r2), c = B::low(r1, r3), d = B::high(r1, r3);
    put(0, B::low(a, c)), put(1, B::high(a, c)), put(2, B::low(b, d)), put(3, B::high(b, d));
  }
}

// Few rows are read to their end before the next, since as many as a panel has would not stay in the first cache. The
// last rows come first: where their number divides nothing, their columns reach into the next one's first rows.
template <class B>
int64_t pack_transposed(typename B::T* panel, int width, const typename B::T* src, int64_t rs, int64_t k) {
  constexpr int rows = kBlockRows<B>, columns = kBlockColumns<B>;
  const int64_t end = width % rows ? k - 1 : k;
  int64_t done = 0;
  for (int i = (width - 1) / rows * rows; i >= 0; i -= rows) {
    const typename B::T* row[rows];
    for (int r = 0; r < rows; ++r) row[r] = src + std::min(i + r, width - 1) * rs;
    for (done = 0; done + columns <= end; done += columns) transpose<B>(row, done, panel + done * width + i, width);
  }
  return done;
}
int64_t pack_transposed(float* panel, int width, const float* src, int64_t rs, int64_t k) {
  return width % kBlockRows<Floats> ? pack_transposed<Floats8>(panel, width, src, rs, k)
                                    : pack_transposed<Floats>(panel, width, src, rs, k);
}
int64_t pack_transposed(double* panel, int width, const double* src, int64_t rs, int64_t k) {
  return width % kBlockRows<Doubles> ? pack_transposed<Doubles4>(panel, width, src, rs, k)
                                     : pack_transposed<Doubles>(panel, width, src, rs, k);
}

int64_t pack_transposed(uint64_t* panel, int width, const uint64_t* src, int64_t rs, int64_t k) {  // moved as doubles
  return pack_transposed(reinterpret_cast<double*>(panel), width, reinterpret_cast<const double*>(src), rs, k);
}

template <int Width, class T>
void pack_rows(T* panel, const T* src, int64_t ks, int64_t k) {
  for (int64_t p = 0; p < k; ++p, src += ks, panel += Width) std::memcpy(panel, src, Width * sizeof(T));
}

template <class X>
void pack(typename X::T* panel, int width, const typename X::T* src, int64_t rs, int64_t ks, int64_t rows, int64_t k) {
  if (rs == 1 && rows == width) {
    constexpr int W = X::width;
    if (width == kRows) return pack_rows<kRows>(panel, src, ks, k);
    if (width == W) return pack_rows<W>(panel, src, ks, k);
    if (width == 2 * W) return pack_rows<2 * W>(panel, src, ks, k);
    if (width == kWide * W) return pack_rows<kWide * W>(panel, src, ks, k);
  }
  int64_t p = rows == width && ks == 1 ? pack_transposed(panel, width, src, rs, k) : 0;
  for (; p < k; ++p) {
    auto* to = panel + p * width;
    for (int64_t i = 0; i < rows; ++i) to[i] = src[i * rs + p * ks];
    for (int64_t i = rows; i < width; ++i) to[i] = 0;
  }
}

// R rows with M vectors: what is loaded of either serves all of the other.
template <class X, int R, int M>
void dot_rows(int64_t k, const typename X::T* a, int64_t ars, const typename X::T* x, int64_t xs,
              typename X::T (&sums)[M][R]) {
  constexpr int W = X::width;
  typename X::V acc[M][R];
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) acc[i][r] = X::zero();
  auto add = [&](auto&& load) __attribute__((always_inline)) {
    typename X::V rows[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) rows[r] = load(a + r * ars);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const auto v = load(x + i * xs);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[i][r] = X::fma(rows[r], v, acc[i][r]);
    }
  };
  int64_t p = 0;
  for (; p + W <= k; p += W) add([p](const typename X::T* from) { return X::load(from + p); });
  if (p < k) {
    const auto rest = X::mask(int(k - p));
    add([p, rest](const typename X::T* from) { return X::load(from + p, rest); });
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) sums[i][r] = X::sum(acc[i][r]);
}

template <class X, int R, int M>
void some_dots(int64_t k, const typename X::T* a, int64_t ars, const typename X::T* x, int64_t xs, typename X::T* y,
               int64_t ys, int64_t ms, typename X::T alpha, typename X::T beta, const typename X::T* bias) {
  typename X::T sums[M][R];
  dot_rows<X, R, M>(k, a, ars, x, xs, sums);
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) {
      auto& to = y[i * ms + r * ys];
      auto v = alpha * sums[i][r];
      if (beta != 0) v += beta * to;
      to = bias ? v + bias[r] : v;
    }
}

template <class X, int M>
void all_dots(int64_t rows, int64_t k, const typename X::T* a, int64_t ars, const typename X::T* x, int64_t xs,
              typename X::T* y, int64_t ys, int64_t ms, typename X::T alpha, typename X::T beta,
              const typename X::T* bias) {
  constexpr int R = M == 1 ? 8 : M == 2 ? 4 : M <= 4 || FLAMBEAU_LEVEL == 1 ? 2 : 1;  // sums that registers hold
  auto run = [&](auto&& some, int64_t i) {
    some(k, a + i * ars, ars, x, xs, y + i * ys, ys, ms, alpha, beta, bias ? bias + i : nullptr);
  };
  int64_t i = 0;
  for (; i + R <= rows; i += R) run(some_dots<X, R, M>, i);
  if (R == 8 && i + 4 <= rows) run(some_dots<X, 4, M>, i), i += 4;
  for (; i < rows; ++i) run(some_dots<X, 1, M>, i);
}

template <class X>
void dots(int64_t rows, int64_t k, const typename X::T* a, int64_t ars, int64_t m, const typename X::T* x, int64_t xs,
          typename X::T* y, int64_t ys, int64_t ms, typename X::T alpha, typename X::T beta,
          const typename X::T* bias) {
  constexpr auto kAll = []<int... M>(std::integer_sequence<int, M...>) {
    return std::array{all_dots<X, M + 1>...};
  }(std::make_integer_sequence<int, int(kFewVectors)>());
  kAll[size_t(m - 1)](rows, k, a, ars, x, xs, y, ys, ms, alpha, beta, bias);
}

// sums[i, n] += x[i, 0] b[0, :] + … of R rows of B and M vectors.
template <class X, int R, int M>
void add_rows(int64_t n, const typename X::T* x, int64_t xs, int64_t ms, const typename X::T* b, int64_t brs,
              typename X::T* sums, int64_t apart) {
  constexpr int W = X::width;
  typename X::V factor[M][R];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) factor[i][r] = X::set(x[i * ms + r * xs]);
  auto add = [&](auto&& load, auto&& store, int64_t j) __attribute__((always_inline)) {
    typename X::V rows[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) rows[r] = load(b + r * brs + j);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      auto v = load(sums + i * apart + j);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) v = X::fma(factor[i][r], rows[r], v);
      store(sums + i * apart + j, v);
    }
  };
  int64_t j = 0;
  for (; j + W <= n; j += W)
    add([](const typename X::T* p) { return X::load(p); },
        [](typename X::T* p, const typename X::V& v) { X::store(p, v); }, j);
  if (j == n) return;
  const auto rest = X::mask(int(n - j));
  add([rest](const typename X::T* p) { return X::load(p, rest); },
      [rest](typename X::T* p, const typename X::V& v) { X::store(p, v, rest); }, j);
}

template <class X, int M>
void all_rows(int64_t n, int64_t k, const typename X::T* x, int64_t xs, int64_t ms, const typename X::T* b,
              int64_t brs, typename X::T* y, int64_t ys, typename X::T alpha, typename X::T beta,
              const typename X::T* bias) {
  using T = typename X::T;
  constexpr int64_t kColumns = (M > 4 ? 2048 : 4096) / sizeof(T);  // sums that stay in the first cache beside rows of B
  constexpr int R = M <= 2 ? 8 : M <= 4 ? 4 : 2;
  alignas(64) T sums[M * kColumns];
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t cols = std::min(kColumns, n - j);
    std::fill_n(sums, M * kColumns, T(0));
    int64_t p = 0;
    for (; p + R <= k; p += R) add_rows<X, R, M>(cols, x + p * xs, xs, ms, b + p * brs + j, brs, sums, kColumns);
    for (; p < k; ++p) add_rows<X, 1, M>(cols, x + p * xs, xs, ms, b + p * brs + j, brs, sums, kColumns);
    for (int m = 0; m < M; ++m)
      for (int64_t i = 0; i < cols; ++i) {
        T& to = y[m * ys + j + i];
        T v = alpha * sums[m * kColumns + i];
        if (beta != 0) v += beta * to;
        to = bias ? v + bias[j + i] : v;
      }
  }
}

template <class X>
void rows(int64_t m, int64_t n, int64_t k, const typename X::T* x, int64_t xs, int64_t ms, const typename X::T* b,
          int64_t brs, typename X::T* y, int64_t ys, typename X::T alpha, typename X::T beta,
          const typename X::T* bias) {
  constexpr auto kAll = []<int... M>(std::integer_sequence<int, M...>) {
    return std::array{all_rows<X, M + 1>...};
  }(std::make_integer_sequence<int, int(kFewVectors)>());
  kAll[size_t(m - 1)](n, k, x, xs, ms, b, brs, y, ys, alpha, beta, bias);
}

inline bool in_lines(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

template <class X>
void direct(int64_t m, int64_t n, int64_t k, const typename X::T* a, int64_t ars, int64_t acs, const typename X::T* b,
            int64_t brs, int64_t bcs, typename X::T* c, int64_t crs, const Epilogue<typename X::T>& e,
            typename X::T* scratch) {
  constexpr int NR = kWide * X::width;
  if (e.fetch) e.fetch->spread(((n + NR - 1) / NR) * ((m + kRows - 1) / kRows));
  for (int64_t j = 0; j < n; j += NR) {
    int cols = int(std::min<int64_t>(NR, n - j));
    const typename X::T* panel = b + j * bcs;
    int64_t step = brs;
    // columns of B that many rows meet are worth bringing together: rows of a power of two share few places of the
    // cache, a vector that lies in two of its lines is read twice, and what is no whole vector is read through a mask
    const bool whole = cols % X::width == 0 && k * brs * int64_t(sizeof(*panel)) <= kWholeBytes &&
                       in_lines(panel) && brs % X::width == 0;
    const bool packed = n > 1 && (bcs != 1 || (!whole && m >= (cols % X::width ? kMaskedRows : kPackedRows)));
    if (packed) {
      step = (cols + X::width - 1) / X::width * X::width;
      pack<X>(scratch, int(step), panel, bcs, brs, cols, k);
      panel = scratch;
    }
    for (int64_t i = 0; i < m; i += kRows) {
      int rows = int(std::min<int64_t>(kRows, m - i));
      if (e.fetch) e.fetch->some();
      Epilogue<typename X::T> tile = e;
      if (e.bias_col) tile.bias_col += j;
      if (e.bias_row) tile.bias_row += i;
      const auto& tiles = packed ? kTiles<X, Lies::Padded> : kTiles<X, Lies::InPlace>;
      tiles[rows - 1][(cols - 1) / X::width](k, a + i * ars, ars, acs, panel, step, c + i * crs + j, crs, cols, tile);
    }
  }
}

// Where the next matrix of B follows closely, rows are read to the end of their last vector: those of the last matrix
// through a mask.
template <class X>
void batch(const Batch& all, bool last, int64_t m, int64_t n, int64_t k, const typename X::T* a, int64_t ars,
           int64_t acs, const typename X::T* b, int64_t brs, typename X::T* c, int64_t crs) {
  const int64_t vectors = (n + X::width - 1) / X::width;
  const bool beyond = n % X::width != 0 && all.b >= vectors * X::width - n;
  const Epilogue<typename X::T> plain;
  for (int64_t p = 0; p < all.count; ++p, a += all.a, b += all.b, c += all.c) {
    const bool padded = beyond && !(last && p + 1 == all.count);
    const auto& tiles = padded ? kTiles<X, Lies::Padded> : kTiles<X, Lies::InPlace>;
    for (int64_t i = 0; i < m; i += kRows)
      tiles[std::min<int64_t>(kRows, m - i) - 1][vectors - 1](k, a + i * ars, ars, acs, b, brs, c + i * crs, crs,
                                                              int(n), plain);
  }
}

template <class X>
constexpr GemmKernels<typename X::T> kKernels{kRows,   kWide * X::width, X::width,  micro<X>,
                                              tile<X>, pack<X>,          direct<X>, dots<X>, rows<X>,
                                              batch<X>};

const bool registered = [] {
  gemm_kernels_f32[FLAMBEAU_LEVEL] = &kKernels<F32>;
  gemm_kernels_f64[FLAMBEAU_LEVEL] = &kKernels<F64>;
  gemm_kernels_u64[FLAMBEAU_LEVEL] = &kKernels<U64>;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
