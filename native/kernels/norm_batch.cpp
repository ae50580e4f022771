// Batch normalisation, forward and fused backward: each channel by the batch's mean and deviation, which are saved,
// since computing them again would cost one more pass over memory, or by the running ones.
#include "../core/stamp.h"
#include "norm_columns.h"

namespace flambeau {

const AllColumnLoops* column_loop_levels[2];

}  // namespace flambeau

namespace flambeau::norm {
namespace {

// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
//   -> (result, saved mean, saved 1/deviation)
// Images whose channels lie last are rows of channels.
struct Batch {
  int64_t batch, channels, spatial;
  bool last;
  explicit Batch(const Tensor& x) : batch(x.size(0)), channels(x.size(1)), spatial(1), last(has_channels_last(x)) {
    for (int d = 2; d < x.ndim; ++d) spatial *= x.size(d);
    if (last) batch *= std::exchange(spatial, 1);
  }
  TensorRef laid_out(const Tensor& t) const { return last ? with_channels_last(t) : contiguous(t); }
  int64_t per_channel() const { return batch * spatial; }
};
DType statistics_dtype(DType t) { return t == DType::Float64 ? DType::Float64 : DType::Float32; }

void check_batch(const Call& c, const Tensor& x) {
  check_floating(c, x);
  if (x.ndim < 2)
    runtime_error("batch_norm: expected an input of at least 2 dimensions, got shape ", shape_text(x.shape()));
}
void infer_batch_norm(Call& c) {
  Tensor& x = c.tensor(0);
  check_batch(c, x);
  const int64_t channels[] = {x.size(1)};
  const char* names[] = {"weight", "bias", "running_mean", "running_var"};
  for (int k = 0; k < 4; ++k) {
    const Tensor* t = c.optional_tensor(k + 1);
    if (t && t->numel != channels[0])
      runtime_error("batch_norm: ", names[k], " should contain ", channels[0], " elements not ", t->numel);
    check_parameter(c, k + 1, names[k], channels);
  }
  if (!c.boolean(5) && !(c.has(3) && c.has(4)))
    runtime_error("batch_norm: expected running_mean and running_var to be given when training=False");
  DType t = statistics_dtype(x.dtype);
  const int64_t saved[] = {c.boolean(5) ? channels[0] : 0};
  declare_like(c, x);
  c.output(saved, t, x.device);
  c.output(saved, t, x.device);
}
// A running statistic moves towards the batch's. Its version stays: backward in training does not read it, and several
// forward passes before one backward are usual.
void update_running(Tensor* running, const std::vector<double>& batch, double momentum, double scale) {
  if (!running) return;
  for (int64_t j = 0; j < running->numel; ++j) {
    char* at = running->data + j * running->strides[0] * running->itemsize();
    double old;
    if (running->dtype == DType::Float64) loader_of<double>(running->dtype)(&old, at, 8, 1);
    else {
      float value;
      loader_of<float>(running->dtype)(&value, at, running->itemsize(), 1);
      old = double(value);
    }
    put<double>(at, running->dtype, 0, (1 - momentum) * old + momentum * batch[size_t(j)] * scale);
  }
}
template <class T>
void scale_and_shift(const Tensor& image, Tensor& result, const Batch& s, const T* scale, const T* shift) {
  if (s.spatial == 1)
    return each_rows(s.batch, s.channels, [&](int64_t row, int64_t count) {
      column_loops<T>(image.dtype).scale(row_at(image, row, s.channels), nullptr, scale, shift, count, s.channels,
                                         row_at(result, row, s.channels));
    });
  const RowReader<T> in(image);
  const RowWriter<T> out(result);
  const int64_t width = s.spatial, rows = s.batch * s.channels;
  parallel_for(rows, std::max<int64_t>(1, kGrain / width), [&](int64_t begin, int64_t end) {
    std::vector<T> a(in.direct ? 0 : size_t(width)), b(out.direct ? 0 : size_t(width));
    for (int64_t r = begin; r < end; ++r) {
      const T* x = in.at(r * width, width, a.data());
      T* y = out.at(r * width, b.data());
      const T p = scale[r % s.channels], q = shift[r % s.channels];
      each<T>(width, [&](int64_t i, int k) { give<T>(y + i, take(x + i, k) * p + q, k); });
      out.done(r * width, width, y);
    }
  });
}
// Mean and variance of every channel of the batch.
template <class T>
void batch_moments(const Tensor& x, const Batch& s, std::vector<double>& mean, std::vector<double>& var) {
  if (s.spatial == 1 && s.batch > 0) return column_moments<T>(x, 0, s.batch, s.channels, mean, var);
  run_moments("batch_norm", x, ~uint64_t(2), [&](int64_t o, double, double average, double m2) {
    mean[size_t(o)] = average;
    var[size_t(o)] = m2 / double(s.per_channel());
  });
}
std::vector<double> running(const Tensor& t) {
  TensorRef wide = contiguous(*to_dtype(t, DType::Float64));
  return {wide->ptr<double>(), wide->ptr<double>() + t.numel};
}
void cpu_batch_norm(Call& c) {
  Tensor& given = c.tensor(0);
  const Batch s(given);
  const bool training = c.boolean(5);
  const double momentum = c.real(6), eps = c.real(7);
  visit_rows("batch_norm", given.dtype, [&]<class T>() {
    TensorRef x = s.laid_out(given);
    std::vector<double> mean(size_t(s.channels), 0.0), var(size_t(s.channels), 0.0);
    std::vector<T> weight = parameter<T>(c.optional_tensor(1), s.channels, T(1)),
                   bias = parameter<T>(c.optional_tensor(2), s.channels, T(0));
    Tensor &result = c.out();
    if (!training) mean = running(c.tensor(3)), var = running(c.tensor(4));
    {
      LockRelease lock(given.numel * 2);
      const double n = double(s.per_channel());
      if (training) batch_moments<T>(*x, s, mean, var);
      std::vector<T> scale(size_t(s.channels)), shift(size_t(s.channels));
      DType saved = statistics_dtype(given.dtype);
      for (size_t j = 0; j < size_t(s.channels); ++j) {
        const double rstd = 1 / std::sqrt(var[j] + eps);
        scale[j] = T(double(weight[j]) * rstd);
        shift[j] = T(double(bias[j]) - mean[j] * rstd * double(weight[j]));
        if (training) {
          put<double>(c.out(1).data, saved, int64_t(j), mean[j]);
          put<double>(c.out(2).data, saved, int64_t(j), rstd);
        }
      }
      if (given.numel) scale_and_shift<T>(*x, result, s, scale.data(), shift.data());
      if (training && given.numel) {
        update_running(c.optional_tensor(3), mean, momentum, 1);
        update_running(c.optional_tensor(4), var, momentum, n / (n - 1));
      }
    }
    for (int k = 3; training && k < 5; ++k)
      if (Tensor* t = c.optional_tensor(k)) note_hidden_write(*t->storage);
  });
}

// _batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd, training, eps)
//   -> (input's, weight's, bias's gradient)
void infer_batch_norm_backward(Call& c) {
  Tensor& x = c.tensor(1);
  check_batch(c, x);
  check_same_shape(c, c.tensor(0), x);
  const int64_t channels[] = {x.size(1)};
  for (int k = 2; k < 5; ++k) check_parameter(c, k, "a parameter", channels);
  DType t = c.optional_tensor(2) ? c.tensor(2).dtype : statistics_dtype(x.dtype);
  declare_like(c, x);
  c.output(channels, t, x.device);
  c.output(channels, t, x.device);
}
// per channel: the sums of g and of g (x - mean)
template <class T>
void channel_sums(const Tensor& gradient, const Tensor& input, const Batch& s, const T* mean, double* level,
                  double* along) {
  if (s.spatial == 1) return gradient_sums(gradient, input, s.batch, s.channels, mean, level, along);
  const RowReader<T> gs(gradient), xs(input);
  parallel_for(s.channels, std::max<int64_t>(1, kGrain / 2 / s.per_channel()), [&](int64_t begin, int64_t end) {
    std::vector<T> a(gs.direct ? 0 : size_t(s.spatial)), b(xs.direct ? 0 : size_t(s.spatial));
    for (int64_t j = begin; j < end; ++j)
      for (int64_t n = 0; n < s.batch; ++n) {
        const int64_t at = (n * s.channels + j) * s.spatial;
        const T *g = gs.at(at, s.spatial, a.data()), *x = xs.at(at, s.spatial, b.data()), m = mean[j];
        for (int64_t start = 0; start < s.spatial; start += kRowBlock) {
          const int64_t len = std::min(kRowBlock, s.spatial - start);
          Vector<T> sum{};
          along[j] += sum_over<T>(len, [&](int64_t i, int k) {
            Vector<T> v = take(g + start + i, k);
            sum += v;
            return v * (take(x + start + i, k) - m);
          });
          level[j] += add_lanes<T>(sum);
        }
      }
  });
}
template <class T>
void batch_norm_input_gradient(const Tensor& gradient, const Tensor& input, Tensor& result, const Batch& s,
                               const Mixture<T>& mixture) {
  if (s.spatial == 1) return mix_rows(gradient, input, result, 0, s.batch, mixture);
  const RowReader<T> gs(gradient), xs(input);
  const RowWriter<T> out(result);
  const int64_t width = s.spatial;
  parallel_for(s.batch * s.channels, std::max<int64_t>(1, kGrain / width), [&](int64_t begin, int64_t end) {
    std::vector<T> a(gs.direct ? 0 : size_t(width)), b(xs.direct ? 0 : size_t(width)),
        d(out.direct ? 0 : size_t(width));
    for (int64_t r = begin; r < end; ++r) {
      const T *g = gs.at(r * width, width, a.data()), *x = xs.at(r * width, width, b.data());
      T* to = out.at(r * width, d.data());
      const size_t j = size_t(r % s.channels);
      const T p = mixture.p[j], q = mixture.q[j], o = mixture.o[j], m = mixture.mean[j];
      each<T>(width, [&](int64_t i, int k) { give<T>(to + i, take(g + i, k) * p + (take(x + i, k) - m) * q + o, k); });
      out.done(r * width, width, to);
    }
  });
}
void cpu_batch_norm_backward(Call& c) {
  Tensor& given = c.tensor(1);
  const Batch s(given);
  const bool training = c.boolean(7);
  const double eps = c.real(8), n = double(s.per_channel());
  visit_rows("batch_norm", given.dtype, [&]<class T>() {
    const Tensor& g = c.tensor(0);
    TensorRef input = s.laid_out(given), grad = s.laid_out(*to_dtype(g, given.dtype));
    std::vector<T> weight = parameter<T>(c.optional_tensor(2), s.channels, T(1));
    std::vector<double> center = parameter<double>(c.optional_tensor(training ? 5 : 3), s.channels, 0.0);
    std::vector<double> rstd = parameter<double>(c.optional_tensor(training ? 6 : 4), s.channels, 1.0);
    if (!training)
      for (double& v : rstd) v = 1 / std::sqrt(v + eps);
    Tensor &dx = c.out(0), &dw = c.out(1), &db = c.out(2);
    {
      LockRelease lock(given.numel * 2);
      const size_t channels = size_t(s.channels);
      Mixture<T> mixture(std::vector<T>(center.begin(), center.end()));
      std::vector<double> level(channels, 0.0), along(channels, 0.0);
      if (given.numel) channel_sums(*grad, *input, s, mixture.mean.data(), level.data(), along.data());
      for (size_t j = 0; j < channels; ++j) {
        const double a = double(weight[j]) * rstd[j], b = training ? -a * rstd[j] * rstd[j] * along[j] / n : 0;
        mixture.p[j] = T(a);
        mixture.q[j] = T(b);
        mixture.o[j] = training ? T(-a * level[j] / n) : T(0);
        put<double>(dw.data, c.out(1).dtype, int64_t(j), given.numel ? along[j] * rstd[j] : 0);
        put<double>(db.data, c.out(2).dtype, int64_t(j), level[j]);
      }
      if (given.numel) batch_norm_input_gradient(*grad, *input, dx, s, mixture);
    }
  });
}

const Primitives rows{
    {"native_batch_norm", infer_batch_norm, cpu_batch_norm, Images::Kept},
    {"_batch_norm_backward", infer_batch_norm_backward, cpu_batch_norm_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau::norm
