// Statistics of images whose channels lie last: a channel is a column of rows of channels.
#pragma once
#include "../core/channels_last.h"
#include "norm.h"

namespace flambeau::norm {

inline void declare_like(Call& c, const Tensor& x) {
  if (has_channels_last(x)) c.output(x.shape(), x.dtype, x.device, channels_last_strides(x.shape()));
  else c.output_like(x);
}

// Sums down the columns of [rows, channels], `many` per column: add(row, sums, memory, memory) adds one row to them.
template <class T, class Add>
std::vector<double> column_totals(int64_t rows, int64_t channels, int64_t many, Add&& add) {
  const int64_t width = many * channels;
  const int64_t pieces =
      std::clamp<int64_t>(rows * channels / kGrain, 1, std::min<int64_t>(16, std::max<int64_t>(1, rows)));
  std::vector<double> total(size_t(width * pieces), 0.0);
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> part(size_t(width), T(0)), a(static_cast<size_t>(channels)), b(a.size());
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = rows * piece / pieces, last = rows * (piece + 1) / pieces;
      for (int64_t r = first; r < last; ++r) {
        add(r, part.data(), a.data(), b.data());
        if ((r - first) % 64 == 63 || r + 1 == last)  // blocks, so that the error grows with rows / 64
          for (int64_t i = 0; i < width; ++i) {
            total[size_t(width * piece + i)] += double(part[size_t(i)]);
            part[size_t(i)] = 0;
          }
      }
    }
  });
  for (int64_t i = width; i < width * pieces; ++i) total[size_t(i % width)] += total[size_t(i)];
  return total;
}
// Mean and variance of the columns of so many rows from `first` on: two passes, since both fit in cache where it
// matters.
template <class T>
void column_moments(const RowReader<T>& xs, int64_t first, int64_t rows, int64_t channels, std::vector<double>& mean,
                    std::vector<double>& var) {
  const int64_t c = channels;
  mean = column_totals<T>(rows, c, 1, [&](int64_t r, T* sums, T* a, T*) {
    const T* x = xs.at((first + r) * c, c, a);
    each<T>(c, [&](int64_t i, int k) { give<T>(sums + i, take(sums + i, k) + take(x + i, k), k); });
  });
  for (double& v : mean) v /= double(rows);
  std::vector<T> center(mean.begin(), mean.end());
  var = column_totals<T>(rows, c, 1, [&](int64_t r, T* sums, T* a, T*) {
    const T *x = xs.at((first + r) * c, c, a), *m = center.data();
    each<T>(c, [&](int64_t i, int k) {
      Vector<T> d = take(x + i, k) - take(m + i, k);
      give<T>(sums + i, take(sums + i, k) + d * d, k);
    });
  });
  for (double& v : var) v /= double(rows);
}

// The sums down the columns of so many rows from `first` on of g and of g (x - mean): [2, channels].
template <class T>
std::vector<double> gradient_sums(const RowReader<T>& gs, const RowReader<T>& xs, int64_t first, int64_t rows,
                                  int64_t channels, const T* mean) {
  const int64_t c = channels;
  return column_totals<T>(rows, c, 2, [&](int64_t r, T* sums, T* a, T* b) {
    const T *g = gs.at((first + r) * c, c, a), *x = xs.at((first + r) * c, c, b);
    each<T>(c, [&](int64_t i, int k) {
      Vector<T> v = take(g + i, k);
      give<T>(sums + i, take(sums + i, k) + v, k);
      give<T>(sums + c + i, take(sums + c + i, k) + v * (take(x + i, k) - take(mean + i, k)), k);
    });
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
