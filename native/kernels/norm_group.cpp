// group_norm, forward and fused backward: each group of channels of a sample by its own mean and deviation. The
// backward kernel computes them again from the input, which is in cache anyway, so nothing has to be saved.
#include "norm_group.h"

namespace flambeau::norm {
namespace {

void check_groups(const Call& c, const Tensor& x, int64_t groups) {
  check_floating(c, x);
  if (x.ndim < 2) runtime_error(c.name(), ": input must have at least 2 dimensions (batch, channels), got ",
                                int(x.ndim));
  if (groups <= 0) runtime_error(c.name(), ": num_groups must be positive, got ", groups);
  if (x.size(1) % groups)
    runtime_error(c.name(), ": ", x.size(1), " channels (input ", shape_text(x.shape()), ") cannot be divided into "
                  "num_groups=", groups);
}
void infer_group_norm(Call& c) {
  Tensor& x = c.tensor(0);
  check_groups(c, x, c.integer(1));
  const int64_t channels[] = {x.size(1)};
  check_parameter(c, 2, "weight", channels);
  check_parameter(c, 3, "bias", channels);
  declare_like(c, x);
}
void cpu_group_norm(Call& c) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return;
  const Groups s(given, c.integer(1));
  const double eps = c.real(4);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    if (has_channels_last(given)) return group_norm_last<T>(c, s, eps);
    TensorRef x = contiguous(given);
    std::vector<T> weight = parameter<T>(c.optional_tensor(2), s.channels, T(1)),
                   bias = parameter<T>(c.optional_tensor(3), s.channels, T(0));
    Tensor &result = c.out();
    RowReader<T> in(*x);
    RowWriter<T> out(result);
    {
      LockRelease lock(given.numel * 2);
      parallel_for(s.batch * s.groups, std::max<int64_t>(1, kGrain / 2 / s.row), [&](int64_t begin, int64_t end) {
        std::vector<T> a(in.direct ? 0 : size_t(s.row)), b(out.direct ? 0 : size_t(s.row));
        for (int64_t r = begin; r < end; ++r) {
          const T* p = in.at(r * s.row, s.row, a.data());
          T* y = out.at(r * s.row, b.data());
          Statistics stats = statistics<T, true>(p, s.row, eps);
          for (int64_t j = 0; j < s.per; ++j) {
            const size_t channel = size_t(r % s.groups * s.per + j);
            const T scale = weight[channel] * T(stats.rstd), mean = T(stats.mean), shift = bias[channel];
            const T* q = p + j * s.spatial;
            T* to = y + j * s.spatial;
            each<T>(s.spatial, [&](int64_t i, int k) { give<T>(to + i, (take(q + i, k) - mean) * scale + shift, k); });
          }
          out.done(r * s.row, s.row, y);
        }
      });
    }
  });
}

// _group_norm_backward(grad, input, num_groups, weight, eps) -> (input's, weight's, bias's gradient)
void infer_group_norm_backward(Call& c) {
  Tensor& x = c.tensor(1);
  check_groups(c, x, c.integer(2));
  check_same_shape(c, c.tensor(0), x);
  const int64_t channels[] = {x.size(1)};
  check_parameter(c, 3, "weight", channels);
  declare_like(c, x);
  DType t = c.optional_tensor(3) ? c.tensor(3).dtype : x.dtype;
  c.output(channels, t, x.device);
  c.output(channels, t, x.device);
}
// long because: three gradients from one reading of each group
void cpu_group_norm_backward(Call& c) {
  Tensor& given = c.tensor(1);
  if (!given.numel) {
    fill(c.out(1), Scalar(0));
    fill(c.out(2), Scalar(0));
    return;
  }
  const Groups s(given, c.integer(2));
  const double eps = c.real(4);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    if (has_channels_last(given)) return group_norm_backward_last<T>(c, s, eps);
    TensorRef input = contiguous(given), grad = rows_of<T>(c.tensor(0), given.dtype);
    std::vector<T> weight = parameter<T>(c.optional_tensor(3), s.channels, T(1));
    Tensor &dx = c.out(0), &dw = c.out(1), &db = c.out(2);
    RowReader<T> gs(*grad), xs(*input);
    RowWriter<T> out(dx);
    std::vector<double> along(size_t(s.batch * s.channels)),
        level(size_t(s.batch * s.channels));  // sums of g xhat and of g
    {
      LockRelease lock(given.numel * 2);
      parallel_for(s.batch * s.groups, std::max<int64_t>(1, kGrain / 2 / s.row), [&](int64_t begin, int64_t end) {
        std::vector<T> a(gs.direct ? 0 : size_t(s.row)), b(xs.direct ? 0 : size_t(s.row)),
            d(out.direct ? 0 : size_t(s.row));
        for (int64_t r = begin; r < end; ++r) {
          const T *g = gs.at(r * s.row, s.row, a.data()), *x = xs.at(r * s.row, s.row, b.data());
          T* to = out.at(r * s.row, d.data());
          Statistics stats = statistics<T, true>(x, s.row, eps);
          const T mean = T(stats.mean), rstd = T(stats.rstd);
          double row_along = 0, row_level = 0;
          for (int64_t j = 0; j < s.per; ++j) {
            const T *gj = g + j * s.spatial, *xj = x + j * s.spatial;
            const size_t at = size_t(r * s.per + j);
            level[at] = row_sum(gj, s.spatial);
            along[at] = stats.rstd * sum_over<T>(s.spatial, [&](int64_t i, int k) {
                          return take(gj + i, k) * (take(xj + i, k) - mean);
                        });
            const double w = double(weight[size_t(r % s.groups * s.per + j)]);
            row_along += w * along[at];
            row_level += w * level[at];
          }
          const T u = T(row_along / double(s.row)), v = T(row_level / double(s.row));
          for (int64_t j = 0; j < s.per; ++j) {
            const T *gj = g + j * s.spatial, *xj = x + j * s.spatial, w = weight[size_t(r % s.groups * s.per + j)];
            T* tj = to + j * s.spatial;
            each<T>(s.spatial, [&](int64_t i, int k) {
              give<T>(tj + i, rstd * (take(gj + i, k) * w - v - (take(xj + i, k) - mean) * rstd * u), k);
            });
          }
          out.done(r * s.row, s.row, to);
        }
      });
    }
    sum_over_batch(s, along, dw), sum_over_batch(s, level, db);
  });
}

const Primitives rows{
    {"group_norm", infer_group_norm, cpu_group_norm, Images::Kept},
    {"_group_norm_backward", infer_group_norm_backward, cpu_group_norm_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau::norm
