// Distances from one row to others that follow each other, compiled once per instruction set (simd/distance.cpp).
#pragma once
#include <cstdint>

namespace flambeau {

// to[j] = sum over k < d of |a[k] - b[j * d + k]|^p for j < count; its square root where p is 2.
template <class T>
using Distances = void (*)(const T* a, const T* b, int64_t count, int64_t d, T* to);
struct DistanceLoops {
  Distances<float> euclidean_f32, city_f32;  // p = 2, 1
  Distances<double> euclidean_f64, city_f64;
};
extern const DistanceLoops* distance_loops[2];

}  // namespace flambeau
