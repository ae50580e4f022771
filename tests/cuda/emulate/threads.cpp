// Runs CUDA kernels on the CPU: the threads of a block are fibers of one system thread, blocks run one after the other.
//
// A thread that waits (__syncthreads, __syncwarp, shuffles) lets the others run; one that never waits costs a call.
//
// With FLAMBEAU_EMULATE_ORDER in the environment, "reversed" or a number, threads go on between two barriers, and
// blocks follow each other, last first or in an order that the number decides, and shared memory holds garbage before
// each block. What lacks a barrier, reads what nobody wrote, or lets blocks depend on each other, gives other numbers.
#include "threads.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

namespace {

struct Fiber {
  ucontext_t context;
  jmp_buf here;
  char* stack;
  dim3 thread;
  unsigned id;
  bool busy = false;
};
constexpr size_t kStack = 256 << 10;

struct Barrier { unsigned arrived = 0, generation = 0; int line = 0; };

// Which of n comes at place k: itself, or in the order that the environment asks for.
struct Order {
  const char* asked = std::getenv("FLAMBEAU_EMULATE_ORDER");
  uint64_t seed = asked ? std::strtoull(asked, nullptr, 10) : 0;  // reversed: 0
  unsigned step = 1, first = 0;
  void draw(unsigned n) {
    if (!asked || n == 0) return;
    step = first = n - 1;
    if (seed == 0) return;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    first = unsigned((seed >> 33) % n);
    for (step = unsigned((seed >> 40) % n); std::gcd(step, n) != 1;) ++step;
  }
  unsigned operator()(unsigned k, unsigned n) const { return unsigned((uint64_t(k) * step + first) % n); }
};

EmulatedKernel kernel;
Order order;  // of a block's threads
unsigned next_thread, alive;
std::vector<unsigned> warp_alive;
std::vector<Barrier> warp_barrier;
Barrier barrier;
std::vector<Fiber*> fibers;
Fiber* current;
jmp_buf scheduler;
std::mutex one_kernel;  // at a time

void begin(Fiber* f) {
  current = f;
  emulated.thread = f->id;
  *kernel.thread = f->thread;
}
void release(Barrier& b, unsigned needed) {
  if (needed && b.arrived >= needed) b.arrived = 0, ++b.generation;
}
void yield() {
  Fiber* me = current;
  if (_setjmp(me->here) == 0) _longjmp(scheduler, 1);
  begin(me);
}
void wait(Barrier& b, unsigned& needed, int line) {
  const unsigned generation = b.generation;
  if (b.arrived && b.line != line) {
    std::fprintf(stderr, "emulated kernel: threads that wait for each other stand at lines %d and %d\n", b.line, line);
    std::abort();
  }
  b.line = line;
  ++b.arrived;
  release(b, needed);
  while (b.generation == generation) yield();
}

// A fiber runs threads until one waits; then the scheduler starts the rest on others.
void run() {
  Fiber* me = current;
  const dim3 dim = *kernel.block_dim;
  while (next_thread < emulated.threads) {
    const unsigned id = me->id = order(next_thread++, emulated.threads);
    me->thread = {id % dim.x, id / dim.x % dim.y, id / dim.x / dim.y};
    me->busy = true;
    begin(me);
    kernel.body(kernel.params);
    me = current;
    me->busy = false;
    --alive;
    --warp_alive[id / 32];
    release(barrier, alive);
    release(warp_barrier[id / 32], warp_alive[id / 32]);
  }
  _longjmp(scheduler, 2);
}

Fiber* fiber(size_t k) {
  while (fibers.size() <= k) {
    void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) std::abort();
    fibers.push_back(new Fiber{.stack = static_cast<char*>(stack)});
  }
  return fibers[k];
}
void start(Fiber* f) {
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = kStack;
  f->context.uc_link = nullptr;
  makecontext(&f->context, run, 0);
  current = f;
  if (_setjmp(scheduler) == 0) setcontext(&f->context);
}
void resume(Fiber* f) {
  current = f;
  if (_setjmp(scheduler) == 0) _longjmp(f->here, 1);
}

void run_block() {
  const unsigned warps = (emulated.threads + 31) / 32;
  next_thread = 0;
  alive = emulated.threads;
  barrier = {};
  warp_barrier.assign(warps, Barrier{});
  warp_alive.assign(warps, 32);
  warp_alive[warps - 1] = emulated.threads - 32 * (warps - 1);
  order.draw(emulated.threads);
  if (order.asked) std::memset(kernel.shared, 0xff, size_t(kernel.shared_end - kernel.shared));
  volatile size_t used = 0;
  while (next_thread < emulated.threads) start(fiber(used)), used = used + 1;
  volatile unsigned idle = 0;
  while (alive) {
    const unsigned before = alive;
    volatile unsigned generations = barrier.generation;
    for (volatile size_t k = 0; k < used; k = k + 1)
      if (fibers[k]->busy) resume(fibers[k]);
    idle = alive == before && barrier.generation == generations ? idle + 1 : 0;
    if (idle > 100000) {
      std::fprintf(stderr, "emulated kernel: threads of a block wait for each other for ever\n");
      std::abort();
    }
  }
}

}  // namespace

extern "C" {

EmulatedBlock emulated;

void emulated_sync_warp(int line) { wait(warp_barrier[emulated.thread / 32], warp_alive[emulated.thread / 32], line); }
void emulated_sync_block(int line) { wait(barrier, alive, line); }

void emulated_launch(const EmulatedKernel& asked, const unsigned* grid, const unsigned* threads) {
  const std::lock_guard one(one_kernel);
  kernel = asked;
  emulated.threads = threads[0] * threads[1] * threads[2];
  *kernel.block_dim = {threads[0], threads[1], threads[2]};
  *kernel.grid_dim = {grid[0], grid[1], grid[2]};
  const unsigned blocks = grid[0] * grid[1] * grid[2];
  order = Order();
  Order of_blocks;
  of_blocks.draw(blocks);
  for (unsigned k = 0; k < blocks; ++k) {
    const unsigned b = of_blocks(k, blocks);
    *kernel.block = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
    run_block();
  }
}

}  // extern "C"
