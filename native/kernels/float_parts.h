// A float32 is the sum of three bfloat16, its parts: each is what the ones before leave, rounded. Products of float32
// by a processor's instructions for matrices of bfloat16 (AMX) add six products of parts: those of both first ones, of
// the first and the second ones, of both second ones, of the first and the third ones. What is left out is at most
// 2^-23 of a product, a rounding of float32; the sums are float32, rounded once for 32 products and not for each. Where
// a program allows less, numbers are two parts (three products, at most 2^-15 left out) or one.
//
// Within a thread; kernels/simd/float_parts.cpp fills the tables.
#pragma once
#include "gemm.h"

namespace flambeau {

// Left operands lie in strips of 16 rows [k / 32][parts][16][32], the first part first; right ones in panels of 16
// columns [k / 32][parts][16][16][2] (pairs of rows), the last part first. What pads them is zero.
struct FloatParts {
  static constexpr int64_t kSide = 16, kDepth = 32;
  int64_t count = 0;
  // Numbers of a strip or panel; and of `many` rows or columns with sums of k, whose registers come in twos.
  int64_t size(int64_t k) const { return count * kSide * k; }
  int64_t size(int64_t many, int64_t k) const {
    return count * rounded_up(many, 2 * kSide) * rounded_up(k, kDepth);
  }

  // C = A B, or C + A B where it `adds`. m and n are multiples of 16 and 32, k of 32. Strips of A lie `strip` apart,
  // panels of B `panel`, rows of C `crs`. `next`: what comes afterwards, of which each block of 32 rows, columns and
  // numbers of a sum asks for `count` shares.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t strip, const uint16_t* b, int64_t panel,
                   float* c, int64_t crs, bool adds, Fetch& next) = nullptr;
  // Strips of a matrix [rows, cols] for sums of `deep` numbers, `apart` from each other; and those of its transpose.
  void (*strips)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                 int64_t deep) = nullptr;
  void (*turned_strips)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                        int64_t deep) = nullptr;
  // The same for panels: `rows` are summed; and panels of a transpose, where `cols` are.
  void (*panels)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                 int64_t deep) = nullptr;
  void (*turned_panels)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                        int64_t deep) = nullptr;
  // Whether all sums are what float32 gives: not those with an infinity, of which there are no parts, nor very small
  // ones, since numbers below 2^-126 count as zero. It asks for C, which comes next.
  bool (*sound)(const float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* c, int64_t crs) = nullptr;
  // Takes those that are not from other sums.
  void (*mend)(float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* from, int64_t from_pitch) = nullptr;
  // What sums become in C.
  void (*finish)(const float* sums, int64_t pitch, int64_t rows, int64_t cols, float* c, int64_t crs,
                 const Epilogue<float>& e) = nullptr;
};
inline constexpr int kMostFloatParts = 3;
extern const FloatParts* float_parts_by_matrices[kMostFloatParts + 1];  // by how many there are

// Three parts, or null where the processor has no such instructions or numbers must be multiplied as they are.
const FloatParts* exact_parts();
// As many as matrix products may have (backends.mkldnn.matmul.fp32_precision), or null.
const FloatParts* parts_of_products();

}  // namespace flambeau
