// What rows are made of in memory: floats, or halves that are widened as they are loaded and rounded as they are
// stored.
#pragma once
#include <bit>

#include "../../core/dtype.h"
#include "row_vectors.h"

namespace flambeau::FLAMBEAU_SIMD {

struct Single {
  using Type = float;
  static Floats load(const float* p) { return FLAMBEAU_SIMD::load(p); }
  static Floats load(const float* p, int64_t n, Floats padding) { return load_part(p, n, padding); }
  static void store(float* p, Floats v, int64_t n) { store_part(p, v, n); }
};

typedef uint16_t Shorts __attribute__((vector_size(kBytes / 2)));
typedef uint32_t Words __attribute__((vector_size(kBytes)));

#if defined(__AVX512F__)
inline Words lengthened(Shorts s) { return Words(_mm512_cvtepu16_epi32(__m256i(s))); }
inline Shorts shortened(Words w) { return Shorts(_mm512_cvtepi32_epi16(__m512i(w))); }
inline Floats of_float16(Shorts s) { return Floats(_mm512_cvtph_ps(__m256i(s))); }
inline Shorts to_float16(Floats v) { return Shorts(_mm512_cvtps_ph(__m512(v), _MM_FROUND_TO_NEAREST_INT)); }
inline Shorts load_shorts(const uint16_t* p, int64_t n) {
  return Shorts(_mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1), p));
}
inline void store_shorts(uint16_t* p, Shorts s, int64_t n) {
  _mm256_mask_storeu_epi16(p, __mmask16((1u << n) - 1), __m256i(s));
}
inline Floats padded(Floats v, int64_t n, Floats padding) {
  return Floats(_mm512_mask_mov_ps(__m512(padding), __mmask16((1u << n) - 1), __m512(v)));
}
#else
#if defined(__AVX2__)
inline Words lengthened(Shorts s) { return Words(_mm256_cvtepu16_epi32(__m128i(s))); }
inline Shorts shortened(Words w) {  // numbers below 2^16
  const __m256i packed = _mm256_packus_epi32(__m256i(w), __m256i(w));
  return Shorts(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 8)));
}
inline Floats of_float16(Shorts s) { return Floats(_mm256_cvtph_ps(__m128i(s))); }
inline Shorts to_float16(Floats v) { return Shorts(_mm256_cvtps_ph(__m256(v), _MM_FROUND_TO_NEAREST_INT)); }
#else
inline Words lengthened(Shorts s) { return __builtin_convertvector(s, Words); }
inline Shorts shortened(Words w) { return __builtin_convertvector(w, Shorts); }
inline Floats of_float16(Shorts s) {
  Floats v;
  for (int k = 0; k < L; ++k) v[k] = float(std::bit_cast<float16>(uint16_t(s[k])));
  return v;
}
inline Shorts to_float16(Floats v) {
  Shorts s;
  for (int k = 0; k < L; ++k) s[k] = std::bit_cast<uint16_t>(float16(float(v[k])));
  return s;
}
#endif
inline Shorts load_shorts(const uint16_t* p, int64_t n) {
  Shorts s{};
  for (int k = 0; k < n; ++k) s[k] = p[k];
  return s;
}
inline void store_shorts(uint16_t* p, Shorts s, int64_t n) {
  for (int k = 0; k < n; ++k) p[k] = s[k];
}
inline Floats padded(Floats v, int64_t n, Floats padding) {
  for (int64_t k = n; k < L; ++k) v[k] = padding[k];
  return v;
}
#endif

struct BrainBits {
  static Floats widen(Shorts s) { return Floats(lengthened(s) << 16); }
  static Shorts narrow(Floats v) {  // to nearest even, NaN quiet
    const Words bits = Words(v), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = Words{} + 0x7fc0;
    return shortened(v != v ? quiet : rounded);
  }
};
struct HalfBits {
  static Floats widen(Shorts s) { return of_float16(s); }
  static Shorts narrow(Floats v) { return to_float16(v); }
};
template <class Bits>
struct Halved {
  using Type = uint16_t;
  static Floats load(const uint16_t* p) {
    Shorts s;
    std::memcpy(&s, p, sizeof s);
    return Bits::widen(s);
  }
  // The first n lanes from p, the others from `padding`.
  static Floats load(const uint16_t* p, int64_t n, Floats padding) {
    return n >= L ? load(p) : padded(Bits::widen(load_shorts(p, n)), n, padding);
  }
  static void store(uint16_t* p, Floats v, int64_t n) {
    const Shorts s = Bits::narrow(v);
    if (n >= L) std::memcpy(p, &s, sizeof s);
    else store_shorts(p, s, n);
  }
};
using Brain = Halved<BrainBits>;
using Half = Halved<HalfBits>;

}  // namespace flambeau::FLAMBEAU_SIMD
