// What complex and real transforms share: the lines that a transform runs along, and the plans of lengths, which are
// kept.
#pragma once
#include <algorithm>
#include <complex>
#include <map>
#include <memory>
#include <mutex>

#include "../core/machine.h"
#include "fft.h"

namespace flambeau::fft {

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

std::complex<double> root(int64_t k, int64_t n);  // exp(-2 pi i k / n)
std::vector<int> factors_of(int64_t n);

inline constexpr int kLargestFactor = 61;

inline constexpr int64_t kLong = 4096;  // beyond, the lanes' common memory leaves the cache

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
using PlanRef = std::shared_ptr<const FftPlan<T>>;

template <class T>
PlanRef<T> plan_of(int64_t n);  // float and double: fft_plan.cpp

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

// fft_complex.cpp, for float and double. All lines by groups of lanes; two lines share a lane where the numbers are
// real.
template <class T>
void side_by_side(const FftPlan<T>& plan, const Transform<T>& t, const Lines& lines, const T* factor = nullptr,
                  int64_t factor_step = 0, int64_t factor_lane = 0);
// One transform, whichever way is best for its length.
template <class T>
void complex_line(int64_t n, const T* in, int64_t in_step, int64_t given, T* out, int64_t out_step, bool inverse,
                  T scale);
template <class T>
void complex_lines(const Transform<T>& t, const Lines& lines);
// fft_real.cpp: real numbers to half a Hermitian spectrum, or back.
template <class T>
void real_lines(const Transform<T>& t, const Lines& lines);

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

}  // namespace flambeau::fft
