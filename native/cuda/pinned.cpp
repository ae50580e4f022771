#include "pinned.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

namespace flambeau::cuda {
namespace {

struct HostBlock {
  void* address = nullptr;
  size_t capacity = 0;  // a power of two
  struct Use {
    int device;
    Event event;
    Stream stream;
  };
  std::vector<Use> uses;
};

struct HostMemory {
  std::vector<HostBlock*> free[64];  // by the logarithm of the capacity
  std::deque<HostBlock*> waiting;    // given back while a device is at work on them
  HostStatistics stats;
};
HostMemory& memory() {  // under the interpreter lock
  static HostMemory* m = new HostMemory;
  return *m;
}

void keep(HostBlock* b) { memory().free[std::countr_zero(b->capacity)].push_back(b); }

bool over(HostBlock* b) {
  for (; !b->uses.empty(); b->uses.pop_back()) {
    const HostBlock::Use& use = b->uses.back();
    if (!done(use.event)) return false;
    drop_event(use.device, use.event, false);
  }
  return true;
}

void look_at_waiting() {
  if (any_capture()) return;
  std::deque<HostBlock*>& waiting = memory().waiting;
  for (size_t k = waiting.size(); k > 0; --k) {
    HostBlock* b = waiting.front();
    waiting.pop_front();
    if (over(b)) keep(b);
    else waiting.push_back(b);
  }
}

void free_pinned(Storage* s) {
  if (in_bad_fork()) return;
  auto* b = static_cast<HostBlock*>(s->context);
  HostStatistics& stats = memory().stats;
  --stats.used_blocks;
  stats.used_bytes -= int64_t(b->capacity);
  if (b->uses.empty()) keep(b);
  else memory().waiting.push_back(b);
}

HostBlock* from_driver(size_t capacity) {
  constexpr unsigned kPortable = 1;  // pinned for all devices
  use_device(tls.cuda_device);
  void* address = nullptr;
  Result r = driver().host_allocate(&address, capacity, kPortable);
  if (r == kOutOfMemory) {
    empty_host_cache();
    r = driver().host_allocate(&address, capacity, kPortable);
  }
  if (r == kOutOfMemory)
    fail(ErrorKind::OutOfMemory, "pin_memory: the system has no ", capacity, " bytes left that can be page-locked");
  check(r, "pin_memory");
  auto* b = new HostBlock;
  b->address = address;
  b->capacity = capacity;
  HostStatistics& stats = memory().stats;
  ++stats.driver_allocations;
  stats.peak_blocks = std::max(stats.peak_blocks, ++stats.blocks);
  stats.peak_bytes = std::max(stats.peak_bytes, stats.bytes += int64_t(capacity));
  return b;
}

}  // namespace

Storage* new_pinned(size_t nbytes) {
  if (nbytes > size_t(1) << 48) fail(ErrorKind::OutOfMemory, "pin_memory: ", nbytes, " bytes are more than there are");
  look_at_waiting();
  const size_t capacity = std::bit_ceil(std::max<size_t>(nbytes, 512));
  std::vector<HostBlock*>& list = memory().free[std::countr_zero(capacity)];
  HostBlock* b;
  if (list.empty()) {
    b = from_driver(capacity);
  } else {
    b = list.back();
    list.pop_back();
  }
  HostStatistics& stats = memory().stats;
  ++stats.requests;
  stats.peak_used_blocks = std::max(stats.peak_used_blocks, ++stats.used_blocks);
  stats.peak_used_bytes = std::max(stats.peak_used_bytes, stats.used_bytes += int64_t(capacity));
  Storage* s = blank_storage();
  s->data = b->address;
  s->nbytes = nbytes;
  s->context = b;
  s->free = free_pinned;
  return s;
}

bool is_pinned(const Storage& s) { return s.free == free_pinned; }

void pinned_used(Storage& s, int device, Stream stream) {
  if (!is_pinned(s) || capturing(stream)) return;
  auto* b = static_cast<HostBlock*>(s.context);
  auto found = std::ranges::find_if(b->uses, [&](auto& u) { return u.device == device && u.stream == stream; });
  if (found == b->uses.end()) found = b->uses.insert(found, {device, new_event(device, false), stream});
  record(found->event, stream, device);
}

void empty_host_cache() {
  look_at_waiting();
  HostMemory& m = memory();
  for (auto& list : m.free) {
    for (HostBlock* b : list) {
      driver().host_free(b->address);
      ++m.stats.driver_frees;
      --m.stats.blocks;
      m.stats.bytes -= int64_t(b->capacity);
      delete b;
    }
    list.clear();
  }
}

HostStatistics& host_statistics() { return memory().stats; }

}  // namespace flambeau::cuda
