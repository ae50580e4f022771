// A float32 is the sum of three bfloat16, its thirds: each is what the ones before leave, rounded. Products of float32
// by a processor's instructions for matrices of bfloat16 (AMX) add six products of thirds: those of both first ones, of
// the first and the second ones, of both second ones, of the first and the third ones. What is left out is at most
// 2^-23 of a product, a rounding of float32; the sums are float32, rounded once for 32 products and not for each.
//
// Within a thread; kernels/simd/thirds.cpp fills the table.
#pragma once
#include "gemm.h"

namespace flambeau {

// Left operands lie in strips of 16 rows [k / 32][3][16][32], right ones in panels of 16 columns [k / 32][3][16][16][2]
// (pairs of rows), the last thirds first. What pads them is zero.
struct Thirds {
  static constexpr int64_t kSide = 16, kDepth = 32;
  // Numbers of a strip or panel; and of `many` rows or columns with sums of k, whose registers come in twos.
  static constexpr int64_t size(int64_t k) { return 3 * kSide * k; }
  static constexpr int64_t size(int64_t many, int64_t k) {
    return 3 * rounded_up(many, 2 * kSide) * rounded_up(k, kDepth);
  }

  // C = A B, or C + A B where it `adds`. m and n are multiples of 16 and 32, k of 32. Strips of A lie `strip` apart,
  // panels of B `panel`, rows of C `crs`. `next`: what comes afterwards, of which each block of 32 rows, columns and
  // numbers of a sum asks for three shares.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t strip, const uint16_t* b, int64_t panel,
                   float* c, int64_t crs, bool adds, Fetch& next);
  // Strips of a matrix [rows, cols] for sums of `deep` numbers, `apart` from each other; and those of its transpose.
  void (*strips)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart, int64_t deep);
  void (*turned_strips)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                        int64_t deep);
  // The same for panels: `rows` are summed; and panels of a transpose, where `cols` are.
  void (*panels)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart, int64_t deep);
  void (*turned_panels)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart,
                        int64_t deep);
  // Whether all sums are what float32 gives: not those with an infinity, of which there are no thirds, nor very small
  // ones, since numbers below 2^-126 count as zero. It asks for C, which comes next.
  bool (*sound)(const float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* c, int64_t crs);
  // Takes those that are not from other sums.
  void (*mend)(float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* from, int64_t from_pitch);
  // What sums become in C.
  void (*finish)(const float* sums, int64_t pitch, int64_t rows, int64_t cols, float* c, int64_t crs,
                 const Epilogue<float>& e);
};
bool multiplies_thirds();  // where the processor has such instructions, and float32 may be split for them
extern const Thirds* thirds_by_matrices;

}  // namespace flambeau
