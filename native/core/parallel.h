// Loops over ranges: shared among threads, safe to throw from, and left early when a signal's handler raises.
//
// This is the one place where threads begin. What a piece throws, in whichever thread, stops the others at their next
// cut and is thrown in the caller. A call that has given the interpreter lock back (LockRelease, call.h) can be
// interrupted: its loops are cut into runs of about ten milliseconds, and between them the caller's thread looks for
// signals, ten times a second, with the interpreter lock taken back for that moment. A handler that raises (Ctrl-C)
// ends the call with its exception; after one that does not, the call goes on. So Python code may run in the middle of
// a kernel: what the kernel reads and writes must be its own until it ends, and no mutex that an operator takes may be
// held at an interruption point (or under an Uninterrupted).
#pragma once
#include <cstdint>
#include <type_traits>

#include "state.h"

namespace flambeau {

int num_threads();
void set_num_threads(int);
bool in_parallel();

// --- interruption ---------------------------------------------------------------------------------------------------
void poll();
// A place where a long computation can be left; long loops outside of parallel_for pass one every millisecond or so.
inline void interruption_point() {
  if (tls.running.region || tls.running.lock) poll();
}
// An interruption point every 2^14th time: for(Poll poll; …; poll()) in loops of a few nanoseconds a step.
struct Poll {
  uint32_t steps = 0;
  void operator()() {
    if (__builtin_expect((++steps & 0x3fff) == 0, 0)) interruption_point();
  }
};
// While one lives, this thread hears no signals: it holds something that a handler may ask for.
struct Uninterrupted {
  Uninterrupted() { ++tls.running.uninterrupted; }
  ~Uninterrupted() { --tls.running.uninterrupted; }
  Uninterrupted(const Uninterrupted&) = delete;
};
void begin_interruptible(void** state);  // LockRelease calls these around the time without the lock
inline void end_interruptible() { tls.running.lock = nullptr; }

// --- loops ----------------------------------------------------------------------------------------------------------
using Piece = void (*)(void* f, int64_t begin, int64_t end);
void run_range(int64_t n, int64_t grain, Piece piece, void* f);
void run_on_every_thread(void (*f)(void*), void* context);

// f(begin, end) over [0, n) in pieces of at least about `grain`; in this thread when n <= grain or inside another loop.
// Results must not depend on how the range is cut: that differs from run to run.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= grain) {
    if (n > 0) f(int64_t(0), n);
    return;
  }
  using Body = std::remove_reference_t<F>;
  run_range(n, grain, [](void* f, int64_t begin, int64_t end) { (*static_cast<Body*>(f))(begin, end); },
            const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace flambeau
