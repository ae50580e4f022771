// Memory that a kernel needs while it runs. A thread keeps what it had for the next kernel, because fresh memory costs
// a page fault for every 4 KB, often more than the work on it.
#pragma once
#include "../core/size.h"

namespace flambeau {

// 64-byte aligned; `slot` tells apart buffers alive together.
enum ScratchSlot { kScratchA, kScratchB, kScratchC, kScratchD, kScratchE, kScratchParts, kScratchSums, kScratchSlots };
void* scratch_bytes(ScratchSlot slot, size_t nbytes);
void trim_scratch();  // gives back this thread's buffers past 64 MiB

template <class T>
T* scratch(ScratchSlot slot, int64_t n) {
  return static_cast<T*>(scratch_bytes(slot, size_t(size_product("scratch memory", {n, int64_t(sizeof(T))}))));
}

}  // namespace flambeau
