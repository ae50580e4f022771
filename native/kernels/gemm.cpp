// Which product goes where: small operands to the register tiles in place, large ones to the blocked product, halves to
// gemm_half.cpp; integers to plain loops, complex numbers to a real product.
#include "gemm.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "../core/machine.h"
#include "elementwise.h"
#include "half_rows.h"
#include "times.h"

namespace flambeau {

const GemmKernels<float>* gemm_kernels_f32[2];
const GemmKernels<double>* gemm_kernels_f64[2];

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

namespace {

constexpr int64_t kDirectWork = 128 * 128 * 128;  // multiplications up to which packing A does not pay
constexpr int64_t kDirectBytes = 96 << 10;        // B stays in the first two caches
constexpr int64_t kLongRow = 1 << 15;              // elements of B from which a row times B follows the rows of B
constexpr int64_t kBlockK = 256, kBlockM = 192, kBlockN = 768;
constexpr int64_t kLongSum = 2048, kFewSums = 64 * 64, kMostParts = 16;
constexpr int64_t kInPlaceRows = 96;              // of A that are read where they lie by all columns of a strip
constexpr int64_t kInPlaceColumns = 128;          // of C, for which packing A does not pay
constexpr int64_t kFewRows = 512;                 // of A, up to which the packing of B is worth preparing
constexpr int64_t kCacheSpan = 64 << 10;          // bytes after which a second cache's places repeat, or more
constexpr int64_t kCacheWays = 8;                 // lines that it keeps in one place, or more

template <class T>
Epilogue<T> shifted(Epilogue<T> e, int64_t row, int64_t col) {
  if (e.bias_row) e.bias_row += row;
  if (e.bias_col) e.bias_col += col;
  return e;
}

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

// How many rows of A stay in the second cache where they lie, 0 where these are too few for a block. Rows a large power
// of two apart share few places there.
template <class T>
int64_t rows_in_place(int64_t ars, int64_t acs) {
  if (acs != 1) return 0;
  const int64_t apart = std::gcd(ars * int64_t(sizeof(T)), kCacheSpan), all = kCacheWays * kCacheSpan;
  return kInPlaceRows * apart <= all ? kInPlaceRows : kInPlaceRows / 2 * apart <= all ? kInPlaceRows / 2 : 0;
}

// The next panel of B: weights come from memory, and a packing that waits for them took a twelfth of the time of a few
// hundred rows.
template <class T>
Fetch::Rows panel_rows(const T* b, int64_t brs, int64_t bcs, int64_t k, int64_t cols) {
  if (brs != 1 && bcs != 1) return {};
  const int64_t size = sizeof(T), count = brs == 1 ? cols : k, length = brs == 1 ? k : cols;
  return {reinterpret_cast<const char*>(b), count, (length * size + 63) / 64, (brs == 1 ? bcs : brs) * size};
}

// The blocked product in one thread: a strip of B in the last cache, a block of A in the second, tiles in registers.
// A is packed where its rows would not stay in a cache; few columns do not repay that: each row then meets all of them
// before the next.
// long because: strips of B, blocks of A and tiles share what is packed
template <class T>
void blocked(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
             int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e) {
  const auto& kernels = gemm_kernels<T>();
  const int64_t mr = kernels.mr, nr = kernels.nr;
  const int64_t stays = rows_in_place<T>(ars, acs);
  const bool packs = !stays && (acs != 1 || n > kInPlaceColumns);
  const int64_t pieces = (k + kBlockK - 1) / kBlockK, kc = (k + pieces - 1) / pieces;
  const int64_t mc = std::min(packs ? kBlockM : stays ? stays : mr, (m + mr - 1) / mr * mr);
  const int64_t nc = std::min(kBlockN / nr * nr, (n + nr - 1) / nr * nr);
  T* pa = packs ? scratch<T>(kScratchA, mc * kc) : nullptr;
  T* pb = scratch<T>(kScratchB, nc * kc);
  if (e.fetch) e.fetch->spread(pieces * ((n + nr - 1) / nr) * ((m + mr - 1) / mr));
  Fetch next;
  const auto pack_panel = [&](int64_t j0, int64_t p0, int64_t j, int64_t nj) {
    const int64_t kp = std::min(kc, k - p0);
    kernels.pack(pb + j * kp, int(nr), b + p0 * brs + (j0 + j) * bcs, bcs, brs, std::min(nr, nj - j), kp);
    if (m > kFewRows || e.fetch) return;
    int64_t col = j0 + j + nr, end = j0 + nj, p = p0;
    if (col >= end) col = j0, p += kc;
    if (p >= k) col = j0 + nc, end = n, p = 0;
    if (col >= end) return;
    next.rows[0] = panel_rows(b + p * brs + col * bcs, brs, bcs, std::min(kc, k - p), std::min(nr, end - col));
    next.spread((std::min(mc, m) + mr - 1) / mr);
  };
  for (int64_t j0 = 0; j0 < n; j0 += nc) {
    int64_t nj = std::min(nc, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kc) {
      int64_t kp = std::min(kc, k - p0);
      bool first = p0 == 0, final = p0 + kp == k;
      Epilogue<T> step{e.alpha, first ? e.beta : T(1), final ? e.bias_col : nullptr, final ? e.bias_row : nullptr};
      for (int64_t i0 = 0; i0 < m; i0 += mc) {
        interruption_point();
        int64_t mi = std::min(mc, m - i0);
        const T* rows = a + i0 * ars + p0 * acs;
        if (packs)
          for (int64_t i = 0; i < mi; i += mr)
            kernels.pack(pa + i * kp, int(mr), rows + i * ars, ars, acs, std::min(mr, mi - i), kp);
        for (int64_t j = 0; j < nj; j += nr) {
          if (i0 == 0) pack_panel(j0, p0, j, nj);
          for (int64_t i = 0; i < mi; i += mr) {
            next.some();
            if (e.fetch) e.fetch->some();
            T* to = c + (i0 + i) * crs + j0 + j;
            const int height = int(std::min(mr, mi - i)), width = int(std::min(nr, nj - j));
            const Epilogue<T> here = shifted(step, i0 + i, j0 + j);
            if (packs) kernels.micro(kp, pa + i * kp, pb + j * kp, to, crs, height, width, here);
            else kernels.tile(kp, rows + i * ars, ars, acs, pb + j * kp, nr, to, crs, height, width, here);
          }
        }
        if (final && e.finish) e.finish->piece(c + i0 * crs + j0, crs, mi, nj);
      }
    }
  }
}

// Threads share C as a grid of rectangles; the grid that packs least is taken.
template <class T>
void blocked_parallel(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
                      int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e) {
  const auto& kernels = gemm_kernels<T>();
  int64_t threads = num_threads(), rows = 1, best = INT64_MAX;
  for (int64_t r = 1; r <= threads; ++r)
    if (threads % r == 0 && m * (threads / r) + n * r < best) rows = r, best = m * (threads / r) + n * r;
  int64_t cols = threads / rows;
  auto cut = [](int64_t n, int64_t parts, int64_t unit) { return ((n + parts - 1) / parts + unit - 1) / unit * unit; };
  // columns in whole vectors: panels of them would leave one thread half a panel more than another
  int64_t mb = cut(m, rows, kernels.mr), nb = cut(n, cols, kernels.width);
  parallel_for(rows * cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t i = t / cols * mb, j = t % cols * nb;
      if (i >= m || j >= n) continue;
      blocked(std::min(mb, m - i), std::min(nb, n - j), k, a + i * ars, ars, acs, b + j * bcs, brs, bcs,
              c + i * crs + j, crs, shifted(e, i, j));
    }
  });
}

// A vector with its elements side by side: itself or a copy.
template <class T>
const T* side_by_side(const T* x, int64_t step, int64_t n) {
  if (step == 1) return x;
  T* copy = scratch<T>(kScratchA, n);
  for (int64_t k = 0; k < n; ++k) copy[k] = x[k * step];
  return copy;
}

// Products with a vector. Returns false when the shape or the strides ask for the general way.
template <class T>
bool vector_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
                    int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e, bool threads) {
  const auto& kernels = gemm_kernels<T>();
  const int64_t grain = threads ? std::max<int64_t>(8, (1 << 16) / std::max<int64_t>(k, 1)) : kSerial;
  if (n == 1 && acs == 1 && !e.bias_col) {
    const T* x = side_by_side(b, brs, k);
    parallel_for(m, grain, [&](int64_t i, int64_t end) {
      kernels.dots(end - i, k, a + i * ars, ars, x, c + i * crs, crs, e.alpha, e.beta,
                   e.bias_row ? e.bias_row + i : nullptr);
    });
    return true;
  }
  if (m == 1 && !e.bias_row && brs == 1 && bcs != 1) {
    const T* x = side_by_side(a, acs, k);
    parallel_for(n, grain, [&](int64_t j, int64_t end) {
      kernels.dots(end - j, k, b + j * bcs, bcs, x, c + j, 1, e.alpha, e.beta, e.bias_col ? e.bias_col + j : nullptr);
    });
    return true;
  }
  if (m == 1 && bcs == 1 && !e.bias_row && n * k >= kLongRow) {
    parallel_for(n, threads ? std::max<int64_t>(256, grain) : kSerial, [&](int64_t j, int64_t end) {
      kernels.row(end - j, k, a, acs, b + j, brs, c + j, e.alpha, e.beta, e.bias_col ? e.bias_col + j : nullptr);
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

// Whether operands fit the caches well enough to be read in place.
template <class T>
bool is_small(int64_t m, int64_t n, int64_t k, bool threads) {
  // halves of C for two threads would cost more than they save below this size
  return m * n * k <= kDirectWork && n * k * int64_t(sizeof(T)) <= kDirectBytes &&
         (!threads || m * n * k <= kParallelWork || m < 2 * gemm_kernels<T>().mr);
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
      blocked<T>(m, n, std::min(each, k - p * each), a + p * each * acs, ars, acs, b + p * each * brs, brs, bcs,
                 sums.data() + p * m * n, n, {});
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
  if ((m <= 4 || n == 1) && vector_product(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads)) return false;
  if (k >= kLongSum && m * n <= kFewSums && m * n * k > kParallelWork)
    return long_sums(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e, threads), false;
  if (is_small<T>(m, n, k, threads)) return in_place(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e), false;
  if (!threads || m * n * k <= kParallelWork) blocked(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e);
  else blocked_parallel(m, n, k, a, ars, acs, b, brs, bcs, c, crs, e);
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

// Columns of one of several products, by the way that gemm takes for all of them.
static void some_columns(int64_t m, int64_t k, const float* a, const Joined& p, int64_t from, int64_t n) {
  const Epilogue<float> e{1, 0, p.bias ? p.bias + from : nullptr};
  const float* b = p.b + from * k;
  if (m == 1 && k > 1) gemm_kernels<float>().dots(n, k, b, k, a, p.c + from, 1, 1, 0, e.bias_col);
  else if (is_small<float>(m, p.n, k, true)) in_place(m, n, k, a, k, 1, b, 1, k, p.c + from, p.n, e);
  else blocked(m, n, k, a, k, 1, b, 1, k, p.c + from, p.n, e);
}

void gemm_joined(int64_t m, int64_t k, const float* a, std::span<const Joined> products) {
  int64_t all = 0;
  for (const Joined& p : products) all += p.n;
  const bool plain = std::ranges::any_of(products, [](const Joined& p) { return p.n < 2; }) || k < 2 || m == 0;
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


// Unsigned arithmetic of the same width gives signed products too.
template <class U>
void gemm_integers(int64_t m, int64_t n, int64_t k, const U* a, int64_t ars, int64_t acs, const U* b, int64_t brs,
                   int64_t bcs, U* c, int64_t crs, U alpha, U beta, const U* bias, bool threads) {
  std::unique_ptr<U[]> packed;
  if (bcs != 1) {
    packed.reset(new U[product_area(k, n)]);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b[p * brs + j * bcs];
    b = packed.get(), brs = n;
  }
  parallel_for(m, threads ? std::max<int64_t>(1, 32768 / std::max<int64_t>(1, n * k)) : kSerial, [&](int64_t i,
      int64_t end) {
    std::unique_ptr<U[]> sums(new U[size_t(n)]);
    for (; i < end; ++i) {
      std::fill_n(sums.get(), n, U(0));
      for (int64_t p = 0; p < k; ++p) {
        U x = a[i * ars + p * acs];
        const U* row = b + p * brs;
        for (int64_t j = 0; j < n; ++j) sums[j] = U(sums[j] + x * row[j]);
      }
      U* to = c + i * crs;
      for (int64_t j = 0; j < n; ++j) {
        U v = U(alpha * sums[j]);
        if (beta) v = U(v + beta * to[j]);
        to[j] = bias ? U(v + bias[j]) : v;
      }
    }
  });
}

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

// The parts of A's numbers in turn are a real matrix of 2 k columns, those of C one of 2 n. Between them stands a real
// matrix that has (re, im) and (-im, re), one below the other, for each number of alpha B.
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
  std::unique_ptr<R[]> between(new R[size_t(4 * product_area(k, n))]);
  const bool plain = alpha == R(1);
  for (int64_t p = 0; p < k; ++p) {
    R *__restrict above = between.get() + 4 * p * n, *__restrict below = above + 2 * n;
    const std::complex<R>* row = b + p * brs;
    for (int64_t j = 0; j < n; ++j) {
      const std::complex<R> v = plain ? row[j * bcs] : times(alpha, row[j * bcs]);
      above[2 * j] = below[2 * j + 1] = v.real();
      above[2 * j + 1] = v.imag();
      below[2 * j] = -v.imag();
    }
  }
  if (beta.imag() != 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * crs + j] = times(beta, c[i * crs + j]);
    beta = R(1);
  }
  const R *left = reinterpret_cast<const R*>(a), *added = reinterpret_cast<const R*>(bias);
  R* to = reinterpret_cast<R*>(c);
  const int64_t columns = n == 1 ? 1 : 2 * n;  // at a time: a matrix by a vector is fast
  for (int64_t j = 0; j < 2 * n; j += columns)
    gemm<R>(m, columns, 2 * k, left, 2 * ars, 1, between.get() + j, 2 * n, 1, to + j, 2 * crs,
            {R(1), beta.real(), added ? added + j : nullptr}, threads);
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
    case DType::UInt64: case DType::Int64: return integers.operator()<uint64_t>();
    default: runtime_error("matmul: not offered for dtype ", dtype_name(dtype));
  }
}

}  // namespace flambeau
