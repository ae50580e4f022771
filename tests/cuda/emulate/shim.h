// Runs CUDA kernels on the CPU: the threads of a block are fibers of one system thread, blocks run one after the other.
//
// A thread that waits (__syncthreads, __syncwarp, shuffles) lets the others run; one that never waits costs a call.
// Kernels' own text is what NVRTC gets; only the names of the language and of its intrinsics are defined here.
//
// With FLAMBEAU_EMULATE_ORDER in the environment, "reversed" or a number, threads go on between two barriers, and
// blocks follow each other, last first or in an order that the number decides, and shared memory holds garbage before
// each block. What lacks a barrier, reads what nobody wrote, or lets blocks depend on each other, gives other numbers.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>
#include <setjmp.h>

#include <math.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#define FLAMBEAU_EMULATE 1
#define FLAMBEAU_INFINITY __builtin_inff()
#define FLAMBEAU_NAN __builtin_nanf("")
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static const
#define __restrict__
#define __grid_constant__

struct dim3 { unsigned x, y, z; };
static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
static constexpr int warpSize = 32;

namespace emulate {

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
  bool other = std::getenv("FLAMBEAU_EMULATE_ORDER") != nullptr;
  uint64_t seed = other ? std::strtoull(std::getenv("FLAMBEAU_EMULATE_ORDER"), nullptr, 10) : 0;  // reversed: 0
  unsigned step = 1, first = 0;
  void draw(unsigned n) {
    if (!other || n == 0) return;
    step = first = n - 1;
    if (seed == 0) return;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    first = unsigned((seed >> 33) % n);
    for (step = unsigned((seed >> 40) % n); std::gcd(step, n) != 1;) ++step;
  }
  unsigned operator()(unsigned k, unsigned n) const { return unsigned((uint64_t(k) * step + first) % n); }
};

struct Block {
  void (*body)(void**);
  void** params;
  unsigned threads, next, alive;
  std::vector<unsigned> warp_alive;
  std::vector<Barrier> warp_barrier;
  Barrier barrier;
  unsigned long long slot[1024];
  std::vector<Fiber*> fibers;
  Fiber* current = nullptr;
  jmp_buf scheduler;
  Order order;
};
// In a section of its own: what else is not initialised is shared memory.
__attribute__((section("emulated"))) static Block block;
extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

inline void release(Barrier& b, unsigned needed) {
  if (needed && b.arrived >= needed) b.arrived = 0, ++b.generation;
}
inline void yield() {
  Fiber* me = block.current;
  if (_setjmp(me->here) == 0) _longjmp(block.scheduler, 1);
  block.current = me;
  threadIdx = me->thread;
}
inline void wait(Barrier& b, unsigned& needed, int line) {
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
inline void sync_warp(int line) {
  wait(block.warp_barrier[block.current->id / 32], block.warp_alive[block.current->id / 32], line);
}
inline void sync_block(int line) { wait(block.barrier, block.alive, line); }

// A fiber runs threads until one waits; then the scheduler starts the rest on others.
inline void run() {
  Fiber* me = block.current;
  while (block.next < block.threads) {
    const unsigned id = block.order(block.next++, block.threads);
    me->id = id;
    me->thread = {id % blockDim.x, id / blockDim.x % blockDim.y, id / blockDim.x / blockDim.y};
    me->busy = true;
    threadIdx = me->thread;
    block.body(block.params);
    me = block.current;
    me->busy = false;
    --block.alive;
    --block.warp_alive[id / 32];
    release(block.barrier, block.alive);
    release(block.warp_barrier[id / 32], block.warp_alive[id / 32]);
  }
  _longjmp(block.scheduler, 2);
}
inline Fiber* fiber(size_t k) {
  while (block.fibers.size() <= k) {
    Fiber* f = new Fiber;
    f->stack = static_cast<char*>(mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (f->stack == MAP_FAILED) std::abort();
    block.fibers.push_back(f);
  }
  return block.fibers[k];
}
// Each image has fibers of its own: of a block in which many threads wait, all but a warp's are given back.
inline void drop_fibers() {
  for (; block.fibers.size() > 32; block.fibers.pop_back()) {
    munmap(block.fibers.back()->stack, kStack);
    delete block.fibers.back();
  }
}
inline void start(Fiber* f) {
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = kStack;
  f->context.uc_link = nullptr;
  makecontext(&f->context, run, 0);
  block.current = f;
  if (_setjmp(block.scheduler) == 0) setcontext(&f->context);
}
inline void resume(Fiber* f) {
  block.current = f;
  if (_setjmp(block.scheduler) == 0) _longjmp(f->here, 1);
}
inline void run_block() {
  const unsigned warps = (block.threads + 31) / 32;
  block.next = 0;
  block.alive = block.threads;
  block.barrier = {};
  block.warp_barrier.assign(warps, Barrier{});
  block.warp_alive.assign(warps, 32);
  block.warp_alive[warps - 1] = block.threads - 32 * (warps - 1);
  block.order.draw(block.threads);
  if (block.order.other) std::memset(__bss_start, 0xff, size_t(_end - __bss_start));
  volatile size_t used = 0;
  while (block.next < block.threads) start(fiber(used)), used = used + 1;
  volatile unsigned idle = 0;
  while (block.alive) {
    const unsigned before = block.alive;
    volatile unsigned generations = block.barrier.generation;
    for (volatile size_t k = 0; k < used; k = k + 1)
      if (block.fibers[k]->busy) resume(block.fibers[k]);
    idle = block.alive == before && block.barrier.generation == generations ? idle + 1 : 0;
    if (idle > 100000) {
      std::fprintf(stderr, "emulated kernel: threads of a block wait for each other for ever\n");
      std::abort();
    }
  }
}
inline void launch(void (*body)(void**), const unsigned* grid, const unsigned* threads, void** params) {
  block.body = body;
  block.params = params;
  block.threads = threads[0] * threads[1] * threads[2];
  blockDim = {threads[0], threads[1], threads[2]};
  gridDim = {grid[0], grid[1], grid[2]};
  const unsigned blocks = grid[0] * grid[1] * grid[2];
  Order order = block.order;
  order.draw(blocks);
  for (unsigned k = 0; k < blocks; ++k) {
    const unsigned b = order(k, blocks);
    blockIdx = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
    run_block();
  }
  drop_fibers();
}
template <class... A, size_t... I> void call(void (*f)(A...), void** p, std::index_sequence<I...>) {
  f(*static_cast<std::remove_reference_t<A>*>(p[I])...);
}
template <class... A> void call(void (*f)(A...), void** p) { call(f, p, std::index_sequence_for<A...>()); }

// The sizes of a kernel's parameters, ended by 0, for a driver that keeps them until the kernel runs.
template <size_t N> struct Sizes { int of[N]; };
template <class... A> constexpr Sizes<sizeof...(A) + 1> sizes_of(void (*)(A...)) { return {{int(sizeof(A))..., 0}}; }

template <class T> T exchange(T v, unsigned from, int line) {
  static_assert(sizeof(T) <= 8);
  const unsigned id = block.current->id;
  std::memcpy(&block.slot[id], &v, sizeof(T));
  sync_warp(line);
  T r;
  std::memcpy(&r, &block.slot[from < block.threads ? from : id], sizeof(T));
  sync_warp(line);
  return r;
}
inline unsigned lane() { return block.current->id & 31; }
inline unsigned base() { return block.current->id & ~31u; }

}  // namespace emulate

#define EMULATED(NAME)                                                                                            \
  static void body_##NAME(void** p) { emulate::call(NAME, p); }                                                   \
  extern "C" const decltype(emulate::sizes_of(NAME)) emu_##NAME##_sizes = emulate::sizes_of(NAME);                \
  extern "C" void emu_##NAME(const unsigned* grid, const unsigned* threads, unsigned, void** params) {            \
    emulate::launch(body_##NAME, grid, threads, params);                                                          \
  }

// `line` is the caller's, so that threads which meet at different places are noticed.
#define LINE int line = __builtin_LINE()
inline void __syncthreads(LINE) { emulate::sync_block(line); }
inline void __syncwarp(unsigned = ~0u, LINE) { emulate::sync_warp(line); }
inline void __threadfence() {}
template <class T> T __shfl_sync(unsigned, T v, int from, LINE) {
  return emulate::exchange(v, emulate::base() + (from & 31), line);
}
template <class T> T __shfl_xor_sync(unsigned, T v, int mask, LINE) {
  return emulate::exchange(v, emulate::base() + (emulate::lane() ^ mask), line);
}
template <class T> T __shfl_down_sync(unsigned, T v, unsigned by, LINE) {
  const unsigned id = emulate::block.current->id;
  return emulate::exchange(v, emulate::lane() + by < 32 ? id + by : id, line);
}
template <class T> T __shfl_up_sync(unsigned, T v, unsigned by, LINE) {
  const unsigned id = emulate::block.current->id;
  return emulate::exchange(v, emulate::lane() >= by ? id - by : id, line);
}
inline unsigned __ballot_sync(unsigned, int predicate, LINE) {
  unsigned bits = 0;
  const unsigned id = emulate::block.current->id;
  emulate::block.slot[id] = predicate != 0;
  emulate::sync_warp(line);
  for (unsigned k = 0; k < 32 && emulate::base() + k < emulate::block.threads; ++k)
    bits |= unsigned(emulate::block.slot[emulate::base() + k] & 1) << k;
  emulate::sync_warp(line);
  return bits;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline float __int_as_float(int v) { float f; std::memcpy(&f, &v, 4); return f; }
inline float __uint_as_float(unsigned v) { float f; std::memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float f) { unsigned v; std::memcpy(&v, &f, 4); return v; }
inline long long __double_as_longlong(double f) { long long v; std::memcpy(&v, &f, 8); return v; }
inline double __longlong_as_double(long long v) { double f; std::memcpy(&f, &v, 8); return f; }
template <class T, class U> T atomicAdd(T* p, U v) { T old = *p; *p = T(old + T(v)); return old; }
template <class T, class U> T atomicMax(T* p, U v) { T old = *p; *p = old < T(v) ? T(v) : old; return old; }
template <class T, class U> T atomicMin(T* p, U v) { T old = *p; *p = T(v) < old ? T(v) : old; return old; }
template <class T> T atomicCAS(T* p, T compare, T v) { T old = *p; if (old == compare) *p = v; return old; }
template <class T> T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }

// What CUDA's mathematics has beside the C library's.
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double erfinv(double x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x * HUGE_VAL : NAN;
  double w = -std::log((1 - x) * (1 + x)), y = std::copysign(std::sqrt(w), x) * 0.8862269254527580;  // then Newton
  for (int k = 0; k < 60; ++k) {
    double step = (std::erf(y) - x) / (1.1283791670955126 * std::exp(-y * y));
    if (std::fabs(x) > 0.5) step = -(std::erfc(std::fabs(y)) - (1 - std::fabs(x))) / (1.1283791670955126 * std::exp(-y * y)) * (x < 0 ? -1 : 1);
    y -= step;
    if (std::fabs(step) < 1e-16 * std::fabs(y)) break;
  }
  return y;
}
inline float erfinv(float x) { return float(erfinv(double(x))); }

// Halves, by bits.
struct float16;
struct bfloat16;
