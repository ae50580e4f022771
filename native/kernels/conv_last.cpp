// Convolutions of float32 images whose channels lie last: by oneDNN as they lie, where it pays and oneDNN can; else the
// other layout and back.
#include <algorithm>

#include "../core/channels_last.h"
#include "../core/parallel.h"
#include "correlate.h"
#include "gemm.h"

namespace flambeau {
namespace {

// The sum of each channel over [places, channels].
void channel_sums(const float* g, int64_t places, int64_t channels, float* to) {
  std::vector<double> total(size_t(channels), 0.0);
  std::vector<float> part(static_cast<size_t>(channels));
  for (int64_t p = 0; p < places;) {
    std::ranges::fill(part, 0.f);
    const int64_t end = std::min(places, p + 64);  // blocks, so that the error grows with places / 64
    for (; p < end; ++p)
      for (int64_t k = 0; k < channels; ++k) part[size_t(k)] += g[p * channels + k];
    for (int64_t k = 0; k < channels; ++k) total[size_t(k)] += double(part[size_t(k)]);
  }
  std::ranges::copy(total, to);
}

}  // namespace

bool of_channels_last(const Tensor& x, const ConvProblem& p) {
  return x.dtype == DType::Float32 && x.ndim == 4 && !p.transposed && has_channels_last(x);
}

void convolve_channels_last(const Call& c, const ConvProblem& p) {
  const Tensor& x = c.tensor(0);
  Tensor& out = c.out();
  TensorRef w = contiguous(c.tensor(1)), bias;
  if (Tensor* b = c.optional_tensor(2)) bias = contiguous(*b);
  const float* b = bias ? bias->ptr<float>() : nullptr;
  {
    LockRelease lock(p.g.products() / 16);
    if (p.g.products() >= kFewProducts &&
        onednn_convolution(p.g, x.dtype, x.data, w->data, b, out.data, ConvResult::Output, true))
      return trim_scratch();
  }
  TensorRef plain = contiguous(x), y = empty(out.shape(), out.dtype, out.device);
  {
    LockRelease lock(p.g.products() / 16);
    conv_forward<float>(p.g, plain->ptr<float>(), w->ptr<float>(), b, y->ptr<float>());
  }
  trim_scratch();
  copy_into(out, *y);
}

void gradients_channels_last(const Call& c, const ConvProblem& p, int64_t mask) {
  const Tensor& x = c.tensor(1);
  TensorRef g = with_channels_last(c.tensor(0)), w = contiguous(c.tensor(2)), plain_x, plain_g, to;
  const ConvGeometry& of = p.g;
  int64_t left = mask & 3;
  {
    LockRelease lock(of.products() / 8);
    auto one = [&](int64_t bit, ConvResult which, void* x, void* w) {
      if (left & bit && of.products() >= kFewProducts &&
          onednn_convolution(of, DType::Float32, x, w, nullptr, g->data, which, true))
        left &= ~bit;
    };
    one(1, ConvResult::Input, c.out(0).data, w->data);
    one(2, ConvResult::Weights, x.data, c.out(1).data);
    if (mask & 4) channel_sums(g->ptr<float>(), of.n * volume(of.out), of.oc, c.out(2).ptr<float>());
  }
  if (left) {
    plain_g = contiguous(*g);
    if (left & 1) to = empty(x.shape(), x.dtype, x.device);
    if (left & 2) plain_x = contiguous(x);
    LockRelease lock(of.products() / 8);
    if (left & 1) conv_backward_data<float>(of, plain_g->ptr<float>(), w->ptr<float>(), nullptr, to->ptr<float>());
    if (left & 2)
      conv_backward_weight<float>(of, plain_x->ptr<float>(), plain_g->ptr<float>(), c.out(1).ptr<float>());
  }
  if (left & 1) copy_into(c.out(0), *to);
  trim_scratch();
}

}  // namespace flambeau
