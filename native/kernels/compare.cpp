// Whether two tensors hold the same numbers, looked at block by block until a difference shows.
#include <algorithm>
#include <atomic>

#include "../core/call.h"

namespace flambeau {
namespace {

void infer_same(Call& c) {
  const Tensor &x = c.tensor(0), &y = c.tensor(1);
  if (x.dtype != y.dtype || !std::ranges::equal(x.shape(), y.shape()))
    runtime_error("_same: expected one dtype and shape, got ", shape_text(x.shape()), " and ", shape_text(y.shape()));
  c.output(Dims{}, DType::Bool, x.device);
}
void cpu_same(Call& c) {
  auto operand = [&](int k) {  // float8 has no arithmetic of its own
    const Tensor& t = c.tensor(k);
    if (t.dtype == DType::Complex32) return contiguous(*to_dtype(t, DType::Complex64));
    return is_float8(t.dtype) ? contiguous(*to_dtype(t, DType::Float32)) : contiguous(t);
  };
  TensorRef x = operand(0), y = operand(1);
  std::atomic<bool> differ = false;
  visit_dtype(x->dtype, [&]<class T>() {
    constexpr int64_t kBlock = 4096;
    const T *a = x->ptr<T>(), *b = y->ptr<T>();
    const int64_t n = x->numel, blocks = (n + kBlock - 1) / kBlock;
    LockRelease lock(n);
    parallel_for(blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end && !differ.load(std::memory_order_relaxed); ++u) {
        bool same = true;
        for (int64_t i = u * kBlock, last = std::min(n, i + kBlock); i < last; ++i) same &= a[i] == b[i];
        if (!same) differ.store(true, std::memory_order_relaxed);
      }
    });
  });
  *c.out().ptr<bool>() = !differ;
}

const Primitives rows{{"_same", infer_same, cpu_same}};

}  // namespace
}  // namespace flambeau
