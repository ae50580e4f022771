// Row loops of attention.
#include "../attention.h"
#include "math.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

constexpr int kLanes = kScoreLanes;

float row_max(const float* row, int64_t n) {
  float lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
  for (; i < n; ++i) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] = lanes[j + half] > lanes[j] ? lanes[j + half] : lanes[j];
  return lanes[0];
}

float row_exp(float* row, int64_t n, float shift) {
  for (int64_t i = 0; i < n; ++i) row[i] = exp_(row[i] - shift);
  float lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] += row[i + j];
  for (; i < n; ++i) sum += row[i];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0] + sum;
}

void row_grad(float* score, const float* p, int64_t n, float mean, float scale) {
  for (int64_t i = 0; i < n; ++i) score[i] = p[i] * (score[i] - mean) * scale;
}

constexpr AttentionKernels kKernels{row_max, row_exp, row_grad};
const bool registered = (attention_kernels[FLAMBEAU_LEVEL] = &kKernels, true);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
