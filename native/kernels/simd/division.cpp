// Integers divide as floating-point numbers that hold both: 16 bits as floats, 32 bits as doubles, and numbers below
// 2^51 as doubles where the processor converts 64-bit integers to them eight at a time. A quotient that is not whole
// keeps a distance of 1 / |b| from the next whole number, more than the rounding of the floating-point number, so its
// truncation is exact. Blocks with other numbers divide one by one.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

constexpr int64_t kBlock = 256;

template <bool kFloor, bool kRemainder, class T> T divide_any(T a, T b) {
  if (b == 0) zero_division();
  if (std::is_signed_v<T> && b == T(-1))  // the smallest integer over -1 would trap
    return kRemainder ? T(0) : T(std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(a));
  T q = T(a / b), r = T(a % b);
  bool low = kFloor && r != 0 && (r ^ b) < 0;
  return T(kRemainder ? r + (low ? b : 0) : q - low);
}
template <bool kFloor, bool kRemainder, class T> void divide_narrow(char* const* p, const int64_t* s, int64_t n,
                                                                    const Scalar*) {
  using R = std::conditional_t<sizeof(T) == 4, double, float>;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    char* q[3] = {p[0] + at * int64_t(sizeof(T)), p[1] + at * s[1], p[2] + at * s[2]};
    const T* divisor = reinterpret_cast<const T*>(q[2]);
    const bool fine = all_of<T>(s[2] ? m : 1, [&](int64_t i) {
      return (divisor[i] != 0) & !(sizeof(T) == 4 && divisor[i] == T(-1));
    });
    if (fine)
      run2<T, T, T>(q, s, m, [](T x, T y) {
        const int32_t a = x, b = y, q = int32_t(R(a) / R(b)), r = a - q * b;
        const bool low = kFloor & (r != 0) & ((r ^ b) < 0);
        return T(kRemainder ? r + (low ? b : 0) : q - low);
      });
    else
      run2<T, T, T>(q, s, m, divide_any<kFloor, kRemainder, T>);
  }
}
template <bool kFloor, bool kRemainder> ElementwiseRow narrow_integers(const char* name) {
  return from_loops<uint8_t, int8_t, int16_t, uint16_t, int32_t>(
      name, 2, {divide_narrow<kFloor, kRemainder, uint8_t>, divide_narrow<kFloor, kRemainder, int8_t>,
                divide_narrow<kFloor, kRemainder, int16_t>, divide_narrow<kFloor, kRemainder, uint16_t>,
                divide_narrow<kFloor, kRemainder, int32_t>}, 4);
}
#if FLAMBEAU_LEVEL == 1

constexpr int64_t kExact = int64_t(1) << 51;
inline bool is_short(int64_t v) { return (v < kExact) & (v > -kExact); }

// All of n elements short, divisors not zero.
inline bool all_short(const int64_t* a, bool many, int64_t n, bool divisor) {
  if (!many) return is_short(*a) && !(divisor && *a == 0);
  return all_of<int64_t>(n, [&](int64_t i) { return is_short(a[i]) & !(divisor & (a[i] == 0)); });
}

template <bool kFloor, bool kRemainder> inline int64_t divide(int64_t a, int64_t b) {
  int64_t q = int64_t(double(a) / double(b)), r = a - q * b;
  if constexpr (!kFloor) return kRemainder ? r : q;
  bool low = (r != 0) & ((r ^ b) < 0);
  return kRemainder ? r + (low ? b : 0) : q - low;
}

template <bool kFloor, bool kRemainder> void divide_long(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    char* q[3] = {p[0] + at * 8, p[1] + at * s[1], p[2] + at * s[2]};
    bool fine = all_short(reinterpret_cast<const int64_t*>(q[1]), s[1], m, false) &&
                all_short(reinterpret_cast<const int64_t*>(q[2]), s[2], m, true);
    if (fine)
      run2<int64_t, int64_t, int64_t>(q, s, m, [](int64_t a, int64_t b) { return divide<kFloor, kRemainder>(a, b); });
    else
      run2<int64_t, int64_t, int64_t>(q, s, m, divide_any<kFloor, kRemainder, int64_t>);
  }
}

#endif

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({narrow_integers<true, false>("floor_divide"), narrow_integers<true, true>("remainder"),
         narrow_integers<false, true>("fmod")});
#if FLAMBEAU_LEVEL == 1
  r.add({from_loops<int64_t>("floor_divide", 2, {divide_long<true, false>}, 4),
         from_loops<int64_t>("remainder", 2, {divide_long<true, true>}, 4),
         from_loops<int64_t>("fmod", 2, {divide_long<false, true>}, 4)});
#endif
});

}  // namespace flambeau::FLAMBEAU_SIMD
