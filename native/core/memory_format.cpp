#include "memory_format.h"

#include <algorithm>
#include <numeric>

namespace flambeau {
namespace {

constexpr int64_t kContiguousFormat = 0;  // as operators take it
OpHandle op_permute{"permute"}, op_clone{"clone"}, op_as_strided{"as_strided"};

bool wanted(const Value& v) {
  if (v.tag == Tag::Tensor) return has_channels_last(*v.tensor);
  if (v.tag != Tag::Tensors || v.tensors.size == 0) return false;
  return std::ranges::all_of(std::span(v.tensors.data, size_t(v.tensors.size)),
                             [](const Tensor* t) { return t && has_channels_last(*t); });
}

// A copy of `t` with dense strides. Of a pending tensor it is as pending as `t`: its dimensions in the order in which
// they will lie are copied row by row, and seen in their own order again.
TensorRef copied_as(const Tensor& t, Dims strides) {
  if (!(t.flags & kPending)) {
    TensorRef copy = empty_strided(t.shape(), strides, t.dtype, t.device);
    copy_into(*copy, t);
    return copy;
  }
  std::vector<int64_t> order(size_t(t.ndim));
  std::iota(order.begin(), order.end(), int64_t(0));
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return strides[size_t(a)] > strides[size_t(b)]; });
  TensorRef rows = invoke(op_permute, {Value(const_cast<Tensor*>(&t)), Value(Dims(order))});
  TensorRef copy = invoke(op_clone, {Value(rows.get()), Value(kContiguousFormat)});
  return invoke(op_as_strided, {Value(copy.get()), Value(t.shape()), Value(strides), Value(int64_t(0))});
}

}  // namespace

void take_format(Call& c) {
  if (!c.op->keeps_format || c.given) return;
  bool weight = c.nargs > 1 && c.args[0].tag == Tag::Tensor && c.args[1].tag == Tag::Tensor &&
                c.args[1].tensor->ndim == c.args[0].tensor->ndim;
  if (!wanted(c.args[0]) && !(weight && wanted(c.args[1]))) return;
  int ndim = c.args[0].tag == Tag::Tensor ? c.args[0].tensor->ndim : c.args[0].tensors.data[0]->ndim;
  for (int k = 0; k < c.nout(); ++k) {
    TensorRef& out = k ? c.more[k - 1] : c.out1;
    if (!out || out->ndim != ndim || !out->contiguous() || out->level || out->flags & kDispatch) continue;
    std::vector<int64_t> strides = channels_last_strides(out->shape());
    out = copied_as(*out, strides);
  }
}

TensorRef laid_out_like(const Tensor& like, TensorRef grad, bool ours, bool any_layout) {
  std::vector<int64_t> wanted = like.contiguous() ? std::vector<int64_t>() : dense_strides(like);  // empty: rows
  bool fits = wanted.empty() ? grad->contiguous() : std::equal(wanted.begin(), wanted.end(), grad->strides);
  if (ours && (fits || any_layout)) return grad;
  if (grad->flags & kPending && grad->dtype == like.dtype)
    return copied_as(*grad, wanted.empty() ? contiguous_strides(like.shape()) : wanted);
  TensorRef copy = wanted.empty() ? empty(like.shape(), like.dtype, like.device)
                                  : empty_strided(like.shape(), wanted, like.dtype, like.device);
  copy_into(*copy, *grad);
  return copy;
}

}  // namespace flambeau
