// Loops on bytes for quantized layers, one set per instruction set (simd/int8.cpp).
#pragma once
#include <cstdint>

namespace flambeau {

struct Int8Loops {
  // The least and the largest of n numbers and of `low`, `high`; NaN if one is.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  // q = clamp(round(x inverse + zero), 0, top)
  void (*quantize)(const float* x, int64_t n, float inverse, float zero, int top, uint8_t* q);
  // sums[r] = the sum over i < k of q[i] w[r k + i], for each of `rows` rows. Where no q is above 127, two products
  // fit into 16 bits together.
  void (*dot)(const uint8_t* q, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool seven_bits);
  // sums[r] = the sum over i < k of x[i] w[r k + i]
  void (*dot_floats)(const float* x, const int8_t* w, int64_t rows, int64_t k, float* sums);
};

struct Int8Registration {
  Int8Registration(int level, const Int8Loops& loops);
};

}  // namespace flambeau
