// Products of complex numbers, as real ones: of a row in two, others as one of twice the columns and twice the depth.
#include <algorithm>
#include <cstring>
#include <memory>

#include "gemm_blocked.h"
#include "times.h"

namespace flambeau {
namespace {

// A row times B: its real and its imaginary parts are two rows, and B's rows real ones, with both parts in turn.
template <class R>
void row_complex(int64_t n, int64_t k, const std::complex<R>* a, int64_t acs, const std::complex<R>* b, int64_t brs,
                 std::complex<R>* c, std::complex<R> alpha, const std::complex<R>* bias, bool threads) {
  std::unique_ptr<R[]> memory(new R[size_t(2 * product_area(1, k) + 4 * product_area(1, n))]);
  R *rows = memory.get(), *sums = rows + 2 * k;
  for (int64_t p = 0; p < k; ++p) {
    const std::complex<R> v = times(alpha, a[p * acs]);
    rows[p] = v.real(), rows[k + p] = v.imag();
  }
  gemm<R>(2, 2 * n, k, rows, k, 1, reinterpret_cast<const R*>(b), 2 * brs, 1, sums, 2 * n, {}, threads);
  for (int64_t j = 0; j < n; ++j) {
    const std::complex<R> v(sums[2 * j] - sums[2 * n + 2 * j + 1], sums[2 * j + 1] + sums[2 * n + 2 * j]);
    c[j] = bias ? v + bias[j] : v;
  }
}

// A real matrix that has (re, im) and (-im, re), one below the other, for each number of factor * B.
template <class R>
struct TurnedRows {
  const std::complex<R>* at;
  int64_t rs, cs;
  std::complex<R> factor;
  static bool in_rows() { return false; }
  static bool flat_strips() { return false; }
  TurnedRows from_column(int64_t j) const { return {at + j / 2 * cs, rs, cs, factor}; }

  // `cols` real numbers, an even count, of row p.
  void row(R* __restrict to, int64_t p, int64_t j, int64_t cols) const {
    const std::complex<R>* from = at + p / 2 * rs + j / 2 * cs;
    const bool plain = factor == R(1);
    if (plain && cs == 1 && p % 2 == 0) {
      std::memcpy(to, from, size_t(cols) * sizeof(R));
    } else if (plain && cs == 1) {
      const R* parts = reinterpret_cast<const R*>(from);
      for (int64_t i = 0; i < cols; i += 2) to[i] = -parts[i + 1], to[i + 1] = parts[i];
    } else {
      for (int64_t i = 0; i < cols; i += 2, from += cs) {
        const std::complex<R> v = plain ? *from : times(factor, *from);
        to[i] = p % 2 ? -v.imag() : v.real();
        to[i + 1] = p % 2 ? v.real() : v.imag();
      }
    }
  }
  void pack(R* panel, int64_t width, int64_t p, int64_t j, int64_t cols, int64_t k) const {
    for (int64_t i = 0; i < k; ++i, panel += width) {
      row(panel, p + i, j, cols);
      std::fill(panel + cols, panel + width, R(0));
    }
  }
  Fetch::Rows ahead(int64_t, int64_t, int64_t, int64_t) const { return {}; }  // nothing is fetched ahead
};

}  // namespace

// The parts of A's numbers in turn are a real matrix of 2 k columns, those of C one of 2 n, with B turned between them.
template <class R>
void gemm_complex(int64_t m, int64_t n, int64_t k, const std::complex<R>* a, int64_t ars, int64_t acs,
                  const std::complex<R>* b, int64_t brs, int64_t bcs, std::complex<R>* c, int64_t crs,
                  std::complex<R> alpha, std::complex<R> beta, const std::complex<R>* bias, bool threads) {
  if (m == 1 && n > 1 && bcs == 1 && beta == R(0)) return row_complex(n, k, a, acs, b, brs, c, alpha, bias, threads);
  if (n == 1 && m > 1 && ars == 1 && crs == 1 && beta == R(0) && !bias)  // C' = B' A'
    return row_complex(m, k, b, brs, a, acs, c, alpha, bias, threads);
  std::unique_ptr<std::complex<R>[]> rows;
  if (acs != 1 && k > 1) {
    rows.reset(new std::complex<R>[product_area(m, k)]);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p) rows[i * k + p] = a[i * ars + p * acs];
    a = rows.get(), ars = k;
  }
  if (beta.imag() != 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * crs + j] = times(beta, c[i * crs + j]);
    beta = R(1);
  }
  const R *left = reinterpret_cast<const R*>(a), *added = reinterpret_cast<const R*>(bias);
  R* to = reinterpret_cast<R*>(c);
  const TurnedRows<R> turned{b, brs, bcs, alpha};
  const bool large = m > 4 && n > 1 && !sums_in_parts(m, 2 * n, 2 * k) && !is_small<R>(m, 2 * n, 2 * k, threads);
  if (large && k > 0) {
    const Epilogue<R> e{R(1), beta.real(), added};
    const bool shared = threads && 4 * m * n * k > kParallelWork;
    return (shared ? blocked_parallel<R, TurnedRows<R>> : blocked<R, TurnedRows<R>>)(m, 2 * n, 2 * k, left, 2 * ars, 1,
                                                                                    turned, to, 2 * crs, e);
  }
  std::unique_ptr<R[]> between(new R[size_t(4 * product_area(k, n))]);
  for (int64_t p = 0; p < 2 * k; ++p) turned.row(between.get() + 2 * p * n, p, 0, 2 * n);
  const int64_t columns = n == 1 ? 1 : 2 * n;  // at a time: a matrix by a vector is fast
  for (int64_t j = 0; j < 2 * n; j += columns)
    gemm<R>(m, columns, 2 * k, left, 2 * ars, 1, between.get() + j, 2 * n, 1, to + j, 2 * crs,
            {R(1), beta.real(), added ? added + j : nullptr}, threads);
}
template void gemm_complex<float>(int64_t, int64_t, int64_t, const complex64*, int64_t, int64_t, const complex64*,
                                  int64_t, int64_t, complex64*, int64_t, complex64, complex64, const complex64*, bool);
template void gemm_complex<double>(int64_t, int64_t, int64_t, const complex128*, int64_t, int64_t, const complex128*,
                                   int64_t, int64_t, complex128*, int64_t, complex128, complex128, const complex128*,
                                   bool);

}  // namespace flambeau
