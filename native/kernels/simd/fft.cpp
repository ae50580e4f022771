// The passes of Fourier transforms, W of them side by side in the lanes of a vector.
#include "../fft.h"

#include <algorithm>
#include <cstring>

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int kBytes = FLAMBEAU_LEVEL == 1 ? 64 : 32;
template <class T> struct Lanes { typedef T type __attribute__((vector_size(kBytes))); };
template <class T> using Vec = typename Lanes<T>::type;
template <class T> constexpr int kW = kBytes / int(sizeof(T));

template <class T>
struct Cx {
  Vec<T> r, i;
};
template <class T> inline Cx<T> operator+(const Cx<T>& a, const Cx<T>& b) { return {a.r + b.r, a.i + b.i}; }
template <class T> inline Cx<T> operator-(const Cx<T>& a, const Cx<T>& b) { return {a.r - b.r, a.i - b.i}; }
template <class T> inline Cx<T> scaled(const Cx<T>& a, T f) { return {a.r * f, a.i * f}; }
template <class T> inline Cx<T> turned(const Cx<T>& a) { return {a.i, -a.r}; }  // times -i
template <class T> inline Cx<T> times(const Cx<T>& a, T wr, T wi) { return {a.r * wr - a.i * wi, a.r * wi + a.i * wr}; }

// The transform of R numbers, in place.
// long because: one case per radix, in registers
template <int R, class T>
inline void butterfly(Cx<T>* x) {
  if constexpr (R == 2) {
    Cx<T> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (R == 3) {
    constexpr T s = T(0.86602540378443864676);
    Cx<T> sum = x[1] + x[2], difference = scaled(turned(x[1] - x[2]), s),
          middle = {x[0].r - sum.r * T(0.5), x[0].i - sum.i * T(0.5)};
    x[0] = x[0] + sum;
    x[1] = middle + difference;
    x[2] = middle - difference;
  } else if constexpr (R == 4) {
    Cx<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = turned(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  } else if constexpr (R == 5) {
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410), s1 = T(0.95105651629515357212),
                s2 = T(0.58778525229247312917);
    Cx<T> a = x[1] + x[4], b = x[2] + x[3], d = turned(x[1] - x[4]), e = turned(x[2] - x[3]);
    Cx<T> p = {x[0].r + a.r * c1 + b.r * c2, x[0].i + a.i * c1 + b.i * c2},
          q = {x[0].r + a.r * c2 + b.r * c1, x[0].i + a.i * c2 + b.i * c1};
    Cx<T> u = scaled(d, s1) + scaled(e, s2), v = scaled(d, s2) - scaled(e, s1);
    x[0] = x[0] + a + b;
    x[1] = p + u;
    x[4] = p - u;
    x[2] = q + v;
    x[3] = q - v;
  } else {
    static_assert(R == 8);
    constexpr T h = T(0.70710678118654752440);
    Cx<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    butterfly<4>(even);
    butterfly<4>(odd);
    odd[1] = times(odd[1], h, -h);
    odd[2] = turned(odd[2]);
    odd[3] = times(odd[3], -h, -h);
    for (int k = 0; k < 4; ++k) {
      x[k] = even[k] + odd[k];
      x[k + 4] = even[k] - odd[k];
    }
  }
}

template <int R, class T>
void pass(int64_t l, int64_t inner, const Cx<T>* from, Cx<T>* to, const T* w) {
  for (int64_t k = 0; k < l; ++k)
    for (int64_t x = 0; x < inner; ++x) {
      Cx<T> v[R];
      for (int j = 0; j < R; ++j) v[j] = from[x + inner * (j + R * k)];
      butterfly<R>(v);
      const T* t = w + 2 * (R - 1) * x;
      to[x + inner * k] = v[0];
      if (x == 0) {
        for (int j = 1; j < R; ++j) to[inner * (k + l * j)] = v[j];
      } else {
        for (int j = 1; j < R; ++j) to[x + inner * (k + l * j)] = times(v[j], t[2 * j - 2], t[2 * j - 1]);
      }
    }
}
// Any odd radix: x_b and x_(radix - b) meet in the results j and radix - j, as sums with cosines and differences with
// sines.
constexpr int kMostGeneric = 64;
template <class T>
void pass_any(int radix, int64_t l, int64_t inner, const Cx<T>* from, Cx<T>* to, const T* w, const T* roots) {
  const int half = radix / 2;
  for (int64_t k = 0; k < l; ++k)
    for (int64_t x = 0; x < inner; ++x) {
      Cx<T> sum[kMostGeneric / 2], difference[kMostGeneric / 2];
      const Cx<T>* at = from + x + inner * radix * k;
      const Cx<T> zero = at[0];
      Cx<T> all = zero;
      for (int b = 1; b <= half; ++b) {
        const Cx<T> u = at[inner * b], v = at[inner * (radix - b)];
        sum[b - 1] = u + v;
        difference[b - 1] = u - v;
        all = all + sum[b - 1];
      }
      const T* t = w + 2 * (radix - 1) * x;
      to[x + inner * k] = all;
      for (int j = 1; j <= half; ++j) {
        Cx<T> p = zero, q{};
        for (int b = 1, r = 0; b <= half; ++b) {
          r += j;
          if (r >= radix) r -= radix;
          p = p + scaled(sum[b - 1], roots[2 * r]);
          q = q + scaled(difference[b - 1], -roots[2 * r + 1]);
        }
        q = turned(q);
        Cx<T> first = p + q, last = p - q;
        if (x) {
          first = times(first, t[2 * j - 2], t[2 * j - 1]);
          last = times(last, t[2 * (radix - j) - 2], t[2 * (radix - j) - 1]);
        }
        to[x + inner * (k + l * j)] = first;
        to[x + inner * (k + l * (radix - j))] = last;
      }
    }
}

template <class T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, Vec<T> v) { std::memcpy(p, &v, sizeof v); }

// Whether lane k starts k `distance` after the first, so that vectors can be moved whole.
template <class P>
bool adjacent(P const* lanes, int lanes_count, int64_t distance) {
  for (int k = 0; k < lanes_count; ++k)
    if (!lanes[k] || lanes[k] != lanes[0] + k * distance) return false;
  return true;
}
template <class T>
struct Masks {
  typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> I __attribute__((vector_size(kBytes)));
  I even, odd, low, high;
  Masks() {
    constexpr int W = kW<T>;
    for (int k = 0; k < W; ++k) {
      even[k] = 2 * k;
      odd[k] = 2 * k + 1;
      low[k] = k / 2 + (k & 1) * W;
      high[k] = W / 2 + k / 2 + (k & 1) * W;
    }
  }
};

// Elements of lanes that lie apart pass through a tile in cache, element by element on one side, by vectors on the
// other.
constexpr int kTile = 16;
template <class T, int parts>
inline void gather(T* tile, const T* const* lanes, int64_t start, int64_t step, int64_t n) {
  struct Element { T x[parts]; };
  for (int l = 0; l < kW<T>; ++l) {
    const T* p = lanes[l] + start * step;
    for (int64_t k = 0; k < n; ++k) std::memcpy(tile + (k * kW<T> + l) * parts, p + k * step, sizeof(Element));
  }
}
template <class T, int parts>
inline void scatter(const T* tile, T* const* lanes, int64_t start, int64_t step, int64_t n) {
  struct Element { T x[parts]; };
  for (int l = 0; l < kW<T>; ++l) {
    if (!lanes[l]) continue;
    T* p = lanes[l] + start * step;
    for (int64_t k = 0; k < n; ++k) std::memcpy(p + k * step, tile + (k * kW<T> + l) * parts, sizeof(Element));
  }
}
template <class T>
inline Cx<T> apart(const T* p, const Masks<T>& m) {
  Vec<T> a = load(p), b = load(p + kW<T>);
  return {__builtin_shuffle(a, b, m.even), __builtin_shuffle(a, b, m.odd)};
}
template <class T>
inline void together(T* p, const Cx<T>& v, const Masks<T>& m) {
  store(p, __builtin_shuffle(v.r, v.i, m.low));
  store(p + kW<T>, __builtin_shuffle(v.r, v.i, m.high));
}

template <class T>
void read_complex(const FftPlan<T>& plan, const FftJob<T>& job, Cx<T>* to) {
  const int64_t n = plan.n, given = std::min(n, job.given), step = job.in_step;
  const Masks<T> m;
  alignas(64) T tile[2 * kTile * kW<T>];
  const bool whole = adjacent(job.in, kW<T>, 2);
  for (int64_t start = 0; start < given; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, given - start);
    if (!whole) gather<T, 2>(tile, job.in, start, step, count);
    for (int64_t k = 0; k < count; ++k) {
      Cx<T> v = apart<T>(whole ? job.in[0] + (start + k) * step : tile + 2 * k * kW<T>, m);
      to[start + k] = job.swap_in ? Cx<T>{v.i, v.r} : v;
    }
  }
  for (int64_t k = given; k < n; ++k) to[k] = Cx<T>{};
}
template <class T>
void read_reals(const FftPlan<T>& plan, const FftJob<T>& job, Cx<T>* to) {
  const int64_t n = plan.n, given = std::min(n, job.given), step = job.in_step;
  alignas(64) T tile[kTile * kW<T>], tile2[kTile * kW<T>];
  const bool whole = adjacent(job.in, kW<T>, 1) && adjacent(job.in2, kW<T>, 1);
  for (int64_t start = 0; start < given; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, given - start);
    if (!whole) {
      gather<T, 1>(tile, job.in, start, step, count);
      gather<T, 1>(tile2, job.in2, start, step, count);
    }
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = (start + k) * step;
      to[start + k] = whole ? Cx<T>{load(job.in[0] + at), load(job.in2[0] + at)}
                            : Cx<T>{load(tile + k * kW<T>), load(tile2 + k * kW<T>)};
    }
  }
  for (int64_t k = given; k < n; ++k) to[k] = Cx<T>{};
}
// a + i b of two halves of Hermitian spectra, exchanged for the inverse transform
template <class T>
void read_hermitian(const FftPlan<T>& plan, const FftJob<T>& job, Cx<T>* to) {
  const int64_t n = plan.n, step = job.in_step;
  const Masks<T> m;
  alignas(64) T tile[2 * kTile * kW<T>], tile2[2 * kTile * kW<T>];
  for (int64_t start = 0; start <= n / 2; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, n / 2 + 1 - start),
                  there = std::clamp<int64_t>(job.given - start, 0, count);
    gather<T, 2>(tile, job.in, start, step, there);
    gather<T, 2>(tile2, job.in2, start, step, there);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t k = start + j;
      Cx<T> a{}, b{};
      if (j < there) a = apart<T>(tile + 2 * j * kW<T>, m), b = apart<T>(tile2 + 2 * j * kW<T>, m);
      if (k == 0 || 2 * k == n) a.i = b.i = Vec<T>{};
      if (job.conjugate) a.i = -a.i, b.i = -b.i;
      to[k] = {a.i + b.r, a.r - b.i};
      if (k && 2 * k != n) to[n - k] = {b.r - a.i, a.r + b.i};
    }
  }
}
template <class T>
void read(const FftPlan<T>& plan, const FftJob<T>& job, Cx<T>* to) {
  switch (job.load) {
    case FftLoad::Complex: return read_complex(plan, job, to);
    case FftLoad::Reals: return read_reals(plan, job, to);
    case FftLoad::Hermitian: return read_hermitian(plan, job, to);
  }
}

template <class T>
void write_complex(const FftPlan<T>& plan, const FftJob<T>& job, const Cx<T>* from) {
  const int64_t n = plan.n, step = job.out_step;
  const T scale = job.scale;
  const Masks<T> m;
  alignas(64) T tile[2 * kTile * kW<T>];
  const bool whole = adjacent(job.out, kW<T>, 2);
  for (int64_t start = 0; start < n; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, n - start);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t k = start + j;
      Cx<T> v = from[k];
      if (job.factor) {
        Cx<T> w = apart<T>(job.factor + k * job.factor_step, m);
        v = {v.r * w.r - v.i * w.i, v.r * w.i + v.i * w.r};
      }
      if (scale != T(1)) v = scaled(v, scale);
      if (job.swap_out) v = {v.i, v.r};
      together<T>(whole ? job.out[0] + k * step : tile + 2 * j * kW<T>, v, m);
    }
    if (!whole) scatter<T, 2>(tile, job.out, start, step, count);
  }
}
// the spectra of a and b from that of a + i b
template <class T>
void write_hermitian(const FftPlan<T>& plan, const FftJob<T>& job, const Cx<T>* from) {
  const int64_t n = plan.n, step = job.out_step;
  const Masks<T> m;
  alignas(64) T tile[2 * kTile * kW<T>], tile2[2 * kTile * kW<T>];
  const T half = job.scale * T(0.5), sign = job.conjugate ? -half : half;
  for (int64_t start = 0; start <= n / 2; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, n / 2 + 1 - start);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t k = start + j;
      const Cx<T> &u = from[k], &v = from[k ? n - k : 0];
      together<T>(tile + 2 * j * kW<T>, Cx<T>{(u.r + v.r) * half, (u.i - v.i) * sign}, m);
      together<T>(tile2 + 2 * j * kW<T>, Cx<T>{(u.i + v.i) * half, (v.r - u.r) * sign}, m);
    }
    scatter<T, 2>(tile, job.out, start, step, count);
    scatter<T, 2>(tile2, job.out2, start, step, count);
  }
}
template <class T>
void write_reals(const FftPlan<T>& plan, const FftJob<T>& job, const Cx<T>* from) {
  const int64_t n = plan.n, step = job.out_step;
  const T scale = job.scale;
  alignas(64) T tile[kTile * kW<T>], tile2[kTile * kW<T>];
  const bool whole = adjacent(job.out, kW<T>, 1) && adjacent(job.out2, kW<T>, 1);
  for (int64_t start = 0; start < n; start += kTile) {
    const int64_t count = std::min<int64_t>(kTile, n - start);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t k = start + j;
      store(whole ? job.out[0] + k * step : tile + j * kW<T>, from[k].i * scale);
      store(whole ? job.out2[0] + k * step : tile2 + j * kW<T>, from[k].r * scale);
    }
    if (!whole) {
      scatter<T, 1>(tile, job.out, start, step, count);
      scatter<T, 1>(tile2, job.out2, start, step, count);
    }
  }
}
template <class T>
void write(const FftPlan<T>& plan, const FftJob<T>& job, const Cx<T>* from) {
  switch (job.store) {
    case FftStore::Complex: return write_complex(plan, job, from);
    case FftStore::Hermitian: return write_hermitian(plan, job, from);
    case FftStore::Reals: return write_reals(plan, job, from);
  }
}

template <class T>
void run(const FftPlan<T>& plan, const FftJob<T>& job, T* first, T* second) {
  auto *from = reinterpret_cast<Cx<T>*>(first), *to = reinterpret_cast<Cx<T>*>(second);
  read(plan, job, from);
  int64_t l = 1;
  for (size_t k = 0; k < plan.factors.size(); ++k) {
    const int radix = plan.factors[k];
    const int64_t inner = plan.n / (l * radix);
    const T* w = plan.twiddles[k].data();
    switch (radix) {
      case 2: pass<2, T>(l, inner, from, to, w); break;
      case 3: pass<3, T>(l, inner, from, to, w); break;
      case 4: pass<4, T>(l, inner, from, to, w); break;
      case 5: pass<5, T>(l, inner, from, to, w); break;
      case 8: pass<8, T>(l, inner, from, to, w); break;
      default: pass_any<T>(radix, l, inner, from, to, w, plan.roots[k].data());
    }
    std::swap(from, to);
    l *= radix;
  }
  write(plan, job, from);
}

template <class T>
constexpr FftKernels<T> kKernels{kW<T>, run<T>};

const bool registered = [] {
  fft_kernels_f32[FLAMBEAU_LEVEL] = &kKernels<float>;
  fft_kernels_f64[FLAMBEAU_LEVEL] = &kKernels<double>;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
