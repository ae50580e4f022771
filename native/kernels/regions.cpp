// Regions of images pooled to a fixed grid of bins: roi_align, ps_roi_align, ps_roi_pool and roi_pool.
//
// In all of them a bin is a product of the two axes: some rows times some columns. So a region is two lists of taps (a
// position and its weight), one per axis, and the four operators differ in how an axis is laid out (Axis<T>), and in
// which plane a bin reads. The weighted sums (all but roi_pool) are computed one axis after the other, rows first,
// because rows are contiguous; their gradients scatter in the opposite order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "widened.h"

namespace flambeau {
namespace {

enum Kind { Align, PlacedAlign, PlacedPool, Max };  // Placed: every bin has input channels of its own

struct Pooling {
  Kind kind;
  double scale;
  int64_t bins[2];   // rows, columns
  int64_t sampling;  // samples per bin and axis; zero or less: one per pixel
  bool aligned;      // coordinates name centres of pixels, and regions may be smaller than one
  int64_t regions, batch, channels, height, width;
  bool placed() const { return kind == PlacedAlign || kind == PlacedPool; }
  int64_t area() const { return bins[0] * bins[1]; }
  int64_t planes() const { return placed() ? channels / area() : channels; }  // of the result
};

constexpr double kMostSamples = 1 << 20;
template <class T>
constexpr DType wide = std::is_same_v<T, double> ? DType::Float64 : DType::Float32;

// One axis of a region: bin b reads the positions at[first[b]] … at[first[b + 1] - 1] and divides by share[b].
template <class T>
struct Axis {
  std::vector<int32_t> at, first;
  std::vector<T> weight, share;
  int32_t low = 0, high = 0;  // all positions lie in [low, high)

  void begin(int64_t bins) {
    at.clear(), weight.clear();
    first.assign(1, 0), share.clear();
    low = INT32_MAX, high = 0;
    first.reserve(bins + 1), share.reserve(bins);
  }
  void tap(int64_t position, T w) {
    const int32_t p = int32_t(position);
    const int32_t known = int32_t(at.size());
    for (int32_t k = std::max(first.back(), known - 2); k < known; ++k)  // neighbouring samples share pixels
      if (at[k] == p) {
        weight[k] += w;
        return;
      }
    at.push_back(p), weight.push_back(w);
    low = std::min(low, p), high = std::max(high, p + 1);
  }
  void end_bin(T divisor) {
    first.push_back(int32_t(at.size()));
    share.push_back(divisor);
  }
  int64_t span() const { return std::max(0, high - low); }

  // A sample between two pixels; up to one pixel outside it takes the edge, farther away nothing.
  void sample(T x, int64_t size) {
    if (size == 0 || !(x >= T(-1) && x <= T(size))) return;
    x = std::max(x, T(0));
    const int64_t left = int64_t(x);
    if (left >= size - 1) return tap(size - 1, T(1));
    const T part = x - T(left);
    tap(left, T(1) - part);
    tap(left + 1, part);
  }

  void lay_samples(const Pooling& p, T from, T to, int64_t bins, int64_t size) {
    const T half = p.aligned ? T(0.5) : T(0), scale = T(p.scale);
    const T start = from * scale - half, stop = to * scale - half;
    T extent = stop - start;
    if (!p.aligned) extent = std::max(extent, T(1));
    const T width = extent / T(bins), wanted = std::ceil(width);
    if (p.sampling <= 0 && wanted > T(kMostSamples))
      runtime_error("roi_align: a region from ", from, " to ", to, " with spatial_scale=", p.scale, " has ", wanted,
                    " samples per bin; give sampling_ratio, or clip the boxes to the image");
    const int64_t samples = p.sampling > 0 ? p.sampling : wanted > 0 ? int64_t(wanted) : 0;
    for (int64_t b = 0; b < bins; ++b) {
      for (int64_t i = 0; i < samples; ++i) sample(start + T(b) * width + (T(i) + T(0.5)) * width / T(samples), size);
      end_bin(T(std::max<int64_t>(samples, 1)));
    }
  }

  // Whole pixels: `least` is the smallest extent of a region, `inclusive` counts its last pixel, and `beyond` is where
  // positions end.
  void lay_pixels(const Pooling& p, T from, T to, int64_t bins, int64_t inclusive, int64_t beyond) {
    auto pixel = [&](T x) {
      const T r = std::round(x * T(p.scale));
      return r > T(-1e9) && r < T(1e9) ? int64_t(r) : r > 0 ? int64_t(1e9) : int64_t(-1e9);  // NaN: far outside
    };
    const int64_t start = pixel(from), extent = std::max<int64_t>(pixel(to) - start + inclusive, 1);
    const T width = T(extent) / T(bins);
    for (int64_t b = 0; b < bins; ++b) {
      const int64_t left = std::clamp<int64_t>(int64_t(std::floor(T(b) * width)) + start, 0, beyond),
                    right = std::clamp<int64_t>(int64_t(std::ceil(T(b + 1) * width)) + start, 0, beyond);
      for (int64_t x = left; x < right; ++x) tap(x, T(1));
      end_bin(T(std::max<int64_t>(right - left, 1)));
    }
  }

  void lay(const Pooling& p, int axis, T from, T to) {
    const int64_t bins = p.bins[axis], size = axis ? p.width : p.height;
    begin(bins);
    if (p.kind == Max) lay_pixels(p, from, to, bins, 1, size);
    else if (p.kind == PlacedPool) lay_pixels(p, from, to, bins, 0, std::max<int64_t>(size - 1, 0));
    else lay_samples(p, from, to, bins, size);
    if (high == 0) low = 0;
  }
};

// A region's box as its row of `rois` holds it, copied once: other threads may write there meanwhile.
template <class T>
struct Box {
  int64_t image;
  T x1, y1, x2, y2;
};

template <class T>
struct Region {
  Axis<T> rows, columns;
  std::vector<T> line;  // one row of bins, spread over the columns' span

  void lay(const Pooling& p, const Box<T>& box) {
    rows.lay(p, 0, box.y1, box.y2);
    columns.lay(p, 1, box.x1, box.x2);
    line.resize(columns.span());
  }
};

template <class T>
T across(const Axis<T>& columns, int64_t bin, const T* line) {  // line begins at columns.low
  T sum = 0;
  for (int32_t k = columns.first[bin]; k < columns.first[bin + 1]; ++k)
    sum += columns.weight[k] * line[columns.at[k] - columns.low];
  return sum;
}

// Adds a bin row's weighted rows of the plane into `line`, or (Scatter) the line into those rows.
template <bool Scatter, class T, class P>
void down(const Region<T>& r, int64_t bin, P* plane, int64_t width, T* __restrict line) {
  const int64_t n = r.columns.span();
  for (int32_t k = r.rows.first[bin]; k < r.rows.first[bin + 1]; ++k) {
    P* __restrict row = plane + r.rows.at[k] * width + r.columns.low;
    const T w = r.rows.weight[k];
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (Scatter) row[i] += w * line[i];
      else line[i] += w * row[i];
    }
  }
}

template <class T>
void pool_plane(const Pooling& p, Region<T>& r, const T* plane, T* out) {
  for (int64_t i = 0; i < p.bins[0]; ++i) {
    std::fill(r.line.begin(), r.line.end(), T(0));
    down<false>(r, i, plane, p.width, r.line.data());
    for (int64_t j = 0; j < p.bins[1]; ++j)
      out[i * p.bins[1] + j] = across(r.columns, j, r.line.data()) / (r.rows.share[i] * r.columns.share[j]);
  }
}

template <class T>
void spread_plane(const Pooling& p, Region<T>& r, T* plane, const T* grad) {
  for (int64_t i = 0; i < p.bins[0]; ++i) {
    std::fill(r.line.begin(), r.line.end(), T(0));
    for (int64_t j = 0; j < p.bins[1]; ++j) {
      const T g = grad[i * p.bins[1] + j] / (r.rows.share[i] * r.columns.share[j]);
      for (int32_t k = r.columns.first[j]; k < r.columns.first[j + 1]; ++k)
        r.line[r.columns.at[k] - r.columns.low] += r.columns.weight[k] * g;
    }
    down<true>(r, i, plane, p.width, r.line.data());
  }
}

// One bin by itself, as position-sensitive pooling has it: read, or written with its gradient.
template <bool Scatter, class T, class P>
void one_bin(const Pooling& p, const Region<T>& r, int64_t i, int64_t j, P* plane, T& value) {
  const T share = r.rows.share[i] * r.columns.share[j], g = value / share;
  T sum = 0;
  for (int32_t k = r.rows.first[i]; k < r.rows.first[i + 1]; ++k) {
    P* row = plane + r.rows.at[k] * p.width;
    if constexpr (Scatter)
      for (int32_t q = r.columns.first[j]; q < r.columns.first[j + 1]; ++q)
        row[r.columns.at[q]] += r.rows.weight[k] * r.columns.weight[q] * g;
    else sum += r.rows.weight[k] * across(r.columns, j, row + r.columns.low);
  }
  if constexpr (!Scatter) value = sum / share;
}

// The first largest pixel, row by row.
template <class T>
void max_plane(const Pooling& p, const Region<T>& r, const T* plane, T* out, int32_t* where) {
  const int32_t *y = r.rows.at.data(), *x = r.columns.at.data();
  for (int64_t i = 0, bin = 0; i < p.bins[0]; ++i)
    for (int64_t j = 0; j < p.bins[1]; ++j, ++bin) {
      const int32_t top = r.rows.first[i], bottom = r.rows.first[i + 1], left = r.columns.first[j],
                    columns = r.columns.first[j + 1] - left;
      T most = std::numeric_limits<T>::lowest();
      int32_t place = -1;
      for (int32_t k = top; k < bottom && columns; ++k) {
        const int32_t at = y[k] * int32_t(p.width) + x[left];
        const T* row = plane + at;
        for (int32_t q = 0; q < columns; ++q)
          if (__builtin_expect(row[q] > most, 0)) most = row[q], place = at + q;
      }
      out[bin] = top == bottom || columns == 0 ? T(0) : most;
      where[bin] = place;
    }
}

template <class T>
void to_maxima(const T* grad, const int32_t* where, int64_t bins, int64_t size, T* plane) {
  for (int64_t k = 0; k < bins; ++k)
    if (const int64_t at = where[k]; uint64_t(at) < uint64_t(size)) plane[at] += grad[k];  // -1: an empty bin
}

template <class T>
std::vector<Box<T>> boxes_of(const Call& c, const Pooling& p, const Tensor& rois) {
  TensorRef dense = contiguous(*to_dtype(rois, wide<T>));
  const T* row = dense->ptr<T>();
  std::vector<Box<T>> boxes(p.regions);
  for (auto& b : boxes) {
    const T image = *row;
    if (!(image >= 0 && image < T(p.batch)))
      index_error(c.name(), ": the first number of a region is its image, from 0 to ", p.batch - 1, "; got ", image);
    b = {int64_t(image), row[1], row[2], row[3], row[4]};
    row += 5;
  }
  return boxes;
}

int64_t work_of(const Pooling& p) { return p.planes() * p.area() * 8; }  // about; of one region

template <class T>
void forward(const Pooling& p, const std::vector<Box<T>>& boxes, const T* x, T* y, int32_t* where) {
  const int64_t plane = p.height * p.width;
  parallel_for(p.regions, std::max<int64_t>(1, 65536 / (work_of(p) + 1)), [&](int64_t k, int64_t end) {
    Region<T> r;
    for (; k < end; ++k) {
      r.lay(p, boxes[k]);
      const T* image = x + boxes[k].image * p.channels * plane;
      for (int64_t c = 0; c < p.planes(); ++c) {
        const int64_t to = (k * p.planes() + c) * p.area();
        if (p.kind == Max) max_plane(p, r, image + c * plane, y + to, where + to);
        else if (p.kind == Align) pool_plane(p, r, image + c * plane, y + to);
        else
          for (int64_t bin = 0; bin < p.area(); ++bin) {
            const int64_t from = c * p.area() + bin;
            one_bin<false>(p, r, bin / p.bins[1], bin % p.bins[1], image + from * plane, y[to + bin]);
            where[to + bin] = int32_t(from);
          }
      }
    }
  });
}

// A thread has channels of its own, so that no two add to one pixel and the order of sums is that of the regions.
template <class T>
void backward(const Pooling& p, const std::vector<Box<T>>& boxes, const T* g, const int32_t* where, T* to) {
  const int64_t plane = p.height * p.width;
  std::fill(to, to + p.batch * p.channels * plane, T(0));
  const int64_t work = p.regions * p.area() * 8 + 1;
  parallel_for(p.planes(), std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    Region<T> r;
    for (int64_t k = 0; k < p.regions; ++k) {
      if (p.kind != Max) r.lay(p, boxes[k]);
      T* image = to + boxes[k].image * p.channels * plane;
      for (int64_t c = begin; c < end; ++c) {
        const int64_t at = (k * p.planes() + c) * p.area();
        const T* from = g + at;
        if (p.kind == Align) spread_plane(p, r, image + c * plane, from);
        else if (p.kind == Max) to_maxima(from, where + at, p.area(), plane, image + c * plane);
        else
          for (int64_t bin = 0; bin < p.area(); ++bin) {
            T value = from[bin];
            one_bin<true>(p, r, bin / p.bins[1], bin % p.bins[1], image + (c * p.area() + bin) * plane, value);
          }
      }
    }
  });
}

// Arguments: the tensor, rois, (backward of roi_pool: the places of its maxima,) spatial_scale, pooled_height,
// pooled_width, (backward: the four sizes of the input,) then sampling_ratio and aligned where the operator has them.
template <Kind kind, bool backwards>
Pooling described(Call& c) {
  const Tensor &x = c.tensor(0), &rois = c.tensor(1);
  if (!is_floating(x.dtype) || rois.dtype != x.dtype)
    runtime_error(c.name(), ": expected input and rois of one floating-point dtype, got ", dtype_name(x.dtype), " and ",
                  dtype_name(rois.dtype));
  if (x.ndim != 4 || rois.ndim != 2 || rois.size(1) != 5)
    runtime_error(c.name(), ": expected 4 dimensions and rois of shape [K, 5], got ", shape_text(x.shape()), " and ",
                  shape_text(rois.shape()));
  const int at = kind == Max && backwards ? 3 : 2, rest = at + (backwards ? 7 : 3);
  Pooling p{kind, c.real(at), {c.integer(at + 1), c.integer(at + 2)}, 0, kind == PlacedAlign, rois.size(0)};
  int64_t* sizes[] = {&p.batch, &p.channels, &p.height, &p.width};
  for (int d = 0; d < 4; ++d) *sizes[d] = backwards ? c.integer(at + 3 + d) : x.size(d);
  if (kind == Align || kind == PlacedAlign) p.sampling = c.integer(rest);
  if (kind == Align) p.aligned = c.boolean(rest + 1);
  if (p.bins[0] < 1 || p.bins[1] < 1)
    runtime_error(c.name(), ": the output size must be positive, got ", p.bins[0], "x", p.bins[1]);
  if (double(p.sampling) > kMostSamples)
    runtime_error(c.name(), ": sampling_ratio must be at most ", int64_t(kMostSamples), ", got ", p.sampling);
  if (p.placed() && p.channels % size_product(c.name(), {p.bins[0], p.bins[1]}))
    runtime_error(c.name(), ": ", p.channels, " channels cannot be shared among ", p.bins[0], "x", p.bins[1],
                  " bins; their number must be a multiple of ", p.area());
  if (std::min({p.batch, p.channels, p.height, p.width}) < 0 || size_product(c.name(), {p.height, p.width}) > INT32_MAX)
    runtime_error(c.name(), ": sizes must not be negative, and images have at most 2^31 pixels, got ", p.height, "x",
                  p.width);
  return p;
}

template <Kind kind>
void infer(Call& c) {
  const Pooling p = c.hand_over(described<kind, false>(c));
  const int64_t shape[] = {p.regions, p.planes(), p.bins[0], p.bins[1]};
  c.output(shape, c.tensor(0).dtype, c.tensor(0).device);
  if (kind != Align) c.output(shape, DType::Int32, c.tensor(0).device);
}

template <class T>
void compute(Call& c, const Pooling& p) {
  const auto boxes = boxes_of<T>(c, p, c.tensor(1));
  WideResult y(c.out());
  TensorRef x = y.operand(c.tensor(0));
  {
    LockRelease lock(p.regions * work_of(p));
    forward(p, boxes, x->ptr<T>(), y.ptr<T>(), c.nout() > 1 ? c.out(1).ptr<int32_t>() : nullptr);
  }
  y.finish();
}
void cpu(Call& c) {
  const Pooling p = c.handed<Pooling>();
  if (sum_dtype(c.out().dtype) == DType::Float64) compute<double>(c, p);
  else compute<float>(c, p);
}

template <Kind kind>
void infer_backward(Call& c) {
  const Pooling p = c.hand_over(described<kind, true>(c));
  const int64_t wanted[] = {p.regions, p.planes(), p.bins[0], p.bins[1]};
  if (!std::ranges::equal(c.tensor(0).shape(), wanted))
    runtime_error(c.name(), ": the gradient must have shape ", shape_text(wanted), ", got ",
                  shape_text(c.tensor(0).shape()));
  if (kind == Max && (c.tensor(2).dtype != DType::Int32 || !std::ranges::equal(c.tensor(2).shape(), wanted)))
    runtime_error(c.name(), ": argmax must be int32 of shape ", shape_text(wanted), ", got ",
                  dtype_name(c.tensor(2).dtype), " ", shape_text(c.tensor(2).shape()));
  const int64_t shape[] = {p.batch, p.channels, p.height, p.width};
  c.output(shape, c.tensor(0).dtype, c.tensor(0).device);
}

template <class T>
void compute_backward(Call& c, const Pooling& p) {
  const auto boxes = boxes_of<T>(c, p, c.tensor(1));
  WideResult to(c.out());
  TensorRef g = to.operand(c.tensor(0)), where = contiguous(c.tensor(p.kind == Max ? 2 : 0));
  {
    LockRelease lock(p.regions * work_of(p) + c.out().numel);
    backward(p, boxes, g->ptr<T>(), where->ptr<int32_t>(), to.ptr<T>());
  }
  to.finish();
}
void cpu_backward(Call& c) {
  const Pooling p = c.handed<Pooling>();
  if (sum_dtype(c.out().dtype) == DType::Float64) compute_backward<double>(c, p);
  else compute_backward<float>(c, p);
}

const Primitives rows{
    {"roi_align", infer<Align>, cpu},
    {"ps_roi_align", infer<PlacedAlign>, cpu},
    {"ps_roi_pool", infer<PlacedPool>, cpu},
    {"roi_pool", infer<Max>, cpu},
    {"_roi_pool_backward", infer_backward<Max>, cpu_backward},
    {"_roi_align_backward", infer_backward<Align>, cpu_backward},
    {"_ps_roi_align_backward", infer_backward<PlacedAlign>, cpu_backward},
    {"_ps_roi_pool_backward", infer_backward<PlacedPool>, cpu_backward},
};

}  // namespace
}  // namespace flambeau
