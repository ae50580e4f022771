// What every kernel's text begins with: integer names, complex numbers, halves, conversions, vectors of 16 bytes.
//
// Halves are stored only; arithmetic on them is float's, so that the conversions of the hardware are all we need of
// them, and no header of the toolkit. Signed integers may wrap: nothing here is a loop counter.
#ifndef FLAMBEAU_EMULATE
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define FLAMBEAU_INFINITY __int_as_float(0x7f800000)
#define FLAMBEAU_NAN __int_as_float(0x7fc00000)
#endif
#define INLINE __device__ __forceinline__

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
template <bool C, class A, class B> struct Choose { typedef A type; };
template <class A, class B> struct Choose<false, A, B> { typedef B type; };

// --- numbers
template <class R> struct Complex {
  R re, im;
  Complex() = default;
  INLINE Complex(R re, R im = R(0)) : re(re), im(im) {}
  INLINE R real() const { return re; }
  INLINE R imag() const { return im; }
};
typedef Complex<float> complex64;
typedef Complex<double> complex128;
struct float16 { uint16_t bits; };
struct bfloat16 { uint16_t bits; };
struct complex32 { float16 re, im; };
template <int MANTISSA, int BIAS, bool INFINITE> struct Float8 { uint8_t bits; };
typedef Float8<3, 7, false> float8_e4m3fn;
typedef Float8<2, 15, true> float8_e5m2;
template <int MANTISSA, int BIAS> struct Float8Nuz { uint8_t bits; };  // AMD's: neither infinity nor -0
typedef Float8Nuz<3, 8> float8_e4m3fnuz;
typedef Float8Nuz<2, 16> float8_e5m2fnuz;
struct float8_e8m0fnu { uint8_t bits; };  // powers of two

template <class T> struct IsComplex { static constexpr bool value = false; };
template <class R> struct IsComplex<Complex<R>> { static constexpr bool value = true; };
template <class T> struct Real { typedef T type; };
template <class R> struct Real<Complex<R>> { typedef R type; };
template <class T> struct IsFloat {
  static constexpr bool value = Same<T, float>::value || Same<T, double>::value;
};
template <class T> struct IsHalf {
  static constexpr bool value = Same<T, float16>::value || Same<T, bfloat16>::value;
};
template <class T> struct IsFloat8 { static constexpr bool value = false; };
template <int M, int B, bool I> struct IsFloat8<Float8<M, B, I>> { static constexpr bool value = true; };
template <int M, int B> struct IsFloat8<Float8Nuz<M, B>> { static constexpr bool value = true; };
template <> struct IsFloat8<float8_e8m0fnu> { static constexpr bool value = true; };
template <class T> struct IsWhole {
  static constexpr bool value = !IsFloat<T>::value && !IsComplex<T>::value && !IsHalf<T>::value &&
                                !IsFloat8<T>::value && !Same<T, complex32>::value;
};
// What sums of a type are kept in, and what it is computed in.
template <class T> struct Wide { typedef typename Choose<IsHalf<T>::value || IsFloat8<T>::value, float, T>::type type; };
template <> struct Wide<complex32> { typedef complex64 type; };

// Limits: the largest and the smallest number.
template <class T> struct Limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T top = is_signed ? T(T(T(T(1) << (8 * sizeof(T) - 2)) - 1) * 2 + 1) : T(~T(0));
  static INLINE T highest() { return top; }
  static INLINE T lowest() { return is_signed ? T(-top - 1) : T(0); }
};
template <> struct Limits<bool> {
  static INLINE bool highest() { return true; }
  static INLINE bool lowest() { return false; }
};
template <> struct Limits<float> {
  static INLINE float highest() { return FLAMBEAU_INFINITY; }
  static INLINE float lowest() { return -FLAMBEAU_INFINITY; }
};
template <> struct Limits<double> {
  static INLINE double highest() { return double(FLAMBEAU_INFINITY); }
  static INLINE double lowest() { return -double(FLAMBEAU_INFINITY); }
};
template <class T> INLINE T infinity() { return T(FLAMBEAU_INFINITY); }
template <class T> INLINE T not_a_number() { return T(FLAMBEAU_NAN); }

// --- halves
#ifndef FLAMBEAU_EMULATE
INLINE float half_to_float(float16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
  return f;
}
INLINE float half_to_float(bfloat16 h) { return __uint_as_float(uint32_t(h.bits) << 16); }
INLINE void float_to_half(float f, float16& h) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); }
INLINE void float_to_half(float f, bfloat16& h) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); }
#endif

// --- conversion between any two types, as `Tensor.to` converts
template <class To, class From> struct Cast {
  static INLINE To of(From v) {
    if constexpr (Same<To, bool>::value) return v != From(0);
    else if constexpr (IsFloat<From>::value && IsWhole<To>::value && sizeof(To) < 4) return To(int32_t(v));
    else if constexpr (IsFloat<From>::value && Same<To, uint32_t>::value) return To(int64_t(v));
    else return To(v);
  }
};
template <class T> struct Cast<T, T> { static INLINE T of(T v) { return v; } };
template <class From> struct Cast<float16, From> {
  static INLINE float16 of(From v) {
    float16 h;
    float_to_half(Cast<float, From>::of(v), h);
    return h;
  }
};
template <class From> struct Cast<bfloat16, From> {
  static INLINE bfloat16 of(From v) {
    bfloat16 h;
    float_to_half(Cast<float, From>::of(v), h);
    return h;
  }
};
template <class To> struct Cast<To, float16> {
  static INLINE To of(float16 v) { return Cast<To, float>::of(half_to_float(v)); }
};
template <class To> struct Cast<To, bfloat16> {
  static INLINE To of(bfloat16 v) { return Cast<To, float>::of(half_to_float(v)); }
};
template <> struct Cast<float16, float16> { static INLINE float16 of(float16 v) { return v; } };
template <> struct Cast<bfloat16, bfloat16> { static INLINE bfloat16 of(bfloat16 v) { return v; } };
template <> struct Cast<bfloat16, float16> {
  static INLINE bfloat16 of(float16 v) { return Cast<bfloat16, float>::of(half_to_float(v)); }
};
template <> struct Cast<float16, bfloat16> {
  static INLINE float16 of(bfloat16 v) { return Cast<float16, float>::of(half_to_float(v)); }
};
template <class R, class From> struct Cast<Complex<R>, From> {
  static INLINE Complex<R> of(From v) { return Complex<R>(Cast<R, From>::of(v)); }
};
template <class R, class S> struct Cast<Complex<R>, Complex<S>> {
  static INLINE Complex<R> of(Complex<S> v) { return Complex<R>(R(v.re), R(v.im)); }
};
template <class R> struct Cast<Complex<R>, Complex<R>> { static INLINE Complex<R> of(Complex<R> v) { return v; } };
template <class R> struct Cast<Complex<R>, float16> {
  static INLINE Complex<R> of(float16 v) { return Complex<R>(R(half_to_float(v))); }
};
template <class R> struct Cast<Complex<R>, bfloat16> {
  static INLINE Complex<R> of(bfloat16 v) { return Complex<R>(R(half_to_float(v))); }
};
template <class To, class S> struct Cast<To, Complex<S>> {
  static INLINE To of(Complex<S> v) {
    if constexpr (Same<To, bool>::value) return v.re != S(0) || v.im != S(0);
    else return Cast<To, S>::of(v.re);
  }
};
template <class S> struct Cast<float16, Complex<S>> {
  static INLINE float16 of(Complex<S> v) { return Cast<float16, S>::of(v.re); }
};
template <class S> struct Cast<bfloat16, Complex<S>> {
  static INLINE bfloat16 of(Complex<S> v) { return Cast<bfloat16, S>::of(v.re); }
};

// 8-bit floats: sign, exponent, M bits of mantissa. Without infinities all ones is NaN, and what is too large becomes the
// largest number. 2 to the power `e`, for exponents of normal numbers:
INLINE float power_of_two(int e) { return __uint_as_float(uint32_t(127 + e) << 23); }
template <int M, int B, bool I> INLINE float float8_value(Float8<M, B, I> v) {
  const uint32_t sign = uint32_t(v.bits & 0x80) << 24, code = v.bits & 0x7f, exponent = code >> M;
  if (I ? exponent == 0x7f >> M : code == 0x7f)
    return __uint_as_float(sign | 0x7f800000 | (I ? (code & ((1 << M) - 1)) << (23 - M) : 0x400000));
  if (exponent) return __uint_as_float(sign | ((code << (23 - M)) + (uint32_t(127 - B) << 23)));
  const float small = float(code) * power_of_two(1 - B - M);
  return sign ? -small : small;
}
template <int M, int B> INLINE float float8_value(Float8Nuz<M, B> v) {
  const uint32_t sign = uint32_t(v.bits & 0x80) << 24, code = v.bits & 0x7f;
  if (sign && code == 0) return FLAMBEAU_NAN;
  if (code >> M) return __uint_as_float(sign | ((code << (23 - M)) + (uint32_t(127 - B) << 23)));
  const float small = float(code) * power_of_two(1 - B - M);
  return sign ? -small : small;
}
INLINE float float8_value(float8_e8m0fnu v) {
  return v.bits == 255 ? FLAMBEAU_NAN : __uint_as_float(v.bits ? uint32_t(v.bits) << 23 : 0x400000);
}
// Exponent and mantissa of a float's size (its bits without the sign), rounded; they may be too large.
template <int M, int B> INLINE uint32_t float8_code(uint32_t u) {
  if (__uint_as_float(u) < power_of_two(1 - B)) {  // the sum is rounded to the last place of what is stored
    const float shift = power_of_two(1 - B - M + 23);
    return __float_as_uint(__uint_as_float(u) + shift) - __float_as_uint(shift);
  }
  return ((u + ((1u << (22 - M)) - 1) + (u >> (23 - M) & 1)) >> (23 - M)) - (uint32_t(127 - B) << M);
}
template <class To> struct ToFloat8;
template <int M, int B, bool I> struct ToFloat8<Float8<M, B, I>> {
  static INLINE Float8<M, B, I> of(float v) {
    const uint32_t whole = __float_as_uint(v), sign = whole >> 24 & 0x80, u = whole & 0x7fffffff;
    const uint32_t most = I ? 0x7f >> M << M : 0x7e, code = u > 0x7f800000 ? 0x7f : float8_code<M, B>(u);
    return Float8<M, B, I>{uint8_t(sign | (u <= 0x7f800000 && code > most ? most : code))};
  }
};
template <int M, int B> struct ToFloat8<Float8Nuz<M, B>> {
  static INLINE Float8Nuz<M, B> of(float v) {
    const uint32_t whole = __float_as_uint(v), sign = whole >> 24 & 0x80, u = whole & 0x7fffffff;
    const uint32_t code = u >= 0x7f800000 ? 0x80 : float8_code<M, B>(u);
    return Float8Nuz<M, B>{uint8_t(code > 0x7f ? 0x80 : code ? sign | code : 0)};
  }
};
template <> struct ToFloat8<float8_e8m0fnu> {  // without the sign; halfway goes up, but below the smallest normal float
  static INLINE float8_e8m0fnu of(float v) {
    const uint32_t u = __float_as_uint(v), exponent = u >> 23 & 0xff, rest = u & 0x7fffff;
    return {uint8_t(exponent == 0xff ? 0xff : exponent + (exponent ? rest >= 0x400000 : rest > 0x400000))};
  }
};
template <class To, class From> INLINE To cast(From v) {
  if constexpr (Same<To, From>::value) return v;
  else if constexpr (IsFloat8<From>::value) return cast<To>(float8_value(v));
  else if constexpr (Same<From, complex32>::value) return cast<To>(complex64(half_to_float(v.re), half_to_float(v.im)));
  else if constexpr (IsFloat8<To>::value) return ToFloat8<To>::of(Cast<float, From>::of(v));
  else if constexpr (Same<To, complex32>::value) {
    const complex64 wide = cast<complex64>(v);
    return complex32{cast<float16>(wide.re), cast<float16>(wide.im)};
  }
  else return Cast<To, From>::of(v);
}
template <class T> INLINE typename Wide<T>::type widen(T v) { return cast<typename Wide<T>::type>(v); }

// --- N elements that are read or written at once: 16 bytes are one instruction
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
template <int N, class T> INLINE Pack<T, N> load(const T* p) { return *reinterpret_cast<const Pack<T, N>*>(p); }
template <int N, class T> INLINE void store(T* p, Pack<T, N> v) { *reinterpret_cast<Pack<T, N>*>(p) = v; }

// --- offsets of a strided tensor: sizes and strides in elements, innermost dimension first; the result's strides are
// the first row, those of its operands follow
struct Geometry {
  int32_t ndim, pad;
  int64_t sizes[8];
  int64_t strides[6][8];
  uint32_t factor[8], shift[8];  // divide by a size as `quotient_by` does
};
template <class Index> struct Unsigned { typedef uint64_t type; };
template <> struct Unsigned<int32_t> { typedef uint32_t type; };
template <class Sizes, class Size> INLINE Size quotient_by(const Sizes& g, int d, Size n) { return n / Size(g.sizes[d]); }
INLINE uint32_t quotient_by(const Geometry& g, int d, uint32_t n) {  // of n below 2^31
  return __umulhi(2 * n, g.factor[d]) >> g.shift[d];
}
// The offsets of element `at` in the first COUNT operands, dimensions below FIRST left out.
template <class Index, int COUNT, int FIRST = 0, class Sizes>
INLINE void offsets_of(const Sizes& g, Index at, Index* offset) {
  typedef typename Unsigned<Index>::type Size;
#pragma unroll
  for (int k = 0; k < COUNT; ++k) offset[k] = 0;
  Size rest = Size(at);
#pragma unroll
  for (int d = FIRST; d < 8; ++d) {
    if (d >= g.ndim) break;
    const Size next = d + 1 < g.ndim ? quotient_by(g, d, rest) : 0;
    const Index place = Index(rest - next * Size(g.sizes[d]));
    rest = next;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) offset[k] += place * Index(g.strides[k][d]);
  }
}
// The offsets of elements one behind the other: they are found by division only where a row of the innermost dimension
// has ended.
template <class Index, int COUNT> struct StridedWalk {
  Index at[COUNT], i, place;  // place: along the innermost dimension
  INLINE StridedWalk(const Geometry& g, Index first) { find(g, first); }
  INLINE void find(const Geometry& g, Index to) {
    typedef typename Unsigned<Index>::type Size;
    offsets_of<Index, COUNT>(g, to, at);
    i = to;
    place = g.ndim > 1 ? to - Index(quotient_by(g, 0, Size(to)) * Size(g.sizes[0])) : to;
  }
  INLINE void go(const Geometry& g, Index to) {
    const Index by = to - i, there = place + by;
    if (there < 0 || there >= Index(g.sizes[0])) return find(g, to);
#pragma unroll
    for (int k = 0; k < COUNT; ++k) at[k] += by * Index(g.strides[k][0]);
    i = to, place = there;
  }
};
