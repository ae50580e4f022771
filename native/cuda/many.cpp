// Norms of many tensors, and their product with one number, in one launch for up to 192 of them: where they lie and
// how long they are is passed as parameters of the kernel, of which there are 4 KB.
#include <algorithm>
#include <charconv>

#include "../core/call.h"
#include "../core/device_table.h"
#include "../kernels/options.h"
#include "launch.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

constexpr int kJobs = 192;            // of one launch
constexpr int64_t kPerBlock = 16384;  // elements
constexpr unsigned kThreads = 256;

// As in src/flambeau/cuda/kernels/many.cuh.
struct Job {
  char* data;
  int64_t n;
};
struct Jobs {
  Job of[kJobs];
  int32_t begins[kJobs + 1];  // the first block of each
  int32_t many;

  unsigned blocks() const { return unsigned(begins[many]); }
};
static_assert(sizeof(Jobs) == 16 * kJobs + 4 * (kJobs + 2));

using Tensors = std::span<Tensor* const>;

// Calls f(jobs, the first tensor's number) for up to 192 tensors at a time, all of which are runs of memory.
template <class F> void in_turns(std::span<const TensorRef> tensors, const F& f) {
  Jobs jobs;
  for (size_t first = 0; first < tensors.size(); first += size_t(jobs.many)) {
    jobs.many = int32_t(std::min<size_t>(kJobs, tensors.size() - first));
    jobs.begins[0] = 0;
    for (int k = 0; k < jobs.many; ++k) {
      const Tensor& t = *tensors[first + size_t(k)];
      jobs.of[k] = {t.data, t.numel};
      jobs.begins[k + 1] = jobs.begins[k] + int32_t((t.numel + kPerBlock - 1) / kPerBlock);
    }
    f(jobs, first);
  }
}

// The order as C++ text that reads as the same number.
std::string order_text(double ord) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, ord).ptr};
}

void norms(Call& c) {
  Tensor& out = c.out();
  const int device = index_of(out.device);
  use_device(device);
  std::vector<TensorRef> runs;
  for (Tensor* t : c.tensors(0)) runs.push_back(dense(*t) ? TensorRef::borrow(t) : contiguous(*t));
  const std::string key = concat(dtype_name(out.dtype), " ", order_text(c.real(1)));
  const Function parts = named_kernel(device, "norms", key), joined = named_kernel(device, "norms_joined", key);
  const DType wide = out.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  in_turns(runs, [&](Jobs& jobs, size_t first) {
    const int64_t blocks = jobs.blocks();
    const TensorRef partial = empty(Dims(&blocks, 1), wide, out.device);
    char *room = partial->data, *to = out.data + int64_t(first) * out.itemsize();
    void* parameters[] = {&jobs, &room, &to};
    if (blocks) launch(c.name(), device, parts, {unsigned(blocks), 1, 1}, {kThreads, 1, 1}, 0, parameters);
    launch(c.name(), device, joined, {unsigned(jobs.many), 1, 1}, {kThreads, 1, 1}, 0, parameters);
  });
}

// Whether no memory is written twice; then the order of writing is nobody's concern.
bool apart(Tensors tensors) {
  std::vector<std::pair<const char*, const char*>> all;
  for (const Tensor* t : tensors)
    if (t->numel) all.push_back(address_range(*t));
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end(), [](auto& a, auto& b) { return b.first < a.second; }) == all.end();
}

bool touches(Tensors tensors, const Tensor& x) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor* t) { return ranges_meet(*t, x); });
}

void multiply(const Call& c, int device, Tensors tensors, const Tensor& factor) {
  for (DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16}) {
    std::vector<TensorRef> runs;
    std::vector<std::pair<Tensor*, TensorRef>> copies;
    for (Tensor* t : tensors) {
      if (t->dtype != dtype || !t->numel) continue;
      runs.push_back(dense(*t) ? TensorRef::borrow(t) : contiguous(*t));
      if (runs.back().get() != t) copies.push_back({t, runs.back()});
    }
    if (runs.empty()) continue;
    const Function scale = named_kernel(device, "scale", concat(dtype_name(dtype), " ", dtype_name(factor.dtype)));
    char* number = factor.data;
    in_turns(runs, [&](Jobs& jobs, size_t) {
      void* parameters[] = {&jobs, &number};
      launch(c.name(), device, scale, {jobs.blocks(), 1, 1}, {kThreads, 1, 1}, 0, parameters);
    });
    for (auto& [t, copy] : copies) copy_into(*t, *copy);
  }
}

void scale_all(Call& c) {
  const Tensors tensors = c.tensors(0);
  const int device = index_of(c.tensor(1).device);
  use_device(device);
  TensorRef factor = TensorRef::borrow(&c.tensor(1));
  if (touches(tensors, *factor)) {  // it stays what it was before the call
    factor = empty(c.tensor(1).shape(), c.tensor(1).dtype, c.tensor(1).device);
    copy_into(*factor, c.tensor(1));
  }
  if (apart(tensors)) return multiply(c, device, tensors, *factor);
  for (size_t k = 0; k < tensors.size(); ++k) multiply(c, device, tensors.subspan(k, 1), *factor);
}

const Kernels rows(DeviceType::CUDA, {{"_norms", norms}, {"_scale_all", scale_all}});

}  // namespace
}  // namespace flambeau::cuda
