// Products, quotients and two functions of single complex numbers, for files of simd/.
#pragma once
#include <complex>

#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> inline T times(T a, T b) {  // without the C standard's repair of infinities
  return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}
// Smith's scaling, without branches: the larger part of the divisor divides the smaller.
template <class T> inline T over(T a, T b) {
  using R = typename T::value_type;
  const R c = b.real(), d = b.imag(), x = a.real(), y = a.imag();
  const bool swap = abs_(c) < abs_(d), zero = (c == 0) & (d == 0);
  const R large = swap ? d : c, r = zero ? R(0) : (swap ? c : d) / large;
  const R scale = zero ? inf<R> : R(1) / (large + (swap ? c : d) * r);
  const R p = swap ? y : x, q = swap ? x : y;  // divided by i, the parts change places
  const R first = (p + q * r) * scale, second = (swap ? p * r - q : q - p * r) * scale;
  return T(zero ? x * scale : first, zero ? y * scale : second);
}
template <class T> inline T log1p_complex(T z) {  // |1 + z| through x (2 + x) + y^2: no cancellation at small z
  using R = typename T::value_type;
  R x = z.real(), y = z.imag(), theta = std::atan2(y, x + R(1)), r2 = x * (R(2) + x) + y * y;
  if (abs_(x) < R(0.5) && abs_(y) < R(0.5)) return T(R(0.5) * std::log1p(r2), theta);
  return T(std::log(std::hypot(x + R(1), y)), theta);
}
template <class T> inline T expm1_complex(T z) {
  using R = typename T::value_type;
  R x = z.real(), y = z.imag(), s = std::sin(y * R(0.5)), a = std::exp(x);
  if (abs_(x) == inf<R> && !(abs_(y) < inf<R>)) return x < 0 ? T(R(-1), R(0)) : T(x, nan<R>);  // the angle is unknown
  // an imaginary part of 0 stays one; the sum with 0 makes a real part of -0 the +0 that exp(0) - 1 is
  return T(std::expm1(x) * std::cos(y) - R(2) * s * s + R(0), y == 0 ? y : a * std::sin(y));
}
// The dtypes of operators that make complex numbers of two real ones.
inline void complex_result(const Call& c, DType& compute, DType& result) {
  if (c.args[0].tag == Tag::Tensor && c.args[1].tag == Tag::Tensor && c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error(c.name(), ": both parts must have one dtype, got ", dtype_name(c.tensor(0).dtype), " and ",
                  dtype_name(c.tensor(1).dtype));
  if (compute != DType::Float32 && compute != DType::Float64 && compute != DType::Float16)
    runtime_error(c.name(), ": both parts must be float16, float32 or float64, got ", dtype_name(compute));
  result = complex_of(compute);
  if (c.given && c.given->dtype != result)
    runtime_error(c.name(), ": out= must be ", dtype_name(result), ", as the result, got ", dtype_name(c.given->dtype));
}

}  // namespace flambeau::FLAMBEAU_SIMD
