// Pooling: the window of every result along each of three axes; missing axes have one element.
struct Axis {
  int64_t in, out, kernel, stride, pad, dilation;
};
struct Axes {
  Axis axis[3];
};
struct Window {
  int64_t begin, end, extent;  // inside the source; what it counts for in a mean
};
template <bool EVEN, bool PADDED> INLINE Window window_of(const Axis& a, int64_t i) {
  if (!EVEN) {
    const int64_t begin = i * a.in / a.out, end = ((i + 1) * a.in + a.out - 1) / a.out;
    return {begin, end, end - begin};
  }
  const int64_t begin = i * a.stride - a.pad, reach = begin + (a.kernel - 1) * a.dilation + 1;
  const int64_t last = reach < a.in + a.pad ? reach : a.in + a.pad;
  const int64_t skipped = begin < 0 ? (-begin + a.dilation - 1) / a.dilation : 0;
  Window w{begin + skipped * a.dilation, last < a.in ? last : a.in, last - begin};
  if (!PADDED) w.extent = w.end > w.begin ? w.end - w.begin : 0;
  return w;
}
// Where result i lies: its plane and three windows.
template <bool EVEN, bool PADDED> struct Windows {
  Window w[3];
  int64_t plane, in;
  INLINE Windows(const Axes& a, int64_t i) {
    const int64_t o2 = a.axis[2].out, o1 = a.axis[1].out, o0 = a.axis[0].out;
    w[2] = window_of<EVEN, PADDED>(a.axis[2], i % o2);
    w[1] = window_of<EVEN, PADDED>(a.axis[1], i / o2 % o1);
    w[0] = window_of<EVEN, PADDED>(a.axis[0], i / (o2 * o1) % o0);
    in = a.axis[0].in * a.axis[1].in * a.axis[2].in;
    plane = i / (o2 * o1 * o0) * in;
  }
  // visit(offset in the plane)
  template <class Visit> INLINE void each(const Axes& a, Visit visit) const {
    for (int64_t i = w[0].begin; i < w[0].end; i += a.axis[0].dilation)
      for (int64_t j = w[1].begin; j < w[1].end; j += a.axis[1].dilation)
        for (int64_t k = w[2].begin; k < w[2].end; k += a.axis[2].dilation)
          visit((i * a.axis[1].in + j) * a.axis[2].in + k);
  }
  INLINE bool empty() const { return w[0].begin >= w[0].end || w[1].begin >= w[1].end || w[2].begin >= w[2].end; }
};
// Where window o of fractional pooling begins, by a number of [0, 1).
template <class A> INLINE int64_t drawn_start(const Axis& a, int64_t o, A sample) {
  const int64_t last = a.in - a.kernel;
  if (o == a.out - 1) return last;
  const A step = A(last) / A(a.out - 1);
  const int64_t at = int64_t((A(o) + sample) * step) - int64_t(sample * step);
  return at < 0 ? 0 : at < last ? at : last;
}

// --- images resized: the taps of one result along one axis
template <class A> INLINE A near_weight(A x, A a) { return fma(fma(a + 2, x, -(a + 3)) * x, x, A(1)); }
template <class A> INLINE A far_weight(A x, A a) { return fma(fma(fma(a, x, -5 * a), x, 8 * a), x, -4 * a); }
// MODE: n nearest, e nearest-exact, l linear, c cubic. `scale` is the step of linear and cubic, `step` that of nearest.
template <class A, char MODE> struct Taps {
  static constexpr int many = MODE == 'c' ? 4 : MODE == 'l' ? 2 : 1;
  int64_t place[many];
  A weight[many];
  INLINE Taps(int64_t o, int64_t in, int64_t out, A scale, float step, bool corners) {
    if constexpr (MODE == 'n' || MODE == 'e') {
      const float at = MODE == 'n' ? float(o) * step : (float(o) + 0.5f) * step;
      const int64_t own = in == out ? o : int64_t(floor(at));
      place[0] = own < in - 1 ? own : in - 1;
      weight[0] = A(1);
    } else {
      A at = corners ? scale * A(o) : fma(scale, A(o) + A(0.5), A(-0.5));
      if (MODE == 'l') at = in == out ? A(o) : at < A(0) ? A(0) : at;
      int64_t low = int64_t(floor(at));
      if (low > in - 1) low = in - 1;
      A t = at - A(low);
      t = t < A(0) ? A(0) : t > A(1) ? A(1) : t;
      if constexpr (MODE == 'l') {
        set(0, low, in, A(1) - t);
        set(1, low + 1, in, t);
      } else {
        const A c = A(-0.75);
        set(0, low - 1, in, far_weight(t + 1, c));
        set(1, low, in, near_weight(t, c));
        set(2, low + 1, in, near_weight(A(1) - t, c));
        set(3, low + 2, in, far_weight(A(2) - t, c));
      }
    }
  }
  INLINE void set(int k, int64_t at, int64_t in, A w) {
    place[k] = at < 0 ? 0 : at < in ? at : in - 1;
    weight[k] = w;
  }
};
// MODE with antialias: every pixel that result o covers, weighted by a triangle, Keys' cubic with a = -1/2 (c), or
// three lobes of a sinc (s); n: one pixel of an axis that has no other.
template <class A, char MODE> struct Covered {
  int64_t first, many;
  A centre, shrink, total;
  INLINE static A smooth(A x) {
    x = fabs(x);
    if constexpr (MODE == 'l') return x < 1 ? 1 - x : A(0);
    if constexpr (MODE == 'c') return x < 1 ? near_weight(x, A(-0.5)) : x < 2 ? far_weight(x, A(-0.5)) : A(0);
    if (x == 0 || x >= 3) return x == 0 ? A(1) : A(0);
    const A pi = A(3.14159265358979323846) * x;
    return 3 * sin(pi) * sin(pi / 3) / (pi * pi);
  }
  INLINE Covered(int64_t o, int64_t in, A scale) : first(0), many(1), centre(0), shrink(0), total(1) {
    if constexpr (MODE != 'n') {
      const A wide = scale > 1 ? scale : A(1), reach = (MODE == 'l' ? 1 : MODE == 'c' ? 2 : 3) * wide;
      const int64_t most = int64_t(ceil(reach)) * 2 + 1;
      centre = scale * (A(o) + A(0.5));
      shrink = 1 / wide;
      const int64_t begin = int64_t(centre - reach + A(0.5)), end = int64_t(centre + reach + A(0.5));
      first = begin > 0 ? begin : 0;
      many = (end < in ? end : in) - first;
      many = many < 0 ? 0 : many < most ? many : most;
      total = A(0);
      for (int64_t k = 0; k < many; ++k) total += raw(k);
      if (total == 0) total = A(1);
    }
  }
  INLINE A raw(int64_t k) const {
    if constexpr (MODE == 'n') return A(1);
    else return smooth((A(k + first) - centre + A(0.5)) * shrink);
  }
  INLINE A weight(int64_t k) const { return raw(k) / total; }
};
