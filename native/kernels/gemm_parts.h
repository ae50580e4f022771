// Products of float32 by matrix instructions for bfloat16.
#pragma once
#include "gemm.h"
#include "float_parts.h"

namespace flambeau {

// Whether numbers in parts (null: they stay whole) are faster than vectors.
bool gemm_by_parts_pays(const FloatParts* by, int64_t m, int64_t n, int64_t k, int64_t ars, int64_t acs, int64_t brs,
                        int64_t bcs);
void gemm_by_parts(const FloatParts& by, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, int64_t acs,
                   const float* b, int64_t brs, int64_t bcs, float* c, int64_t crs, const Epilogue<float>& e,
                   bool threads);

// The same with a right operand [k, n] that is split once and stays, for at most kLongestKept numbers in a sum.
inline constexpr int64_t kLongestKept = 4096;
// Whether that is faster for m rows at a time.
bool keeping_parts_pays(const FloatParts* by, int64_t m, int64_t n, int64_t k, int64_t brs, int64_t bcs);
// `parts` has by.size(n, k) numbers.
void split_parts(const FloatParts& by, int64_t n, int64_t k, const float* b, int64_t brs, int64_t bcs, uint16_t* parts);
// Within a thread; rows of A have unit stride.
void gemm_with_parts(const FloatParts& by, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const float* b,
                     int64_t brs, int64_t bcs, const uint16_t* parts, float* c, int64_t crs, const Epilogue<float>& e);

}  // namespace flambeau
