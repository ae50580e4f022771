#include "memory.h"

#include "device_table.h"
#include "free_list.h"
#include "tensor.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace flambeau {
namespace {

// What an unused block says: the next one of its class, and the storage that had it last, which waits with it.
struct FreeBlock {
  FreeBlock* next;
  Storage* storage;
};
FreeList<Storage, offsetof(Storage, context)> free_storages{"storages", [](void* s) { ::operator delete(s); }};

constexpr size_t kSmallStep = 64, kSmallLimit = 1024;         // classes 1…16: multiples of 64
constexpr int kSplits = 8;                                    // then 8 classes per power of two: at most 1/8 wasted
constexpr int kClasses = 17 + (64 - 10) * kSplits;
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kSearched = size_t(64) << 10;

FreeBlock* bins[kClasses];
MemoryStats stats;
std::atomic<int64_t> until_failure{0};  // allocations up to one that fails; 0: none does

// A class beyond the small ones: 1…8 eighths of 2^log more than 2^log.
struct LargeClass {
  int log, eighths;
  size_t capacity() const { return (size_t(1) << log) + size_t(eighths) * ((size_t(1) << log) / kSplits); }
  int number() const { return 16 + (log - 10) * kSplits + eighths; }
  static LargeClass numbered(int k) { return {10 + (k - 17) / kSplits, (k - 17) % kSplits + 1}; }
};

// Rounds `nbytes` up to its class's capacity.
int size_class(size_t nbytes, size_t* capacity) {
  if (nbytes <= kSmallLimit) {
    size_t k = nbytes == 0 ? 1 : (nbytes + kSmallStep - 1) / kSmallStep;
    *capacity = k * kSmallStep;
    return int(k);
  }
  int log = std::bit_width(nbytes - 1) - 1;  // 2^log < nbytes <= 2^(log+1)
  size_t step = (size_t(1) << log) / kSplits;
  const LargeClass found{log, int((nbytes - (size_t(1) << log) + step - 1) / step)};
  *capacity = found.capacity();
  return found.number();
}

// Class `k` has no block: the next larger class that has one, of up to half as much again. What waits there (weights
// of another dtype, say) would otherwise stay beside fresh memory. Small blocks are not worth the search.
constexpr int kWider = kSplits / 2;
int class_with_a_block(int k, size_t capacity) {
  if (capacity < kSearched) return k;
  for (int wider = k + 1; wider <= std::min(k + kWider, kClasses - 1); ++wider)
    if (bins[wider]) return wider;
  return k;
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

namespace {

// A block of a class. The storage that waits with it is the caller's; null: there is none.
[[gnu::always_inline]] inline FreeBlock* take_block(size_t nbytes, size_t* capacity, Storage** storage) {
  assert_locked();
  if (nbytes > (size_t(1) << 62) || allocation_fails()) return nullptr;
  int k = size_class(nbytes, capacity);
  FreeBlock* block = bins[k];
  *storage = nullptr;
  if (__builtin_expect(!block, 0))
    if (int wider = class_with_a_block(k, *capacity); wider != k) {
      k = wider;
      *capacity = LargeClass::numbered(k).capacity();  // no small one, see class_with_a_block
      block = bins[k];
    }
  if (block) {
    bins[k] = block->next;
    if ((*storage = block->storage)) --free_storages.count;
    stats.cached -= int64_t(*capacity);
  } else {
    block = static_cast<FreeBlock*>(system_allocate(*capacity));
    if (!block) {
      empty_cache();
      block = static_cast<FreeBlock*>(system_allocate(*capacity));
      if (!block) return nullptr;
    }
    ++stats.system_allocations;
  }
  ++stats.allocations;
  stats.allocated += int64_t(*capacity);
  stats.peak = std::max(stats.peak, stats.allocated);
  return block;
}

// Keeps a block, and with it `storage`, which had it (null: none).
[[gnu::always_inline]] inline void give_block(void* block, size_t capacity, Storage* storage) {
  assert_locked();
  size_t same;
  int k = size_class(capacity, &same);
  stats.allocated -= int64_t(capacity);
  if (__builtin_expect(stats.cached + int64_t(capacity) > cache_limit(), 0)) {
    std::free(block);
    if (storage) free_storages.give(storage);
    return;
  }
  if (storage && ++free_storages.count > decltype(free_storages)::kMost) {  // they count as kept
    --free_storages.count;
    ::operator delete(std::exchange(storage, nullptr));
  }
  auto* head = static_cast<FreeBlock*>(block);
  head->next = bins[k];
  head->storage = storage;
  bins[k] = head;
  stats.cached += int64_t(capacity);
}

}  // namespace

void* allocate_block(size_t nbytes, size_t* capacity) {
  Storage* storage;
  void* block = take_block(nbytes, capacity, &storage);
  if (block && storage) free_storages.give(storage);
  return block;
}

void free_block(void* block, size_t capacity) { give_block(block, capacity, nullptr); }

const MemoryStats& memory_stats() { return stats; }
void reset_peak() { stats.peak = stats.allocated; }

void empty_cache() {
  for (FreeBlock*& bin : bins)
    while (FreeBlock* block = bin) {
      bin = block->next;
      if (block->storage) {
        --free_storages.count;
        ::operator delete(block->storage);
      }
      std::free(block);
    }
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

// --- storage --------------------------------------------------------------------------------------------------------

namespace {

void free_cached(Storage* s) {
  if (s->data) free_block(s->data, reinterpret_cast<size_t>(s->context));
}

std::string bytes_text(int64_t n) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double v = double(n);
  int k = 0;
  for (; v >= 1024 && k < 6; ++k) v /= 1024;
  return concat(k ? std::round(v * 10) / 10 : v, " ", units[k]);
}

[[noreturn]] void out_of_memory(size_t nbytes, Device device = {}) {
  const MemoryStats& m = memory_stats();
  if (device.type != DeviceType::CPU)
    fail(ErrorKind::OutOfMemory, "out of memory on ", device_name(device), ": tried to allocate ",
         bytes_text(int64_t(nbytes)));
  fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", bytes_text(int64_t(nbytes)), " (live ",
       bytes_text(m.allocated), ", cached ", bytes_text(m.cached), ", peak ", bytes_text(m.peak),
       "); free tensors, use a smaller batch or a smaller dtype");
}

void free_by_table(Storage* s) {
  if (s->data) table_of(s->device).free(s->data, reinterpret_cast<size_t>(s->context));
}

}  // namespace

Storage* blank_storage() {
  assert_locked();
  Storage* s = free_storages.take();
  if (!s) s = static_cast<Storage*>(::operator new(sizeof(Storage)));
  *s = Storage{1, 0, 0, nullptr, 0, {}, true, false, false, nullptr, nullptr};
  return s;
}

bool owns_memory(const Storage& s) { return s.free == free_by_table; }

static Storage* storage_by_table(size_t nbytes, Device device) {
  if (!has_device(device)) runtime_error("this build has no ", device_name(device), " device; use device=\"cpu\"");
  const DeviceTable& table = table_of(device);
  size_t capacity = 0;
  void* data = nullptr;
  if (table.allocate) {
    data = table.allocate(nbytes, device, &capacity);
    if (!data) out_of_memory(nbytes, device);
  }
  Storage* s = blank_storage();
  s->device = device;
  s->nbytes = nbytes;
  if (!data) return s;
  s->data = data;
  s->context = reinterpret_cast<void*>(capacity);
  s->free = free_by_table;
  return s;
}

Storage* new_storage(size_t nbytes, Device device) {
  if (__builtin_expect(device.type != DeviceType::CPU, 0)) return storage_by_table(nbytes, device);
  size_t capacity;
  Storage* s;
  FreeBlock* block = take_block(nbytes, &capacity, &s);
  if (!block) out_of_memory(nbytes);
  if (__builtin_expect(s != nullptr, 1)) {  // what else it says is as it was
    s->refcount = 1;
    s->version = s->followed = 0;
    s->nbytes = nbytes;
    s->device = device;
    s->resizable = true;
    s->readonly = s->unversioned = false;
    return s;
  }
  try {
    s = blank_storage();
  } catch (...) {
    free_block(block, capacity);
    throw;
  }
  s->data = block;
  s->device = device;
  s->nbytes = nbytes;
  s->context = reinterpret_cast<void*>(capacity);
  s->free = free_cached;
  return s;
}

void resize_storage(Storage* s, size_t nbytes) {
  if (nbytes <= s->nbytes) return;
  if (!s->resizable) runtime_error("this storage keeps its size: its memory belongs to another library");
  Storage* larger = new_storage(nbytes, s->device);
  copy_bytes(*larger, *s, s->nbytes);
  if (s->free) s->free(s);
  s->data = std::exchange(larger->data, nullptr);
  s->free = std::exchange(larger->free, nullptr);
  s->context = larger->context;
  s->nbytes = nbytes;
  release(larger);
}

bool resize_in_place(Storage* s, size_t nbytes) {
  if (s->free != free_cached || !s->resizable || nbytes > reinterpret_cast<size_t>(s->context)) return false;
  if (nbytes < s->nbytes) {
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)), data = reinterpret_cast<uintptr_t>(s->data);
    const uintptr_t first = data + nbytes, last = data + s->nbytes;  // given up: whole pages, and what lies around them
    const uintptr_t begin = std::min((first + page - 1) / page * page, last), end = std::max(last / page * page, begin);
    std::memset(reinterpret_cast<void*>(first), 0, begin - first);
    if (begin < end && madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0)
      std::memset(reinterpret_cast<void*>(begin), 0, end - begin);
    std::memset(reinterpret_cast<void*>(end), 0, last - end);
  }
  s->nbytes = nbytes;
  return true;
}

void free_storage(Storage* s) {
  if (__builtin_expect(s->free == free_cached && s->data, 1))
    return give_block(s->data, reinterpret_cast<size_t>(s->context), s);
  if (s->free) s->free(s);
  free_storages.give(s);
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
