// Statistics of images whose channels lie last: a channel is a column of rows of channels.
#pragma once
#include <array>

#include "../core/channels_last.h"
#include "norm.h"

namespace flambeau::norm {

inline void declare_like(Call& c, const Tensor& x) {
  if (has_channels_last(x)) c.output(x.shape(), x.dtype, x.device, channels_last_strides(x.shape()));
  else c.output_like(x);
}

constexpr int64_t kTogether = 64;  // rows whose sums are of type T, so that the error grows with rows / 64

// U vectors of columns of a block of rows, whose sums stay in registers: term(place in the block, lanes).
template <class T, int U, size_t Many, class Term>
void add_columns(std::array<double*, Many> to, int64_t rows, int64_t channels, int64_t column, int lanes,
                 const Term& term) {
  constexpr int L = kLanes<T>;
  Vector<T> sums[Many][U] = {};
  for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) {
      const std::array<Vector<T>, Many> terms = term(r * channels + column + u * L, column + u * L, lanes);
      for (size_t k = 0; k < Many; ++k) sums[k][u] += terms[k];
    }
  for (size_t k = 0; k < Many; ++k)
    for (int i = 0; i < (U - 1) * L + lanes; ++i) to[k][column + i] += double(sums[k][i / L][i % L]);
}
// The same of up to kWide columns, four rows at a time from left to right: long rows are read as they lie. Sums of
// type T stay in the first cache.
constexpr int64_t kWide = 1024, kLongRow = 256;
template <class T, size_t Many, class Term>
void add_long_rows(std::array<double*, Many> to, int64_t rows, int64_t channels, int64_t first, int64_t width,
                   const Term& term) {
  constexpr int L = kLanes<T>;
  alignas(64) T sums[Many][kWide] = {};
  for (int64_t r = 0; r < rows; r += 4) {
    const int64_t some = std::min<int64_t>(4, rows - r);
    for (int64_t i = 0; i < width; i += L) {
      const int lanes = int(std::min<int64_t>(L, width - i));
      Vector<T> v[Many];
      for (size_t k = 0; k < Many; ++k) v[k] = load_vector(sums[k] + i);
      for (int64_t q = 0; q < some; ++q) {
        const std::array<Vector<T>, Many> terms = term((r + q) * channels + first + i, first + i, lanes);
        for (size_t k = 0; k < Many; ++k) v[k] += terms[k];
      }
      for (size_t k = 0; k < Many; ++k) store_vector(sums[k] + i, v[k]);
    }
  }
  for (size_t k = 0; k < Many; ++k)
    for (int64_t i = 0; i < width; ++i) to[k][first + i] += double(sums[k][i]);
}
// Sums down the columns of [rows, channels], `Many` per column. block(row, count, memory, memory) reads so many rows
// and returns term(place in the block, column, lanes): what stands there adds to the sums.
template <class T, size_t Many, class Block>
std::vector<double> column_totals(int64_t rows, int64_t channels, Block&& block) {
  constexpr int L = kLanes<T>;
  const int64_t width = int64_t(Many) * channels;
  const int64_t pieces =
      std::clamp<int64_t>(rows * channels / kGrain, 1, std::min<int64_t>(16, std::max<int64_t>(1, rows)));
  std::vector<double> total(size_t(width * pieces), 0.0);
  parallel_for(pieces, 1, [&](int64_t piece, int64_t end) {
    std::vector<T> a, b;
    for (; piece < end; ++piece) {
      std::array<double*, Many> to;
      for (size_t k = 0; k < Many; ++k) to[k] = total.data() + width * piece + int64_t(k) * channels;
      const int64_t last = rows * (piece + 1) / pieces;
      for (int64_t r = rows * piece / pieces; r < last; r += kTogether) {
        const int64_t count = std::min(kTogether, last - r);
        const auto term = block(r, count, a, b);
        int64_t i = channels < kLongRow ? 0 : channels;
        for (int64_t j = 0; j < i; j += kWide)
          add_long_rows<T, Many>(to, count, channels, j, std::min(kWide, channels - j), term);
        for (; i + 4 * L <= channels; i += 4 * L) add_columns<T, 4, Many>(to, count, channels, i, L, term);
        for (; i < channels; i += L)
          add_columns<T, 1, Many>(to, count, channels, i, int(std::min<int64_t>(L, channels - i)), term);
      }
    }
  });
  for (int64_t i = width; i < width * pieces; ++i) total[size_t(i % width)] += total[size_t(i)];
  total.resize(size_t(width));  // callers count channels by it
  return total;
}
// Rows of a block: where they lie, or in `memory`.
template <class T>
const T* read_block(const RowReader<T>& xs, int64_t row, int64_t rows, int64_t channels, std::vector<T>& memory) {
  if (!xs.direct) memory.resize(size_t(rows * channels));
  return xs.at(row * channels, rows * channels, memory.data());
}
// Mean and variance of the columns of so many rows from `first` on: two passes, since both fit in cache where it
// matters.
template <class T>
void column_moments(const RowReader<T>& xs, int64_t first, int64_t rows, int64_t channels, std::vector<double>& mean,
                    std::vector<double>& var) {
  using Memory = std::vector<T>;
  mean = column_totals<T, 1>(rows, channels, [&](int64_t r, int64_t count, Memory& a, Memory&) {
    const T* x = read_block(xs, first + r, count, channels, a);
    return [x](int64_t at, int64_t, int k) { return std::array{take(x + at, k)}; };
  });
  for (double& v : mean) v /= double(rows);
  const std::vector<T> center(mean.begin(), mean.end());
  var = column_totals<T, 1>(rows, channels, [&](int64_t r, int64_t count, Memory& a, Memory&) {
    const T *x = read_block(xs, first + r, count, channels, a), *m = center.data();
    return [x, m](int64_t at, int64_t column, int k) {
      const Vector<T> d = take(x + at, k) - take(m + column, k);
      return std::array{d * d};
    };
  });
  for (double& v : var) v /= double(rows);
}

// The sums down the columns of so many rows from `first` on of g and of g (x - mean): [2, channels].
template <class T>
std::vector<double> gradient_sums(const RowReader<T>& gs, const RowReader<T>& xs, int64_t first, int64_t rows,
                                  int64_t channels, const T* mean) {
  using Memory = std::vector<T>;
  return column_totals<T, 2>(rows, channels, [&, mean](int64_t r, int64_t count, Memory& a, Memory& b) {
    const T *g = read_block(gs, first + r, count, channels, a), *x = read_block(xs, first + r, count, channels, b);
    return [g, x, mean](int64_t at, int64_t column, int k) {
      const Vector<T> v = take(g + at, k);
      return std::array{v, v * (take(x + at, k) - take(mean + column, k))};
    };
  });
}
// What the gradient of a norm's input is made of: g p + (x - mean) q + o, by channel.
template <class T>
struct Mixture {
  std::vector<T> mean, p, q, o;
  explicit Mixture(std::vector<T> mean) : mean(std::move(mean)), p(this->mean.size()), q(p.size()), o(p.size()) {}
};
template <class T>
void mix_rows(const RowReader<T>& gs, const RowReader<T>& xs, const RowWriter<T>& out, int64_t first, int64_t rows,
              const Mixture<T>& mixture) {
  const int64_t c = int64_t(mixture.mean.size());
  const T *mean = mixture.mean.data(), *p = mixture.p.data(), *q = mixture.q.data(), *o = mixture.o.data();
  parallel_for(rows, std::max<int64_t>(1, kGrain / c), [&](int64_t row, int64_t end) {
    std::vector<T> a(gs.direct ? 0 : size_t(c)), b(xs.direct ? 0 : size_t(c)), d(out.direct ? 0 : size_t(c));
    for (; row < end; ++row) {
      const int64_t at = (first + row) * c;
      const T *g = gs.at(at, c, a.data()), *x = xs.at(at, c, b.data());
      T* to = out.at(at, d.data());
      each<T>(c, [&](int64_t i, int k) {
        const Vector<T> centred = take(x + i, k) - take(mean + i, k);
        give<T>(to + i, take(g + i, k) * take(p + i, k) + centred * take(q + i, k) + take(o + i, k), k);
      });
      out.done(at, c, to);
    }
  });
}
}  // namespace flambeau::norm
