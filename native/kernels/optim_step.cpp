// One optimizer step over all parameters of a group: checks, the numbers of each update, and how the work is cut.
#include "optim_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/call.h"
#include "../core/machine.h"
#include "cast.h"
#include "elementwise.h"
#include "options.h"
#include "simd_casts.h"

namespace flambeau {
namespace {

constexpr const char* kName[kOptimKinds] = {"SGD", "Adam", "RMSprop", "Adadelta", "Adagrad"};
constexpr int64_t kGrain = 32768;  // elements per thread at least
constexpr int64_t kBlock = 1024;   // elements converted at a time

OptimLoops* registered() {
  static OptimLoops loops[2] = {};
  return loops;
}

const OptimLoops& best_loops() {
  const OptimLoops* loops = registered();
  return cpu_level() >= kAvx512 && loops[kAvx512].f32[0] ? loops[kAvx512] : loops[kBaseline];
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.contiguous() && b.contiguous()) return true;
  for (int d = 0; d < a.ndim; ++d)
    if (a.size(d) != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

void check(OptimKind kind, const OptimSlot& slot, size_t index) {
  const Tensor& p = *slot.param;
  auto about = [&](const char* what, const Tensor& t) {
    return concat(kName[int(kind)], ": ", what, " of parameter ", index, " is ", dtype_name(t.dtype), " ",
                  shape_text(t.shape()), " on ", device_name(t.device), " but the parameter is ", dtype_name(p.dtype),
                  " ", shape_text(p.shape()), " on ", device_name(p.device));
  };
  if (!is_differentiable(p.dtype) || item_size(p.dtype) == 1)
    runtime_error(kName[int(kind)], ": parameter ", index, " is ", dtype_name(p.dtype), "; it must be of a floating or "
                  "complex kind of 16 bits or more");
  if (p.device.type != DeviceType::CPU && p.device.type != DeviceType::CUDA && !p.is_meta())
    not_implemented(kName[int(kind)], ": parameter ", index, " is on ", device_name(p.device));
  auto same_shape = [&](const Tensor& t) {
    return t.ndim == p.ndim && std::equal(t.sizes, t.sizes + t.ndim, p.sizes) && t.device == p.device;
  };
  if (!same_shape(*slot.grad) || slot.grad->dtype != p.dtype) runtime_error(about("the gradient", *slot.grad));
  for (const Tensor* s : slot.state) {
    if (!s) continue;
    if (!same_shape(*s) || is_complex(s->dtype) != is_complex(p.dtype) || !is_differentiable(s->dtype))
      runtime_error(about("the state", *s));
    if (!takes_writes(*s))
      runtime_error(kName[int(kind)], ": the state of parameter ", index,
                    " cannot be written to: its elements overlap or its memory is read-only");
  }
  if (!takes_writes(p))
    runtime_error(kName[int(kind)], ": parameter ", index,
                  " cannot be written to: its elements overlap or its memory is read-only");
}

struct Job : OptimJob {
  OptimNumbers numbers;
};
}  // namespace

OptimJob make_job(const OptimSlot& slot) {
  OptimJob job;
  Tensor* arrays[kOptimArrays] = {slot.param, slot.grad, slot.state[0], slot.state[1], slot.state[2]};
  const Tensor& p = *slot.param;
  bool direct = dense(p);
  for (Tensor* t : arrays) direct = direct && (!t || (t->dtype == p.dtype && same_layout(p, *t)));
  DType compute = direct ? p.dtype : is_complex(p.dtype) ? DType::Complex128 : DType::Float64;
  if (!direct && p.dtype != DType::Float64 && p.dtype != DType::Complex128)
    compute = is_complex(p.dtype) ? DType::Complex64 : DType::Float32;
  for (int k = 0; k < kOptimArrays; ++k) {
    if (!arrays[k]) continue;
    if (!direct) {
      job.copies[k] = empty(p.shape(), compute, p.device);
      copy_into(*job.copies[k], *arrays[k]);
    }
    job.data[k] = direct ? arrays[k]->data : job.copies[k]->data;
  }
  job.dtype = real_of(compute);
  job.n = is_complex(compute) ? 2 * p.numel : p.numel;  // every law acts on real and imaginary parts alone
  return job;
}

void write_back(OptimJob& job, const OptimSlot& slot) {
  Tensor* arrays[kOptimArrays] = {slot.param, nullptr, slot.state[0], slot.state[1], slot.state[2]};
  for (int k = 0; k < kOptimArrays; ++k)
    if (arrays[k] && job.copies[k]) copy_into(*arrays[k], *job.copies[k]);
}

namespace {
template <class H>
void run_halves(OptimLoop loop, const Job& job, int64_t begin, int64_t end) {
  alignas(64) float block[kOptimArrays][kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t n = std::min(kBlock, end - at);
    void* ptr[kOptimArrays] = {};
    for (int k = 0; k < kOptimArrays; ++k) {
      if (!job.data[k]) continue;
      cast_run(block[k], reinterpret_cast<const H*>(job.data[k]) + at, n);
      ptr[k] = block[k];
    }
    loop(job.numbers, ptr, n);
    for (int k = 0; k < kOptimArrays; ++k) {
      if (!job.data[k] || k == 1) continue;
      cast_run(reinterpret_cast<H*>(job.data[k]) + at, block[k], n);
    }
  }
}

void run_job(OptimKind kind, const OptimLoops& loops, const Job& job, int64_t begin, int64_t end) {
  if (job.dtype == DType::Float16) return run_halves<float16>(loops.f32[int(kind)], job, begin, end);
  if (job.dtype == DType::BFloat16) return run_halves<bfloat16>(loops.f32[int(kind)], job, begin, end);
  void* ptr[kOptimArrays] = {};
  for (int k = 0; k < kOptimArrays; ++k)
    if (job.data[k]) ptr[k] = job.data[k] + begin * item_size(job.dtype);
  (job.dtype == DType::Float64 ? loops.f64 : loops.f32)[int(kind)](job.numbers, ptr, end - begin);
}

// The jobs laid end to end are one range; a thread's piece may begin and end inside a tensor.
void run_jobs(OptimKind kind, const std::vector<Job>& jobs) {
  std::vector<int64_t> ends;
  int64_t total = 0;
  for (const Job& job : jobs) ends.push_back(total += job.n);
  const OptimLoops& loops = best_loops();
  LockRelease lock(total);
  parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
    size_t k = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; ++k) {
      int64_t start = ends[k] - jobs[k].n, stop = std::min(end, ends[k]);
      if (stop > begin) run_job(kind, loops, jobs[k], begin - start, stop - start);
      begin = stop;
    }
  });
}

}  // namespace

OptimRegistration::OptimRegistration(int level, OptimLoops (*loops)()) {
  if (level <= cpu_level()) registered()[level] = loops();
}

// Updates every slot.
static void optim_step(OptimKind kind, const OptimArgs& args, std::span<OptimSlot> slots) {
  std::vector<Job> jobs;
  jobs.reserve(slots.size());
  for (const OptimSlot& slot : slots)
    jobs.push_back(slot.param->is_meta() ? Job{}
                                         : Job{make_job(slot), optim_numbers(kind, args, slot.step, slot.fresh)});
  run_jobs(kind, jobs);
  for (size_t k = 0; k < slots.size(); ++k) write_back(jobs[k], slots[k]);
}

// --- the operator ----------------------------------------------------------------------------------------------------

double count_of(const Tensor& step) {
  double value;
  make_cast(step.dtype, DType::Float64).apply(reinterpret_cast<char*>(&value), step.data, 1);
  return value;
}

namespace {

// What is written by one step: n parameters, their three kinds of state, their counts.
std::vector<OptimSlot> slots_of(const Call& c) {
  const auto written = c.tensors(1), grads = c.tensors(2);
  const size_t n = grads.size();
  if (written.size() != 5 * n) runtime_error("optim_step: expected five tensors for each of ", n, " gradients");
  std::vector<OptimSlot> slots(n);
  for (size_t k = 0; k < n; ++k) {
    if (!written[k] || !grads[k]) runtime_error("optim_step: parameter ", k, " or its gradient is missing");
    slots[k] = {written[k], grads[k], {written[n + k], written[2 * n + k], written[3 * n + k]}, 0, false};
  }
  for (int64_t k : c.ints(4)) {
    if (k < 0 || size_t(k) >= n) runtime_error("optim_step: there is no parameter ", k);
    slots[size_t(k)].fresh = true;
  }
  return slots;
}

void infer_step(Call& c) {
  const OptimKind kind = OptimKind(c.integer(0));
  if (c.integer(0) < 0 || c.integer(0) >= kOptimKinds) value_error("optim_step: no optimizer number ", c.integer(0));
  const auto& slots = c.hand_over(slots_of(c));
  for (size_t k = 0; k < slots.size(); ++k) {
    check(kind, slots[k], k);
    const Tensor* step = c.tensors(1)[4 * slots.size() + k];
    if (step && (step->numel != 1 || step->is_meta()))
      runtime_error("optimizer state: expected 'step' to be one number, got shape ", shape_text(step->shape()));
  }
}

void cpu_step(Call& c) {
  auto& slots = c.handed<std::vector<OptimSlot>>();
  const auto steps = c.tensors(1).subspan(4 * slots.size());
  for (size_t k = 0; k < slots.size(); ++k)
    if (steps[k]) slots[k].step = count_of(*steps[k]) + 1;
  const OptimArgs args{c.real(5), c.real(6), c.real(7), c.real(8), c.real(9), uint32_t(c.integer(3))};
  optim_step(OptimKind(c.integer(0)), args, slots);
  for (size_t k = 0; k < slots.size(); ++k)
    if (steps[k]) fill(*steps[k], Scalar(slots[k].step));
}

const Primitives rows{{"_optim_step", infer_step, cpu_step}};

}  // namespace

}  // namespace flambeau
