#include "team.h"

#include "sanitize.h"

#include <sched.h>

#include <algorithm>
#include <exception>

namespace flambeau {
namespace {

constexpr uint64_t kMost = 0xffff;  // chunks of a loop
constexpr int kAwake = 4096;        // looks before a waiting thread lets others run

int64_t chunks_of(uint64_t ticket) { return int64_t(ticket >> 16 & kMost); }
int64_t taken_of(uint64_t ticket) { return int64_t(ticket & kMost); }

void rest(int& looks) {
  if (++looks < kAwake) return;
  looks = 0;
  sched_yield();
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
  if (threads_ == 1 || chunks == 1) return piece(f, 0, n);
  n_ = n, piece_ = piece, f_ = f;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t number = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(number << 32 | uint64_t(chunks) << 16, std::memory_order_release);
  while (take_chunk()) {}
  for (int looks = 0; done_.load(std::memory_order_acquire) < uint32_t(chunks);) rest(looks);
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

void run_team(void (*body)(void*, Team&), void* context) {
  Team team;
  if (in_parallel() || num_threads() == 1) return body(context, team);
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
