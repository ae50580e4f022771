// Memory formats of results: convolutions, norms and pools answer channels_last images with channels_last ones.
#pragma once
#include "../core/call.h"

namespace flambeau {

void keeps_format(const OpDef& op);  // from now on `op`'s results take the memory format of its arguments
// After a kernel: results of such an operator, laid out as its first argument (or its weight) is.
void take_format(Call& c);
// Whether an argument's layout is one that a result could take; most calls end here.
inline bool formatted(const Value& v) {
  const Tensor* t = v.tag == Tag::Tensor                      ? v.tensor
                    : v.tag == Tag::Tensors && v.tensors.size ? v.tensors.data[0]
                                                              : nullptr;
  return t && t->ndim >= 4 && !t->contiguous();
}

}  // namespace flambeau
