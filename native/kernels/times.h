// The product of complex numbers as numeric code wants it.
#pragma once
#include <complex>

namespace flambeau {

// Without the C standard's repair of infinities, which costs a call. (Files of simd/ have their own, compiled for their
// instruction set.)
template <class R>
inline std::complex<R> times(std::complex<R> x, std::complex<R> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

}  // namespace flambeau
