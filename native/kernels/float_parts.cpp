#include "float_parts.h"

#include "../core/machine.h"
#include "../core/state.h"

namespace flambeau {

const FloatParts* float_parts_by_matrices[kMostFloatParts + 1];

static const FloatParts* in_parts(int count) {
  return count && multiplies_matrices_of_bfloat16() ? float_parts_by_matrices[count] : nullptr;
}

const FloatParts* exact_parts() {
  return in_parts(process.float_parts.load(std::memory_order_relaxed) ? kMostFloatParts : 0);
}
const FloatParts* parts_of_products() { return in_parts(process.float_parts.load(std::memory_order_relaxed)); }

}  // namespace flambeau
