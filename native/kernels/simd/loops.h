// Loop templates and row builders: an operator is a function of elements, a row is that function at each dtype.
//
//   unary<[](auto x) { return exp_(x); }, float, double>("exp")
//
// The function's return type is the result's element type. Number arguments are converted to the compute dtype once per
// call and follow the elements: binary<[](auto a, auto b, auto alpha) {…}, 1, float>("add"). The output may be one of the
// operands (in-place), never partly overlap one: hence `ivdep`.
#pragma once
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

template <class Out, class A, class F>
inline void run1(char* const* p, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i]);
}
template <class Out, class A, class B, class F>
inline void run2(char* const* p, const int64_t* s, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
  const B* b = reinterpret_cast<const B*>(p[2]);
  if (s[1] && s[2]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i]);
  } else if (s[1]) {
    const B y = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], y);
  } else {
    const A x = *a;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = f(x, s[2] ? b[i] : *b);
  }
}
template <class Out, class A, class B, class C, class F>
inline void run3(char* const* p, int64_t n, F f) {
  Out* o = reinterpret_cast<Out*>(p[0]);
  const A* a = reinterpret_cast<const A*>(p[1]);
  const B* b = reinterpret_cast<const B*>(p[2]);
  const C* c = reinterpret_cast<const C*>(p[3]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i], c[i]);
}

// Written here rather than taken from Scalar: an inline function shared by both builds of a file would be merged.
template <class T> __attribute__((always_inline)) inline T number(const Scalar& s) {
  bool whole = s.category <= Category::Integer;
  if constexpr (std::is_same_v<T, bool>) return whole ? s.i != 0 : s.re != 0 || s.im != 0;
  else if constexpr (std::is_integral_v<T>) return T(whole ? s.i : int64_t(s.re));
  else if constexpr (std::is_floating_point_v<T>) return whole ? T(s.i) : T(s.re);
  else return s.category == Category::Complex ? T(s.re, s.im) : T(whole ? double(s.i) : s.re, 0);
}
inline bool absent(const Scalar& s) { return s.category == kAbsent; }

// The first N number arguments in the compute dtype.
template <class T, int N> struct Numbers {
  T k[N ? N : 1];
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
template <auto F, int N, class T>
void loop1(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const Numbers<T, N> s(scalars);
  using Out = decltype(apply<F, N>(s, T()));
  run1<Out, T>(p, n, [s](T a) { return apply<F, N>(s, a); });
}
template <auto F, int N, class T>
void loop2(char* const* p, const int64_t* stride, int64_t n, const Scalar* scalars) {
  const Numbers<T, N> s(scalars);
  using Out = decltype(apply<F, N>(s, T(), T()));
  run2<Out, T, T>(p, stride, n, [s](T a, T b) { return apply<F, N>(s, a, b); });
}
template <auto F, int N, class T>
void loop3(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const Numbers<T, N> s(scalars);
  using Out = decltype(apply<F, N>(s, T(), T(), T()));
  run3<Out, T, T, T>(p, n, [s](T a, T b, T c) { return apply<F, N>(s, a, b, c); });
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
template <auto F, class... T> ElementwiseRow unary(const char* name, int weight = 1) { return unary_n<F, 0, T...>(name, weight); }
template <auto F, class... T> ElementwiseRow binary(const char* name, int weight = 1) { return binary_n<F, 0, T...>(name, weight); }
template <auto F, class... T> ElementwiseRow ternary(const char* name, int weight = 1) { return ternary_n<F, 0, T...>(name, weight); }
// An operator whose loops are written out: the same row from ready functions.
template <class... T> ElementwiseRow from_loops(const char* name, int operands, std::initializer_list<LoopFn> loops, int weight = 1) {
  ElementwiseRow row{name};
  const LoopFn* f = loops.begin();
  (set_loop<T>(row, *f++), ...);
  row.operands = uint8_t(operands);
  row.weight = uint8_t(weight);
  return row;
}
inline ElementwiseRow with_adapt(ElementwiseRow row, void (*adapt)(const Call&, DType&, DType&)) {
  row.adapt = adapt;
  return row;
}
inline ElementwiseRow with_masks(ElementwiseRow row, int masks) {
  row.bool_operands = uint8_t(masks);
  return row;
}

}  // namespace flambeau::FLAMBEAU_SIMD
