// How a correlation runs: images padded once (and split by stride into planes whose neighbours are adjacent), register
// tiles along the flattened plane, over the few garbage columns between rows, and what threads share.
#include "correlate.h"

#include <algorithm>
#include <cstring>

#include "../core/machine.h"
#include "../core/parallel.h"
#include "gemm.h"

namespace flambeau {

const ConvKernels<float>* conv_kernels_f32[2];
const ConvKernels<double>* conv_kernels_f64[2];
const ConvKernels<uint64_t>* conv_kernels_u64[2];

template <>
const ConvKernels<float>& conv_kernels<float>() {
  static const auto& chosen = best_loops(conv_kernels_f32);
  return chosen;
}
template <>
const ConvKernels<double>& conv_kernels<double>() {
  static const auto& chosen = best_loops(conv_kernels_f64);
  return chosen;
}
template <>
const ConvKernels<uint64_t>& conv_kernels<uint64_t>() {
  static const auto& chosen = best_loops(conv_kernels_u64);
  return chosen;
}

namespace {

// Rows of images are short: a call of memcpy costs more than their bytes.
template <class T>
void copy_row(T* to, const T* from, int64_t n) {
  constexpr int64_t W = 32 / sizeof(T);
  if (n < W) {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = from[i];
      asm volatile("" ::: "memory");  // keeps the compiler from making it that call
    }
    return;
  }
  for (int64_t i = 0; i + W < n; i += W) std::memcpy(to + i, from + i, 32);
  std::memcpy(to + n - W, from + n - W, 32);
}

}  // namespace

template <class T>
void lay_out(const PhaseLayout& l, const T* source, T* to, int64_t phase_stride, const std::vector<char>& used) {
  for (int64_t phase = 0; phase < l.phases(); ++phase) {
    if (!used[phase]) continue;
    Three r = {phase / (l.step[1] * l.step[2]), phase / l.step[2] % l.step[1], phase % l.step[2]};
    T* plane = to + phase * phase_stride;
    // columns whose source index s = q * step + r + start lies in the row
    int64_t base = r[2] + l.start[2], step = l.step[2];
    int64_t first = base >= 0 ? 0 : (-base + step - 1) / step;
    int64_t last = l.source[2] > base ? (l.source[2] - base + step - 1) / step : 0;
    first = std::min(first, l.count[2]), last = std::max(first, std::min(last, l.count[2]));
    if (!l.covered()) std::fill_n(plane, l.plane(), T(0));
    for (int64_t d = 0; d < l.count[0]; ++d) {
      int64_t sd = d * l.step[0] + r[0] + l.start[0];
      for (int64_t h = 0; h < l.count[1]; ++h, plane += l.count[2]) {
        int64_t sh = h * l.step[1] + r[1] + l.start[1];
        if (sd < 0 || sd >= l.source[0] || sh < 0 || sh >= l.source[1]) continue;
        const T* row = source + (sd * l.source[1] + sh) * l.source[2] + base;
        if (step == 1) copy_row(plane + first, row + first, last - first);
        else if (step == 2) for (int64_t q = first; q < last; ++q) plane[q] = row[2 * q];
        else for (int64_t q = first; q < last; ++q) plane[q] = row[step * q];
      }
    }
  }
}

namespace {

// Whether the flattened plane has no gaps between the rows of results.
template <class T>
bool dense(const Correlation<T>& c) {
  const int64_t q1 = c.layout.count[1], q2 = c.layout.count[2];
  return c.out_stride[2] == 1 && (q2 == c.out[2] || c.out[0] * c.out[1] == 1) &&
         (c.out_stride[1] == q2 || c.out[1] == 1) && (c.out[0] == 1 || c.out_stride[0] == q1 * q2);
}

// A part of a row of results, in the laid-out image and in the result.
struct Piece {
  int64_t from, to;
  int cols;
};

// The rows of results in pieces as wide as a tile or less, where they fill the vectors they are cut into about as well
// as results fill a tile of the flattened plane, from which they are brought to their places afterwards.
template <class T>
std::vector<Piece> pieces_of(const Correlation<T>& c) {
  const auto& kernels = conv_kernels<T>();
  const int64_t cols = c.out[2], vectors = (cols + kernels.width - 1) / kernels.width;
  std::vector<Piece> pieces;
  if (dense(c) || c.out_stride[2] != 1 || cols < kernels.width) return pieces;
  if (4 * vectors * kernels.width > 5 * c.layout.count[2]) return pieces;
  const int64_t parts = (vectors * kernels.width + kernels.nr - 1) / kernels.nr;
  for (int64_t d = 0; d < c.out[0]; ++d)
    for (int64_t h = 0; h < c.out[1]; ++h)
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = cols * part / parts, end = cols * (part + 1) / parts;
        pieces.push_back({(d * c.layout.count[1] + h) * c.layout.count[2] + begin,
                          d * c.out_stride[0] + h * c.out_stride[1] + begin, int(end - begin)});
      }
  return pieces;
}

// Which columns of each tile are results, as runs; the same for every image and group. Empty: the plane has no gaps.
struct Cuts {
  std::vector<Segment> segments;
  std::vector<int32_t> first;  // of each tile, and the end
};

template <class T>
Cuts cuts_of(const Correlation<T>& c, int64_t length, int64_t tiles, int64_t nr) {
  const int64_t q1 = c.layout.count[1], q2 = c.layout.count[2];
  Cuts cuts;
  if (dense(c)) return cuts;
  for (int64_t t = 0; t < tiles; ++t) {
    cuts.first.push_back(int32_t(cuts.segments.size()));
    const int64_t stop = std::min((t + 1) * nr, length);
    for (int64_t at = t * nr; at < stop;) {
      int64_t w = at % q2, row = at / q2, h = row % q1, d = row / q1, run = std::min(stop - at, q2 - w);
      if (h < c.out[1] && w < c.out[2])
        cuts.segments.push_back({int32_t(at - t * nr), int32_t(std::min(run, c.out[2] - w)),
                                 d * c.out_stride[0] + h * c.out_stride[1] + w * c.out_stride[2]});
      at += run;
    }
  }
  cuts.first.push_back(int32_t(cuts.segments.size()));
  return cuts;
}

// Some tiles (or, of a lone filter, some lines) of one group's result.
template <class T>
struct Tiles {
  const Correlation<T>& c;
  const std::vector<int64_t> offset;  // of each (channel, tap) in the laid-out image
  const int64_t length;               // of the flattened plane, as far as there are results
  const std::vector<Piece> pieces = c.by_lines() ? std::vector<Piece>() : pieces_of(c);
  const int64_t count = c.by_lines()   ? c.out[0] * c.out[1]
                        : pieces.empty() ? (length + conv_kernels<T>().nr - 1) / conv_kernels<T>().nr
                                         : int64_t(pieces.size());
  const Cuts cuts = c.by_lines() || !pieces.empty() ? Cuts() : cuts_of(c, length, count, conv_kernels<T>().nr);

  void lines(const T* x, T* y, int64_t group, int64_t begin, int64_t end) const;
  void tile(const T* filters, const T* x, T* y, int64_t group, int64_t panel, int64_t t) const;
  void run(const T* x, T* y, int64_t group, int64_t begin, int64_t end) const;
};

template <class T>
void Tiles<T>::lines(const T* x, T* y, int64_t group, int64_t begin, int64_t end) const {
  const auto& kernels = conv_kernels<T>();
  const int64_t mr = kernels.mr, k = c.depth();
  const T* filters = c.filters.data() + group * mr * k;
  for (int64_t t = begin; t < end; ++t) {
    int64_t d = t / c.out[1], h = t % c.out[1];
    kernels.line(k, filters, mr, x + (d * c.layout.count[1] + h) * c.layout.count[2], offset.data(),
                 y + c.y_start + d * c.out_stride[0] + h * c.out_stride[1], c.out[2], c.bias ? c.bias[group] : T(0));
  }
}

template <class T>
void Tiles<T>::tile(const T* filters, const T* x, T* y, int64_t group, int64_t p, int64_t t) const {
  const auto& kernels = conv_kernels<T>();
  const int64_t mr = kernels.mr, nr = kernels.nr, k = c.depth();
  const int rows = int(std::min(mr, c.rows - p * mr));
  const T* bias = c.bias ? c.bias + group * c.rows + p * mr : nullptr;
  const T* a = filters + p * mr * k;
  T* to = y + p * mr * c.y_channel + c.y_start;
  if (!pieces.empty()) {
    const Piece& at = pieces[size_t(t)];
    return kernels.tile(k, a, x + at.from, offset.data(), to + at.to, c.y_channel, rows, at.cols, bias);
  }
  const int cols = int(std::min(nr, length - t * nr));
  if (cuts.first.empty())
    return kernels.tile(k, a, x + t * nr, offset.data(), to + t * nr, c.y_channel, rows, cols, bias);
  alignas(64) T tile[8 * 48];
  kernels.tile(k, a, x + t * nr, offset.data(), tile, nr, rows, cols, bias);
  kernels.scatter(tile, nr, rows, to, c.y_channel, c.out_stride[2], cuts.segments.data() + cuts.first[t],
                  cuts.first[t + 1] - cuts.first[t]);
}

template <class T>
void Tiles<T>::run(const T* x, T* y, int64_t group, int64_t begin, int64_t end) const {
  if (c.by_lines()) return lines(x, y, group, begin, end);
  const int64_t mr = conv_kernels<T>().mr, k = c.depth(), panels = (c.rows + mr - 1) / mr;
  const T* filters = c.filters.data() + group * panels * mr * k;
  const int64_t image = c.channels * c.layout.plane() * int64_t(sizeof(T));
  const int64_t weights = panels * mr * k * int64_t(sizeof(T));
  if (image > (8 << 10) && weights <= (512 << 10)) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t p = 0; p < panels; ++p) tile(filters, x, y, group, p, t);
  } else {  // an image that stays in the nearest cache, or filters larger than any: each panel of them passes once
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t t = begin; t < end; ++t) tile(filters, x, y, group, p, t);
  }
}

// One correlation while it runs: how its images are reached, and how the work is divided.
template <class T>
struct Run {
  const Correlation<T>& c;
  const T* x;
  T* y;
  const PhaseLayout& l = c.layout;
  const bool in_place = l.in_place();
  const int64_t all = c.groups * c.channels, channel = in_place ? c.x_channel : l.phases() * l.plane();
  const int64_t y_image = c.groups * c.rows * c.y_channel, x_image = all * c.x_channel;
  const int64_t length = ((c.out[0] - 1) * l.count[1] + c.out[1] - 1) * l.count[2] + c.out[2];
  const std::vector<char> used = used_phases();
  const Tiles<T> tiles{c, offsets(), length};
  const int64_t count = tiles.count;

  std::vector<char> used_phases() const {
    std::vector<char> used(l.phases(), 0);
    for (const Three& z : c.taps) used[l.phase_of(z)] = 1;
    return used;
  }
  std::vector<int64_t> offsets() const {
    std::vector<int64_t> offset;
    offset.reserve(c.depth());
    for (int64_t k = 0; k < c.channels; ++k)
      for (const Three& z : c.taps) offset.push_back(k * channel + l.phase_of(z) * l.plane() + l.place_of(z));
    return offset;
  }
  void prepare(int64_t image, int64_t k, T* to) const {
    lay_out(l, x + image * x_image + k * c.x_channel, to, l.plane(), used);
  }
  void by_images(int64_t grain) const;
  void by_pieces() const;
};

// Each thread lays out and computes whole images.
template <class T>
void Run<T>::by_images(int64_t grain) const {
  parallel_for(c.n, grain, [&](int64_t i, int64_t end) {
    T* mine = in_place ? nullptr : scratch<T>(kScratchA, all * channel);
    for (; i < end; ++i) {
      for (int64_t k = 0; k < all && !in_place; ++k) prepare(i, k, mine + k * channel);
      const T* image = in_place ? x + i * x_image : mine;
      for (int64_t g = 0; g < c.groups; ++g)
        tiles.run(image + g * c.channels * channel, y + i * y_image + g * c.rows * c.y_channel, g, 0, count);
    }
  });
}

// All images are laid out first; then threads share their tiles.
template <class T>
void Run<T>::by_pieces() const {
  const T* images = x;
  if (!in_place) {
    T* to = scratch<T>(kScratchA, c.n * all * channel);
    parallel_for(c.n * all, std::max<int64_t>(1, 16384 / channel), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) prepare(i / all, i % all, to + i * channel);
    });
    images = to;
  }
  const int64_t pieces = std::min(count, std::max<int64_t>(1, 4 * num_threads() / (c.n * c.groups)));
  parallel_for(c.n * c.groups * pieces, 1, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      int64_t piece = i % pieces, g = i / pieces % c.groups, image = i / pieces / c.groups;
      tiles.run(images + (image * all + g * c.channels) * channel, y + image * y_image + g * c.rows * c.y_channel, g,
                count * piece / pieces, count * (piece + 1) / pieces);
    }
  });
}

}  // namespace

template <class T>
void correlate(const Correlation<T>& c, const T* x, T* y) {
  const Run<T> run{c, x, y};
  const int64_t work = c.n * c.groups * c.rows * c.depth() * run.length;  // multiplications
  if (c.n >= 2 * num_threads() || work < (1 << 18) || (run.in_place && c.n >= num_threads()))
    return run.by_images(std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, work / c.n)));
  run.by_pieces();
}

template <class T>
void pack_filters(Correlation<T>& c, const T* w, int64_t group_step, int64_t row_step, int64_t channel_step,
                  const std::vector<int64_t>& tap_at) {
  const int64_t mr = conv_kernels<T>().mr, taps = int64_t(tap_at.size()), k = c.depth();
  const int64_t panels = (c.rows + mr - 1) / mr;
  c.filters.resize(size_t(c.groups * panels * mr * k));
  T* to = c.filters.data();
  for (int64_t g = 0; g < c.groups; ++g)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t ch = 0; ch < c.channels; ++ch)
        for (int64_t t = 0; t < taps; ++t, to += mr)
          for (int64_t r = 0; r < mr; ++r)
            to[r] = p * mr + r < c.rows ? w[g * group_step + (p * mr + r) * row_step + ch * channel_step + tap_at[t]]
                : T(0);
}

#define FLAMBEAU_CORRELATE(T)                                                                              \
  template void lay_out<T>(const PhaseLayout&, const T*, T*, int64_t, const std::vector<char>&);           \
  template void correlate<T>(const Correlation<T>&, const T*, T*);                                         \
  template void pack_filters<T>(Correlation<T>&, const T*, int64_t, int64_t, int64_t, const std::vector<int64_t>&);
FLAMBEAU_CORRELATE(float)
FLAMBEAU_CORRELATE(double)
FLAMBEAU_CORRELATE(uint64_t)
#undef FLAMBEAU_CORRELATE

}  // namespace flambeau
