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

// A copy of such images, or of what a view shows of them, with the channels last; null where they cannot lie so.
TensorRef copied_images(const Tensor& t);

// Runs the call on such memory, where its arguments are images that lie so, or where it is a convolution that is worth
// it. False: nothing has happened.
bool run_on_images(Call& c);
// Whether such a call may ask for that although no argument is pending.
inline bool keeps_images(const PrimitiveRow& row) { return row.images == Images::Along || row.images == Images::Kept; }

// The tensors of a pointwise call or group, some of which are such images: all of them as they lie, and how its results
// are seen, as plain images or with channels last. Nowhere: there is none, or they do not go together.
enum class Seen : uint8_t { Nowhere, Plain, Last };
Seen lie_together(std::span<Tensor* const> tensors, std::vector<TensorRef>& lying);

}  // namespace flambeau
