// Products of bfloat16: by vectors of pairs (AVX-512 BF16), or by matrices in registers (AMX).
#include "../half_tiles.h"

#if FLAMBEAU_LEVEL == 1 && defined(__x86_64__) && !defined(__clang__)  // whose functions take no target by a pragma
#include <algorithm>

#include "half_matrices.h"

#pragma GCC push_options
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int64_t kPanel = 16;  // columns, and rows of a register

// --- products by vectors --------------------------------------------------------------------------------------------

constexpr int kRows = 8;  // of a tile, whose 16 sums stay in registers

template <int panels>
void vector_tile(int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b, int64_t panel, float* c, int64_t crs,
                 bool adds) {
  __m512 sums[kRows][panels];
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < panels; ++p)
      sums[r][p] = adds ? _mm512_loadu_ps(c + r * crs + p * kPanel) : _mm512_setzero_ps();
  for (int64_t i = 0; i < k; i += 2) {
    __m512bh right[panels];
    for (int p = 0; p < panels; ++p) right[p] = __m512bh(_mm512_loadu_si512(b + p * panel + i * kPanel));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, a + r * ars + i, sizeof pair);
      const auto left = __m512bh(_mm512_set1_epi32(pair));
      for (int p = 0; p < panels; ++p) sums[r][p] = _mm512_dpbf16_ps(sums[r][p], left, right[p]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < panels; ++p) _mm512_storeu_ps(c + r * crs + p * kPanel, sums[r][p]);
}

void multiply_by_vectors(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b,
                         int64_t panel, float* c, int64_t crs, bool adds) {
  for (int64_t j = 0; j < n; j += 2 * kPanel)
    for (int64_t i = 0; i < m; i += kRows)
      vector_tile<2>(k, a + i * ars, ars, b + j / kPanel * panel, panel, c + i * crs + j, crs, adds);
}

// --- products by matrices ------------------------------------------------------------------------------------------

template <bool two>
void matrix_tile(int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b, int64_t panel, float* c, int64_t crs,
                 bool adds) {
  SumTiles<two> sums(c, crs, adds);
  for (int64_t i = 0; i < k; i += 2 * kPanel) {
    _tile_loadd(6, b + i * kPanel, 64);
    _tile_loadd(4, a + i, ars * 2);
    _tile_loadd(7, b + panel + i * kPanel, 64);
    if constexpr (two) _tile_loadd(5, a + kPanel * ars + i, ars * 2);
    sums.add();
  }
  sums.store(c, crs);
}

void multiply_by_matrices(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b,
                          int64_t panel, float* c, int64_t crs, bool adds) {
  begin_matrices();
  for (int64_t i = 0; i < m; i += 2 * kPanel)
    for (int64_t j = 0; j < n; j += 2 * kPanel) {
      const bool two = i + kPanel < m;
      (two ? matrix_tile<true> : matrix_tile<false>)(k, a + i * ars, ars, b + j / kPanel * panel, panel,
                                                     c + i * crs + j, crs, adds);
    }
  end_matrices();
}

// --- packing --------------------------------------------------------------------------------------------------------

__mmask32 first_halves(int64_t n) { return __mmask32(n >= 32 ? ~0u : n <= 0 ? 0 : (1u << n) - 1); }

// Two rows of 16 halves, side by side in pairs; the second may be behind the last one.
__m512i paired(const uint16_t* from, int64_t rs, __mmask16 cols, int64_t rows_left) {
  const auto upper = [&](int64_t row) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows_left > row ? cols : 0, from + row * rs));
  };
  return _mm512_or_si512(upper(0), _mm512_slli_epi32(upper(1), 16));
}

void panels(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t deep, int64_t wide) {
  for (int64_t i = 0; i < deep; i += 2)
    for (int64_t j = 0; j < wide; j += kPanel)
      _mm512_storeu_si512(to + j * deep + i * kPanel, paired(from + i * rs + j, rs, first_lanes(cols - j), rows - i));
}

void turned_panels(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t deep,
                   int64_t wide) {
  for (int64_t i = 0; i < wide; i += kPanel)
    for (int64_t j = 0; j < deep; j += 2 * kPanel) {
      __m512i v[16];
      for (int r = 0; r < 16; ++r)
        v[r] = _mm512_maskz_loadu_epi16(i + r < rows ? first_halves(cols - j) : 0, from + (i + r) * rs + j);
      turn(v);
      for (int r = 0; r < 16; ++r) _mm512_storeu_si512(to + i * deep + (j + 2 * r) * kPanel, v[r]);
    }
}

void rows(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs, int64_t tall,
          int64_t wide) {
  for (int64_t i = 0; i < tall; ++i)
    for (int64_t j = 0; j < wide; j += 32)
      _mm512_storeu_si512(to + i * trs + j,
                          _mm512_maskz_loadu_epi16(i < rows ? first_halves(cols - j) : 0, from + i * rs + j));
}

void turned_rows(const uint16_t* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs, int64_t tall,
                 int64_t wide) {
  for (int64_t i = 0; i < wide; i += 32)
    for (int64_t j = 0; j < tall; j += 16) {
      __m512i v[16];
      for (int r = 0; r < 16; ++r)
        v[r] = paired(from + (i + 2 * r) * rs + j, rs, first_lanes(cols - j), rows - i - 2 * r);
      turn(v);
      for (int r = 0; r < 16; ++r) _mm512_storeu_si512(to + (j + r) * trs + i, v[r]);
    }
}

void turn_floats(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t trs) {
  for (int64_t i = 0; i < rows; i += 16)
    for (int64_t j = 0; j < cols; j += 16) {
      __m512i v[16];
      for (int r = 0; r < 16; ++r)
        v[r] = _mm512_maskz_loadu_epi32(i + r < rows ? first_lanes(cols - j) : 0, from + (i + r) * rs + j);
      turn(v);
      for (int64_t r = 0; r < std::min<int64_t>(16, cols - j); ++r)
        _mm256_mask_storeu_epi16(to + (j + r) * trs + i, first_lanes(rows - i),
                                 __m256i(_mm512_cvtneps_pbh(_mm512_castsi512_ps(v[r]))));
    }
}

void finish(const float* sums, uint16_t* c, int64_t n, float alpha, float beta, const uint16_t* bias) {
  for (int64_t j = 0; j < n; j += 16) {
    const __mmask16 which = first_lanes(n - j);
    __m512 v = _mm512_maskz_loadu_ps(which, sums + j);
    if (alpha != 1) v = _mm512_mul_ps(v, _mm512_set1_ps(alpha));
    if (beta != 0) v = _mm512_fmadd_ps(_mm512_set1_ps(beta), Bfloat16::load(c + j, which), v);
    if (bias) v = _mm512_add_ps(v, Bfloat16::load(bias + j, which));
    _mm256_mask_storeu_epi16(c + j, which, __m256i(_mm512_cvtneps_pbh(v)));
  }
}

constexpr HalfTiles kVectors{multiply_by_vectors}, kMatrices{multiply_by_matrices};
constexpr HalfPacking kPacking{panels, turned_panels, rows, turned_rows, turn_floats, finish};
const bool registered = (half_tiles_by_vectors = &kVectors, half_tiles_by_matrices = &kMatrices,
                         half_packing = &kPacking, true);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
#pragma GCC pop_options
#endif
