#include "memory.h"

#include "sanitize.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
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
  static const int64_t limit = std::min<int64_t>(int64_t(4) << 30, int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4);
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
  if (nbytes > (size_t(1) << 62)) return nullptr;
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
}

}  // namespace flambeau
