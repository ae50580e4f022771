// The gate before raw data. A tensor may have no values in its memory: the result of a recorded call that has not run
// yet, or a weight kept in an order of its own. Such a tensor has the flag kPending and no memory; whoever wants its
// values passes need_values() (tensor.h), which asks its storage's Pending to make them.
//
// While a storage is pending its `data` is null, and the `data` of a tensor that uses it is the offset alone. Each
// tensor gets its address, and loses the flag, when it passes the gate.
#pragma once
#include <memory>

#include "tensor.h"

namespace flambeau {

struct FLAMBEAU_API Pending {
  virtual ~Pending() = default;
  // Gives the storage its memory (adopt), which ends this object. If it throws, the storage stays pending.
  virtual void make(Storage& s) = 0;
  // What identifies an opaque layout, for operators that read it as it is (PrimitiveRow::accepts).
  virtual const void* layout() const { return nullptr; }
};

// A tensor whose values `pending` will make; null: a mere description, until attach().
FLAMBEAU_API TensorRef pending_tensor(Dims shape, Dims strides, DType dtype, Device device,
                                      std::unique_ptr<Pending> pending);
FLAMBEAU_API void attach(Storage& s, std::unique_ptr<Pending> pending);
FLAMBEAU_API bool is_pending(const Storage& s);
FLAMBEAU_API Pending* pending_of(const Storage& s);  // null: it is real, or a mere description
// `s`, pending, takes the memory of `from`, which is left without any if nobody else uses it, else copied.
FLAMBEAU_API void adopt(Storage& s, Storage& from);
// `s` shows the memory of `owner` (its count is taken) with a version of its own, as x.data does.
void show_memory(Storage& s, Storage* owner);
// The storage whose memory `s` shows: itself, unless it was made by show_memory.
Storage* owner_of(Storage* s);
// A flagged tensor whose storage has become real gets its address.
void settle(const Tensor& t);

}  // namespace flambeau
