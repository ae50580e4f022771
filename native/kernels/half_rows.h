// Products of a few rows with a matrix of halves that is read as it lies: no copy of it in float32 is made.
#pragma once
#include "gemm.h"

namespace flambeau {

// y[j * ys] = <x, b[j, :]> for `count` rows b of k halves each, `bs` apart (kernels/simd/half_rows.cpp). The sums are
// float32. `m` vectors x, `xs` apart, meet each row while it is in registers; their sums are `ms` apart.
using HalfDots = void (*)(int64_t count, int64_t k, const uint16_t* b, int64_t bs, int m, const float* x, int64_t xs,
                          float* y, int64_t ms);
struct HalfKernels {
  HalfDots bfloat16, float16;
};
extern const HalfKernels* half_kernels[2];

constexpr int64_t kFewRows = 4;  // of the left operand; more of them repay the conversion of the right one

// C[m, n] = alpha A B + beta C + bias, m <= kFewRows; column j of B are k halves that begin at b + j * bs.
void half_rows(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const void* b, int64_t bs,
               float* c, int64_t crs, const Epilogue<float>& e = {}, bool threads = true);

// C = alpha A B + beta C + bias, all of them halves of `dtype`; the sums are float32.
void gemm_half(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
               float alpha, float beta, const void* bias, bool threads);

// Whether the processor has products of bfloat16, which are then several times as fast as those of float32.
bool multiplies_bfloat16();

// C = A B + bias of float32 numbers that stand for halves: computed in bfloat16 where that is faster and `dtype` is it,
// as a linear layer does. Each of A and B has one unit stride.
void product_of_halves(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, int64_t acs,
                       const float* b, int64_t brs, int64_t bcs, float* c, int64_t crs, const float* bias = nullptr);

}  // namespace flambeau
