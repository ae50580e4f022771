#include "team.h"

#include "sanitize.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace flambeau {
namespace {

constexpr uint64_t kMost = 0xffff;  // chunks of a loop
constexpr int kAwake = 4096;        // looks before a waiting thread lets others run
using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kLong{500};  // a wait for a thread that does not run
constexpr int kShortest = 8, kLongest = 1024;
std::atomic<int> alone{0};             // loops that are not shared from now on: others need the processor
std::atomic<int> patience{kShortest};  // how many they are after the next long wait

int64_t chunks_of(uint64_t ticket) { return int64_t(ticket >> 16 & kMost); }
int64_t taken_of(uint64_t ticket) { return int64_t(ticket & kMost); }

void rest(int& looks) {
  if (++looks < kAwake) return;
  looks = 0;
  sched_yield();
}
bool stays_alone() {
  const int left = alone.load(std::memory_order_relaxed);
  if (left > 0) alone.store(left - 1, std::memory_order_relaxed);
  return left > 0;
}
// What a wait for the others teaches about the next loops.
void learn(bool long_wait) {
  const int now = patience.load(std::memory_order_relaxed);
  if (long_wait) alone.store(now, std::memory_order_relaxed);
  patience.store(long_wait ? std::min(2 * now, kLongest) : std::max(now - 1, kShortest), std::memory_order_relaxed);
}

}  // namespace

// A ticket that could be moved on belongs to the loop under way: the next one begins when all of its chunks are done.
bool Team::take_chunk() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  const int64_t chunks = chunks_of(ticket), k = taken_of(ticket);
  if (k >= chunks) return false;
  if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) return true;
  piece_(f_, int64_t(__int128(n_) * k / chunks), int64_t(__int128(n_) * (k + 1) / chunks));
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void Team::wait_for_work() {
  for (int looks = 0; !over_.load(std::memory_order_acquire);)
    if (take_chunk()) looks = 0;
    else rest(looks);
}

void Team::share_range(int64_t n, int64_t grain, Piece piece, void* f) {
  const int64_t chunks = std::min<int64_t>({2 * threads_, (n - 1) / std::max<int64_t>(grain, 1) + 1, int64_t(kMost)});
  if (chunks == 1 || stays_alone() || threads_ == 1) return piece(f, 0, n);
  const auto begun = Clock::now();
  n_ = n, piece_ = piece, f_ = f;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t number = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(number << 32 | uint64_t(chunks) << 16, std::memory_order_release);
  while (take_chunk()) {}
  const auto ready = Clock::now();
  for (int looks = 0; done_.load(std::memory_order_acquire) < uint32_t(chunks);) rest(looks);
  const auto waited = Clock::now() - ready;
  learn(waited > kLong && waited > 2 * (ready - begun));
}

namespace {
struct Members {
  Team& team;
  void (*body)(void*, Team&);
  void* context;
  const void* caller;  // the state of the thread that works alone
  std::exception_ptr error;
};
}  // namespace

void run_team(int64_t loops, void (*body)(void*, Team&), void* context) {
  Team team;
  if (in_parallel() || num_threads() == 1 || loops <= alone.load(std::memory_order_relaxed))
    return body(context, team);
  team.threads_ = num_threads();
  Members members{team, body, context, &tls, nullptr};
  happens_before(&team);
  run_on_every_thread([](void* p) {
    Members& m = *static_cast<Members*>(p);
    happens_after(&m.team);
    if (&tls != m.caller) return m.team.wait_for_work();
    try {
      m.body(m.context, m.team);
    } catch (...) {
      m.error = std::current_exception();
    }
    m.team.over_.store(true, std::memory_order_release);
  }, &members);
  if (members.error) std::rethrow_exception(members.error);
}

}  // namespace flambeau
