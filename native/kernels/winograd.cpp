// How minimal filtering goes through an image: blocks of patches that stay in a core's cache are turned into their
// sums, multiplied by the weights' sums, a panel of filters at a time, and turned into places of the result at once.
#include "winograd.h"

#include <algorithm>

#include "../core/machine.h"
#include "../core/parallel.h"
#include "gemm.h"
#include "float_parts.h"

namespace flambeau {

const WinogradKernels* winograd_kernels_f32[2];

namespace {

constexpr int kPoints = 16;                     // sums of a patch
constexpr int64_t kCacheNumbers = 160 << 10;    // of a block, in a core's second cache
constexpr int64_t kMostPatches = 96;
constexpr int64_t kSummedPatches = 256;         // of one block of a sum over them
constexpr int64_t kMostWide = 64;               // filters of a panel
constexpr int64_t kChannels = 16;               // whose weights are turned into sums together
constexpr int64_t kTogether = 64;               // channels whose patches' sums are split together

const WinogradKernels& loops() {
  static const auto& chosen = best_loops(winograd_kernels_f32);
  return chosen;
}

// A convolution with stride 1, or the gradient of its input, which is another one.
struct Planes {
  int64_t n, channels, filters;
  int64_t in[2], out[2], pad[2];

  Planes(const ConvGeometry& g, ConvResult which) : n(g.n) {
    const bool back = which == ConvResult::Input;
    channels = back ? g.oc : g.ic, filters = back ? g.ic : g.oc;
    for (int d = 0; d < 2; ++d) {
      in[d] = back ? g.out[d + 1] : g.in[d + 1], out[d] = back ? g.in[d + 1] : g.out[d + 1];
      pad[d] = back ? 2 - g.pad[d + 1] : g.pad[d + 1];
    }
  }
  int64_t down() const { return (out[0] + 1) / 2; }
  int64_t across() const { return (out[1] + 1) / 2; }
  int64_t patches() const { return n * down() * across(); }
};

// Places of one patch after the other, in images whose pixels have `channels` numbers.
struct Patches {
  const Planes& s;
  int64_t image, row, column;  // of the patch

  Patches(const Planes& s, int64_t first)
      : s(s), image(first / (s.down() * s.across())), row(first / s.across() % s.down()), column(first % s.across()) {}
  void next() {
    if (++column < s.across()) return;
    column = 0;
    if (++row == s.down()) row = 0, ++image;
  }
  // A square of side `side` from (top, left) on: where its places are, `outside` for those that are none.
  template <class P>
  void square(P* base, const int64_t (&size)[2], int64_t channels, int side, int64_t top, int64_t left, P* outside,
              P** at) const {
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) {
        const int64_t y = top + i, x = left + j;
        const bool inside = y >= 0 && y < size[0] && x >= 0 && x < size[1];
        *at++ = inside ? base + ((image * size[0] + y) * size[1] + x) * channels : outside;
      }
  }
  void of_input(const float* x, const float* zeros, const float** at) const {
    square(x, s.in, s.channels, 4, 2 * row - s.pad[0], 2 * column - s.pad[1], zeros, at);
  }
  template <class P>
  void of_result(P* y, P* outside, P** at) const {
    square(y, s.out, s.filters, 2, 2 * row, 2 * column, outside, at);
  }
};

// Places of the result below which making the weights' sums (turned ones, or weights from sums) takes more than is won;
// and channels below which the sums of patches do.
constexpr int64_t kLeastPlaces = 48, kLeastSummed = 96, kLeastSide = 4, kLeastChannels = 24;
constexpr int64_t kLeastSplit = 48, kLeastSummedSplit = 192;  // channels and filters from which splitting the sums pays

// Filters in panels of at most the register tile's width, as even as whole vectors allow; or, where they are split, the
// two columns of register matrices.
struct Panels {
  int64_t filters, width, vectors, count;
  Panels(int64_t filters, bool splits) : filters(filters) {
    const auto& kernels = gemm_kernels<float>();
    width = splits ? 2 * FloatParts::kSide : kernels.width, vectors = (filters + width - 1) / width;
    const int64_t most = splits ? kMostWide / width : kernels.nr / width;
    count = (vectors + most - 1) / most;
  }
  int64_t first(int64_t k) const { return k * vectors / count * width; }
  int64_t wide(int64_t k) const { return first(k + 1) - first(k); }  // whole vectors
  int64_t cols(int64_t k) const { return std::min(wide(k), filters - first(k)); }
};

// Weights through strides of filter, channel, row and column of the taps. For the gradient of the input they are
// turned, and filters and channels change places.
struct Taps {
  const float* w;
  int64_t filter, channel, row, column;
  bool turned;

  Taps(const float* w, Dims s, ConvResult which)
      : w(w), filter(s[which == ConvResult::Input]), channel(s[which != ConvResult::Input]), row(s[2]), column(s[3]),
        turned(which == ConvResult::Input) {}
  int64_t of(int64_t tap) const { return tap / 3 * row + tap % 3 * column; }
};

// The taps of `channels` channels for the filters of a panel, side by side: [channel][tap] where taps lie together in
// memory, else [tap][channel].
struct LaidTaps {
  float* at;
  int64_t channel, tap;

  LaidTaps(const Taps& t, int64_t cols, int64_t wide, int64_t channels, float* to) : at(to) {
    const auto& kernels = gemm_kernels<float>();
    if (t.row == 3 && t.column == 1) {
      channel = 9 * wide, tap = wide;
      const int64_t together = t.channel == 9 ? channels : 1;
      for (int64_t c = 0; c < channels; c += together)
        kernels.pack(to + c * channel, int(wide), t.w + c * t.channel, t.filter, 1, cols, 9 * together);
    } else {
      channel = wide, tap = channels * wide;
      for (int64_t k = 0; k < 9; ++k)
        kernels.pack(to + k * tap, int(wide), t.w + t.of(k), t.filter, t.channel, cols, channels);
    }
    if (t.turned) at += 8 * tap, tap = -tap;
  }
};

}  // namespace

bool winograd_has(Activation::Kind a) { return a <= Activation::Clip; }

bool winograd_pays(const ConvGeometry& g, ConvResult which) {
  if (g.kernel != Three{1, 3, 3} || g.stride != Three{1, 1, 1} || g.dilation != Three{1, 1, 1} || g.groups != 1 ||
      g.in[0] != 1 || g.out[0] != 1)
    return false;
  const Three& made = which == ConvResult::Input ? g.in : g.out;
  return g.pad[1] <= 2 && g.pad[2] <= 2 && std::min(made[1], made[2]) >= kLeastSide &&
         std::min(g.ic, g.oc) >= kLeastChannels &&
         g.n * volume(made) >= (which == ConvResult::Output ? kLeastPlaces : kLeastSummed);
}

// Numbers are in three parts, where they are split.
static constexpr FloatParts kSizes{.count = kMostFloatParts};
static const FloatParts& in_three() { return *float_parts_by_matrices[kMostFloatParts]; }

bool winograd_splits(const ConvGeometry& g, ConvResult which) {
  const int64_t least = which == ConvResult::Weights ? kLeastSummedSplit : kLeastSplit;
  return exact_parts() && std::min(g.ic, g.oc) >= least;
}

int64_t winograd_packed_size(const ConvGeometry& g, ConvResult which, bool splits) {
  const Planes s(g, which);
  const Panels panels(s.filters, splits);
  const int64_t columns = panels.vectors * panels.width;
  return kPoints * (splits ? kSizes.size(columns, s.channels) / 2 : columns * s.channels);
}

// [panel][point][channel][filter] in three parts.
static void pack_parts(const Planes& s, const Taps& taps, uint16_t* packed) {
  constexpr int64_t kDepth = FloatParts::kDepth;
  const Panels panels(s.filters, true);
  const int64_t pieces = (s.channels + kDepth - 1) / kDepth, deep = rounded_up(s.channels, kDepth);
  parallel_for(panels.count * pieces, 2, [&](int64_t unit, int64_t end) {
    float* laid = scratch<float>(kScratchA, (9 + kPoints) * kDepth * kMostWide);
    float* u = laid + 9 * kDepth * kMostWide;
    for (; unit < end; ++unit) {
      const int64_t panel = unit / pieces, c0 = unit % pieces * kDepth, wide = panels.wide(panel);
      const int64_t channels = std::min(kDepth, s.channels - c0);
      Taps here = taps;
      here.w += panels.first(panel) * taps.filter + c0 * taps.channel;
      const LaidTaps from(here, panels.cols(panel), wide, channels, laid);
      for (int64_t c = 0; c < channels; ++c)
        loops().weights(from.at + c * from.channel, from.tap, wide, u + c * wide, kDepth * wide);
      for (int k = 0; k < kPoints; ++k)
        in_three().panels(u + k * kDepth * wide, wide, channels, wide,
                          packed + kSizes.size(kPoints * panels.first(panel) + k * wide, deep) + kSizes.size(c0),
                          kSizes.size(deep), kDepth);
    }
  });
}

// [panel][point][channel][filter]
void winograd_pack(const ConvGeometry& g, const float* w, Dims strides, ConvResult which, bool splits, float* packed) {
  const Planes s(g, which);
  const Taps taps(w, strides, which);
  if (splits) return pack_parts(s, taps, reinterpret_cast<uint16_t*>(packed));
  const Panels panels(s.filters, false);
  const int64_t pieces = (s.channels + kChannels - 1) / kChannels;
  parallel_for(panels.count * pieces, 4, [&](int64_t unit, int64_t end) {
    alignas(64) float laid[9 * kChannels * kMostWide];
    for (; unit < end; ++unit) {
      const int64_t panel = unit / pieces, c0 = unit % pieces * kChannels, wide = panels.wide(panel);
      const int64_t channels = std::min(kChannels, s.channels - c0), step = s.channels * wide;
      Taps here = taps;
      here.w += panels.first(panel) * taps.filter + c0 * taps.channel;
      const LaidTaps from(here, panels.cols(panel), wide, channels, laid);
      float* to = packed + kPoints * s.channels * panels.first(panel) + c0 * wide;
      for (int64_t c = 0; c < channels; ++c)
        loops().weights(from.at + c * from.channel, from.tap, wide, to + c * wide, step);
    }
  });
}

namespace {

// A convolution while it is computed: blocks of patches, and for each the panels of filters.
struct Convolution {
  const Planes s;
  const bool splits;
  const Panels panels{s.filters, splits};
  const GemmKernels<float>& products = gemm_kernels<float>();
  const float *from, *packed;
  const WinogradTail& tail;
  float* to;
  const int64_t lda = rounded_up(s.channels, 16) + 16, ldm = splits ? kMostWide : products.nr, total = s.patches();
  const int64_t unit = splits ? 2 * FloatParts::kSide : products.mr;
  const int64_t fits = splits ? kMostPatches : kCacheNumbers / (kPoints * (lda + ldm)) / products.mr * products.mr;
  const int64_t most = std::clamp<int64_t>(fits, 2 * products.mr, kMostPatches);
  const int64_t blocks = (total + most - 1) / most, block = rounded_up((total + blocks - 1) / blocks, unit);
  const int64_t strip = kSizes.size(rounded_up(s.channels, FloatParts::kDepth));  // of 16 patches, where they are split
  const int64_t point = splits ? block / FloatParts::kSide * strip : block * lda;  // numbers of one of the 16 points
  const int64_t sums = block * ldm;

  void turn_patches(int64_t first, int64_t count, const float* zeros, float* v) const {
    const float* patch[16];
    Patches at(s, first);
    for (int64_t t = 0; t < count; ++t, at.next()) {
      at.of_input(from, zeros, patch);
      loops().patch(patch, s.channels, v + t * lda, point);
    }
  }
  // In strips of 16, some channels at a time.
  void split_patches(int64_t first, int64_t count, const float* zeros, uint16_t* v) const {
    constexpr int64_t kSide = FloatParts::kSide, kApart = kTogether + 16;
    const float* patch[kSide][16];
    alignas(64) float some[kPoints * kSide * kApart];
    Patches at(s, first);
    for (int64_t t = 0; t < count; t += kSide, v += strip) {
      const int64_t rows = std::min(kSide, count - t);
      for (int64_t r = 0; r < rows; ++r, at.next()) at.of_input(from, zeros, patch[r]);
      for (int64_t c = 0; c < s.channels; c += kTogether) {
        const int64_t channels = std::min(kTogether, s.channels - c);
        for (int64_t r = 0; r < rows; ++r) {
          loops().patch(patch[r], channels, some + r * kApart, kSide * kApart);
          for (const float*& place : patch[r]) place += channels;
        }
        for (int k = 0; k < kPoints; ++k)
          in_three().strips(some + k * kSide * kApart, kApart, rows, channels, v + k * point + kSizes.size(c), strip,
                            rounded_up(channels, FloatParts::kDepth));
      }
    }
  }
  void multiply(int64_t panel, int64_t count, const float* v, float* m) const {
    const int64_t wide = panels.wide(panel);
    const float* u = packed + kPoints * s.channels * panels.first(panel);
    for (int k = 0; k < kPoints; ++k)
      for (int64_t t = 0; t < count; t += products.mr)
        products.tile(s.channels, v + k * point + t * lda, lda, 1, u + k * s.channels * wide, wide,
                      m + k * sums + t * ldm, ldm, int(std::min<int64_t>(products.mr, count - t)), int(wide), {});
  }
  void multiply(int64_t panel, int64_t count, const uint16_t* v, float* m) const {
    const int64_t wide = panels.wide(panel), deep = rounded_up(s.channels, FloatParts::kDepth);
    const auto* u = reinterpret_cast<const uint16_t*>(packed) + kSizes.size(kPoints * panels.first(panel), deep);
    Fetch nothing;
    for (int k = 0; k < kPoints; ++k)
      in_three().multiply(rounded_up(count, FloatParts::kSide), wide, deep, v + k * point, strip,
                          u + kSizes.size(k * wide, deep), strip, m + k * sums, ldm, false, nothing);
  }
  void write_results(int64_t panel, int64_t first, int64_t count, const float* m, float* outside) const {
    const int64_t f = panels.first(panel);
    const float* bias = tail.bias ? tail.bias + f : nullptr;
    float* place[4];
    Patches at(s, first);
    for (int64_t t = 0; t < count; ++t, at.next()) {
      at.of_result(to + f, outside, place);
      loops().result(m + t * ldm, sums, panels.cols(panel), bias, tail.adds, tail.activation, place);
    }
  }
  // Few blocks: threads share the panels of each, too.
  void run() const {
    const int64_t threads = num_threads();
    const int64_t parts = blocks >= 4 * threads ? 1 : std::min<int64_t>(threads, panels.count);
    parallel_for(blocks * parts, 1, [&](int64_t unit, int64_t end) {
      float* v = splits ? nullptr : scratch<float>(kScratchA, kPoints * point);
      uint16_t* split = splits ? scratch<uint16_t>(kScratchParts, kPoints * point) : nullptr;
      float* m = scratch<float>(kScratchB, kPoints * sums);
      float* zeros = scratch<float>(kScratchC, s.channels + s.filters);
      std::fill_n(zeros, s.channels, 0.f);
      for (; unit < end; ++unit) {
        const int64_t first = unit / parts * block, count = std::min(block, total - first), part = unit % parts;
        if (count <= 0) continue;
        splits ? split_patches(first, count, zeros, split) : turn_patches(first, count, zeros, v);
        for (int64_t p = part * panels.count / parts; p < (part + 1) * panels.count / parts; ++p) {
          splits ? multiply(p, count, split, m) : multiply(p, count, v, m);
          write_results(p, first, count, m, zeros + s.channels);
        }
      }
    });
  }
};

// The gradient of the weights while it is computed: 16 sums over all patches for each channel and filter. Threads share
// the channels, so that each sum is made by one.
struct WeightSums {
  const Planes s;
  const bool splits;
  const Panels panels{s.filters, splits};
  const GemmKernels<float>& products = gemm_kernels<float>();
  const float *x, *gy;
  const int64_t total = s.patches(), padded = panels.vectors * panels.width;
  const int64_t unit = splits ? 2 * FloatParts::kSide : products.mr, channels_padded = rounded_up(s.channels, unit);
  const int64_t share = rounded_up((s.channels + num_threads() - 1) / num_threads(), unit);
  const int64_t blocks = (total + kSummedPatches - 1) / kSummedPatches, block = (total + blocks - 1) / blocks;
  const int64_t lda = rounded_up(share, 16) + 16, point = block * lda;
  float* const sums = scratch<float>(kScratchD, kPoints * channels_padded * padded);  // as packed weights

  // Of the patches from `first` on: the sums of channels from c0 on, and those of the result's gradient in panels.
  void turn(int64_t first, int64_t count, int64_t c0, int64_t channels, const float* zeros, float* v, float* z) const {
    const float *patch[16], *place[4];
    Patches at(s, first);
    for (int64_t t = 0; t < count; ++t, at.next()) {
      at.of_input(x + c0, zeros, patch);
      loops().patch(patch, channels, v + t * lda, point);
      at.of_result<const float>(gy, zeros, place);
      for (int64_t p = 0; p < panels.count; ++p) {
        const int64_t wide = panels.wide(p);
        loops().places(place, panels.cols(p), z + panels.first(p) * kPoints * block + t * wide, block * wide);
        for (const float*& of : place) of += panels.cols(p);
      }
    }
  }
  void add(bool begins, int64_t count, int64_t c0, int64_t channels, const float* v, const float* z) const {
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t f = panels.first(p), wide = panels.wide(p);
      for (int k = 0; k < kPoints; ++k)
        for (int64_t c = 0; c < channels; c += products.mr)
          products.tile(count, v + k * point + c, 1, lda, z + (f * kPoints + k * wide) * block, wide,
                        sums + kPoints * channels_padded * f + (k * channels_padded + c0 + c) * wide, wide,
                        int(std::min<int64_t>(products.mr, channels - c)), int(wide), {1, begins ? 0.f : 1.f});
    }
  }
  void add_parts(bool begins, int64_t count, int64_t c0, int64_t channels, const float* v, const float* z) const {
    const FloatParts& by = in_three();
    const int64_t deep = rounded_up(count, FloatParts::kDepth), strip = kSizes.size(deep);
    uint16_t* left = scratch<uint16_t>(kScratchParts, kSizes.size(share + kMostWide, deep));
    uint16_t* right = left + kSizes.size(share, deep);
    Fetch nothing;
    for (int k = 0; k < kPoints; ++k) {
      by.turned_strips(v + k * point, lda, count, channels, left, strip, deep);
      for (int64_t p = 0; p < panels.count; ++p) {
        const int64_t f = panels.first(p), wide = panels.wide(p);
        by.panels(z + (f * kPoints + k * wide) * block, wide, count, wide, right, strip, deep);
        by.multiply(rounded_up(channels, FloatParts::kSide), wide, deep, left, strip, right, strip,
                    sums + kPoints * channels_padded * f + (k * channels_padded + c0) * wide, wide, !begins, nothing);
      }
    }
  }
  void run() const {
    parallel_for((s.channels + share - 1) / share, 1, [&](int64_t part, int64_t end) {
      float* v = scratch<float>(kScratchA, kPoints * point);
      float* z = scratch<float>(kScratchB, kPoints * block * padded);
      float* zeros = scratch<float>(kScratchC, std::max(s.channels, s.filters));
      std::fill_n(zeros, std::max(s.channels, s.filters), 0.f);
      for (; part < end; ++part) {
        const int64_t c0 = part * share, channels = std::min(share, s.channels - c0);
        for (int64_t first = 0; first < total; first += block) {
          interruption_point();
          const int64_t count = std::min(block, total - first);
          turn(first, count, c0, channels, zeros, v, z);
          splits ? add_parts(first == 0, count, c0, channels, v, z) : add(first == 0, count, c0, channels, v, z);
        }
      }
    });
  }
  void write(const Taps& taps, float* gw) const {
    const int64_t pieces = (s.channels + kChannels - 1) / kChannels;
    parallel_for(panels.count * pieces, 4, [&](int64_t unit, int64_t end) {
      alignas(64) float laid[9 * kChannels * kMostWide];
      for (; unit < end; ++unit) {
        const int64_t panel = unit / pieces, c0 = unit % pieces * kChannels, wide = panels.wide(panel);
        const int64_t f = panels.first(panel), channels = std::min(kChannels, s.channels - c0);
        const float* u = sums + kPoints * channels_padded * f + c0 * wide;
        for (int64_t c = 0; c < channels; ++c)
          loops().taps(u + c * wide, channels_padded * wide, wide, laid + c * 9 * wide, wide);
        for (int64_t k = 0; k < panels.cols(panel); ++k) {
          float* to = gw + (f + k) * taps.filter + c0 * taps.channel;
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t tap = 0; tap < 9; ++tap) to[c * taps.channel + taps.of(tap)] = laid[(c * 9 + tap) * wide + k];
        }
      }
    });
  }
};

}  // namespace

void winograd_convolve(const ConvGeometry& g, ConvResult which, bool splits, const float* from, const float* packed,
                       const WinogradTail& tail, float* to) {
  Convolution{.s = Planes(g, which), .splits = splits, .from = from, .packed = packed, .tail = tail, .to = to}.run();
}

void winograd_weights(const ConvGeometry& g, const float* x, const float* gy, float* gw, Dims strides) {
  const WeightSums sums{.s = Planes(g, ConvResult::Output), .splits = winograd_splits(g, ConvResult::Weights), .x = x,
                        .gy = gy};
  sums.run();
  sums.write(Taps(gw, strides, ConvResult::Output), gw);
}

}  // namespace flambeau
