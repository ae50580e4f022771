// Convolutions of small images without the taps that meet nothing but padding: of a kernel of 3 x 3 on one pixel there
// is one left, and the convolution is a product of matrices.
#include <algorithm>
#include <vector>

#include "conv.h"
#include "gemm.h"

namespace flambeau {
namespace {

// Whether tap k of an axis reads a pixel for any place of the result.
bool meets_pixels(const ConvGeometry& g, size_t d, int64_t k) {
  const int64_t first = k * g.dilation[d] - g.pad[d];  // the pixel of place 0
  const int64_t skipped = first < 0 ? (-first + g.stride[d] - 1) / g.stride[d] : 0;
  return skipped < g.out[d] && first + skipped * g.stride[d] < g.in[d];
}

struct Trim {
  ConvGeometry g;       // of the taps that are left
  Three whole, before;  // the kernel as it was, how many taps before the first that is left
  bool any = false;
  explicit Trim(const ConvGeometry& given) : g(given), whole(given.kernel), before{0, 0, 0} {
    for (size_t d = 0; d < 3; ++d) {
      if (given.pad[d] == 0 || given.in[d] > given.kernel[d] * given.dilation[d]) continue;
      int64_t first = 0, last = given.kernel[d] - 1;
      while (first < last && !meets_pixels(given, d, first)) ++first;
      while (last > first && !meets_pixels(given, d, last)) --last;
      const int64_t pad = given.pad[d] - first * given.dilation[d];
      if (pad < 0 || last - first + 1 == given.kernel[d]) continue;  // place 0 begins inside of the image
      g.kernel[d] = last - first + 1, g.pad[d] = pad, before[d] = first;
      any = true;
    }
  }
  // f(tap that is left, tap of the whole kernel)
  template <class F>
  void taps(F&& f) const {
    int64_t k = 0;
    for (int64_t a = 0; a < g.kernel[0]; ++a)
      for (int64_t b = 0; b < g.kernel[1]; ++b)
        for (int64_t c = 0; c < g.kernel[2]; ++c)
          f(k++, ((a + before[0]) * whole[1] + b + before[1]) * whole[2] + c + before[2]);
  }
  template <class T>
  std::vector<T> filters(const T* w) const {
    const int64_t filters = g.oc * g.icg(), kv = volume(g.kernel), all = volume(whole);
    std::vector<T> left(size_t(filters * kv));
    taps([&](int64_t k, int64_t from) {
      for (int64_t f = 0; f < filters; ++f) left[f * kv + k] = w[f * all + from];
    });
    return left;
  }
  // One pixel to one pixel through one tap: a product of matrices.
  bool product() const {
    return g.groups == 1 && volume(g.in) == 1 && volume(g.out) == 1 && volume(g.kernel) == 1 &&
           g.pad[0] + g.pad[1] + g.pad[2] == 0;
  }
  int64_t tap() const { return (before[0] * whole[1] + before[1]) * whole[2] + before[2]; }
};

// A product of matrices, or `pass`, from the image `from` to the image `to`. kForward: x to y; otherwise back.
template <bool kForward, class T>
bool trimmed(const ConvGeometry& given, const T* from, const T* w, const T* bias, T* to,
             void (*pass)(const ConvGeometry&, const T*, const T*, const T*, T*)) {
  const Trim t(given);
  if (!t.any) return false;
  if (t.product()) {
    const int64_t channel = volume(t.whole), filter = t.g.ic * channel;  // from one to the next in w
    const int64_t ins = kForward ? t.g.ic : t.g.oc, outs = kForward ? t.g.oc : t.g.ic;
    Epilogue<T> e;
    e.bias_col = bias;
    gemm<T>(t.g.n, outs, ins, from, ins, 1, w + t.tap(), kForward ? channel : filter, kForward ? filter : channel, to,
            outs, e);
  } else {
    pass(t.g, from, t.filters(w).data(), bias, to);
  }
  return true;
}

}  // namespace

bool has_taps_in_padding_alone(const ConvGeometry& g) {
  for (size_t d = 0; d < 3; ++d)
    for (int64_t k = 0; k < g.kernel[d]; ++k)
      if (!meets_pixels(g, d, k)) return true;
  return false;
}

template <class T>
bool trimmed_forward(const ConvGeometry& given, const T* x, const T* w, const T* bias, T* y) {
  return trimmed<true, T>(given, x, w, bias, y, conv_forward<T>);
}

template <class T>
bool trimmed_backward_data(const ConvGeometry& given, const T* y, const T* w, const T* bias, T* x) {
  return trimmed<false, T>(given, y, w, bias, x, conv_backward_data<T>);
}

template <class T>
bool trimmed_backward_weight(const ConvGeometry& given, const T* x, const T* gy, T* gw) {
  const Trim t(given);
  if (!t.any) return false;
  const int64_t filters = t.g.oc * t.g.icg(), kv = volume(t.g.kernel), all = volume(t.whole);
  std::vector<T> left(size_t(filters * kv));
  if (t.product()) gemm<T>(t.g.oc, t.g.ic, t.g.n, gy, 1, t.g.oc, x, t.g.ic, 1, left.data(), t.g.ic, Epilogue<T>());
  else conv_backward_weight<T>(t.g, x, gy, left.data());
  std::fill_n(gw, filters * all, T(0));
  t.taps([&](int64_t k, int64_t to) {
    for (int64_t f = 0; f < filters; ++f) gw[f * all + to] = left[f * kv + k];
  });
  return true;
}

#define FLAMBEAU_TRIMMED(T)                                                                          \
  template bool trimmed_forward<T>(const ConvGeometry&, const T*, const T*, const T*, T*);           \
  template bool trimmed_backward_data<T>(const ConvGeometry&, const T*, const T*, const T*, T*);
FLAMBEAU_TRIMMED(float)
FLAMBEAU_TRIMMED(double)
FLAMBEAU_TRIMMED(uint64_t)
#undef FLAMBEAU_TRIMMED
template bool trimmed_backward_weight<float>(const ConvGeometry&, const float*, const float*, float*);
template bool trimmed_backward_weight<double>(const ConvGeometry&, const double*, const double*, double*);

}  // namespace flambeau
