// softmax and its relatives over rows of floats, in vectors as wide as the instruction set has.
//
// Everything but the table is local to this file: code compiled for one instruction set must not be shared with
// another.
#include "../row_loops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "../elementwise.h"
#include "math.h"
#include "row_elements.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

float row_max(const float* x, int64_t n) {
  float top = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  bool nan = false;
  if (n >= L) {
    Floats a = load(x), b = a;
    Ints unordered = a != a;
    for (; i + 2 * L <= n; i += 2 * L) {
      Floats u = load(x + i), v = load(x + i + L);
      a = u > a ? u : a;
      b = v > b ? v : b;
      unordered |= (u != u) | (v != v);
    }
    a = b > a ? b : a;
    for (int k = 0; k < L; ++k) {
      top = a[k] > top ? a[k] : top;
      nan |= unordered[k] != 0;
    }
  }
  for (; i < n; ++i) {
    top = x[i] > top ? x[i] : top;
    nan |= x[i] != x[i];
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : top;
}

double exp_sum(const float* x, float* out, float top, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    Floats a{}, b{};
    int64_t i = begin;
    for (; i + 2 * L <= end; i += 2 * L) {
      Floats u = exp(load(x + i) - top), v = exp(load(x + i + L) - top);
      a += u;
      b += v;
      if (out) {
        store(out + i, u);
        store(out + i + L, v);
      }
    }
    const Floats padding = Floats{} - std::numeric_limits<float>::infinity();
    for (; i < end; i += L) {
      Floats u = exp(load_part(x + i, end - i, padding) - top);
      a += u;
      if (out) store_part(out + i, u, end - i);
    }
    total += add_lanes(a + b);
  }
  return total;
}

// e^x of many doubles, a part at a time: `x` writes a part to e, `f` takes their exponentials from there.
constexpr int64_t kPart = 256;
template <class X, class F>
inline void with_exponentials(int64_t n, X&& x, F&& f) {
  constexpr int64_t kTogether = 16;
  double e[kPart];
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t m = n - begin < kPart ? n - begin : kPart, whole = (m + kTogether - 1) / kTogether * kTogether;
    x(begin, m, e);
    for (int64_t k = m; k < whole; ++k) e[k] = 0;
    for (int64_t k = 0; k < whole; k += kTogether)
      for (int64_t j = 0; j < kTogether; ++j) e[k + j] = exp_(e[k + j]);
    f(begin, m, e);
  }
}

double exp_sum(const double* x, double* out, double top, int64_t n) {
  constexpr int kSums = 16;
  double sums[kSums] = {};
  with_exponentials(
      n,
      [&](int64_t i, int64_t m, double* e) {
        for (int64_t k = 0; k < m; ++k) e[k] = x[i + k] - top;
      },
      [&](int64_t i, int64_t m, const double* e) {
        int64_t k = 0;
        for (; k + kSums <= m; k += kSums)
          for (int j = 0; j < kSums; ++j) sums[j] += e[k + j];
        for (int j = 0; k + j < m; ++j) sums[j] += e[k + j];
        if (out) std::memcpy(out + i, e, size_t(m) * sizeof(double));
      });
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

template <bool columns>
void log_slope(const double* g, const double* y, const double* sum, double* dx, int64_t n) {
  with_exponentials(
      n, [&](int64_t i, int64_t m, double* e) { std::memcpy(e, y + i, size_t(m) * sizeof(double)); },
      [&](int64_t i, int64_t m, double* e) {
        for (int64_t k = 0; k < m; ++k) e[k] = g[i + k] - e[k] * sum[columns ? i + k : 0];
        std::memcpy(dx + i, e, size_t(m) * sizeof(double));
      });
}

constexpr int kTogether = 16;  // rows whose logarithms are taken side by side
void softmax_row(const float* x, float* y, int64_t n) {
  const float scale = float(1 / exp_sum(x, y, row_max(x, n), n));
  int64_t i = 0;
  for (; i + L <= n; i += L) store(y + i, load(y + i) * scale);
  for (; i < n; ++i) y[i] *= scale;
}
void log_softmax_rows(const float* x, float* y, int64_t rows, int64_t n) {
  for (; rows > 0; rows -= kTogether, x += kTogether * n, y += kTogether * n) {
    const int m = int(rows < kTogether ? rows : kTogether);
    float tops[kTogether];
    double sums[kTogether] = {};
    for (int r = 0; r < m; ++r) sums[r] = exp_sum(x + r * n, nullptr, tops[r] = row_max(x + r * n, n), n);
    for (double& sum : sums) sum = log_(sum);
    for (int r = 0; r < m; ++r) {
      const float *from = x + r * n, top = tops[r], shift = float(sums[r]);
      float* to = y + r * n;
      int64_t i = 0;
      for (; i + L <= n; i += L) store(to + i, load(from + i) - top - shift);
      for (; i < n; ++i) to[i] = from[i] - top - shift;
    }
  }
}
// Rows of more than (count - 1) and at most `count` vectors stay in registers. A NaN needs no care: its exponential
// makes the sum NaN, and that every element.
template <int count, bool log>
inline double exp_short(Floats* v, const float* x, int64_t rest) {
  const Floats padding = Floats{} - std::numeric_limits<float>::infinity();
  for (int k = 0; k < count - 1; ++k) v[k] = load(x + k * L);
  v[count - 1] = load_part(x + (count - 1) * L, rest, padding);
  Floats most = v[0], sums{};
  for (int k = 1; k < count; ++k) most = v[k] > most ? v[k] : most;
  const float top = fold_lanes(most, [](auto a, auto b) { return b > a ? b : a; });
  for (int k = 0; k < count; ++k) {
    v[k] -= top;
    const Floats e = exp(v[k]);
    sums += e;
    if (!log) v[k] = e;
  }
  return add_lanes(sums);
}
template <int count>
inline void store_short(float* y, const Floats* v, int64_t rest) {
  for (int k = 0; k < count - 1; ++k) store(y + k * L, v[k]);
  store_part(y + (count - 1) * L, v[count - 1], rest);
}
template <int count>
void softmax_short(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  const int64_t rest = n - (count - 1) * L;
  Floats v[count];
  if (!log) {
    for (; rows > 0; --rows, x += n, y += n) {
      const float scale = float(1 / exp_short<count, false>(v, x, rest));
      for (int k = 0; k < count; ++k) v[k] *= scale;
      store_short<count>(y, v, rest);
    }
    return;
  }
  for (; rows > 0; rows -= kTogether, x += kTogether * n, y += kTogether * n) {
    const int m = int(rows < kTogether ? rows : kTogether);
    double sums[kTogether] = {};
    for (int r = 0; r < m; ++r) {
      sums[r] = exp_short<count, true>(v, x + r * n, rest);
      store_short<count>(y + r * n, v, rest);
    }
    for (int r = 0; r < kTogether; ++r) sums[r] = log_(sums[r]);
    for (int r = 0; r < m; ++r) {
      const float shift = float(sums[r]);
      for (int k = 0; k < count - 1; ++k) v[k] = load(y + r * n + k * L) - shift;
      v[count - 1] = load_part(y + r * n + (count - 1) * L, rest, Floats{}) - shift;
      store_short<count>(y + r * n, v, rest);
    }
  }
}
void softmax(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  switch ((n + L - 1) / L) {
    case 0: return;
    case 1: return softmax_short<1>(x, y, rows, n, log);
    case 2: return softmax_short<2>(x, y, rows, n, log);
    case 3: return softmax_short<3>(x, y, rows, n, log);
    case 4: return softmax_short<4>(x, y, rows, n, log);
    default:
      if (log) return log_softmax_rows(x, y, rows, n);
      for (int64_t r = 0; r < rows; ++r) softmax_row(x + r * n, y + r * n, n);
  }
}

// The gradient of softmax, or of its logarithm, from that of the result and the result.
template <bool log>
inline Floats summand(Floats g, Floats y) { return log ? g : g * y; }
template <bool log>
inline Floats slope(Floats g, Floats y, float sum) { return log ? g - exp(y) * sum : y * (g - sum); }

template <class E, int count, bool log, class T = E::Type>
void backward_short(const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  const int64_t rest = n - (count - 1) * L, last = (count - 1) * L;
  for (; rows > 0; --rows, g += n, y += n, dx += n) {
    Floats a[count], b[count], sums{};
    for (int k = 0; k < count - 1; ++k) a[k] = E::load(g + k * L), b[k] = E::load(y + k * L);
    a[count - 1] = E::load(g + last, rest, Floats{});
    b[count - 1] = E::load(y + last, rest, Floats{});
    for (int k = 0; k < count; ++k) sums += summand<log>(a[k], b[k]);
    const float sum = float(add_lanes(sums));
    for (int k = 0; k < count; ++k) E::store(dx + k * L, slope<log>(a[k], b[k], sum), k < count - 1 ? L : rest);
  }
}
template <class E, bool log, class T = E::Type>
void backward_row(const T* g, const T* y, T* dx, int64_t n) {
  constexpr int kSums = 4;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    Floats sums[kSums]{};
    int64_t i = begin;
    for (; i + kSums * L <= end; i += kSums * L)
      for (int k = 0; k < kSums; ++k) sums[k] += summand<log>(E::load(g + i + k * L), E::load(y + i + k * L));
    for (; i < end; i += L)
      sums[0] += summand<log>(E::load(g + i, end - i, Floats{}), E::load(y + i, end - i, Floats{}));
    total += add_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  const float sum = float(total);
  int64_t i = 0;
  for (; i + L <= n; i += L) E::store(dx + i, slope<log>(E::load(g + i), E::load(y + i), sum), L);
  if (i < n) {
    const Floats of = E::load(g + i, n - i, Floats{}), at = E::load(y + i, n - i, Floats{});
    E::store(dx + i, slope<log>(of, at, sum), n - i);
  }
}
template <class E, bool log, class T = E::Type>
void backward_rows(const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  switch ((n + L - 1) / L) {
    case 0: return;
    case 1: return backward_short<E, 1, log>(g, y, dx, rows, n);
    case 2: return backward_short<E, 2, log>(g, y, dx, rows, n);
    case 3: return backward_short<E, 3, log>(g, y, dx, rows, n);
    case 4: return backward_short<E, 4, log>(g, y, dx, rows, n);
    default: for (int64_t r = 0; r < rows; ++r) backward_row<E, log>(g + r * n, y + r * n, dx + r * n, n);
  }
}
template <class E, class T = E::Type>
void softmax_backward(const void* g, const void* y, void* dx, int64_t rows, int64_t n, bool log) {
  (log ? backward_rows<E, true> : backward_rows<E, false>)(static_cast<const T*>(g), static_cast<const T*>(y),
                                                           static_cast<T*>(dx), rows, n);
}

#if defined(__AVX512F__)
// Fractions from 1 to 2 and exponents apart: neither leaves the range of floats, and nothing is widened.
double product(const float* x, int64_t n) {
  constexpr int kTogether = 4;
  constexpr int64_t kStep = kTogether * L, kFactors = 64;  // of a lane: with twice as many its fraction overflows
  Floats fractions[kTogether], exponents[kTogether];
  for (int k = 0; k < kTogether; ++k) fractions[k] = Floats{} + 1, exponents[k] = Floats{};
  auto exponent = [](Floats v) { return Floats(_mm512_getexp_ps(__m512(v))); };
  auto fraction = [](Floats v) { return Floats(_mm512_getmant_ps(__m512(v), _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src)); };
  auto multiply = [&](int k, Floats v) { exponents[k] += exponent(v), fractions[k] *= fraction(v); };
  int64_t i = 0;
  for (const int64_t whole = n / kStep * kStep; i < whole;) {
    for (const int64_t end = std::min(whole, i + kFactors * kStep); i < end; i += kStep)
#pragma GCC unroll 4
      for (int k = 0; k < kTogether; ++k) multiply(k, load(x + i + k * L));
    for (int k = 0; k < kTogether; ++k) exponents[k] += exponent(fractions[k]), fractions[k] = fraction(fractions[k]);
  }
  for (int k = 0; i < n; i += L, ++k) multiply(k, load_part(x + i, n - i, Floats{} + 1));
  const Floats f = (fractions[0] * fractions[1]) * (fractions[2] * fractions[3]);
  const double e = add_lanes((exponents[0] + exponents[1]) + (exponents[2] + exponents[3]));
  return fold_lanes(f, [](auto a, auto b) { return a * b; }) * (std::abs(e) < 1022 ? power_of_two(e) : std::exp2(e));
}
#else
// As doubles, in as many lanes as these products take to be ready.
double product(const float* x, int64_t n) {
  constexpr int kLanes = kBytes / 8, kTogether = 8;
  Doubles lanes[kTogether];
  for (Doubles& lane : lanes) lane = Doubles{} + 1;
  int64_t i = 0;
  for (; i + kLanes * kTogether <= n; i += kLanes * kTogether)
#pragma GCC unroll 8
    for (int k = 0; k < kTogether; ++k) {
      Halves<Floats>::Half v;
      std::memcpy(&v, x + i + kLanes * k, sizeof v);
      lanes[k] *= as_doubles(v);
    }
  for (int half = kTogether / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] *= lanes[k + half];
  double all = fold_lanes(lanes[0], [](auto a, auto b) { return a * b; });
  for (; i < n; ++i) all *= x[i];
  return all;
}
#endif

template <class E, bool log, class T>
void backward_columns(const T* g, const T* y, T* dx, int64_t n, int64_t apart, int64_t width) {
  alignas(kBytes) float sums[kColumnsTogether] = {};
  for (int64_t r = 0; r < n; ++r)
    along(width, [&, g = g + r * apart, y = y + r * apart](int64_t i, auto m) {
      const Floats v = E::load(g + i, m, Floats{});
      store(sums + i, load(sums + i) + (log ? v : v * E::load(y + i, m, Floats{})));
    });
  for (int64_t r = 0; r < n; ++r)
    along(width, [&, at = r * apart](int64_t i, auto m) {
      const Floats v = E::load(g + at + i, m, Floats{}), e = E::load(y + at + i, m, Floats{}), s = load(sums + i);
      E::store(dx + at + i, log ? v - exp(e) * s : e * (v - s), m);
    });
}
template <class E, class T = E::Type>
void softmax_backward_columns(const void* g, const void* y, void* dx, int64_t n, int64_t apart, int64_t width,
                              bool log) {
  (log ? backward_columns<E, true, T> : backward_columns<E, false, T>)(
      static_cast<const T*>(g), static_cast<const T*>(y), static_cast<T*>(dx), n, apart, width);
}

void columns_exp(const float* x, const float* top, float* sum, float* y, int64_t n, bool shifted) {
  for (int64_t i = 0; i < n; i += L) {
    const Floats v = load_part(x + i, n - i, Floats{}) - load_part(top + i, n - i, Floats{}), e = exp(v);
    store_part(sum + i, load_part(sum + i, n - i, Floats{}) + e, n - i);
    store_part(y + i, shifted ? v : e, n - i);
  }
}

void columns_exp(const double* x, const double* top, double* sum, double* y, int64_t n, bool shifted) {
  double v[kPart];
  with_exponentials(
      n,
      [&](int64_t i, int64_t m, double* e) {
        for (int64_t k = 0; k < m; ++k) e[k] = v[k] = x[i + k] - top[i + k];
      },
      [&](int64_t i, int64_t m, const double* e) {
        for (int64_t k = 0; k < m; ++k) sum[i + k] += e[k];
        std::memcpy(y + i, shifted ? v : e, size_t(m) * sizeof(double));
      });
}

template <class T> void logarithms_of(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = log_(x[i]);
}

constexpr RowLoops kLoops{
    softmax, {softmax_backward<Single>, softmax_backward<Half>, softmax_backward<Brain>},
    {softmax_backward_columns<Single>, softmax_backward_columns<Half>, softmax_backward_columns<Brain>},
    exp_sum, exp_sum, log_slope<false>, log_slope<true>, product,
    logarithms_of<float>, logarithms_of<double>, columns_exp, columns_exp};
const RowLoopsOfLevel table(FLAMBEAU_LEVEL, kLoops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
