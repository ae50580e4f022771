// Which product goes where: small operands to the register tiles in place, large ones to the blocked product, halves to
// gemm_half.cpp; integers of less than 64 bits to plain loops, complex numbers to a real product.
#include "gemm_blocked.h"

#include <algorithm>
#include <memory>

#include "../core/machine.h"
#include "gemm_parts.h"
#include "half_rows.h"

namespace flambeau {

const GemmKernels<float>* gemm_kernels_f32[2];
const GemmKernels<double>* gemm_kernels_f64[2];
const GemmKernels<uint64_t>* gemm_kernels_u64[2];

template <>
const GemmKernels<float>& gemm_kernels<float>() {
  static const auto& chosen = best_loops(gemm_kernels_f32);
  return chosen;
}
template <>
const GemmKernels<double>& gemm_kernels<double>() {
  static const auto& chosen = best_loops(gemm_kernels_f64);
  return chosen;
}
template <>
const GemmKernels<uint64_t>& gemm_kernels<uint64_t>() {
  static const auto& chosen = best_loops(gemm_kernels_u64);
  return chosen;
}

namespace {

constexpr int64_t kLongRow = 1 << 15;  // elements of B from which a row times B follows the rows of B
constexpr int64_t kLarge = 1 << 16;    // from which some rows of A follow its rows or columns

// C without a product (k == 0).
template <class T>
void only_epilogue(int64_t m, int64_t n, T* c, int64_t crs, const Epilogue<T>& e) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T v = e.beta != 0 ? e.beta * c[i * crs + j] : T(0);
      if (e.bias_col) v += e.bias_col[j];
      if (e.bias_row) v += e.bias_row[i];
      c[i * crs + j] = v;
    }
}

// Whether so few rows of A meet rows or columns of B as these lie: B is large.
bool few_vectors(int64_t m, int64_t n, int64_t k) {
  return m <= kFewVectors && n * k >= (m == 1 ? kLongRow : kLarge);
}

// Products with a vector, or a few. Returns false when the shape or the strides ask for the general way.
template <class T>
bool vector_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
                    int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e, bool threads) {
  const auto& kernels = gemm_kernels<T>();
  const int64_t grain = threads ? std::max<int64_t>(8, (1 << 16) / std::max<int64_t>(k, 1)) : kSerial;
  if (n == 1 && acs == 1 && !e.bias_col) {
    const T* x = side_by_side(b, brs, k, kScratchA);
    parallel_for(m, grain, [&](int64_t i, int64_t end) {
      kernels.dots(end - i, k, a + i * ars, ars, 1, x, k, c + i * crs, crs, 1, e.alpha, e.beta,
                   e.bias_row ? e.bias_row + i : nullptr);
    });
    return true;
  }
  if (!e.bias_row && brs == 1 && bcs != 1 && (m == 1 || (acs == 1 && few_vectors(m, n, k)))) {
    const T* x = m == 1 ? side_by_side(a, acs, k, kScratchA) : a;
    parallel_for(n, threads ? std::max<int64_t>(8, grain / m) : kSerial, [&](int64_t j, int64_t end) {
      kernels.dots(end - j, k, b + j * bcs, bcs, m, x, ars, c + j, 1, crs, e.alpha, e.beta,
                   e.bias_col ? e.bias_col + j : nullptr);
    });
    return true;
  }
  if (bcs == 1 && !e.bias_row && few_vectors(m, n, k)) {
    parallel_for(n, threads ? std::max<int64_t>(256, grain / m) : kSerial, [&](int64_t j, int64_t end) {
      kernels.rows(m, end - j, k, a, acs, ars, b + j, brs, c + j, crs, e.alpha, e.beta,
                   e.bias_col ? e.bias_col + j : nullptr);
    });
    return true;
  }
  if (m <= 4 && bcs == 1) {  // streams through B once
    parallel_for(n, threads ? std::max<int64_t>(kernels.nr, grain) : kSerial, [&](int64_t j, int64_t end) {
      kernels.direct(m, end - j, k, a, ars, acs, b + j, brs, 1, c + j, crs, shifted(e, 0, j), nullptr);
    });
    return true;
  }
  return false;
}

template <class T>
void in_place(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
              int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e) {
  const auto& kernels = gemm_kernels<T>();
  T local[2048];
  int64_t need = std::min<int64_t>(kernels.nr, (n + kernels.width - 1) / kernels.width * kernels.width) * k;
  kernels.direct(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, need <= 2048 ? local : scratch<T>(kScratchB, need));
}

// Few results of long sums: the sums are cut into parts, by their length alone, which threads share.
template <class T>
void long_sums(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
               int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e, bool threads) {
  const int64_t parts = std::min<int64_t>(k / (kLongSum / 2), kMostParts), each = (k + parts - 1) / parts;
  std::vector<T> sums(size_t(parts * m * n));
  parallel_for(parts, threads ? 1 : kSerial, [&](int64_t p, int64_t end) {
    for (; p < end; ++p)
      blocked<T>(m, n, std::min(each, k - p * each), a + p * each * acs, ars, acs,
                 Rows<T>{b + p * each * brs, brs, bcs, m}, sums.data() + p * m * n, n, {});
  });
  for (int64_t p = 1; p < parts; ++p)
    for (int64_t i = 0; i < m * n; ++i) sums[size_t(i)] += sums[size_t(p * m * n + i)];
  only_epilogue(m, n, c, crs, e);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) c[i * crs + j] += e.alpha * sums[size_t(i * n + j)];
}

// Returns whether pieces were finished as they were made.
template <class T>
bool gemm_somehow(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
                  int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e, bool threads) {
  if (k == 0 || e.alpha == 0) return only_epilogue(m, n, c, crs, e), false;
  if (m == 1) ars = k;
  if (n == 1) bcs = 1;
  if (k == 1) acs = ars == 1 ? m : 1, brs = bcs == 1 ? n : 1;
  if (n == 1 && m > 1 && acs != 1 && crs == 1) {  // a column of a transposed matrix is a row
    Epilogue<T> t{e.alpha, e.beta, e.bias_row, e.bias_col};
    return gemm<T>(1, m, k, b, k, brs, a, acs, ars, c, m, t, threads), false;
  }
  if ((m <= kFewVectors || n == 1) && vector_product(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads))
    return false;
  if constexpr (std::is_same_v<T, float>) {
    const FloatParts* by = e.exact ? exact_parts() : parts_of_products();
    if (gemm_by_parts_pays(by, m, n, k, ars, acs, brs, bcs))
      return gemm_by_parts(*by, m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads), true;
  }
  if (sums_in_parts(m, n, k))
    return long_sums(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads), false;
  if (is_small<T>(m, n, k, threads)) return in_place(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e), false;
  const Rows<T> rows{b, brs, bcs, m};
  if (!threads || m * n * k <= kParallelWork) blocked(m, n, k, a, ars, acs, rows, c, crs, e);
  else blocked_parallel(m, n, k, a, ars, acs, rows, c, crs, e);
  return true;
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs, int64_t bcs,
          T* c, int64_t crs, const Epilogue<T>& e, bool threads) {
  if (m == 0 || n == 0) return;
  if (!gemm_somehow(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads) && e.finish) e.finish->piece(c, crs, m, n);
}
template void gemm<float>(int64_t, int64_t, int64_t, const float*, int64_t, int64_t, const float*, int64_t, int64_t,
                          float*, int64_t, const Epilogue<float>&, bool);
template void gemm<double>(int64_t, int64_t, int64_t, const double*, int64_t, int64_t, const double*, int64_t, int64_t,
                           double*, int64_t, const Epilogue<double>&, bool);
template void gemm<uint64_t>(int64_t, int64_t, int64_t, const uint64_t*, int64_t, int64_t, const uint64_t*, int64_t,
                             int64_t, uint64_t*, int64_t, const Epilogue<uint64_t>&, bool);

// Columns of one of several products, by the way that gemm takes for all of them.
static void some_columns(int64_t m, int64_t k, const float* a, const Joined& p, int64_t from, int64_t n) {
  const Epilogue<float> e{1, 0, p.bias ? p.bias + from : nullptr};
  const float* b = p.b + from * k;
  if ((m == 1 && k > 1) || few_vectors(m, p.n, k))
    gemm_kernels<float>().dots(n, k, b, k, m, a, k, p.c + from, 1, p.n, 1, 0, e.bias_col);
  else if (is_small<float>(m, p.n, k, true)) in_place(m, n, k, a, k, 1, b, 1, k, p.c + from, p.n, e);
  else blocked(m, n, k, a, k, 1, Rows<float>{b, 1, k, m}, p.c + from, p.n, e);
}

void gemm_joined(int64_t m, int64_t k, const float* a, std::span<const Joined> products) {
  int64_t all = 0;
  for (const Joined& p : products) all += p.n;
  const bool plain = k < 2 || m == 0 || std::ranges::any_of(products, [&](const Joined& p) {
    return p.n < 2 || gemm_by_parts_pays(parts_of_products(), m, p.n, k, k, 1, 1, k);
  });
  if (plain) {
    for (const Joined& p : products) gemm<float>(m, p.n, k, a, k, 1, p.b, 1, k, p.c, p.n, {1, 0, p.bias});
    return;
  }
  const int64_t nr = gemm_kernels<float>().nr, panels = (all + nr - 1) / nr;
  const int64_t least = m == 1 ? 1 << 16 : kParallelWork / 2;
  parallel_for(panels, std::max<int64_t>(1, least / (m * k * nr)), [&](int64_t first, int64_t last) {
    int64_t begin = first * nr, end = std::min(last * nr, all);
    for (const Joined& p : products) {
      const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, p.n);
      if (from < to) some_columns(m, k, a, p, from, to - from);
      begin -= p.n, end -= p.n;
    }
  });
}

namespace {

template <class U>
void finish_integers(const U* sums, U* to, int64_t n, U alpha, U beta, const U* bias) {
  for (int64_t j = 0; j < n; ++j) {
    U v = U(alpha * sums[j]);
    if (beta) v = U(v + beta * to[j]);
    to[j] = bias ? U(v + bias[j]) : v;
  }
}
// Unsigned arithmetic of the same width gives signed products too. A row of A meets some columns of B at a time.
template <class U>
void gemm_integers(int64_t m, int64_t n, int64_t k, const U* a, int64_t ars, int64_t acs, const U* b, int64_t brs,
                   int64_t bcs, U* c, int64_t crs, U alpha, U beta, const U* bias, bool threads) {
  constexpr int64_t kColumns = 1024;
  const auto grain = [&](int64_t work) { return threads ? std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work))
                                                        : kSerial; };
  if (n == 1 && acs == 1) {
    const U* x = side_by_side(b, brs, k, kScratchA);
    return parallel_for(m, grain(k), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const U sum = narrow_dot(a + i * ars, x, k);
        finish_integers(&sum, c + i * crs, 1, alpha, beta, bias);
      }
    });
  }
  if (n == 1 && ars == 1 && crs == 1 && !bias)  // a column of a transposed matrix is a row
    return gemm_integers(1, m, k, b, k, brs, a, acs, ars, c, m, alpha, beta, bias, threads);
  std::unique_ptr<U[]> packed;
  if (bcs != 1) {
    packed.reset(new U[product_area(k, n)]);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b[p * brs + j * bcs];
    b = packed.get(), brs = n;
  }
  const int64_t width = m == 1 ? std::min<int64_t>(kColumns, std::max<int64_t>(64, n / 4)) : kColumns;
  const int64_t blocks = (n + width - 1) / width;
  parallel_for(m * blocks, grain(std::min(n, width) * k), [&](int64_t u, int64_t end) {
    for (; u < end; ++u) {
      const int64_t i = u / blocks, first = u % blocks * width, w = std::min(width, n - first);
      U sums[kColumns] = {};
      for (int64_t p = 0; p < k; ++p) {
        const U x = a[i * ars + p * acs], *row = b + p * brs + first;
        for (int64_t j = 0; j < w; ++j) sums[j] = U(sums[j] + x * row[j]);
      }
      finish_integers(sums, c + i * crs + first, w, alpha, beta, bias ? bias + first : nullptr);
    }
  });
}

}  // namespace

void gemm_any(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
              const Scalar& alpha, const Scalar& beta, const void* bias, bool threads, Fetch* fetch) {
  auto as = [&]<class T>() {
    return [&](auto&& product) {
      product(m, n, k, static_cast<const T*>(a.data), a.rs, a.cs, static_cast<const T*>(b.data), b.rs, b.cs,
              static_cast<T*>(c), crs, alpha.to<T>(), beta.to<T>(), static_cast<const T*>(bias), threads);
    };
  };
  auto real = [fetch]<class T>(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b,
                               int64_t brs, int64_t bcs, T* c, int64_t crs, T alpha, T beta, const T* bias,
                               bool threads) {
    gemm<T>(m, n, k, a, ars, acs, b, brs, bcs, c, crs, {alpha, beta, bias, nullptr, nullptr, fetch}, threads);
  };
  auto integers = [&]<class U>() { as.template operator()<U>()(gemm_integers<U>); };
  switch (dtype) {
    case DType::Float32: return as.operator()<float>()(real);
    case DType::Float64: return as.operator()<double>()(real);
    case DType::Float16: case DType::BFloat16:
      if (m && n) gemm_half(dtype, m, n, k, a, b, c, crs, alpha.to<float>(), beta.to<float>(), bias, threads);
      return;
    case DType::Complex64: return as.operator()<complex64>()(gemm_complex<float>);
    case DType::Complex128: return as.operator()<complex128>()(gemm_complex<double>);
    case DType::UInt8: case DType::Int8: return integers.operator()<uint8_t>();
    case DType::UInt16: case DType::Int16: return integers.operator()<uint16_t>();
    case DType::UInt32: case DType::Int32: return integers.operator()<uint32_t>();
    case DType::UInt64: case DType::Int64: return as.operator()<uint64_t>()(real);
    default: runtime_error("matmul: not offered for dtype ", dtype_name(dtype));
  }
}

}  // namespace flambeau
