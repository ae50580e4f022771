// Row loops of attention.
#include "../attention.h"

#include <limits>

#include "halves.h"
#include "row_vectors.h"

#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns inside its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int kLanes = 16;

float row_max(const float* row, int64_t n) {
  auto larger = [](float a, float b) { return b > a ? b : a; };
  float lanes[kLanes * 2];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes * 2 <= n; i += kLanes * 2)
    for (int j = 0; j < kLanes * 2; ++j) lanes[j] = larger(lanes[j], row[i + j]);
  auto one_vector = [&](int64_t at) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = larger(lanes[j], row[at + j]);
  };
  for (; i + kLanes <= n; i += kLanes) one_vector(i);
  if (i < n && n >= kLanes) one_vector(n - kLanes), i = n;  // some twice
  for (; i < n; ++i) lanes[0] = larger(lanes[0], row[i]);
  for (int half = kLanes; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] = larger(lanes[j], lanes[j + half]);
  return lanes[0];
}

void row_grad(float* score, const float* p, int64_t n, float mean, float scale) {
  for (int64_t i = 0; i < n; ++i) score[i] = p[i] * (score[i] - mean) * scale;
}

constexpr AttentionKernels kKernels{row_max, row_grad};
const bool registered = (attention_kernels[FLAMBEAU_LEVEL] = &kKernels, true);

// --- scores of bfloat16 ---------------------------------------------------------------------------------------------

#if FLAMBEAU_LEVEL == 1 && defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx512bf16")

__m256i rounded(Floats v) { return __m256i(_mm512_cvtneps_pbh(__m512(v))); }
__m512i bits(__m256i halves) { return _mm512_cvtepu16_epi32(halves); }
Floats counting(Floats v, __mmask16 which) { return Floats(_mm512_maskz_mov_ps(which, __m512(v))); }
Floats loaded(const float* p, __mmask16 which) { return Floats(_mm512_maskz_loadu_ps(which, p)); }

float scaled_max(float* x, int64_t n, float by) {
  const Floats lowest = Floats{} - std::numeric_limits<float>::infinity();
  Floats top = lowest;
  for (int64_t i = 0; i < n; i += L) {
    const __mmask16 which = first_lanes(n - i);
    const Floats v = loaded(x + i, which) * by;
    _mm512_mask_storeu_ps(x + i, which, __m512(v));
    top = Floats(_mm512_mask_max_ps(__m512(top), which, __m512(v), __m512(top)));
  }
  return _mm512_reduce_max_ps(__m512(top));
}

float exponentials(const float* x, uint16_t* to, float top, int64_t n, int64_t wide) {
  Floats sum{};
  for (int64_t i = 0; i < wide; i += L) {
    const __mmask16 which = first_lanes(n - i);
    const __m256i e = rounded(counting(exp(loaded(x + i, which) - top), which));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), e);
    sum += Floats(widened(e));
  }
  return _mm512_reduce_add_ps(__m512(sum));
}

void narrow(const float* x, uint16_t* to, float by, int64_t n) {
  for (int64_t i = 0; i < n; i += L)
    _mm256_mask_storeu_epi16(to + i, first_lanes(n - i), rounded(loaded(x + i, first_lanes(n - i)) * by));
}

void slopes(const attention::TwoRows& of, int64_t wide, float by, float scale, uint16_t* p, uint16_t* d, int64_t panel,
            uint16_t* const (&rows)[2]) {
  for (int64_t i = 0; i < wide; i += L) {
    __m256i probability[2], slope[2];
    for (int r = 0; r < 2; ++r) {
      const __mmask16 which = first_lanes(of.seen[r] - i);
      const Floats e = counting(exp(loaded(of.scores[r] + i, which) * by - of.sum[r]), which);
      const Floats s = e * (loaded(of.slopes[r] + i, which) - of.mean[r]) * scale;
      probability[r] = rounded(e), slope[r] = rounded(s);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows[r] + i), slope[r]);
    }
    auto paired = [](const __m256i (&v)[2]) { return _mm512_or_si512(bits(v[0]), _mm512_slli_epi32(bits(v[1]), 16)); };
    _mm512_storeu_si512(p + i / L * panel, paired(probability));
    _mm512_storeu_si512(d + i / L * panel, paired(slope));
  }
}

float dot(const uint16_t* a, const uint16_t* b, int64_t n) {
  Floats sum{};
  for (int64_t i = 0; i < n; i += L) {
    const __mmask16 which = first_lanes(n - i);
    sum += Floats(Bfloat16::load(a + i, which)) * Floats(Bfloat16::load(b + i, which));
  }
  return _mm512_reduce_add_ps(__m512(sum));
}

constexpr attention::HalfRows kHalfRows{scaled_max, exponentials, narrow, slopes, dot};
const bool halves_registered = (attention::half_rows_of_attention = &kHalfRows, true);
#pragma GCC pop_options
#endif

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
