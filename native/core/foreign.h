// Tensors over memory that another library owns.
#pragma once
#include "tensor.h"

namespace flambeau {

// A tensor without dimensions yet, its first element at `data`, over `nbytes` from `low` on. Who gives the memory back
// is for the caller to say, last: from then on the tensor owns it.
inline TensorRef over_foreign(char* low, size_t nbytes, bool readonly, DType dtype, char* data) {
  Storage* s = blank_storage();
  s->data = low;
  s->nbytes = nbytes;
  s->resizable = false;
  s->readonly = readonly;
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->storage = s;
  t->device = s->device;
  t->dtype = dtype;
  t->data = data;
  return t;
}

}  // namespace flambeau
