// Bessel and Airy functions: the rows of what shared/bessel.h computes.
#include "loops.h"

#if FLAMBEAU_LEVEL == 0

namespace flambeau::FLAMBEAU_SIMD {

#include "../../../src/flambeau/cuda/kernels/shared/bessel.h"

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      unary<[]<class T>(T a) { return T(modified_i<0>(a)); }, float, double>("i0", 8),
      unary<[]<class T>(T a) { return T(scaled_i<0>(a)); }, float, double>("special_i0e", 8),
      unary<[]<class T>(T a) { return T(modified_i<1>(a)); }, float, double>("special_i1", 8),
      unary<[]<class T>(T a) { return T(scaled_i<1>(a)); }, float, double>("special_i1e", 8),
      unary<[]<class T>(T a) { return T(bessel_j0(a)); }, float, double>("special_bessel_j0", 16),
      unary<[]<class T>(T a) { return T(bessel_j1(a)); }, float, double>("special_bessel_j1", 16),
      unary<[]<class T>(T a) { return T(bessel_y0(a)); }, float, double>("special_bessel_y0", 16),
      unary<[]<class T>(T a) { return T(bessel_y1(a)); }, float, double>("special_bessel_y1", 16),
      unary<[]<class T>(T a) { return T(modified_i<0>(a)); }, float, double>("special_modified_bessel_i0", 8),
      unary<[]<class T>(T a) { return T(modified_i<1>(a)); }, float, double>("special_modified_bessel_i1", 8),
      unary<[]<class T>(T a) { return T(modified_k<0, false>(a)); }, float, double>("special_modified_bessel_k0", 16),
      unary<[]<class T>(T a) { return T(modified_k<1, false>(a)); }, float, double>("special_modified_bessel_k1", 16),
      unary<[]<class T>(T a) { return T(modified_k<0, true>(a)); }, float, double>("special_scaled_modified_bessel_k0",
                                                                                   16),
      unary<[]<class T>(T a) { return T(modified_k<1, true>(a)); }, float, double>("special_scaled_modified_bessel_k1",
                                                                                   16),
      unary<[]<class T>(T a) { return T(spherical_j0(a)); }, float, double>("special_spherical_bessel_j0", 16),
      unary<[]<class T>(T a) { return T(airy(a)); }, float, double>("special_airy_ai", 16),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD
#endif
