// Images read at given places: what a place of the grid reads, which its gradient writes to.
#include "turns.cuh"
struct Images {
  int64_t in[3];  // depth, height, width
  int64_t channels, places;
  INLINE int64_t plane() const { return in[0] * in[1] * in[2]; }
};
template <class A> struct Along {
  A at, slope;  // the place in pixels, and its derivative by the grid's number
};
template <class A> INLINE Along<A> reflected(A x, A low2, A high2) {
  if (low2 == high2) return {A(0), A(0)};
  const A low = low2 / 2, span = (high2 - low2) / 2, away = fabs(x - low), extra = fmod(away, span);
  const A sign = x < low ? A(-1) : A(1);
  const bool even = fmod(floor(away / span), A(2)) == 0;
  return even ? Along<A>{extra + low, sign} : Along<A>{span - extra + low, -sign};
}
// PAD: z zeros, b border, r reflection
template <class A, char PAD, bool ALIGN> INLINE Along<A> padded(A x, int64_t size) {
  Along<A> a{x, A(1)};
  if (PAD == 'z') return a;
  if (PAD == 'r') a = ALIGN ? reflected(x, A(0), A(2 * (size - 1))) : reflected(x, A(-1), A(2 * size - 1));
  if (a.at <= 0) return {A(0), A(0)};
  if (a.at >= A(size - 1)) return {A(size - 1), A(0)};
  return a;
}
template <class A, bool ALIGN> INLINE Along<A> in_pixels(A x, int64_t size) {
  if (ALIGN) return {(x + 1) / 2 * A(size - 1), A(size - 1) / 2};
  return {fma(x + 1, A(size), A(-1)) / 2, A(size) / 2};
}
// Beyond what an integer holds, or not a number: outside.
template <class A> INLINE A safe(A x) { return x > A(-2147483000) && x < A(2147483000) ? x : A(-100); }

template <class A> struct Cubic {  // Keys' kernel with a = -3/4 at four pixels, and its slope
  A weight[4], slope[4];
  INLINE Cubic(A t) {
    const A a = A(-0.75), x0 = t + 1, x2 = 1 - t, x3 = 2 - t;
    weight[0] = ((a * x0 - 5 * a) * x0 + 8 * a) * x0 - 4 * a;
    weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    weight[2] = ((a + 2) * x2 - (a + 3)) * x2 * x2 + 1;
    weight[3] = ((a * x3 - 5 * a) * x3 + 8 * a) * x3 - 4 * a;
    slope[0] = (3 * a * x0 - 10 * a) * x0 + 8 * a;
    slope[1] = (3 * (a + 2) * t - 2 * (a + 3)) * t;
    slope[2] = -((3 * (a + 2) * x2 - 2 * (a + 3)) * x2);
    slope[3] = -((3 * a * x3 - 10 * a) * x3 + 8 * a);
  }
};
template <class Visit, class A>
INLINE void tap(const Images& g, int64_t d, int64_t h, int64_t w, A weight, A sx, A sy, A sz, Visit visit) {
  if (d >= 0 && h >= 0 && w >= 0 && d < g.in[0] && h < g.in[1] && w < g.in[2])
    visit((d * g.in[1] + h) * g.in[2] + w, weight, sx, sy, sz);
}
template <class A, char PAD, bool ALIGN, class Visit>
INLINE void cubic_taps(const Images& g, A gx, A gy, Visit visit) {
  const Along<A> x = in_pixels<A, ALIGN>(gx, g.in[2]), y = in_pixels<A, ALIGN>(gy, g.in[1]);
  const A left = floor(safe(x.at)), top = floor(safe(y.at));
  const Cubic<A> wx(x.at - left);
  Cubic<A> wy(y.at - top);
  int64_t column[4];
#pragma unroll 1
  for (int j = 0; j < 4; ++j) {
    column[0] = int64_t(safe(padded<A, PAD, ALIGN>(left - 1 + A(j), g.in[2]).at));
    turn<1>(column);
  }
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    const int64_t row = int64_t(safe(padded<A, PAD, ALIGN>(top - 1 + A(i), g.in[1]).at));
#pragma unroll
    for (int j = 0; j < 4; ++j)
      tap(g, 0, row, column[j], wy.weight[0] * wx.weight[j], wy.weight[0] * wx.slope[j] * x.slope,
          wy.slope[0] * wx.weight[j] * y.slope, A(0), visit);
    turn<1>(wy.weight);
    turn<1>(wy.slope);
  }
}
// visit(offset in the plane, weight, its derivatives by the grid's x, y and z) for what lies inside the image.
// N: dimensions of the image; HOW: l linear, n nearest, c cubic. The grid holds x, y (, z): the last axis first.
template <class A, int N, char HOW, char PAD, bool ALIGN, class T, class Visit>
INLINE void each_tap(const Images& g, const T* grid, Visit visit) {
  if constexpr (HOW == 'c') {
    cubic_taps<A, PAD, ALIGN>(g, cast<A>(grid[0]), cast<A>(grid[1]), visit);
  } else {
    Along<A> a[3] = {{A(0), A(0)}, {A(0), A(0)}, {A(0), A(0)}};
#pragma unroll
    for (int d = 0; d < N; ++d) {
      const int64_t size = g.in[2 - d];
      const Along<A> raw = in_pixels<A, ALIGN>(cast<A>(grid[d]), size), kept = padded<A, PAD, ALIGN>(raw.at, size);
      a[d] = {safe(kept.at), raw.slope * kept.slope};
    }
    if constexpr (HOW == 'n') {
      tap(g, int64_t(rint(a[2].at)), int64_t(rint(a[1].at)), int64_t(rint(a[0].at)), A(1), A(0), A(0), A(0), visit);
    } else {
      const A x0 = floor(a[0].at), y0 = floor(a[1].at), z0 = floor(a[2].at);
      const A px = a[0].at - x0, py = a[1].at - y0, pz = a[2].at - z0;
#pragma unroll(N < 3 ? 4 : 2)
      for (int k = 0; k < (1 << N); ++k) {
        const int i = k & 1, j = k >> 1 & 1, q = k >> 2 & 1;
        const A wx = i ? px : 1 - px, wy = j ? py : 1 - py, wz = N < 3 ? A(1) : q ? pz : 1 - pz;
        tap(g, int64_t(z0) + q, int64_t(y0) + j, int64_t(x0) + i, wx * wy * wz, (i ? 1 : -1) * wy * wz * a[0].slope,
            (j ? 1 : -1) * wx * wz * a[1].slope, (q ? 1 : -1) * wx * wy * a[2].slope, visit);
      }
    }
  }
}
