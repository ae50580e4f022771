// Convolutions of float32 images whose channels lie last: as they lie, by minimal filtering, as matrix products or by
// oneDNN, where it pays and they can; else the other layout and back.
#include <algorithm>

#include "../core/channels_last.h"
#include "../core/parallel.h"
#include "conv_pointwise.h"
#include "conv_tail.h"
#include "correlate.h"
#include "gemm.h"
#include "winograd.h"

namespace flambeau {

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

namespace {

void add_channels(float* y, const float* bias, int64_t places, int64_t channels) {
  parallel_for(places, std::max<int64_t>(1, 32768 / channels), [&](int64_t p, int64_t end) {
    for (; p < end; ++p)
      for (int64_t k = 0; k < channels; ++k) y[p * channels + k] += bias[k];
  });
}

// One pass over arrays as they lie, weights with these strides: by minimal filtering, as matrix products, or by
// oneDNN. False: none computes it.
bool as_they_lie(const ConvGeometry& g, float* x, float* w, Dims strides, const float* bias, float* y,
                 ConvResult which) {
  if (g.products() < kFewProducts) return false;
  if (winograd_pays(g, which)) {
    if (which == ConvResult::Weights) return winograd_weights(g, x, y, w, strides), true;
    const bool splits = winograd_splits(g, which), forward = which == ConvResult::Output;
    float* packed = scratch<float>(kScratchD, winograd_packed_size(g, which, splits));
    winograd_pack(g, w, strides, which, splits, packed);
    winograd_convolve(g, which, splits, forward ? x : y, packed, {bias}, forward ? y : x);
    return true;
  }
  if (pointwise_pays<float>(g, which, strides)) return pointwise_convolve(g, x, w, bias, y, which), true;
  const bool after = which == ConvResult::Input && bias;  // oneDNN adds one to results alone
  const ChannelsLast last{true, !strides.empty() && strides[1] == 1 && g.icg() > 1 && volume(g.kernel) > 1};
  if (!onednn_convolution(g, DType::Float32, x, w, after ? nullptr : bias, y, which, last)) return false;
  if (after) add_channels(x, bias, g.n * volume(g.in), g.ic);
  return true;
}

}  // namespace

void convolve_channels_last(const Call& c, const ConvProblem& p) {
  const Tensor& x = c.tensor(0);
  Tensor& out = c.out();
  TensorRef w = dense_weights(c.tensor(1)), bias;
  // A product's sums may round otherwise than oneDNN's: whether weights stay must not decide between the two.
  const bool product = pointwise_pays<float>(p.g, ConvResult::Output, w->stride());
  if (!p.transposed && !product && p.g.products() >= kFewProducts && weights_stay(c.tensor(1)) &&
      convolve_with_kept_weights(p.g, x, *w, c.optional_tensor(2), out))
    return trim_scratch();
  if (Tensor* b = c.optional_tensor(2)) bias = contiguous(*b);
  const float* b = bias ? bias->ptr<float>() : nullptr;
  {
    LockRelease lock(p.g.products() / 16);
    float *from = x.ptr<float>(), *weight = w->ptr<float>(), *to = out.ptr<float>();
    if (p.transposed ? as_they_lie(p.g, to, weight, w->stride(), b, from, ConvResult::Input)
                     : as_they_lie(p.g, from, weight, w->stride(), b, to, ConvResult::Output))
      return trim_scratch();
  }
  TensorRef plain = contiguous(x), y = empty(out.shape(), out.dtype, out.device);
  w = contiguous(*w);
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
  Tensor& out = c.out(1);
  TensorRef g = with_channels_last(c.tensor(0)), w = dense_weights(c.tensor(2)), plain_x, plain_g, plain_w, to, to_w;
  const ConvGeometry& of = p.g;
  float *image = (p.transposed ? *g : x).ptr<float>(), *result = (p.transposed ? x : *g).ptr<float>();
  int64_t left = mask & 3;
  {
    LockRelease lock(of.products() / 8);
    float *to_x = c.out(0).ptr<float>(), *weight = w->ptr<float>();
    if (mask & 1 && (p.transposed
                         ? as_they_lie(of, image, weight, w->stride(), nullptr, to_x, ConvResult::Output)
                         : as_they_lie(of, to_x, weight, w->stride(), nullptr, result, ConvResult::Input)))
      left &= ~1;
    if (mask & 2 && sums_weights_well(of) &&
        as_they_lie(of, image, out.ptr<float>(), out.stride(), nullptr, result, ConvResult::Weights))
      left &= ~2;
    if (mask & 4) channel_sums(g->ptr<float>(), g->numel / g->size(1), g->size(1), c.out(2).ptr<float>());
  }
  if (left) {
    plain_g = contiguous(*g), plain_w = contiguous(*w);
    if (left & 1) to = empty(x.shape(), x.dtype, x.device);
    if (left & 2) plain_x = contiguous(x), to_w = empty(out.shape(), out.dtype, out.device);
    LockRelease lock(of.products() / 8);
    const float *from = plain_g->ptr<float>(), *weight = plain_w->ptr<float>();
    if (left & 1 && p.transposed) conv_forward<float>(of, from, weight, nullptr, to->ptr<float>());
    else if (left & 1) conv_backward_data<float>(of, from, weight, nullptr, to->ptr<float>());
    if (left & 2 && p.transposed) conv_backward_weight<float>(of, from, plain_x->ptr<float>(), to_w->ptr<float>());
    else if (left & 2) conv_backward_weight<float>(of, plain_x->ptr<float>(), from, to_w->ptr<float>());
  }
  if (left & 1) copy_into(c.out(0), *to);
  if (left & 2) copy_into(out, *to_w);
  trim_scratch();
}

}  // namespace flambeau
