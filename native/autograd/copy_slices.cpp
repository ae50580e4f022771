// The gradient of a write through a view, as its base sees it: what the write replaced gets none.
#include "node.h"

namespace flambeau {

namespace {

OpHandle op_add{"add"}, op_clone{"clone"}, op_contiguous{"contiguous"}, op_copy{"copy_"}, op_zero{"zero_"},
    op_zeros_like{"zeros_like"}, op_as_strided{"as_strided"}, op_view_as_real{"view_as_real"},
    op_view_as_complex{"view_as_complex"}, op_conj{"conj"}, op_neg_view{"_neg_view"};

void inplace(OpHandle& op, Tensor& self, Tensor* other) {
  Value args[4] = {Value(&self), other ? Value(other) : Value()};
  Call c;
  c.op = &op.get();
  for (size_t k = other ? 2 : 1; k < c.op->schema.args.size(); ++k) args[k] = c.op->schema.args[k].value;
  c.args = args;
  c.nargs = int(c.op->schema.args.size());
  c.given = &self;
  c.inplace = true;
  run_op(c);
}

// Inside transforms: zeros with the base's batch, if it has one, plus the gradient.
TensorRef laid_out_at_level(Tensor& base, Tensor& grad) {
  TensorRef whole = invoke(op_zeros_like, {Value(&base)});
  if (base.contiguous()) {
    whole = invoke(op_add, {Value(whole.get()), Value(&grad)});
    if (!whole->contiguous()) whole = invoke(op_contiguous, {Value(whole.get())});
  }
  for (int k = 0; k < base.ndim; ++k)
    if (base.sizes[k] > 1 && base.strides[k] != whole->strides[k])
      not_implemented("inside a transform, a write through a view of a tensor whose elements overlap or have gaps has "
                      "no derivative: write into a clone()");
  if (!base.contiguous()) inplace(op_copy, *whole, &grad);
  return whole;
}

// A copy of the gradient laid out as the base is, so that the view's geometry applies to it.
TensorRef laid_out(Tensor& base, Tensor& grad) {
  if ((base.flags | grad.flags) & kDispatch) return laid_out_at_level(base, grad);
  TensorRef whole = empty_strided(base.shape(), base.stride(), grad.dtype, grad.device);
  inplace(op_copy, *whole, &grad);
  return whole;
}

TensorRef strided(Tensor& whole, Dims shape, Dims stride, int64_t offset) {
  return invoke(op_as_strided, {Value(&whole), Value(shape), Value(stride), Value(offset)});
}

TensorRef placed(const Tensor& view, Tensor& whole, int64_t origin) {
  if (is_complex(view.dtype) == is_complex(whole.dtype))
    return strided(whole, view.shape(), view.stride(), view.offset() - origin);
  if (is_complex(whole.dtype)) {
    TensorRef parts = invoke(op_view_as_real, {Value(&whole)});
    return strided(*parts, view.shape(), view.stride(), view.offset() - 2 * origin);
  }
  std::vector<int64_t> shape(view.shape().begin(), view.shape().end()), stride;
  for (int64_t s : view.stride()) stride.push_back(2 * s);
  shape.push_back(2);
  stride.push_back(1);
  TensorRef pairs = strided(whole, shape, stride, 2 * view.offset() - origin);
  return invoke(op_view_as_complex, {Value(pairs.get())});
}

}  // namespace

TensorRef seen_through(const Tensor& view, Tensor& whole, int64_t origin, unsigned lazy) {
  TensorRef seen = placed(view, whole, origin);
  if (lazy & kConj) seen = invoke(op_conj, {Value(seen.get())});
  if (lazy & kNeg) seen = invoke(op_neg_view, {Value(seen.get())});
  return seen;
}

void copy_slices_backward(Node& node, const bool* needs, TensorRef* grads, TensorRef* out) {
  auto& [view_ref, base_ref, fn_ref, written] = *static_cast<Slices*>(node.payload);
  Tensor& view = *view_ref;
  Tensor& base = *base_ref;
  Node& fn = *fn_ref;
  if (!grads[0]) return;
  TensorRef whole = laid_out(base, *grads[0]);
  TensorRef slice = seen_through(view, *whole, base.offset(), lazy_difference(view, base));
  TensorRef incoming = invoke(op_clone, {Value(slice.get())});
  auto inner_needs = std::make_unique<bool[]>(size_t(fn.nedges) + 1);
  for (int k = 0, at = 1; k < fn.nedges; ++k) inner_needs[k] = k == written ? needs[0] : needs[at++];
  std::vector<TensorRef> inner(size_t(fn.nedges) + 1);
  if (fn.kind == NodeKind::Rules) hooks.apply_rules(fn, inner_needs.get(), &incoming, inner.data());
  else hooks.apply_function(fn, inner_needs.get(), &incoming, inner.data());
  if (!needs[0]) whole = {};  // the base had no history before: what its rule would read was not saved
  else if (written >= 0 && inner[written]) inplace(op_copy, *slice, inner[written].get());
  else inplace(op_zero, *slice, nullptr);
  out[0] = std::move(whole);
  for (int k = 0, at = 1; k < fn.nedges; ++k)
    if (k != written) out[at++] = std::move(inner[k]);
}

}  // namespace flambeau
