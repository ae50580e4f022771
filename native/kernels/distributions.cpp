// Numbers of named distributions (Bernoulli, exponential, gamma, binomial, multinomial …) and dropout.
#include <limits>
#include <numeric>

#include "normal.h"
#include "random.h"
#include "simd_casts.h"

#define FLAMBEAU_INLINE inline

namespace flambeau {
namespace {

#include "../../src/flambeau/cuda/kernels/shared/draws.h"

// --- one element at a time -------------------------------------------------------------------------------------------

void check_probability(const Call& c, double p) {
  if (!(p >= 0 && p <= 1)) runtime_error(c.name(), ": p must be between 0 and 1, got ", p);
}

// u53 < p as integers: r53 < p 2^53.
uint64_t threshold(double p) { return uint64_t(std::ceil(p * 0x1p53)); }

void fill_bernoulli(const Call& c, Tensor& t, Generator& g, double p) {
  uint64_t bound = threshold(p);
  if (t.dtype == DType::Float32) {
    fill_run<float>(c, t, t.dtype, g, [&](float* to, int64_t n) {
      draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = (r & kMask53) < bound ? 1.0f : 0.0f; });
    });
  } else {
    fill_run<uint8_t>(c, t, DType::Bool, g, [&](uint8_t* to, int64_t n) {
      draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = (r & kMask53) < bound; });
    });
  }
}
void infer_bernoulli_(Call& c) {
  infer_self(c);
  check_probability(c, c.real(1));
}
void cpu_bernoulli_(Call& c) { fill_bernoulli(c, c.out(), generator(c, 2), c.real(1)); }

// bernoulli_tensor(Tensor self, Tensor p, generator): one probability per element, into a result like self.
void infer_bernoulli_tensor(Call& c) {
  if (!is_floating(c.tensor(1).dtype))
    runtime_error(c.name(), ": probabilities must be floating point, got ", dtype_name(c.tensor(1).dtype));
  output_self(c);
}
void cpu_bernoulli_tensor(Call& c) {
  Tensor& out = c.out();
  bool wide = c.tensor(1).dtype == DType::Float64;
  TensorRef p = empty(out.shape(), wide ? DType::Float64 : DType::Float32);
  copy_into(*p, c.tensor(1));
  TensorRef u = empty_strided(out.shape(), like_strides(out), p->dtype), hit = empty(out.shape(), DType::Bool);
  fill_uniform(c, *u, generator(c, 2), 0, 1);
  u = contiguous(*u);
  auto compare = [&]<class T>() {
    for (int64_t k = 0; k < out.numel; ++k) {
      T probability = p->ptr<T>()[k];
      if (!(probability >= 0 && probability <= 1))
        runtime_error(c.name(), ": a probability must be between 0 and 1, got ", probability);
      hit->ptr<bool>()[k] = u->ptr<T>()[k] < probability;
    }
  };
  if (wide) compare.template operator()<double>();
  else compare.template operator()<float>();
  copy_into(out, *hit);
}

void infer_exponential_(Call& c) {
  infer_self(c);
  require_floating(c, c.out());
  if (!(c.real(1) > 0)) runtime_error(c.name(), ": lambd must be positive, got ", c.real(1));
}
void cpu_exponential_(Call& c) {
  double scale = -1 / c.real(1);
  each_double(c, c.out(), generator(c, 2), [=](Generator& g) { return scale * std::log1p(-g.u53()); });
}

void infer_geometric_(Call& c) {
  infer_self(c);
  if (!(c.real(1) > 0 && c.real(1) < 1)) runtime_error(c.name(), ": p must be above 0 and below 1, got ", c.real(1));
}
void cpu_geometric_(Call& c) {
  double scale = std::log1p(-c.real(1));
  each_double(c, c.out(), generator(c, 2), [=](Generator& g) { return std::ceil(std::log(g.u53()) / scale); });
}

void infer_cauchy_(Call& c) {
  infer_self(c);
  require_floating(c, c.out());
  if (!(c.real(2) > 0)) runtime_error(c.name(), ": sigma must be positive, got ", c.real(2));
}
void cpu_cauchy_(Call& c) {
  double median = c.real(1), sigma = c.real(2);
  each_double(c, c.out(), generator(c, 3),
              [=](Generator& g) { return median + sigma * std::tan(M_PI * (g.u53() - 0.5)); });
}

void infer_log_normal_(Call& c) {
  infer_self(c);
  require_floating(c, c.out());
  if (!(c.real(2) > 0)) runtime_error(c.name(), ": std must be positive, got ", c.real(2));
}
void cpu_log_normal_(Call& c) {
  double mean = c.real(1), std = c.real(2);
  each_double(c, c.out(), generator(c, 3), [=](Generator& g) { return std::exp(g.gauss() * std + mean); });
}

void infer_poisson(Call& c) {
  require_floating(c, c.tensor(0));
  c.output(c.tensor(0).shape(), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_poisson(Call& c) {
  Tensor& out = c.out();
  TensorRef rates = empty(out.shape(), DType::Float64);
  copy_into(*rates, c.tensor(0));
  const double* rate = rates->ptr<double>();
  for (int64_t k = 0; k < out.numel; ++k)
    if (!(rate[k] >= 0 && std::isfinite(rate[k])))
      runtime_error(c.name(), ": a rate must be finite and not negative, got ", rate[k]);
  each_double(c, out, generator(c, 1), [rate](Generator& g) mutable { return draw_poisson(g, *rate++); });
}

// --- gamma, dirichlet, binomial --------------------------------------------------------------------------------------

void require_precise(const Call& c, const Tensor& t) {
  if (t.dtype != DType::Float32 && t.dtype != DType::Float64)
    not_implemented(c.name(), ": not implemented for ", dtype_name(t.dtype));
}
void infer_gamma(Call& c) {
  const Tensor& t = c.tensor(0);
  require_precise(c, t);
  c.output(t.shape(), t.dtype, t.device);
}
TensorRef doubles_like(const Tensor& t, const Tensor& pattern) {
  TensorRef x = empty_strided(pattern.shape(), pattern.stride(), DType::Float64, pattern.device);
  copy_into(*x, t);
  return x;
}
void cpu_gamma(Call& c) {
  Tensor& out = c.out();
  TensorRef alphas = doubles_like(c.tensor(0), out);
  const double* alpha = alphas->ptr<double>();
  const double least =
      out.dtype == DType::Float32 ? double(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  each_double(c, out, generator(c, 1),
              [=](Generator& g) mutable { return std::max(least, draw_gamma(g, *alpha++)); });
}
void infer_dirichlet(Call& c) {
  const Tensor& t = c.tensor(0);
  require_precise(c, t);
  if (t.ndim == 0) runtime_error(c.name(), ": expected concentrations of at least one dimension");
  c.output(t.shape(), t.dtype, t.device);
}
void cpu_dirichlet(Call& c) {
  Tensor& out = c.out();
  Generator& g = generator(c, 1);
  TensorRef samples = doubles_like(c.tensor(0), out);
  double* x = samples->ptr<double>();
  Drawing drawing(g);
  for (int64_t k = 0; k < out.numel; ++k) x[k] = std::max(std::numeric_limits<double>::min(), draw_gamma(g, x[k]));
  const int64_t n = out.sizes[out.ndim - 1];
  auto share = [&]<class T>(T* to) {
    const T least = std::numeric_limits<T>::min(), most = std::nextafter(T(1), T(0));
    for (int64_t r = 0; r < out.numel; r += n) {
      double sum = 0;
      for (int64_t k = r; k < r + n; ++k) sum += x[k];
      for (int64_t k = r; k < r + n; ++k) to[k] = std::min(most, std::max(least, T(x[k] / sum)));
    }
  };
  if (out.dtype == DType::Float32) share(out.ptr<float>());
  else share(out.ptr<double>());
}

// binomial(Tensor count, Tensor prob, Generator? generator): of one shape
void infer_binomial(Call& c) {
  const Tensor &n = c.tensor(0), &p = c.tensor(1);
  require_precise(c, n);
  if (n.dtype != p.dtype)
    runtime_error(c.name(), ": expected count and prob of one dtype, got ", dtype_name(n.dtype), " and ",
                  dtype_name(p.dtype));
  if (!std::ranges::equal(n.shape(), p.shape()))
    runtime_error(c.name(), ": expected count and prob of one shape, got ", shape_text(n.shape()), " and ",
                  shape_text(p.shape()));
  c.output(n.shape(), n.dtype, n.device, like_strides(n));
}
void cpu_binomial(Call& c) {
  Tensor& out = c.out();
  TensorRef counts = doubles_like(c.tensor(0), out), probabilities = doubles_like(c.tensor(1), out);
  const double *n = counts->ptr<double>(), *p = probabilities->ptr<double>();
  each_double(c, out, generator(c, 2), [=](Generator& g) mutable { return draw_binomial(g, *n++, *p++); });
}

// --- multinomial -----------------------------------------------------------------------------------------------------

void infer_multinomial(Call& c) {
  const Tensor& p = c.tensor(0);
  int64_t n = c.integer(1);
  if (p.ndim < 1 || p.ndim > 2) runtime_error(c.name(), ": the weights must have 1 dimension, or 2 with a batch, got "
                                              "shape ", shape_text(p.shape()));
  require_floating(c, p);
  int64_t categories = p.sizes[p.ndim - 1];
  if (categories == 0) runtime_error(c.name(), ": expected at least one category, got shape ", shape_text(p.shape()));
  if (n <= 0) runtime_error(c.name(), ": num_samples must be positive, got ", n);
  if (!c.boolean(2) && n > categories)
    runtime_error(c.name(), ": ", n, " samples cannot be drawn from ", categories, " categories without replacement");
  if (categories > (int64_t(1) << 24)) runtime_error(c.name(), ": at most 2^24 categories are possible, got ",
                                                     categories);
  int64_t shape[2] = {p.sizes[0], n};
  c.output(p.ndim == 1 ? Dims(shape + 1, 1) : Dims(shape, 2), DType::Int64, p.device);
}

template <class T>
void check_distribution(const Call& c, const T* p, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (!(p[k] >= 0 && std::isfinite(p[k])))
      runtime_error(c.name(), ": weights must be finite and not negative, got ", double(p[k]));
    sum += p[k];
  }
  if (!(sum > 0)) runtime_error(c.name(), ": the weights of a row are all zero, so nothing can be drawn");
}

// The largest p / exponential, or the `draws` largest: sampling without replacement (one exponential race).
template <class T>
void race(const T* p, int64_t n, const T* clock, int64_t draws, int64_t* out) {
  std::vector<T> time(n);
  for (int64_t k = 0; k < n; ++k) time[k] = p[k] / clock[k];
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t(0));
  auto first = [&](int64_t a, int64_t b) { return time[a] > time[b] || (time[a] == time[b] && a < b); };
  std::partial_sort(order.begin(), order.begin() + draws, order.end(), first);
  std::copy(order.begin(), order.begin() + draws, out);
}

template <class T>
void search(Generator& g, const T* p, int64_t n, int64_t draws, int64_t* out) {
  std::vector<T> cumulative(n);
  T sum = 0;
  for (int64_t k = 0; k < n; ++k) cumulative[k] = sum += p[k];
  for (T& x : cumulative) x /= sum;
  cumulative[n - 1] = 1;
  for (int64_t k = 0; k < draws; ++k) {
    double u = g.u53();
    out[k] = std::lower_bound(cumulative.begin(), cumulative.end(), u, [](T a, double u) { return double(a) < u; }) -
             cumulative.begin();
  }
}

template <class T>
void sample_rows(Call& c, const Tensor& p, Generator& g) {
  int64_t n = p.sizes[p.ndim - 1], rows = n ? p.numel / n : 0, draws = c.integer(1);
  const T* from = p.ptr<T>();
  int64_t* out = c.out().ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r) check_distribution(c, from + r * n, n);
  Drawing drawing(g);
  if (c.boolean(2) && draws > 1) {
    for (int64_t r = 0; r < rows; ++r) search(g, from + r * n, n, draws, out + r * draws);
    return;
  }
  std::vector<T> clock(p.numel);
  const std::vector<int64_t> strides = like_strides(c.tensor(0));  // drawn in the order of self's memory
  const bool columns = strides.front() < strides.back();
  for (int64_t k = 0; k < p.numel; ++k)
    clock[columns ? k % rows * n + k / rows : k] = T(-std::log1p(-g.u53()));
  for (int64_t r = 0; r < rows; ++r) race(from + r * n, n, clock.data() + r * n, draws, out + r * draws);
}

void cpu_multinomial(Call& c) {
  Generator& g = generator(c, 3);
  TensorRef p = contiguous(c.tensor(0));
  if (p->dtype == DType::Float64) return sample_rows<double>(c, *p, g);
  if (p->dtype != DType::Float32) p = to_dtype(*p, DType::Float32);
  sample_rows<float>(c, *p, g);
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// dropout_forward(Tensor self, float p, Generator? generator) -> (result, mask): mask is 1 where an element lives on.
void infer_dropout(Call& c) {
  const Tensor& t = c.tensor(0);
  double p = c.real(1);
  if (!(p >= 0 && p <= 1)) value_error("dropout: p must be a probability between 0 and 1, got ", p);
  if (!is_differentiable(t.dtype))
    runtime_error("dropout: expected floating-point or complex input, got ", dtype_name(t.dtype));
  refuse_float8(c, t);
  std::vector<int64_t> strides = like_strides(t);
  c.output(t.shape(), t.dtype, t.device, strides);
  c.output(t.shape(), DType::Bool, t.device, strides);
}

template <class T>
void scale_kept(const T* x, const uint8_t* mask, T* out, int64_t n, double keep) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    const float scale = float(T(1.0f / float(keep)));
    constexpr int64_t kBlock = 1024;
    float wide[kBlock];
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t some = std::min(kBlock, n - first);
      cast_run(wide, x + first, some);
      for (int64_t k = 0; k < some; ++k) wide[k] *= mask[first + k] ? scale : 0.0f;
      cast_run(out + first, wide, some);
    }
  } else {
    T scale = T(1) / T(keep);
    for (int64_t k = 0; k < n; ++k) out[k] = x[k] * (mask[k] ? scale : T(0));
  }
}

// x, mask and out are dense and laid out alike.
void scale_kept_any(const Tensor& x, const Tensor& mask, Tensor& out, double keep) {
  auto run = [&]<class T>() {
    parallel_for(x.numel, 1 << 15, [&](int64_t a, int64_t b) {
      scale_kept(x.ptr<T>() + a, mask.ptr<uint8_t>() + a, out.ptr<T>() + a, b - a, keep);
    });
  };
  switch (x.dtype) {
    case DType::Float32: return run.template operator()<float>();
    case DType::Float64: return run.template operator()<double>();
    case DType::Float16: return run.template operator()<float16>();
    case DType::BFloat16: return run.template operator()<bfloat16>();
    case DType::Complex64: return run.template operator()<complex64>();
    case DType::Complex128: return run.template operator()<complex128>();
    default: not_implemented("dropout: ", dtype_name(x.dtype), " is only stored; convert the input with .to()");
  }
}

// t itself, or a copy with these strides.
TensorRef laid_out_as(const Tensor& t, const Tensor& pattern) {
  if (std::equal(t.strides, t.strides + t.ndim, pattern.strides)) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty_strided(t.shape(), pattern.stride(), t.dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

void cpu_dropout(Call& c) {
  Tensor &out = c.out(0), &mask = c.out(1);
  double keep = 1 - c.real(1);
  Generator& g = generator(c, 2);
  TensorRef x = laid_out_as(c.tensor(0), out);
  // The numbers belong to elements in the order that users see.
  TensorRef drawn = c.plain_images ? empty(mask.shape(), mask.dtype, mask.device) : TensorRef::borrow(&mask);
  {
    LockRelease lock(out.numel * 3);
    uint64_t bound = threshold(keep);
    uint8_t* to = drawn->ptr<uint8_t>();
    Drawing drawing(g);
    draw64(g, mask.numel, [&](int64_t k, uint64_t r) { to[k] = (r & kMask53) < bound; });
  }
  if (c.plain_images) copy_into(mask, *drawn);
  LockRelease lock(out.numel);
  scale_kept_any(*x, mask, out, keep);
}

// dropout_scale(Tensor self, Tensor mask, float p): self * mask / (1 - p), what dropout does to gradients.
void infer_dropout_scale(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1);
  if (mask.dtype != DType::Bool || !std::ranges::equal(t.shape(), mask.shape()))
    runtime_error(c.name(), ": expected a bool mask of shape ", shape_text(t.shape()), ", got ", dtype_name(mask.dtype),
                  " ", shape_text(mask.shape()));
  if (!is_differentiable(t.dtype)) runtime_error(c.name(), ": expected floating-point or complex input, got ",
                                                 dtype_name(t.dtype));
  refuse_float8(c, t);
  c.output(t.shape(), t.dtype, t.device, like_strides(mask));
}
void cpu_dropout_scale(Call& c) {
  Tensor& out = c.out();
  TensorRef x = laid_out_as(c.tensor(0), out), mask = laid_out_as(c.tensor(1), out);
  LockRelease lock(out.numel);
  scale_kept_any(*x, *mask, out, 1 - c.real(2));
}

const Primitives rows{
    {"bernoulli_float_", infer_bernoulli_, cpu_bernoulli_},
    {"bernoulli_tensor", infer_bernoulli_tensor, cpu_bernoulli_tensor},
    {"exponential_", infer_exponential_, cpu_exponential_},
    {"geometric_", infer_geometric_, cpu_geometric_},
    {"cauchy_", infer_cauchy_, cpu_cauchy_},
    {"log_normal_", infer_log_normal_, cpu_log_normal_},
    {"poisson", infer_poisson, cpu_poisson},
    {"_standard_gamma", infer_gamma, cpu_gamma},
    {"_sample_dirichlet", infer_dirichlet, cpu_dirichlet},
    {"_binomial", infer_binomial, cpu_binomial},
    {"multinomial", infer_multinomial, cpu_multinomial},
    {"dropout_forward", infer_dropout, cpu_dropout, Images::Kept},
    {"dropout_scale", infer_dropout_scale, cpu_dropout_scale, Images::Kept},
};

}  // namespace
}  // namespace flambeau
