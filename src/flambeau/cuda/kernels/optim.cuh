// One step of an optimizer: a block for 4,096 elements of some tensor. The structs are those of
// native/cuda/optim_step.cpp.
#include "jobs.cuh"
#ifndef FLAMBEAU_EMULATE
namespace std {
using ::pow; using ::sqrt;
}
#endif
namespace optim {
#define FLAMBEAU_INLINE INLINE
#include "shared/optim_numbers.h"
template <class V> struct Scalar { typedef V type; };
template <class V> INLINE V root(V a) { return sqrt(a); }
template <class V> INLINE bool nearer_start(V weight) { return fabs(weight) < V(0.5); }
#include "shared/optim_laws.h"

struct Job {
  char* data[5];  // parameter, gradient, three kinds of state
  int64_t n;
  void* step;
  double count;
  uint32_t fresh, wide;
};
struct Jobs {
  Job of[40];
  int32_t begins[41];
  int32_t many;
};
INLINE double step_of(const Job& j) {
  return !j.step ? j.count : j.wide ? *static_cast<double*>(j.step) : double(*static_cast<float*>(j.step));
}
// Step counts on the device, before the step itself.
INLINE void count_steps(const Jobs& jobs) {
  if (threadIdx.x >= jobs.many) return;
  const Job& j = jobs.of[threadIdx.x];
  if (j.step && j.wide) *static_cast<double*>(j.step) += 1;
  else if (j.step) *static_cast<float*>(j.step) += 1;
}
template <class Law, class T>
INLINE void step(OptimKind kind, const Jobs& jobs, const OptimArgs& args) {
  typedef typename Wide<T>::type A;
  __shared__ OptimNumbers shared[1];
  const int k = job_of(jobs.begins, jobs.many, blockIdx.x);
  const Job& j = jobs.of[k];
  if (threadIdx.x == 0) shared[0] = optim_numbers(kind, args, step_of(j), j.fresh);
  __syncthreads();
  const Numbers<A> numbers(shared[0]);
  const int64_t begin = int64_t(int(blockIdx.x) - jobs.begins[k]) * 4096, end = begin + 4096 < j.n ? begin + 4096 : j.n;
  T *p = reinterpret_cast<T*>(j.data[0]), *g = reinterpret_cast<T*>(j.data[1]), *a = reinterpret_cast<T*>(j.data[2]);
  T *b = reinterpret_cast<T*>(j.data[3]), *c = reinterpret_cast<T*>(j.data[4]);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    A own = cast<A>(p[i]), one = a ? cast<A>(a[i]) : A(0), two = b ? cast<A>(b[i]) : A(0);
    A three = c ? cast<A>(c[i]) : A(0);
    Law::update(numbers, own, cast<A>(g[i]), one, two, three);
    p[i] = cast<T>(own);
    if (a) a[i] = cast<T>(one);
    if (b) b[i] = cast<T>(two);
    if (c) c[i] = cast<T>(three);
  }
}
}  // namespace optim
