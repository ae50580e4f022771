// Division of 64-bit integers where the processor converts them to doubles eight at a time: numbers below 2^51 divide
// as doubles. A quotient that is not whole keeps a distance of 1 / |b| from the next whole number, more than the
// rounding of the double, so its truncation is exact. Blocks with larger numbers divide one by one.
#include "loops.h"

#if FLAMBEAU_LEVEL == 1

namespace flambeau::FLAMBEAU_SIMD {

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

template <bool kFloor, bool kRemainder> int64_t divide_any(int64_t a, int64_t b) {
  if (b == 0) zero_division();
  if (b == -1) return kRemainder ? 0 : int64_t(uint64_t(0) - uint64_t(a));  // the smallest integer over -1 would trap
  int64_t q = a / b, r = a % b;
  bool low = kFloor && r != 0 && (r ^ b) < 0;
  return kRemainder ? r + (low ? b : 0) : q - low;
}
template <bool kFloor, bool kRemainder> void divide_long(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  constexpr int64_t kBlock = 256;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    char* q[3] = {p[0] + at * 8, p[1] + at * s[1], p[2] + at * s[2]};
    bool fine = all_short(reinterpret_cast<const int64_t*>(q[1]), s[1], m, false) &&
                all_short(reinterpret_cast<const int64_t*>(q[2]), s[2], m, true);
    if (fine)
      run2<int64_t, int64_t, int64_t>(q, s, m, [](int64_t a, int64_t b) { return divide<kFloor, kRemainder>(a, b); });
    else
      run2<int64_t, int64_t, int64_t>(q, s, m,
                                      [](int64_t a, int64_t b) { return divide_any<kFloor, kRemainder>(a, b); });
  }
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({from_loops<int64_t>("floor_divide", 2, {divide_long<true, false>}, 4),
         from_loops<int64_t>("remainder", 2, {divide_long<true, true>}, 4),
         from_loops<int64_t>("fmod", 2, {divide_long<false, true>}, 4)});
});

}  // namespace flambeau::FLAMBEAU_SIMD
#endif
