// Registers that hold matrices of bfloat16, 16 rows of 64 bytes, and blocks of sums that stay in four of them (AMX).
// For files that are compiled for these instructions.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "halves.h"

#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns inside its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace flambeau::FLAMBEAU_SIMD {

#pragma GCC push_options
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")

struct alignas(64) MatrixShapes {
  uint8_t palette = 1, first = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr MatrixShapes kMatrixShapes;
inline void begin_matrices() { _tile_loadconfig(&kMatrixShapes); }
inline void end_matrices() { _tile_release(); }

// 32 columns of sums in the registers 0 to 3, for 32 rows (`two`) or 16. They add products of A's in 4 and 5 with those
// of B in 6 and 7.
template <bool two>
struct SumTiles {
  SumTiles(const float* c, int64_t crs, bool adds) {
    if (!adds) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      return;
    }
    _tile_loadd(0, c, crs * 4);
    _tile_loadd(1, c + 16, crs * 4);
    if constexpr (two) {
      _tile_loadd(2, c + 16 * crs, crs * 4);
      _tile_loadd(3, c + 16 * crs + 16, crs * 4);
    }
  }
  __attribute__((always_inline)) void add() const {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (two) {
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  void store(float* c, int64_t crs) const {
    _tile_stored(0, c, crs * 4);
    _tile_stored(1, c + 16, crs * 4);
    if constexpr (two) {
      _tile_stored(2, c + 16 * crs, crs * 4);
      _tile_stored(3, c + 16 * crs + 16, crs * 4);
    }
  }
};

// 16 vectors of 16 numbers, turned.
inline void turn(__m512i (&v)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c), t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d), t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  // t[4 q + p]: of the rows 4 q to 4 q + 3, columns p, p + 4, p + 8 and p + 12, each in a quarter
  for (int p = 0; p < 4; ++p) {
    const __m512i a = _mm512_shuffle_i32x4(t[p], t[4 + p], 0x88), b = _mm512_shuffle_i32x4(t[p], t[4 + p], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(t[8 + p], t[12 + p], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(t[8 + p], t[12 + p], 0xdd);
    v[p] = _mm512_shuffle_i32x4(a, c, 0x88), v[8 + p] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[4 + p] = _mm512_shuffle_i32x4(b, d, 0x88), v[12 + p] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}

#pragma GCC pop_options

}  // namespace flambeau::FLAMBEAU_SIMD
