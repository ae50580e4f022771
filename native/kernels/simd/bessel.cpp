// Bessel and Airy functions: the rows of what shared/bessel.h computes. Most are compiled once.
#include "near.h"

namespace flambeau::FLAMBEAU_SIMD {

#include "../../../src/flambeau/cuda/kernels/shared/bessel.h"

template <class T> void j0_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  by_blocks<T>(p, n, T(5), [](T x) { return T(j0s_poly(double(x) * double(x) / 12.5 - 1)); },
               [](T x) { return T(bessel_j0(x)); });
}
template <class T> void j1_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  by_blocks<T>(p, n, T(5), [](T x) { return T(double(x) * j1s_poly(double(x) * double(x) / 12.5 - 1)); },
               [](T x) { return T(bessel_j1(x)); });
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({from_loops<float, double>("special_bessel_j0", 1, {j0_loop<float>, j0_loop<double>}, 16),
         from_loops<float, double>("special_bessel_j1", 1, {j1_loop<float>, j1_loop<double>}, 16)});
#if FLAMBEAU_LEVEL == 0
  r.add({
      unary<[]<class T>(T a) { return T(modified_i<0>(a)); }, float, double>("i0", 8),
      unary<[]<class T>(T a) { return T(scaled_i<0>(a)); }, float, double>("special_i0e", 8),
      unary<[]<class T>(T a) { return T(modified_i<1>(a)); }, float, double>("special_i1", 8),
      unary<[]<class T>(T a) { return T(scaled_i<1>(a)); }, float, double>("special_i1e", 8),
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
#endif
});

}  // namespace flambeau::FLAMBEAU_SIMD
