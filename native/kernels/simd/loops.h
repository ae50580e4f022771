// Loop templates and row builders: an operator is a function of elements, a row is that function at each dtype.
//
//   unary<[](auto x) { return exp_(x); }, float, double>("exp")
//
// The function's return type is the result's element type. Number arguments are converted to the compute dtype once per
// call and follow the elements: binary<[](auto a, auto b, auto alpha) {…}, 1, float>("add"). The output may be one of
// the operands (in-place), never partly overlap one: hence `ivdep`.
#pragma once
#include <bit>
#include <complex>

#include "../elementwise.h"
#include "math.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> struct DTypeFor;
#define FLAMBEAU_DTYPE_FOR(D) \
  template <> struct DTypeFor<ctype_t<DType::D>> { static constexpr DType value = DType::D; };
FLAMBEAU_DTYPE_FOR(Bool) FLAMBEAU_DTYPE_FOR(UInt8) FLAMBEAU_DTYPE_FOR(Int8) FLAMBEAU_DTYPE_FOR(Int16)
FLAMBEAU_DTYPE_FOR(UInt16) FLAMBEAU_DTYPE_FOR(Int32) FLAMBEAU_DTYPE_FOR(UInt32) FLAMBEAU_DTYPE_FOR(Int64)
FLAMBEAU_DTYPE_FOR(UInt64) FLAMBEAU_DTYPE_FOR(Float16) FLAMBEAU_DTYPE_FOR(BFloat16) FLAMBEAU_DTYPE_FOR(Float32)
FLAMBEAU_DTYPE_FOR(Float64) FLAMBEAU_DTYPE_FOR(Complex64) FLAMBEAU_DTYPE_FOR(Complex128)
#undef FLAMBEAU_DTYPE_FOR

// Element i; of a complex number part by part, without which a loop is not vectorised.
template <class T> inline T element(const T* p, int64_t i) { return p[i]; }
template <class R> inline std::complex<R> element(const std::complex<R>* p, int64_t i) {
  const R* parts = reinterpret_cast<const R*>(p);
  return {parts[2 * i], parts[2 * i + 1]};
}
template <class T, class V> inline void store(T* p, int64_t i, V v) { p[i] = v; }
template <class R> inline void store(std::complex<R>* p, int64_t i, std::complex<R> v) {
  R* parts = reinterpret_cast<R*>(p);
  parts[2 * i] = v.real();
  parts[2 * i + 1] = v.imag();
}

// Halves of 8 bits of mantissa, widened and rounded in registers: to nearest even, NaN quiet.
inline float widen(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }
inline uint16_t narrow(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return uint16_t(f != f ? 0x7fc0u : rounded);
}

template <class Out, class A, class F>
inline void run1(char* const* p, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i)));
}
template <class Out, class A, class B, class F>
inline void run2(char* const* p, const int64_t* s, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
  const B* b = reinterpret_cast<const B*>(p[2]);
  if (s[1] && s[2]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), element(b, i)));
  } else if (s[1]) {
    const B y = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), y));
  } else if (const A x = *a; s[2]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(x, element(b, i)));
  } else {
    const B y = *b;
    for (int64_t i = 0; i < n; ++i) store(o, i, f(x, y));
  }
}
template <class Out, class A, class B, class C, class F>
inline void run3(char* const* p, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
  const B* b = reinterpret_cast<const B*>(p[2]);
  const C* c = reinterpret_cast<const C*>(p[3]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), element(b, i), element(c, i)));
}
// The first operand contiguous, the others contiguous or of stride 0.
template <class Out, class A, class B, class C, class F>
inline void run3_strided(char* const* p, const int64_t* s, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
  const B* b = reinterpret_cast<const B*>(p[2]);
  const C* c = reinterpret_cast<const C*>(p[3]);
  const B y = *b;
  const C z = *c;
  if (s[2] && s[3]) return run3<Out, A, B, C>(p, n, f);
  if (s[2]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), element(b, i), z));
  } else if (s[3]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), y, element(c, i)));
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) store(o, i, f(element(a, i), y, z));
  }
}
// mask ? a : b by the bits: mixed element sizes vectorise only without a branch, and bytes better than bools.
template <class U> inline U choose(uint8_t mask, U a, U b) {
  U m = U(U(0) - U(mask));
  return U(b ^ ((a ^ b) & m));
}
template <class U> void where_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  if (!s[1]) {  // a condition of stride 0: one of the operands, whole
    const bool c = *reinterpret_cast<const bool*>(p[1]);
    char* q[2] = {p[0], c ? p[2] : p[3]};
    if (c ? s[2] : s[3]) return run1<U, U>(q, n, [](U a) { return a; });
    const U v = *reinterpret_cast<const U*>(q[1]);
    U* o = reinterpret_cast<U*>(p[0]);
    for (int64_t i = 0; i < n; ++i) o[i] = v;
    return;
  }
  run3_strided<U, uint8_t, U, U>(p, s, n, [](uint8_t c, U a, U b) { return choose(c, a, b); });
}
template <class U> void masked_fill_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  char* q[4] = {p[0], p[2], p[3], p[1]};  // where(mask, value, self)
  const int64_t stride[4] = {s[0], s[2], s[3], s[1]};
  where_loop<U>(q, stride, n, nullptr);
}
// clamp: an absent bound has a null pointer; `up` and `down` move an element to a bound.
template <class T, class Up, class Down>
inline void clamp_strided(char* const* p, const int64_t* s, int64_t n, Up up, Down down) {
  char* q[3] = {p[0], p[1], p[2] ? p[2] : p[3]};
  const int64_t stride[3] = {s[0], s[1], p[2] ? s[2] : s[3]};
  if (!p[3]) return run2<T, T, T>(q, stride, n, up);
  if (!p[2]) return run2<T, T, T>(q, stride, n, down);
  if (s[1]) return run3_strided<T, T, T, T>(p, s, n, [=](T a, T low, T high) { return down(up(a, low), high); });
  char* r[3] = {p[0], p[2], p[3]};  // one number between many bounds
  const int64_t bounds[3] = {s[0], s[2], s[3]};
  const T a = *reinterpret_cast<const T*>(p[1]);
  run2<T, T, T>(r, bounds, n, [=](T low, T high) { return down(up(a, low), high); });
}

// Written here rather than taken from Scalar: an inline function shared by both builds of a file would be merged.
template <class T> __attribute__((always_inline)) inline T number(const Scalar& s) {
  const bool whole = s.category <= Category::Integer;
  const double real = !whole ? s.re : s.huge ? double(uint64_t(s.i)) : double(s.i);
  if constexpr (std::is_same_v<T, bool>) return whole ? s.i != 0 : s.re != 0 || s.im != 0;
  else if constexpr (std::is_integral_v<T>) return T(whole ? s.i : int64_t(s.re));
  else if constexpr (std::is_floating_point_v<T>) return whole && !s.huge ? T(s.i) : T(real);
  else return s.category == Category::Complex ? T(s.re, s.im) : T(real, 0);
}
inline bool absent(const Scalar& s) { return s.category == kAbsent; }

// The first N number arguments in the compute dtype.
template <class T, int N> struct Numbers {
  T k[N ? N : 1] = {};
  explicit Numbers(const Scalar* s) {
    for (int i = 0; i < N; ++i) k[i] = number<T>(s[i]);
  }
};
template <auto F, int N, class T, class... A> inline auto apply(const Numbers<T, N>& s, A... a) {
  if constexpr (N == 0) return F(a...);
  else if constexpr (N == 1) return F(a..., s.k[0]);
  else if constexpr (N == 2) return F(a..., s.k[0], s.k[1]);
  else return F(a..., s.k[0], s.k[1], s.k[2]);
}
// What numbers of a dtype are computed in: operators that list bfloat16 are spared a copy in float32, block by block.
template <class T> using computed = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
template <auto F, int N, class T>
void loop1(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const Numbers<computed<T>, N> s(scalars);
  if constexpr (std::is_same_v<T, bfloat16>)
    return run1<uint16_t, uint16_t>(p, n, [s](uint16_t a) { return narrow(apply<F, N>(s, widen(a))); });
  else
    run1<decltype(apply<F, N>(s, T())), T>(p, n, [s](T a) { return apply<F, N>(s, a); });
}
template <auto F, int N, class T>
void loop2(char* const* p, const int64_t* stride, int64_t n, const Scalar* scalars) {
  const Numbers<computed<T>, N> s(scalars);
  if constexpr (std::is_same_v<T, bfloat16>)
    return run2<uint16_t, uint16_t, uint16_t>(
        p, stride, n, [s](uint16_t a, uint16_t b) { return narrow(apply<F, N>(s, widen(a), widen(b))); });
  else
    run2<decltype(apply<F, N>(s, T(), T())), T, T>(p, stride, n, [s](T a, T b) { return apply<F, N>(s, a, b); });
}
template <auto F, int N, class T>
void loop3(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const Numbers<computed<T>, N> s(scalars);
  if constexpr (std::is_same_v<T, bfloat16>)
    return run3<uint16_t, uint16_t, uint16_t, uint16_t>(p, n, [s](uint16_t a, uint16_t b, uint16_t c) {
      return narrow(apply<F, N>(s, widen(a), widen(b), widen(c)));
    });
  else
    run3<decltype(apply<F, N>(s, T(), T(), T())), T, T, T>(
        p, n, [s](T a, T b, T c) { return apply<F, N>(s, a, b, c); });
}

template <class T> inline void set_loop(ElementwiseRow& row, LoopFn f) { row.loop[int(DTypeFor<T>::value)] = f; }

template <auto F, int N, class... T> ElementwiseRow unary_n(const char* name, int weight = 1) {
  ElementwiseRow row{name};
  (set_loop<T>(row, loop1<F, N, T>), ...);
  row.weight = uint8_t(weight);
  return row;
}
template <auto F, int N, class... T> ElementwiseRow binary_n(const char* name, int weight = 1) {
  ElementwiseRow row{name};
  (set_loop<T>(row, loop2<F, N, T>), ...);
  row.operands = 2;
  row.weight = uint8_t(weight);
  return row;
}
template <auto F, int N, class... T> ElementwiseRow ternary_n(const char* name, int weight = 1) {
  ElementwiseRow row{name};
  (set_loop<T>(row, loop3<F, N, T>), ...);
  row.operands = 3;
  row.weight = uint8_t(weight);
  return row;
}
template <auto F, class... T>
ElementwiseRow unary(const char* name, int weight = 1) {
  return unary_n<F, 0, T...>(name, weight);
}
template <auto F, class... T>
ElementwiseRow binary(const char* name, int weight = 1) {
  return binary_n<F, 0, T...>(name, weight);
}
template <auto F, class... T>
ElementwiseRow ternary(const char* name, int weight = 1) {
  return ternary_n<F, 0, T...>(name, weight);
}
// An operator whose loops are written out: the same row from ready functions.
template <class... T>
ElementwiseRow from_loops(const char* name, int operands, std::initializer_list<LoopFn> loops, int weight = 1) {
  ElementwiseRow row{name};
  const LoopFn* f = loops.begin();
  (set_loop<T>(row, *f++), ...);
  row.operands = uint8_t(operands);
  row.weight = uint8_t(weight);
  return row;
}
template <class T> ElementwiseRow with_number(ElementwiseRow row, LoopFn beside_number) {
  row.beside_number[int(DTypeFor<T>::value)] = beside_number;
  return row;
}
inline ElementwiseRow with_adapt(ElementwiseRow row, void (*adapt)(const Call&, DType&, DType&)) {
  row.adapt = adapt;
  return row;
}
inline ElementwiseRow any_stride(ElementwiseRow row, int masks = 0) {
  row.any_stride = true;
  row.bool_operands = uint8_t(masks);
  return row;
}

}  // namespace flambeau::FLAMBEAU_SIMD
