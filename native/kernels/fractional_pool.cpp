// Fractional max pooling: windows of one size whose steps are drawn, per plane, from one random number per axis
// (Graham 2014).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../core/call.h"

namespace flambeau {
namespace {

struct Plan {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t planes = 1;
  std::vector<int64_t> result;
  int64_t inside() const { return in[0] * in[1] * in[2]; }
  int64_t outside() const { return out[0] * out[1] * out[2]; }
};

// fractional_max_pool(self, kernel_size, output_size, samples, dims)
Plan plan_of(const Call& c) {
  Tensor &x = c.tensor(0), &samples = c.tensor(3);
  const int nd = int(c.integer(4)), lead = x.ndim - nd;
  Dims kernel = c.ints(1), out = c.ints(2);
  if (!is_floating(x.dtype)) runtime_error(c.name(), ": not implemented for dtype ", dtype_name(x.dtype));
  if (lead != 1 && lead != 2)
    runtime_error(c.name(), ": Expected ", nd + 1, "D or ", nd + 2, "D tensor, but got: ", shape_text(x.shape()));
  if (int(kernel.size()) != nd || int(out.size()) != nd)
    runtime_error(c.name(), ": kernel_size and output_size must be one int or ", nd, ", got ", shape_text(kernel),
                  " and ", shape_text(out));
  Plan p;
  for (int d = 0; d < lead; ++d) p.planes *= x.size(d), p.result.push_back(x.size(d));
  for (int d = 0; d < nd; ++d) {
    const int k = 3 - nd + d;
    p.in[k] = x.size(lead + d), p.out[k] = out[d], p.kernel[k] = kernel[d];
    if (p.in[k] < 1) runtime_error(c.name(), ": the spatial dimensions of input must not be empty, got ",
                                   shape_text(x.shape()));
    if (p.kernel[k] < 1 || p.out[k] < 0 || p.out[k] > p.in[k] || p.out[k] + p.kernel[k] - 1 > p.in[k])
      runtime_error(c.name(), ": ", p.out[k], " windows of ", p.kernel[k], " do not fit into an input of ", p.in[k]);
    p.result.push_back(p.out[k]);
  }
  const int64_t batch = lead == 2 ? x.size(0) : 1, channels = x.size(lead - 1);
  if (samples.ndim != 3 || samples.size(0) < batch || samples.size(1) != channels || samples.size(2) != nd ||
      samples.dtype != x.dtype)
    runtime_error(c.name(), ": Expect _random_samples of shape [", batch, ", ", channels, ", ", nd,
                  "] and the input's dtype; got ", shape_text(samples.shape()), " ", dtype_name(samples.dtype));
  return p;
}

void infer(Call& c) {
  const Plan& p = c.hand_over(plan_of(c));
  c.output(p.result, c.tensor(0).dtype, c.tensor(0).device);
  c.output(p.result, DType::Int64, c.tensor(0).device);
}

template <class T>
void starts_of(T sample, int64_t in, int64_t out, int64_t kernel, int64_t* starts) {
  if (out > 1) {
    const T step = T(in - kernel) / T(out - 1);
    for (int64_t i = 0; i < out - 1; ++i)
      starts[i] = std::clamp<int64_t>(int64_t((T(i) + sample) * step) - int64_t(sample * step), 0, in - kernel);
  }
  if (out > 0) starts[out - 1] = in - kernel;
}

template <class T>
void run(const Plan& p, int nd, const T* x, const T* samples, T* values, int64_t* indices) {
  const int64_t work = p.outside() * p.kernel[0] * p.kernel[1] * p.kernel[2] + 1;
  parallel_for(p.planes, std::max<int64_t>(1, 32768 / work), [&](int64_t k, int64_t end) {
    std::vector<int64_t> starts[3];
    for (int a = 0; a < 3; ++a) starts[a].assign(size_t(p.out[a]), 0);
    for (; k < end; ++k) {
      const T *plane = x + k * p.inside(), *drawn = samples + k * nd;
      for (int a = 3 - nd; a < 3; ++a) {
        // in two dimensions the first number is the last axis's, in three the first axis's
        const T sample = nd == 2 ? drawn[2 - a] : drawn[a];
        starts_of(sample, p.in[a], p.out[a], p.kernel[a], starts[a].data());
      }
      int64_t at = k * p.outside();
      for (int64_t d : starts[0])
        for (int64_t h : starts[1])
          for (int64_t w : starts[2]) {
            T best = -std::numeric_limits<T>::infinity();
            int64_t place = (d * p.in[1] + h) * p.in[2] + w;
            for (int64_t i = d; i < d + p.kernel[0]; ++i)
              for (int64_t j = h; j < h + p.kernel[1]; ++j)
                for (int64_t q = w; q < w + p.kernel[2]; ++q) {
                  const int64_t here = (i * p.in[1] + j) * p.in[2] + q;
                  if (plane[here] > best || plane[here] != plane[here]) best = plane[here], place = here;
                }
            values[at] = best, indices[at++] = place;
          }
    }
  });
}

void cpu(Call& c) {
  const Plan& p = c.handed<Plan>();
  Tensor &out = c.out(0), &indices = c.out(1);
  if (out.numel == 0) return;
  const int nd = int(c.integer(4));
  const DType compute = out.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  TensorRef x = contiguous(*to_dtype(c.tensor(0), compute)), samples = contiguous(*to_dtype(c.tensor(3), compute)),
            wide;
  Tensor* values = &out;
  if (compute != out.dtype) wide = empty(out.shape(), compute, out.device), values = wide.get();
  {
    LockRelease lock(x->numel + out.numel * 8);
    if (compute == DType::Float64)
      run(p, nd, x->ptr<double>(), samples->ptr<double>(), values->ptr<double>(), indices.ptr<int64_t>());
    else run(p, nd, x->ptr<float>(), samples->ptr<float>(), values->ptr<float>(), indices.ptr<int64_t>());
  }
  if (wide) copy_into(out, *wide);
}

const Primitives rows{{"fractional_max_pool", infer, cpu}};

}  // namespace
}  // namespace flambeau
