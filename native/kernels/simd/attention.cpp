// Row loops of attention.
#include "../attention.h"

#include <limits>


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

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
