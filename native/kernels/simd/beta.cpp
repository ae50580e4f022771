// How shares of 1 move with their concentrations: the derivative of the incomplete beta function by a parameter.
#include "loops.h"

#if FLAMBEAU_LEVEL == 0

namespace flambeau::FLAMBEAU_SIMD {

#include "../../../src/flambeau/cuda/kernels/shared/beta.h"

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      ternary<[]<class T>(T x, T a, T total) { return T(share_slope(x, a, total)); }, float, double>(
          "_dirichlet_grad", 255),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

#endif
