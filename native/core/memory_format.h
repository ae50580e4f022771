// How results and gradients are laid out: convolutions, norms and pools answer channels_last images with channels_last
// ones, and a gradient that is kept lies as what it belongs to.
#pragma once
#include "channels_last.h"
#include "op.h"

namespace flambeau {

// After a kernel: the results of an operator that keeps the format, laid out as its first argument (or its weight) is.
void take_format(Call& c);
// Whether an argument's layout is one that a result could take; most calls end here.
inline bool formatted(const Value& v) {
  const Tensor* t = v.tag == Tag::Tensor                      ? v.tensor
                    : v.tag == Tag::Tensors && v.tensors.size ? v.tensors.data[0]
                                                              : nullptr;
  return t && t->ndim >= 4 && !t->contiguous();
}
inline void keep_format(Call& c) {
  if (__builtin_expect(c.nargs && (formatted(c.args[0]) || (c.nargs > 1 && formatted(c.args[1]))), 0)) take_format(c);
}

// `grad`, which nobody else holds when `ours`, laid out as `like` is: itself where it may stay as it is, else a copy.
TensorRef laid_out_like(const Tensor& like, TensorRef grad, bool ours, bool any_layout);

}  // namespace flambeau
