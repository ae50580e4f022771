// group_norm of images whose channels lie last: a sample is rows of channels, and a group some of their columns.
#include "norm_group.h"

namespace flambeau::norm {
namespace {

// Mean and 1/deviation of each channel's group in one sample.
template <class T>
struct SampleStatistics {
  std::vector<double> mean, rstd;
  std::vector<T> center, scale;  // mean and rstd as numbers of the compute type

  SampleStatistics(const RowReader<T>& xs, const Groups& s, int64_t sample, double eps) {
    column_moments(xs, sample * s.spatial, s.spatial, s.channels, mean, rstd);
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

template <class T>
void normalize_sample(const RowReader<T>& in, const RowWriter<T>& out, const Groups& s, int64_t sample, const T* mean,
                      const T* scale, const T* shift) {
  const int64_t c = s.channels;
  parallel_for(s.spatial, std::max<int64_t>(1, kGrain / c), [&](int64_t row, int64_t end) {
    std::vector<T> a(in.direct ? 0 : size_t(c)), b(out.direct ? 0 : size_t(c));
    for (; row < end; ++row) {
      const int64_t at = (sample * s.spatial + row) * c;
      const T* x = in.at(at, c, a.data());
      T* y = out.at(at, b.data());
      each<T>(c, [&](int64_t i, int k) {
        give<T>(y + i, (take(x + i, k) - take(mean + i, k)) * take(scale + i, k) + take(shift + i, k), k);
      });
      out.done(at, c, y);
    }
  });
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
      SampleStatistics<T> stats(in, s, sample, eps);
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
        const SampleStatistics<T> stats(xs, s, sample, eps);
        const int64_t first = sample * s.spatial, c = s.channels;
        std::vector<double> sums = gradient_sums(gs, xs, first, s.spatial, c, stats.center.data());
        for (int64_t k = 0; k < c; ++k) sums[size_t(c + k)] *= stats.rstd[size_t(k)];
        mix_rows(gs, xs, out, first, s.spatial, mixture_of(s, stats, weight, sums.data(), sums.data() + c));
        std::copy_n(sums.data(), c, level.data() + sample * c);
        std::copy_n(sums.data() + c, c, along.data() + sample * c);
      }
    });
  }
  sum_over_batch(s, along, c.out(1)), sum_over_batch(s, level, c.out(2));
}
template void group_norm_backward_last<float>(Call&, const Groups&, double);
template void group_norm_backward_last<double>(Call&, const Groups&, double);

}  // namespace flambeau::norm
