// A step of an optimizer over many tensors on CUDA: one launch for up to 40 of them. Step counts on the device
// stay there, so that a recorded graph counts on at each replay; those on the CPU are read and written there.
#include "../kernels/optim_step.h"

#include "../core/call.h"
#include "../core/device_table.h"
#include "launch.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

constexpr int kJobs = 40;            // of one launch: they are parameters, of which there are 4 KB
constexpr int64_t kPerBlock = 4096;  // elements
constexpr unsigned kThreads = 256;

// As in src/flambeau/cuda/kernels/optim.cuh.
struct KernelJob {
  char* data[kOptimArrays];
  int64_t n;
  void* step;    // null: `count` is it
  double count;  // counted from 1
  uint32_t fresh, wide;
};
struct KernelJobs {
  KernelJob of[kJobs];
  int32_t begins[kJobs + 1];  // the first block of each
  int32_t many;
};
static_assert(sizeof(KernelJob) == 72 && sizeof(KernelJobs) == 72 * kJobs + 4 * (kJobs + 2));

struct Slots {
  std::vector<OptimSlot>& slots;
  std::span<Tensor* const> steps;
  std::vector<OptimJob> jobs;

  bool on_device(size_t k) const { return steps[k] && steps[k]->device.type == DeviceType::CUDA; }
};

void add(KernelJobs& to, const Slots& s, size_t k) {
  const OptimJob& job = s.jobs[k];
  const bool there = s.on_device(k);
  KernelJob& own = to.of[to.many];
  std::copy_n(job.data, kOptimArrays, own.data);
  own.n = job.n;
  own.step = there ? s.steps[k]->data : nullptr;
  own.count = s.slots[k].step;
  own.fresh = s.slots[k].fresh;
  own.wide = there && s.steps[k]->dtype == DType::Float64;
  to.begins[to.many + 1] = to.begins[to.many] + int32_t((job.n + kPerBlock - 1) / kPerBlock);
  ++to.many;
}

void launch_jobs(int device, OptimKind kind, DType dtype, KernelJobs& jobs, OptimArgs& args) {
  if (!jobs.many) return;
  const unsigned blocks = unsigned(jobs.begins[jobs.many]);
  bool counts = false;
  for (int k = 0; k < jobs.many; ++k) counts |= jobs.of[k].step != nullptr;
  void* parameters[] = {&jobs, &args};
  if (counts)
    launch("optim_step", device, named_kernel(device, "optim_counts", ""), {1, 1, 1}, {64, 1, 1}, 0, parameters);
  if (blocks)
    launch("optim_step", device, named_kernel(device, "optim", concat(int(kind), " ", dtype_name(dtype))),
           {blocks, 1, 1}, {kThreads, 1, 1}, 0, parameters);
  jobs.many = 0;
}

int device_of(const Slots& s) {
  const Device first = s.slots[0].param->device;
  for (size_t k = 0; k < s.slots.size(); ++k) {
    if (s.slots[k].param->device != first)
      runtime_error("optim_step: parameters on ", device_name(first), " and ", device_name(s.slots[k].param->device),
                    "; put them into groups of their own");
    if (!s.steps[k]) continue;
    const Tensor& step = *s.steps[k];
    const bool fits = step.device.type == DeviceType::CPU ||
                      (step.device == first && (step.dtype == DType::Float32 || step.dtype == DType::Float64));
    if (!fits)
      runtime_error("optim_step: the step count of parameter ", k, " is ", dtype_name(step.dtype), " on ",
                    device_name(step.device), "; expected float32 on ", device_name(first), " or on the CPU");
  }
  return index_of(first);
}

void step(Call& c) {
  auto& slots = c.handed<std::vector<OptimSlot>>();
  Slots s{slots, c.tensors(1).subspan(4 * slots.size()), {}};
  const int device = device_of(s);
  use_device(device);
  for (size_t k = 0; k < slots.size(); ++k) {
    if (s.steps[k] && !s.on_device(k)) slots[k].step = count_of(*s.steps[k]) + 1;
    s.jobs.push_back(make_job(slots[k]));
  }
  OptimArgs args{c.real(5), c.real(6), c.real(7), c.real(8), c.real(9), uint32_t(c.integer(3))};
  const OptimKind kind = OptimKind(c.integer(0));
  for (DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16}) {
    KernelJobs jobs{};
    for (size_t k = 0; k < slots.size(); ++k) {
      if (s.jobs[k].dtype != dtype) continue;
      add(jobs, s, k);
      if (jobs.many == kJobs) launch_jobs(device, kind, dtype, jobs, args);
    }
    launch_jobs(device, kind, dtype, jobs, args);
  }
  for (size_t k = 0; k < slots.size(); ++k) {
    write_back(s.jobs[k], slots[k]);
    if (s.steps[k] && !s.on_device(k)) flambeau::fill(*s.steps[k], Scalar(slots[k].step));
  }
}

const Kernels rows(DeviceType::CUDA, {{"_optim_step", step}});

}  // namespace
}  // namespace flambeau::cuda
