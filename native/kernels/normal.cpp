// Box and Muller's transform: logarithm, sine and cosine of eight numbers at once, each within about one ulp.
#include "normal.h"

#include <cmath>
#include <cstring>

namespace flambeau {
namespace {

constexpr int kLanes = 8;
typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));

Floats root(Floats x) {
  for (int k = 0; k < kLanes; ++k) x[k] = __builtin_sqrtf(x[k]);
  return x;
}

// log(x) for normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then a polynomial in m - 1.
Floats log(Floats x) {
  Ints bits = (Ints)x;
  Ints e = ((bits >> 23) & 0xff) - 126;
  Floats m = (Floats)((bits & 0x7fffff) | 0x3f000000);  // [0.5, 1)
  Ints small = m < 0.707106781186547524f;
  e += small;                                           // true is -1
  m = m + (Floats)((Ints)m & small) - 1.0f;
  Floats ef = __builtin_convertvector(e, Floats);
  Floats z = m * m;
  Floats p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  Floats y = p * m * z + ef * -2.12194440e-4f - 0.5f * z;  // ln 2 in two parts
  return m + y + ef * 0.693359375f;
}

// Sine and cosine of x in [0, 2 pi]: the quadrant is subtracted in three parts of pi/2.
void sine_cosine(Floats x, Floats& sine, Floats& cosine) {
  Ints quadrant = __builtin_convertvector(x * 0.636619772367581343f + 0.5f, Ints);
  Floats q = __builtin_convertvector(quadrant, Floats);
  x = x - q * 1.5703125f - q * 4.837512969970703125e-4f - q * 7.549789948768648e-8f;
  Floats z = x * x;
  Floats s = ((z * -1.9515295891e-4f + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  Floats c =
      ((z * 2.443315711809948e-5f - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  Ints swap = (quadrant & 1) == 1;
  Ints sine_sign = (quadrant & 2) << 30, cosine_sign = ((quadrant + 1) & 2) << 30;
  sine = (Floats)((((Ints)c & swap) | ((Ints)s & ~swap)) ^ sine_sign);
  cosine = (Floats)((((Ints)s & swap) | ((Ints)c & ~swap)) ^ cosine_sign);
}

}  // namespace

void box_muller(float* x, int64_t n, float mean, float std) {
  for (int64_t k = 0; k < n; k += 16) {
    Floats u1, u2, sine, cosine;
    std::memcpy(&u1, x + k, sizeof u1);
    std::memcpy(&u2, x + k + 8, sizeof u2);
    Floats radius = root(-2.0f * log(1.0f - u1));
    sine_cosine(u2 * 6.28318530717958647693f, sine, cosine);
    Floats a = radius * cosine * std + mean, b = radius * sine * std + mean;
    std::memcpy(x + k, &a, sizeof a);
    std::memcpy(x + k + 8, &b, sizeof b);
  }
}

void box_muller(double* x, int64_t n, double mean, double std) {
  for (int64_t k = 0; k < n; k += 16)
    for (int j = 0; j < 8; ++j) {
      double radius = std::sqrt(-2 * std::log(1 - x[k + j])), angle = 2 * M_PI * x[k + 8 + j];
      x[k + j] = radius * std::cos(angle) * std + mean;
      x[k + 8 + j] = radius * std::sin(angle) * std + mean;
    }
}

}  // namespace flambeau
