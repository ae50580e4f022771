// Images resized: every axis gets a table of taps (places and weights), and a plane is resized by the product of its
// axes' tables. Nearest, linear and cubic, plain or averaged over the pixels that one output covers (antialias).
//
// The order of the sums, and which products are fused with one, are PyTorch's (the compiler fuses none in these files):
// a picture of bytes is rounded after it was resized in floats, and exact ties are common in it.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/call.h"

namespace flambeau::resizing {

enum class Mode : uint8_t { Nearest, NearestExact, Linear, Cubic, Lanczos, Area };

// Output o of an axis is the sum of weight[o * taps + k] * input[place[o * taps + k]]; unused taps have weight 0.
template <class T>
struct Axis {
  int64_t in = 1, out = 1, taps = 1;
  bool copies = true;  // output o is input o
  std::vector<int64_t> place;
  std::vector<T> weight;
  std::vector<int64_t> count;  // of an averaging axis: how many taps of each output are used
  void add(int64_t o, int64_t k, int64_t at, T w) {
    place[o * taps + k] = std::clamp<int64_t>(at, 0, in - 1);
    weight[o * taps + k] = w;
  }
};

struct Plan {
  Mode mode;
  bool align, antialias;
  int nd;
  int64_t size[3];    // of the result
  double factors[3];  // what the user scaled by, 0 where the ratio of the sizes counts
  Dims sizes() const { return {size, size_t(nd)}; }
};

// resize_plan.cpp: what the arguments of interpolate and of resize_backward say, checked.
Plan plan_of(const Call& c);
Plan plan_of_backward(const Call& c);
void check_sizes(const Call& c, DType dtype, Dims in, Dims out);

// resize_axes.cpp: the three axes of an input of sizes `in`, for float and double; missing ones have one pixel.
template <class T> std::vector<Axis<T>> axes_of(const Plan& p, const int64_t* in);

void resize_bytes(const Plan& p, const Tensor& x, Tensor& y);  // resize_bytes.cpp

}  // namespace flambeau::resizing
