// Element types: their sizes, names and promotion (NumPy-like categories, PyTorch's table).
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>

#include "error.h"

namespace flambeau {

enum class DType : uint8_t {
  Bool, UInt8, Int8, Int16, UInt16, Int32, UInt32, Int64, UInt64,
  Float16, BFloat16, Float32, Float64, Complex64, Complex128, Float8_e4m3fn, Float8_e5m2,
  // Only stored, moved and converted: complex32 is computed in complex64; float4 holds two numbers in each byte;
  // quantized numbers mean something only with a scale, which the tensors that wrap them know.
  Float8_e4m3fnuz, Float8_e5m2fnuz, Float8_e8m0fnu, Float4_e2m1fn_x2, Complex32, QInt8, QUInt8, QInt32,
  Undefined,
};
inline constexpr int kDTypes = 25;

using float16 = _Float16;
using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  bfloat16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, 4);
    // round to nearest even; NaN keeps a quiet mantissa
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    bits = (u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : uint16_t(rounded);
  }
  operator float() const {
    uint32_t u = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &u, 4);
    return value;
  }
};

inline constexpr uint8_t kItemSize[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 1, 1,
                                        1, 1, 1, 1, 4, 1, 1, 4, 0};
inline constexpr const char* kDTypeName[] = {
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32", "qint8", "quint8", "qint32", "undefined"};

inline int64_t item_size(DType t) { return kItemSize[int(t)]; }
inline const char* dtype_name(DType t) { return kDTypeName[int(t)]; }
inline bool is_complex(DType t) {
  return t == DType::Complex64 || t == DType::Complex128 || t == DType::Complex32;
}
// Only stored, in a byte: the float4 that holds two numbers is one of them.
inline bool is_float8(DType t) { return t >= DType::Float8_e4m3fn && t <= DType::Float4_e2m1fn_x2; }
inline bool is_quantized(DType t) { return t >= DType::QInt8 && t <= DType::QInt32; }
inline bool is_floating(DType t) { return (t >= DType::Float16 && t <= DType::Float64) || is_float8(t); }
inline bool is_differentiable(DType t) { return is_floating(t) || is_complex(t); }
inline bool is_integral(DType t) { return t >= DType::UInt8 && t <= DType::UInt64; }  // bool excluded
inline bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

enum class Category : uint8_t { Bool, Integer, Floating, Complex };
inline Category category(DType t) {
  if (t == DType::Bool) return Category::Bool;
  if (is_complex(t)) return Category::Complex;
  return is_floating(t) ? Category::Floating : Category::Integer;
}
inline DType real_of(DType t) {
  return t == DType::Complex64    ? DType::Float32
         : t == DType::Complex128 ? DType::Float64
         : t == DType::Complex32  ? DType::Float16
                                  : t;
}
inline DType complex_of(DType t) {
  return t == DType::Float64 || t == DType::Complex128  ? DType::Complex128
         : t == DType::Float16 || t == DType::Complex32 ? DType::Complex32
                                                        : DType::Complex64;
}
// What numbers of a dtype are computed in where it has no loops of its own.
inline DType wide_of(DType t) {
  return is_half(t) ? DType::Float32 : t == DType::Complex32 ? DType::Complex64 : t;
}

// The smallest type that holds both, as torch.promote_types.
DType promote_types(DType a, DType b);

// The C++ type an element is stored as.
template <DType D> struct CTypeOf;
#define FLAMBEAU_CTYPE(D, T) \
  template <> struct CTypeOf<DType::D> { using type = T; };
FLAMBEAU_CTYPE(Bool, bool) FLAMBEAU_CTYPE(UInt8, uint8_t) FLAMBEAU_CTYPE(Int8, int8_t)
FLAMBEAU_CTYPE(Int16, int16_t) FLAMBEAU_CTYPE(UInt16, uint16_t) FLAMBEAU_CTYPE(Int32, int32_t)
FLAMBEAU_CTYPE(UInt32, uint32_t) FLAMBEAU_CTYPE(Int64, int64_t) FLAMBEAU_CTYPE(UInt64, uint64_t)
FLAMBEAU_CTYPE(Float16, float16) FLAMBEAU_CTYPE(BFloat16, bfloat16) FLAMBEAU_CTYPE(Float32, float)
FLAMBEAU_CTYPE(Float64, double) FLAMBEAU_CTYPE(Complex64, complex64) FLAMBEAU_CTYPE(Complex128, complex128)
#undef FLAMBEAU_CTYPE
template <DType D> using ctype_t = typename CTypeOf<D>::type;

// visit(dtype, f): calls f.template operator()<T>() with the C++ type of `dtype` (what is only stored excluded).
template <class F>
decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::Bool: return f.template operator()<bool>();
    case DType::UInt8: return f.template operator()<uint8_t>();
    case DType::Int8: return f.template operator()<int8_t>();
    case DType::Int16: return f.template operator()<int16_t>();
    case DType::UInt16: return f.template operator()<uint16_t>();
    case DType::Int32: return f.template operator()<int32_t>();
    case DType::UInt32: return f.template operator()<uint32_t>();
    case DType::Int64: return f.template operator()<int64_t>();
    case DType::UInt64: return f.template operator()<uint64_t>();
    case DType::Float16: return f.template operator()<float16>();
    case DType::BFloat16: return f.template operator()<bfloat16>();
    case DType::Float32: return f.template operator()<float>();
    case DType::Float64: return f.template operator()<double>();
    case DType::Complex64: return f.template operator()<complex64>();
    case DType::Complex128: return f.template operator()<complex128>();
    default: not_implemented("no kernel for dtype ", dtype_name(t));
  }
}

// visit_size(itemsize, f): for kernels that only move elements; f.template operator()<U>() with an unsigned type
// (or complex128) of that size: five instantiations instead of fifteen.
template <class F>
decltype(auto) visit_size(int64_t size, F&& f) {
  switch (size) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<complex128>();
  }
}

}  // namespace flambeau
