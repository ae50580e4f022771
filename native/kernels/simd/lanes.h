// A vector of floats, doubles or 64-bit integers of the instruction set a file is compiled for: width, masks, fused
// multiply-add. `rows` is the height of a register tile three vectors wide.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns inside its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

#if FLAMBEAU_LEVEL == 1
struct F32 {
  using T = float;
  using V = __m512;
  using M = __mmask16;
  static constexpr int width = 16, rows = 8;
  static M mask(int n) { return M(n >= 16 ? 0xffff : (1u << n) - 1); }
  static V zero() { return _mm512_setzero_ps(); }
  static V set(float x) { return _mm512_set1_ps(x); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load(const float* p, M m) { return _mm512_maskz_loadu_ps(m, p); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, V v, M m) { _mm512_mask_storeu_ps(p, m, v); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }  // b where one is NaN, as in min
  static V min(V a, V b) { return _mm512_min_ps(a, b); }
  static V abs(V v) { return _mm512_abs_ps(v); }
  static float sum(V v) { return _mm512_reduce_add_ps(v); }
};
struct F64 {
  using T = double;
  using V = __m512d;
  using M = __mmask8;
  static constexpr int width = 8, rows = 8;
  static M mask(int n) { return M(n >= 8 ? 0xff : (1u << n) - 1); }
  static V zero() { return _mm512_setzero_pd(); }
  static V set(double x) { return _mm512_set1_pd(x); }
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static V load(const double* p, M m) { return _mm512_maskz_loadu_pd(m, p); }
  static void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void store(double* p, V v, M m) { _mm512_mask_storeu_pd(p, m, v); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V mul(V a, V b) { return _mm512_mul_pd(a, b); }
  static V add(V a, V b) { return _mm512_add_pd(a, b); }
  static V sub(V a, V b) { return _mm512_sub_pd(a, b); }
  static V abs(V v) { return _mm512_abs_pd(v); }
  static double sum(V v) { return _mm512_reduce_add_pd(v); }
};
struct U64 {  // arithmetic that wraps: signed ones are the same
  using T = uint64_t;
  using V = __m512i;
  using M = __mmask8;
  static constexpr int width = 8, rows = 8;
  static M mask(int n) { return F64::mask(n); }
  static V zero() { return _mm512_setzero_si512(); }
  static V set(uint64_t x) { return _mm512_set1_epi64(int64_t(x)); }
  static V load(const uint64_t* p) { return _mm512_loadu_si512(p); }
  static V load(const uint64_t* p, M m) { return _mm512_maskz_loadu_epi64(m, p); }
  static void store(uint64_t* p, V v) { _mm512_storeu_si512(p, v); }
  static void store(uint64_t* p, V v, M m) { _mm512_mask_storeu_epi64(p, m, v); }
  static V mul(V a, V b) { return _mm512_mullo_epi64(a, b); }
  static V add(V a, V b) { return _mm512_add_epi64(a, b); }
  static V fma(V a, V b, V c) { return add(mul(a, b), c); }
  static uint64_t sum(V v) { return uint64_t(_mm512_reduce_add_epi64(v)); }
};
#else
alignas(64) const int32_t kMask32[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
alignas(64) const int64_t kMask64[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
struct F32 {
  using T = float;
  using V = __m256;
  using M = __m256i;
  static constexpr int width = 8, rows = 4;
  static M mask(int n) { return _mm256_loadu_si256((const __m256i*)(kMask32 + 8 - std::min(n, 8))); }
  static V zero() { return _mm256_setzero_ps(); }
  static V set(float x) { return _mm256_set1_ps(x); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load(const float* p, M m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store(float* p, V v, M m) { _mm256_maskstore_ps(p, m, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }  // b where one is NaN, as in min
  static V min(V a, V b) { return _mm256_min_ps(a, b); }
  static V abs(V v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
  static float sum(V v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
};
struct F64 {
  using T = double;
  using V = __m256d;
  using M = __m256i;
  static constexpr int width = 4, rows = 4;
  static M mask(int n) { return _mm256_loadu_si256((const __m256i*)(kMask64 + 4 - std::min(n, 4))); }
  static V zero() { return _mm256_setzero_pd(); }
  static V set(double x) { return _mm256_set1_pd(x); }
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static V load(const double* p, M m) { return _mm256_maskload_pd(p, m); }
  static void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void store(double* p, V v, M m) { _mm256_maskstore_pd(p, m, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  static V add(V a, V b) { return _mm256_add_pd(a, b); }
  static V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  static V abs(V v) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v); }
  static double sum(V v) {
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
  }
};
struct U64 {  // arithmetic that wraps: signed ones are the same
  using T = uint64_t;
  using V = __m256i;
  using M = __m256i;
  static constexpr int width = 4, rows = 4;
  static M mask(int n) { return F64::mask(n); }
  static V zero() { return _mm256_setzero_si256(); }
  static V set(uint64_t x) { return _mm256_set1_epi64x(int64_t(x)); }
  static V load(const uint64_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static V load(const uint64_t* p, M m) { return _mm256_maskload_epi64((const long long*)p, m); }
  static void store(uint64_t* p, V v) { _mm256_storeu_si256((__m256i*)p, v); }
  static void store(uint64_t* p, V v, M m) { _mm256_maskstore_epi64((long long*)p, m, v); }
  static V mul(V a, V b) {  // by halves: the product of the high ones is beyond 64 bits
    const V crossed = add(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return add(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
  }
  static V add(V a, V b) { return _mm256_add_epi64(a, b); }
  static V fma(V a, V b, V c) { return add(mul(a, b), c); }
  static uint64_t sum(V v) {
    uint64_t lane[4];
    store(lane, v);
    return lane[0] + lane[1] + lane[2] + lane[3];
  }
};
#endif

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
