#include "thirds.h"

#include "../core/machine.h"
#include "../core/state.h"

namespace flambeau {

const Thirds* thirds_by_matrices;

bool multiplies_thirds() {
  return thirds_by_matrices && multiplies_matrices_of_bfloat16() &&
         !process.whole_floats.load(std::memory_order_relaxed);
}

}  // namespace flambeau
