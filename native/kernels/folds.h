// What reductions accumulate: sums, products, extremes, and moments, for the walk of reduce.h.
#pragma once
#include "reduce.h"
#include "row_loops.h"
#include "simd_casts.h"
#include "times.h"

namespace flambeau {

// --- folds: one accumulator, elements taken in any order -------------------------------------------------------------

// Integer sums and products wrap, as in the hardware; unsigned arithmetic says so.
template <class V> inline V wrapping_add(V a, V b) { return a + b; }
template <>
inline int64_t wrapping_add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
template <>
inline Vector<int64_t> wrapping_add(Vector<int64_t> a, Vector<int64_t> b) {
  return Vector<int64_t>(Vector<uint64_t>(a) + Vector<uint64_t>(b));
}
template <class V> inline V wrapping_multiply(V a, V b) { return a * b; }
template <>
inline int64_t wrapping_multiply(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
template <>
inline Vector<int64_t> wrapping_multiply(Vector<int64_t> a, Vector<int64_t> b) {
  return Vector<int64_t>(Vector<uint64_t>(a) * Vector<uint64_t>(b));
}

// Complex numbers are folded in vectors of real and imaginary parts in turn.
template <class R> struct VectorOf<std::complex<R>> {
  typedef R type __attribute__((vector_size(32)));
};
template <class T> inline constexpr bool kComplex = false;
template <class R> inline constexpr bool kComplex<std::complex<R>> = true;
template <class T> inline constexpr bool kFoldsVectors = kVectorizable<T> || kComplex<T>;
template <class R>
inline std::complex<R> wrapping_multiply(std::complex<R> a, std::complex<R> b) { return times(a, b); }
inline Vector<float> product_of_pairs(Vector<float> a, Vector<float> b) {
  const Vector<float> sign{-1, 1, -1, 1, -1, 1, -1, 1};
  return __builtin_shufflevector(a, a, 0, 0, 2, 2, 4, 4, 6, 6) * b +
         __builtin_shufflevector(a, a, 1, 1, 3, 3, 5, 5, 7, 7) * sign * neighbours_exchanged(b);
}
inline Vector<double> product_of_pairs(Vector<double> a, Vector<double> b) {
  const Vector<double> sign{-1, 1, -1, 1};
  return __builtin_shufflevector(a, a, 0, 0, 2, 2) * b +
         __builtin_shufflevector(a, a, 1, 1, 3, 3) * sign * neighbours_exchanged(b);
}

struct Same {
  template <class V> static V map(V v) { return v; }
};
struct Square {
  template <class V> static V map(V v) { return v * v; }
};
struct Magnitude {
  template <class V> static V map(V v) { return v < 0 ? -v : v; }
};
struct NanToZero {
  template <class V> static V map(V v) { return v == v ? v : V{}; }
};
struct Truth {
  template <class V> static V map(V v) { return v != 0 ? V{} + 1 : V{}; }
};

template <class T_, class Acc_, class Map>
struct Add : Map {
  using T = T_;
  using Acc = Acc_;
  static T zero() { return T(0); }
  static Acc identity() { return Acc(0); }
  template <class V> static V join(V a, V b) { return wrapping_add(a, b); }
};
// Floats are multiplied as doubles: products of a hundred of them leave the normal floats, where each multiplication
// takes some processors a hundred cycles.
template <class T_>
struct Multiply : Same {
  using T = T_;
  using Acc = std::conditional_t<std::is_same_v<T, float>, double, T>;
  static T zero() { return T(1); }
  static Acc identity() { return Acc(1); }
  template <class V> static V join(V a, V b) {
    if constexpr (kComplex<T> && !std::is_same_v<V, T>) return product_of_pairs(a, b);
    else return wrapping_multiply(a, b);
  }
  // Takes the vectors at the beginning of a run and returns how many elements they were.
  static int64_t take_vectors(double& acc, const float* p, int64_t n) requires std::is_same_v<T, float> {
    constexpr int64_t kFew = 32;
    if (n < kFew) return 0;
    acc *= row_loops().product(p, n);
    return n;
  }
};
// A NaN wins against every number: `extreme` of two vectors, which is a's wherever either is none, with the bits of NaN
// where b's is none.
template <class V> inline V or_nan(V extreme, V b) {
  if constexpr (std::is_same_v<V, Vector<float>> || std::is_same_v<V, Vector<double>>) {
    auto none = b != b;
    decltype(none) bits;
    std::memcpy(&bits, &extreme, sizeof bits);
    bits |= none;
    std::memcpy(&extreme, &bits, sizeof bits);
    return extreme;
  } else {
    return b != b ? b : extreme;
  }
}
template <class T_, class Map = Same>
struct Maximum : Map {
  using T = T_;
  using Acc = T_;
  static T zero() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::lowest();
  }
  static Acc identity() { return zero(); }
  template <class V> static V join(V a, V b) { return or_nan(plain(a, b), b); }
  template <class V> static V plain(V a, V b) { return b > a ? b : a; }  // without NaN: one instruction
};
template <class T_, class Map = Same>
struct Minimum : Map {
  using T = T_;
  using Acc = T_;
  static T zero() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static Acc identity() { return zero(); }
  template <class V> static V join(V a, V b) { return or_nan(plain(a, b), b); }
  template <class V> static V plain(V a, V b) { return b < a ? b : a; }
};
struct AnyBits : Same {
  using T = uint8_t;
  using Acc = uint8_t;
  static T zero() { return 0; }
  static Acc identity() { return 0; }
  template <class V> static V join(V a, V b) { return a | b; }
};
struct AllBits : Truth {
  using T = uint8_t;
  using Acc = uint8_t;
  static T zero() { return 1; }
  static Acc identity() { return 1; }
  template <class V> static V join(V a, V b) { return a & b; }
};

enum class Finish : uint8_t { None, Divide, Root, Flag };

template <class F>
struct Fold {
  using T = typename F::T;
  using Acc = typename F::Acc;
  static constexpr bool kFold = true;
  char* out;
  DType dtype;
  Finish finish = Finish::None;
  int64_t count = 1;

  Acc init() const { return F::identity(); }
  void merge(Acc& a, const Acc& b) const { a = F::join(a, b); }
  // Takes the vectors at the beginning of a run and returns how many elements they were; NaN is looked for on the side.
  static int64_t extreme_of_vectors(Acc& acc, const T* p, int64_t n) {
    int64_t i = 0;
    constexpr int L = kLanes<T>;
    if (n >= 8 * L) {
      Vector<T> a = F::map(load_vector(p)), b = a, c = a, d = a;
      auto nan = a != a;
      for (; i + 4 * L <= n; i += 4 * L) {
        Vector<T> u = F::map(load_vector(p + i)), v = F::map(load_vector(p + i + L));
        Vector<T> w = F::map(load_vector(p + i + 2 * L)), x = F::map(load_vector(p + i + 3 * L));
        a = F::plain(a, u);
        b = F::plain(b, v);
        c = F::plain(c, w);
        d = F::plain(d, x);
        if constexpr (std::is_floating_point_v<T>) nan |= ((u != u) | (v != v)) | ((w != w) | (x != x));
      }
      a = F::plain(F::plain(a, b), F::plain(c, d));
      alignas(32) T lane[L];
      store_vector(lane, a);
      for (int s = L / 2; s; s /= 2)
        for (int k = 0; k < s; ++k) lane[k] = F::plain(lane[k], lane[k + s]);
      bool any = false;
      if constexpr (std::is_floating_point_v<T>)
        for (int k = 0; k < L; ++k) any |= nan[k] != 0;
      acc = F::join(acc, any ? std::numeric_limits<T>::quiet_NaN() : lane[0]);
    }
    return i;
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t) const {
    int64_t i = 0;
    if constexpr (requires { F::plain(T(), T()); }) {
      i = extreme_of_vectors(acc, p, n);
    } else if constexpr (requires { F::take_vectors(acc, p, n); }) {
      i = F::take_vectors(acc, p, n);
    } else if constexpr (kFoldsVectors<T>) {
      constexpr int L = kLanes<T>;
      if (n >= L) {
        Vector<T> a = F::map(load_vector(p));
        i = L;
        if (n >= 4 * L) {
          Vector<T> b = F::map(load_vector(p + L)), c = F::map(load_vector(p + 2 * L)),
                    d = F::map(load_vector(p + 3 * L));
          for (i = 4 * L; i + 4 * L <= n; i += 4 * L) {
            a = F::join(a, F::map(load_vector(p + i)));
            b = F::join(b, F::map(load_vector(p + i + L)));
            c = F::join(c, F::map(load_vector(p + i + 2 * L)));
            d = F::join(d, F::map(load_vector(p + i + 3 * L)));
          }
          a = F::join(F::join(a, b), F::join(c, d));
        }
        for (; i + L <= n; i += L) a = F::join(a, F::map(load_vector(p + i)));
        alignas(32) T lanes[L];
        store_vector(lanes, a);
        Acc lane[L / 2];
        for (int k = 0; k < L / 2; ++k) lane[k] = F::join(Acc(lanes[k]), Acc(lanes[k + L / 2]));
        for (int s = L / 4; s; s /= 2)
          for (int k = 0; k < s; ++k) lane[k] = F::join(lane[k], lane[k + s]);
        acc = F::join(acc, lane[0]);
      }
    }
    for (; i < n; ++i) acc = F::join(acc, Acc(F::map(p[i])));
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    int64_t j = 0;
    if constexpr (kFoldsVectors<T>) {
      constexpr int L = kLanes<T>;
      alignas(32) T part[kColumns];
      const int64_t whole = w / L * L;
      int r = (n - 1) % 8 + 1;
      for (j = 0; j < whole; j += L) {
        Vector<T> v = F::map(load_vector(rows[0] + j));
        for (int k = 1; k < r; ++k) v = F::join(v, F::map(load_vector(rows[k] + j)));
        store_vector(part + j, v);
      }
      for (; r < n; r += 8) {
        const T* const* q = rows + r;
        auto pair = [&](int k, int64_t i) {
          return F::join(F::map(load_vector(q[k] + i)), F::map(load_vector(q[k + 1] + i)));
        };
        for (j = 0; j < whole; j += L) {
          Vector<T> u = F::join(pair(0, j), pair(2, j)), v = F::join(pair(4, j), pair(6, j));
          store_vector(part + j, F::join(load_vector(part + j), F::join(u, v)));
        }
      }
      for (j = 0; j < whole; ++j) acc[j] = F::join(acc[j], Acc(part[j]));
    }
    for (; j < w; ++j)
      for (int r = 0; r < n; ++r) acc[j] = F::join(acc[j], Acc(F::map(rows[r][j])));
  }
  void store(int64_t o, const Acc& acc) const {
    switch (finish) {
      case Finish::None: put<Acc>(out, dtype, o, acc); return;
      case Finish::Flag: put<Acc>(out, dtype, o, Acc(acc != Acc(0))); return;
      case Finish::Divide:
        if constexpr (std::is_same_v<Acc, double>) put<double>(out, dtype, o, acc / double(count));
        else if constexpr (std::is_same_v<Acc, complex128>) put<Acc>(out, dtype, o, acc / double(count));
        return;
      case Finish::Root:
        if constexpr (std::is_same_v<Acc, double>) put<double>(out, dtype, o, std::sqrt(acc));
        return;
    }
  }
  // `n` results, `step` elements apart from place `o` on; those of most sums and means side by side.
  void store_run(int64_t o, int64_t step, const Acc* acc, int64_t n) const {
    if (step == 1 && (finish == Finish::None || (finish == Finish::Divide && std::is_same_v<Acc, double>))) {
      if constexpr (std::is_floating_point_v<Acc>) {
        if (dtype == DType::Float32) return finish_run(acc, n, reinterpret_cast<float*>(out) + o);
        if (dtype == DType::Float64) return finish_run(acc, n, reinterpret_cast<double*>(out) + o);
        if (is_half(dtype)) return finish_halves(acc, n, out + o * 2);
      } else if constexpr (std::is_same_v<Acc, int64_t>) {
        if (dtype == DType::Int64) return (void)std::copy_n(acc, n, reinterpret_cast<int64_t*>(out) + o);
      }
    }
    for (int64_t j = 0; j < n; ++j) store(o + j * step, acc[j]);
  }

 private:
  template <class R>
  void finish_run(const Acc* acc, int64_t n, R* __restrict to) const {
    if (finish == Finish::None)
      for (int64_t j = 0; j < n; ++j) to[j] = R(acc[j]);
    else
      for (int64_t j = 0; j < n; ++j) to[j] = R(acc[j] / Acc(count));
  }
  void finish_halves(const Acc* acc, int64_t n, char* to) const {
    constexpr int64_t kSome = 256;
    float some[kSome];
    for (int64_t j = 0; j < n; j += kSome) {
      const int64_t m = std::min(kSome, n - j);
      finish_run(acc + j, m, some);
      if (dtype == DType::Float16) cast_run(reinterpret_cast<float16*>(to) + j, some, m);
      else cast_run(reinterpret_cast<bfloat16*>(to) + j, some, m);
    }
  }
};

// Blocks are centred on their own mean, then joined (Chan, Golub, LeVeque 1979).
// put(o, n, mean, m2) takes the result: count, mean, and sum of squared differences from it.
template <class T_, class Put>
struct Moments {
  using T = T_;
  struct Acc {
    double n, mean, m2;
  };
  static constexpr bool kFold = true;
  Put result;

  Acc init() const { return {0, 0, 0}; }
  void merge(Acc& a, const Acc& b) const {
    double n = a.n + b.n, delta = b.mean - a.mean;
    if (b.n == 0) return;
    if (a.n == 0) {
      a = b;
      return;
    }
    a.mean += delta * (b.n / n);
    a.m2 += b.m2 + delta * delta * (a.n * b.n / n);
    a.n = n;
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t) const {
    constexpr int L = kLanes<T>;
    double sum = 0;
    Fold<Add<T, double, Same>>{nullptr, DType::Float64}.block(sum, p, n, 0);
    const T centre = T(sum / double(n));
    Vector<T> s0{}, s1{}, q0{}, q1{};
    int64_t i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
      Vector<T> a = load_vector(p + i) - centre, b = load_vector(p + i + L) - centre;
      s0 += a;
      s1 += b;
      q0 += a * a;
      q1 += b * b;
    }
    s0 += s1;
    q0 += q1;
    double s = 0, q = 0;
    for (int k = 0; k < L; ++k) {
      s += s0[k];
      q += q0[k];
    }
    for (; i < n; ++i) {
      T d = p[i] - centre;
      s += d;
      q += d * d;
    }
    merge(acc, {double(n), double(centre) + s / double(n), std::max(q - s * s / double(n), 0.0)});
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    alignas(32) T sum[kColumns], square[kColumns];
    std::memcpy(sum, rows[0], size_t(w) * sizeof(T));
    for (int r = 1; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) sum[j] += rows[r][j];
    const T inverse = T(1) / T(n);
    for (int64_t j = 0; j < w; ++j) {
      sum[j] *= inverse;
      square[j] = (rows[0][j] - sum[j]) * (rows[0][j] - sum[j]);
    }
    for (int r = 1; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) square[j] += (rows[r][j] - sum[j]) * (rows[r][j] - sum[j]);
    // merge() with the two counts, which all columns share, divided once
    const double before = acc[0].n, all = before + n, share = n / all, cross = before * share;
    for (int64_t j = 0; j < w; ++j) {
      const double delta = double(sum[j]) - acc[j].mean;
      acc[j] = {all, before == 0 ? double(sum[j]) : acc[j].mean + delta * share,
                acc[j].m2 + double(square[j]) + (before == 0 ? 0 : delta * delta * cross)};
    }
  }
  void store(int64_t o, const Acc& acc) const { result(o, acc.n, acc.mean, acc.m2); }
};

// Moments of x over the dimensions in `mask`, in the compute type of its dtype.
template <class Put>
void run_moments(const char* op, const Tensor& x, uint64_t mask, Put put) {
  if (x.dtype == DType::Float64) run_reduction(Moments<double, Put>{put}, x, mask);
  else if (loader_of<float>(x.dtype)) run_reduction(Moments<float, Put>{put}, x, mask);
  else not_implemented(op, ": not implemented for ", dtype_name(x.dtype));
}

// out = x folded over the dimensions of `mask`.
template <class F>
void fold(const Tensor& x, Tensor& out, uint64_t mask, Finish finish = Finish::None, int64_t count = 1) {
  LockRelease lock(x.numel);
  run_reduction(Fold<F>{out.data, out.dtype, finish, count}, x, mask);
}

[[noreturn]] inline void no_loop_for(const Call& c, DType t) {
  not_implemented(c.name(), ": not implemented for ", dtype_name(t));
}

}  // namespace flambeau
