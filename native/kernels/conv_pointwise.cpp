#include "conv_pointwise.h"

#include <algorithm>
#include <utility>

#include "../core/parallel.h"
#include "gemm_parts.h"
#include "half_rows.h"

namespace flambeau {
namespace {

// Weights for each pixel of the result from which on reading them dominates: in a convolution, whose weights oneDNN
// would keep in its order if they stayed, and in the gradient of the input. Halves are not kept, and their products
// take half the time. And weights, and filters for each channel, from which on their gradient is a faster matrix
// product than oneDNN's convolution.
constexpr int64_t kWeightsForPixel = 4096, kTurnedForPixel = 512, kHalvesForPixel = 128;
constexpr int64_t kManyWeights = 1 << 17, kManyFilters = 4, kLeastChannels = 64, kManyHalves = 1 << 16;

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
template <class T>
void fill_pixels(T* x, int64_t count, int64_t channels, const T* bias) {
  parallel_for(count, std::max<int64_t>(1, 32768 / channels), [&](int64_t p, int64_t end) {
    if (!bias) std::fill(x + p * channels, x + end * channels, T{});
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

// Whether the product is faster than oneDNN's vectors, which multiply float32 numbers as they are.
bool by_matrix_instructions(const ConvGeometry& g, ConvResult which) {
  const FloatParts* by = exact_parts();
  const int64_t places = pixels(g);
  switch (which) {
    case ConvResult::Output: return gemm_by_parts_pays(by, places, g.oc, g.ic, g.ic, 1, 1, g.ic);
    case ConvResult::Input: return gemm_by_parts_pays(by, places, g.ic, g.oc, g.oc, 1, g.ic, 1);
    default: return gemm_by_parts_pays(by, g.oc, g.ic, places, 1, g.oc, g.ic, 1);
  }
}

// C[m, n] = A B + bias; all rows of C lie one behind the other.
template <class T>
void product(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, T* c, const T* bias = nullptr) {
  if constexpr (std::is_same_v<T, float>)
    gemm<float>(m, n, k, static_cast<const float*>(a.data), a.rs, a.cs, static_cast<const float*>(b.data), b.rs, b.cs,
                c, n, {.bias_col = bias, .exact = true});
  else gemm_half(DType::BFloat16, m, n, k, a, b, c, n, 1, 0, bias, true);
}

}  // namespace

template <class T>
bool pointwise_pays(const ConvGeometry& g, ConvResult which, Dims strides) {
  if (g.kernel != Three{1, 1, 1} || g.pad != Three{0, 0, 0} || g.groups != 1 || g.in[0] != 1) return false;
  if (strides[1] != 1 || strides[0] != g.ic) return false;
  const int64_t weights = g.ic * g.oc;
  if constexpr (!std::is_same_v<T, float>)
    return !in_parallel() && g.products() > kParallelWork &&
           weights >= (which == ConvResult::Weights ? kManyHalves : kHalvesForPixel * pixels(g));
  if (by_matrix_instructions(g, which)) return true;
  if (which == ConvResult::Weights)
    return weights >= kManyWeights || (g.ic >= kLeastChannels && g.oc >= kManyFilters * g.ic);
  return weights >= (which == ConvResult::Output ? kWeightsForPixel : kTurnedForPixel) * pixels(g);
}

template <class T>
void pointwise_convolve(const ConvGeometry& g, T* x, T* w, const T* bias, T* y, ConvResult which) {
  if constexpr (std::is_same_v<T, float>)
    if (which == ConvResult::Weights && !by_matrix_instructions(g, which) && turned_gradient(g, x, w, y)) return;
  const int64_t places = pixels(g);
  // Where pixels are left out: those that are not, one after the other.
  T* image = strided(g) ? scratch<T>(kScratchD, places * g.ic) : x;
  if (which == ConvResult::Input) {
    product<T>(places, g.ic, g.oc, {y, g.oc, 1}, {w, g.ic, 1}, image, bias);
    if (!strided(g)) return;
    fill_pixels(x, g.n * volume(g.in), g.ic, bias);
    each_pixel(g, [&](int64_t from, int64_t to) { std::copy_n(image + from * g.ic, g.ic, x + to * g.ic); });
    return;
  }
  if (strided(g))
    each_pixel(g, [&](int64_t to, int64_t from) { std::copy_n(x + from * g.ic, g.ic, image + to * g.ic); });
  if (which == ConvResult::Output)
    product<T>(places, g.oc, g.ic, {image, g.ic, 1}, {w, 1, g.ic}, y, bias);
  else product<T>(g.oc, g.ic, places, {y, 1, g.oc}, {image, g.ic, 1}, w);
}

bool patches_pay(const ConvGeometry& g, ConvResult which, Dims strides) {
  return which == ConvResult::Output && g.groups == 1 && g.in[0] == 1 && g.kernel[0] == 1 &&
         strides[0] == g.ic * volume(g.kernel) && !in_parallel() && g.products() > kParallelWork &&
         strides[0] * g.oc >= kWeightsForPixel * pixels(g);
}

void convolve_patches(const ConvGeometry& g, const bfloat16* x, const bfloat16* w, Dims strides, const bfloat16* bias,
                      bfloat16* y) {
  const int64_t places = pixels(g), taps = volume(g.kernel), size = g.ic * taps, rows = g.out[1], cols = g.out[2];
  const bool last = strides[1] == 1;
  const std::vector<bfloat16> nothing(size_t(g.ic), bfloat16{});  // beside the image
  bfloat16* patches = scratch<bfloat16>(kScratchD, places * size);
  parallel_for(places, std::max<int64_t>(1, 16384 / size), [&](int64_t p, int64_t end) {
    for (; p < end; ++p) {
      bfloat16* to = patches + p * size;
      const bfloat16* image = x + p / (rows * cols) * g.in[1] * g.in[2] * g.ic;
      const int64_t top = p / cols % rows * g.stride[1] - g.pad[1], left = p % cols * g.stride[2] - g.pad[2];
      for (int64_t i = 0; i < g.kernel[1]; ++i)
        for (int64_t j = 0; j < g.kernel[2]; ++j, to += last ? g.ic : 1) {
          const int64_t r = top + i * g.dilation[1], c = left + j * g.dilation[2];
          const bool inside = r >= 0 && r < g.in[1] && c >= 0 && c < g.in[2];
          const bfloat16* pixel = inside ? image + (r * g.in[2] + c) * g.ic : nothing.data();
          if (last) std::copy_n(pixel, g.ic, to);
          else for (int64_t k = 0; k < g.ic; ++k) to[k * taps] = pixel[k];
        }
    }
  });
  product<bfloat16>(places, g.oc, size, {patches, size, 1}, {w, 1, size}, y, bias);
}

template bool pointwise_pays<float>(const ConvGeometry&, ConvResult, Dims);
template bool pointwise_pays<bfloat16>(const ConvGeometry&, ConvResult, Dims);
template void pointwise_convolve(const ConvGeometry&, float*, float*, const float*, float*, ConvResult);
template void pointwise_convolve(const ConvGeometry&, bfloat16*, bfloat16*, const bfloat16*, bfloat16*, ConvResult);

}  // namespace flambeau
