// Transforms from and to real numbers: an even length as complex numbers of half of it, several rows two at a time.
#include "fft_lines.h"
#include "gemm.h"

namespace flambeau::fft {

namespace {

template <class T>
struct HalfCircle {
  std::vector<T> values;  // re, im of exp(-2 pi i k / n) for k up to n / 2
};

template <class T>
std::shared_ptr<const HalfCircle<T>> half_circle(int64_t n) {
  return kept<HalfCircle<T>>(n, [&] {
    auto made = std::make_shared<HalfCircle<T>>();
    for (int64_t k = 0; k <= n / 2; ++k) {
      auto w = root(k, n);
      made->values.push_back(T(w.real())), made->values.push_back(T(w.imag()));
    }
    return made;
  });
}

// Real to complex: an even length as complex numbers of half of it.
template <class T>
void real_line(const Transform<T>& t, const T* in, T* out) {
  const int64_t n = t.n, h = n / 2;
  if (n % 2) {
    std::vector<T> z, f;
    fill_twice(z, n);
    fill_twice(f, n);
    for (int64_t k = 0; k < std::min(n, t.given); ++k) z[size_t(2 * k)] = in[k * t.in_step];
    complex_line<T>(n, z.data(), 2, n, f.data(), 2, false, t.scale);
    for (int64_t k = 0; k <= h; ++k)
      out[k * t.out_step] = f[size_t(2 * k)],
              out[k * t.out_step + 1] = t.conjugate ? -f[size_t(2 * k + 1)] : f[size_t(2 * k + 1)];
    return;
  }
  std::vector<T> packed;
  T* f = scratch<T>(kScratchD, n);
  const T* z = in;
  if (t.in_step != 1 || t.given < n) {
    packed.assign(size_t(n), T(0));
    for (int64_t k = 0; k < std::min(n, t.given); ++k) packed[size_t(k)] = in[k * t.in_step];
    z = packed.data();
  }
  complex_line<T>(h, z, 2, h, f, 2, false, T(1));
  auto circle = half_circle<T>(n);
  const T half = t.scale * T(0.5), *roots = circle->values.data();
  for (int64_t k = 0; k <= h; ++k) {
    const T *u = f + 2 * (k == h ? 0 : k), *v = f + 2 * (k ? h - k : 0);
    T er = u[0] + v[0], ei = u[1] - v[1], dr = u[0] - v[0],
      di = u[1] + v[1];  // sums of even, differences of odd places
    T wr = roots[2 * k], wi = roots[2 * k + 1];
    out[k * t.out_step] = (er + di * wr + dr * wi) * half;
    out[k * t.out_step + 1] = (ei + di * wi - dr * wr) * (t.conjugate ? -half : half);
  }
}
// Complex to real.
template <class T>
void hermitian_line(const Transform<T>& t, const T* in, T* out) {
  const int64_t n = t.n, h = n / 2;
  std::vector<T> z, f;
  if (n % 2 == 0) {
    auto circle = half_circle<T>(n);
    const T* roots = circle->values.data();
    auto half = [&](int64_t k, T& re, T& im) {
      re = k < t.given ? in[k * t.in_step] : T(0);
      im = k < t.given && k && k != h ? in[k * t.in_step + 1] : T(0);
      if (t.conjugate) im = -im;
    };
    z.resize(size_t(n));
    for (int64_t k = 0; k < h; ++k) {
      T ar, ai, br, bi;
      half(k, ar, ai);
      half(h - k, br, bi);
      T er = ar + br, ei = ai - bi, dr = ar - br, di = ai + bi, wr = roots[2 * k], wi = -roots[2 * k + 1];
      T pr = dr * wr - di * wi, pi = dr * wi + di * wr;
      z[size_t(2 * k)] = er - pi, z[size_t(2 * k + 1)] = ei + pr;
    }
    T* to = out;
    if (t.out_step != 1) f.resize(size_t(n)), to = f.data();
    complex_line<T>(h, z.data(), 2, h, to, 2, true, t.scale);
    if (to != out) for (int64_t k = 0; k < n; ++k) out[k * t.out_step] = f[size_t(k)];
    return;
  }
  fill_twice(z, n);
  fill_twice(f, n);
  for (int64_t k = 0; k <= h && k < t.given; ++k) {
    T re = in[k * t.in_step], im = k == 0 || 2 * k == n ? T(0) : in[k * t.in_step + 1];
    if (t.conjugate) im = -im;
    z[size_t(2 * k)] = re, z[size_t(2 * k + 1)] = im;
    if (k && 2 * k != n) z[size_t(2 * (n - k))] = re, z[size_t(2 * (n - k) + 1)] = -im;
  }
  complex_line<T>(n, z.data(), 2, n, f.data(), 2, true, t.scale);
  for (int64_t k = 0; k < n; ++k) out[k * t.out_step] = f[size_t(2 * k)];
}

}  // namespace

template <class T>
void real_lines(const Transform<T>& t, const Lines& lines) {
  auto plan = plan_of<T>(t.n);
  const bool few = lines.count * 2 <= kernels<T>().lanes && t.n >= 256;
  if (plan->largest <= kLargestFactor && !few && t.n <= kLong) return side_by_side(*plan, t, lines);
  one_by_one<T>(lines, t.n, [&](int64_t from, int64_t to) {
    if (t.load == FftLoad::Reals) real_line(t, t.in + from, t.out + to);
    else hermitian_line(t, t.in + from, t.out + to);
  });
}

template void real_lines(const Transform<float>&, const Lines&);
template void real_lines(const Transform<double>&, const Lines&);

}  // namespace flambeau::fft
