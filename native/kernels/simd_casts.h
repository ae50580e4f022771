// Conversions of runs that larger vectors, or instructions beyond the baseline, make faster; simd/casts.cpp fills the
// table.
#pragma once
#include "../core/dtype.h"
#include "../core/machine.h"

namespace flambeau {

template <class To, class From> using CastRun = void (*)(To* to, const From* from, int64_t n);
struct SimdCasts {
  CastRun<float, float16> float_of_half;
  CastRun<float16, float> half_of_float;
  CastRun<float, bfloat16> float_of_bfloat;
  CastRun<bfloat16, float> bfloat_of_float;  // to nearest even, NaN quiet
  CastRun<float, int64_t> float_of_long;
  CastRun<double, int64_t> double_of_long;
};
extern const SimdCasts* simd_cast_levels[2];
inline const SimdCasts& simd_casts() {
  static const SimdCasts& chosen = best_loops(simd_cast_levels);
  return chosen;
}

// The same by the types.
inline void cast_run(float* to, const float16* from, int64_t n) { simd_casts().float_of_half(to, from, n); }
inline void cast_run(float16* to, const float* from, int64_t n) { simd_casts().half_of_float(to, from, n); }
inline void cast_run(float* to, const bfloat16* from, int64_t n) { simd_casts().float_of_bfloat(to, from, n); }
inline void cast_run(bfloat16* to, const float* from, int64_t n) { simd_casts().bfloat_of_float(to, from, n); }
inline void cast_run(float* to, const int64_t* from, int64_t n) { simd_casts().float_of_long(to, from, n); }
inline void cast_run(double* to, const int64_t* from, int64_t n) { simd_casts().double_of_long(to, from, n); }

}  // namespace flambeau
