// Random tensors: which numbers of the engine become which elements, by PyTorch's rules.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "../core/generator.h"
#include "normal.h"
#include "options.h"

namespace flambeau {
namespace {

constexpr int64_t kChunk = 1 << 15;  // elements drawn at once: small enough for the cache
constexpr uint64_t kMask53 = (uint64_t(1) << 53) - 1;

Generator& generator(const Call& c, int k) { return c.has(k) ? *c.args[k].generator : default_generator(); }

// --- uniform numbers in bulk -----------------------------------------------------------------------------------------

void uniform24(Generator& g, float* to, int64_t n) {
  while (n > 0) {
    if (g.pos == Generator::kWords) g.refill();
    int64_t take = std::min<int64_t>(n, Generator::kWords - g.pos);
    const uint32_t* words = g.out + g.pos;
    for (int64_t k = 0; k < take; ++k) to[k] = float(int32_t(words[k] & 0xffffff)) * 0x1p-24f;
    g.pos += int32_t(take);
    to += take;
    n -= take;
  }
}

// f(k, r64) for n draws of 64 bits.
template <class F>
void draw64(Generator& g, int64_t n, F f) {
  int64_t k = 0;
  while (k < n) {
    if (Generator::kWords - g.pos < 2) {
      f(k++, g.r64());
      continue;
    }
    int64_t take = std::min<int64_t>(n - k, (Generator::kWords - g.pos) / 2);
    const uint32_t* words = g.out + g.pos;
    for (int64_t j = 0; j < take; ++j) f(k + j, uint64_t(words[2 * j]) << 32 | words[2 * j + 1]);
    g.pos += int32_t(2 * take);
    k += take;
  }
}

void uniform53(Generator& g, double* to, int64_t n) {
  draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = double(int64_t(r & kMask53)) * 0x1p-53; });
}

// --- where the numbers go --------------------------------------------------------------------------------------------

// The tensor's elements as one run of memory, in the order of its addresses; tensors with gaps get fresh memory that
// `finish` copies from.
struct Run {
  TensorRef flat;   // 1-d
  TensorRef back;   // t with its dimensions sorted as `flat` goes, when `flat` is not t's own memory
  void finish() {
    if (back) copy_into(*back, *flat);
  }
};

Run run_of(const Call& c, Tensor& t) {
  check_writable(c, t);
  int64_t one = 1;
  if (dense(t)) return {view_of(t, Dims(&t.numel, 1), Dims(&one, 1), t.data), {}};
  std::vector<int> order(t.ndim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return t.strides[a] > t.strides[b]; });
  std::vector<int64_t> sizes, strides;
  for (int d : order) {
    sizes.push_back(t.sizes[d]);
    strides.push_back(t.strides[d]);
  }
  TensorRef fresh = empty(sizes, t.dtype, t.device);
  return {fresh, view_of(t, sizes, strides, t.data)};
}

// copy_into needs equal shapes: `back` is n-d and `flat` has the same contiguous order.

// fill(T* to, int64_t n) draws the next n numbers; they are converted to the tensor's dtype.
template <class T, class F>
void fill_run(const Call& c, Tensor& t, DType as, Generator& g, F fill) {
  Run run = run_of(c, t);
  int64_t n = t.numel, one = 1;
  char* data = run.flat->data;
  if (t.dtype == as) {
    LockRelease lock(n * 8);
    std::lock_guard guard(g.busy);
    fill(reinterpret_cast<T*>(data), n);
  } else {
    int64_t most = std::min(kChunk, n);
    TensorRef chunk = empty(Dims(&most, 1), as);
    for (int64_t done = 0; done < n; done += kChunk) {
      int64_t take = std::min(kChunk, n - done);
      {
        std::lock_guard guard(g.busy);
        fill(chunk->ptr<T>(), take);
      }
      TensorRef from = view_of(*chunk, Dims(&take, 1), Dims(&one, 1), chunk->data);
      TensorRef to = view_of(*run.flat, Dims(&take, 1), Dims(&one, 1), data + done * t.itemsize());
      copy_into(*to, *from);
    }
  }
  run.finish();
}

// One double per element.
template <class F>
void each_double(const Call& c, Tensor& t, Generator& g, F next) {
  if (t.dtype == DType::Float32)
    return fill_run<float>(c, t, t.dtype, g, [&](float* to, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[k] = float(next(g));
    });
  fill_run<double>(c, t, DType::Float64, g, [&](double* to, int64_t n) {
    for (int64_t k = 0; k < n; ++k) to[k] = next(g);
  });
}

TensorRef as_real(Tensor& t) {  // complex seen as pairs of reals, innermost
  std::vector<int64_t> sizes(t.sizes, t.sizes + t.ndim), strides(t.strides, t.strides + t.ndim);
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  TensorRef r = TensorRef::steal(allocate_tensor());
  r->dtype = real_of(t.dtype);
  r->device = t.device;
  set_dims(*r, sizes, strides);
  r->storage = t.storage;
  retain(t.storage);
  r->data = t.data;
  return r;
}

void require_floating(const Call& c, const Tensor& t) {
  if (!is_floating(t.dtype))
    runtime_error(c.name(), ": expected a floating-point tensor (a continuous distribution), got dtype ", dtype_name(t.dtype));
}

// --- uniform_ and normal_ --------------------------------------------------------------------------------------------

template <class T>
void half_uniform(Generator& g, T* to, int64_t n, double from, double end) {
  float low = float(from), width = float(end) - low;
  float buffer[512];
  for (int64_t k = 0; k < n; k += 512) {
    int64_t take = std::min<int64_t>(512, n - k);
    uniform24(g, buffer, take);
    for (int64_t j = 0; j < take; ++j) {
      T value = T(buffer[j] * width + low);
      to[k + j] = float(value) == float(T(float(end))) ? T(low) : value;  // rounding must not reach the open end
    }
  }
}

void fill_uniform(const Call& c, Tensor& t, Generator& g, double from, double end) {
  if (is_complex(t.dtype)) {
    TensorRef real = as_real(t);
    return fill_uniform(c, *real, g, from, end);
  }
  if (t.dtype == DType::Float32) {
    float low = float(from), high = float(end), width = float(end - from);
    fill_run<float>(c, t, DType::Float32, g, [&](float* to, int64_t n) {
      for (int64_t k = 0; k < n; k += kChunk) {
        int64_t take = std::min(kChunk, n - k);
        float* x = to + k;
        uniform24(g, x, take);
        if (low == 0 && high == 1) continue;
        for (int64_t j = 0; j < take; ++j) {
          float value = x[j] * width + low;
          x[j] = value == high ? low : value;
        }
      }
    });
  } else if (t.dtype == DType::Float64) {
    double width = end - from;
    fill_run<double>(c, t, DType::Float64, g, [&](double* to, int64_t n) {
      draw64(g, n, [&](int64_t k, uint64_t r) {
        double value = double(int64_t(r & kMask53)) * 0x1p-53 * width + from;
        to[k] = value == end ? from : value;
      });
    });
  } else if (t.dtype == DType::Float16) {
    fill_run<float16>(c, t, t.dtype, g, [&](float16* to, int64_t n) { half_uniform(g, to, n, from, end); });
  } else {
    fill_run<bfloat16>(c, t, t.dtype, g, [&](bfloat16* to, int64_t n) { half_uniform(g, to, n, from, end); });
  }
}

template <class T>
void block_normal(Generator& g, T* to, int64_t n, T mean, T std) {
  auto uniform = [&](T* x, int64_t m) {
    if constexpr (sizeof(T) == 4) uniform24(g, x, m);
    else uniform53(g, x, m);
  };
  constexpr int64_t piece = 1 << 22;  // the engine is serial, the transform is not
  for (int64_t k = 0; k < n; k += piece) {
    int64_t take = std::min(piece, n - k);
    uniform(to + k, take);
    parallel_for(take / 16, 1 << 12, [&](int64_t a, int64_t b) { box_muller(to + k + 16 * a, 16 * (b - a), mean, std); });
  }
  if (n % 16) {  // the last sixteen are drawn anew
    uniform(to + n - 16, 16);
    box_muller(to + n - 16, 16, mean, std);
  }
}

template <class T>
void half_normal(Generator& g, T* to, int64_t n, float mean, float std) {
  float x[16];
  auto block = [&](T* at) {
    uniform24(g, x, 16);
    box_muller(x, 16, mean, std);
    for (int j = 0; j < 16; ++j) at[j] = T(x[j]);
  };
  for (int64_t k = 0; k + 16 <= n; k += 16) block(to + k);
  if (n % 16) block(to + n - 16);
}

void fill_normal(const Call& c, Tensor& t, Generator& g, double mean, double std) {
  if (is_complex(t.dtype)) {  // the two parts share the variance
    TensorRef real = as_real(t);
    return fill_normal(c, *real, g, mean, std * M_SQRT1_2);
  }
  if (t.numel < 16 || !t.contiguous())
    return each_double(c, t, g, [&](Generator& g) { return g.gauss() * std + mean; });
  LockRelease lock(t.numel * 8);
  std::lock_guard guard(g.busy);
  switch (t.dtype) {
    case DType::Float32: return block_normal(g, t.ptr<float>(), t.numel, float(mean), float(std));
    case DType::Float64: return block_normal(g, t.ptr<double>(), t.numel, mean, std);
    case DType::Float16: return half_normal(g, t.ptr<float16>(), t.numel, float(mean), float(std));
    default: return half_normal(g, t.ptr<bfloat16>(), t.numel, float(mean), float(std));
  }
}

void require_normal(const Call& c, const Tensor& t, double std) {
  if (!(std >= 0)) runtime_error(c.name(), ": normal expects std >= 0.0, but found std ", std);
  if (!is_differentiable(t.dtype))
    not_implemented(c.name(), ": expected a floating-point or complex tensor, got dtype ", dtype_name(t.dtype));
}

void infer_self(Call& c) { check_writable(c, write_self(c)); }

void infer_normal_(Call& c) {
  infer_self(c);
  require_normal(c, c.out(), c.real(2));
}
void cpu_normal_(Call& c) { fill_normal(c, c.out(), generator(c, 3), c.real(1), c.real(2)); }

void check_range(const Call& c, double from, double to) {
  if (!(from <= to)) runtime_error(c.name(), ": expects a [from, to) range, but found from=", from, " > to=", to);
  if (!(to - from <= std::numeric_limits<double>::max())) runtime_error(c.name(), ": the range from ", from, " to ", to, " is too wide");
}
void infer_uniform_(Call& c) {
  infer_self(c);
  if (!is_differentiable(c.out().dtype))
    not_implemented(c.name(), ": expected a floating-point or complex tensor, got dtype ", dtype_name(c.out().dtype));
  check_range(c, c.real(1), c.real(2));
}
void cpu_uniform_(Call& c) { fill_uniform(c, c.out(), generator(c, 3), c.real(1), c.real(2)); }

// --- rand, randn and their like --------------------------------------------------------------------------------------

void require_sampled(const Call& c, const Tensor& t) {
  if (!is_differentiable(t.dtype))
    not_implemented(c.name(), ": expected a floating-point or complex dtype, got ", dtype_name(t.dtype));
}
void infer_rand(Call& c) { require_sampled(c, create(c, c.ints(0), read_options(c, 2, default_dtype()))); }
void cpu_rand(Call& c) { fill_uniform(c, c.out(), generator(c, 1), 0, 1); }
void cpu_randn(Call& c) { fill_normal(c, c.out(), generator(c, 1), 0, 1); }

// (self, *, generator, dtype, layout, device, requires_grad, pin_memory, memory_format)
void infer_like_at(Call& c, int options) {
  const Tensor& t = c.tensor(0);
  Options o = read_options(c, options, t.dtype, t.device);
  Tensor& out = c.output(t.shape(), o.dtype, o.device, format_strides(c, t, c.integer_or(options + 5, 3)));
  if (o.requires_grad) out.flags |= kRequiresGrad;
}
void infer_rand_like(Call& c) {
  infer_like_at(c, 2);
  require_sampled(c, c.out());
}

// --- integers --------------------------------------------------------------------------------------------------------

// r % d for many r and one d < 2^32, by multiplication (Lemire, Kaser, Kurz 2019).
struct Modulo {
  uint64_t magic, d;
  explicit Modulo(uint64_t d) : magic(~uint64_t(0) / d + 1), d(d) {}
  uint32_t operator()(uint32_t r) const {
    uint64_t low = magic * r;
    return uint32_t((unsigned __int128)low * d >> 64);
  }
};

// range 0 stands for 2^64.
void fill_integers(const Call& c, Tensor& t, Generator& g, uint64_t range, int64_t base) {
  fill_run<int64_t>(c, t, DType::Int64, g, [&](int64_t* to, int64_t n) {
    if (range == 0) {
      draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = int64_t(r); });
    } else if (range >= uint64_t(1) << 28) {  // one word would favour some values
      draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = int64_t(r % range + uint64_t(base)); });
    } else if (range == 1) {
      for (int64_t k = 0; k < n; ++k) g.r32(), to[k] = base;
    } else {
      Modulo modulo(range);
      for (int64_t k = 0; k < n; ++k) to[k] = int64_t(modulo(g.r32())) + base;
    }
  });
}

struct Limits {
  double low, high;  // the integers that the dtype holds
};
Limits limits(DType d) {
  switch (d) {
    case DType::Bool: return {0, 1};
    case DType::UInt8: return {0, 255};
    case DType::Int8: return {-128, 127};
    case DType::Int16: return {-32768, 32767};
    case DType::UInt16: return {0, 65535};
    case DType::Int32: return {-0x1p31, 0x1p31 - 1};
    case DType::UInt32: return {0, 0x1p32 - 1};
    case DType::UInt64: return {0, 0x1p64};
    case DType::Float16: return {-65504, 65504};
    default: return {-0x1p63, 0x1p63};
  }
}

void check_integers(const Call& c, DType d, int64_t from, int64_t to) {
  if (is_complex(d)) not_implemented(c.name(), ": no integers for dtype ", dtype_name(d));
  if (from >= to) runtime_error(c.name(), ": random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  Limits l = limits(d);
  if (double(from) < l.low || double(from) > l.high)
    runtime_error(c.name(), ": from=", from, " is out of bounds for dtype ", dtype_name(d));
  if (double(to - 1) > l.high) runtime_error(c.name(), ": to - 1 = ", to - 1, " is out of bounds for dtype ", dtype_name(d));
}

// Integers of [from, to). In a floating dtype a bound that rounds out of the range is moved in by one step of the dtype.
template <class T>
void round_inwards(int64_t& from, int64_t& to, int digits) {
  auto step = [&](int64_t x) { return int64_t(1) << (std::bit_width(uint64_t(x < 0 ? -x : x)) - digits); };
  int64_t low = int64_t(double(T(from + 1))), high = int64_t(double(T(to - 1)));
  if (low < from) from = low + step(from + 1);
  if (high >= to) to = high - step(to - 1);
}
void fill_range(const Call& c, Tensor& t, Generator& g, int64_t from, int64_t to) {
  if (t.dtype == DType::BFloat16) round_inwards<bfloat16>(from, to, 8);
  else if (t.dtype == DType::Float16) round_inwards<float16>(from, to, 11);
  else if (t.dtype == DType::Float32) round_inwards<float>(from, to, 24);
  else if (t.dtype == DType::Float64) round_inwards<double>(from, to, 53);
  fill_integers(c, t, g, uint64_t(to) - uint64_t(from), from);
}

// (int low, int high, int[] size, *, generator, dtype …) and without low
template <int Low>
void infer_randint(Call& c) {
  constexpr int size = Low + 1;
  Options o = read_options(c, size + 2, DType::Int64);
  check_integers(c, o.dtype, Low ? c.integer(0) : 0, c.integer(Low));
  create(c, c.ints(size), o);
}
template <int Low>
void cpu_randint(Call& c) {
  int64_t from = Low ? c.integer(0) : 0, to = c.integer(Low);
  fill_range(c, c.out(), generator(c, Low + 2), from, to);
}
// (self, int low, int high, *, generator, dtype …)
template <int Low>
void infer_randint_like(Call& c) {
  infer_like_at(c, Low + 3);
  check_integers(c, c.out().dtype, Low ? c.integer(1) : 0, c.integer(Low + 1));
}
template <int Low>
void cpu_randint_like(Call& c) {
  int64_t from = Low ? c.integer(1) : 0, to = c.integer(Low + 1);
  fill_range(c, c.out(), generator(c, Low + 2), from, to);
}

// random_(self, int? from, int? to): a lone first number is `to`.
struct Bounds {
  bool whole = false, up = false;
  int64_t from = 0, to = 0;
};
Bounds random_bounds(const Call& c) {
  Bounds b;
  if (!c.has(1) && !c.has(2)) b.whole = true;
  else if (c.has(1) && c.has(2)) b.from = c.integer(1), b.to = c.integer(2);
  else b.to = c.has(2) ? c.integer(2) : c.integer(1);
  return b;
}
void infer_random_(Call& c) {
  infer_self(c);
  Bounds b = random_bounds(c);
  if (is_complex(c.out().dtype)) not_implemented(c.name(), ": no integers for dtype ", dtype_name(c.out().dtype));
  if (!b.whole) check_integers(c, c.out().dtype, b.from, b.to);
}
void cpu_random_(Call& c) {
  Tensor& t = c.out();
  Generator& g = generator(c, 3);
  Bounds b = random_bounds(c);
  if (!b.whole) return fill_range(c, t, g, b.from, b.to);
  uint64_t range;  // every integer the dtype holds exactly, from zero
  switch (t.dtype) {
    case DType::Float64: range = (uint64_t(1) << 53) + 1; break;
    case DType::Float32: range = (1 << 24) + 1; break;
    case DType::Float16: range = (1 << 11) + 1; break;
    case DType::BFloat16: range = (1 << 8) + 1; break;
    case DType::UInt64: range = 0; break;
    default: range = t.dtype == DType::Int64 ? uint64_t(1) << 63 : uint64_t(limits(t.dtype).high) + 1;
  }
  if (t.dtype == DType::Int64 || t.dtype == DType::Float64 || t.dtype == DType::UInt64)
    return fill_integers(c, t, g, range, 0);
  fill_run<int64_t>(c, t, DType::Int64, g, [&](int64_t* to, int64_t n) {  // one word each, whatever the range
    for (int64_t k = 0; k < n; ++k) to[k] = int64_t(g.r32() % range);
  });
}

void infer_randperm(Call& c) {
  int64_t n = c.integer(0);
  if (n < 0) runtime_error(c.name(), ": Trying to create tensor with negative dimension ", n, ": [", n, "]");
  Options o = read_options(c, 2, DType::Int64);
  if (n > 0 && double(n - 1) > limits(o.dtype).high)
    runtime_error(c.name(), ": n = ", n, " is too large for dtype ", dtype_name(o.dtype));
  create(c, Dims(&n, 1), o);
}
void cpu_randperm(Call& c) {
  Tensor& out = c.out();
  Generator& g = generator(c, 1);
  int64_t n = out.numel;
  TensorRef direct = out.dtype == DType::Int64 ? TensorRef::borrow(&out) : empty(Dims(&n, 1), DType::Int64);
  {
    LockRelease lock(n * 16);
    std::lock_guard guard(g.busy);
    int64_t* p = direct->ptr<int64_t>();
    std::iota(p, p + n, int64_t(0));
    bool wide = n >= int64_t(std::numeric_limits<uint32_t>::max() / 20);
    for (int64_t k = 0; k < n - 1; ++k) {
      uint64_t left = uint64_t(n - k);
      std::swap(p[k], p[k + int64_t(wide ? g.r64() % left : g.r32() % uint32_t(left))]);
    }
  }
  if (direct.get() != &out) copy_into(out, *direct);
}

// --- one element at a time -------------------------------------------------------------------------------------------

void check_probability(const Call& c, double p) {
  if (!(p >= 0 && p <= 1)) runtime_error(c.name(), ": expects p to be in [0, 1], but got p=", p);
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
    runtime_error(c.name(), ": expects probabilities of a floating-point dtype, got ", dtype_name(c.tensor(1).dtype));
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
        runtime_error(c.name(), ": expects every probability to be in [0, 1], but got ", probability);
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
  if (!(c.real(1) > 0)) runtime_error(c.name(), ": expects lambda > 0.0, but found lambda=", c.real(1));
}
void cpu_exponential_(Call& c) {
  double scale = -1 / c.real(1);
  each_double(c, c.out(), generator(c, 2), [=](Generator& g) { return scale * std::log1p(-g.u53()); });
}

void infer_geometric_(Call& c) {
  infer_self(c);
  if (!(c.real(1) > 0 && c.real(1) < 1)) runtime_error(c.name(), ": expects p to be in (0, 1), but got p=", c.real(1));
}
void cpu_geometric_(Call& c) {
  double scale = std::log1p(-c.real(1));
  each_double(c, c.out(), generator(c, 2), [=](Generator& g) { return std::ceil(std::log(g.u53()) / scale); });
}

void infer_cauchy_(Call& c) {
  infer_self(c);
  require_floating(c, c.out());
  if (!(c.real(2) > 0)) runtime_error(c.name(), ": expects sigma > 0.0, but found sigma=", c.real(2));
}
void cpu_cauchy_(Call& c) {
  double median = c.real(1), sigma = c.real(2);
  each_double(c, c.out(), generator(c, 3), [=](Generator& g) { return median + sigma * std::tan(M_PI * (g.u53() - 0.5)); });
}

void infer_log_normal_(Call& c) {
  infer_self(c);
  require_floating(c, c.out());
  if (!(c.real(2) > 0)) runtime_error(c.name(), ": expects std > 0.0, but found std=", c.real(2));
}
void cpu_log_normal_(Call& c) {
  double mean = c.real(1), std = c.real(2);
  each_double(c, c.out(), generator(c, 3), [=](Generator& g) { return std::exp(g.gauss() * std + mean); });
}

// Knuth's product of uniforms below 10, Hörmann's transformed rejection (PTRS, 1993) from there.
double poisson(Generator& g, double rate) {
  if (rate == 0) return 0;
  if (rate < 10) {
    double limit = std::exp(-rate), product = 1;
    for (int64_t k = 0;; ++k) {
      product *= g.u53();
      if (product <= limit) return double(k);
    }
  }
  double root = std::sqrt(rate), log_rate = std::log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = g.u53() - 0.5, v = g.u53(), us = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= -rate + k * log_rate - std::lgamma(k + 1))
      return k;
  }
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
    if (!(rate[k] >= 0 && std::isfinite(rate[k]))) runtime_error(c.name(), ": invalid Poisson rate, expected every rate to be non-negative and finite, got ", rate[k]);
  each_double(c, out, generator(c, 1), [rate](Generator& g) mutable { return poisson(g, *rate++); });
}

// --- gamma, dirichlet, binomial ---------------------------------------------------------------------------------------

// Marsaglia and Tsang 2000 (with constants rounded to float, as in PyTorch); below 1 the sample of alpha + 1 times a power of a uniform number.
double sample_gamma(Generator& g, double alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = std::pow(1 - g.u53(), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - double(1.0f / 3.0f), c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = g.gauss();
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - g.u53(), square = x * x;
    if (u < 1 - double(0.0331f) * square * square || std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return scale * d * v;
  }
}
void require_precise(const Call& c, const Tensor& t) {
  if (t.dtype != DType::Float32 && t.dtype != DType::Float64) not_implemented(c.name(), ": not implemented for ", dtype_name(t.dtype));
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
  const double least = out.dtype == DType::Float32 ? double(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  each_double(c, out, generator(c, 1), [=](Generator& g) mutable { return std::max(least, sample_gamma(g, *alpha++)); });
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
  std::lock_guard guard(g.busy);
  for (int64_t k = 0; k < out.numel; ++k) x[k] = std::max(std::numeric_limits<double>::min(), sample_gamma(g, x[k]));
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

// What Stirling's formula for log k! leaves out.
double stirling_rest(double k) {
  static const double small[] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650, 0.0166446911898211,
                                 0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return small[int(k)];
  double z = 1 / ((k + 1) * (k + 1));
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 * z) * z) / (k + 1);
}
// Hoermann's transformed rejection BTRS (1993): for n p >= 10, p <= 1/2.
double binomial_rejection(Generator& g, double n, double p) {
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = n * p + 0.5, v_r = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((n + 1) * p);
  for (;;) {
    const double u = g.u53() - 0.5, v = g.u53(), us = 0.5 - std::fabs(u), k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    const double bound = (m + 0.5) * std::log((m + 1) / (odds * (n - m + 1))) + (n + 1) * std::log((n - m + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) -
                         stirling_rest(k) - stirling_rest(n - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}
// Below that: how many geometric waiting times fit into n trials.
double binomial_waiting(Generator& g, double n, double p) {
  const double log_failure = std::log1p(-p);
  double trials = 0;
  for (int64_t successes = 0;; ++successes) {
    trials += std::ceil(std::log(g.u53()) / log_failure);
    if (trials > n) return double(successes);
  }
}
double sample_binomial(Generator& g, double n, double p) {
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (p != p || n != n) return NAN;
  const double q = p <= 0.5 ? p : 1 - p, k = n * q >= 10 ? binomial_rejection(g, n, q) : binomial_waiting(g, n, q);
  return p <= 0.5 ? k : n - k;
}
// binomial(Tensor count, Tensor prob, Generator? generator): of one shape
void infer_binomial(Call& c) {
  const Tensor &n = c.tensor(0), &p = c.tensor(1);
  require_precise(c, n);
  if (n.dtype != p.dtype) runtime_error(c.name(), ": expected count and prob of one dtype, got ", dtype_name(n.dtype), " and ", dtype_name(p.dtype));
  if (!std::ranges::equal(n.shape(), p.shape()))
    runtime_error(c.name(), ": expected count and prob of one shape, got ", shape_text(n.shape()), " and ", shape_text(p.shape()));
  c.output(n.shape(), n.dtype, n.device, like_strides(n));
}
void cpu_binomial(Call& c) {
  Tensor& out = c.out();
  TensorRef counts = doubles_like(c.tensor(0), out), probabilities = doubles_like(c.tensor(1), out);
  const double *n = counts->ptr<double>(), *p = probabilities->ptr<double>();
  each_double(c, out, generator(c, 2), [=](Generator& g) mutable { return sample_binomial(g, *n++, *p++); });
}

// --- multinomial -----------------------------------------------------------------------------------------------------

void infer_multinomial(Call& c) {
  const Tensor& p = c.tensor(0);
  int64_t n = c.integer(1);
  if (p.ndim < 1 || p.ndim > 2) runtime_error(c.name(), ": prob_dist must be 1 or 2 dim, got shape ", shape_text(p.shape()));
  require_floating(c, p);
  int64_t categories = p.sizes[p.ndim - 1];
  if (categories == 0) runtime_error(c.name(), ": expected at least one category, got shape ", shape_text(p.shape()));
  if (n <= 0) runtime_error(c.name(), ": cannot sample n_sample <= 0 samples (n_sample ", n, ")");
  if (!c.boolean(2) && n > categories)
    runtime_error(c.name(), ": cannot sample n_sample > prob_dist.size(-1) samples without replacement (", n, " > ", categories, ")");
  if (categories > (int64_t(1) << 24)) runtime_error(c.name(), ": number of categories cannot exceed 2^24, got ", categories);
  int64_t shape[2] = {p.sizes[0], n};
  c.output(p.ndim == 1 ? Dims(shape + 1, 1) : Dims(shape, 2), DType::Int64, p.device);
}

template <class T>
void check_distribution(const Call& c, const T* p, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (!(p[k] >= 0 && std::isfinite(p[k])))
      runtime_error(c.name(), ": probability tensor contains either `inf`, `nan` or element < 0 (", double(p[k]), ")");
    sum += p[k];
  }
  if (!(sum > 0)) runtime_error(c.name(), ": invalid multinomial distribution (sum of probabilities <= 0)");
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
    out[k] = std::lower_bound(cumulative.begin(), cumulative.end(), u, [](T a, double u) { return double(a) < u; }) - cumulative.begin();
  }
}

template <class T>
void sample_rows(Call& c, const Tensor& p, Generator& g) {
  int64_t n = p.sizes[p.ndim - 1], rows = n ? p.numel / n : 0, draws = c.integer(1);
  const T* from = p.ptr<T>();
  int64_t* out = c.out().ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r) check_distribution(c, from + r * n, n);
  std::lock_guard guard(g.busy);
  if (c.boolean(2) && draws > 1) {
    for (int64_t r = 0; r < rows; ++r) search(g, from + r * n, n, draws, out + r * draws);
    return;
  }
  std::vector<T> clock(p.numel);
  for (T& x : clock) x = T(-std::log1p(-g.u53()));
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
  if (!(p >= 0 && p <= 1)) value_error("dropout: dropout probability has to be between 0 and 1, but got ", p);
  if (!is_differentiable(t.dtype))
    runtime_error("dropout: expected a floating-point or complex input, got dtype ", dtype_name(t.dtype));
  std::vector<int64_t> strides = like_strides(t);
  c.output(t.shape(), t.dtype, t.device, strides);
  c.output(t.shape(), DType::Bool, t.device, strides);
}

template <class T>
void scale_kept(const T* x, const uint8_t* mask, T* out, int64_t n, double keep) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    float scale = float(T(1.0f / float(keep)));
    for (int64_t k = 0; k < n; ++k) out[k] = T(float(x[k]) * (mask[k] ? scale : 0.0f));
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
    default: return run.template operator()<complex128>();
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
  LockRelease lock(out.numel * 4);
  uint64_t bound = threshold(keep);
  uint8_t* to = mask.ptr<uint8_t>();
  {
    std::lock_guard guard(g.busy);
    draw64(g, mask.numel, [&](int64_t k, uint64_t r) { to[k] = (r & kMask53) < bound; });
  }
  scale_kept_any(*x, mask, out, keep);
}

// dropout_scale(Tensor self, Tensor mask, float p): self * mask / (1 - p), what dropout does to gradients.
void infer_dropout_scale(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1);
  if (mask.dtype != DType::Bool || !std::ranges::equal(t.shape(), mask.shape()))
    runtime_error(c.name(), ": expected a bool mask of shape ", shape_text(t.shape()), ", got ", dtype_name(mask.dtype), " ", shape_text(mask.shape()));
  if (!is_differentiable(t.dtype)) runtime_error(c.name(), ": expected a floating-point or complex input, got dtype ", dtype_name(t.dtype));
  c.output(t.shape(), t.dtype, t.device, like_strides(mask));
}
void cpu_dropout_scale(Call& c) {
  Tensor& out = c.out();
  TensorRef x = laid_out_as(c.tensor(0), out), mask = laid_out_as(c.tensor(1), out);
  LockRelease lock(out.numel);
  scale_kept_any(*x, *mask, out, 1 - c.real(2));
}

const Primitives rows{
    {"rand", infer_rand, cpu_rand},
    {"randn", infer_rand, cpu_randn},
    {"rand_like", infer_rand_like, [](Call& c) { fill_uniform(c, c.out(), generator(c, 1), 0, 1); }},
    {"randn_like", infer_rand_like, [](Call& c) { fill_normal(c, c.out(), generator(c, 1), 0, 1); }},
    {"randint.high", infer_randint<0>, cpu_randint<0>},
    {"randint.low", infer_randint<1>, cpu_randint<1>},
    {"randint_like.high", infer_randint_like<0>, cpu_randint_like<0>},
    {"randint_like.low", infer_randint_like<1>, cpu_randint_like<1>},
    {"randperm", infer_randperm, cpu_randperm},
    {"normal_", infer_normal_, cpu_normal_},
    {"uniform_", infer_uniform_, cpu_uniform_},
    {"random_", infer_random_, cpu_random_},
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
    {"dropout_forward", infer_dropout, cpu_dropout},
    {"dropout_scale", infer_dropout_scale, cpu_dropout_scale},
};

}  // namespace
}  // namespace flambeau
