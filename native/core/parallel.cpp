#include "parallel.h"

#include "hooks.h"
#include "sanitize.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

namespace flambeau {

struct Region {
  explicit Region(Region* outer) : cuts(tls.running.lock != nullptr || (outer && outer->cuts)) {}
  const bool cuts;  // worth cutting: the call can be interrupted
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr error;

  void fail(bool ours) {  // the caller's own exception goes first: it may be set in the interpreter
    std::lock_guard guard(mutex);
    if (ours || !error) error = std::current_exception();
    stop = true;
  }
};

namespace {

constexpr int64_t kListen = 100'000'000;  // nanoseconds between two looks for signals
constexpr int64_t kCut = 10'000'000;      // what a run between two interruption points should take

struct Left {};  // thrown in the threads of a region that has failed elsewhere

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Handlers see a thread in which no kernel runs, except that its scratch memory is in use.
struct Handling {
  Running outer = tls.running;
  Handling() {
    tls.running = Running{};
    tls.running.in_handler = true;
  }
  ~Handling() { tls.running = outer; }
};

// [begin, end) in runs: the first of `grain`, each later one as long as the time of the one before suggests.
void run_cuts(int64_t begin, int64_t end, int64_t grain, Piece piece, void* f) {
  int64_t before = now();
  for (int64_t step = grain; step <= (end - begin) / 2;) {
    piece(f, begin, begin + step);
    begin += step;
    interruption_point();
    int64_t after = now(), took = std::max<int64_t>(after - before, 1);
    before = after;
    if (took < kCut / 8) step = step > (end - begin) / 8 ? end - begin : 8 * step;
    else step = std::max<int64_t>(1, int64_t(double(step) * double(kCut) / double(took)));
  }
  piece(f, begin, end);
}

}  // namespace

int num_threads() {
  int n = process.threads.load(std::memory_order_relaxed);
  if (n == 0) process.threads = n = std::max(1, omp_get_max_threads());
  return n;
}
void set_num_threads(int n) {
  process.threads = n = std::max(1, n);
  omp_set_num_threads(n);  // oneDNN shares the pool
}
bool in_parallel() { return omp_in_parallel(); }

void begin_interruptible(void** state) {
  tls.running.next = now() + kListen;
  tls.running.lock = state;
}

void poll() {
  if (tls.running.region && tls.running.region->stop.load(std::memory_order_relaxed)) throw Left();
  if (!tls.running.lock || tls.running.uninterrupted || tls.running.in_handler) return;
  if (++tls.polls % 8 || now() < tls.running.next) return;  // reading the clock costs more than a short row of a kernel
  void*& state = *tls.running.lock;
  bool heard;
  {
    Handling handling;
    heard = hooks.hear_signals(state);
  }
  tls.running.next = heard ? now() + kListen : INT64_MAX;
}

void run_range(int64_t n, int64_t grain, Piece piece, void* f) {
  interruption_point();  // of kernels that are many short loops
  grain = std::max<int64_t>(grain, 1);
  const int threads = in_parallel() ? 1 : num_threads();
  const int64_t pieces = std::min<int64_t>(threads, (n - 1) / grain + 1);
  Region* const outer = tls.running.region;
  if (pieces <= 1) {
    if (tls.running.lock || (outer && outer->cuts)) return run_cuts(0, n, grain, piece, f);
    return piece(f, 0, n);
  }
  Region region(outer);
  auto bound = [&](int64_t k) { return int64_t(__int128(n) * k / pieces); };
  char ends;
  happens_before(&region);
#pragma omp parallel for num_threads(int(pieces)) schedule(static, 1)
  for (int64_t k = 0; k < pieces; ++k) {
    happens_after(&region);
    Region* before = tls.running.region;
    tls.running.region = &region;
    try {
      if (region.cuts) run_cuts(bound(k), bound(k + 1), grain, piece, f);
      else if (!region.stop.load(std::memory_order_relaxed)) piece(f, bound(k), bound(k + 1));
    } catch (const Left&) {
    } catch (...) {
      region.fail(omp_get_thread_num() == 0);
    }
    tls.running.region = before;
    happens_before(&ends);
  }
  happens_after(&ends);
  if (region.error) std::rethrow_exception(region.error);
}

void run_on_every_thread(void (*f)(void*), void* context) {
#pragma omp parallel num_threads(num_threads())
  f(context);
}

}  // namespace flambeau
