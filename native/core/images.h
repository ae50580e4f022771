// Images that lie with their channels last although their strides say otherwise: the results of convolutions, as long
// as the operators that follow can use them so. A gate (pending.h) gives whoever wants the plain memory a copy.
#pragma once
#include "call.h"

namespace flambeau {

// Where the values of such a tensor are: a tensor with strides of channels last; null: it is none.
const Tensor* last_images(const Tensor& t);
// A tensor that is seen as contiguous, of the values of one that has the channels last and that nobody else holds; of
// others: itself.
TensorRef as_plain(TensorRef last);

// A copy that lies so too; null where `t` does not.
TensorRef copied_images(const Tensor& t);

// Runs the call on such memory, where its arguments are images that lie so, or where it is a convolution that is worth
// it. False: nothing has happened.
bool run_on_images(Call& c);

// The tensors of a pointwise call or group, some of which are such images: all of them as they lie. False: there is
// none, or they do not go together.
bool lie_together(std::span<Tensor* const> tensors, std::vector<TensorRef>& lying);

}  // namespace flambeau
