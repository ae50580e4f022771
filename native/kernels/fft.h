// Discrete Fourier transforms: what a plan of a length holds, and the vector loops that carry out one or several at
// once.
//
// One lane of a vector belongs to one transform: W of them run together without exchanging anything between lanes.
// Every transform is forward; an inverse one exchanges real and imaginary parts on the way in and out.
#pragma once
#include <vector>

#include "../core/call.h"

namespace flambeau {

// n = product of factors; pass k takes all sub-transforms of one factor (Stockham's order: no bit reversal).
template <class T>
struct FftPlan {
  int64_t n = 1;
  std::vector<int> factors;
  std::vector<std::vector<T>> twiddles;  // per pass: re, im of exp(-2 pi i j l x / n) for x, then j = 1 … factor - 1
  std::vector<std::vector<T>> roots;     // per pass: re, im of exp(-2 pi i j / factor)
  int64_t largest = 1;                   // factor
};

enum class FftLoad : uint8_t { Complex, Reals, Hermitian };   // Reals, Hermitian: two transforms in one, as a + i b
enum class FftStore : uint8_t { Complex, Hermitian, Reals };

constexpr int kFftMostLanes = 16;

// W transforms of one plan. Pointers and steps count numbers of type T; lanes past the last repeat its input.
template <class T>
struct FftJob {
  FftLoad load = FftLoad::Complex;
  FftStore store = FftStore::Complex;
  bool swap_in = false, swap_out = false;  // exchange real and imaginary parts; both: an inverse transform
  T scale = 1;
  bool conjugate = false;  // Hermitian spectra: their conjugates
  int64_t given = 0;  // how many elements of the input there are; zeros follow
  const T *in[kFftMostLanes], *in2[kFftMostLanes];
  T *out[kFftMostLanes], *out2[kFftMostLanes];  // null: nothing is stored
  int64_t in_step = 0, out_step = 0;
  // Four-step transforms: element k of lane l is multiplied by the complex number at factor + k factor_step + 2 l.
  const T* factor = nullptr;
  int64_t factor_step = 0;
};

template <class T>
struct FftKernels {
  int lanes;
  void (*run)(const FftPlan<T>& plan, const FftJob<T>& job, T* a, T* b);  // a, b: 2 n lanes numbers each
};
extern const FftKernels<float>* fft_kernels_f32[2];
extern const FftKernels<double>* fft_kernels_f64[2];

}  // namespace flambeau
