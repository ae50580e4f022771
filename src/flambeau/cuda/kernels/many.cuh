// Norms of many tensors, and their product with one number: a block for 16,384 elements of some tensor. The structs are
// those of native/cuda/many.cpp. Which elements a thread takes, and in which order, does not depend on addresses.
#include "jobs.cuh"
namespace many {
struct Job {
  char* data;
  int64_t n;
};
struct Jobs {
  Job of[192];
  int32_t begins[193];
  int32_t many;
};
constexpr int THREADS = 256, PER_BLOCK = 16384;

// A block's elements.
template <class T> struct Run {
  T* x;
  int n;
  INLINE Run(const Jobs& jobs) {
    const int k = job_of(jobs.begins, jobs.many, blockIdx.x);
    const int64_t begin = int64_t(int(blockIdx.x) - jobs.begins[k]) * PER_BLOCK, left = jobs.of[k].n - begin;
    x = reinterpret_cast<T*>(jobs.of[k].data) + begin;
    n = left < PER_BLOCK ? int(left) : PER_BLOCK;
  }
  INLINE bool aligned() const { return reinterpret_cast<uint64_t>(x) % 16 == 0; }
};
template <bool ALIGNED, int V, class T> INLINE Pack<T, V> read(const T* x) {
  if constexpr (ALIGNED) return load<V>(x);
  Pack<T, V> v;
#pragma unroll
  for (int k = 0; k < V; ++k) v.v[k] = x[k];
  return v;
}
template <bool ALIGNED, int V, class T> INLINE void write(T* x, const Pack<T, V>& v) {
  if constexpr (ALIGNED) return store<V>(x, v);
#pragma unroll
  for (int k = 0; k < V; ++k) x[k] = v.v[k];
}
// Calls each(where, V elements) for the thread's share of a run. Of whole runs, four packs are read before the first is
// used.
template <bool ALIGNED, class T, class F> INLINE void by_packs(const Run<T>& run, const F& each) {
  constexpr int V = 16 / sizeof(T), STEP = THREADS * V, AT_ONCE = 4;
  const int first = int(threadIdx.x) * V;
  if (run.n == PER_BLOCK) {
    for (int at = first; at < PER_BLOCK; at += AT_ONCE * STEP) {
      Pack<T, V> v[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) v[k] = read<ALIGNED, V>(run.x + at + k * STEP);
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) each(run.x + at + k * STEP, v[k]);
    }
    return;
  }
  for (int at = first; at < run.n / V * V; at += STEP) each(run.x + at, read<ALIGNED, V>(run.x + at));
}
// The place of the element that fills no pack and is the thread's, or one behind the end.
template <class T> INLINE int rest_of(const Run<T>& run) {
  constexpr int V = 16 / sizeof(T);
  return run.n / V * V + int(threadIdx.x);
}

// The parts of every tensor's norm, a number for each block.
template <class Op, class T> INLINE void norms(const Op& op, const Jobs& jobs, typename Op::Acc* partial, const T*) {
  typedef typename Op::Acc Acc;
  __shared__ Acc room[32];
  constexpr int V = 16 / sizeof(T);
  const Run<T> run(jobs);
  Acc acc = op.init();
  const auto take = [&](T*, const Pack<T, V>& v) {
#pragma unroll
    for (int k = 0; k < V; ++k) acc = op.add(acc, v.v[k], 0);
  };
  if (run.aligned()) by_packs<true>(run, take);
  else by_packs<false>(run, take);
  if (rest_of(run) < run.n) acc = op.add(acc, run.x[rest_of(run)], 0);
  acc = combine_block(op, op.settled(acc), room);
  if (threadIdx.x == 0) partial[blockIdx.x] = acc;
}
// A block for each tensor joins its parts.
template <class Op, class T> INLINE void join(const Op& op, const Jobs& jobs, const typename Op::Acc* partial, T* out) {
  typedef typename Op::Acc Acc;
  __shared__ Acc room[32];
  Acc acc = op.init();
  for (int k = jobs.begins[blockIdx.x] + int(threadIdx.x); k < jobs.begins[blockIdx.x + 1]; k += THREADS)
    acc = op.combine(acc, partial[k]);
  acc = combine_block(op, acc, room);
  if (threadIdx.x == 0) out[blockIdx.x] = cast<T>(op.finish(acc, 0));
}

// Every element times a number, which is rounded to the elements' dtype first, as operands of `mul` are.
template <class T, class F> INLINE void scale(const Jobs& jobs, const F* factor) {
  typedef typename Wide<T>::type A;
  constexpr int V = 16 / sizeof(T);
  const A by = widen(cast<T>(*factor));
  if (by == A(1)) return;  // gradients that are within their bound are neither read nor written
  const Run<T> run(jobs);
  const auto times = [&](T x) { return cast<T>(widen(x) * by); };
  const auto all = [&](T*, Pack<T, V> v) {
#pragma unroll
    for (int k = 0; k < V; ++k) v.v[k] = times(v.v[k]);
    return v;
  };
  if (run.aligned()) by_packs<true>(run, [&](T* x, const Pack<T, V>& v) { write<true>(x, all(x, v)); });
  else by_packs<false>(run, [&](T* x, const Pack<T, V>& v) { write<false>(x, all(x, v)); });
  if (rest_of(run) < run.n) run.x[rest_of(run)] = times(run.x[rest_of(run)]);
}
}  // namespace many
