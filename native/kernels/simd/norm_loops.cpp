// layer_norm and rms_norm of one row of floats or halves that fits the first-level cache, forward and backward.
//
// Everything but the table is local to this file: code compiled for one instruction set must not be shared with
// another.
#include "../norm_loops.h"

#include <algorithm>
#include <cmath>

#include "../elementwise.h"
#include "row_elements.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// f(i, m, k) for the sum k: two at a time hide the latency of addition.
template <class F>
inline void each_two(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) f(i, L, 0), f(i + L, L, 1);
  for (; i < n; i += L) f(i, n - i, 0);
}

template <class E, class T = E::Type>
inline float mean_of(const T* x, int64_t n) {
  Floats sums[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) { sums[k] += E::load(x + i, m, Floats{}); });
  return float(add_lanes(sums[0] + sums[1]) * (1 / double(n)));
}

template <class E, class T = E::Type>
void norm_row(const void* from, const float* w, const float* b, int64_t n, double eps, bool centred, void* to) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  const float mean = centred ? mean_of<E>(x, n) : 0;
  const Floats padding = Floats{} + mean;
  Floats squares[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) {
    const Floats d = E::load(x + i, m, padding) - mean;
    squares[k] += d * d;
  });
  const float rstd = float(1 / std::sqrt(add_lanes(squares[0] + squares[1]) * (1 / double(n)) + eps));
  each_two(n, [&](int64_t i, int64_t m, int) {
    const Floats v = (E::load(x + i, m, padding) - mean) * rstd * load_part(w + i, m, Floats{});
    E::store(y + i, b ? v + load_part(b + i, m, Floats{}) : v, m);
  });
}

// What the gradient of a row needs of all its numbers.
struct Along {
  float mean, rstd, along, level;
};
template <class E, class T = E::Type>
Along look_along(const T* g, const T* x, const float* w, int64_t n, double eps, bool centred) {
  const float mean = centred ? mean_of<E>(x, n) : 0;
  const Floats padding = Floats{} + mean;
  Floats squares[2]{}, products[2]{}, sums[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) {
    const Floats d = E::load(x + i, m, padding) - mean;
    const Floats gw = E::load(g + i, m, Floats{}) * load_part(w + i, m, Floats{});
    squares[k] += d * d;
    products[k] += gw * d;
    sums[k] += gw;
  });
  const double share = 1 / double(n), exact = 1 / std::sqrt(add_lanes(squares[0] + squares[1]) * share + eps);
  return {mean, float(exact), float(add_lanes(products[0] + products[1]) * share * exact),
          centred ? float(add_lanes(sums[0] + sums[1]) * share) : 0};
}

// Two rows at a time read the weight, and read and write the parameters' gradients, half as often.
template <class E, int kRows, bool sums, class T = E::Type>
void backward_of(const T* g, const T* x, const float* w, int64_t n, double eps, bool centred, T* dx, float* dw,
                 float* db) {
  Along rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = look_along<E>(g + r * n, x + r * n, w, n, eps, centred);
  along(n, [&](int64_t i, int64_t m) {
    const Floats wi = load_part(w + i, m, Floats{});
    Floats dwi{}, dbi{};
    if (sums) dwi = load_part(dw + i, m, Floats{}), dbi = load_part(db + i, m, Floats{});
    for (int r = 0; r < kRows; ++r) {
      const auto& [mean, rstd, along, level] = rows[r];
      const Floats gi = E::load(g + r * n + i, m, Floats{});
      const Floats hat = (E::load(x + r * n + i, m, Floats{} + mean) - mean) * rstd;
      if (sums) dwi += gi * hat, dbi += gi;
      E::store(dx + r * n + i, rstd * (gi * wi - level - hat * along), m);
    }
    if (sums) store_part(dw + i, dwi, m), store_part(db + i, dbi, m);
  });
}
template <class E, class T = E::Type>
void norm_rows_backward(const void* g, const void* x, const float* w, int64_t rows, int64_t n, double eps, bool centred,
                        void* dx, float* dw, float* db) {
  const auto run = rows == 2 ? dw ? backward_of<E, 2, true> : backward_of<E, 2, false>
                             : dw ? backward_of<E, 1, true> : backward_of<E, 1, false>;
  run(static_cast<const T*>(g), static_cast<const T*>(x), w, n, eps, centred, static_cast<T*>(dx), dw, db);
}

template <class E> constexpr NormLoops kLoops{norm_row<E>, norm_rows_backward<E>};
const NormLoopsOfLevel table(FLAMBEAU_LEVEL, kLoops<Single>, kLoops<Half>, kLoops<Brain>);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
