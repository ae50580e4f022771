// Float32 as up to three bfloat16 numbers, and products of them by matrices in registers (AMX).
#include "../float_parts.h"

#if FLAMBEAU_LEVEL == 1 && defined(__x86_64__) && !defined(__clang__)  // whose functions take no target by a pragma
#include <algorithm>

#include "half_matrices.h"

#pragma GCC push_options
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int64_t kSide = FloatParts::kSide, kDepth = FloatParts::kDepth, kTile = kSide * kDepth;

// Registers 0 to 3 are C's, 4 and 5 A's, 6 and 7 B's. Small products come first. Of three parts' 24 operands 14 are
// loaded, those of B in the order in which they lie.
template <int parts, bool two>
void tile(int64_t k, const uint16_t* a, int64_t strip, const uint16_t* b, int64_t panel, float* c, int64_t crs,
          bool adds, Fetch& next) {
  SumTiles<two> sums(c, crs, adds);
  const auto left = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(4, a + part * kTile, 64);
    if constexpr (two) _tile_loadd(5, a + strip + part * kTile, 64);
  };
  const auto right = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(6, b + (parts - 1 - part) * kTile, 64);
    _tile_loadd(7, b + panel + (parts - 1 - part) * kTile, 64);
  };
  for (; k > 0; k -= kDepth, a += parts * kTile, b += parts * kTile) {
    left(0);
    if constexpr (parts > 2) {
      right(2), sums.add();
      next.some();
    }
    if constexpr (parts > 1) right(1), sums.add();
    right(0), sums.add();
    next.some();
    if constexpr (parts > 1) left(1), sums.add();
    if constexpr (parts > 2) right(1), sums.add();
    if constexpr (parts > 1) next.some();
    if constexpr (parts > 2) left(2), right(0), sums.add();
  }
  sums.store(c, crs);
}

template <int parts>
void multiply(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t strip, const uint16_t* b, int64_t panel,
              float* c, int64_t crs, bool adds, Fetch& next) {
  begin_matrices();
  for (int64_t i = 0; i < m; i += 2 * kSide)
    for (int64_t j = 0; j < n; j += 2 * kSide)
      (i + kSide < m ? tile<parts, true> : tile<parts, false>)(k, a + i / kSide * strip, strip, b + j / kSide * panel,
                                                               panel, c + i * crs + j, crs, adds, next);
  end_matrices();
}

// --- packing --------------------------------------------------------------------------------------------------------

// The parts of 32 numbers of a row.
template <int parts>
void split_row(__m512 low, __m512 high, __m512i (&part)[parts]) {
  for (int t = 0; t < parts; ++t) {
    part[t] = __m512i(_mm512_cvtne2ps_pbh(high, low));
    low = _mm512_sub_ps(low, widened(_mm512_castsi512_si256(part[t])));
    high = _mm512_sub_ps(high, widened(_mm512_extracti64x4_epi64(part[t], 1)));
  }
}
// Of 16 columns of two rows, in pairs.
template <int parts>
void split_pair(__m512 even, __m512 odd, __m512i (&part)[parts]) {
  for (int t = 0; t < parts; ++t) {
    const __m512i low = _mm512_cvtepu16_epi32(__m256i(_mm512_cvtneps_pbh(even)));
    const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(__m256i(_mm512_cvtneps_pbh(odd))), 16);
    part[t] = _mm512_or_si512(high, low);
    even = _mm512_sub_ps(even, _mm512_castsi512_ps(_mm512_slli_epi32(low, 16)));
    odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(high));
  }
}

// A tile of 16 vectors in parts, of which `split(r)` gives the r-th; `turned`: its columns are vectors.
template <int parts, bool turned, bool left, class Split>
void pack_tile(uint16_t* to, const Split& split) {
  __m512i v[parts][16];
  for (int r = 0; r < 16; ++r) {
    __m512i part[parts];
    split(r, part);
    for (int t = 0; t < parts; ++t)
      if constexpr (turned) v[t][r] = part[t];
      else _mm512_storeu_si512(to + (left ? t : parts - 1 - t) * kTile + r * kDepth, part[t]);
  }
  if constexpr (turned)
    for (int t = 0; t < parts; ++t) {
      turn(v[t]);
      for (int r = 0; r < 16; ++r) _mm512_storeu_si512(to + (left ? t : parts - 1 - t) * kTile + r * kDepth, v[t][r]);
    }
}

// Strips of rows (or panels, turned), where columns are summed.
template <int parts, bool turned>
void from_rows(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart, int64_t deep) {
  for (int64_t i = 0; i < rows; i += kSide)
    for (int64_t j = 0; j < deep; j += kDepth)
      pack_tile<parts, turned, !turned>(to + i / kSide * apart + parts * kSide * j, [&](int r, __m512i (&part)[parts]) {
        const float* row = from + (i + r) * rs + j;
        const int64_t left = i + r < rows ? cols - j : 0;
        split_row(_mm512_maskz_loadu_ps(first_lanes(left), row),
                  _mm512_maskz_loadu_ps(first_lanes(left - 16), row + 16), part);
      });
}
// Panels of columns (or strips, turned), where rows are summed.
template <int parts, bool turned>
void from_pairs(const float* from, int64_t rs, int64_t rows, int64_t cols, uint16_t* to, int64_t apart, int64_t deep) {
  for (int64_t j = 0; j < deep; j += kDepth)
    for (int64_t i = 0; i < cols; i += kSide)
      pack_tile<parts, turned, turned>(to + i / kSide * apart + parts * kSide * j, [&](int r, __m512i (&part)[parts]) {
        const int64_t row = j + 2 * r;
        const __mmask16 lanes = first_lanes(cols - i);
        split_pair(_mm512_maskz_loadu_ps(row < rows ? lanes : 0, from + row * rs + i),
                   _mm512_maskz_loadu_ps(row + 1 < rows ? lanes : 0, from + (row + 1) * rs + i), part);
      });
}

// Lanes of what is infinite, no number, or not zero and below 2^-96: as unsigned numbers, exponents outside a range.
__mmask16 unsound(__m512i sums) {
  const __m512i least = _mm512_set1_epi32((127 - 96) << 23), range = _mm512_set1_epi32((255 - (127 - 96)) << 23);
  const __m512i size = _mm512_and_si512(sums, _mm512_set1_epi32(0x7fffffff));
  return _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(size, size), _mm512_sub_epi32(size, least), range);
}
bool sound(const float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* c, int64_t crs) {
  __mmask16 bad = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += 16) {
      __builtin_prefetch(c + i * crs + j, 1);
      bad |= unsound(_mm512_maskz_loadu_epi32(first_lanes(cols - j), sums + i * pitch + j));
    }
  return !bad;
}
void mend(float* sums, int64_t pitch, int64_t rows, int64_t cols, const float* from, int64_t from_pitch) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += 16) {
      const __mmask16 bad = unsound(_mm512_maskz_loadu_epi32(first_lanes(cols - j), sums + i * pitch + j));
      _mm512_mask_storeu_ps(sums + i * pitch + j, bad, _mm512_maskz_loadu_ps(bad, from + i * from_pitch + j));
    }
}

void finish(const float* sums, int64_t pitch, int64_t rows, int64_t cols, float* c, int64_t crs,
            const Epilogue<float>& e) {
  const __m512 alpha = _mm512_set1_ps(e.alpha), beta = _mm512_set1_ps(e.beta);
  for (int64_t i = 0; i < rows; ++i, sums += pitch, c += crs) {
    const __m512 bias = _mm512_set1_ps(e.bias_row ? e.bias_row[i] : 0);
    for (int64_t j = 0; j < cols; j += 16) {
      const __mmask16 which = first_lanes(cols - j);
      __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(which, sums + j), alpha);
      if (e.beta != 0) v = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(which, c + j), v);
      if (e.bias_col) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(which, e.bias_col + j));
      if (e.bias_row) v = _mm512_add_ps(v, bias);
      _mm512_mask_storeu_ps(c + j, which, v);
    }
  }
}

template <int parts>
constexpr FloatParts kParts{parts, multiply<parts>, from_rows<parts, false>, from_pairs<parts, true>,
                            from_pairs<parts, false>, from_rows<parts, true>, sound, mend, finish};
const bool registered = (float_parts_by_matrices[1] = &kParts<1>, float_parts_by_matrices[2] = &kParts<2>,
                         float_parts_by_matrices[3] = &kParts<3>, true);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
#pragma GCC pop_options
#endif
