#include "conv_pointwise.h"

#include <algorithm>
#include <utility>

#include "../core/parallel.h"
#include "gemm.h"

namespace flambeau {
namespace {

// Weights for each pixel of the result from which on reading them dominates: in a convolution, whose weights oneDNN
// would keep in its order if they stayed, and in the gradient of the input. And weights, and filters for each channel,
// from which on their gradient is a faster matrix product than oneDNN's convolution.
constexpr int64_t kWeightsForPixel = 4096, kTurnedForPixel = 512;
constexpr int64_t kManyWeights = 1 << 17, kManyFilters = 4, kLeastChannels = 64;

int64_t pixels(const ConvGeometry& g) { return g.n * volume(g.out); }
bool strided(const ConvGeometry& g) { return g.in != g.out; }

// Each pixel of the result and the pixel of the image that it is made from: f(result's, image's), row by row.
template <class F>
void each_pixel(const ConvGeometry& g, F&& f) {
  const int64_t rows = g.out[1], cols = g.out[2];
  parallel_for(g.n * rows, std::max<int64_t>(1, 16384 / (cols * g.ic)), [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const int64_t from = (r / rows * g.in[1] + r % rows * g.stride[1]) * g.in[2];
      for (int64_t c = 0; c < cols; ++c) f(r * cols + c, from + c * g.stride[2]);
    }
  });
}

// What no pixel of the result reaches: the bias, or zero.
void fill_pixels(float* x, int64_t count, int64_t channels, const float* bias) {
  parallel_for(count, std::max<int64_t>(1, 32768 / channels), [&](int64_t p, int64_t end) {
    if (!bias) std::fill(x + p * channels, x + end * channels, 0.f);
    else
      for (; p < end; ++p) std::copy_n(bias, channels, x + p * channels);
  });
}

// oneDNN is fast where an image has more channels than the result. To a product of pixels the two are alike: they
// change places, and so do rows and columns of the gradient.
bool turned_gradient(ConvGeometry g, float* x, float* w, float* y) {
  if (strided(g) || g.ic * g.oc >= kManyWeights) return false;
  std::swap(g.ic, g.oc);
  float* turned = scratch<float>(kScratchD, g.ic * g.oc);
  if (!onednn_convolution(g, DType::Float32, y, turned, nullptr, x, ConvResult::Weights, {true, false})) return false;
  for (int64_t k = 0; k < g.ic; ++k)
    for (int64_t c = 0; c < g.oc; ++c) w[k * g.oc + c] = turned[c * g.ic + k];
  return true;
}

}  // namespace

bool pointwise_pays(const ConvGeometry& g, ConvResult which, Dims strides) {
  if (g.kernel != Three{1, 1, 1} || g.pad != Three{0, 0, 0} || g.groups != 1 || g.in[0] != 1) return false;
  if (strides[1] != 1 || strides[0] != g.ic) return false;
  const int64_t weights = g.ic * g.oc;
  if (which == ConvResult::Weights)
    return weights >= kManyWeights || (g.ic >= kLeastChannels && g.oc >= kManyFilters * g.ic);
  return weights >= (which == ConvResult::Output ? kWeightsForPixel : kTurnedForPixel) * pixels(g);
}

void pointwise_convolve(const ConvGeometry& g, float* x, float* w, const float* bias, float* y, ConvResult which) {
  if (which == ConvResult::Weights && turned_gradient(g, x, w, y)) return;
  const int64_t places = pixels(g);
  // Where pixels are left out: those that are not, one after the other.
  float* image = strided(g) ? scratch<float>(kScratchD, places * g.ic) : x;
  if (which == ConvResult::Input) {
    gemm<float>(places, g.ic, g.oc, y, g.oc, 1, w, g.ic, 1, image, g.ic, {.bias_col = bias});
    if (!strided(g)) return;
    fill_pixels(x, g.n * volume(g.in), g.ic, bias);
    each_pixel(g, [&](int64_t from, int64_t to) { std::copy_n(image + from * g.ic, g.ic, x + to * g.ic); });
    return;
  }
  if (strided(g))
    each_pixel(g, [&](int64_t to, int64_t from) { std::copy_n(x + from * g.ic, g.ic, image + to * g.ic); });
  if (which == ConvResult::Output)
    gemm<float>(places, g.oc, g.ic, image, g.ic, 1, w, 1, g.ic, y, g.oc, {.bias_col = bias});
  else gemm<float>(g.oc, g.ic, places, y, 1, g.oc, image, g.ic, 1, w, g.ic);
}

}  // namespace flambeau
