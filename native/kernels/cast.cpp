// Conversion of contiguous runs between dtypes, and of one number to any dtype.
//
// One loop for each pair of the eleven plain types; halves and float8 pass through float32 and complex numbers through
// their real type, so that the number of loops stays small.
#include "cast.h"

#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "simd_casts.h"

namespace flambeau {

const SimdCasts* simd_cast_levels[2];

namespace {

constexpr int64_t kCastBlock = 512;

template <class To, class From> inline To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) return To(int32_t(v));
  else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint32_t>) return To(int64_t(v));
  else return To(v);
}
template <class From, class To> void cast_plain(void* dst, const void* src, int64_t n) {
  To* __restrict d = static_cast<To*>(dst);
  const From* __restrict s = static_cast<const From*>(src);
  if constexpr (std::is_same_v<From, int64_t> && std::is_floating_point_v<To>) return cast_run(d, s, n);
  if constexpr (std::is_same_v<From, bool> && !std::is_same_v<To, bool>)  // bytes go side by side, bools do not
    return cast_plain<uint8_t, To>(dst, src, n);
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

template <class From, class To> void cast_simd(void* dst, const void* src, int64_t n) {
  cast_run(static_cast<To*>(dst), static_cast<const From*>(src), n);
}
constexpr CastFn half_float = cast_simd<float16, float>, float_half = cast_simd<float, float16>;

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
// The kinds of AMD: neither infinity nor -0, whose code is the only NaN; what is too large becomes NaN.
template <int kMantissa, int kBias> float fnuz_value(uint8_t bits) {
  if (bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (bits & 0x7f) >> kMantissa, mantissa = bits & ((1 << kMantissa) - 1);
  const float a = exponent ? std::ldexp(float(mantissa + (1 << kMantissa)), exponent - kBias - kMantissa)
                           : std::ldexp(float(mantissa), 1 - kBias - kMantissa);
  return bits & 0x80 ? -a : a;
}
template <int kMantissa, int kBias> uint8_t fnuz_bits(float v) {
  const float a = std::fabs(v);
  if (!(a < std::ldexp(1.f, (0x7f >> kMantissa) - kBias + 1))) return 0x80;
  int exponent;
  std::frexp(a, &exponent);
  const int e = a == 0 ? 1 - kBias : std::max(exponent - 1, 1 - kBias);
  const uint32_t code = uint32_t(std::nearbyint(std::ldexp(a, kMantissa - e))) + (uint32_t(e + kBias - 1) << kMantissa);
  if (code > 0x7f) return 0x80;
  return uint8_t(code | (std::signbit(v) && code ? 0x80 : 0));
}
// Powers of two without a sign; 255 is NaN. Halfway and above goes up, except below the smallest normal float.
float e8m0_value(uint8_t bits) {
  return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.f, int(bits) - 127);
}
uint8_t e8m0_bits(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  const uint32_t exponent = u >> 23 & 0xff, rest = u & 0x7fffff;
  if (exponent == 0xff) return 0xff;
  const bool up = exponent ? rest >= 0x400000 : rest > 0x400000;
  return uint8_t(exponent + up);
}

// Loops of conversions that go element by element.
template <auto f> void byte_float(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(d)[i] = f(static_cast<const uint8_t*>(s)[i]);
}
template <auto f> void float_byte(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(d)[i] = f(static_cast<const float*>(s)[i]);
}
void chalf_float(void* d, const void* s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(d)[i] = float(static_cast<const float16*>(s)[2 * i]);
}
void float_chalf(void* d, const void* s, int64_t n) {
  float16* to = static_cast<float16*>(d);
  for (int64_t i = 0; i < n; ++i) to[2 * i] = float16(static_cast<const float*>(s)[i]), to[2 * i + 1] = 0;
}
void chalf_complex(void* d, const void* s, int64_t n) { half_float(d, s, 2 * n); }
void complex_chalf(void* d, const void* s, int64_t n) { float_half(d, s, 2 * n); }
void chalf_bool(void* d, const void* s, int64_t n) {
  const float16* from = static_cast<const float16*>(s);
  for (int64_t i = 0; i < n; ++i) static_cast<bool*>(d)[i] = (from[2 * i] != 0) | (from[2 * i + 1] != 0);
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
    case DType::BFloat16:
      return {DType::Float32, cast_simd<bfloat16, float>, cast_simd<float, bfloat16>};
    case DType::Complex64: return {DType::Float32, complex_real<float>, real_complex<float>};
    case DType::Complex128: return {DType::Float64, complex_real<double>, real_complex<double>};
    case DType::Float8_e4m3fn:
      return {DType::Float32, byte_float<float8_value<3, 7, false>>, float_byte<float8_bits<3, 7, false>>};
    case DType::Float8_e5m2:
      return {DType::Float32, byte_float<float8_value<2, 15, true>>, float_byte<float8_bits<2, 15, true>>};
    case DType::Float8_e4m3fnuz: return {DType::Float32, byte_float<fnuz_value<3, 8>>, float_byte<fnuz_bits<3, 8>>};
    case DType::Float8_e5m2fnuz: return {DType::Float32, byte_float<fnuz_value<2, 16>>, float_byte<fnuz_bits<2, 16>>};
    case DType::Float8_e8m0fnu: return {DType::Float32, byte_float<e8m0_value>, float_byte<e8m0_bits>};
    case DType::Complex32: return {DType::Float32, chalf_float, float_chalf};
    case DType::Float4_e2m1fn_x2: case DType::QInt8: case DType::QUInt8: case DType::QInt32:
      not_implemented("elements of ", dtype_name(t), " have no value of their own to convert; view their bytes");
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
  if (from == DType::Complex32 && is_complex(to)) {
    add_step(c, chalf_complex, DType::Complex64);
    if (to != DType::Complex64) add_step(c, complex_complex<float, double>, to);
    return c;
  }
  if (is_complex(from) && to == DType::Complex32) {
    if (from != DType::Complex64) add_step(c, complex_complex<double, float>, DType::Complex64);
    add_step(c, complex_chalf, to);
    return c;
  }
  if (is_complex(from) && is_complex(to)) {
    add_step(c, from == DType::Complex64 ? complex_complex<float, double> : complex_complex<double, float>, to);
    return c;
  }
  if (is_complex(from) && to == DType::Bool) {
    add_step(c, from == DType::Complex32   ? chalf_bool
                : from == DType::Complex64 ? complex_bool<float>
                                           : complex_bool<double>, to);
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
  alignas(64) char between[2][kCastBlock * 8];  // intermediate types have 8 bytes at most
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
  if (dtype == DType::Float4_e2m1fn_x2) {
    if (value.real() != 0) not_implemented("float4_e2m1fn_x2 holds two numbers in an element: fill its bytes (uint8)");
    *static_cast<uint8_t*>(dst) = 0;
    return;
  }
  if (is_float8(dtype)) {
    float f = value.to<float>();
    return make_cast(DType::Float32, dtype).apply(static_cast<char*>(dst), reinterpret_cast<const char*>(&f), 1);
  }
  if (dtype == DType::Complex32) {
    const complex64 z = value.to<complex64>();
    const float16 parts[2] = {float16(z.real()), float16(z.imag())};
    std::memcpy(dst, parts, sizeof parts);
    return;
  }
  visit_dtype(dtype, [&]<class T>() {
    T v = value.to<T>();
    std::memcpy(dst, &v, sizeof(T));
  });
}

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
    else fits &= value.re >= (is_signed ? low : 0) && (bits == 64 ? value.re < high : value.re <= high - 1);
  } else if (dtype == DType::Complex32) {
    fits = (!std::isfinite(value.re) || std::fabs(value.re) <= 65504) &&
           (!std::isfinite(value.im) || std::fabs(value.im) <= 65504);
  } else if (!value.integral() && (dtype == DType::Float32 || dtype == DType::Complex64 || dtype == DType::BFloat16)) {
    fits &= !std::isfinite(value.re) || std::fabs(value.re) <= double(std::numeric_limits<float>::max());
  } else if (dtype == DType::Float16) {
    const double v = value.real();
    fits &= !std::isfinite(v) || std::fabs(v) <= 65504;
  }
  if (!fits) runtime_error("the number lies outside the range of ", dtype_name(dtype));
}

}  // namespace flambeau
