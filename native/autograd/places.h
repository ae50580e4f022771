// Where a pass keeps the gradient of each object: a hash table from nodes and leaves to positions in the pass's lists.
//
// Only what still waits for its turn is in it, so it is as small as the front of the pass. Nothing of a pass is kept in
// nodes or tensors: two threads may run passes over one graph.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "../core/tensor.h"

namespace flambeau {

class Places {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find(const Object* key) const {
    if (entries_.empty()) return kNone;
    for (size_t k = home(key);; k = (k + 1) & mask_) {
      if (entries_[k].key == key) return entries_[k].place;
      if (!entries_[k].key) return kNone;
    }
  }
  void insert(const Object* key, uint32_t place) {  // not in it yet
    if (2 * (count_ + 1) > entries_.size()) grow();
    size_t k = home(key);
    while (entries_[k].key) k = (k + 1) & mask_;
    entries_[k] = {key, place};
    ++count_;
  }
  void erase(const Object* key) {  // in it
    size_t k = home(key);
    while (entries_[k].key != key) k = (k + 1) & mask_;
    // entries behind it move up where the hole would cut them off from their home
    for (size_t j = (k + 1) & mask_; entries_[j].key; j = (j + 1) & mask_)
      if (((j - home(entries_[j].key)) & mask_) >= ((j - k) & mask_)) {
        entries_[k] = entries_[j];
        k = j;
      }
    entries_[k].key = nullptr;
    --count_;
  }
  void clear() {  // keeps the memory
    if (count_) std::fill(entries_.begin(), entries_.end(), Entry{});
    count_ = 0;
  }
  size_t capacity() const { return entries_.size(); }

 private:
  struct Entry {
    const Object* key = nullptr;
    uint32_t place = 0;
  };
  size_t home(const Object* key) const { return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15u) >> shift_; }
  void grow() {
    std::vector<Entry> old = std::move(entries_);
    entries_.assign(old.empty() ? 16 : 2 * old.size(), Entry{});
    mask_ = entries_.size() - 1;
    shift_ = 64 - std::countr_zero(entries_.size());
    count_ = 0;
    for (const Entry& e : old)
      if (e.key) insert(e.key, e.place);
  }

  std::vector<Entry> entries_;  // a power of two, at most half of it used
  size_t mask_ = 0, count_ = 0;
  int shift_ = 64;
};

}  // namespace flambeau
