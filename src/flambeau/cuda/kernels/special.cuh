// Special functions in double: what the CPU computes, from the same text.
#ifndef FLAMBEAU_EMULATE
namespace std {
using ::acos; using ::acosh; using ::copysign; using ::cos; using ::cosh; using ::erfc; using ::exp; using ::floor;
using ::fmod; using ::lgamma; using ::log; using ::log1p; using ::pow; using ::sin; using ::sinh; using ::sqrt;
using ::tgamma;
}
#endif
namespace special {
#include "names.cuh"
#include "shared/gamma.h"
#include "shared/special.h"
#include "shared/bessel.h"
#include "shared/polynomial.h"
#include "shared/beta.h"
}  // namespace special
using namespace special;
