#include "allocator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "../core/sanitize.h"
#include "free_blocks.h"

namespace flambeau::cuda {

const char* const kCounterNames[kCounters] = {"allocation",   "segment",      "active",          "inactive_split",
                                              "allocated_bytes", "reserved_bytes", "active_bytes",
                                              "inactive_split_bytes", "requested_bytes"};

void (*on_memory)(const MemoryChange&) = nullptr;

namespace {

void tell(MemoryEvent e, int device, Address address, size_t size, Stream stream) {
  if (on_memory) on_memory({e, device, address, size, stream});
}

constexpr size_t kLargeBlock = size_t(10) << 20, kLargeSegment = size_t(20) << 20, kRound = size_t(2) << 20;

size_t rounded(size_t n, size_t step) { return (n + step - 1) / step * step; }

size_t segment_size(size_t block) {
  return block <= kSmallBlock ? kSmallSegment : block < kLargeBlock ? kLargeSegment : rounded(block, kRound);
}

}  // namespace

struct Memory;

// What one stream has of one kind of segment, in one of the pools.
struct Pool {
  Memory* memory;
  uint64_t number;  // 0: the ordinary one
  Stream stream;
  bool small;
  FreeBlocks free;
};

namespace {

// A pool that takes the requests of a stream now, or of all streams of a recording.
struct OpenPool {
  uint64_t number;
  Stream stream;
  uint64_t capture;  // 0: of no recording
};

// Blocks that were given back and wait for other streams, with what tells that these are done.
struct Waiting {
  Block* block;
  std::vector<std::pair<Event, Stream>> events;
};

}  // namespace

// The memory of one device.
struct Memory {
  int device = 0;
  Statistics stats;
  double fraction = 1;
  std::map<std::tuple<uint64_t, Stream, bool>, std::unique_ptr<Pool>> pools;
  std::set<Block*> firsts;  // of each segment
  std::deque<Waiting> waiting;
  std::map<uint64_t, int> users;                      // of pools of their own
  std::vector<OpenPool> open;                         // those that take requests now
  Records records;
  Pool* last[2] = {};                                 // the ordinary pools asked last: small, large

  Pool& pool(Stream stream, bool small);
  Pool& find_pool(Stream stream, bool small);
  uint64_t open_pool(Stream stream) const;
  Block* allocate(size_t nbytes);
  Block* cut(Block* b, size_t size, size_t requested);
  Block* new_segment(Pool& pool, size_t size);
  Address ask_driver(size_t size);
  void give_back(Block* b);
  void release(Block* b);
  void join(Block* b, Block* next);
  void look_at_waiting(bool all);
  size_t release_free_segments();
  void release_segment(Block* b);
  void gain(Counter c, const Pool& p, size_t n) {
    stats.count[c][kAll].gain(int64_t(n));
    stats.count[c][p.small ? kSmall : kLarge].gain(int64_t(n));
  }
  void lose(Counter c, const Pool& p, size_t n) {
    stats.count[c][kAll].lose(int64_t(n));
    stats.count[c][p.small ? kSmall : kLarge].lose(int64_t(n));
  }
  bool is_split(const Block* b) const { return b->before || b->after; }
  void gain_split(const Block* b) {
    if (!is_split(b)) return;
    gain(kInactiveSplit, *b->pool, 1);
    gain(kInactiveSplitBytes, *b->pool, b->size);
  }
  void lose_split(const Block* b) {
    if (!is_split(b)) return;
    lose(kInactiveSplit, *b->pool, 1);
    lose(kInactiveSplitBytes, *b->pool, b->size);
  }
};

namespace {

constinit Memory* memories = nullptr;  // of all devices; under the interpreter lock

[[gnu::cold]] void make_memories() {
  memories = new Memory[kMaxCudaDevices];
  for (int k = 0; k < kMaxCudaDevices; ++k) memories[k].device = k;
}
inline Memory& memory_of(int device) {
  if (__builtin_expect(!memories, 0)) make_memories();
  return memories[device];
}

}  // namespace

// The pool opened last that takes this stream's requests; 0: the ordinary one does.
uint64_t Memory::open_pool(Stream stream) const {
  for (size_t k = open.size(); k-- > 0;)
    if (open[k].stream == stream || (open[k].capture && open[k].capture == capture_of(stream))) return open[k].number;
  return 0;
}

inline Pool& Memory::pool(Stream stream, bool small) {
  Pool* recent = last[small];
  return open.empty() && recent && recent->stream == stream ? *recent : find_pool(stream, small);
}

Pool& Memory::find_pool(Stream stream, bool small) {
  const uint64_t number = open_pool(stream);
  auto& place = pools[{number, stream, small}];
  if (!place) {
    place = std::make_unique<Pool>();
    place->memory = this;
    place->number = number;
    place->stream = stream;
    place->small = small;
  }
  if (!number) last[small] = place.get();
  return *place;
}

Block* Memory::allocate(size_t nbytes) {
  if (nbytes > size_t(1) << 60) return nullptr;
  if (!waiting.empty()) look_at_waiting(false);
  const size_t size = std::max(rounded(nbytes, kStep), kStep);
  Pool& p = pool(current_stream(device), size <= kSmallBlock);
  Block* b = p.free.take(size);
  if (b) lose_split(b);
  else b = new_segment(p, segment_size(size));
  return b ? cut(b, size, nbytes) : nullptr;
}

// Takes the first `size` bytes of a free block that is in no list; the rest is free again where it is worth it.
Block* Memory::cut(Block* b, size_t size, size_t requested) {
  Pool& p = *b->pool;
  const size_t rest = b->size - size;
  if (p.small ? rest >= kStep : rest > kSmallBlock) {
    Block* tail;
    try {
      tail = records.take();
    } catch (const std::bad_alloc&) {
      p.free.put(b);
      gain_split(b);
      throw;
    }
    tail->address = b->address + size;
    tail->size = rest;
    tail->pool = &p;
    tail->before = b;
    tail->after = b->after;
    if (b->after) b->after->before = tail;
    b->after = tail;
    b->size = size;
    p.free.put(tail);
    gain_split(tail);
  }
  b->used = true;
  b->requested = requested;
  gain(kAllocation, p, 1);
  gain(kActive, p, 1);
  gain(kAllocatedBytes, p, b->size);
  gain(kActiveBytes, p, b->size);
  gain(kRequestedBytes, p, requested);
  return b;
}

Address Memory::ask_driver(size_t size) {
  if (fraction < 1 &&
      double(stats.count[kReservedBytes][kAll].current) + double(size) > fraction * double(properties(device).memory))
    return 0;
  Address address = 0;
  const Result r = driver().memory_allocate(&address, size);
  if (r == kOutOfMemory) return 0;
  check(r, "cuda allocation");
  return address;
}

// While one lives, the driver takes calls that could not be recorded: asking for memory is no part of what is.
struct BesideCaptures {
  const bool any = any_capture();
  int mode = 2;
  BesideCaptures() { exchange(); }
  ~BesideCaptures() { exchange(); }
  void exchange() { if (any) driver().capture_mode(&mode); }
};

Block* Memory::new_segment(Pool& p, size_t size) {
  use_device(device);
  const BesideCaptures beside;
  Address address = ask_driver(size);
  if (!address) {
    ++stats.retries;
    look_at_waiting(!any_capture());
    if (release_free_segments()) address = ask_driver(size);
  }
  if (!address) {
    ++stats.failures;
    return nullptr;
  }
  Block* b = records.take();
  b->address = address;
  b->size = size;
  b->pool = &p;
  firsts.insert(b);
  ++stats.driver_allocations;
  gain(kSegment, p, 1);
  gain(kReservedBytes, p, size);
  tell(MemoryEvent::SegmentAlloc, device, address, size, p.stream);
  return b;
}

void Memory::give_back(Block* b) {
  lose(kAllocation, *b->pool, 1);
  lose(kAllocatedBytes, *b->pool, b->size);
  if (b->others.empty()) return release(b);
  Waiting w{b, {}};
  b->waits = true;
  ++stats.waits;
  if (!any_capture())  // an event of a stream that is recorded would become part of the graph: wait until it is over
    for (Stream s : b->others) {
      Event e = new_event(device, false);
      record(e, s, device);
      w.events.emplace_back(e, s);
    }
  waiting.push_back(std::move(w));
}

void Memory::release(Block* b) {
  Pool& p = *b->pool;
  tell(MemoryEvent::FreeCompleted, device, b->address, b->size, p.stream);
  lose(kActive, p, 1);
  lose(kActiveBytes, p, b->size);
  lose(kRequestedBytes, p, b->requested);
  b->used = b->waits = false;
  b->others.clear();
  auto is_free = [](const Block* other) { return other && !other->used; };
  if (Block* next = b->after; is_free(next)) {
    p.free.remove(next);
    lose_split(next);
    join(b, next);
  }
  if (Block* before = b->before; is_free(before)) {
    p.free.remove(before);
    lose_split(before);
    join(before, b);
    b = before;
  }
  p.free.put(b);
  gain_split(b);
}

void Memory::join(Block* b, Block* next) {
  b->size += next->size;
  b->after = next->after;
  if (b->after) b->after->before = b;
  records.give(next);
}

// Takes up the blocks whose streams are done, in the order they were given back; `all`: waits for them.
void Memory::look_at_waiting(bool all) {
  if (any_capture()) return;
  for (size_t k = waiting.size(); k > 0; --k) {
    Waiting w = std::move(waiting.front());
    waiting.pop_front();
    if (w.events.empty())
      for (Stream s : w.block->others) {
        Event e = new_event(device, false);
        record(e, s, device);
        w.events.emplace_back(e, s);
      }
    if (all)
      for (auto [event, stream] : w.events) check(driver().event_synchronize(event), "cuda allocation");
    bool over = std::all_of(w.events.begin(), w.events.end(), [](auto& e) { return done(e.first); });
    if (!over) {
      waiting.push_back(std::move(w));
      continue;
    }
    for (auto [event, stream] : w.events) drop_event(device, event, false);
    release(w.block);
  }
}

void Memory::release_segment(Block* b) {
  Pool& p = *b->pool;
  p.free.remove(b);
  lose(kSegment, p, 1);
  lose(kReservedBytes, p, b->size);
  ++stats.driver_frees;
  tell(MemoryEvent::SegmentFree, device, b->address, b->size, p.stream);
  driver().memory_free(b->address);
  firsts.erase(b);
  records.give(b);
}

size_t Memory::release_free_segments() {
  size_t freed = 0;
  for (auto place = firsts.begin(); place != firsts.end();) {
    Block* b = *place++;
    if (b->used || b->after || (b->pool->number && users[b->pool->number] > 0)) continue;
    freed += b->size;
    release_segment(b);
  }
  return freed;
}

Block* allocate(int device, size_t nbytes) {
  assert_locked();
  Block* b = memory_of(device).allocate(nbytes);
  if (!on_memory) return b;
  if (b) {
    tell(MemoryEvent::Alloc, device, b->address, b->size, b->pool->stream);
  } else {
    size_t free = 0, total = 0;
    driver().memory_info(&free, &total);
    tell(MemoryEvent::OutOfMemory, device, free, nbytes, current_stream(device));
  }
  return b;
}

void give_back(Block* block) {
  assert_locked();
  if (in_bad_fork()) return;  // the parent's memory: the child has no part in it
  try {
    tell(MemoryEvent::FreeRequested, device_of(block), block->address, block->size, block->pool->stream);
    block->pool->memory->give_back(block);
  } catch (const std::exception&) {  // the device is gone: nothing is to be had from it any more
  }
}

void use_on(Block* b, Stream stream) {
  if (stream == b->pool->stream || std::ranges::find(b->others, stream) != b->others.end()) return;
  b->others.push_back(stream);
}

int device_of(const Block* block) { return block->pool->memory->device; }
Stream stream_of(const Block* block) { return block->pool->stream; }

void empty_cache() {
  for (int k = 0; k < driver().devices; ++k) {
    if (!initialized(k)) continue;
    use_device(k);
    memory_of(k).look_at_waiting(true);
    memory_of(k).release_free_segments();
  }
}

const Statistics& statistics(int device) { return memory_of(device).stats; }

void reset_peaks(int device) {
  for (auto& kinds : memory_of(device).stats.count)
    for (Count& c : kinds) c.peak = c.current;
}
void reset_accumulated(int device) {
  Statistics& s = memory_of(device).stats;
  for (auto& kinds : s.count)
    for (Count& c : kinds) c.allocated = c.freed = 0;
  s.retries = s.failures = s.waits = s.driver_allocations = s.driver_frees = 0;
}
double memory_fraction(int device) { return memory_of(device).fraction; }
void set_memory_fraction(int device, double fraction) { memory_of(device).fraction = fraction; }

std::vector<SegmentView> segments(int device) {
  std::vector<SegmentView> found;
  for (const Block* first : memory_of(device).firsts) {
    size_t size = 0;
    for (const Block* b = first; b; b = b->after) size += b->size;
    const Pool& p = *first->pool;
    found.push_back({first, size, p.stream, !p.small, p.number});
  }
  std::ranges::sort(found, {}, [](const SegmentView& s) { return s.first->address; });
  return found;
}

uint64_t new_pool() {
  static uint64_t pools = 0;
  return ++pools;
}
void begin_pool(int device, uint64_t pool, Stream stream, uint64_t capture) {
  Memory& m = memory_of(device);
  ++m.users[pool];
  m.open.push_back({pool, stream, capture});
}
void end_pool(int device, uint64_t pool, Stream stream) {
  std::vector<OpenPool>& open = memory_of(device).open;
  for (size_t k = open.size(); k-- > 0;)
    if (open[k].number == pool && open[k].stream == stream) return void(open.erase(open.begin() + ptrdiff_t(k)));
}
int pool_users(int device, uint64_t pool) {
  const auto& users = memory_of(device).users;
  const auto found = users.find(pool);
  return found == users.end() ? 0 : found->second;
}
void drop_pool(int device, uint64_t pool) {
  Memory& m = memory_of(device);
  if (m.users[pool] > 0) --m.users[pool];
}

std::string out_of_memory_text(int device, size_t nbytes) {
  const auto& count = statistics(device).count;
  auto mib = [](int64_t n) { return concat(double(n / 1024 * 10 / 1024) / 10, " MiB"); };
  size_t free = 0, total = 0;
  driver().memory_info(&free, &total);
  std::string share;
  if (memory_fraction(device) < 1) share = concat(" (this process may use ", memory_fraction(device) * 100, " %)");
  return concat("CUDA out of memory on cuda:", device, ": tried to allocate ", mib(int64_t(nbytes)),
                "\n  device          ", mib(int64_t(total)), ", of these free ", mib(int64_t(free)),
                share, "\n  held            ", mib(count[kReservedBytes][kAll].current), " in ",
                count[kSegment][kAll].current, " segments, at most ", mib(count[kReservedBytes][kAll].peak),
                "\n  in tensors      ", mib(count[kAllocatedBytes][kAll].current), " in ",
                count[kAllocation][kAll].current, " blocks, at most ", mib(count[kAllocatedBytes][kAll].peak),
                "\n  between blocks  ", mib(count[kInactiveSplitBytes][kAll].current), " in ",
                count[kInactiveSplit][kAll].current, " free pieces of segments in use",
                "\nfree tensors, use a smaller batch or a smaller dtype; cuda.memory_summary() shows more");
}

}  // namespace flambeau::cuda
