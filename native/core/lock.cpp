// The interpreter lock as native code sees it: who gives it back, what a call owns meanwhile, and what a fork waits
// for.
#include <omp.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "call.h"

namespace flambeau {

// --- forks
// --------------------------------------------------------------------------------------------------------------

namespace {

// Code without the interpreter lock passes this gate; a fork closes it and waits until nobody is inside. The child then
// has no half-written memory, and no lock of this or another library that its owner took along to the parent.
struct Gate {
  std::mutex mutex;
  std::condition_variable moved;
  int inside = 0;
  bool closed = false;

  void enter() {
    std::unique_lock lock(mutex);
    moved.wait(lock, [&] { return !closed; });
    ++inside;
  }
  void leave() {
    std::lock_guard lock(mutex);
    --inside;
    if (closed) moved.notify_all();
  }
};
alignas(Gate) char gate_memory[sizeof(Gate)];  // never destroyed: threads may outlive static objects
Gate& gate = *new (gate_memory) Gate;

void before_fork() {
  {
    std::unique_lock lock(gate.mutex);
    gate.moved.wait(lock, [] { return !gate.closed; });
    gate.closed = true;
    gate.moved.wait(lock, [] { return gate.inside == int(tls.unlocked); });
  }
  // A child has none of this thread's OpenMP workers but would wait for them: they end here, and come back when needed.
  if (!omp_in_parallel()) omp_pause_resource_all(omp_pause_hard);
}
void after_fork_in_parent() {
  std::lock_guard lock(gate.mutex);
  gate.closed = false;
  gate.moved.notify_all();
}
void after_fork_in_child() {
  new (&gate) Gate;
  gate.inside = tls.unlocked;
  ++process.fork_count;
  // calls of threads that are not here hold nothing any more
  Calling* all = std::exchange(process.held_calls, nullptr);
  for (Calling* next; all; all = next) {
    next = all->older;
    if (all->thread != this_thread()) continue;
    all->newer = nullptr;
    all->older = std::exchange(process.held_calls, all);
    if (all->older) all->older->newer = all;
  }
}
const int at_fork = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

// --- the lock
// -----------------------------------------------------------------------------------------------------------

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
void assert_locked() {
  if (hooks.lock_held()) return;
  std::fputs("flambeau: an object or a block of memory was touched without the interpreter lock\n", stderr);
  std::abort();
}
#endif

void* release_lock() {
  void* state = hooks.release_lock();
  gate.enter();
  tls.unlocked = true;
  return state;
}

void retake_lock(void* state) {
  tls.unlocked = false;
  gate.leave();
  hooks.retake_lock(state);
}

void wait_until(bool (*ready)(const void*), const void* context) {
  constexpr auto kNap = std::chrono::microseconds(50);
  const bool inside = tls.unlocked;
  do {
    void* state = nullptr;
    if (inside) gate.leave();
    else state = hooks.release_lock();
    std::this_thread::sleep_for(kNap);
    if (inside) gate.enter();
    else hooks.retake_lock(state);
  } while (!ready(context));
}

// Below this many element visits, giving up the interpreter lock costs more than another thread gains.
constexpr int64_t kLockWork = 1 << 17;

KeepLock::KeepLock() { ++tls.lock_keepers; }
KeepLock::~KeepLock() { --tls.lock_keepers; }

LockRelease::LockRelease(int64_t work, std::initializer_list<const Tensor*> also) {
  if (__builtin_expect(work < kLockWork, 1) || tls.lock_keepers || tls.unlocked) return;
  if (also.size()) {
    for (const Tensor* t : also) tensors.push_back(TensorRef::borrow(const_cast<Tensor*>(t)));
    calling = std::make_unique<Calling>(tensors);
  }
  for (Calling* c = tls.call; c && !c->held; c = c->outer) c->hold();
  state = release_lock();
  begin_interruptible(&state);
}
LockRelease::~LockRelease() {
  if (tls.running.lock == &state) end_interruptible();
  if (state) retake_lock(state);  // null: a handler raised, and the lock is ours
}

// --- what a call owns
// ---------------------------------------------------------------------------------------------------

void Calling::hold() {
  auto add = [&](Tensor* t) {
    if (t) tensors.push_back(TensorRef::borrow(t));
  };
  for (const TensorRef& t : given) add(t.get());
  for (int k = 0; call && k < call->nargs; ++k) {
    const Value& v = call->args[k];
    if (v.tag == Tag::Tensor) add(v.tensor);
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j) add(v.tensors.data[j]);
  }
  if (call) add(call->given);
  thread = this_thread();
  older = std::exchange(process.held_calls, this);
  if (older) older->newer = this;
  held = true;
}

void Calling::drop() {
  (newer ? newer->older : process.held_calls) = older;
  if (older) older->newer = newer;
  held = false;
}

bool Calling::holds(const Tensor& t) const {
  for (const TensorRef& mine : tensors)
    if (mine.get() == &t) return true;
  return false;
}

void await_held(const Tensor& t) {
  auto free = [](const void* tensor) {
    for (Calling* c = process.held_calls; c; c = c->older)
      if (c->holds(*static_cast<const Tensor*>(tensor))) {
        if (c->thread == this_thread())
          runtime_error("a tensor of shape ", shape_text(static_cast<const Tensor*>(tensor)->shape()),
                        " cannot change its memory or shape "
                        "while ",
                        c->call ? c->call->name() : "an operation",
                        " of this thread is still working on it (a signal handler "
                        "runs in the middle of the call it interrupts): change it after the call");
        return false;
      }
    return true;
  };
  if (!free(&t)) wait_until(free, &t);
}

}  // namespace flambeau
