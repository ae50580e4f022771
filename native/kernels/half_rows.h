// Products of a few rows with a matrix of halves that is read as it lies: no copy of it in float32 is made.
#pragma once
#include "gemm.h"
#include "half_total.h"

namespace flambeau {

// y[j * ys] = <x, b[j, :]> for `count` rows b of k halves each, `bs` apart (kernels/simd/half_rows.cpp). The sums are
// float32. `m` vectors x, `xs` apart, meet each row while it is in registers; their sums are `ms` apart.
using HalfDots = void (*)(int64_t count, int64_t k, const uint16_t* b, int64_t bs, int m, const float* x, int64_t xs,
                          float* y, int64_t ms);
// sums[j] += x[0] b[0, j] + x[1] b[1, j] + … for `count` columns and k rows of halves, `bs` apart, in their order.
using HalfSums = void (*)(int64_t count, int64_t k, const uint16_t* b, int64_t bs, const float* x, float* sums);
struct HalfKernels {
  HalfDots bfloat16, float16;
  HalfSums bfloat16_sums, float16_sums;
  HalfTotal bfloat16_total, float16_total;
  HalfColumns bfloat16_columns, float16_columns;
};
extern const HalfKernels* half_kernels[2];

constexpr int64_t kFewRows = 4;  // of the left operand; more of them repay the conversion of the right one

// C[m, n] = alpha A B + beta C + bias, m <= kFewRows; column j of B are k halves that begin at b + j * bs.
void half_rows(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const void* b, int64_t bs,
               float* c, int64_t crs, const Epilogue<float>& e = {}, bool threads = true);
// The same where row p of B are n halves that begin at b + p * bs.
void half_columns(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const void* b, int64_t bs,
                  float* c, int64_t crs, const Epilogue<float>& e, bool threads);

// C = alpha A B + beta C + bias, all of them halves of `dtype`; the sums are float32.
void gemm_half(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
               float alpha, float beta, const void* bias, bool threads);
// The same of bfloat16 by matrix instructions, where the processor has them and the product is large enough (it
// `pays`); it `leads` where it is faster than oneDNN.
bool gemm_by_matrices_pays(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b);
bool gemm_by_matrices_leads(int64_t m, int64_t n, int64_t k, MatrixView a);
void gemm_by_matrices(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs, float alpha,
                      float beta, const void* bias, bool threads);

// C = alpha A B + beta C for each of `count` matrices of bfloat16, so many elements apart (A and B: 0 for one that all
// share). False where these are not multiplied faster together than one by one.
struct HalfBatch {
  int64_t count = 1, a = 0, b = 0, c = 0;
};
bool batch_of_halves(const HalfBatch& batch, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c,
                     int64_t crs, float alpha, float beta);

// Whether the processor has products of bfloat16, which are then several times as fast as those of float32.
bool multiplies_bfloat16();

// C = A B + bias of float32 numbers that stand for halves: computed in bfloat16 where that is faster and `dtype` is it,
// as a linear layer does. Each of A and B has one unit stride.
void product_of_halves(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, int64_t acs,
                       const float* b, int64_t brs, int64_t bcs, float* c, int64_t crs, const float* bias = nullptr);

}  // namespace flambeau
