#include "channels_last.h"

#include <algorithm>

namespace flambeau {

// Channels innermost, then the other dimensions from the last to the first, then the batch.
std::vector<int64_t> channels_last_strides(Dims shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  auto place = [&](size_t k) {
    strides[k] = step;
    step *= std::max<int64_t>(shape[k], 1);
  };
  place(1);
  for (size_t k = shape.size(); k-- > 2;) place(k);
  place(0);
  return strides;
}

namespace {
bool lies_so(const Tensor& t) {
  if (t.ndim < 4 || t.ndim > 5) return false;
  int64_t step = 1;
  auto lies = [&](int k) {
    const bool good = t.strides[k] == step || (t.sizes[k] == 1 && t.strides[k] > step);
    step *= std::max<int64_t>(t.sizes[k], 1);
    return good;
  };
  bool good = lies(1);
  for (int k = t.ndim - 1; k >= 2; --k) good &= lies(k);
  return good & lies(0);
}
}  // namespace

bool has_channels_last(const Tensor& t) { return !t.contiguous() && lies_so(t); }

bool has_channels_last_order(const Tensor& t) {
  if (t.contiguous() || t.ndim < 4 || t.ndim > 5 || t.numel == 0) return false;
  int64_t least = 1;
  auto follows = [&](int k) {
    const bool good = t.strides[k] >= least;
    least = t.strides[k] * t.sizes[k];
    return good;
  };
  bool good = t.sizes[1] > 1 && t.strides[1] == 1 && follows(1);
  for (int k = t.ndim - 1; k >= 2; --k) good &= follows(k);
  return good && follows(0);
}

TensorRef with_channels_last(const Tensor& t) {
  if (lies_so(t)) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty_strided(t.shape(), channels_last_strides(t.shape()), t.dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

}  // namespace flambeau
