// layer_norm and rms_norm of one row of floats that fits the first-level cache, forward and backward.
//
// Everything but the table is local to this file: code compiled for one instruction set must not be shared with
// another.
#include "../norm_loops.h"

#include <algorithm>
#include <cmath>

#include "../elementwise.h"
#include "row_vectors.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// f(i, m): the vector from i on, of which m numbers are the row's. Two sums at a time hide the latency of addition.
template <class F>
inline void each_two(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) f(i, L, 0), f(i + L, L, 1);
  for (; i < n; i += L) f(i, n - i, 0);
}

inline float mean_of(const float* x, int64_t n) {
  Floats sums[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) { sums[k] += load_part(x + i, m, Floats{}); });
  return float(add_lanes(sums[0] + sums[1]) * (1 / double(n)));
}

void norm_row(const float* x, const float* w, const float* b, int64_t n, double eps, bool centred, float* y) {
  const float mean = centred ? mean_of(x, n) : 0;
  const Floats padding = Floats{} + mean;
  Floats squares[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) {
    const Floats d = load_part(x + i, m, padding) - mean;
    squares[k] += d * d;
  });
  const float rstd = float(1 / std::sqrt(add_lanes(squares[0] + squares[1]) * (1 / double(n)) + eps));
  each_two(n, [&](int64_t i, int64_t m, int) {
    const Floats v = (load_part(x + i, m, padding) - mean) * rstd * load_part(w + i, m, Floats{});
    store_part(y + i, b ? v + load_part(b + i, m, Floats{}) : v, m);
  });
}

// What the gradient of a row needs of all its numbers.
struct Along {
  float mean, rstd, along, level;
};
Along look_along(const float* g, const float* x, const float* w, int64_t n, double eps, bool centred) {
  const float mean = centred ? mean_of(x, n) : 0;
  const Floats padding = Floats{} + mean;
  Floats squares[2]{}, products[2]{}, sums[2]{};
  each_two(n, [&](int64_t i, int64_t m, int k) {
    const Floats d = load_part(x + i, m, padding) - mean;
    const Floats gw = load_part(g + i, m, Floats{}) * load_part(w + i, m, Floats{});
    squares[k] += d * d;
    products[k] += gw * d;
    sums[k] += gw;
  });
  const double share = 1 / double(n), exact = 1 / std::sqrt(add_lanes(squares[0] + squares[1]) * share + eps);
  return {mean, float(exact), float(add_lanes(products[0] + products[1]) * share * exact),
          centred ? float(add_lanes(sums[0] + sums[1]) * share) : 0};
}

// Two rows at a time read and write the parameters' gradients half as often.
template <int kRows>
void backward_of(const float* g, const float* x, const float* w, int64_t n, double eps, bool centred, float* dx,
                 float* dw, float* db) {
  Along rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = look_along(g + r * n, x + r * n, w, n, eps, centred);
  for (int64_t i = 0; i < n; i += L) {
    const int64_t m = std::min<int64_t>(L, n - i);
    const Floats wi = load_part(w + i, m, Floats{});
    Floats dwi = load_part(dw + i, m, Floats{}), dbi = load_part(db + i, m, Floats{});
    for (int r = 0; r < kRows; ++r) {
      const auto& [mean, rstd, along, level] = rows[r];
      const Floats gi = load_part(g + r * n + i, m, Floats{});
      const Floats hat = (load_part(x + r * n + i, m, Floats{} + mean) - mean) * rstd;
      dwi += gi * hat;
      dbi += gi;
      store_part(dx + r * n + i, rstd * (gi * wi - level - hat * along), m);
    }
    store_part(dw + i, dwi, m);
    store_part(db + i, dbi, m);
  }
}
void norm_rows_backward(const float* g, const float* x, const float* w, int64_t rows, int64_t n, double eps,
                        bool centred, float* dx, float* dw, float* db) {
  (rows == 2 ? backward_of<2> : backward_of<1>)(g, x, w, n, eps, centred, dx, dw, db);
}

const NormLoopsOfLevel table(FLAMBEAU_LEVEL, {norm_row, norm_rows_backward});

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
