// The caching CPU allocator: where tensor memory comes from and when it goes back to the system.
//
// Blocks are rounded up to size classes and kept in one free list per class, each with the storage that had it. Calls
// are made with the interpreter lock held (sanitizer builds check that), so there is nothing to synchronise; kernels
// take scratch memory from malloc.
#pragma once
#include <cstddef>
#include <cstdint>

namespace flambeau {

struct MemoryStats {
  int64_t allocated;    // bytes in live blocks
  int64_t peak;         // the most `allocated` has been
  int64_t cached;       // bytes in free blocks kept for reuse
  int64_t allocations;  // blocks handed out so far
  int64_t system_allocations;  // of these, how many asked the system
};

void* allocate_block(size_t nbytes, size_t* capacity);  // 64-byte aligned; null when the system has no memory left
void free_block(void* block, size_t capacity);
const MemoryStats& memory_stats();
void reset_peak();
void empty_cache();  // gives back free blocks, and the objects kept in free lists (free_list.h)

// For tests of failing memory: the n-th allocation from now on fails, be it a tensor's, scratch memory or any `new` of
// this library (the linker sends those here: CMakeLists.txt). 0: none. Returns what was left of the count before.
int64_t fail_allocation(int64_t n);
bool allocation_fails();

}  // namespace flambeau
