// Many short loops, one after the other, shared with threads that are awake.
#pragma once
#include <atomic>

#include "parallel.h"

namespace flambeau {

// Threads that wait, awake, beside one that works alone, and take chunks of the loops it shares: each costs a fraction
// of a microsecond, where starting threads costs several. A thread that is late finds nothing left to do. Where the
// processor is busy with other programs, a chunk can lie for milliseconds with a thread that does not run: after such a
// wait some loops are not shared, twice as many each time.
class Team {
 public:
  // f(begin, end) over [0, n), n > 0, in chunks of at least `grain`; f does not throw. Only the body calls this.
  template <class F>
  void share(int64_t n, int64_t grain, F&& f) {
    using Body = std::remove_reference_t<F>;
    share_range(n, grain, [](void* f, int64_t begin, int64_t end) { (*static_cast<Body*>(f))(begin, end); },
                const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  friend void run_team(int64_t, void (*)(void*, Team&), void*);
  void share_range(int64_t n, int64_t grain, Piece piece, void* f);
  bool take_chunk();
  void wait_for_work();

  std::atomic<uint64_t> ticket_{0};  // the loop's number, its chunks (16 bits), those of them that are taken (16 bits)
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> over_{false};
  int threads_ = 1;
  int64_t n_ = 0;
  Piece piece_ = nullptr;
  void* f_ = nullptr;
};
void run_team(int64_t loops, void (*body)(void*, Team&), void* context);
// body(team) in this thread, with as many others beside it as there are; alone inside another loop. It shares about so
// many loops.
template <class F>
void with_team(int64_t loops, F&& body) {
  using Body = std::remove_reference_t<F>;
  run_team(loops, [](void* f, Team& team) { (*static_cast<Body*>(f))(team); },
           const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace flambeau
