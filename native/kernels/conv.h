// What the parts of a convolution share: its geometry, its passes (conv_passes.cpp), and the inner loops for float,
// double and uint64_t (whose wrapping is that of signed numbers), whose tables kernels/simd/conv.cpp fills.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "../core/call.h"

namespace flambeau {

using Three = std::array<int64_t, 3>;
inline int64_t volume(const Three& t) { return t[0] * t[1] * t[2]; }

// Of the convolution (not its transpose): `in` belongs to x [n, ic, in…], `out` to y [n, oc, out…].
struct ConvGeometry {
  int64_t n, ic, oc, groups;
  Three in, out, kernel, stride, pad, dilation;
  int64_t icg() const { return ic / groups; }
  int64_t ocg() const { return oc / groups; }
  int64_t products() const { return n * oc * icg() * volume(kernel) * volume(out); }
  // Padding behind the image that the last places of the result reach. Where they do not even reach its end: none.
  int64_t pad_end(size_t d) const {
    return std::max<int64_t>(0, (out[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1 - in[d] - pad[d]);
  }
};

struct ConvProblem {
  ConvGeometry g;
  bool transposed;
  std::vector<int64_t> result;  // its shape
};
// Checks everything. `first` is the position of `stride` among the arguments.
ConvProblem describe_convolution(const Call& c, const Tensor& x, const Tensor& w, const Tensor* bias, int first);

// Fewer products than these are done before oneDNN is prepared.
inline constexpr int64_t kFewProducts = 1 << 16;
// By oneDNN (conv_onednn.cpp): which of the three arrays is computed from the other two. False: it has no such
// primitive.
enum class ConvResult { Output, Input, Weights };
struct ChannelsLast {
  bool images = false, weights = false;  // lie so
};
bool onednn_convolution(const ConvGeometry& g, DType dtype, void* x, void* w, const void* bias, void* y,
                        ConvResult which, ChannelsLast last = {});
// Whether it has good loops for the gradient of such weights: not for large filters of single channels.
inline bool sums_weights_well(const ConvGeometry& g) {
  return g.icg() > 1 || g.ocg() > 1 || volume(g.kernel) <= 9;
}
// Weights without gaps: as they lie where their channels lie last, else contiguous.
TensorRef dense_weights(const Tensor& w);
// Whether a convolution is of float32 or half-precision images whose channels lie last, as are then the results.
bool of_channels_last(const Tensor& x);
// Of float32 (conv_last.cpp): the result, and those of the gradients of input, weight and bias that bits 1, 2 and 4 of
// `mask` name.
void convolve_channels_last(const Call& c, const ConvProblem& p);
void gradients_channels_last(const Call& c, const ConvProblem& p, int64_t mask);
// Whether the processor multiplies numbers of this half-precision dtype, so that oneDNN need not widen them.
bool multiplies_halves(DType dtype);
// Whether it multiplies more of them at a time than of float32. Intel's vectors multiply as many bfloat16 numbers as
// float32 ones; their matrix tiles, of which a virtual machine may know nothing, sixteen times as many.
bool multiplies_more_halves(DType dtype);

template <class T>
void conv_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_backward_data(const ConvGeometry& g, const T* y, const T* w, const T* bias, T* x);
template <class T>
void conv_backward_weight(const ConvGeometry& g, const T* x, const T* gy, T* gw);
// Taps of the kernel that meet nothing but padding, as the outer ones do on an image of a few pixels, are left out
// (conv_trim.cpp). False: there is none, nothing was computed.
bool has_taps_in_padding_alone(const ConvGeometry& g);
template <class T>
bool trimmed_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y);
template <class T>
bool trimmed_backward_data(const ConvGeometry& g, const T* y, const T* w, const T* bias, T* x);
template <class T>
bool trimmed_backward_weight(const ConvGeometry& g, const T* x, const T* gy, T* gw);
// The sum of each channel over [places, channels].
void channel_sums(const float* g, int64_t places, int64_t channels, float* to);
template <class T>
void conv_backward_bias(const T* gy, int64_t n, int64_t channels, int64_t places, T* gb);

// A run of numbers of a tile that belong to one row of the result.
struct Segment {
  int32_t from, length;
  int64_t to;
};

template <class T>
struct ConvKernels {
  int mr, width, nr, nt;  // rows of a result tile, numbers of a vector, columns; taps of a weight-gradient tile
  // c[r, j] = bias[r] + sum over k of a[k][r] b[j + offset[k]]
  void (*tile)(int64_t k, const T* a, const T* b, const int64_t* offset, T* c, int64_t crs, int rows, int cols,
               const T* bias);
  // One filter: y[j] = bias + sum over k of a[k * step] x[j + offset[k]] for j < cols
  void (*line)(int64_t k, const T* a, int64_t step, const T* x, const int64_t* offset, T* y, int64_t cols, T bias);
  // w[r * wrs + s] += sum over t < length of g[r * grs + t] x[t + offset[s]]
  void (*taps)(int64_t length, const T* g, int64_t grs, const T* x, const int64_t* offset, T* w, int64_t wrs, int rows,
               int taps);
  // Every row of a tile into a row of the result, `step` apart within it.
  void (*scatter)(const T* tile, int64_t tile_rs, int rows, T* y, int64_t yrs, int64_t step, const Segment* segments,
                  int count);
};
extern const ConvKernels<float>* conv_kernels_f32[2];
extern const ConvKernels<double>* conv_kernels_f64[2];
extern const ConvKernels<uint64_t>* conv_kernels_u64[2];

}  // namespace flambeau
