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

// Each step is a function that ends with a call of the next one. The tile's vectors are its arguments, so they stay in
// registers, and going on takes one jump.
template <class L>
struct Chain {
  using T = typename L::T;
  using V = typename L::V;
  using Run = void (*)(const ChainStep*, int64_t, V, V, V, V, V, V, V, V);

  static void next(const ChainStep* s, int64_t at, V v0, V v1, V v2, V v3, V v4, V v5, V v6, V v7) {
    return reinterpret_cast<Run>(s[1].run)(s + 1, at, v0, v1, v2, v3, v4, v5, v6, v7);
  }
  static void none(const ChainStep*, int64_t, V, V, V, V, V, V, V, V) {}
  // f(vector of the tile, which of them it is) for each, and on
  template <class F>
  static inline __attribute__((always_inline)) void each(const ChainStep* s, int64_t at, V v0, V v1, V v2, V v3, V v4,
                                                         V v5, V v6, V v7, F f) {
    return next(s, at, f(v0, 0), f(v1, 1), f(v2, 2), f(v3, 3), f(v4, 4), f(v5, 5), f(v6, 6), f(v7, 7));
  }
  static T* place(const ChainStep* s, int64_t at) { return reinterpret_cast<T*>(s->at) + (at & s->advances); }

  // Steps as they meet the k-th vector of a tile.
  template <class F>
  struct WithArray {
    const T* p;
    WithArray(const ChainStep* s, int64_t at) : p(place(s, at)) {}
    inline __attribute__((always_inline)) V operator()(V v, int k) const { return F()(v, L::load(p + k * L::width)); }
  };
  template <class F>
  struct WithNumber {
    V x;
    WithNumber(const ChainStep* s, int64_t) : x(L::set(*reinterpret_cast<const T*>(s->at))) {}
    inline __attribute__((always_inline)) V operator()(V v, int) const { return F()(v, x); }
  };
  template <class F>
  struct Alone {
    Alone(const ChainStep*, int64_t) {}
    inline __attribute__((always_inline)) V operator()(V v, int) const { return F()(v); }
  };
  struct Kept {
    T* p;
    Kept(const ChainStep* s, int64_t at) : p(place(s, at)) {}
    inline __attribute__((always_inline)) V operator()(V v, int k) const {
      L::store(p + k * L::width, v);
      return v;
    }
  };
  template <class A>
  static void one(const ChainStep* s, int64_t at, V v0, V v1, V v2, V v3, V v4, V v5, V v6, V v7) {
    const A a(s, at);
    return each(s, at, v0, v1, v2, v3, v4, v5, v6, v7, a);
  }
  template <class A, class B>
  static void both(const ChainStep* s, int64_t at, V v0, V v1, V v2, V v3, V v4, V v5, V v6, V v7) {
    const A a(s, at);
    const B b(s + 1, at);
    return each(s + 1, at, v0, v1, v2, v3, v4, v5, v6, v7, [&](V v, int k) { return b(a(v, k), k); });
  }
  static void go(const ChainStep* steps, int64_t n) {
    const V v = L::zero();
    for (int64_t at = 0; at < n; at += kVectors * L::width)
      reinterpret_cast<Run>(steps->run)(steps, at, v, v, v, v, v, v, v, v);
  }

  template <class A, ChainOp op, bool beside_number>
  struct Known {
    using Step = A;
    static constexpr int code = chain_code(op, beside_number);
  };
  struct Taken { V operator()(V, V x) const { return x; } };
  struct Sum { V operator()(V v, V x) const { return v + x; } };
  struct Difference { V operator()(V v, V x) const { return v - x; } };
  struct Product { V operator()(V v, V x) const { return v * x; } };

  ChainLoop made{};
  template <class A> void take(int code) { made.steps[code] = reinterpret_cast<void (*)()>(&Chain::one<A>); }
  template <class F> void two(ChainOp op, F) {
    take<WithArray<F>>(chain_code(op, false)), take<WithNumber<F>>(chain_code(op, true));
  }
  template <class F> void alone(ChainOp op, F) {
    take<Alone<F>>(chain_code(op, false)), take<Alone<F>>(chain_code(op, true));
  }
  template <class A, class... B> void pairs_of() {
    ((made.pairs[A::code][B::code] = reinterpret_cast<void (*)()>(&Chain::both<typename A::Step, typename B::Step>)),
     ...);
  }
  template <class... Second> struct Each {
    template <class... First> static void pairs(Chain& c) { (c.pairs_of<First, Second...>(), ...); }
  };
  Chain() {
    made.go = go;
    for (bool number : {false, true}) {
      made.steps[chain_code(ChainOp::None, number)] = reinterpret_cast<void (*)()>(none);
      take<Kept>(chain_code(ChainOp::Store, number));
    }
    two(ChainOp::Load, Taken());
    two(ChainOp::Add, Sum());
    two(ChainOp::Sub, Difference());
    two(ChainOp::Mul, Product());
    two(ChainOp::Div, [](V v, V x) { return v / x; });
    two(ChainOp::SubFrom, [](V v, V x) { return x - v; });
    two(ChainOp::DivInto, [](V v, V x) { return x / v; });
    alone(ChainOp::Square, [](V v) { return v * v; });
    alone(ChainOp::Neg, [](V v) { return -v; });
    alone(ChainOp::Relu, [](V v) { return v < L::zero() ? L::zero() : v; });
    alone(ChainOp::Sqrt, [](V v) { return square_root(v); });
    using Load = Known<WithArray<Taken>, ChainOp::Load, false>;
    using AddArray = Known<WithArray<Sum>, ChainOp::Add, false>;
    using AddNumber = Known<WithNumber<Sum>, ChainOp::Add, true>;
    using SubArray = Known<WithArray<Difference>, ChainOp::Sub, false>;
    using SubNumber = Known<WithNumber<Difference>, ChainOp::Sub, true>;
    using MulArray = Known<WithArray<Product>, ChainOp::Mul, false>;
    using MulNumber = Known<WithNumber<Product>, ChainOp::Mul, true>;
    using Store = Known<Kept, ChainOp::Store, false>;
    Each<AddArray, AddNumber, SubArray, SubNumber, MulArray, MulNumber, Store>::template pairs<
        Load, AddArray, AddNumber, SubArray, SubNumber, MulArray, MulNumber>(*this);
  }
};

const ChainRegistration registration(FLAMBEAU_LEVEL, [] { return ChainKernels{Chain<F32>().made, Chain<F64>().made}; });

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
