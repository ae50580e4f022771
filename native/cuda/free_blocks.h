// Blocks of device memory that are free, by their sizes, and the records of blocks that are no more.
#pragma once
#include <bit>
#include <set>

#include "allocator.h"

namespace flambeau::cuda {

constexpr size_t kStep = 512, kSmallBlock = size_t(1) << 20, kSmallSegment = size_t(2) << 20;

// Free blocks of a pool: one list per size up to 2 MB, with a bit for each that has any and a bit for each 64 bits;
// larger ones ordered.
class FreeBlocks {
 public:
  // The smallest of at least `size` bytes, taken out; null when there is none.
  Block* take(size_t size) {
    if (Block* b = smallest_listed(class_of(size))) {
      remove_listed(b, class_of(b->size));
      return b;
    }
    Block asked;
    asked.size = size;
    auto found = large.lower_bound(&asked);
    if (found == large.end()) return nullptr;
    Block* b = *found;
    large.erase(found);
    return b;
  }
  void put(Block* b) {
    const size_t k = class_of(b->size);
    if (k >= kClasses) return void(large.insert(b));
    b->previous_free = nullptr;
    b->next_free = list[k];
    if (list[k]) list[k]->previous_free = b;
    list[k] = b;
    filled[k / 64] |= uint64_t(1) << k % 64;
    words |= uint64_t(1) << k / 64;
  }
  void remove(Block* b) {
    const size_t k = class_of(b->size);
    if (k >= kClasses) large.erase(b);
    else remove_listed(b, k);
  }

 private:
  static constexpr size_t kClasses = 64 * 64;
  static_assert(kClasses * kStep >= kSmallSegment);
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };
  Block* list[kClasses] = {};
  uint64_t filled[kClasses / 64] = {}, words = 0;
  std::set<Block*, BySize> large;

  static size_t class_of(size_t size) { return size / kStep - 1; }
  // Of class `k` or the next that has any.
  Block* smallest_listed(size_t k) const {
    if (k >= kClasses) return nullptr;
    size_t word = k / 64;
    uint64_t bits = filled[word] >> k % 64 << k % 64;
    if (!bits) {
      const uint64_t later = words & ~uint64_t(1) << word;
      if (!later) return nullptr;
      word = size_t(std::countr_zero(later));
      bits = filled[word];
    }
    return list[word * 64 + size_t(std::countr_zero(bits))];
  }
  void remove_listed(Block* b, size_t k) {
    if (b->next_free) b->next_free->previous_free = b->previous_free;
    if (b->previous_free) b->previous_free->next_free = b->next_free;
    else if (!(list[k] = b->next_free) && !(filled[k / 64] &= ~(uint64_t(1) << k % 64)))
      words &= ~(uint64_t(1) << k / 64);
  }
};

// Records of blocks that are no more, for those that come: linked by next_free.
struct Records {
  Block* spare = nullptr;
  Block* take() {
    Block* b = spare;
    if (!b) return new Block;
    spare = b->next_free;
    b->next_free = nullptr;
    return b;
  }
  void give(Block* b) {
    b->before = b->after = nullptr;
    b->next_free = spare;
    spare = b;
  }
};

}  // namespace flambeau::cuda
