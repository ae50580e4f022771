#include "unwritten.h"

#include <cstring>
#include <limits>

namespace flambeau {

bool fills_unwritten = false;

void fill_unwritten(Tensor& t) {
  if (is_differentiable(t.dtype)) return fill(t, Scalar(std::numeric_limits<double>::quiet_NaN()));
  if (t.dtype == DType::Bool) return fill(t, Scalar(true));
  if (t.dtype == DType::UInt64) return fill(t, Scalar(int64_t(-1)));
  const bool is_signed = t.dtype == DType::Int8 || t.dtype == DType::Int16 || t.dtype == DType::Int32 ||
                         t.dtype == DType::Int64;
  fill(t, Scalar(int64_t(~uint64_t(0) >> (64 - int(t.itemsize()) * 8 + is_signed))));
}

}  // namespace flambeau
