#include "memory.h"

#include "free_list.h"
#include "sanitize.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace flambeau {
namespace {

struct FreeBlock {
  FreeBlock* next;
};

constexpr size_t kSmallStep = 64, kSmallLimit = 1024;         // classes 1…16: multiples of 64
constexpr int kSplits = 8;                                    // then 8 classes per power of two: at most 1/8 wasted
constexpr int kClasses = 17 + (64 - 10) * kSplits;
constexpr size_t kHugePage = size_t(2) << 20;

FreeBlock* bins[kClasses];
MemoryStats stats;
std::atomic<int64_t> until_failure{0};  // allocations up to one that fails; 0: none does

// Rounds `nbytes` up to its class's capacity.
int size_class(size_t nbytes, size_t* capacity) {
  if (nbytes <= kSmallLimit) {
    size_t k = nbytes == 0 ? 1 : (nbytes + kSmallStep - 1) / kSmallStep;
    *capacity = k * kSmallStep;
    return int(k);
  }
  int log = std::bit_width(nbytes - 1) - 1;  // 2^log < nbytes <= 2^(log+1)
  size_t step = (size_t(1) << log) / kSplits;
  size_t k = (nbytes - (size_t(1) << log) + step - 1) / step;  // 1…8
  *capacity = (size_t(1) << log) + k * step;
  return 16 + (log - 10) * kSplits + int(k);
}

int64_t cache_limit() {
  static const int64_t limit =
      std::min<int64_t>(int64_t(4) << 30, int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4);
  return limit;
}

void* system_allocate(size_t capacity) {
  size_t alignment = capacity >= kHugePage ? kHugePage : 64;
  void* block = nullptr;
  if (posix_memalign(&block, alignment, capacity) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (capacity >= kHugePage) madvise(block, capacity, MADV_HUGEPAGE);  // fewer page faults; only advice
#endif
  return block;
}

}  // namespace

void* allocate_block(size_t nbytes, size_t* capacity) {
  assert_locked();
  if (nbytes > (size_t(1) << 62) || allocation_fails()) return nullptr;
  int k = size_class(nbytes, capacity);
  void* block = bins[k];
  if (block) {
    bins[k] = bins[k]->next;
    stats.cached -= int64_t(*capacity);
  } else {
    block = system_allocate(*capacity);
    if (!block) {
      empty_cache();
      block = system_allocate(*capacity);
      if (!block) return nullptr;
    }
    ++stats.system_allocations;
  }
  ++stats.allocations;
  stats.allocated += int64_t(*capacity);
  stats.peak = std::max(stats.peak, stats.allocated);
  return block;
}

void free_block(void* block, size_t capacity) {
  assert_locked();
  size_t same;
  int k = size_class(capacity, &same);
  stats.allocated -= int64_t(capacity);
  if (stats.cached + int64_t(capacity) > cache_limit()) {
    std::free(block);
    return;
  }
  auto* head = static_cast<FreeBlock*>(block);
  head->next = bins[k];
  bins[k] = head;
  stats.cached += int64_t(capacity);
}

const MemoryStats& memory_stats() { return stats; }
void reset_peak() { stats.peak = stats.allocated; }

void empty_cache() {
  for (FreeBlock*& bin : bins)
    while (bin) std::free(std::exchange(bin, bin->next));
  stats.cached = 0;
  for (FreeListBase* list = FreeListBase::all; list; list = list->next) list->clear();
#ifdef __GLIBC__
  malloc_trim(0);  // small blocks go back to the system too
#endif
}

int64_t fail_allocation(int64_t n) { return until_failure.exchange(n); }

bool allocation_fails() {
  int64_t left = until_failure.load(std::memory_order_relaxed);
  if (__builtin_expect(left == 0, 1)) return false;
  while (left && !until_failure.compare_exchange_weak(left, left - 1)) {}
  return left == 1;
}

}  // namespace flambeau

// Every `new` of this library.
extern "C" {
void* __real__Znwm(size_t);
void* __real__Znam(size_t);
void* __wrap__Znwm(size_t nbytes) {
  if (flambeau::allocation_fails()) throw std::bad_alloc();
  return __real__Znwm(nbytes);
}
void* __wrap__Znam(size_t nbytes) {
  if (flambeau::allocation_fails()) throw std::bad_alloc();
  return __real__Znam(nbytes);
}
}
