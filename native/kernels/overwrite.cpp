// A copy of a tensor in which a part is overwritten: what a captured write to a part of a value is. Its plan overwrites
// the value itself if nobody reads that any more (runtime/plan.cpp).
#include "options.h"

namespace flambeau {
namespace {

void infer_with(Call& c) {
  const Tensor &self = c.tensor(0), &part = c.tensor(1);
  if (part.storage != self.storage || part.dtype != self.dtype)
    runtime_error(c.name(), ": expected part to show memory of self, of the same dtype");
  c.output(self.shape(), self.dtype, self.device, self.stride());
}

// The part of the result, which begins as a copy of self.
TensorRef begin_with_part(Call& c) {
  const Tensor &self = c.tensor(0), &part = c.tensor(1);
  copy_into(c.out(), self);
  return view_of(c.out(), part.shape(), part.stride(), c.out().data + (part.data - self.data));
}
void cpu_with_part(Call& c) { copy_into(*begin_with_part(c), c.tensor(2)); }
void cpu_with_number(Call& c) { fill(*begin_with_part(c), c.scalar(2)); }

const Primitives rows{{"_with_part", infer_with, cpu_with_part}, {"_with_number", infer_with, cpu_with_number}};

}  // namespace
}  // namespace flambeau
