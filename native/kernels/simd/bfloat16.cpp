// bfloat16 sums, differences and products without a detour through blocks of float32: widening is a shift. Python
// numbers keep their float32 value (the iterator sends those calls to the float32 loops).
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

inline float widen(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }
inline uint16_t narrow(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return uint16_t(f != f ? 0x7fc0u : rounded);
}
template <auto F> void half_loop(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars) {
  const float alpha = number<float>(scalars[0]);
  run2<uint16_t, uint16_t, uint16_t>(p, s, n,
                                     [alpha](uint16_t a, uint16_t b) { return narrow(F(widen(a), widen(b), alpha)); });
}
template <auto F> ElementwiseRow half(const char* name) { return from_loops<bfloat16>(name, 2, {half_loop<F>}); }

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({half<[](float a, float b, float alpha) { return a + alpha * b; }>("add"),
         half<[](float a, float b, float alpha) { return a - alpha * b; }>("sub"),
         half<[](float a, float b, float) { return a * b; }>("mul"),
         half<[](float a, float b, float) { return a * b; }>("_mul_conj")});
});

}  // namespace flambeau::FLAMBEAU_SIMD
