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
#pragma GCC unroll 8
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
// The sums down all columns of a block of rows; U: vectors of columns side by side, as many as registers have room for.
template <class T, int U, size_t Many, class Term>
void add_block(const std::array<double*, Many>& to, int64_t rows, int64_t channels, const Term& term) {
  constexpr int L = kLanes<T>;
  int64_t i = channels < kLongRow ? 0 : channels;
  for (int64_t j = 0; j < i; j += kWide)
    add_long_rows<T, Many>(to, rows, channels, j, std::min(kWide, channels - j), term);
  for (; i + U * L <= channels; i += U * L) add_columns<T, U, Many>(to, rows, channels, i, L, term);
  for (; i < channels; i += L)
    add_columns<T, 1, Many>(to, rows, channels, i, int(std::min<int64_t>(L, channels - i)), term);
}
// f(piece, first row, last row) of [rows, channels] in parallel, and how many pieces that makes.
inline int64_t pieces_of(int64_t rows, int64_t channels) {
  return std::clamp<int64_t>(rows * channels / kGrain, 1, std::min<int64_t>(16, std::max<int64_t>(1, rows)));
}
template <class F>
void each_piece(int64_t rows, int64_t pieces, F&& f) {
  parallel_for(pieces, 1, [&](int64_t piece, int64_t end) {
    for (; piece < end; ++piece) f(piece, rows * piece / pieces, rows * (piece + 1) / pieces);
  });
}
// Sums down the columns of [rows, channels], `Many` per column. block(row, count, memory, memory) reads so many rows
// and returns term(place in the block, column, lanes): what stands there adds to the sums.
template <class T, size_t Many, class Block>
std::vector<double> column_totals(int64_t rows, int64_t channels, Block&& block) {
  const int64_t width = int64_t(Many) * channels, pieces = pieces_of(rows, channels);
  std::vector<double> total(size_t(width * pieces), 0.0);
  each_piece(rows, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    std::vector<T> a, b;
    std::array<double*, Many> to;
    for (size_t k = 0; k < Many; ++k) to[k] = total.data() + width * piece + int64_t(k) * channels;
    for (; r < last; r += kTogether) {
      const int64_t count = std::min(kTogether, last - r);
      add_block<T, 4, Many>(to, count, channels, block(r, count, a, b));
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
// Mean and sum of squared distances from it of the columns of rows, of which more and more are seen.
struct ColumnMoments {
  double rows = 0;
  std::vector<double> mean, square;
  explicit ColumnMoments(int64_t channels) : mean(size_t(channels), 0.0), square(size_t(channels), 0.0) {}
  void add(double more, const double* its_mean, const double* its_square) {
    const double all = rows + more, part = more / all, weight = rows * part;
    for (size_t k = 0; k < mean.size(); ++k) {
      const double apart = its_mean[k] - mean[k];
      mean[k] += apart * part;
      square[k] += its_square[k] + apart * apart * weight;
    }
    rows = all;
  }
};
// One block of rows, which the first-level cache holds, is read twice: for its mean, and for the sums of terms that
// are made with it, of which the first is the squared distance. rest(mean, sums) takes the others. `beside`: what else
// the terms read, or x; it is fetched meanwhile.
template <class T, size_t Many, class Terms, class Rest>
void add_block_moments(ColumnMoments& moments, const T* x, const T* beside, int64_t rows, int64_t channels,
                       std::vector<double>& memory, std::vector<T>& center, Terms&& terms, Rest&& rest) {
  memory.assign(size_t(channels) * (Many + 1), 0.0);
  center.resize(size_t(channels));
  double* const mean = memory.data();
  add_block<T, 8, 1>({mean}, rows, channels, [x, beside](int64_t at, int64_t, int k) {
    __builtin_prefetch(beside + at);
    return std::array{take(x + at, k)};
  });
  for (int64_t k = 0; k < channels; ++k) mean[k] /= double(rows), center[size_t(k)] = T(mean[k]);
  std::array<double*, Many> to;
  for (size_t k = 0; k < Many; ++k) to[k] = mean + (k + 1) * size_t(channels);
  add_block<T, Many == 1 ? 4 : 2, Many>(to, rows, channels, terms(center.data()));
  moments.add(double(rows), mean, to[0]);
  rest(center.data(), to);
}
// Mean and variance of the columns of so many rows from `first` on.
template <class T>
void column_moments(const RowReader<T>& xs, int64_t first, int64_t rows, int64_t channels, std::vector<double>& mean,
                    std::vector<double>& var) {
  const int64_t pieces = pieces_of(rows, channels);
  std::vector<ColumnMoments> found(static_cast<size_t>(pieces), ColumnMoments(channels));
  each_piece(rows, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    std::vector<T> a, center;
    std::vector<double> memory;
    for (; r < last; r += kTogether) {
      const int64_t count = std::min(kTogether, last - r);
      const T* x = read_block(xs, first + r, count, channels, a);
      auto terms = [x](const T* m) {
        return [x, m](int64_t at, int64_t column, int k) {
          const Vector<T> d = take(x + at, k) - take(m + column, k);
          return std::array{d * d};
        };
      };
      add_block_moments<T, 1>(found[size_t(piece)], x, x, count, channels, memory, center, terms,
                              [](const T*, const std::array<double*, 1>&) {});
    }
  });
  for (size_t k = 1; k < found.size(); ++k) found[0].add(found[k].rows, found[k].mean.data(), found[k].square.data());
  mean = std::move(found[0].mean), var = std::move(found[0].square);
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
