// group_norm of images whose channels lie last: a sample is rows of channels, and a group some of their columns.
#include "norm_group.h"

namespace flambeau::norm {
namespace {

// Mean and 1/deviation of each channel's group in one sample, from the means and variances of its channels.
template <class T>
struct SampleStatistics {
  std::vector<double> mean, rstd;
  std::vector<T> center, scale;  // mean and rstd as numbers of the compute type

  SampleStatistics(const Groups& s, double eps, std::vector<double> means, std::vector<double> variances)
      : mean(std::move(means)), rstd(std::move(variances)) {
    for (int64_t first = 0; first < s.channels; first += s.per) {
      double average = 0, square = 0;
      for (int64_t k = first; k < first + s.per; ++k) average += mean[size_t(k)];
      average /= double(s.per);
      for (int64_t k = first; k < first + s.per; ++k) {
        const double apart = mean[size_t(k)] - average;
        square += rstd[size_t(k)] + apart * apart;
      }
      std::fill_n(mean.begin() + first, s.per, average);
      std::fill_n(rstd.begin() + first, s.per, 1 / std::sqrt(square / double(s.per) + eps));
    }
    center.assign(mean.begin(), mean.end());
    scale.assign(rstd.begin(), rstd.end());
  }
};

// What is read of each channel stays in registers for a block of rows: make(column, lanes) reads it and returns what is
// done at each place of the block.
template <class T, class Make>
void down_columns(int64_t rows, int64_t channels, Make&& make) {
  constexpr int L = kLanes<T>;
  int64_t i = 0;
  for (; i + L <= channels; i += L) {
    const auto done = make(i, std::integral_constant<int, L>());
    for (int64_t r = 0; r < rows; ++r) done(r * channels + i);
  }
  if (i < channels) {
    const auto done = make(i, int(channels - i));
    for (int64_t r = 0; r < rows; ++r) done(r * channels + i);
  }
}
// f(first row, count) in parallel, for blocks of rows of which three stay in the first-level cache.
template <class F>
void each_block_of_rows(int64_t rows, int64_t channels, F&& f) {
  const int64_t block = std::clamp<int64_t>(2048 / channels, 1, kTogether);
  const int64_t blocks = (rows + block - 1) / block, grain = std::max<int64_t>(1, kGrain / (channels * block));
  parallel_for(blocks, grain,
               [&](int64_t b, int64_t end) { f(b * block, std::min(rows, end * block), block); });
}
template <class T>
void normalize_sample(const RowReader<T>& in, const RowWriter<T>& out, const Groups& s, int64_t sample, const T* mean,
                      const T* scale, const T* shift) {
  const int64_t c = s.channels;
  each_block_of_rows(s.spatial, c, [&](int64_t row, int64_t end, int64_t block) {
    std::vector<T> a, b(out.direct ? 0 : size_t(block * c));
    for (; row < end; row += block) {
      const int64_t count = std::min(block, end - row), first = sample * s.spatial + row;
      const T* x = read_block(in, first, count, c, a);
      T* y = out.at(first * c, b.data());
      down_columns<T>(count, c, [=](int64_t i, auto lanes) {
        const int k = lanes;
        const Vector<T> vm = take(mean + i, k), vp = take(scale + i, k), vo = take(shift + i, k);
        return [=](int64_t j) { give<T>(y + j, (take(x + j, lanes) - vm) * vp + vo, lanes); };
      });
      out.done(first * c, count * c, y);
    }
  });
}

// One reading of a sample and its gradient: the channels' means and variances, and the sums of g and of g times the
// distance of x from `center`, which is known only at the end.
struct SampleSums {
  ColumnMoments moments;
  std::vector<double> level, products, shifts;  // sums of g, of g (x - a block's mean), and of that mean times g

  explicit SampleSums(int64_t c) : moments(c), level(size_t(c), 0.0), products(level), shifts(level) {}
  void add(const SampleSums& more) {
    moments.add(more.moments.rows, more.moments.mean.data(), more.moments.square.data());
    for (size_t k = 0; k < level.size(); ++k)
      level[k] += more.level[k], products[k] += more.products[k], shifts[k] += more.shifts[k];
  }
  double along(size_t k, double center) const { return products[k] + (shifts[k] - center * level[k]); }
};
template <class T>
SampleSums read_sample(const RowReader<T>& gs, const RowReader<T>& xs, const Groups& s, int64_t sample) {
  const int64_t c = s.channels, pieces = pieces_of(s.spatial, c);
  std::vector<SampleSums> found(static_cast<size_t>(pieces), SampleSums(c));
  each_piece(s.spatial, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    SampleSums& sums = found[size_t(piece)];
    std::vector<T> a, b, center;
    std::vector<double> memory;
    for (; r < last; r += kTogether) {
      const int64_t count = std::min(kTogether, last - r), row = sample * s.spatial + r;
      const T *g = read_block(gs, row, count, c, a), *x = read_block(xs, row, count, c, b);
      auto terms = [g, x](const T* m) {
        return [g, x, m](int64_t at, int64_t column, int k) {
          const Vector<T> d = take(x + at, k) - take(m + column, k), v = take(g + at, k);
          return std::array{d * d, v, v * d};
        };
      };
      add_block_moments<T, 3>(sums.moments, x, g, count, c, memory, center, terms, [&](const T* m, const auto& totals) {
        for (size_t k = 0; k < size_t(c); ++k) {
          sums.level[k] += totals[1][k], sums.products[k] += totals[2][k];
          sums.shifts[k] += double(m[k]) * totals[1][k];
        }
      });
    }
  });
  for (size_t k = 1; k < found.size(); ++k) found[0].add(found[k]);
  return std::move(found[0]);
}

template <class T>
Mixture<T> mixture_of(const Groups& s, const SampleStatistics<T>& stats, const std::vector<T>& weight,
                      const double* level, const double* along) {
  Mixture<T> mixture(stats.center);
  for (int64_t first = 0; first < s.channels; first += s.per) {
    double group_level = 0, group_along = 0;
    for (int64_t k = first; k < first + s.per; ++k) {
      group_level += double(weight[size_t(k)]) * level[k];
      group_along += double(weight[size_t(k)]) * along[k];
    }
    for (size_t k = size_t(first); k < size_t(first + s.per); ++k) {
      const double rstd = stats.rstd[k];
      mixture.p[k] = T(rstd * double(weight[k]));
      mixture.q[k] = T(-rstd * rstd * group_along / double(s.row));
      mixture.o[k] = T(-rstd * group_level / double(s.row));
    }
  }
  return mixture;
}

}  // namespace

template <class T>
void group_norm_last(Call& c, const Groups& s, double eps) {
  const Tensor& x = c.tensor(0);
  const std::vector<T> weight = parameter<T>(c.optional_tensor(2), s.channels, T(1)),
                       bias = parameter<T>(c.optional_tensor(3), s.channels, T(0));
  const RowReader<T> in(x);
  const RowWriter<T> out(c.out());
  LockRelease lock(x.numel * 2);
  parallel_for(s.batch, std::max<int64_t>(1, kGrain / (s.spatial * s.channels)), [&](int64_t sample, int64_t end) {
    for (; sample < end; ++sample) {
      std::vector<double> mean, var;
      column_moments(in, sample * s.spatial, s.spatial, s.channels, mean, var);
      SampleStatistics<T> stats(s, eps, std::move(mean), std::move(var));
      for (size_t k = 0; k < weight.size(); ++k) stats.scale[k] = weight[k] * stats.scale[k];
      normalize_sample(in, out, s, sample, stats.center.data(), stats.scale.data(), bias.data());
    }
  });
}
template void group_norm_last<float>(Call&, const Groups&, double);
template void group_norm_last<double>(Call&, const Groups&, double);

template <class T>
void group_norm_backward_last(Call& c, const Groups& s, double eps) {
  const Tensor &x = c.tensor(1), &g = c.tensor(0);
  const TensorRef grad = with_channels_last(loader_of<T>(g.dtype) ? g : *to_dtype(g, x.dtype));
  const std::vector<T> weight = parameter<T>(c.optional_tensor(3), s.channels, T(1));
  const RowReader<T> gs(*grad), xs(x);
  const RowWriter<T> out(c.out(0));
  std::vector<double> level(size_t(s.batch * s.channels)), along(level.size());  // by sample and channel
  {
    LockRelease lock(x.numel * 2);
    parallel_for(s.batch, std::max<int64_t>(1, kGrain / (s.spatial * s.channels)), [&](int64_t sample, int64_t end) {
      for (; sample < end; ++sample) {
        SampleSums sums = read_sample(gs, xs, s, sample);
        for (double& v : sums.moments.square) v /= double(s.spatial);
        const SampleStatistics<T> stats(s, eps, sums.moments.mean, std::move(sums.moments.square));
        double *to_level = level.data() + sample * s.channels, *to_along = along.data() + sample * s.channels;
        for (size_t k = 0; k < size_t(s.channels); ++k) {
          to_level[k] = sums.level[k];
          to_along[k] = sums.along(k, stats.mean[k]) * stats.rstd[k];
        }
        mix_rows(gs, xs, out, sample * s.spatial, s.spatial, mixture_of(s, stats, weight, to_level, to_along));
      }
    });
  }
  sum_over_batch(s, along, c.out(1)), sum_over_batch(s, level, c.out(2));
}
template void group_norm_backward_last<float>(Call&, const Groups&, double);
template void group_norm_backward_last<double>(Call&, const Groups&, double);

}  // namespace flambeau::norm
