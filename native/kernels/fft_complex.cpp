// Which way a complex transform goes: many short ones side by side, a long one as two rounds of short ones (Bailey's
// four steps), lengths with a large prime factor as a convolution (Bluestein).
#include <cmath>
#include <functional>

#include "fft_lines.h"
#include "gemm.h"

namespace flambeau::fft {

// Where the lines from `first` on begin, one for each of `used` lanes; the others read what the last one reads.
template <class T>
static void place_lanes(const Transform<T>& t, const Lines& lines, int64_t first, int64_t used, int64_t lanes,
                        FftJob<T>& job) {
  for (int64_t l = 0; l < lanes; ++l) {
    if (l < used) {
      int64_t from, to;
      lines.place(first + l, from, to);
      job.in[l] = t.in + from;
      job.out[l] = t.out + to;
    } else {
      job.in[l] = job.in[used - 1];
      job.out[l] = nullptr;
    }
    job.in2[l] = job.in[l];
    job.out2[l] = nullptr;
  }
}

// All lines by groups of lanes. Two lines share a lane where the numbers are real.
template <class T>
void side_by_side(const FftPlan<T>& plan, const Transform<T>& t, const Lines& lines, const T* factor,
                  int64_t factor_step, int64_t factor_lane) {
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
      place_lanes(t, lines, g * per_group, used, lanes, job);
      for (int64_t l = 0; paired && l < std::min(lanes, left - lanes); ++l) {
        int64_t from, to;
        lines.place(g * per_group + lanes + l, from, to);
        job.in2[l] = t.in + from;
        job.out2[l] = t.out + to;
      }
      job.factor = factor ? factor + g * per_group * factor_lane : nullptr;
      k.run(plan, job, a, b);
    }
  });
}

namespace {

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

}  // namespace

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

template void side_by_side(const FftPlan<float>&, const Transform<float>&, const Lines&, const float*, int64_t,
                           int64_t);
template void complex_line(int64_t, const float*, int64_t, int64_t, float*, int64_t, bool, float);
template void complex_lines(const Transform<float>&, const Lines&);

template void side_by_side(const FftPlan<double>&, const Transform<double>&, const Lines&, const double*, int64_t,
                           int64_t);
template void complex_line(int64_t, const double*, int64_t, int64_t, double*, int64_t, bool, double);
template void complex_lines(const Transform<double>&, const Lines&);

}  // namespace flambeau::fft
