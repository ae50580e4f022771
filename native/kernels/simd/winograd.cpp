// The sums of minimal filtering F(2 x 2, 3 x 3), several channels side by side. Each is a small matrix on both sides of
// a square of places.
#include "../winograd.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

using X = F32;
using V = X::V;
constexpr int W = X::width;

struct Patch {  // B': 4 -> 4
  static constexpr int in = 4, out = 4;
  static void apply(const V* d, V* v) {
    v[0] = X::sub(d[0], d[2]), v[1] = X::add(d[1], d[2]), v[2] = X::sub(d[2], d[1]), v[3] = X::sub(d[1], d[3]);
  }
};
struct Result {  // A': 4 -> 2
  static constexpr int in = 4, out = 2;
  static void apply(const V* m, V* y) {
    y[0] = X::add(X::add(m[0], m[1]), m[2]), y[1] = X::sub(X::sub(m[1], m[2]), m[3]);
  }
};
struct Places {  // A: 2 -> 4
  static constexpr int in = 2, out = 4;
  static void apply(const V* g, V* z) {
    z[0] = g[0], z[1] = X::add(g[0], g[1]), z[2] = X::sub(g[0], g[1]), z[3] = X::sub(X::zero(), g[1]);
  }
};
struct Weights {  // G: 3 -> 4
  static constexpr int in = 3, out = 4;
  static void apply(const V* w, V* u) {
    const V ends = X::add(w[0], w[2]), half = X::set(0.5f);
    u[0] = w[0], u[1] = X::mul(half, X::add(ends, w[1])), u[2] = X::mul(half, X::sub(ends, w[1])), u[3] = w[2];
  }
};
struct Taps {  // G': 4 -> 3
  static constexpr int in = 4, out = 3;
  static void apply(const V* u, V* w) {
    const V half = X::set(0.5f), sum = X::mul(half, X::add(u[1], u[2]));
    w[0] = X::add(u[0], sum), w[1] = X::mul(half, X::sub(u[1], u[2])), w[2] = X::add(sum, u[3]);
  }
};

// M d M' of one vector in each place: `load(k)` gives place k of the square d, `store(k, v)` takes those of the result.
template <class M, class Load, class Store>
inline __attribute__((always_inline)) void both_sides(Load&& load, Store&& store) {
  V half[M::in][M::out];
#pragma GCC unroll 4
  for (int j = 0; j < M::in; ++j) {
    V column[M::in];
#pragma GCC unroll 4
    for (int i = 0; i < M::in; ++i) column[i] = load(i * M::in + j);
    M::apply(column, half[j]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < M::out; ++i) {
    V row[M::in], made[M::out];
#pragma GCC unroll 4
    for (int j = 0; j < M::in; ++j) row[j] = half[j][i];
    M::apply(row, made);
#pragma GCC unroll 4
    for (int j = 0; j < M::out; ++j) store(i * M::out + j, made[j]);
  }
}

// Channels of several places become sums `step` apart; those past the last channel are not touched.
template <class M>
void from_places(const float* const* from, int64_t channels, float* to, int64_t step) {
  int64_t c = 0;
  for (; c + W <= channels; c += W)
    both_sides<M>([&](int k) { return X::load(from[k] + c); }, [&](int k, V v) { X::store(to + k * step + c, v); });
  if (c == channels) return;
  const auto last = X::mask(int(channels - c));
  both_sides<M>([&](int k) { return X::load(from[k] + c, last); },
                [&](int k, V v) { X::store(to + k * step + c, v, last); });
}

template <class M>
void whole_vectors(const float* from, int64_t apart, int64_t width, float* to, int64_t step) {
  for (int64_t c = 0; c < width; c += W)
    both_sides<M>([&](int k) { return X::load(from + k * apart + c); },
                  [&](int k, V v) { X::store(to + k * step + c, v); });
}

template <Activation::Kind kind>
void results(const float* m, int64_t step, int64_t cols, const float* bias, bool adds, const Activation& a,
             float* const* to) {
  const V low = X::set(kind == Activation::Clip ? a.low : 0), high = X::set(a.high);
  for (int64_t c = 0; c < cols; c += W) {
    const bool whole = c + W <= cols;
    const auto mask = X::mask(int(cols - c));
    auto read = [&](const float* p) { return whole ? X::load(p + c) : X::load(p + c, mask); };
    const V shift = bias ? read(bias) : X::zero();
    both_sides<Result>([&](int k) { return X::load(m + k * step + c); },
                       [&](int k, V v) {
                         v = X::add(v, shift);
                         if (adds) v = X::add(v, read(to[k]));
                         if constexpr (kind != Activation::None) v = X::max(low, v);  // NaN stays
                         if constexpr (kind == Activation::Clip) v = X::min(high, v);
                         if (whole) X::store(to[k] + c, v);
                         else X::store(to[k] + c, v, mask);
                       });
  }
}

void result(const float* m, int64_t step, int64_t cols, const float* bias, bool adds, const Activation& a,
            float* const* to) {
  if (a.kind == Activation::Relu) return results<Activation::Relu>(m, step, cols, bias, adds, a, to);
  if (a.kind == Activation::Clip) return results<Activation::Clip>(m, step, cols, bias, adds, a, to);
  results<Activation::None>(m, step, cols, bias, adds, a, to);
}

constexpr WinogradKernels kKernels{from_places<Patch>, from_places<Places>, result, whole_vectors<Weights>,
                                   whole_vectors<Taps>};
const bool registered = [] {
  winograd_kernels_f32[FLAMBEAU_LEVEL] = &kKernels;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
