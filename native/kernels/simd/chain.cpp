// The steps of chains over tiles of eight vectors. Compiled with contraction off: eager's operators round one by one.
#include "../chain.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

inline F32::V square_root(F32::V v) {
#if FLAMBEAU_LEVEL == 1
  return _mm512_sqrt_ps(v);
#else
  return _mm256_sqrt_ps(v);
#endif
}
inline F64::V square_root(F64::V v) {
#if FLAMBEAU_LEVEL == 1
  return _mm512_sqrt_pd(v);
#else
  return _mm256_sqrt_pd(v);
#endif
}

constexpr int kVectors = 8;

template <class L>
struct Tile {
  using T = typename L::T;
  using V = typename L::V;
  V v0, v1, v2, v3, v4, v5, v6, v7;  // by name: an array would live in memory

  template <class F>
  inline __attribute__((always_inline)) void each(F f) {
    v0 = f(v0, 0), v1 = f(v1, 1), v2 = f(v2, 2), v3 = f(v3, 3);
    v4 = f(v4, 4), v5 = f(v5, 5), v6 = f(v6, 6), v7 = f(v7, 7);
  }
  // f of the accumulator and an operand: an array, or one number
  template <class F>
  inline __attribute__((always_inline)) void array(const T* p, F f) {
    each([&](V v, int k) { return f(v, L::load(p + k * L::width)); });
  }
  template <class F>
  inline __attribute__((always_inline)) void number(const T* p, F f) {
    const V x = L::set(*p);
    each([&](V v, int) { return f(v, x); });
  }
  inline __attribute__((always_inline)) void store(T* p) {
    each([&](V v, int k) {
      L::store(p + k * L::width, v);
      return v;
    });
  }
};

// long because: a table of steps
template <class L>
void chain(const ChainStep* steps, int64_t n) {
  using T = typename L::T;
  using V = typename L::V;
  Tile<L> t{};
  for (int64_t at = 0; at < n; at += kVectors * L::width)
    for (const ChainStep* s = steps; s->code; ++s) {
      T* const p = reinterpret_cast<T*>(s->at) + (at & s->advances);
      const T* const one = reinterpret_cast<const T*>(s->at);
#define FLAMBEAU_STEP(name, f)                                                 \
  case 2 * int(ChainOp::name): t.array(p, [](V v, V x) { return f; }); break;  \
  case 2 * int(ChainOp::name) + 1: t.number(one, [](V v, V x) { return f; }); break;
      switch (s->code) {
        FLAMBEAU_STEP(Load, ((void)v, x))
        FLAMBEAU_STEP(Add, v + x)
        FLAMBEAU_STEP(Sub, v - x)
        FLAMBEAU_STEP(Mul, v * x)
        FLAMBEAU_STEP(Div, v / x)
        FLAMBEAU_STEP(SubFrom, x - v)
        FLAMBEAU_STEP(DivInto, x / v)
        case 2 * int(ChainOp::Store): t.store(p); break;
        case 2 * int(ChainOp::Square): t.each([](V v, int) { return v * v; }); break;
        case 2 * int(ChainOp::Neg): t.each([](V v, int) { return -v; }); break;
        case 2 * int(ChainOp::Relu): t.each([](V v, int) { return v < L::zero() ? L::zero() : v; }); break;
        case 2 * int(ChainOp::Sqrt): t.each([](V v, int) { return square_root(v); }); break;
        default: __builtin_unreachable();
      }
#undef FLAMBEAU_STEP
    }
}

constexpr ChainKernels kKernels{chain<F32>, chain<F64>};
const bool registered = [] {
  chain_kernels[FLAMBEAU_LEVEL] = &kKernels;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
