// Convolutions of float32 images whose channels lie last: by oneDNN as they lie, where it pays and oneDNN can; else the
// other layout and back.
#include <algorithm>

#include "../core/channels_last.h"
#include "../core/parallel.h"
#include "conv_tail.h"
#include "correlate.h"
#include "gemm.h"

namespace flambeau {
namespace {

// The sum of each channel over [places, channels]: of parts that threads share, then of those.
void channel_sums(const float* g, int64_t places, int64_t channels, float* to) {
  constexpr int64_t kPart = 4096;
  const int64_t parts = (places + kPart - 1) / kPart;
  std::vector<double> total(size_t(parts * channels), 0.0);
  parallel_for(parts, std::max<int64_t>(1, 8 / channels), [&](int64_t part, int64_t last) {
    std::vector<float> block(static_cast<size_t>(channels));
    for (; part < last; ++part) {
      double* sum = total.data() + part * channels;
      for (int64_t p = part * kPart; p < std::min(places, (part + 1) * kPart);) {
        std::ranges::fill(block, 0.f);
        const int64_t end = std::min(places, p + 64);  // blocks, so that the error grows with places / 64
        for (; p < end; ++p)
          for (int64_t k = 0; k < channels; ++k) block[size_t(k)] += g[p * channels + k];
        for (int64_t k = 0; k < channels; ++k) sum[k] += double(block[size_t(k)]);
      }
    }
  });
  for (int64_t k = 0; k < channels; ++k) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += total[size_t(part * channels + k)];
    to[k] = float(sum);
  }
}

void add_channels(float* y, const float* bias, int64_t places, int64_t channels) {
  parallel_for(places, std::max<int64_t>(1, 32768 / channels), [&](int64_t p, int64_t end) {
    for (; p < end; ++p)
      for (int64_t k = 0; k < channels; ++k) y[p * channels + k] += bias[k];
  });
}

}  // namespace

bool of_channels_last(const Tensor& x, const ConvProblem& p) {
  return x.dtype == DType::Float32 && x.ndim == 4 && has_channels_last(x);
}

void convolve_channels_last(const Call& c, const ConvProblem& p) {
  const Tensor& x = c.tensor(0);
  Tensor& out = c.out();
  if (!p.transposed && p.g.products() >= kFewProducts && weights_stay(c.tensor(1)) &&
      convolve_with_kept_weights(p.g, x, c.tensor(1), c.optional_tensor(2), out))
    return trim_scratch();
  TensorRef w = contiguous(c.tensor(1)), bias;
  if (Tensor* b = c.optional_tensor(2)) bias = contiguous(*b);
  const float* b = bias ? bias->ptr<float>() : nullptr;
  {
    LockRelease lock(p.g.products() / 16);
    if (p.g.products() >= kFewProducts) {
      if (!p.transposed && onednn_convolution(p.g, x.dtype, x.data, w->data, b, out.data, ConvResult::Output, true))
        return trim_scratch();
      if (p.transposed &&
          onednn_convolution(p.g, x.dtype, out.data, w->data, nullptr, x.data, ConvResult::Input, true)) {
        if (b) add_channels(out.ptr<float>(), b, out.numel / out.size(1), out.size(1));
        return trim_scratch();
      }
    }
  }
  TensorRef plain = contiguous(x), y = empty(out.shape(), out.dtype, out.device);
  {
    LockRelease lock(p.g.products() / 16);
    if (p.transposed)
      conv_backward_data<float>(p.g, plain->ptr<float>(), w->ptr<float>(), b, y->ptr<float>());
    else
      conv_forward<float>(p.g, plain->ptr<float>(), w->ptr<float>(), b, y->ptr<float>());
  }
  trim_scratch();
  copy_into(out, *y);
}

// Of a transposed convolution the gradient is the image, and the input the result, of the convolution.
void gradients_channels_last(const Call& c, const ConvProblem& p, int64_t mask) {
  const Tensor& x = c.tensor(1);
  TensorRef g = with_channels_last(c.tensor(0)), w = contiguous(c.tensor(2)), plain_x, plain_g, to;
  const ConvGeometry& of = p.g;
  char *image = p.transposed ? g->data : x.data, *result = p.transposed ? x.data : g->data;
  int64_t left = mask & 3;
  {
    LockRelease lock(of.products() / 8);
    auto one = [&](int64_t bit, ConvResult which, void* x, void* w, void* y) {
      if (left & bit && of.products() >= kFewProducts &&
          onednn_convolution(of, DType::Float32, x, w, nullptr, y, which, true))
        left &= ~bit;
    };
    if (p.transposed) one(1, ConvResult::Output, image, w->data, c.out(0).data);
    else one(1, ConvResult::Input, c.out(0).data, w->data, result);
    // oneDNN has no good loops for large filters of single channels
    if (of.icg() > 1 || of.ocg() > 1 || volume(of.kernel) <= 9)
      one(2, ConvResult::Weights, image, c.out(1).data, result);
    if (mask & 4) channel_sums(g->ptr<float>(), g->numel / g->size(1), g->size(1), c.out(2).ptr<float>());
  }
  if (left) {
    plain_g = contiguous(*g);
    if (left & 1) to = empty(x.shape(), x.dtype, x.device);
    if (left & 2) plain_x = contiguous(x);
    LockRelease lock(of.products() / 8);
    const float *from = plain_g->ptr<float>(), *weight = w->ptr<float>();
    if (left & 1 && p.transposed) conv_forward<float>(of, from, weight, nullptr, to->ptr<float>());
    else if (left & 1) conv_backward_data<float>(of, from, weight, nullptr, to->ptr<float>());
    if (left & 2 && p.transposed) conv_backward_weight<float>(of, from, plain_x->ptr<float>(), c.out(1).ptr<float>());
    else if (left & 2) conv_backward_weight<float>(of, plain_x->ptr<float>(), from, c.out(1).ptr<float>());
  }
  if (left & 1) copy_into(c.out(0), *to);
  trim_scratch();
}

}  // namespace flambeau
