// Which way a Fourier transform goes: many short ones side by side, a long one as two rounds of short ones (Bailey's
// four steps), lengths with a large prime factor as a convolution (Bluestein); real numbers two rows at a time.
#include "fft.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "../core/machine.h"
#include "elementwise.h"
#include "gemm.h"

namespace flambeau {

const FftKernels<float>* fft_kernels_f32[2];
const FftKernels<double>* fft_kernels_f64[2];

namespace {

template <class T>
const FftKernels<T>& kernels() {
  if constexpr (sizeof(T) == 4) {
    static const auto& chosen = best_loops(fft_kernels_f32);
    return chosen;
  } else {
    static const auto& chosen = best_loops(fft_kernels_f64);
    return chosen;
  }
}

// exp(-2 pi i k / n), from angles of at most an eighth of the circle.
std::complex<double> root(int64_t k, int64_t n) {
  k %= n;
  int64_t eighth = 8 * k / n;
  auto [s, c] = [&] {
    // quarter turns q, and what is left between -1/8 and 1/8
    int64_t q = (eighth + 1) / 2;
    double angle = 2 * M_PI * (double(4 * k - q * n) / double(4 * n));
    double sine = std::sin(angle), cosine = std::cos(angle);
    switch (q & 3) {
      case 0: return std::pair{sine, cosine};
      case 1: return std::pair{cosine, -sine};
      case 2: return std::pair{-sine, -cosine};
      default: return std::pair{-cosine, sine};
    }
  }();
  return {c, -s};
}

constexpr int kLargestFactor = 61;

std::vector<int> factors_of(int64_t n) {
  std::vector<int> found;
  while (n % 8 == 0 && n != 16) found.push_back(8), n /= 8;
  for (int p : {4, 2, 3, 5})
    while (n % p == 0) found.push_back(p), n /= p;
  for (int64_t p = 7; p * p <= n; p += 2)
    while (n % p == 0) found.push_back(int(std::min<int64_t>(p, INT32_MAX))), n /= p;
  if (n > 1) found.push_back(int(std::min<int64_t>(n, INT32_MAX)));
  return found;
}

template <class T>
using PlanRef = std::shared_ptr<const FftPlan<T>>;

template <class T>
PlanRef<T> make_plan(int64_t n) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  plan->factors = factors_of(n);
  for (int f : plan->factors) plan->largest = std::max<int64_t>(plan->largest, f);
  if (plan->largest > kLargestFactor) return plan;  // only asked for its factors
  int64_t l = 1;
  for (int r : plan->factors) {
    int64_t inner = n / (l * r);
    std::vector<T> w(size_t(2 * (r - 1) * inner)), roots(size_t(2 * r));
    for (int64_t x = 0; x < inner; ++x)
      for (int64_t j = 1; j < r; ++j) {
        auto z = root(j * l * x, n);
        w[size_t(2 * ((r - 1) * x + j - 1))] = T(z.real());
        w[size_t(2 * ((r - 1) * x + j - 1) + 1)] = T(z.imag());
      }
    for (int j = 0; j < r; ++j) {
      auto z = root(j, r);
      roots[size_t(2 * j)] = T(z.real()), roots[size_t(2 * j + 1)] = T(z.imag());
    }
    plan->twiddles.push_back(std::move(w));
    plan->roots.push_back(std::move(roots));
    l *= r;
  }
  return plan;
}

// Things that depend on a length alone are kept for the next transform of that length.
template <class V, class F>
std::shared_ptr<const V> kept(int64_t n, F&& make) {
  static std::mutex mutex;
  static std::map<int64_t, std::shared_ptr<const V>> known;
  {
    std::lock_guard lock(mutex);
    auto found = known.find(n);
    if (found != known.end()) return found->second;
  }
  std::shared_ptr<const V> made = make();
  std::lock_guard lock(mutex);
  if (known.size() >= 32) known.clear();
  known[n] = made;
  return made;
}
template <class T>
PlanRef<T> plan_of(int64_t n) {
  return kept<FftPlan<T>>(n, [&] { return make_plan<T>(n); });
}

// One dimension of a transform: `batch` of them, whose places in memory are sums over the other dimensions.
struct Line {
  int64_t size, in, out;  // steps in numbers of type T
};
struct Lines {
  std::vector<Line> dims;
  int64_t count = 1;
  void add(int64_t size, int64_t in, int64_t out) {
    count *= size;
    if (size != 1) dims.push_back({size, in, out});
  }
  void sort() {  // neighbours in memory become neighbouring lanes
    std::stable_sort(dims.begin(), dims.end(),
                     [](const Line& a, const Line& b) { return std::abs(a.out) > std::abs(b.out); });
  }
  void place(int64_t k, int64_t& in, int64_t& out) const {
    in = out = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      int64_t i = k % dims[d].size;
      in += i * dims[d].in;
      out += i * dims[d].out;
      k /= dims[d].size;
    }
  }
};

template <class T>
struct Transform {
  int64_t n;              // its length
  FftLoad load = FftLoad::Complex;
  FftStore store = FftStore::Complex;
  bool swap_in = false, swap_out = false;  // both: an inverse transform
  bool conjugate = false;
  T scale = 1;
  int64_t given;          // elements of the input, zeros follow
  const T* in;
  T* out;
  int64_t in_step, out_step;
};

template <class T>
void fill_twice(std::vector<T>& v, int64_t n) { v.assign(size_t(2 * n), T(0)); }

// All lines by groups of lanes. Two lines share a lane where the numbers are real.
template <class T>
void side_by_side(const FftPlan<T>& plan, const Transform<T>& t, const Lines& lines, const T* factor = nullptr,
                  int64_t factor_step = 0, int64_t factor_lane = 0) {
  const FftKernels<T>& k = kernels<T>();
  const bool paired = t.load != FftLoad::Complex || t.store != FftStore::Complex;
  const int64_t lanes = k.lanes, per_group = paired ? 2 * lanes : lanes,
                groups = (lines.count + per_group - 1) / per_group;
  const int64_t cost = t.n * lanes * 8;
  parallel_for(groups, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, cost)), [&](int64_t first, int64_t last) {
    T *a = scratch<T>(kScratchA, 2 * t.n * lanes), *b = scratch<T>(kScratchB, 2 * t.n * lanes);
    FftJob<T> job;
    job.load = t.load, job.store = t.store, job.swap_in = t.swap_in, job.swap_out = t.swap_out,
    job.conjugate = t.conjugate, job.scale = t.scale, job.given = t.given;
    job.in_step = t.in_step, job.out_step = t.out_step, job.factor_step = factor_step;
    for (int64_t g = first; g < last; ++g) {
      const int64_t left = lines.count - g * per_group, used = std::min(lanes, left);
      for (int64_t l = 0; l < lanes; ++l) {
        int64_t from, to, line = g * per_group + std::min(l, used - 1);
        lines.place(line, from, to);
        job.in[l] = t.in + from;
        job.out[l] = l < used ? t.out + to : nullptr;
        job.in2[l] = job.in[l];
        job.out2[l] = nullptr;
        if (!paired) continue;
        int64_t second = g * per_group + lanes + l;
        if (second < lines.count) {
          lines.place(second, from, to);
          job.in2[l] = t.in + from;
          job.out2[l] = t.out + to;
        }
      }
      job.factor = factor ? factor + g * per_group * factor_lane : nullptr;
      k.run(plan, job, a, b);
    }
  });
}

template <class T>
void complex_line(int64_t n, const T* in, int64_t in_step, int64_t given, T* out, int64_t out_step, bool inverse,
                  T scale);

// n = rows * cols, both moderate; 0: no such pair.
int64_t rows_for(int64_t n) {
  std::vector<int> f = factors_of(n);
  std::sort(f.begin(), f.end(), std::greater<int>());
  int64_t a = 1;
  for (int p : f)
    if (a * p * a * p <= 2 * n) a *= p;
  return a > 1 && a < n ? a : 0;
}

// Bailey (1990): columns, a factor each, rows; the second round writes its results transposed.
template <class T>
struct FourSteps {
  int64_t n, rows, cols, width;  // width: cols padded to whole vectors
  PlanRef<T> first, second;
  std::vector<T> factors;        // by rows of the intermediate
};
template <class T>
std::shared_ptr<const FourSteps<T>> four_steps_of(int64_t n) {
  return kept<FourSteps<T>>(n, [&]() -> std::shared_ptr<const FourSteps<T>> {
    auto made = std::make_shared<FourSteps<T>>();
    const int64_t rows = rows_for(n), lanes = kernels<T>().lanes;
    made->n = n, made->rows = rows;
    if (!rows) return made;
    const int64_t cols = made->cols = n / rows, width = made->width = (cols + lanes - 1) / lanes * lanes;
    made->first = plan_of<T>(rows), made->second = plan_of<T>(cols);
    made->factors.assign(size_t(2 * rows * width), T(0));
    parallel_for(rows, std::max<int64_t>(1, 4096 / cols), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        for (int64_t j = 0; j < cols; ++j) {
          auto z = root(k * j, n);
          made->factors[size_t(2 * (k * width + j))] = T(z.real());
          made->factors[size_t(2 * (k * width + j) + 1)] = T(z.imag());
        }
    });
    return made;
  });
}
// An inverse transform exchanges real and imaginary parts as they come in and as they go out.
template <class T>
void four_steps(const FourSteps<T>& p, const T* in, int64_t in_step, T* out, int64_t out_step, bool inverse, T scale) {
  T* middle = scratch<T>(kScratchC, 2 * p.n);
  Transform<T> down{p.rows};
  down.swap_in = inverse, down.given = p.rows, down.in = in, down.out = middle;
  down.in_step = p.cols * in_step, down.out_step = 2 * p.cols;
  Lines columns;
  columns.add(p.cols, in_step, 2);
  side_by_side(*p.first, down, columns, p.factors.data(), 2 * p.width, 2);
  Transform<T> across{p.cols};
  across.swap_out = inverse, across.given = p.cols, across.in = middle, across.out = out, across.in_step = 2,
  across.out_step = p.rows * out_step;
  across.scale = scale;
  Lines lines;
  lines.add(p.rows, 2 * p.cols, out_step);
  side_by_side(*p.second, across, lines);
}

// exp(-i pi k^2 / n), and the transform of its conjugate laid out for a cyclic convolution of length m.
template <class T>
struct Chirp {
  int64_t m;
  std::vector<T> chirp, spectrum;
};
int64_t good_length(int64_t n) {
  for (int64_t m = n;; ++m) {
    int64_t r = m;
    for (int p : {2, 3, 5})
      while (r % p == 0) r /= p;
    if (r == 1) return m;
  }
}
template <class T>
void bluestein(int64_t n, const T* in, int64_t in_step, int64_t given, T* out, int64_t out_step, bool inverse,
               T scale) {
  auto c = kept<Chirp<T>>(n, [&] {
    auto made = std::make_shared<Chirp<T>>();
    made->m = good_length(2 * n - 1);
    fill_twice(made->chirp, n);
    std::vector<T> b;
    fill_twice(b, made->m);
    for (int64_t k = 0; k < n; ++k) {
      auto z = root(int64_t(__int128(k) * k % (2 * n)), 2 * n);
      made->chirp[size_t(2 * k)] = T(z.real()), made->chirp[size_t(2 * k + 1)] = T(z.imag());
      for (int64_t at : {k, k ? made->m - k : 0}) b[size_t(2 * at)] = T(z.real()), b[size_t(2 * at + 1)] = T(-z.imag());
    }
    fill_twice(made->spectrum, made->m);
    complex_line<T>(made->m, b.data(), 2, made->m, made->spectrum.data(), 2, false, T(1));
    return made;
  });
  std::vector<T> a, f;
  fill_twice(a, c->m);
  fill_twice(f, c->m);
  auto product = [](T* z, T wr, T wi) {
    T r = z[0] * wr - z[1] * wi;
    z[1] = z[0] * wi + z[1] * wr;
    z[0] = r;
  };
  for (int64_t k = 0; k < std::min(n, given); ++k) {
    a[size_t(2 * k)] = in[k * in_step + inverse], a[size_t(2 * k + 1)] = in[k * in_step + !inverse];
    product(&a[size_t(2 * k)], c->chirp[size_t(2 * k)], c->chirp[size_t(2 * k + 1)]);
  }
  complex_line<T>(c->m, a.data(), 2, c->m, f.data(), 2, false, T(1));
  for (int64_t k = 0; k < c->m; ++k)
    product(&f[size_t(2 * k)], c->spectrum[size_t(2 * k)], c->spectrum[size_t(2 * k + 1)]);
  complex_line<T>(c->m, f.data(), 2, c->m, a.data(), 2, true, T(scale / T(c->m)));
  for (int64_t k = 0; k < n; ++k) {
    T* z = &a[size_t(2 * k)];
    product(z, c->chirp[size_t(2 * k)], c->chirp[size_t(2 * k + 1)]);
    out[k * out_step + inverse] = z[0], out[k * out_step + !inverse] = z[1];
  }
}

template <class T>
void complex_line(int64_t n, const T* in, int64_t in_step, int64_t given, T* out, int64_t out_step, bool inverse,
                  T scale) {
  auto plan = plan_of<T>(n);
  if (plan->largest > kLargestFactor) return bluestein(n, in, in_step, given, out, out_step, inverse, scale);
  if (n >= 128 && given >= n) {
    auto p = four_steps_of<T>(n);
    if (p->rows) return four_steps(*p, in, in_step, out, out_step, inverse, scale);
  }
  Transform<T> t{n};
  t.swap_in = t.swap_out = inverse, t.scale = scale, t.given = given, t.in = in, t.out = out, t.in_step = in_step,
  t.out_step = out_step;
  side_by_side(*plan, t, Lines{});
}

// Lines of one transform after the other, for lengths or numbers of lines that lanes do not help with.
template <class T, class F>
void one_by_one(const Lines& lines, int64_t n, F&& f) {
  if (lines.count > 1 && n * lines.count > 4096) {
    parallel_for(lines.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        int64_t from, to;
        lines.place(k, from, to);
        f(from, to);
      }
    });
    return;
  }
  for (int64_t k = 0; k < lines.count; ++k) {
    int64_t from, to;
    lines.place(k, from, to);
    f(from, to);
  }
}

constexpr int64_t kLong = 4096;  // beyond, the lanes' common memory leaves the cache

template <class T>
void complex_lines(const Transform<T>& t, const Lines& lines) {
  auto plan = plan_of<T>(t.n);
  const bool whole = t.given >= t.n;
  const bool few = lines.count * 2 <= kernels<T>().lanes && t.n >= 128;
  if (plan->largest <= kLargestFactor && !(whole && (few || t.n > kLong))) return side_by_side(*plan, t, lines);
  one_by_one<T>(lines, t.n, [&](int64_t from, int64_t to) {
    complex_line<T>(t.n, t.in + from, t.in_step, t.given, t.out + to, t.out_step, t.swap_in, t.scale);
  });
}

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

// One dimension of x (numbers per element: 1 real, 2 complex) into the same dimension of y.
template <class T>
void transform_dim(const Tensor& x, Tensor& y, int64_t dim, int64_t n, bool inverse, double scale,
                   bool conjugate = false) {
  const int in_parts = is_complex(x.dtype) ? 2 : 1, out_parts = is_complex(y.dtype) ? 2 : 1;
  Transform<T> t{n};
  t.swap_in = t.swap_out = inverse, t.conjugate = conjugate, t.scale = T(scale), t.given = x.sizes[dim];
  t.in = x.ptr<T>(), t.out = y.ptr<T>();
  t.in_step = x.strides[dim] * in_parts, t.out_step = y.strides[dim] * out_parts;
  Lines lines;
  for (int d = 0; d < x.ndim; ++d)
    if (d != dim) lines.add(x.sizes[d], x.strides[d] * in_parts, y.strides[d] * out_parts);
  lines.sort();
  if (lines.count == 0) return;
  LockRelease lock(lines.count * n * 8);
  if (in_parts == 2 && out_parts == 2) return complex_lines(t, lines);
  t.load = in_parts == 1 ? FftLoad::Reals : FftLoad::Hermitian;
  t.store = in_parts == 1 ? FftStore::Hermitian : FftStore::Reals;
  real_lines(t, lines);
}

// --- the operators: self, dims, scale, and what each adds
// -----------------------------------------------------------------

std::vector<int64_t> dims_of(const Call& c, const Tensor& x) {
  std::vector<int64_t> dims(c.ints(1).begin(), c.ints(1).end());
  for (int64_t& d : dims) {
    d = wrap_dim(d, x.ndim, c.name());
    if (x.ndim == 0) runtime_error(c.name(), ": expected a tensor of one or more dimensions");
  }
  for (size_t k = 0; k < dims.size(); ++k)
    if (std::find(dims.begin(), dims.begin() + int64_t(k), dims[k]) != dims.begin() + int64_t(k))
      runtime_error(c.name(), ": FFT dims must be unique, got ", shape_text(c.ints(1)));
  if (dims.size() != c.ints(2).size())
    runtime_error(c.name(), ": expected one length for each dim, got dims ", shape_text(c.ints(1)), " and lengths ",
                  shape_text(c.ints(2)));
  return dims;
}
void check_some(const Call& c, const std::vector<int64_t>& dims) {
  if (dims.empty()) runtime_error(c.name(), ": expected one or more dims");
}
// Transformed dimensions come last in memory, in their order; the others before them.
Tensor& output_transformed(Call& c, const Tensor& x, const std::vector<int64_t>& dims, std::vector<int64_t> shape,
                           DType dtype) {
  std::vector<int64_t> order, strides(shape.size());
  for (int64_t d = 0; d < x.ndim; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.strides[a] > x.strides[b]; });
  order.insert(order.end(), dims.begin(), dims.end());
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[size_t(order[k])] = step;
    step *= std::max<int64_t>(1, shape[size_t(order[k])]);
  }
  return c.output(shape, dtype, x.device, strides);
}
void check_lengths(const Call& c, Dims shape, const std::vector<int64_t>& dims) {
  for (int64_t d : dims)
    if (shape[size_t(d)] < 1 || shape[size_t(d)] > int64_t(1) << 40)
      runtime_error(c.name(), ": the length of the transform must be positive and at most 2^40, got ",
                    shape[size_t(d)]);
}
template <class F>
void visit_parts(DType t, F&& f) {
  if (real_of(t) == DType::Float64) return f.template operator()<double>();
  f.template operator()<float>();
}

// _fft_c2c(self, dim, n, scale, forward): n as many lengths as dims
void infer_c2c(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_complex(x.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  output_transformed(c, x, dims, shape, x.dtype);
}
// All dims but `last` of x, the first one into y (the others there already have their final length or are cut there).
template <class T>
void complex_dims(TensorRef x, Tensor& y, std::span<const int64_t> dims, Dims shape, bool inverse, double scale) {
  for (size_t k = 0; k < dims.size(); ++k) {
    const bool last = k + 1 == dims.size();
    TensorRef to;
    if (last) {
      to = TensorRef::borrow(&y);
    } else {
      std::vector<int64_t> between(x->shape().begin(), x->shape().end());
      between[size_t(dims[k])] = shape[size_t(dims[k])];
      to = std::equal(between.begin(), between.end(), y.shape().begin()) ? TensorRef::borrow(&y)
                                                                         : empty(between, y.dtype);
    }
    transform_dim<T>(*x, *to, dims[k], shape[size_t(dims[k])], inverse, k == 0 ? scale : 1.0);
    x = to;
  }
}
void cpu_c2c(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto dims = c.handed<std::vector<int64_t>>();
  if (dims.empty()) return copy_into(y, x);
  std::reverse(dims.begin(), dims.end());
  visit_parts(x.dtype,
              [&]<class T>() { complex_dims<T>(TensorRef::borrow(&x), y, dims, y.shape(), !c.boolean(4), c.real(3)); });
}
// _fft_r2c(self, dim, n, scale, forward): the last dim from real numbers to the first half of its spectrum
void infer_r2c(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_floating(x.dtype) || item_size(x.dtype) < 4)
    runtime_error(c.name(), ": expected a real tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  check_some(c, dims);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  shape[size_t(dims.back())] = shape[size_t(dims.back())] / 2 + 1;
  output_transformed(c, x, dims, shape, complex_of(x.dtype));
}
void cpu_r2c(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto dims = c.handed<std::vector<int64_t>>();
  const int64_t last = dims.back(), n = c.ints(2)[dims.size() - 1];
  dims.pop_back();
  std::vector<int64_t> between(x.shape().begin(), x.shape().end());
  between[size_t(last)] = n / 2 + 1;
  TensorRef first =
      std::equal(between.begin(), between.end(), y.shape().begin()) ? TensorRef::borrow(&y) : empty(between, y.dtype);
  visit_parts(x.dtype, [&]<class T>() {
    transform_dim<T>(x, *first, last, n, false, c.real(3), !c.boolean(4));
    if (!dims.empty()) complex_dims<T>(first, y, dims, y.shape(), !c.boolean(4), 1.0);
  });
}
// _fft_c2r(self, dim, n, scale, forward): the last dim from half of a Hermitian spectrum to real numbers
void infer_c2r(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_complex(x.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  check_some(c, dims);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  check_lengths(c, x.shape(), {dims.back()});
  output_transformed(c, x, dims, shape, real_of(x.dtype));
}
void cpu_c2r(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto dims = c.handed<std::vector<int64_t>>();
  const int64_t last = dims.back(), n = y.sizes[last];
  dims.pop_back();
  visit_parts(x.dtype, [&]<class T>() {
    TensorRef from = TensorRef::borrow(&x);
    if (!dims.empty()) {
      std::vector<int64_t> between(y.shape().begin(), y.shape().end());
      between[size_t(last)] = x.sizes[last];
      from = empty(between, x.dtype);
      complex_dims<T>(TensorRef::borrow(&x), *from, dims, between, !c.boolean(4), 1.0);
    }
    transform_dim<T>(*from, y, last, n, true, c.real(3), c.boolean(4));
  });
}

const Primitives rows{
    {"_fft_c2c", infer_c2c, cpu_c2c},
    {"_fft_r2c", infer_r2c, cpu_r2c},
    {"_fft_c2r", infer_c2r, cpu_c2r},
};

}  // namespace
}  // namespace flambeau
