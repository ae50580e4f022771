// smoothstep: 3 x^2 - 2 x^3 between 0 and 1, flat outside.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      unary<[]<class T>(T x) {
        T t = x < 0 ? T(0) : 1 < x ? T(1) : x;  // NaN fails both comparisons and stays NaN
        return t * t * (T(3) - T(2) * t);
      }, float, double>("smoothstep"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD
