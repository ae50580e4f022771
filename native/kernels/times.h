// Products and conjugates of real and complex numbers, as numeric code wants them.
#pragma once
#include <complex>
#include <type_traits>

namespace flambeau {

// Without the C standard's repair of infinities, which costs a call. (Files of simd/ have their own, compiled for their
// instruction set.)
template <class R>
inline std::complex<R> times(std::complex<R> x, std::complex<R> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}
template <class T>
  requires std::is_arithmetic_v<T>
inline T times(T x, T y) { return x * y; }

template <class R>
inline std::complex<R> conjugate(std::complex<R> x) { return std::conj(x); }
template <class T>
  requires std::is_arithmetic_v<T>
inline T conjugate(T x) { return x; }

}  // namespace flambeau
