// Loops on bytes for quantized layers, one set per instruction set (simd/int8.cpp).
#pragma once
#include <cstdint>

namespace flambeau {

// The numbers of each feature of a layer, and those of its quantized input.
struct Int8Features {
  int64_t k, input_zero;
  float input_scale;
  const float *scales, *bias;  // no bias: null
  const int32_t *zeros, *sums;
  bool one_scale, one_zero;    // for all features
};

struct Int8Loops {
  // The least and the largest of n numbers and of `low`, `high`; NaN if one is infinite or NaN.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  // q = clamp(round(x inverse + zero), 0, top)
  void (*quantize)(const float* x, int64_t n, float inverse, float zero, int top, uint8_t* q);
  // sums[i rows + r] = the sum over t < k of q[i k + t] w[r k + t], for each of m rows of q and `rows` rows of w. Where
  // no q is above 127, two products fit into 16 bits together.
  void (*dots)(const uint8_t* q, int64_t m, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool seven_bits);
  // What features [first, first + count) of one row of the input are, from the sums of their products.
  void (*finish)(const Int8Features& f, const int32_t* products, int64_t input_sum, int64_t first, int64_t count,
                 float* to);
  // sums[r] = the sum over i < k of x[i] w[r k + i]
  void (*dot_floats)(const float* x, const int8_t* w, int64_t rows, int64_t k, float* sums);
};

struct Int8Registration {
  Int8Registration(int level, const Int8Loops& loops);
};

}  // namespace flambeau
