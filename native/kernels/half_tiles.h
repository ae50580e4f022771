// Products of bfloat16 with sums in float32 by the instructions that a processor has for them, within a thread, and
// what brings matrices into their order: the pieces of attention. kernels/simd/half_tiles.cpp fills the table.
#pragma once
#include <cstdint>

namespace flambeau {

// Right operands lie in panels of 16 columns, in each of them pairs of rows: [columns / 16][rows / 2][16][2]. Sizes of
// products are multiples of 32 (m of 16), and what pads them is zero.
struct HalfTiles {
  // C = A B, or C + A B where it `adds`. Rows of A lie `ars` apart, panels of B `panel`, rows of C `crs`.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b, int64_t panel,
                   float* c, int64_t crs, bool adds);
};
struct HalfPacking {
  // The panels of a matrix [rows, cols] that becomes [deep, wide].
  void (*panels)(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t deep,
                 int64_t wide);
  // The panels of the same matrix turned, [cols, rows], that becomes [deep, wide].
  void (*turned_panels)(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t deep,
                        int64_t wide);
  // The matrix, `tall` rows of `wide` numbers, which lie `trs` apart.
  void (*rows)(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs, int64_t tall,
               int64_t wide);
  // The same of the matrix turned: rows [cols, rows] that become [tall, wide].
  void (*turned_rows)(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs,
                      int64_t tall, int64_t wide);
  // to[j][i] = from[i][j], rounded
  void (*turn_floats)(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs);
  // c = alpha sums + beta c + bias, rounded once; c is not read where beta is 0, and the bias may be null.
  void (*finish)(const float* sums, uint16_t* c, int64_t n, float alpha, float beta, const uint16_t* bias);
};
// Null where the processor has no such instructions, or multiplies float32 as fast.
const HalfTiles* half_tiles();
extern const HalfTiles *half_tiles_by_vectors, *half_tiles_by_matrices;
extern const HalfPacking* half_packing;

}  // namespace flambeau
