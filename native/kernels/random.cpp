// Random tensors: which uniform, normal and integer numbers of the engine become which elements, by PyTorch's rules.
#include <cmath>
#include <limits>
#include <numeric>

#include "normal.h"
#include "random.h"
#include "simd_casts.h"

namespace flambeau {
namespace {

// --- uniform_ and normal_ --------------------------------------------------------------------------------------------

template <class T>
void half_uniform(Generator& g, T* to, int64_t n, double from, double end) {
  const float low = float(from), width = float(end) - low, open = float(T(float(end)));
  const float near = open - std::max(std::abs(open) * 0x1p-7f, 0x1p-14f);  // what is lower is not rounded to the end
  float buffer[512];
  for (int64_t k = 0; k < n; k += 512) {
    int64_t take = std::min<int64_t>(512, n - k);
    uniform24(g, buffer, take);
    for (int64_t j = 0; j < take; ++j) buffer[j] = std::fma(buffer[j], width, low);
    cast_run(to + k, buffer, take);
    for (int64_t j = 0; j < take; ++j)  // rounding must not reach the open end
      if (buffer[j] > near && float(T(buffer[j])) == open) to[k + j] = T(low);
  }
}

}  // namespace

void fill_uniform(const Call& c, Tensor& t, Generator& g, double from, double end) {
  refuse_float8(c, t);
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
          float value = std::fma(x[j], width, low);  // one rounding, as PyTorch's, in every build
          x[j] = value == high ? low : value;
        }
      }
    });
  } else if (t.dtype == DType::Float64) {
    double width = end - from;
    fill_run<double>(c, t, DType::Float64, g, [&](double* to, int64_t n) {
      draw64(g, n, [&](int64_t k, uint64_t r) {
        double value = std::fma(double(int64_t(r & kMask53)) * 0x1p-53, width, from);
        to[k] = value == end ? from : value;
      });
    });
  } else if (t.dtype == DType::Float16) {
    fill_run<float16>(c, t, t.dtype, g, [&](float16* to, int64_t n) { half_uniform(g, to, n, from, end); });
  } else {
    fill_run<bfloat16>(c, t, t.dtype, g, [&](bfloat16* to, int64_t n) { half_uniform(g, to, n, from, end); });
  }
}

namespace {

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
    parallel_for(take / 16, 1 << 12,
                 [&](int64_t a, int64_t b) { box_muller(to + k + 16 * a, 16 * (b - a), mean, std); });
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
    cast_run(at, x, 16);
  };
  for (int64_t k = 0; k + 16 <= n; k += 16) block(to + k);
  if (n % 16) block(to + n - 16);
}

void fill_normal(const Call& c, Tensor& t, Generator& g, double mean, double std) {
  refuse_float8(c, t);
  if (is_complex(t.dtype)) {  // the two parts share the variance
    TensorRef real = as_real(t);
    return fill_normal(c, *real, g, mean, std * M_SQRT1_2);
  }
  if (t.numel < 16 || !t.contiguous())
    return each_double(c, t, g, [&](Generator& g) { return g.gauss() * std + mean; });
  LockRelease lock(t.numel * 8);
  Drawing drawing(g);
  switch (t.dtype) {
    case DType::Float32: return block_normal(g, t.ptr<float>(), t.numel, float(mean), float(std));
    case DType::Float64: return block_normal(g, t.ptr<double>(), t.numel, mean, std);
    case DType::Float16: return half_normal(g, t.ptr<float16>(), t.numel, float(mean), float(std));
    default: return half_normal(g, t.ptr<bfloat16>(), t.numel, float(mean), float(std));
  }
}

void require_normal(const Call& c, const Tensor& t, double std) {
  if (!(std >= 0)) runtime_error(c.name(), ": std must not be negative, got ", std);
  if (!is_differentiable(t.dtype))
    not_implemented(c.name(), ": expected a floating-point or complex tensor, got ", dtype_name(t.dtype));
}


void infer_normal_(Call& c) {
  infer_self(c);
  require_normal(c, c.out(), c.real(2));
}
void cpu_normal_(Call& c) { fill_normal(c, c.out(), generator(c, 3), c.real(1), c.real(2)); }

double largest(DType d) {
  switch (real_of(d)) {
    case DType::Float16: return 65504;
    case DType::BFloat16: return 0x1.FEp127;
    case DType::Float32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}
void check_range(const Call& c, double from, double to) {
  if (!(from <= to)) runtime_error(c.name(), ": from=", from, " must not be above to=", to);
  if (!(to - from <= largest(c.tensor(0).dtype)))
    runtime_error(c.name(), ": the range from ", from, " to ", to, " is too wide for ",
                  dtype_name(c.tensor(0).dtype));
}
void infer_uniform_(Call& c) {
  infer_self(c);
  if (!is_differentiable(c.out().dtype))
    not_implemented(c.name(), ": expected a floating-point or complex tensor, got ", dtype_name(c.out().dtype));
  check_range(c, c.real(1), c.real(2));
}
void cpu_uniform_(Call& c) { fill_uniform(c, c.out(), generator(c, 3), c.real(1), c.real(2)); }

// --- rand, randn and their like --------------------------------------------------------------------------------------

void require_sampled(const Call& c, const Tensor& t) {
  if (!is_differentiable(t.dtype))
    not_implemented(c.name(), ": expected a floating-point or complex tensor, got ", dtype_name(t.dtype));
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
  if (from >= to) runtime_error(c.name(), ": from=", from, " must be below to=", to);
  Limits l = limits(d);
  if (double(from) < l.low || double(from) > l.high)
    runtime_error(c.name(), ": from=", from, " lies outside the range of ", dtype_name(d));
  if (double(to - 1) > l.high) runtime_error(c.name(), ": the largest number, to - 1 = ", to - 1, ", lies outside the "
                                             "range of ", dtype_name(d));
}

// Integers of [from, to). In a floating dtype a bound that rounds out of the range is moved in by one step of the
// dtype.
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

// random_(self, int? from, int? to): without `to`, up to the greatest integer below which the dtype holds every one.
uint64_t greatest(DType d) {
  switch (d) {
    case DType::Float64: return uint64_t(1) << 53;
    case DType::Float32: return 1 << 24;
    case DType::Float16: return 1 << 11;
    case DType::BFloat16: return 1 << 8;
    case DType::Int64: return ~uint64_t(0) >> 1;
    case DType::UInt64: return ~uint64_t(0);
    default: return uint64_t(limits(d).high);
  }
}
void infer_random_(Call& c) {
  infer_self(c);
  DType d = c.out().dtype;
  int64_t from = c.has(1) ? c.integer(1) : 0;
  if (is_complex(d)) not_implemented(c.name(), ": no integers for dtype ", dtype_name(d));
  if (c.has(2)) return check_integers(c, d, from, c.integer(2));
  if (double(from) < limits(d).low || (from > 0 && uint64_t(from) > greatest(d)))
    runtime_error(c.name(), ": from=", from, " lies outside what ", dtype_name(d), " holds exactly, up to ",
                  greatest(d));
}
void cpu_random_(Call& c) {
  Tensor& t = c.out();
  Generator& g = generator(c, 3);
  int64_t from = c.has(1) ? c.integer(1) : 0;
  if (c.has(2)) return fill_range(c, t, g, from, c.integer(2));
  uint64_t range = greatest(t.dtype) - uint64_t(from) + 1;  // 0: all 64 bits
  if (c.has(1) || t.dtype == DType::Int64 || t.dtype == DType::Float64 || t.dtype == DType::UInt64)
    return fill_integers(c, t, g, range, from);
  fill_run<int64_t>(c, t, DType::Int64, g, [&](int64_t* to, int64_t n) {  // one word each, whatever the range
    for (int64_t k = 0; k < n; ++k) to[k] = int64_t(g.r32() % range);
  });
}

void infer_randperm(Call& c) {
  int64_t n = c.integer(0);
  if (n < 0) runtime_error(c.name(), ": n must not be negative, got ", n);
  Options o = read_options(c, 2, DType::Int64);
  const DType d = o.dtype;
  const int bits = d == DType::BFloat16 ? 8 : d == DType::Float16 ? 11 : d == DType::Float32 ? 24 : 53;
  if (n > 0 && (double(n - 1) > limits(d).high || (is_floating(d) && n - 1 > int64_t(1) << bits)))
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
    Drawing drawing(g);
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
};

}  // namespace
}  // namespace flambeau
