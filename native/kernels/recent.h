// What costs more to make than to keep, under keys of numbers; the least recently used go first.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace flambeau {

using Key = std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0x9e3779b97f4a7c15;
    for (int64_t v : key) h = (h ^ uint64_t(v)) * 0xff51afd7ed558ccd, h ^= h >> 29;
    return size_t(h);
  }
};

// make() runs with the cache locked: an entry is built once even when two threads ask for it together. Each entry
// takes one place of the capacity, or as many as its `cost` says.
template <class Entry>
struct Recent {
  explicit Recent(size_t capacity) : capacity(capacity) {}
  static size_t cost_of(const Entry& e) {
    if constexpr (requires { e.cost; }) return e.cost;
    else return 1;
  }
  void clear() {
    std::lock_guard guard(mutex);
    order.clear();
    map.clear();
    used = 0;
  }
  template <class Make>
  std::shared_ptr<Entry> get(const Key& key, Make&& make) {
    std::lock_guard guard(mutex);
    if (auto found = map.find(key); found != map.end()) {
      order.splice(order.begin(), order, found->second.second);
      return found->second.first;
    }
    std::shared_ptr<Entry> entry = make();
    order.push_front(key);
    map[key] = {entry, order.begin()};
    used += cost_of(*entry);
    while (used > capacity && map.size() > 1) {
      auto oldest = map.find(order.back());
      used -= cost_of(*oldest->second.first);
      map.erase(oldest);
      order.pop_back();
    }
    return entry;
  }
  size_t capacity, used = 0;
  std::mutex mutex;
  std::list<Key> order;
  std::unordered_map<Key, std::pair<std::shared_ptr<Entry>, std::list<Key>::iterator>, KeyHash> map;
};

}  // namespace flambeau
