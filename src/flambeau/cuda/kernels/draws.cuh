// What a thread draws from when it does not know how often: its own subsequence, from the generator's offset on.
#ifndef FLAMBEAU_EMULATE
namespace std {
using ::ceil; using ::exp; using ::fabs; using ::floor; using ::lgamma; using ::log; using ::log1p; using ::pow;
using ::sqrt;
}
#endif
struct ThreadDraws {
  uint64_t seed, subsequence, counter;
  INLINE double u53() {
    const Four w = philox(seed, subsequence, counter++);
    return double((uint64_t(w.v[0]) << 32 | w.v[1]) >> 11) * 1.1102230246251565e-16;
  }
  INLINE double gauss() {
    double pair[2];
    normal_two(philox(seed, subsequence, counter++), pair);
    return pair[0];
  }
};
namespace draws {
#define FLAMBEAU_INLINE inline
#include "shared/draws.h"
}  // namespace draws
