// What the text of a CUDA kernel finds when a C++ compiler reads it in NVRTC's place: the names of the language and of
// its intrinsics. What runs the threads is compiled once (threads.cpp); a few lines of it come into each kernel's image.
#pragma once
#include <math.h>
#include <cstdint>
#include <cstring>

#include "threads.h"

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

// In a section of their own: what else is not initialised is shared memory.
#define EMULATED_SECTION __attribute__((section(".emulated")))
EMULATED_SECTION static dim3 threadIdx, blockIdx, blockDim, gridDim;
static constexpr int warpSize = 32;
extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

namespace emulate {

template <unsigned... I> struct Indices {};
template <class T> struct Bare { using type = T; };
template <class T> struct Bare<T&> { using type = T; };
template <class... A, unsigned... I> void call(void (*f)(A...), void** p, Indices<I...>) {
  f(*static_cast<typename Bare<A>::type*>(p[I])...);
}
template <class... A> void call(void (*f)(A...), void** p) { call(f, p, Indices<__integer_pack(sizeof...(A))...>()); }

// The sizes of a kernel's parameters, ended by 0, for a driver that keeps them until the kernel runs.
template <unsigned N> struct Sizes { int of[N]; };
template <class... A> constexpr Sizes<sizeof...(A) + 1> sizes_of(void (*)(A...)) { return {{int(sizeof(A))..., 0}}; }

template <class T> T exchange(T v, unsigned from, int line) {
  static_assert(sizeof(T) <= 8);
  const unsigned id = emulated.thread;
  std::memcpy(&emulated.slot[id], &v, sizeof(T));
  emulated_sync_warp(line);
  T r;
  std::memcpy(&r, &emulated.slot[from < emulated.threads ? from : id], sizeof(T));
  emulated_sync_warp(line);
  return r;
}
inline unsigned lane() { return emulated.thread & 31; }
inline unsigned base() { return emulated.thread & ~31u; }

}  // namespace emulate

#define EMULATED(NAME)                                                                                            \
  static void body_##NAME(void** p) { emulate::call(NAME, p); }                                                   \
  extern "C" const decltype(emulate::sizes_of(NAME)) emu_##NAME##_sizes = emulate::sizes_of(NAME);                \
  extern "C" void emu_##NAME(const unsigned* grid, const unsigned* threads, unsigned, void** params) {            \
    emulated_launch({body_##NAME, params, &threadIdx, &blockIdx, &blockDim, &gridDim, __bss_start, _end}, grid,   \
                    threads);                                                                                     \
  }

// `line` is the caller's, so that threads which meet at different places are noticed.
#define LINE int line = __builtin_LINE()
inline void __syncthreads(LINE) { emulated_sync_block(line); }
inline void __syncwarp(unsigned = ~0u, LINE) { emulated_sync_warp(line); }
inline void __threadfence() {}
template <class T> T __shfl_sync(unsigned, T v, int from, LINE) {
  return emulate::exchange(v, emulate::base() + (from & 31), line);
}
template <class T> T __shfl_xor_sync(unsigned, T v, int mask, LINE) {
  return emulate::exchange(v, emulate::base() + (emulate::lane() ^ mask), line);
}
template <class T> T __shfl_down_sync(unsigned, T v, unsigned by, LINE) {
  const unsigned id = emulated.thread;
  return emulate::exchange(v, emulate::lane() + by < 32 ? id + by : id, line);
}
template <class T> T __shfl_up_sync(unsigned, T v, unsigned by, LINE) {
  const unsigned id = emulated.thread;
  return emulate::exchange(v, emulate::lane() >= by ? id - by : id, line);
}
inline unsigned __ballot_sync(unsigned, int predicate, LINE) {
  unsigned bits = 0;
  const unsigned id = emulated.thread;
  emulated.slot[id] = predicate != 0;
  emulated_sync_warp(line);
  for (unsigned k = 0; k < 32 && emulate::base() + k < emulated.threads; ++k)
    bits |= unsigned(emulated.slot[emulate::base() + k] & 1) << k;
  emulated_sync_warp(line);
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
inline float rsqrt(float x) { return 1 / sqrt(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline double erfinv(double x) {
  if (!(fabs(x) < 1)) return fabs(x) == 1 ? x * HUGE_VAL : NAN;
  double w = -log((1 - x) * (1 + x)), y = copysign(sqrt(w), x) * 0.8862269254527580;  // then Newton
  for (int k = 0; k < 60; ++k) {
    double step = (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
    if (fabs(x) > 0.5) step = -(erfc(fabs(y)) - (1 - fabs(x))) / (1.1283791670955126 * exp(-y * y)) * (x < 0 ? -1 : 1);
    y -= step;
    if (fabs(step) < 1e-16 * fabs(y)) break;
  }
  return y;
}
inline float erfinv(float x) { return float(erfinv(double(x))); }

// Halves, by bits.
struct float16;
struct bfloat16;
