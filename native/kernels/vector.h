// Vectors of 32 bytes in the compiler's vector extension, and the few functions row kernels need of them.
//
// One spelling serves AVX2 and NEON, and the number of lanes is part of the algorithm: sums add the same numbers in the
// same order on every machine.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

#include "../core/dtype.h"
#include "move.h"
#include "simd_casts.h"

namespace flambeau {

template <class T> struct VectorOf {
  typedef T type __attribute__((vector_size(32)));
};
template <class T> using Vector = typename VectorOf<T>::type;
template <class T> inline constexpr int kLanes = 32 / int(sizeof(T));
// The signed integer as wide as T: what comparisons of vectors yield.
template <class T>
using LaneInt = std::conditional_t<
    sizeof(T) == 8, int64_t,
    std::conditional_t<sizeof(T) == 4, int32_t, std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;
template <class T> inline constexpr bool kVectorizable = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <class T>
inline Vector<T> load_vector(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, 32);
  return v;
}
template <class T>
inline void store_vector(T* p, Vector<T> v) { std::memcpy(p, &v, 32); }
template <class T>
inline Vector<T> splat(T x) {
  Vector<T> v{};
  for (int i = 0; i < kLanes<T>; ++i) v[i] = x;
  return v;
}

// Each pair of neighbouring lanes, the second first.
inline Vector<float> neighbours_exchanged(Vector<float> v) {
  return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}
inline Vector<double> neighbours_exchanged(Vector<double> v) { return __builtin_shufflevector(v, v, 1, 0, 3, 2); }

template <class To, class From>
inline To bit_copy(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// e^x of each lane for x <= 88 (709 for double): 2^k e^r with |r| <= ln 2 / 2 and a Taylor polynomial whose remainder
// is below the rounding error. -inf gives 0, NaN stays NaN, subnormal results are right (the power of two is applied in
// two parts; the first is 0 for the lowest x, since a product that vanishes takes some processors a hundred cycles).
template <class T>
inline Vector<T> exp_vector(Vector<T> x) {
  using I = LaneInt<T>;
  constexpr bool single = sizeof(T) == 4;
  constexpr T magic = single ? T(12582912.0) : T(6755399441055744.0);  // 1.5 * 2^mantissa: adding it rounds to integer
  constexpr T lowest = (single ? -170 : -1170) * std::numbers::ln2_v<T>, highest = single ? T(89) : T(710);
  constexpr T ln2_high = single ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T ln2_low = single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  x = x < lowest ? splat<T>(lowest) : x;  // comparisons with NaN are false: NaN passes
  x = x > highest ? splat<T>(highest) : x;
  Vector<T> shifted = x * T(1.44269504088896340736) + magic;
  Vector<T> k = shifted - magic;
  Vector<T> r = (x - k * ln2_high) - k * ln2_low;
  Vector<I> exponent = bit_copy<Vector<I>>(shifted) - bit_copy<I>(magic);
  Vector<T> p;
  if constexpr (single) {
    p = splat<T>(T(1.0 / 5040));
    p = p * r + T(1.0 / 720);
  } else {
    p = splat<T>(T(1.0 / 6227020800.0));
    p = p * r + T(1.0 / 479001600.0);
    p = p * r + T(1.0 / 39916800.0);
    p = p * r + T(1.0 / 3628800.0);
    p = p * r + T(1.0 / 362880.0);
    p = p * r + T(1.0 / 40320.0);
    p = p * r + T(1.0 / 5040.0);
    p = p * r + T(1.0 / 720.0);
  }
  p = p * r + T(1.0 / 120);
  p = p * r + T(1.0 / 24);
  p = p * r + T(1.0 / 6);
  p = p * r + T(0.5);
  p = p * r + T(1);
  p = p * r + T(1);
  constexpr I bias = single ? 127 : 1023, mantissa = single ? 23 : 52;
  Vector<I> rest = exponent >> (single ? 2 : 3), most = exponent - rest;
  return p * bit_copy<Vector<T>>((most + bias) << mantissa) * bit_copy<Vector<T>>((rest + bias) << mantissa);
}

// --- rows in the compute type ---------------------------------------------------------------------------------------
// dst[i] = the element at src + i * stride (bytes), converted.
template <class T> using LoadFn = void (*)(T* dst, const char* src, int64_t stride, int64_t n);

template <class T, class S>
inline T convert_element(const S& v) {
  if constexpr (std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>) return T(float(v));
  else return T(v);
}

template <class T, class S>
void load_row(T* dst, const char* src, int64_t stride, int64_t n) {
  if (stride == int64_t(sizeof(S))) {
    const S* s = reinterpret_cast<const S*>(src);
    if constexpr (std::is_same_v<S, T>) {
      std::memcpy(dst, src, size_t(n) * sizeof(T));
    } else if constexpr ((std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>) && std::is_same_v<T, float>) {
      cast_run(dst, s, n);
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = convert_element<T, S>(s[i]);
    }
    return;
  }
  if constexpr (std::is_same_v<S, T>) return gather_run(dst, src, stride, n);
  for (int64_t i = 0; i < n; ++i) {
    S v;
    std::memcpy(&v, src + i * stride, sizeof(S));
    dst[i] = convert_element<T, S>(v);
  }
}

template <class T, class S>
void load_truth(T* dst, const char* src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    S v;
    std::memcpy(&v, src + i * stride, sizeof(S));
    dst[i] = v != S(0);
  }
}

inline LoadFn<int64_t> integer_loader(DType dtype) {
  switch (dtype) {
    case DType::Bool: return load_row<int64_t, bool>;
    case DType::UInt8: return load_row<int64_t, uint8_t>;
    case DType::Int8: return load_row<int64_t, int8_t>;
    case DType::Int16: return load_row<int64_t, int16_t>;
    case DType::UInt16: return load_row<int64_t, uint16_t>;
    case DType::Int32: return load_row<int64_t, int32_t>;
    case DType::UInt32: return load_row<int64_t, uint32_t>;
    case DType::Int64: return load_row<int64_t, int64_t>;
    case DType::UInt64: return load_row<int64_t, int64_t>;
    default: return nullptr;
  }
}
inline LoadFn<uint8_t> truth_loader(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8: return load_row<uint8_t, uint8_t>;
    case DType::Int16:
    case DType::UInt16: return load_truth<uint8_t, int16_t>;
    case DType::Int32:
    case DType::UInt32: return load_truth<uint8_t, int32_t>;
    case DType::Int64:
    case DType::UInt64: return load_truth<uint8_t, int64_t>;
    case DType::Float16: return load_truth<uint8_t, float16>;
    case DType::BFloat16: return load_truth<uint8_t, bfloat16>;
    case DType::Float32: return load_truth<uint8_t, float>;
    case DType::Float64: return load_truth<uint8_t, double>;
    case DType::Complex64: return load_truth<uint8_t, complex64>;
    case DType::Complex128: return load_truth<uint8_t, complex128>;
    default: return nullptr;
  }
}

template <class T>
inline constexpr bool kNarrowSigned = std::is_same_v<T, int8_t> || std::is_same_v<T, int16_t> ||
                                      std::is_same_v<T, int32_t>;
template <class T>
inline constexpr DType kDTypeOfSigned = sizeof(T) == 1 ? DType::Int8 : sizeof(T) == 2 ? DType::Int16 : DType::Int32;

// The loader of `dtype` into T, or null where the pair is not offered (callers convert the tensor first). Bytes are
// truth values.
template <class T>
LoadFn<T> loader_of(DType dtype) {
  if constexpr (std::is_same_v<T, int64_t>) return integer_loader(dtype);
  else if constexpr (std::is_same_v<T, uint8_t>) return truth_loader(dtype);
  else if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::Float32) return load_row<float, float>;
    if (dtype == DType::Float16) return load_row<float, float16>;
    if (dtype == DType::BFloat16) return load_row<float, bfloat16>;
  } else if constexpr (std::is_same_v<T, uint16_t>) {  // halves as they lie
    if (is_half(dtype)) return load_row<uint16_t, uint16_t>;
  } else if constexpr (kNarrowSigned<T>) {
    if (dtype == kDTypeOfSigned<T>) return load_row<T, T>;
  } else if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::Float64) return load_row<double, double>;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (dtype == DType::UInt64) return load_row<uint64_t, uint64_t>;
  } else if constexpr (std::is_same_v<T, complex64>) {
    if (dtype == DType::Complex64) return load_row<complex64, complex64>;
  } else if constexpr (std::is_same_v<T, complex128>) {
    if (dtype == DType::Complex128) return load_row<complex128, complex128>;
  }
  return nullptr;
}

// Whether memory of `dtype` can be read as T without conversion.
template <class T>
bool reads_directly(DType dtype) {
  if constexpr (std::is_same_v<T, float>) return dtype == DType::Float32;
  if constexpr (std::is_same_v<T, uint16_t>) return is_half(dtype);
  if constexpr (std::is_same_v<T, double>) return dtype == DType::Float64;
  if constexpr (std::is_same_v<T, int64_t>) return dtype == DType::Int64 || dtype == DType::UInt64;
  if constexpr (kNarrowSigned<T>) return dtype == kDTypeOfSigned<T>;
  if constexpr (std::is_same_v<T, uint64_t>) return dtype == DType::UInt64;
  if constexpr (std::is_same_v<T, uint8_t>)
    return dtype == DType::Bool || dtype == DType::UInt8 || dtype == DType::Int8;
  if constexpr (std::is_same_v<T, complex64>) return dtype == DType::Complex64;
  if constexpr (std::is_same_v<T, complex128>) return dtype == DType::Complex128;
  return false;
}

// One element of `dtype` at index i, from a number of the accumulation type.
template <class A>
inline void put(char* data, DType dtype, int64_t i, const A& v) {
  if constexpr (std::is_same_v<A, complex64> || std::is_same_v<A, complex128>) {
    if (dtype == DType::Complex64) reinterpret_cast<complex64*>(data)[i] = complex64(v);
    else reinterpret_cast<complex128*>(data)[i] = complex128(v);
  } else {
    switch (dtype) {
      case DType::Float32: reinterpret_cast<float*>(data)[i] = float(v); break;
      case DType::Float64: reinterpret_cast<double*>(data)[i] = double(v); break;
      case DType::Float16: reinterpret_cast<float16*>(data)[i] = float16(float(v)); break;
      case DType::BFloat16: reinterpret_cast<bfloat16*>(data)[i] = bfloat16(float(v)); break;
      case DType::Bool: reinterpret_cast<bool*>(data)[i] = v != A(0); break;
      case DType::UInt8:
      case DType::Int8: reinterpret_cast<uint8_t*>(data)[i] = uint8_t(int64_t(v)); break;
      case DType::Int16:
      case DType::UInt16: reinterpret_cast<uint16_t*>(data)[i] = uint16_t(int64_t(v)); break;
      case DType::Int32:
      case DType::UInt32: reinterpret_cast<uint32_t*>(data)[i] = uint32_t(int64_t(v)); break;
      case DType::Int64:
      case DType::UInt64: reinterpret_cast<int64_t*>(data)[i] = int64_t(v); break;
      default: break;
    }
  }
}

// A row of floats back to its dtype.
template <class T>
inline void store_row(char* dst, DType dtype, const T* src, int64_t n) {
  if (reads_directly<T>(dtype)) {
    std::memcpy(dst, src, size_t(n) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::Float16) return cast_run(reinterpret_cast<float16*>(dst), src, n);
    if (dtype == DType::BFloat16) return cast_run(reinterpret_cast<bfloat16*>(dst), src, n);
  }
  for (int64_t i = 0; i < n; ++i) put<T>(dst, dtype, i, src[i]);
}

}  // namespace flambeau
