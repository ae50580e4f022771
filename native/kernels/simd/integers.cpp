// Integer and boolean loops. Arithmetic wraps; division by zero is an error, never a signal. Baseline only: these are
// bound by memory, and the baseline build vectorises them well enough.
#include "loops.h"

#if FLAMBEAU_LEVEL == 0

namespace flambeau::FLAMBEAU_SIMD {

#define FLAMBEAU_INTEGERS uint8_t, int8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t
#define FLAMBEAU_LARGE_INTEGERS uint32_t, int64_t, uint64_t  // division.cpp divides the others

// Unsigned arithmetic at least as wide as unsigned int: no signed overflow, also for uint16 * uint16.
template <class T> using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
template <class T> inline T wrap_add(T a, T b) { return T(Wide<T>(a) + Wide<T>(b)); }
template <class T> inline T wrap_sub(T a, T b) { return T(Wide<T>(a) - Wide<T>(b)); }
template <class T> inline T wrap_mul(T a, T b) { return T(Wide<T>(a) * Wide<T>(b)); }

template <class T> inline bool minus_one(T b) { return std::is_signed_v<T> && b == T(-1); }

template <class T> inline T div_trunc(T a, T b) {
  if (b == 0) zero_division();
  return minus_one(b) ? wrap_sub(T(0), a) : T(a / b);  // the smallest integer over -1 would trap
}
template <class T> inline T div_floor(T a, T b) {
  T q = div_trunc(a, b);
  if constexpr (std::is_signed_v<T>)
    if (!minus_one(b) && a % b != 0 && (a < 0) != (b < 0)) --q;
  return q;
}
template <class T> inline T mod_trunc(T a, T b) {
  if (b == 0) zero_division();
  return minus_one(b) ? T(0) : T(a % b);
}
template <class T> inline T mod_floor(T a, T b) {
  T m = mod_trunc(a, b);
  if constexpr (std::is_signed_v<T>)
    if (m != 0 && (m < 0) != (b < 0)) m = T(m + b);
  return m;
}
template <class T> inline T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>)
    if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  T value = 1;
  for (auto e = std::make_unsigned_t<T>(exponent); e; e >>= 1) {
    if (e & 1) value = wrap_mul(value, base);
    base = wrap_mul(base, base);
  }
  return value;
}
template <class T> inline T gcd_(T a, T b) {
  using U = std::make_unsigned_t<T>;
  U x = a < 0 ? U(0) - U(a) : U(a), y = b < 0 ? U(0) - U(b) : U(b);
  while (y) {
    U r = x % y;
    x = y;
    y = r;
  }
  return T(x);
}
template <class T> inline T lcm_(T a, T b) {
  T g = gcd_(a, b);
  if (g == 0) return 0;
  int64_t v = wrap_mul(int64_t(div_trunc(a, g)), int64_t(b));  // the sign is dropped before narrowing
  return T(v < 0 ? wrap_sub(int64_t(0), v) : v);
}
template <class T> inline T shift_left(T a, T b) {
  return b < 0 || uint64_t(b) >= 8 * sizeof(T) ? T(0) : T(Wide<T>(a) << b);
}
template <class T> inline T shift_right(T a, T b) {
  constexpr int most = 8 * sizeof(T) - 1;
  if (b < 0 || uint64_t(b) > uint64_t(most)) return std::is_signed_v<T> ? T(a >> most) : T(0);
  return T(a >> b);
}
template <class T> void clamp_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  clamp_strided<T>(
      p, s, n, [](T a, T low) { return a < low ? low : a; }, [](T a, T high) { return high < a ? high : a; });
}
// Bools are bytes 0 and 1; as bytes the loop vectorises.
void not_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  run1<uint8_t, uint8_t>(p, n, [](uint8_t a) { return uint8_t(a ^ 1); });
}
template <template <class> class Loop, class... T> ElementwiseRow loops_of(const char* name, int operands) {
  return from_loops<T...>(name, operands, {Loop<T>::run...});
}
template <class T> struct Clamp { static constexpr LoopFn run = clamp_loop<T>; };

// long because: a table
static const ElementwiseRows arithmetic(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary_n<[]<class T>(T a, T b, T alpha) { return wrap_add(a, wrap_mul(alpha, b)); }, 1, FLAMBEAU_INTEGERS>("add"),
      binary_n<[]<class T>(T a, T b, T alpha) { return wrap_sub(a, wrap_mul(alpha, b)); }, 1, FLAMBEAU_INTEGERS>("sub"),
      binary_n<[]<class T>(T a, T b, T alpha) { return wrap_sub(b, wrap_mul(alpha, a)); }, 1, FLAMBEAU_INTEGERS>(
          "rsub"),
      binary<[]<class T>(T a, T b) { return wrap_mul(a, b); }, FLAMBEAU_INTEGERS>("mul"),
      binary_n<[]<class T>(T a, T b, T mode) { return mode == T('t') ? div_trunc(a, b) : div_floor(a, b); }, 1,
               FLAMBEAU_INTEGERS>("div"),  // with a rounding mode, its first letter
      binary<[]<class T>(T a, T b) { return div_floor(a, b); }, FLAMBEAU_LARGE_INTEGERS>("floor_divide", 4),
      binary<[]<class T>(T a, T b) { return mod_floor(a, b); }, FLAMBEAU_LARGE_INTEGERS>("remainder", 4),
      binary<[]<class T>(T a, T b) { return mod_trunc(a, b); }, FLAMBEAU_LARGE_INTEGERS>("fmod", 4),
      binary<[]<class T>(T a, T b) { return power(a, b); }, FLAMBEAU_INTEGERS>("pow", 4),
      binary<[]<class T>(T a, T b) { return gcd_(a, b); }, FLAMBEAU_INTEGERS>("gcd", 16),
      binary<[]<class T>(T a, T b) { return lcm_(a, b); }, FLAMBEAU_INTEGERS>("lcm", 16),
      unary<[]<class T>(T a) { return wrap_sub(T(0), a); }, FLAMBEAU_INTEGERS>("neg"),
      unary<[]<class T>(T a) { return a < 0 ? wrap_sub(T(0), a) : a; }, FLAMBEAU_INTEGERS>("abs"),
      unary<[]<class T>(T a) { return wrap_mul(a, a); }, FLAMBEAU_INTEGERS>("square"),
      unary<[]<class T>(T a) { return T(T(0 < a) - T(a < 0)); }, FLAMBEAU_INTEGERS>("sign"),
      unary<[]<class T>(T a) { return T(T(0 < a) - T(a < 0)); }, FLAMBEAU_INTEGERS>("sgn"),
      unary<[]<class T>(T a) { return a; }, FLAMBEAU_INTEGERS>("floor"),
      unary<[]<class T>(T a) { return a; }, FLAMBEAU_INTEGERS>("ceil"),
      unary<[]<class T>(T a) { return a; }, FLAMBEAU_INTEGERS>("trunc"),
      unary<[]<class T>(T a) { return a; }, FLAMBEAU_INTEGERS>("round"),
      unary<[]<class T>(T a) { return a; }, FLAMBEAU_INTEGERS>("nan_to_num"),
      unary<[]<class T>(T a) { return a < 0 ? T(0) : a; }, FLAMBEAU_INTEGERS>("relu"),
      unary<[]<class T>(T a) { return a < 0   ? T(0)
                                      : 6 < a ? T(6)
                                              : a; }, FLAMBEAU_INTEGERS>("relu6"),
      unary_n<[]<class T>(T a, T low, T high) { return a < low    ? low
                                                       : high < a ? high
                                                                  : a; }, 2, FLAMBEAU_INTEGERS>(
          "hardtanh"),
      unary_n<[]<class T>(T a, T limit, T value) { return a <= limit ? value : a; }, 2, FLAMBEAU_INTEGERS>("threshold"),
      binary<[]<class T>(T a, T b) { return a == 0  ? b
                                            : a < 0 ? T(0)
                                                    : T(1); }, FLAMBEAU_INTEGERS>("heaviside"),
      ternary_n<[]<class T>(T a, T b, T c, T value) { return wrap_add(a, wrap_mul(value, wrap_mul(b, c))); }, 1,
                FLAMBEAU_INTEGERS>("addcmul"),
  });
});

static const ElementwiseRows order(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary<[]<class T>(T a, T b) { return a < b ? b : a; }, bool, FLAMBEAU_INTEGERS>("maximum"),
      binary<[]<class T>(T a, T b) { return b < a ? b : a; }, bool, FLAMBEAU_INTEGERS>("minimum"),
      binary<[]<class T>(T a, T b) { return a < b ? b : a; }, bool, FLAMBEAU_INTEGERS>("fmax"),
      binary<[]<class T>(T a, T b) { return b < a ? b : a; }, bool, FLAMBEAU_INTEGERS>("fmin"),
      binary<[](auto a, auto b) { return a == b; }, bool, FLAMBEAU_INTEGERS>("eq"),
      binary<[](auto a, auto b) { return a != b; }, bool, FLAMBEAU_INTEGERS>("ne"),
      binary<[](auto a, auto b) { return a < b; }, bool, FLAMBEAU_INTEGERS>("lt"),
      binary<[](auto a, auto b) { return a <= b; }, bool, FLAMBEAU_INTEGERS>("le"),
      binary<[](auto a, auto b) { return b < a; }, bool, FLAMBEAU_INTEGERS>("gt"),
      binary<[](auto a, auto b) { return b <= a; }, bool, FLAMBEAU_INTEGERS>("ge"),
      unary<[](auto) { return false; }, bool, FLAMBEAU_INTEGERS>("isnan"),
      unary<[](auto) { return false; }, bool, FLAMBEAU_INTEGERS>("isinf"),
      unary<[](auto) { return false; }, bool, FLAMBEAU_INTEGERS>("isposinf"),
      unary<[](auto) { return false; }, bool, FLAMBEAU_INTEGERS>("isneginf"),
      unary<[](auto) { return true; }, bool, FLAMBEAU_INTEGERS>("isfinite"),
      unary<[]<class T>(T a) { return a < T(0); }, bool, FLAMBEAU_INTEGERS>("signbit"),
      any_stride(loops_of<Clamp, bool, FLAMBEAU_INTEGERS>("clamp", 3)),
      // by size alone; halves choose without conversion
      any_stride(
          from_loops<bool, int8_t, uint8_t, int16_t, uint16_t, float16, bfloat16, int32_t, uint32_t, int64_t, uint64_t>(
              "where", 3,
              {where_loop<uint8_t>, where_loop<uint8_t>, where_loop<uint8_t>, where_loop<uint16_t>,
               where_loop<uint16_t>, where_loop<uint16_t>, where_loop<uint16_t>, where_loop<uint32_t>,
               where_loop<uint32_t>, where_loop<uint64_t>, where_loop<uint64_t>}),
          1),
      any_stride(
          from_loops<bool, int8_t, uint8_t, int16_t, uint16_t, float16, bfloat16, int32_t, uint32_t, int64_t, uint64_t>(
              "masked_fill", 3,
              {masked_fill_loop<uint8_t>, masked_fill_loop<uint8_t>, masked_fill_loop<uint8_t>,
               masked_fill_loop<uint16_t>, masked_fill_loop<uint16_t>, masked_fill_loop<uint16_t>,
               masked_fill_loop<uint16_t>, masked_fill_loop<uint32_t>, masked_fill_loop<uint32_t>,
               masked_fill_loop<uint64_t>, masked_fill_loop<uint64_t>}),
          2),
  });
});

static const ElementwiseRows bitwise(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary<[]<class T>(T a, T b) { return T(a & b); }, bool, FLAMBEAU_INTEGERS>("bitwise_and"),
      binary<[]<class T>(T a, T b) { return T(a | b); }, bool, FLAMBEAU_INTEGERS>("bitwise_or"),
      binary<[]<class T>(T a, T b) { return T(a ^ b); }, bool, FLAMBEAU_INTEGERS>("bitwise_xor"),
      unary<[]<class T>(T a) { return T(~a); }, FLAMBEAU_INTEGERS>("bitwise_not"),
      from_loops<bool>("bitwise_not", 1, {not_loop}),
      binary<[]<class T>(T a, T b) { return shift_left(a, b); }, FLAMBEAU_INTEGERS>("bitwise_left_shift"),
      binary<[]<class T>(T a, T b) { return shift_right(a, b); }, FLAMBEAU_INTEGERS>("bitwise_right_shift"),
      binary<[](bool a, bool b) { return bool(a & b); }, bool>("logical_and"),
      binary<[](bool a, bool b) { return bool(a | b); }, bool>("logical_or"),
      binary<[](bool a, bool b) { return a != b; }, bool>("logical_xor"),
      from_loops<bool>("logical_not", 1, {not_loop}),
      // bool arithmetic: sums are "or", products "and"
      binary_n<[](bool a, bool b, bool alpha) { return bool(a | (alpha & b)); }, 1, bool>("add"),
      binary<[](bool a, bool b) { return bool(a & b); }, bool>("mul"),
      unary<[](bool a) { return a; }, bool>("sign"),
      unary<[](bool a) { return a; }, bool>("sgn"),
      unary<[](bool a) { return a; }, bool>("nan_to_num"),
      binary<[](bool a, bool b) { return a ? true : b; }, bool>("heaviside"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD
#endif
