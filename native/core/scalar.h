// A Python number on its way through native code.
#pragma once
#include "dtype.h"

namespace flambeau {

struct Scalar {
  Category category = Category::Integer;  // what kind of Python number it was
  union {
    int64_t i;
    double re;
  };
  double im = 0;
  bool huge = false;  // an integer of 2**63 or more: i has the bits of its uint64

  Scalar() : i(0) {}
  Scalar(bool v) : category(Category::Bool), i(v) {}
  Scalar(int v) : category(Category::Integer), i(v) {}
  Scalar(int64_t v) : category(Category::Integer), i(v) {}
  Scalar(double v) : category(Category::Floating), re(v) {}
  Scalar(complex128 v) : category(Category::Complex), re(v.real()), im(v.imag()) {}

  bool integral() const { return category <= Category::Integer; }
  double real() const { return !integral() ? re : huge ? double(uint64_t(i)) : double(i); }

  // Conversion as a C cast does it; complex to real keeps the real part.
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
      using R = typename T::value_type;
      return integral() ? T(R(real()), 0) : T(R(re), R(im));
    } else if constexpr (std::is_same_v<T, bool>) {
      return integral() ? i != 0 : (re != 0 || im != 0);
    } else if constexpr (std::is_integral_v<T>) {
      // through int64: a float outside T's range wraps instead of being undefined
      if (integral()) return T(i);
      return re >= -9223372036854775808.0 && re < 9223372036854775808.0 ? T(int64_t(re)) : T(INT64_MIN);
    } else if constexpr (std::is_same_v<T, double>) {
      return real();
    } else {
      return integral() && !huge ? T(float(i)) : T(float(real()));
    }
  }
  // The dtype a lone Python number has in promotion.
  DType dtype(DType default_float) const {
    switch (category) {
      case Category::Bool: return DType::Bool;
      case Category::Integer: return DType::Int64;
      case Category::Floating: return default_float;
      default: return complex_of(default_float);
    }
  }
};

}  // namespace flambeau
