// Box and Muller's transform of uniform numbers in place, sixteen at a time: eight radii, eight angles.
#pragma once
#include <cstdint>

namespace flambeau {
// x: n uniform numbers in [0, 1), n a multiple of 16; they become normal with this mean and standard deviation.
void box_muller(float* x, int64_t n, float mean, float std);
void box_muller(double* x, int64_t n, double mean, double std);
}  // namespace flambeau
