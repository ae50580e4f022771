// Laying out the shared memory, sleeping and waking, and telling who is gone.
#include "segment.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace flambeau::distributed {
namespace {

constexpr uint64_t kMagic = 0x666c616d62656175;
constexpr long kNap = 20'000'000;  // nanoseconds between two looks at who is gone
constexpr int kSpins = 3000;

size_t chunk_of(int size) { return std::clamp<size_t>((size_t(64) << 20) / size_t(size), 1 << 16, 1 << 19); }
size_t ring_of(int size) { return std::clamp<size_t>((size_t(64) << 20) / size_t(size * size), 1 << 14, 1 << 18); }
size_t padded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

struct Places {
  size_t lanes, rings, slots, ring_data, end;
  explicit Places(int size) {
    lanes = padded(sizeof(Header));
    rings = padded(lanes + size_t(size) * sizeof(Lane));
    slots = padded(rings + size_t(size * size) * sizeof(Ring));
    ring_data = padded(slots + size_t(size) * kSlots * chunk_of(size));
    end = padded(ring_data + size_t(size * size) * ring_of(size));
  }
};

// That this process may run on.
size_t processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : size_t(CPU_COUNT(&allowed));
}

long futex(std::atomic<uint32_t>& word, int what, uint32_t value, const timespec* time) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), what, value, time, nullptr, 0);
}

}  // namespace

void yield() { sched_yield(); }

size_t Segment::bytes(int size) { return Places(size).end; }

Segment::Segment(int fd, int rank, int size, bool fresh) : bytes_(bytes(size)), rank_(rank), size_(size) {
  void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) runtime_error("process group: no address space for ", bytes_, " bytes of shared memory");
  base_ = static_cast<char*>(base);
  Places at(size);
  header_ = reinterpret_cast<Header*>(base_);
  lanes_ = reinterpret_cast<Lane*>(base_ + at.lanes);
  rings_ = reinterpret_cast<Ring*>(base_ + at.rings);
  slots_ = base_ + at.slots;
  ring_data_ = base_ + at.ring_data;
  if (fresh) {
    header_->magic = kMagic, header_->size = uint64_t(size), header_->chunk = chunk_of(size);
    header_->ring = ring_of(size);
  } else if (header_->magic != kMagic || header_->size != uint64_t(size) || header_->chunk != chunk_of(size)) {
    munmap(base_, bytes_);
    runtime_error("process group: the shared memory is not that of a group of ", size, " processes of this version");
  }
  watched_.assign(size_t(size), -1);
  spins_ = size_t(size) <= processors() ? kSpins : kSpins / 30;
}

Segment::~Segment() {
  for (int fd : watched_)
    if (fd >= 0) close(fd);
  munmap(base_, bytes_);
}

void Segment::attach(int pid) {
  own().pid = pid;
  own().state.store(uint32_t(State::Attached));
  ring_others();
}

void Segment::leave() {
  own().state.store(uint32_t(State::Left));
  ring_others();
}

void Segment::watch(int r, int pidfd) {
  if (watched_[size_t(r)] >= 0) close(watched_[size_t(r)]);
  watched_[size_t(r)] = pidfd;
}

bool Segment::gone(int r) const {
  if (r == rank_) return false;
  if (lane(r).state.load() == uint32_t(State::Left)) return true;
  if (watched_[size_t(r)] == kEnded) return true;
  pollfd one{watched_[size_t(r)], POLLIN, 0};
  return one.fd >= 0 && poll(&one, 1, 0) > 0;
}

std::string Segment::how_gone(int r) const {
  const bool left = lane(r).state.load() == uint32_t(State::Left);
  return concat("rank ", r, " (process ", lane(r).pid, left ? ") has left the group" : ") has ended");
}

std::string Segment::stopped() const {
  std::string text;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || !attached(r) || gone(r)) continue;
    std::ifstream file(concat("/proc/", lane(r).pid, "/stat"));
    std::string line;
    std::getline(file, line);
    const size_t name = line.rfind(") ");  // the program's name before it may have any characters
    const char state = name == std::string::npos || line.size() < name + 3 ? '?' : line[name + 2];
    if (state != 'T' && state != 't') continue;
    text += concat("; rank ", r, " (process ", lane(r).pid, ") has been stopped by a signal or a debugger");
  }
  return text;
}

void Segment::sleep(uint32_t bell) const {
  timespec nap{0, kNap};
  futex(own().bell, FUTEX_WAIT, bell, &nap);
}

void Segment::ring(int r) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Lane& other = lane(r);
  if (other.sleeping.load(std::memory_order_relaxed) == 0) return;
  other.bell.fetch_add(1);
  futex(other.bell, FUTEX_WAKE, INT32_MAX, nullptr);
}

void Segment::ring_others() {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) ring(r);
}

void Segment::break_up(const std::string& text) {
  uint32_t none = 0;
  if (header_->broken.compare_exchange_strong(none, 1)) {
    std::strncpy(header_->text, text.c_str(), kTrouble - 1);
    header_->broken.store(2);
    ring_others();
  }
  check_broken();
  throw Broken{text};
}

void Segment::check_broken() const {
  if (header_->broken.load() == 0) return;
  for (int k = 0; k < 1000 && header_->broken.load() != 2; ++k) yield();
  if (header_->broken.load() != 2) throw Broken{"the group is unusable: a rank failed in it"};
  throw Broken{std::string(header_->text, strnlen(header_->text, kTrouble))};
}

}  // namespace flambeau::distributed
