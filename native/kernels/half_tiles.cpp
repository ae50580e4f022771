#include "half_tiles.h"

#include "../core/machine.h"

namespace flambeau {

const HalfTiles *half_tiles_by_vectors, *half_tiles_by_matrices;
const HalfPacking* half_packing;

// Intel's vectors multiply as many halves as floats.
const HalfTiles* half_tiles() {
  static const HalfTiles* best = multiplies_matrices_of_bfloat16() ? half_tiles_by_matrices
                                 : multiplies_vectors_of_bfloat16() && !is_intel() ? half_tiles_by_vectors
                                                                                   : nullptr;
  return best;
}

}  // namespace flambeau
