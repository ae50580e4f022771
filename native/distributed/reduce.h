// How elements of several ranks become one: dst[i] = op over r of sources[r][i], in the order of the ranks.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace flambeau::distributed {

// As ReduceOp counts them.
enum class Reduction : int { Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor };

using Reduce = void (*)(char* dst, const char* const* sources, int n, int64_t count);
// Null where the dtype has no such reduction. dst may be one of the sources.
Reduce reduce_function(DType dtype, Reduction op);

}  // namespace flambeau::distributed
