// Sums, differences, products, signs and a few slopes of halves without a detour through blocks of float32: they are
// widened and rounded in registers. Python numbers keep their float32 value.
#include <algorithm>

#include "halves.h"
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <auto F> void bfloat16_loop(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars) {
  const float alpha = number<float>(scalars[0]);
  run2<uint16_t, uint16_t, uint16_t>(p, s, n,
                                     [alpha](uint16_t a, uint16_t b) { return narrow(F(widen(a), widen(b), alpha)); });
}
template <auto F> void bfloat16_number(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const float alpha = number<float>(scalars[0]), y = number<float>(scalars[kNumberPlace]);
  if (p[1]) return run1<uint16_t, uint16_t>(p, n, [=](uint16_t a) { return narrow(F(widen(a), y, alpha)); });
  char* const q[2] = {p[0], p[2]};
  run1<uint16_t, uint16_t>(q, n, [=](uint16_t b) { return narrow(F(y, widen(b), alpha)); });
}
template <auto F> ElementwiseRow slope_of_bfloat16(const char* name) {
  return from_loops<bfloat16>(name, 2, {bfloat16_loop<F>});
}
template <auto F> ElementwiseRow of_bfloat16(const char* name) {
  return with_number<bfloat16>(from_loops<bfloat16>(name, 2, {bfloat16_loop<F>}), bfloat16_number<F>);
}

#ifdef __F16C__
template <auto F> void float16_loop(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars) {
  const float alpha = number<float>(scalars[0]);
  float16* out = reinterpret_cast<float16*>(p[0]);
  const float16* from[2] = {reinterpret_cast<const float16*>(p[1]), reinterpret_cast<const float16*>(p[2])};
  constexpr int width = Float16::width;
  constexpr auto load = Float16::load;
  float16 last[2][width] = {}, result[width];
  for (int k = 0; k < 2; ++k)
    if (!s[k + 1]) std::fill_n(last[k], width, *from[k]);
  int64_t i = 0;
  for (; i + width <= n; i += width)
    Float16::store(out + i, F(load(s[1] ? from[0] + i : last[0]), load(s[2] ? from[1] + i : last[1]), alpha));
  if (i == n) return;
  for (int k = 0; k < 2; ++k)
    if (s[k + 1]) std::copy_n(from[k] + i, n - i, last[k]);
  Float16::store(result, F(load(last[0]), load(last[1]), alpha));
  std::copy_n(result, n - i, out + i);
}
template <auto F> void float16_number(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const float alpha = number<float>(scalars[0]), y = number<float>(scalars[kNumberPlace]);
  const float16* from = reinterpret_cast<const float16*>(p[1] ? p[1] : p[2]);
  float16* out = reinterpret_cast<float16*>(p[0]);
  constexpr int width = Float16::width;
  using Vector = decltype(Float16::load(nullptr));
  const Vector all = y - Vector{};
  const bool second = p[1];
  auto computed = [=](const float16* at) {
    const Vector a = Float16::load(at);
    return second ? F(a, all, alpha) : F(all, a, alpha);
  };
  int64_t i = 0;
  for (; i + width <= n; i += width) Float16::store(out + i, computed(from + i));
  if (i == n) return;
  float16 last[width] = {};
  std::copy_n(from + i, n - i, last);
  Float16::store(last, computed(last));
  std::copy_n(last, n - i, out + i);
}
template <auto F> ElementwiseRow of_float16(const char* name) {
  return with_number<float16>(from_loops<float16>(name, 2, {float16_loop<F>}), float16_number<F>);
}
#endif

// Signs are bits, whatever the number: the NaNs are those above `infinity`.
template <uint16_t infinity> void relu_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  run1<uint16_t, uint16_t>(p, n, [](uint16_t a) {
    return uint16_t(a > 0x8000 && a <= 0x8000 + infinity ? 0 : a);
  });
}
template <uint16_t keep, uint16_t change> void sign_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  run1<uint16_t, uint16_t>(p, n, [](uint16_t a) { return uint16_t((a & keep) ^ change); });
}
void copysign_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  run2<uint16_t, uint16_t, uint16_t>(p, s, n,
                                     [](uint16_t a, uint16_t b) { return uint16_t((a & 0x7fff) | (b & 0x8000)); });
}
constexpr LoopFn kNegate = sign_loop<0xffff, 0x8000>, kAbsolute = sign_loop<0x7fff, 0>;

constexpr auto kAdd = [](auto a, auto b, float alpha) { return a + alpha * b; };
constexpr auto kSub = [](auto a, auto b, float alpha) { return a - alpha * b; };
constexpr auto kMul = [](auto a, auto b, float) { return a * b; };
constexpr auto kSubFrom = [](auto a, auto b, float alpha) { return b - alpha * a; };
constexpr auto kMaximum = [](auto a, auto b, float) { return (a > b) | (a != a) ? a : b; };  // NaN wins
constexpr auto kMinimum = [](auto a, auto b, float) { return (a < b) | (a != a) ? a : b; };
constexpr auto kSigmoidSlope = [](auto g, auto y, float) { return g * (1.f - y) * y; };
constexpr auto kTanhSlope = [](auto g, auto y, float) { return g * (1.f - y * y); };
constexpr auto kLogsigmoidSlope = [](float g, float x, float) { return g / (1.f + exp_normal(x)); };

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({of_bfloat16<kAdd>("add"), of_bfloat16<kSub>("sub"), of_bfloat16<kMul>("mul"), of_bfloat16<kMul>("_mul_conj"),
         of_bfloat16<kSubFrom>("rsub")});
  r.add({slope_of_bfloat16<kSigmoidSlope>("sigmoid_backward"), slope_of_bfloat16<kTanhSlope>("tanh_backward"),
         slope_of_bfloat16<kLogsigmoidSlope>("logsigmoid_backward")});
  r.add({from_loops<bfloat16, float16>("relu", 1, {relu_loop<0x7f80>, relu_loop<0x7c00>}),
         from_loops<bfloat16, float16>("neg", 1, {kNegate, kNegate}),
         from_loops<bfloat16, float16>("abs", 1, {kAbsolute, kAbsolute}),
         from_loops<bfloat16, float16>("copysign", 2, {copysign_loop, copysign_loop})});
#ifdef __F16C__
  r.add({of_float16<kAdd>("add"), of_float16<kSub>("sub"), of_float16<kMul>("mul"), of_float16<kMul>("_mul_conj"),
         of_float16<kSubFrom>("rsub"), from_loops<float16>("maximum", 2, {float16_loop<kMaximum>}),
         from_loops<float16>("minimum", 2, {float16_loop<kMinimum>})});
#endif
});

}  // namespace flambeau::FLAMBEAU_SIMD
