// Correlations of images with small filters, which every pass of a convolution is made of.
#pragma once
#include <vector>

#include "conv.h"

namespace flambeau {

template <class T> const ConvKernels<T>& conv_kernels();

// How an image is laid out for a correlation. Along each axis the place z >= 0 means source index z + start;
// places with the same remainder by `step` (a phase) lie next to each other, `count` of them.
struct PhaseLayout {
  Three source, start, step, count;
  int64_t plane() const { return volume(count); }
  int64_t phases() const { return volume(step); }
  bool in_place() const {
    return phases() == 1 && start == Three{0, 0, 0} && count == source;
  }
  bool covered() const {  // every place of the layout is a place of the source
    for (int d = 0; d < 3; ++d)
      if (start[d] < 0 || count[d] * step[d] + start[d] > source[d]) return false;
    return true;
  }
  int64_t phase_of(const Three& z) const {
    return (z[0] % step[0] * step[1] + z[1] % step[1]) * step[2] + z[2] % step[2];
  }
  int64_t place_of(const Three& z) const {
    return (z[0] / step[0] * count[1] + z[1] / step[1]) * count[2] + z[2] / step[2];
  }
};

// One channel into planes `phase_stride` apart; places outside the source are zero. Phases nobody reads are skipped.
template <class T>
void lay_out(const PhaseLayout& l, const T* source, T* to, int64_t phase_stride, const std::vector<char>& used);

// A correlation of `channels` planes per group with `rows` filters per group: y[r, o] = bias[r] + sum of
// a[r, k] x[o + tap k].
template <class T>
struct Correlation {
  PhaseLayout layout;
  Three out, out_stride;        // the result's extents, and strides between its elements
  int64_t n, groups, channels, rows;
  int64_t x_channel;            // distance of source channels
  int64_t y_channel, y_start;   // distance of result channels; where the first element lies
  std::vector<Three> taps;
  std::vector<T> filters;       // packed [group][panel][k][mr]
  const T* bias = nullptr;

  int64_t depth() const { return channels * int64_t(taps.size()); }
  // A lone filter (depthwise) gains nothing from tiles: whole lines of the result, as many vectors as they are long.
  bool by_lines() const { return rows == 1 && out_stride[2] == 1 && out[2] >= 8; }
};

// Weights [group][row][channel][tap]: strides say where; packed for the tiles.
template <class T>
void pack_filters(Correlation<T>& c, const T* w, int64_t group_step, int64_t row_step, int64_t channel_step,
                  const std::vector<int64_t>& tap_at);
template <class T>
void correlate(const Correlation<T>& c, const T* x, T* y);

}  // namespace flambeau
