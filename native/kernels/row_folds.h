// Reductions of one row that lies end to end, for groups of calls that go through memory row by row.
#pragma once
#include <string_view>

#include "../core/dtype.h"

namespace flambeau {

// n > 0 elements to one of the same dtype, as the operator computes it.
using RowFold = void (*)(const char* row, int64_t n, char* to);
RowFold find_row_fold(std::string_view op, DType dtype);  // null: there is none

}  // namespace flambeau
