// The memory that the processes of a group share: what lies where, how they wait for each other, what ends the waiting.
//
// Each rank has a lane of counters that only it writes, a ring of kSlots chunks that all others may read, and a ring of
// bytes to every other rank for messages. Collectives advance in rounds: round t uses slot t % kSlots of each rank, and
// nobody begins it before everybody is done with round t - kSlots.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace flambeau {
void relax();  // core/machine.cpp: a moment in a loop that waits for another processor
}

namespace flambeau::distributed {

inline constexpr int kSlots = 4;
inline constexpr int kCalls = 4 * kSlots;  // a rank is at most kSlots calls ahead of another
inline constexpr int kEnded = -2;
inline constexpr size_t kText = 184, kTrouble = 2048, kLine = 64;

// What a rank says about one of its collective calls, so that others can tell whether theirs is the same.
struct Call {
  uint64_t key;
  char text[kText];
};

enum class State : uint32_t { Absent, Attached, Left };

struct alignas(128) Lane {
  std::atomic<uint64_t> started;            // collective calls begun
  std::atomic<uint64_t> in, reduced, done;  // rounds: chunk written, share reduced, not needed any more
  alignas(64) std::atomic<uint32_t> bell;   // rung where somebody here sleeps
  std::atomic<uint32_t> sleeping;           // threads of this rank that sleep
  std::atomic<uint32_t> state;
  int32_t pid;
  Call calls[kCalls];
};

struct Header {
  uint64_t magic, size, chunk, ring;
  std::atomic<uint32_t> broken;  // 0: no; 1: its text is being written; 2: it is there
  char text[kTrouble];
};

// One direction between two ranks: bytes written and read so far.
struct alignas(128) Ring {
  std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
};

using Clock = std::chrono::steady_clock;

// What ends a wait without what was waited for; the text is for the user.
struct Broken {
  std::string text;
};
struct Interrupted {};

class Segment {
 public:
  // `fd`: the memory; `fresh`: this rank is the first there and lays it out.
  Segment(int fd, int rank, int size, bool fresh);
  ~Segment();
  Segment(const Segment&) = delete;

  static size_t bytes(int size);  // that a group needs

  int rank() const { return rank_; }
  int size() const { return size_; }
  size_t chunk() const { return header_->chunk; }
  size_t ring_bytes() const { return header_->ring; }
  Lane& lane(int r) const { return lanes_[r]; }
  Lane& own() const { return lanes_[rank_]; }
  char* slot(int r, uint64_t round) const {
    return slots_ + (size_t(r) * kSlots + round % kSlots) * header_->chunk;
  }
  Ring& ring(int from, int to) const { return rings_[from * size_ + to]; }
  char* ring_data(int from, int to) const { return ring_data_ + size_t(from * size_ + to) * header_->ring; }

  void attach(int pid);
  bool attached(int r) const { return lane(r).state.load() != uint32_t(State::Absent); }
  void watch(int r, int pidfd);  // owns it from now on; kEnded: the process is gone already
  void leave();
  // Whether a rank's process has ended, or has left the group.
  bool gone(int r) const;
  std::string how_gone(int r) const;
  std::string stopped() const;  // the ranks whose processes are alive and halted, for the text of a timeout

  void ring_others();  // after a change that others may wait for
  void ring(int r);
  // Marks the group as unusable for all; throws what it is marked with, which is the first such text.
  [[noreturn]] void break_up(const std::string& text);
  void check_broken() const;

  // Waits until `ready()`; every now and then `look()`, which may throw, and `interrupted` are asked.
  template <class Ready, class Look>
  void wait(const Ready& ready, const Look& look, const std::function<bool()>& interrupted);

 private:
  void sleep(uint32_t bell) const;

  char* base_;
  size_t bytes_;
  int rank_, size_, spins_;
  Header* header_;
  Lane* lanes_;
  Ring* rings_;
  char *slots_, *ring_data_;
  std::vector<int> watched_;
};

void yield();

template <class Ready, class Look>
void Segment::wait(const Ready& ready, const Look& look, const std::function<bool()>& interrupted) {
  for (int k = 0; k < spins_; ++k) {
    if (ready()) return;
    relax();
  }
  Lane& me = own();
  for (;;) {
    uint32_t bell = me.bell.load();
    me.sleeping.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool now = ready();
    if (!now && header_->broken.load() == 0) sleep(bell);
    me.sleeping.fetch_sub(1);
    if (now || ready()) return;
    check_broken();
    look();
    if (ready()) return;  // what it found may have come after what it did not find
    if (interrupted && interrupted()) throw Interrupted();
  }
}

}  // namespace flambeau::distributed
