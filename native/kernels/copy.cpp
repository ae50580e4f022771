// Moves and converts elements: copy_into, fill, contiguous, to_dtype, and the casts other kernels use block by block.
//
// Same dtype: bytes move by element size; whole runs are memcpy, transposes go tile by tile through a small buffer.
// Different dtypes: one loop for each pair of the eleven plain types; halves and float8 pass through float32 and
// complex numbers through their real type, so that the number of loops stays small.
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "../core/recording.h"
#include "cast.h"
#include "simd/blocks.h"
#include "strided.h"

namespace flambeau {

namespace {

constexpr int64_t kCastBlock = 512;
constexpr int64_t kGrain = 32768;

// --- casts
// ------------------------------------------------------------------------------------------------------------

template <class To, class From> inline To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) return To(int32_t(v));
  else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint32_t>) return To(int64_t(v));
  else return To(v);
}
template <class From, class To> void cast_plain(void* dst, const void* src, int64_t n) {
  To* __restrict d = static_cast<To*>(dst);
  const From* __restrict s = static_cast<const From*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
}
template <class R> void complex_real(void* dst, const void* src, int64_t n) {
  R* __restrict d = static_cast<R*>(dst);
  const R* __restrict s = static_cast<const R*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = s[2 * i];
}
template <class R> void real_complex(void* dst, const void* src, int64_t n) {
  R* __restrict d = static_cast<R*>(dst);
  const R* __restrict s = static_cast<const R*>(src);
  for (int64_t i = 0; i < n; ++i) d[2 * i] = s[i], d[2 * i + 1] = 0;
}
template <class R> void complex_bool(void* dst, const void* src, int64_t n) {
  bool* __restrict d = static_cast<bool*>(dst);
  const R* __restrict s = static_cast<const R*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = (s[2 * i] != 0) | (s[2 * i + 1] != 0);
}
template <class From, class To>
void complex_complex(void* dst, const void* src, int64_t n) {
  cast_plain<From, To>(dst, src, 2 * n);
}

void half_float(void* dst, const void* src, int64_t n) {
  float* d = static_cast<float*>(dst);
  const float16* s = static_cast<const float16*>(src);
  for (int64_t i = convert_blocks(d, s, n); i < n; ++i) d[i] = float(s[i]);
}
void float_half(void* dst, const void* src, int64_t n) {
  float16* d = static_cast<float16*>(dst);
  const float* s = static_cast<const float*>(src);
  for (int64_t i = convert_blocks(d, s, n); i < n; ++i) d[i] = float16(s[i]);
}
void bfloat_float(void* dst, const void* src, int64_t n) {
  uint32_t* __restrict d = static_cast<uint32_t*>(dst);
  const uint16_t* __restrict s = static_cast<const uint16_t*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = uint32_t(s[i]) << 16;
}
void float_bfloat(void* dst, const void* src, int64_t n) {
  uint16_t* __restrict d = static_cast<uint16_t*>(dst);
  const uint32_t* __restrict s = static_cast<const uint32_t*>(src);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t u = s[i], rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    d[i] = uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}

// float8: sign, kExp exponent bits, the rest mantissa. e4m3fn has no infinity: all ones is NaN, larger values
// (and infinities) become the largest one.
template <int kMantissa, int kBias, bool kInfinity> float float8_value(uint8_t bits) {
  int exponent = (bits & 0x7f) >> kMantissa, mantissa = bits & ((1 << kMantissa) - 1), top = 0x7f >> kMantissa;
  float sign = bits & 0x80 ? -1.f : 1.f;
  if (kInfinity && exponent == top)
    return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (!kInfinity && (bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  return exponent ? sign * std::ldexp(float(mantissa + (1 << kMantissa)), exponent - kBias - kMantissa)
                  : sign * std::ldexp(float(mantissa), 1 - kBias - kMantissa);
}
template <int kMantissa, int kBias, bool kInfinity> uint8_t float8_bits(float v) {
  uint8_t sign = std::signbit(v) ? 0x80 : 0;
  if (v != v) return kInfinity ? uint8_t(sign | 0x7f) : uint8_t(sign | 0x7f);
  float a = std::fabs(v);
  int exponent;
  std::frexp(a, &exponent);                             // a = m 2^exponent, m in [1/2, 1)
  int e = a == 0 || std::isinf(a) ? 1 - kBias : std::max(exponent - 1, 1 - kBias);
  float steps = std::isinf(a) ? 1e30f : std::nearbyint(std::ldexp(a, kMantissa - e));  // in units of the last place
  uint32_t code = steps >= float(1 << 20) ? 0xffffff : uint32_t(steps) + (uint32_t(e + kBias - 1) << kMantissa);
  uint32_t overflow = kInfinity ? (0x7fu >> kMantissa) << kMantissa : 0x7e;
  return uint8_t(sign | std::min(code, overflow));
}
void e4m3_float(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(d)[i] = float8_value<3, 7, false>(static_cast<const uint8_t*>(s)[i]);
}
void float_e4m3(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(d)[i] = float8_bits<3, 7, false>(static_cast<const float*>(s)[i]);
}
void e5m2_float(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(d)[i] = float8_value<2, 15, true>(static_cast<const uint8_t*>(s)[i]);
}
void float_e5m2(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(d)[i] = float8_bits<2, 15, true>(static_cast<const float*>(s)[i]);
}

using PlainTypes =
    std::tuple<bool, uint8_t, int8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, float, double>;
constexpr int kPlain = 11;
int plain_index(DType t) {
  return t <= DType::UInt64 ? int(t) : t == DType::Float32 ? 9 : t == DType::Float64 ? 10 : -1;
}
template <size_t... K> constexpr std::array<CastFn, kPlain * kPlain> plain_casts(std::index_sequence<K...>) {
  return {cast_plain<std::tuple_element_t<K / kPlain, PlainTypes>, std::tuple_element_t<K % kPlain, PlainTypes>>...};
}
constexpr auto kPlainCasts = plain_casts(std::make_index_sequence<kPlain * kPlain>());

// The plain type through which a type is reached, and the loops to and from it.
struct Hub {
  DType plain;
  CastFn to_plain, from_plain;
};
Hub hub_of(DType t) {
  switch (t) {
    case DType::Float16: return {DType::Float32, half_float, float_half};
    case DType::BFloat16: return {DType::Float32, bfloat_float, float_bfloat};
    case DType::Complex64: return {DType::Float32, complex_real<float>, real_complex<float>};
    case DType::Complex128: return {DType::Float64, complex_real<double>, real_complex<double>};
    case DType::Float8_e4m3fn: return {DType::Float32, e4m3_float, float_e4m3};
    case DType::Float8_e5m2: return {DType::Float32, e5m2_float, float_e5m2};
    default: return {t, nullptr, nullptr};
  }
}

void add_step(Cast& c, CastFn f, DType to) {
  c.step[c.steps++] = f;
  c.item[c.steps] = item_size(to);
}

}  // namespace

Cast make_cast(DType from, DType to) {
  Cast c;
  c.item[0] = item_size(from);
  if (from == to) return c;
  if (is_complex(from) && is_complex(to)) {
    add_step(c, from == DType::Complex64 ? complex_complex<float, double> : complex_complex<double, float>, to);
    return c;
  }
  if (is_complex(from) && to == DType::Bool) {
    add_step(c, from == DType::Complex64 ? complex_bool<float> : complex_bool<double>, to);
    return c;
  }
  Hub a = hub_of(from), b = hub_of(to);
  if (a.to_plain) add_step(c, a.to_plain, a.plain);
  if (a.plain != b.plain) add_step(c, kPlainCasts[plain_index(a.plain) * kPlain + plain_index(b.plain)], b.plain);
  if (b.from_plain) add_step(c, b.from_plain, to);
  return c;
}

void Cast::apply(char* dst, const char* src, int64_t n) const {
  if (steps == 0) {
    std::memcpy(dst, src, n * item[0]);
    return;
  }
  if (steps == 1) return step[0](dst, src, n);
  alignas(64) char between[2][kCastBlock * 8];  // intermediate types are real
  for (int64_t at = 0; at < n; at += kCastBlock) {
    int64_t m = std::min(kCastBlock, n - at);
    const char* in = src + at * item[0];
    for (int k = 0; k < steps; ++k) {
      char* out = k + 1 == steps ? dst + at * item[steps] : between[k & 1];
      step[k](out, in, m);
      in = out;
    }
  }
}

void store_scalar(void* dst, const Scalar& value, DType dtype) {
  if (is_float8(dtype)) {
    float f = value.to<float>();
    return make_cast(DType::Float32, dtype).apply(static_cast<char*>(dst), reinterpret_cast<const char*>(&f), 1);
  }
  visit_dtype(dtype, [&]<class T>() {
    T v = value.to<T>();
    std::memcpy(dst, &v, sizeof(T));
  });
}

// --- copy
// -------------------------------------------------------------------------------------------------------------

namespace {

using Space = Strided<2>;

Space copy_space(const Tensor& dst, const Tensor& src) {
  Space s;
  s.operands = 2;
  for (int d = dst.ndim - 1, k = src.ndim - 1; d >= 0; --d, --k) {
    if (k >= 0 && src.sizes[k] != dst.sizes[d] && src.sizes[k] != 1)
      runtime_error("copy: a source of shape ", shape_text(src.shape()), " cannot be expanded to ",
                    shape_text(dst.shape()), ": dimension ", d, " has size ", src.sizes[k], ", which is neither ",
                    dst.sizes[d], " nor 1");
    if (dst.sizes[d] == 1 || dst.numel == 0) continue;  // the strides of nothing may be any numbers
    s.stride[0][s.ndim] = dst.strides[d] * dst.itemsize();
    s.stride[1][s.ndim] = k < 0 || src.sizes[k] == 1 ? 0 : src.strides[k] * src.itemsize();
    s.add_dim(dst.sizes[d]);
  }
  for (int k = 0; k < src.ndim - dst.ndim; ++k)
    if (src.sizes[k] != 1)
      runtime_error("copy: expected a tensor that broadcasts to ", shape_text(dst.shape()), " but got ",
                    shape_text(src.shape()));
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    s.stride[0][0] = dst.itemsize(), s.stride[1][0] = src.itemsize();
    s.add_dim(1);
  }
  return s;
}

// dst[j][i] = src[i][j] for a plane whose source runs along the destination's outer dimension: 64-byte squares are read
// whole into a buffer and written whole, so that no cache line is touched twice.
template <class U>
void transpose_plane(char* dst, int64_t dst_step, const char* src, int64_t src_step, int64_t n, int64_t first,
                     int64_t last) {
  constexpr int64_t kTile = std::max<int64_t>(64 / sizeof(U), 8);
  U tile[kTile][kTile];
  for (int64_t j = first; j < last; j += kTile) {
    const int64_t width = std::min(kTile, last - j);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t height = std::min(kTile, n - i);
      for (int64_t y = 0; y < height; ++y)
        std::memcpy(tile[y], src + (i + y) * src_step + j * int64_t(sizeof(U)), width * sizeof(U));
      if constexpr (kTransposes && sizeof(U) == 4) {
        if (width == kTile && height == kTile) {
          for (int64_t x = 0; x < kTile; x += 8)
            for (int64_t y = 0; y < kTile; y += 8)
              transpose_8x8(reinterpret_cast<const float*>(&tile[y][x]), kTile, dst + (j + x) * dst_step + (i + y) * 4,
                            dst_step);
          continue;
        }
      }
      for (int64_t x = 0; x < width; ++x) {
        U* out = reinterpret_cast<U*>(dst + (j + x) * dst_step) + i;
        if (height == kTile)
          for (int64_t y = 0; y < kTile; ++y) out[y] = tile[y][x];
        else
          for (int64_t y = 0; y < height; ++y) out[y] = tile[y][x];
      }
    }
  }
}

// True when the plane form fits: the destination runs along dimension 0, the source along another one, moved to 1 here.
bool arrange_transpose(Space& s, int64_t item) {
  if (s.ndim < 2 || s.stride[0][0] != item || s.size[0] < 8) return false;
  for (int d = 1; d < s.ndim; ++d) {
    if (s.stride[1][d] != item || s.size[d] < 4) continue;
    s.swap_dims(1, d);
    return true;
  }
  return false;
}

template <class U> void copy_transposed(const Space& s, char* dst, const char* src) {
  constexpr int64_t kTile = std::max<int64_t>(64 / sizeof(U), 8);
  const int64_t strips = (s.size[1] + kTile - 1) / kTile;
  int64_t planes = 1;
  for (int d = 2; d < s.ndim; ++d) planes *= s.size[d];
  parallel_for(planes * strips, std::max<int64_t>(1, kGrain / (s.size[0] * kTile)), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      int64_t plane = at / strips, first = at % strips, last = std::min(strips, first + end - at);
      char* d = dst;
      const char* p = src;
      for (int k = 2; k < s.ndim; ++k) {
        int64_t index = plane % s.size[k];
        plane /= s.size[k];
        d += index * s.stride[0][k];
        p += index * s.stride[1][k];
      }
      transpose_plane<U>(d, s.stride[0][1], p, s.stride[1][0], s.size[0], first * kTile,
                         std::min(last * kTile, s.size[1]));
      at += last - first;
    }
  });
}

template <class U> void copy_runs(const Space& s, char* dst, const char* src, int64_t begin, int64_t end) {
  int64_t index[kMaxDims], rest = begin;
  for (int d = 0; d < s.ndim; ++d) {
    index[d] = rest % s.size[d];
    rest /= s.size[d];
    dst += index[d] * s.stride[0][d];
    src += index[d] * s.stride[1][d];
  }
  while (begin < end) {
    int64_t n = std::min(end - begin, s.size[0] - index[0]);
    move_run<U>(dst, s.stride[0][0], src, s.stride[1][0], n);
    begin += n;
    index[0] += n;
    dst += n * s.stride[0][0];
    src += n * s.stride[1][0];
    for (int d = 0; d + 1 < s.ndim && index[d] == s.size[d]; ++d) {
      dst += s.stride[0][d + 1] - index[d] * s.stride[0][d];
      src += s.stride[1][d + 1] - index[d] * s.stride[1][d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

// Few elements side by side, many such groups: strips of groups, one element of all of them after the other.
constexpr int64_t kNarrow = 8, kStrip = 512;
template <class U> void copy_narrow(const Space& s, char* dst, const char* src) {
  const int64_t strips = (s.size[1] + kStrip - 1) / kStrip;
  int64_t planes = 1;
  for (int d = 2; d < s.ndim; ++d) planes *= s.size[d];
  parallel_for(planes * strips, std::max<int64_t>(1, kGrain / (s.size[0] * kStrip)), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      int64_t rest = at / strips;
      const int64_t first = at % strips * kStrip, n = std::min(kStrip, s.size[1] - first);
      char* d = dst + first * s.stride[0][1];
      const char* p = src + first * s.stride[1][1];
      for (int k = 2; k < s.ndim; ++k) {
        d += rest % s.size[k] * s.stride[0][k];
        p += rest % s.size[k] * s.stride[1][k];
        rest /= s.size[k];
      }
      for (int64_t j = 0; j < s.size[0]; ++j)
        move_run<U>(d + j * s.stride[0][0], s.stride[0][1], p + j * s.stride[1][0], s.stride[1][1], n);
    }
  });
}

void copy_converted(const Space& s, const Tensor& dst, const Tensor& src, const Cast& cast) {
  const int64_t n = dst.numel, in = src.itemsize(), out = dst.itemsize();
  const bool direct_in = s.linear(1, in), direct_out = s.linear(0, out);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char raw[kCastBlock * 16], made[kCastBlock * 16];
    for (int64_t at = begin; at < end; at += kCastBlock) {
      const int64_t m = std::min(kCastBlock, end - at);
      const char* p = src.data + at * in;
      if (!direct_in) {
        visit_size(in, [&]<class U>() { block_move<true, U>(s, 1, src.data, at, m, raw); });
        p = raw;
      }
      cast.apply(direct_out ? dst.data + at * out : made, p, m);
      if (!direct_out) visit_size(out, [&]<class U>() { block_move<false, U>(s, 0, dst.data, at, m, made); });
    }
  });
}

std::pair<const char*, const char*> reach(const Tensor& t) {
  const char *low = t.data, *high = t.data;
  for (int d = 0; d < t.ndim; ++d) {
    int64_t far = (t.sizes[d] - 1) * t.strides[d] * t.itemsize();
    (far < 0 ? low : high) += far;
  }
  return {low, high + t.itemsize()};
}
bool same_place(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d] || (a.sizes[d] != 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

}  // namespace

void copy_into(Tensor& dst, const Tensor& src) {
  need_values(dst), need_values(src);
  if (__builtin_expect(tls.dispatch_modes != 0, 0)) about_to_write(dst);
  if (dst.device.type != DeviceType::CPU || src.device.type != DeviceType::CPU) return copy_by_table(dst, src);
  copy_on_cpu(dst, src);
}

// The memory of both is this process's own.
void copy_on_cpu(Tensor& dst, const Tensor& src) {
  if (dst.dtype == src.dtype && dst.contiguous() && src.contiguous() && dst.ndim == src.ndim &&
      std::equal(dst.sizes, dst.sizes + dst.ndim, src.sizes) && dst.storage != src.storage) {
    if (dst.numel == 0) return;
    const int64_t n = dst.nbytes();
    if (n <= 4 * kGrain) {
      std::memcpy(dst.data, src.data, n);
      return;
    }
    LockRelease lock(dst.numel, {&dst, &src});
    return parallel_for(n, 4 * kGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(dst.data + begin, src.data + begin, end - begin);
    });
  }
  Space s = copy_space(dst, src);
  if (dst.numel == 0 || same_place(dst, src)) return;
  TensorRef apart;  // the source shares memory with the destination: read it before anything is written
  const Tensor* from = &src;
  if (dst.storage == src.storage) {
    auto [low, high] = reach(dst);
    auto [first, last] = reach(src);
    if (first < high && low < last) {
      apart = empty(src.shape(), src.dtype, src.device);
      copy_on_cpu(*apart, src);
      from = apart.get();
      s = copy_space(dst, *from);
    }
  }
  LockRelease lock(dst.numel, {&dst, from});
  if (dst.dtype != from->dtype) return copy_converted(s, dst, *from, make_cast(from->dtype, dst.dtype));
  visit_size(dst.itemsize(), [&]<class U>() {
    if (arrange_transpose(s, sizeof(U))) return copy_transposed<U>(s, dst.data, from->data);
    if (s.ndim > 1 && s.size[0] <= kNarrow && s.size[1] > 4 * s.size[0]) return copy_narrow<U>(s, dst.data, from->data);
    parallel_for(dst.numel, kGrain,
                 [&](int64_t begin, int64_t end) { copy_runs<U>(s, dst.data, from->data, begin, end); });
  });
}

// --- fill
// -------------------------------------------------------------------------------------------------------------

void check_fits(const Scalar& value, DType dtype) {
  bool fits = true;
  if (value.category == Category::Complex && !is_complex(dtype)) fits = value.im == 0;
  if (is_integral(dtype)) {
    int bits = int(8 * item_size(dtype));
    bool is_signed = dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int32 || dtype == DType::Int64;
    double high = std::ldexp(1.0, is_signed ? bits - 1 : bits),
           low = is_signed ? -high : -high + 1;  // unsigned: -1 wraps
    if (value.huge) fits = dtype == DType::UInt64;
    else if (value.integral()) fits &= bits == 64 || (double(value.i) >= low && double(value.i) < high);
    else fits &= value.re > low - 1 && value.re < high;
  } else if (!value.integral() && (dtype == DType::Float32 || dtype == DType::Complex64 || dtype == DType::BFloat16)) {
    fits &= !std::isfinite(value.re) || std::fabs(value.re) <= double(std::numeric_limits<float>::max());
  } else if (dtype == DType::Float16) {
    const double v = value.real();
    fits &= !std::isfinite(v) || std::fabs(v) <= 65504;
  }
  if (!fits) runtime_error("the number lies outside the range of ", dtype_name(dtype));
}

void fill(Tensor& dst, const Scalar& value) {
  need_values(dst);
  if (__builtin_expect(tls.dispatch_modes != 0, 0)) about_to_write(dst);
  check_fits(value, dst.dtype);
  if (dst.device.type != DeviceType::CPU) return fill_by_table(dst, value);
  fill_on_cpu(dst, value);
}

void fill_on_cpu(Tensor& dst, const Scalar& value) {
  if (dst.numel == 0) return;
  alignas(16) char bytes[16];
  store_scalar(bytes, value, dst.dtype);
  Strided<1> s;
  s.operands = 1;
  for (int d = dst.ndim - 1; d >= 0; --d) {
    if (dst.sizes[d] == 1) continue;
    s.stride[0][s.ndim] = dst.strides[d] * dst.itemsize();
    s.add_dim(dst.sizes[d]);
  }
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    s.stride[0][0] = dst.itemsize();
    s.add_dim(1);
  }
  LockRelease lock(dst.numel, {&dst});
  visit_size(dst.itemsize(), [&]<class U>() {
    const U v = *reinterpret_cast<const U*>(bytes);
    if (s.linear(0, sizeof(U)))
      return parallel_for(dst.numel, kGrain, [&](int64_t begin, int64_t end) {
        std::fill(reinterpret_cast<U*>(dst.data) + begin, reinterpret_cast<U*>(dst.data) + end, v);
      });
    U block[64];
    std::fill_n(block, 64, v);
    parallel_for(dst.numel, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += 64)
        block_move<false, U>(s, 0, dst.data, at, std::min<int64_t>(64, end - at), reinterpret_cast<char*>(block));
    });
  });
}

TensorRef contiguous(const Tensor& t) {
  if (t.contiguous()) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty(t.shape(), t.dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

TensorRef to_dtype(const Tensor& t, DType dtype) {
  if (t.dtype == dtype) return TensorRef::borrow(const_cast<Tensor*>(&t));
  bool dense = !t.contiguous() && t.numel > 0 && !may_overlap(t);
  if (dense) {
    auto [low, high] = reach(t);
    dense = high - low == t.nbytes() && low == t.data;
  }
  TensorRef copy = dense ? empty_strided(t.shape(), t.stride(), dtype, t.device) : empty(t.shape(), dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

}  // namespace flambeau
