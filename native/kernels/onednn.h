// oneDNN behind three small things: the engine and stream, execution of a cached primitive, and the cache itself.
//
// Creating a primitive costs up to milliseconds (it compiles code), running it microseconds, so every primitive is kept
// under a key that spells out shapes, formats and dtypes; the least recently used go first.
#pragma once
#ifdef FLAMBEAU_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../core/call.h"

namespace flambeau::onednn {

inline dnnl::engine& engine() {
  static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // never destroyed: outlives static destructors
  return *e;
}
inline dnnl::stream& stream() {
  static thread_local dnnl::stream s(engine());
  return s;
}
inline dnnl::memory::data_type data_type(DType t) {
  using D = dnnl::memory::data_type;
  return t == DType::BFloat16 ? D::bf16 : t == DType::Float16 ? D::f16 : D::f32;
}

using Key = std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0x9e3779b97f4a7c15;
    for (int64_t v : key) h = (h ^ uint64_t(v)) * 0xff51afd7ed558ccd, h ^= h >> 29;
    return size_t(h);
  }
};

// make() runs with the cache locked: a primitive is built once even when two threads ask for it together. Each entry
// takes one place of the capacity, or as many as its `cost` says.
template <class Entry>
struct Cache {
  explicit Cache(size_t capacity) : capacity(capacity) {}
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

}  // namespace flambeau::onednn
#endif
