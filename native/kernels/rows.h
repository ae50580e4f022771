// Passes over one row of floats that softmax, normalisation and losses are made of.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/call.h"
#include "vector.h"

namespace flambeau {

// The last n < kLanes elements of a row, padded.
template <class T>
inline Vector<T> load_tail(const T* p, int64_t n, T padding) {
  T lanes[kLanes<T>];
  for (int i = 0; i < kLanes<T>; ++i) lanes[i] = i < n ? p[i] : padding;
  return load_vector(lanes);
}
template <class T>
inline void store_tail(T* p, Vector<T> v, int64_t n) {
  T lanes[kLanes<T>];
  store_vector(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
template <class T>
inline double add_lanes(Vector<T> v) {
  double lane[kLanes<T>];
  for (int k = 0; k < kLanes<T>; ++k) lane[k] = double(v[k]);
  for (int s = kLanes<T> / 2; s; s /= 2)
    for (int k = 0; k < s; ++k) lane[k] += lane[k + s];
  return lane[0];
}

// f(index, vector-sized or shorter count) over a row: f(i, load, n) sees whole vectors first, then the padded tail.
// Sums taken this way restart every kRowBlock elements, which keeps float accumulators short.
inline constexpr int64_t kRowBlock = 4096;

template <class T, class F>  // f(i, n) -> Vector<T> summand; n < lanes only at the end
inline double sum_over(int64_t n, F&& f) {
  constexpr int L = kLanes<T>;
  double total = 0;
  for (int64_t start = 0; start < n; start += kRowBlock) {
    const int64_t stop = std::min(n, start + kRowBlock);
    Vector<T> a{}, b{}, c{}, d{};
    int64_t i = start;
    for (; i + 4 * L <= stop; i += 4 * L) {
      a += f(i, L);
      b += f(i + L, L);
      c += f(i + 2 * L, L);
      d += f(i + 3 * L, L);
    }
    for (; i + L <= stop; i += L) a += f(i, L);
    if (i < stop) b += f(i, int(stop - i));
    total += add_lanes<T>((a + b) + (c + d));
  }
  return total;
}
template <class T>
inline Vector<T> take(const T* p, int n, T padding = T(0)) {
  return n == kLanes<T> ? load_vector(p) : load_tail(p, n, padding);
}
template <class T>
inline void give(T* p, Vector<T> v, int n) {
  if (n == kLanes<T>) store_vector(p, v);
  else store_tail(p, v, n);
}
template <class T, class F>
inline void each(int64_t n, F&& f) {
  constexpr int L = kLanes<T>;
  int64_t i = 0;
  for (; i + L <= n; i += L) f(i, L);
  if (i < n) f(i, int(n - i));
}

template <class T>
inline T row_max(const T* p, int64_t n) {
  constexpr int L = kLanes<T>;
  T top = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  if (n >= L) {
    Vector<T> a = load_vector(p), b = a;
    for (; i + 2 * L <= n; i += 2 * L) {
      Vector<T> u = load_vector(p + i), v = load_vector(p + i + L);
      a = (u > a) | (u != u) ? u : a;
      b = (v > b) | (v != v) ? v : b;
    }
    a = (b > a) | (b != b) ? b : a;
    for (int k = 0; k < L; ++k) top = a[k] > top || a[k] != a[k] ? a[k] : top;
  }
  for (; i < n; ++i) top = p[i] > top || p[i] != p[i] ? p[i] : top;
  return top;
}
template <class T>
inline double row_sum(const T* p, int64_t n) {
  return sum_over<T>(n, [&](int64_t i, int k) { return take(p + i, k); });
}
template <class T>
inline double row_dot(const T* p, const T* q, int64_t n) {
  return sum_over<T>(n, [&](int64_t i, int k) { return take(p + i, k) * take(q + i, k); });
}

// Rows of a tensor in compute type T: the memory itself where it is of that type, else converted into a buffer.
template <class T>
struct RowReader {
  const char* data;
  LoadFn<T> load;
  int64_t item;
  bool direct;
  explicit RowReader(const Tensor& t)
      : data(t.data), load(loader_of<T>(t.dtype)), item(t.itemsize()), direct(reads_directly<T>(t.dtype)) {}
  const T* at(int64_t first, int64_t n, T* buffer) const {
    if (direct) return reinterpret_cast<const T*>(data) + first;
    load(buffer, data + first * item, item, n);
    return buffer;
  }
};
template <class T>
struct RowWriter {
  char* data;
  DType dtype;
  int64_t item;
  bool direct;
  explicit RowWriter(Tensor& t)
      : data(t.data), dtype(t.dtype), item(t.itemsize()), direct(reads_directly<T>(t.dtype)) {}
  T* at(int64_t first, T* buffer) const { return direct ? reinterpret_cast<T*>(data) + first : buffer; }
  void done(int64_t first, int64_t n, const T* buffer) const {
    if (!direct) store_row(data + first * item, dtype, buffer, n);
  }
};

// The type rows of this dtype are computed in: f.template operator()<float or double>().
template <class F>
void visit_rows(const char* op, DType t, F&& f) {
  if (t == DType::Float64) return f.template operator()<double>();
  if (t == DType::Float32 || is_half(t)) return f.template operator()<float>();
  not_implemented(op, ": not implemented for ", dtype_name(t));
}

}  // namespace flambeau
