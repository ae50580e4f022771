// The factors of a length, and the roots of unity that its passes multiply by.
#include <cmath>

#include "fft_lines.h"

namespace flambeau {

const FftKernels<float>* fft_kernels_f32[2];
const FftKernels<double>* fft_kernels_f64[2];

namespace fft {

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
static PlanRef<T> make_plan(int64_t n) {
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

template <class T>
PlanRef<T> plan_of(int64_t n) {
  return kept<FftPlan<T>>(n, [&] { return make_plan<T>(n); });
}
template PlanRef<float> plan_of<float>(int64_t);
template PlanRef<double> plan_of<double>(int64_t);

}  // namespace fft
}  // namespace flambeau
