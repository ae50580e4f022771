// Passes over rows of channels that lie side by side: floats, doubles, or halves that stay in memory as they are.
//
// Everything but the table is local to this file: code compiled for one instruction set must not be shared with
// another.
#include "../column_loops.h"

#include <algorithm>
#include <array>

#include "row_elements.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

typedef double Doubles __attribute__((vector_size(kBytes)));
struct Double {
  using Type = double;
  static Doubles load(const double* p) {
    Doubles v;
    std::memcpy(&v, p, kBytes);
    return v;
  }
  static Doubles load(const double* p, int64_t n, Doubles padding) {
    if (n >= kBytes / 8) return load(p);
    std::memcpy(&padding, p, size_t(n) * 8);
    return padding;
  }
  static void store(double* p, Doubles v, int64_t n) {
    std::memcpy(p, &v, size_t(std::min<int64_t>(n, kBytes / 8)) * 8);
  }
};
// What is computed in: vectors of numbers, and how those of a channel are read.
template <class E> struct Computing { using Vector = Floats; using Number = float; using Own = Single; };
template <> struct Computing<Double> { using Vector = Doubles; using Number = double; using Own = Double; };
template <class E> using VectorOf = Computing<E>::Vector;
template <class E> using NumberOf = Computing<E>::Number;
template <class E> constexpr int kLanes = kBytes / sizeof(NumberOf<E>);
template <class E>
VectorOf<E> own(const NumberOf<E>* p, int64_t n) { return Computing<E>::Own::load(p, n, VectorOf<E>{}); }

// Rows are read as they lie, some at a time, so that their sums, which stay in the first cache, are read and written
// more seldom.
constexpr int64_t kWide = 1024;
template <class E, size_t Many>
using Sums = NumberOf<E>[Many][kWide];
template <class E, int kRows, size_t Many, class Term>
void add_rows(Sums<E, Many>& sums, int64_t width, int64_t channels, int64_t at, int64_t column, const Term& term) {
  along<kLanes<E>>(width, [&](int64_t i, auto n) {
    VectorOf<E> v[Many];
    for (size_t k = 0; k < Many; ++k) v[k] = own<E>(sums[k] + i, kLanes<E>);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::array<VectorOf<E>, Many> terms = term(at + r * channels + i, column + i, n);
      for (size_t k = 0; k < Many; ++k) v[k] += terms[k];
    }
    for (size_t k = 0; k < Many; ++k) Computing<E>::Own::store(sums[k] + i, v[k], kLanes<E>);
  });
}
// to[k][column] += the k-th number of term(place, column, n) of all rows
template <class E, size_t Many, class Term>
void add_columns(int64_t rows, int64_t channels, const std::array<double*, Many>& to, const Term& term) {
  constexpr int kRows = Many == 1 ? 8 : 4;
  for (int64_t j = 0; j < channels; j += kWide) {
    alignas(64) Sums<E, Many> sums;
    const int64_t width = std::min(kWide, channels - j);
    for (auto& s : sums) std::fill_n(s, (width + kLanes<E> - 1) / kLanes<E> * kLanes<E>, NumberOf<E>(0));
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) add_rows<E, kRows, Many>(sums, width, channels, r * channels + j, j, term);
    for (; r < rows; ++r) add_rows<E, 1, Many>(sums, width, channels, r * channels + j, j, term);
    for (size_t k = 0; k < Many; ++k)
      for (int64_t i = 0; i < width; ++i) to[k][j + i] += double(sums[k][i]);
  }
}

template <class E, class T = E::Type>
void sums(const void* from, int64_t rows, int64_t channels, double* to) {
  const T* x = static_cast<const T*>(from);
  add_columns<E, 1>(rows, channels, {to}, [=](int64_t at, int64_t, auto n) {
    return std::array{E::load(x + at, n, VectorOf<E>{})};
  });
}
template <class E, class T = E::Type>
void squares(const void* from, const NumberOf<E>* center, int64_t rows, int64_t channels, double* to) {
  const T* x = static_cast<const T*>(from);
  add_columns<E, 1>(rows, channels, {to}, [=](int64_t at, int64_t column, auto n) {
    const VectorOf<E> d = E::load(x + at, n, VectorOf<E>{}) - own<E>(center + column, n);
    return std::array{d * d};
  });
}
template <class E, class T = E::Type>
void products(const void* gradient, const void* from, const NumberOf<E>* center, int64_t rows, int64_t channels,
              double* level, double* along) {
  const T *g = static_cast<const T*>(gradient), *x = static_cast<const T*>(from);
  add_columns<E, 2>(rows, channels, {level, along}, [=](int64_t at, int64_t column, auto n) {
    const VectorOf<E> v = E::load(g + at, n, VectorOf<E>{});
    return std::array{v, v * (E::load(x + at, n, VectorOf<E>{}) - own<E>(center + column, n))};
  });
}

// make(column, n) reads what belongs to these channels, once for two rows, and returns what is done at a place of each.
template <class E, class Make>
void each_row(int64_t rows, int64_t channels, const Make& make) {
  auto together = [&](int64_t r, auto count) {
    along<kLanes<E>>(channels, [&](int64_t i, auto n) {
      const auto done = make(i, n);
      for (int64_t k = 0; k < count; ++k) done((r + k) * channels + i);
    });
  };
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) together(r, std::integral_constant<int64_t, 2>());
  if (r < rows) together(r, std::integral_constant<int64_t, 1>());
}
template <class E, class T = E::Type>
void scale(const void* from, const NumberOf<E>* center, const NumberOf<E>* p, const NumberOf<E>* o, int64_t rows,
           int64_t channels, void* to) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  each_row<E>(rows, channels, [=](int64_t i, auto n) {
    const VectorOf<E> m = center ? own<E>(center + i, n) : VectorOf<E>{}, vp = own<E>(p + i, n), vo = own<E>(o + i, n);
    return [=](int64_t at) { E::store(y + at, (E::load(x + at, n, VectorOf<E>{}) - m) * vp + vo, n); };
  });
}
template <class E, class T = E::Type>
void mix(const void* gradient, const void* from, const NumberOf<E>* center, const NumberOf<E>* p, const NumberOf<E>* q,
         const NumberOf<E>* o, int64_t rows, int64_t channels, void* to) {
  const T *g = static_cast<const T*>(gradient), *x = static_cast<const T*>(from);
  T* dx = static_cast<T*>(to);
  each_row<E>(rows, channels, [=](int64_t i, auto n) {
    const VectorOf<E> m = own<E>(center + i, n), vp = own<E>(p + i, n), vq = own<E>(q + i, n), vo = own<E>(o + i, n);
    return [=](int64_t at) {
      const VectorOf<E> d = E::load(x + at, n, VectorOf<E>{}) - m;
      E::store(dx + at, E::load(g + at, n, VectorOf<E>{}) * vp + d * vq + vo, n);
    };
  });
}

template <class E>
constexpr ColumnLoops<NumberOf<E>> kLoops{sums<E>, squares<E>, products<E>, scale<E>, mix<E>};
constexpr AllColumnLoops kAll{{kLoops<Single>, kLoops<Half>, kLoops<Brain>}, kLoops<Double>};
const bool registered = [] { return column_loop_levels[FLAMBEAU_LEVEL] = &kAll, true; }();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
