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
SampleSums read_sample(const Tensor& g, const Tensor& x, const Groups& s, int64_t sample) {
  const auto& loops = column_loops<T>(x.dtype);
  const int64_t c = s.channels, pieces = pieces_of(s.spatial, c);
  std::vector<SampleSums> found(static_cast<size_t>(pieces), SampleSums(c));
  each_piece(s.spatial, pieces, [&](int64_t piece, int64_t r, int64_t last) {
    SampleSums& sums = found[size_t(piece)];
    BlockMoments<T> block(c);
    std::vector<double> level(static_cast<size_t>(c));
    for (; r < last; r += kTogether) {
      const int64_t count = std::min(kTogether, last - r), row = sample * s.spatial + r;
      const char* from = row_at(x, row, c);
      block.look_at(loops, from, count);
      sums.moments.add(double(count), block.mean.data(), block.square.data());
      std::ranges::fill(level, 0.0);
      loops.products(row_at(g, row, c), from, block.center.data(), count, c, level.data(), sums.products.data());
      for (size_t k = 0; k < size_t(c); ++k)
        sums.level[k] += level[k], sums.shifts[k] += double(block.center[k]) * level[k];
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
  Tensor& out = c.out();
  LockRelease lock(x.numel * 2);
  parallel_for(s.batch, std::max<int64_t>(1, kGrain / (s.spatial * s.channels)), [&](int64_t sample, int64_t end) {
    for (; sample < end; ++sample) {
      std::vector<double> mean, var;
      column_moments<T>(x, sample * s.spatial, s.spatial, s.channels, mean, var);
      SampleStatistics<T> stats(s, eps, std::move(mean), std::move(var));
      for (size_t k = 0; k < weight.size(); ++k) stats.scale[k] = weight[k] * stats.scale[k];
      each_rows(s.spatial, s.channels, [&](int64_t row, int64_t count) {
        const int64_t first = sample * s.spatial + row;
        column_loops<T>(x.dtype).scale(row_at(x, first, s.channels), stats.center.data(), stats.scale.data(),
                                       bias.data(), count, s.channels,
                                       row_at(out, first, s.channels));
      });
    }
  });
}
template void group_norm_last<float>(Call&, const Groups&, double);
template void group_norm_last<double>(Call&, const Groups&, double);

template <class T>
void group_norm_backward_last(Call& c, const Groups& s, double eps) {
  const Tensor &x = c.tensor(1), &g = c.tensor(0);
  const TensorRef grad = with_channels_last(*to_dtype(g, x.dtype));
  const std::vector<T> weight = parameter<T>(c.optional_tensor(3), s.channels, T(1));
  std::vector<double> level(size_t(s.batch * s.channels)), along(level.size());  // by sample and channel
  {
    LockRelease lock(x.numel * 2);
    parallel_for(s.batch, std::max<int64_t>(1, kGrain / (s.spatial * s.channels)), [&](int64_t sample, int64_t end) {
      for (; sample < end; ++sample) {
        SampleSums sums = read_sample<T>(*grad, x, s, sample);
        for (double& v : sums.moments.square) v /= double(s.spatial);
        const SampleStatistics<T> stats(s, eps, sums.moments.mean, std::move(sums.moments.square));
        double *to_level = level.data() + sample * s.channels, *to_along = along.data() + sample * s.channels;
        for (size_t k = 0; k < size_t(s.channels); ++k) {
          to_level[k] = sums.level[k];
          to_along[k] = sums.along(k, stats.mean[k]) * stats.rstd[k];
        }
        mix_rows(*grad, x, c.out(0), sample * s.spatial, s.spatial, mixture_of(s, stats, weight, to_level, to_along));
      }
    });
  }
  sum_over_batch(s, along, c.out(1)), sum_over_batch(s, level, c.out(2));
}
template void group_norm_backward_last<float>(Call&, const Groups&, double);
template void group_norm_backward_last<double>(Call&, const Groups&, double);

}  // namespace flambeau::norm
