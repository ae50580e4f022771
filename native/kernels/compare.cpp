// Whether two tensors hold the same numbers, looked at block by block until a difference shows; and which numbers are
// among a few.
#include <algorithm>
#include <atomic>

#include "../core/call.h"
#include "options.h"

namespace flambeau {
namespace {

void infer_same(Call& c) { c.output(Dims{}, DType::Bool, c.tensor(0).device); }
// Few numbers first: tensors that differ mostly do so at once.
template <class T>
bool same_numbers(const T* a, const T* b, int64_t n) {
  constexpr int64_t kFirst = 64, kBlock = 4096;
  auto alike = [&](int64_t begin, int64_t end) {
    bool same = true;
    for (int64_t i = begin; i < end; ++i) same &= a[i] == b[i];
    return same;
  };
  if (!alike(0, std::min(n, kFirst))) return false;
  if (n <= kFirst) return true;
  std::atomic<bool> differ = false;
  LockRelease lock(n);
  parallel_for((n + kBlock - 1) / kBlock, 16, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end && !differ.load(std::memory_order_relaxed); ++u)
      if (!alike(u * kBlock, std::min(n, (u + 1) * kBlock))) differ.store(true, std::memory_order_relaxed);
  });
  return !differ;
}
// The dtype in which numbers of both arguments are compared.
DType common(const Call& c) {
  DType dtype = c.tensor(0).dtype;
  if (dtype != c.tensor(1).dtype) dtype = promote_types(dtype, c.tensor(1).dtype);
  if (dtype == DType::Complex32) return DType::Complex64;
  return is_float8(dtype) ? DType::Float32 : dtype;  // it has no arithmetic of its own
}
// Whether numbers can be compared as they lie, in whatever order.
bool lie_alike(const Tensor& a, const Tensor& b, DType dtype) {
  return a.dtype == dtype && b.dtype == dtype && dense(a) && std::equal(a.strides, a.strides + a.ndim, b.strides);
}
bool same(const Tensor& a, const Tensor& b, DType dtype) {
  const bool alike = lie_alike(a, b, dtype);
  const TensorRef x = alike ? TensorRef::borrow(const_cast<Tensor*>(&a)) : contiguous(*to_dtype(a, dtype)),
                  y = alike ? TensorRef::borrow(const_cast<Tensor*>(&b)) : contiguous(*to_dtype(b, dtype));
  bool found = false;
  visit_dtype(dtype, [&]<class T>() { found = same_numbers(x->ptr<T>(), y->ptr<T>(), x->numel); });
  return found;
}
TensorRef first_part(const Tensor& t) {
  std::vector<int64_t> shape(t.shape().begin(), t.shape().end());
  shape[0] = 1;
  return view_of(t, shape, t.stride(), t.data);
}
void cpu_same(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  bool& result = *c.out().ptr<bool>() = false;
  if (!std::ranges::equal(a.shape(), b.shape())) return;
  const DType dtype = common(c);
  constexpr int64_t kCopied = 1 << 12;  // numbers that are not all brought together to see that the first ones differ
  const bool copied = a.numel > kCopied && a.ndim > 1 && !lie_alike(a, b, dtype);
  if (copied && !same(*first_part(a), *first_part(b), dtype)) return;
  result = same(a, b, dtype);
}

// _among(self, few, invert)
void infer_among(Call& c) { c.output(c.tensor(0).shape(), DType::Bool, c.tensor(0).device); }
void cpu_among(Call& c) {
  const DType dtype = common(c);
  TensorRef x = contiguous(*to_dtype(c.tensor(0), dtype)), few = contiguous(*to_dtype(c.tensor(1), dtype));
  const bool invert = c.boolean(2);
  bool* to = c.out().ptr<bool>();
  LockRelease lock(x->numel * few->numel);
  visit_dtype(dtype, [&]<class T>() {
    const T *a = x->ptr<T>(), *b = few->ptr<T>();
    for (int64_t i = 0; i < x->numel; ++i) {
      bool found = false;
      for (int64_t j = 0; j < few->numel; ++j) found |= a[i] == b[j];
      to[i] = found != invert;
    }
  });
}

const Primitives rows{{"_same", infer_same, cpu_same}, {"_among", infer_among, cpu_among}};

}  // namespace
}  // namespace flambeau
