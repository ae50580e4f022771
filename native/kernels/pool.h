// What pooling shares: every axis is described by the windows of its outputs. Plain pooling, whose windows are evenly
// spaced, works tap by tap on whole rows, so that the inner loop is a vector loop.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/call.h"

namespace flambeau::pool {

struct Window {
  int64_t begin, end;  // clipped to the source
  int64_t extent;      // what it counts for in a mean
};

// One place of an evenly spaced window: output o reads o * stride + base, for first <= o < last.
struct Tap {
  int64_t base, first, last;
};

struct Axis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  bool even = true;             // windows are kernel long and stride apart
  bool include_pad = false;
  std::vector<Window> windows;  // one per output, unless they are so few or many that they are better made when needed
  std::vector<Tap> taps;        // of the last axis, when it is even

  Window window(int64_t i) const { return windows.empty() ? make_window(i) : windows[i]; }
  Window make_window(int64_t i) const {
    if (!even) {
      int64_t begin = i / out * in + i % out * in / out,
          end = (i + 1) / out * in + ((i + 1) % out * in + out - 1) / out;
      return {begin, end, end - begin};
    }
    int64_t begin = i * stride - pad, end = std::min(begin + (kernel - 1) * dilation + 1, in + pad);
    int64_t skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    Window w{begin + skipped * dilation, std::min(end, in), end - begin};
    if (!include_pad) w.extent = std::max<int64_t>(0, w.end - w.begin);
    return w;
  }
  int64_t reach() const {
    return even ? std::min(kernel, (in - 1) / dilation + 1) : in / std::max<int64_t>(out, 1) + 2;
  }  // places of the source that a window visits at most
  // The places that lie inside the source for some output: windows may be far longer than the source, all in padding.
  void make_taps() {
    int64_t done = 0;
    for (int64_t o = out - 1; even && o >= 0; --o) {  // later outputs read earlier places
      int64_t before = pad - o * stride;              // places of the window ahead of the source
      int64_t k = std::max(done, before > 0 ? (before + dilation - 1) / dilation : 0);
      done = std::max(k, std::min(kernel, before + in > 0 ? (before + in - 1) / dilation + 1 : 0));
      for (; k < done; ++k) {
        int64_t base = k * dilation - pad;
        int64_t first = base >= 0 ? 0 : (-base + stride - 1) / stride;
        int64_t last = in > base ? std::min(out, (in - base + stride - 1) / stride) : 0;
        if (first < last) taps.push_back({base, first, last});
      }
    }
  }
  void tabulate() {
    if (out <= 2 || out > (1 << 16)) return;
    windows.resize(out);
    for (int64_t i = 0; i < out; ++i) windows[i] = make_window(i);
  }
};

struct Shape {
  Axis axis[3];
  int64_t planes = 1;
  int64_t channels = 0;         // of images and results whose channels lie last: max pooling then goes by pixels
  std::vector<int64_t> result;
  int64_t in() const { return axis[0].in * axis[1].in * axis[2].in; }
  int64_t out() const { return axis[0].out * axis[1].out * axis[2].out; }
  void check(const char* op) const {
    size_product(op, {axis[0].in, axis[1].in, axis[2].in});
    size_product(op, {axis[0].out, axis[1].out, axis[2].out});
  }
  // Visits of source elements per plane, and the planes that make a piece.
  double work() const {
    return double(out()) * double(axis[0].reach()) * double(axis[1].reach()) * double(axis[2].reach()) + double(in());
  }
  int64_t grain() const { return std::max<int64_t>(1, int64_t(32768 / std::max(1., work()))); }
  int64_t visits() const { return int64_t(std::min(1e15, double(planes) * work())); }
};

// An interruption point after every 256th row: a row of one window takes a nanosecond, a long one as much as 64 steps
// of the loops that Poll counts, or more.
inline void row_done(Poll& poll) {
  poll.steps += 63;
  poll();
}

// pool.cpp: what the arguments say, checked. nd: the pooled dimensions, the last ones; lead: those before them.
void check_pooled(const Call& c, int64_t nd, int64_t lead = 0);
void check_input(const Call& c, const Tensor& x, int nd, bool empty_channels = false);
// nd axes from (kernel, stride, padding, dilation); dilation may be empty.
Shape plain_shape(const Call& c, Dims sizes, int lead, Dims kernel, Dims stride, Dims pad, Dims dilation,
                  bool ceil_mode, bool include_pad);
Shape adaptive_shape(const Call& c, Dims sizes, int lead, Dims output);
Shape adaptive_of(const Call& c);  // of (self, output_size, dims)
void need_floating(const Call& c, DType t);
inline int lead_of(const Tensor& x, int nd) { return x.ndim - nd; }

// pool_mean.cpp: the means of as many windows of the first argument as `output` says, for operators that have them
// among others.
void infer_adaptive_mean(Call& c, const Tensor& x, Dims output, int nd);
void cpu_adaptive_mean(Call& c);

}  // namespace flambeau::pool
