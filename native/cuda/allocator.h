// Memory of CUDA devices, kept for reuse: a request takes a free block of the same stream, and what is free beside each
// other is joined again.
//
// Blocks are cut from segments that the driver gave: 2 MB for blocks up to 1 MB, 20 MB for those below 10 MB, a whole
// number of 2 MB for larger ones. A block belongs to the stream it was asked on: there, work that still reads it is
// launched before whatever its next owner does. Other streams that use it say so (use_on), and it waits for them. While
// a graph is recorded, requests of its stream go to a pool of the graph's own, which lasts as long as the graph.
#pragma once
#include <array>
#include <vector>

#include "stream.h"

namespace flambeau::cuda {

struct Pool;

struct Block {
  Address address = 0;
  size_t size = 0, requested = 0;
  Block *before = nullptr, *after = nullptr;             // neighbours of one segment
  Block *next_free = nullptr, *previous_free = nullptr;  // of one size class
  Pool* pool = nullptr;
  bool used = false, waits = false;  // waits: given back, and other streams are still at work on it
  std::vector<Stream> others;        // the streams that use it besides its own
};

// PyTorch's names of what is counted, each for all blocks and those of large and small segments.
enum Counter { kAllocation, kSegment, kActive, kInactiveSplit, kAllocatedBytes, kReservedBytes, kActiveBytes,
               kInactiveSplitBytes, kRequestedBytes, kCounters };
enum Kind { kAll, kLarge, kSmall, kKinds };
extern const char* const kCounterNames[kCounters];
struct Count {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void gain(int64_t n) {
    current += n;
    allocated += n;
    if (current > peak) peak = current;
  }
  void lose(int64_t n) {
    current -= n;
    freed += n;
  }
};
struct Statistics {
  Count count[kCounters][kKinds];
  int64_t retries = 0, failures = 0, waits = 0, driver_allocations = 0, driver_frees = 0;
};

Block* allocate(int device, size_t nbytes);  // on the current stream; null: out of memory
void give_back(Block* block);                // never throws
void use_on(Block* block, Stream stream);
int device_of(const Block* block);
Stream stream_of(const Block* block);

// Gives segments that are wholly free back to the driver.
void empty_cache();
const Statistics& statistics(int device);
void reset_peaks(int device);
void reset_accumulated(int device);
double memory_fraction(int device);
void set_memory_fraction(int device, double fraction);
std::string out_of_memory_text(int device, size_t nbytes);

// What happens to memory, told to whoever listens. Only with Alloc, OutOfMemory and FreeRequested the allocator is at
// rest, so that Python's memory may be asked for; all others come while it works.
enum class MemoryEvent { Alloc, FreeRequested, FreeCompleted, SegmentAlloc, SegmentFree, OutOfMemory };
struct MemoryChange {
  MemoryEvent event;
  int device;
  Address address;  // of OutOfMemory how much the device has free
  size_t size;
  Stream stream;
};
extern void (*on_memory)(const MemoryChange&);  // null: nobody listens

struct SegmentView {
  const Block* first;
  size_t size;
  Stream stream;
  bool large;
  uint64_t pool;
};
std::vector<SegmentView> segments(int device);

// A pool of its own, of what is asked for on `stream` between begin and end, and on all streams of a recording, whose
// number `capture` is; the same number of a pool again continues it.
uint64_t new_pool();
void begin_pool(int device, uint64_t pool, Stream stream, uint64_t capture = 0);
void end_pool(int device, uint64_t pool, Stream stream);
int pool_users(int device, uint64_t pool);     // graphs and contexts that use it now
void drop_pool(int device, uint64_t pool);  // one user less; without users, what is free there can go back

}  // namespace flambeau::cuda
