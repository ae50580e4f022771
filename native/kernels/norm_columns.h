// Statistics of images whose channels lie last: a channel is a column of rows of channels.
#pragma once
#include "../core/channels_last.h"
#include "column_loops.h"
#include "norm.h"

namespace flambeau::norm {

inline void declare_like(Call& c, const Tensor& x) {
  if (has_channels_last(x)) c.output(x.shape(), x.dtype, x.device, channels_last_strides(x.shape()));
  else c.output_like(x);
}

constexpr int64_t kTogether = 64;  // rows whose sums are of type T, so that the error grows with rows / 64

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
// Rows of a tensor whose channels lie last.
inline char* row_at(const Tensor& t, int64_t row, int64_t channels) {
  return t.data + row * channels * t.itemsize();
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
// The means of one block of rows, which a cache holds, and then the squares of the distances from them.
template <class T>
struct BlockMoments {
  std::vector<double> mean, square;
  std::vector<T> center;
  explicit BlockMoments(int64_t channels)
      : mean(static_cast<size_t>(channels)), square(mean.size()), center(mean.size()) {}
  void look_at(const ColumnLoops<T>& loops, const char* x, int64_t rows) {
    const int64_t channels = int64_t(mean.size());
    std::ranges::fill(mean, 0.0), std::ranges::fill(square, 0.0);
    loops.sums(x, rows, channels, mean.data());
    for (size_t k = 0; k < mean.size(); ++k) mean[k] /= double(rows), center[k] = T(mean[k]);
    loops.squares(x, center.data(), rows, channels, square.data());
  }
};
// Mean and variance of the columns of so many rows from `first` on.
template <class T>
void column_moments(const Tensor& x, int64_t first, int64_t rows, int64_t channels, std::vector<double>& mean,
                    std::vector<double>& var) {
  const auto& loops = column_loops<T>(x.dtype);
  const int64_t pieces = pieces_of(rows, channels);
  std::vector<ColumnMoments> found(static_cast<size_t>(pieces), ColumnMoments(channels));
  each_piece(rows, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    BlockMoments<T> block(channels);
    for (; r < last; r += kTogether) {
      const int64_t count = std::min(kTogether, last - r);
      block.look_at(loops, row_at(x, first + r, channels), count);
      found[size_t(piece)].add(double(count), block.mean.data(), block.square.data());
    }
  });
  for (size_t k = 1; k < found.size(); ++k) found[0].add(found[k].rows, found[k].mean.data(), found[k].square.data());
  mean = std::move(found[0].mean), var = std::move(found[0].square);
  for (double& v : var) v /= double(rows);
}

// level += the sums down the columns of g, along += those of g (x - mean).
template <class T>
void gradient_sums(const Tensor& g, const Tensor& x, int64_t rows, int64_t channels, const T* mean, double* level,
                   double* along) {
  const auto& loops = column_loops<T>(x.dtype);
  const int64_t pieces = pieces_of(rows, channels);
  std::vector<double> total(size_t(2 * channels * pieces), 0.0);
  each_piece(rows, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    double* to = total.data() + 2 * channels * piece;
    for (; r < last; r += kTogether)
      loops.products(row_at(g, r, channels), row_at(x, r, channels), mean, std::min(kTogether, last - r), channels, to,
                     to + channels);
  });
  for (const double* from = total.data(); from < total.data() + total.size(); from += 2 * channels)
    for (int64_t k = 0; k < channels; ++k) level[k] += from[k], along[k] += from[channels + k];
}
// f(first row, count) in parallel.
template <class F>
void each_rows(int64_t rows, int64_t channels, F&& f) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / channels),
               [&](int64_t row, int64_t end) { f(row, end - row); });
}
// What the gradient of a norm's input is made of: g p + (x - mean) q + o, by channel.
template <class T>
struct Mixture {
  std::vector<T> mean, p, q, o;
  explicit Mixture(std::vector<T> mean) : mean(std::move(mean)), p(this->mean.size()), q(p.size()), o(p.size()) {}
};
template <class T>
void mix_rows(const Tensor& g, const Tensor& x, Tensor& out, int64_t first, int64_t rows, const Mixture<T>& m) {
  const int64_t channels = int64_t(m.mean.size());
  each_rows(rows, channels, [&](int64_t row, int64_t count) {
    auto at = [&](const Tensor& t) { return row_at(t, first + row, channels); };
    column_loops<T>(x.dtype).mix(at(g), at(x), m.mean.data(), m.p.data(), m.q.data(), m.o.data(), count, channels,
                                 at(out));
  });
}
}  // namespace flambeau::norm
