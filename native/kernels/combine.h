// Two elements made one: the arithmetic of scatter_reduce, index_add and accumulating index_put.
#pragma once
#include <string_view>

#include "../core/call.h"

namespace flambeau {

enum class Combine : uint8_t { Replace, Add, Multiply, Max, Min };

// *a = *a (op) *b, for elements of `dtype`. Complex numbers have no maximum.
using CombineFn = void (*)(char* a, const char* b);
CombineFn combine_function(Combine how, DType dtype);

// out[k * out_stride] += in[k * in_stride] for k < n; strides in elements.
void add_run(DType dtype, char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n);

// t in `out`'s dtype, contiguous, broadcast to `shape`.
TensorRef expanded(const Tensor& t, Dims shape, DType dtype);

[[noreturn]] inline void out_of_bounds(const Call& c, int64_t at, int64_t dim, int64_t size) {
  std::string_view name = c.name();  // PyTorch's exception types
  bool elements = name == "gather" || name.starts_with("scatter") || name == "index_add" || name == "take_along_dim";
  fail(elements ? ErrorKind::Runtime : ErrorKind::Index, name, ": index ", at, " is outside dimension ", dim,
       " of size ", size);
}

}  // namespace flambeau
