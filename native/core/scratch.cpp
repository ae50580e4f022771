#include "scratch.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "memory.h"

namespace flambeau {
namespace {

constexpr size_t kHeader = 64, kKept = size_t(128) << 10, kLargest = size_t(64) << 20;

struct alignas(kHeader) Block {
  size_t capacity;
};
std::atomic<Block*> kept_scratch[8];  // no lock: a process that is forked meanwhile would inherit it locked

Block* fitting(size_t capacity) {
  for (auto& place : kept_scratch) {
    Block* block = place.load(std::memory_order_relaxed);
    if (!block || !(block = place.exchange(nullptr, std::memory_order_acquire))) continue;
    if (block->capacity >= capacity && block->capacity / 4 <= capacity) return block;
    Block* empty = nullptr;
    if (!place.compare_exchange_strong(empty, block, std::memory_order_release)) std::free(block);
  }
  return nullptr;
}

}  // namespace

void* take_scratch(size_t nbytes) {
  if (allocation_fails() || nbytes > SIZE_MAX / 2) throw std::bad_alloc();
  const size_t capacity = (nbytes + 63) / 64 * 64;
  Block* block = capacity >= kKept ? fitting(capacity) : nullptr;
  if (!block) {
    block = static_cast<Block*>(std::aligned_alloc(64, kHeader + capacity));
    if (!block) throw std::bad_alloc();
    block->capacity = capacity;
  }
  return block + 1;
}

void give_scratch(void* memory) {
  Block* block = static_cast<Block*>(memory) - 1;
  if (block->capacity >= kKept && block->capacity <= kLargest)
    for (auto& place : kept_scratch) {
      Block* empty = nullptr;
      if (place.compare_exchange_strong(empty, block, std::memory_order_release)) return;
    }
  std::free(block);
}

void empty_scratch() {
  for (auto& place : kept_scratch) std::free(place.exchange(nullptr, std::memory_order_acquire));
}

}  // namespace flambeau
