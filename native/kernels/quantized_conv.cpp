// Convolutions and linear layers whose input and result are codes.
//
// The input becomes 16-bit numbers with channels last, its zero point taken off, with the padding around it (and, for a
// transposed convolution, zeros between); then each tile of output pixels by 16 channels goes over the taps of the
// kernel. Where a row of the kernel lies in one piece, the row is one tap. Where the processor sums products of bytes,
// the codes are laid out as they are, or read where they lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "../core/call.h"
#include "../core/channels_last.h"
#include "../core/machine.h"
#include "../core/parallel.h"
#include "codes.h"
#include "scratch.h"

namespace flambeau {
namespace {

CodesLoops* registered() {
  static CodesLoops loops[2] = {};
  return loops;
}

using Sizes = std::array<int64_t, 3>;  // depth, height, width

// What a convolution looks like, in three dimensions: others have ones in front.
struct Shape {
  int64_t n, ic, oc, groups, nd;
  Sizes in, out, kernel, stride, before, dilation, between;  // between: zeros between neighbours of the input, plus one
  Sizes padded;                                              // the input with all that
  bool depthwise() const { return groups == ic && groups == oc && groups > 1; }
  int64_t icg() const { return ic / groups; }
  int64_t ocg() const { return oc / groups; }
  // Channels of a pixel in the widened input, and of one group in it.
  int64_t group_width() const { return groups == 1 || depthwise() ? icg() : (icg() + 1) / 2 * 2; }
  int64_t width() const { return depthwise() ? (ic + kBlock - 1) / kBlock * kBlock : groups * group_width(); }
  bool whole_rows() const { return groups == 1 && dilation[2] == 1; }
  int64_t run() const { return whole_rows() ? kernel[2] * ic : group_width(); }  // numbers in one piece, per tap
  int64_t pairs() const { return (run() + 1) / 2; }
  int64_t taps_across() const { return whole_rows() ? 1 : kernel[2]; }
  int64_t ntaps() const { return kernel[0] * kernel[1] * taps_across(); }
  int64_t blocks() const { return (ocg() + kBlock - 1) / kBlock; }  // of one group
  int64_t pixels() const { return n * out[0] * out[1] * out[2]; }
  // Whether 3 x 3 kernels are applied by minimal filtering, in tiles of 2 x 2 pixels: where there are enough of them to
  // pay for the transformed weights, and few enough channels for their sums to fit into 32 bits.
  bool filtered() const {
    return groups == 1 && kernel == Sizes{1, 3, 3} && stride == Sizes{1, 1, 1} && dilation == Sizes{1, 1, 1} &&
           between == Sizes{1, 1, 1} && ic % kBlock == 0 && ic <= 1024 && n * out[1] * out[2] >= 128;
  }
  int64_t products() const { return pixels() * oc * icg() * kernel[0] * kernel[1] * kernel[2]; }
};

// --- weights ---------------------------------------------------------------------------------------------------------

// _quantized_pack(Tensor codes, Tensor zero_points, int groups, bool rows): weights [out, in / groups, *kernel] in the
// order in which tiles read them; rows: whether a row of the kernel is one tap. Bytes where all zero points are 0.
struct Packing {
  int64_t oc, icg, groups, spatial, across;
  bool rows, depthwise;
  int64_t taps() const { return rows ? spatial / across : spatial; }
  int64_t run() const { return rows ? across * icg : icg; }
  int64_t pairs() const { return (run() + 1) / 2; }
  int64_t blocks() const { return (oc / groups + kBlock - 1) / kBlock; }
  int64_t size() const {
    if (depthwise) return (oc + kBlock - 1) / kBlock * ((spatial + 1) / 2) * 2 * kBlock;
    return groups * blocks() * taps() * pairs() * 2 * kBlock;
  }
};

Packing packing_of(const Call& c) {
  const Tensor& w = c.tensor(0);
  const int64_t groups = c.integer(2);
  if (w.dtype != DType::Int8 || w.ndim < 2 || !w.contiguous() || groups < 1 || w.size(0) % groups)
    runtime_error(c.name(), ": expected contiguous codes of int8 [out, in / groups, ...], got ", dtype_name(w.dtype),
                  " ", shape_text(w.shape()), " and ", groups, " groups");
  int64_t spatial = 1;
  for (int k = 2; k < w.ndim; ++k) spatial *= w.size(k);
  const int64_t across = w.ndim > 2 ? w.size(w.ndim - 1) : 1;
  const bool depthwise = groups > 1 && w.size(1) == 1 && w.size(0) == groups;
  return {w.size(0), w.size(1), groups, spatial, std::max<int64_t>(across, 1), c.boolean(3) && groups == 1, depthwise};
}
bool all_zero(const Tensor& zeros) {
  const int32_t* z = zeros.ptr<int32_t>();
  return std::all_of(z, z + zeros.numel, [](int32_t v) { return v == 0; });
}
void infer_pack(Call& c) {
  const Packing p = packing_of(c);
  const Tensor& zeros = c.tensor(1);
  if (zeros.dtype != DType::Int32 || zeros.ndim != 1 || !(zeros.numel == 1 || zeros.numel == p.oc) ||
      !zeros.contiguous())
    runtime_error(c.name(), ": zero points must be int32 of shape [1] or [", p.oc, "], got ", dtype_name(zeros.dtype),
                  " ", shape_text(zeros.shape()));
  const int64_t size = p.size();
  c.output(Dims{&size, 1}, !p.depthwise && all_zero(zeros) ? DType::Int8 : DType::Int16, c.tensor(0).device);
}
template <class T>
void pack(const Packing& p, const int8_t* w, const int32_t* zeros, bool one, T* to) {
  std::fill_n(to, p.size(), T(0));
  for (int64_t o = 0; o < p.oc; ++o) {
    const int64_t ocg = p.oc / p.groups, lane = o % ocg % kBlock, block = o / ocg * p.blocks() + o % ocg / kBlock;
    for (int64_t i = 0; i < p.icg; ++i)
      for (int64_t s = 0; s < p.spatial; ++s) {
        const int64_t tap = p.rows ? s / p.across : s, at = p.rows ? s % p.across * p.icg + i : i;
        const T value = T(w[(o * p.icg + i) * p.spatial + s] - zeros[one ? 0 : o]);
        if (p.depthwise)
          to[(o / kBlock * ((p.spatial + 1) / 2) + s / 2) * 2 * kBlock + depthwise_place(o % kBlock, s % 2)] = value;
        else
          to[((block * p.taps() + tap) * p.pairs() + at / 2) * 2 * kBlock + lane * 2 + at % 2] = value;
      }
  }
}
void cpu_pack(Call& c) {
  const Packing p = packing_of(c);
  const Tensor &w = c.tensor(0), &zeros = c.tensor(1);
  Tensor& out = c.out();
  const int32_t* z = zeros.ptr<int32_t>();
  if (out.dtype == DType::Int8) pack(p, w.ptr<int8_t>(), z, zeros.numel == 1, out.ptr<int8_t>());
  else pack(p, w.ptr<int8_t>(), z, zeros.numel == 1, out.ptr<int16_t>());
}

// --- the input -------------------------------------------------------------------------------------------------------

// n codes as numbers of 16 bits without the zero point, or as they are.
void lay(const uint8_t* x, int64_t n, int32_t zero, int16_t* to) { codes_loops().widen(x, n, zero, to); }
void lay(const uint8_t* x, int64_t n, int32_t, uint8_t* to) { std::copy_n(x, n, to); }

// The input as numbers or bytes, [n, *padded, width]; a few more follow, since pairs and quads at the end may be read.
template <class E> struct Laid {
  const Shape& s;
  const Tensor& x;
  int32_t zero;
  E* to;

  E nothing() const { return sizeof(E) == 1 ? E(zero) : E(0); }  // what stands in the padding

  int64_t image() const { return s.padded[0] * s.padded[1] * s.padded[2] * s.width(); }
  bool plain() const {  // no number of the result comes from elsewhere than the input
    return s.padded == s.in && s.width() == s.ic;
  }
  // Whether the input lies so already: bytes in whole quads, channels last.
  bool lies() const {
    if (sizeof(E) != 1 || !plain() || s.run() % 4) return false;
    int64_t expected = s.ic;
    for (int64_t k = x.ndim - 1; k >= 2; expected *= x.sizes[k--])
      if (x.strides[k] != expected) return false;
    return x.strides[1] == 1 && x.strides[0] == expected;
  }
  void run() const {
    const int64_t rows = s.n * s.in[0] * s.in[1];
    auto clear = [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, nothing()); };
    if (!plain()) parallel_for(s.n * image(), 1 << 16, clear);
    std::fill_n(to + s.n * image(), kBlock, nothing());
    parallel_for(rows, std::max<int64_t>(1, (1 << 15) / (s.in[2] * s.ic + 1)), [&](int64_t r, int64_t end) {
      for (; r < end; ++r) row(r / (s.in[0] * s.in[1]), r / s.in[1] % s.in[0], r % s.in[1]);
    });
  }
  void row(int64_t image_index, int64_t d, int64_t h) const {
    const int64_t width = s.width(), step = s.between[2] * width;
    const int64_t lead = x.ndim - s.nd;  // dimensions before the spatial ones
    auto stride = [&](int64_t k) { return k >= 3 - s.nd ? x.strides[lead + k - (3 - s.nd)] : 0; };
    const int64_t across = stride(2), channel = x.ndim > 1 ? x.strides[1] : 1;
    const uint8_t* from = x.ptr<uint8_t>() + image_index * x.strides[0] + d * stride(0) + h * stride(1);
    E* at = to + image_index * image() +
            (((s.before[0] + d * s.between[0]) * s.padded[1] + s.before[1] + h * s.between[1]) * s.padded[2] +
             s.before[2]) * width;
    if (channel == 1 && across == s.ic && step == s.ic) return lay(from, s.in[2] * s.ic, zero, at);
    const int64_t gw = s.group_width(), icg = s.icg();
    for (int64_t g = 0; g < (gw == icg ? 1 : s.groups); ++g) {
      const int64_t count = gw == icg ? s.ic : icg;
      const uint8_t* part = from + g * icg * channel;
      if (channel == 1)
        for (int64_t w = 0; w < s.in[2]; ++w)
          lay(part + w * across, count, zero, at + w * step + g * gw);
      else
        for (int64_t k = 0; k < count; ++k)
          for (int64_t w = 0; w < s.in[2]; ++w)
            at[w * step + g * gw + k] = E(part[w * across + k * channel] - (sizeof(E) == 1 ? 0 : zero));
    }
  }
};

// --- the products ----------------------------------------------------------------------------------------------------

// How many of `left` pixels the next tile takes, so that all tiles are about as large.
int64_t share(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

template <class E> struct Product {
  const Shape& s;
  const E* x;
  const void* w;
  bool wide;
  int32_t zero;
  Requantized how;
  uint8_t* out;
  std::vector<int64_t> taps{}, still{};  // where the taps lie; the same number of taps in one place
  std::vector<uint8_t> zeros{};          // an input of which all is the zero point

  void find_taps() {
    const int64_t width = s.width();
    for (int64_t d = 0; d < s.kernel[0]; ++d)
      for (int64_t h = 0; h < s.kernel[1]; ++h)
        for (int64_t k = 0; k < s.taps_across(); ++k)
          taps.push_back(width * ((d * s.dilation[0] * s.padded[1] + h * s.dilation[1]) * s.padded[2] +
                                  k * s.dilation[2]));
  }
  // f(k, where the input of pixel p + k begins) for n pixels from p on.
  template <class F> void places(int64_t p, int64_t n, F&& f) const {
    int64_t ow = p % s.out[2], row = p / s.out[2];
    for (int64_t k = 0; k < n; ++row, ow = 0) {
      const int64_t oh = row % s.out[1], od = row / s.out[1] % s.out[0], image = row / s.out[1] / s.out[0];
      const E* at = x + ((image * s.padded[0] + od * s.stride[0]) * s.padded[1] + oh * s.stride[1]) *
                            s.padded[2] * s.width();
      for (; ow < s.out[2] && k < n; ++ow, ++k) f(k, at + ow * s.stride[2] * s.width());
    }
  }
  void run() {
    find_taps();
    if constexpr (sizeof(E) == 2) {
      if (s.depthwise()) return depthwise();
    } else if (zero) {
      still.assign(taps.size(), 0);
      zeros.assign(size_t(2 * s.pairs() + kBlock), uint8_t(zero));
    }
    constexpr int64_t kChunk = 96;  // pixels whose inputs stay near while a block of weights goes over them
    const int64_t chunks = (s.pixels() + kChunk - 1) / kChunk, blocks = s.groups * s.blocks();
    const int64_t each = s.run() * s.ntaps() * kBlock * kChunk;
    // Shared in blocks of channels where there are few pixels: the weights are then read once.
    auto of = [&](int64_t c, int64_t first, int64_t last) {
      const int64_t p = c * kChunk, n = std::min(s.pixels(), p + kChunk) - p;
      const E* at[kChunk];
      places(p, n, [&](int64_t k, const E* place) { at[k] = place; });
      for (int64_t b = first; b < last;) {
        const int64_t many = sizeof(E) == 1 ? std::min<int64_t>({2, last - b, s.blocks() - b % s.blocks()}) : 1;
        chunk(b, many, p, n, at);
        b += many;
      }
    };
    if (chunks >= 2 * num_threads())
      parallel_for(chunks, std::max<int64_t>(1, (1 << 17) / (each * blocks + 1)), [&](int64_t c, int64_t end) {
        for (; c < end; ++c) of(c, 0, blocks);
      });
    else
      parallel_for(blocks, std::max<int64_t>(1, (1 << 17) / (each * chunks + 1)), [&](int64_t b, int64_t end) {
        for (int64_t c = 0; c < chunks; ++c) of(c, b, end);
      });
  }
  // Some blocks of channels of n pixels from p on, whose inputs are `places`.
  void chunk(int64_t block, int64_t many, int64_t p, int64_t n, const E* const* places) const {
    const CodesLoops& loops = codes_loops();
    const int64_t group = block / s.blocks(), inside = block % s.blocks() * kBlock;
    const int64_t channel = group * s.ocg() + inside, count = std::min(many * kBlock, s.ocg() - inside);
    const int64_t pairs = s.pairs(), ntaps = s.ntaps(), size = ntaps * pairs * 2 * kBlock;
    const int8_t* bytes = static_cast<const int8_t*>(w) + block * size;
    const void* weights = wide ? static_cast<const void*>(static_cast<const int16_t*>(w) + block * size) : bytes;
    int32_t start[2 * kBlock] = {}, sums[2 * kMostPixels * kBlock];
    const E* at[kMostPixels];
    // Few rows of a linear layer: what the sums start at is found beside them, so that the weights are read once.
    const bool beside = sizeof(E) == 1 && zero && ntaps == 1 && n < loops.pixels;
    if constexpr (sizeof(E) == 1)
      if (zero && !beside) begin(bytes, size, many, start);
    for (int64_t k = 0; k < n;) {
      const int64_t rows = share(n - k, loops.pixels);
      for (int64_t r = 0; r < rows; ++r) at[r] = places[k + r] + group * s.group_width();
      if constexpr (sizeof(E) == 1) {
        if (beside) at[rows] = zeros.data();
        loops.tile_bytes(at, rows + beside, taps.data(), ntaps, pairs, bytes, size, many, start, sums);
        for (int64_t i = 0; beside && i < rows * many * kBlock; ++i)
          sums[i] = int32_t(uint32_t(sums[i]) - uint32_t(sums[rows * many * kBlock + i % (many * kBlock)]));
      } else {
        loops.tile(at, rows, taps.data(), ntaps, pairs, weights, wide, sums);
      }
      loops.finish(how, sums, rows, many * kBlock, count, channel, (p + k) * s.oc + channel, s.oc, out);
      k += rows;
    }
  }
  // What sums of codes start at: less than 0 by the products of the zero point with all weights.
  void begin(const int8_t* weights, int64_t size, int64_t many, int32_t* start) const {
    const int32_t none[2 * kBlock] = {};
    const uint8_t* at = zeros.data();
    codes_loops().tile_bytes(&at, 1, still.data(), s.ntaps(), s.pairs(), weights, size, many, none, start);
    for (int64_t c = 0; c < many * kBlock; ++c) start[c] = int32_t(0u - uint32_t(start[c]));
  }
  void depthwise() requires(sizeof(E) == 2) {
    const CodesLoops& loops = codes_loops();
    const int64_t width = s.width();
    parallel_for(s.pixels(), std::max<int64_t>(1, (1 << 16) / (width * s.ntaps() + 1)), [&](int64_t p, int64_t end) {
      std::vector<int32_t> sums(static_cast<size_t>(width));
      places(p, end - p, [&](int64_t k, const int16_t* place) {
        loops.depthwise(place, taps.data(), s.ntaps(), static_cast<const int16_t*>(w), width, sums.data());
        loops.finish(how, sums.data(), 1, 0, s.oc, 0, (p + k) * s.oc, 0, out);
      });
    });
  }
};

// Minimal filtering: chunks of tiles, each by every block of channels.
struct Filtered {
  const Shape& s;
  const int16_t* x;
  const int8_t* w;
  Requantized how;
  uint8_t* out;

  int64_t down() const { return (s.out[1] + 1) / 2; }
  int64_t across() const { return (s.out[2] + 1) / 2; }

  void run() const {
    const CodesLoops& loops = codes_loops();
    const int64_t blocks = s.blocks(), size = 16 * s.ic * kBlock, tiles = s.n * down() * across();
    int16_t* weights = scratch<int16_t>(kScratchB, blocks * size);
    parallel_for(blocks, std::max<int64_t>(1, (1 << 14) / (s.ic * 9)), [&](int64_t b, int64_t end) {
      for (; b < end; ++b) loops.filter_weights(w + b * 9 * s.ic * kBlock, s.ic, weights + b * size);
    });
    const int64_t most = std::max<int64_t>(loops.pixels, (1 << 13) / s.ic / loops.pixels * loops.pixels);
    const int64_t each = std::max(loops.pixels, std::min(most, (tiles + num_threads() - 1) / num_threads()));
    parallel_for((tiles + each - 1) / each, 1, [&](int64_t c, int64_t end) {
      std::vector<int16_t> inputs(size_t(16 * each * s.ic));
      for (; c < end; ++c) {
        const int64_t first = c * each, count = std::min(tiles, first + each) - first;
        for (int64_t t = 0; t < count; ++t) {
          const int64_t image = (first + t) / (down() * across()), i = (first + t) / across() % down(),
                        j = (first + t) % across(), row = s.padded[2] * s.ic;
          loops.filter_input(x + ((image * s.padded[1] + 2 * i) * s.padded[2] + 2 * j) * s.ic, row, s.ic,
                             inputs.data() + t * s.ic, each * s.ic);
        }
        for (int64_t b = 0; b < blocks; ++b) block(b, weights + b * size, inputs.data(), each, first, count);
      }
    });
  }
  void block(int64_t b, const int16_t* weights, const int16_t* inputs, int64_t each, int64_t first,
             int64_t count) const {
    const CodesLoops& loops = codes_loops();
    const int64_t none = 0, channel = b * kBlock, here = std::min(kBlock, s.oc - channel);
    int32_t sums[16 * kMostPixels * kBlock], pixels[4 * kBlock];
    const int16_t* at[kMostPixels];
    for (int64_t t = 0; t < count;) {
      const int64_t rows = share(count - t, loops.pixels);
      for (int64_t k = 0; k < 16; ++k) {
        for (int64_t r = 0; r < rows; ++r) at[r] = inputs + (k * each + t + r) * s.ic;
        loops.tile(at, rows, &none, 1, s.ic / 2, weights + k * s.ic * kBlock, true, sums + k * kMostPixels * kBlock);
      }
      for (int64_t r = 0; r < rows; ++r) {
        loops.filter_output(sums + r * kBlock, kMostPixels * kBlock, pixels);
        give(first + t + r, channel, here, pixels);
      }
      t += rows;
    }
  }
  void give(int64_t tile, int64_t channel, int64_t count, const int32_t* pixels) const {
    const int64_t image = tile / (down() * across()), i = tile / across() % down() * 2, j = tile % across() * 2;
    const int64_t wide = std::min<int64_t>(2, s.out[2] - j);
    for (int64_t r = 0; r < std::min<int64_t>(2, s.out[1] - i); ++r)
      codes_loops().finish(how, pixels + 2 * r * kBlock, wide, kBlock, count, channel,
                           ((image * s.out[1] + i + r) * s.out[2] + j) * s.oc + channel, s.oc, out);
  }
};

// --- _quantized_conv -------------------------------------------------------------------------------------------------

// (input, zero, input scale, packed weights, out channels, kernel, scales, bias, stride, padding, dilation, groups,
//  output padding of a transposed one, output scale, output zero, relu, added, added zero, added scale)
enum { kX, kZero, kScale, kW, kOut, kKernel, kScales, kBias, kStride, kPadding, kDilation, kGroups, kOutputPadding,
       kToScale, kToZero, kRelu, kAdded, kAddedZero, kAddedScale };

Sizes sizes_of(const Call& c, int k, int64_t usual) {
  Sizes found{usual, usual, usual};
  const Dims given = c.ints(k);
  for (size_t j = 0; j < given.size() && j < 3; ++j) found[3 - given.size() + j] = given[j];
  return found;
}

void check_numbers(const Call& c, const char* what, const Tensor& t, int64_t n, bool one) {
  if (t.dtype != DType::Float32 || t.ndim != 1 || !(t.numel == n || (one && t.numel == 1)) || !t.contiguous())
    runtime_error(c.name(), ": ", what, " must be float32 of shape [", n, "], got ", dtype_name(t.dtype), " ",
                  shape_text(t.shape()));
}

Shape shape_of(const Call& c) {
  const Tensor& x = c.tensor(kX);
  Shape s{};
  s.nd = int64_t(c.ints(kKernel).size());
  if (x.dtype != DType::UInt8 || s.nd > 3 || x.ndim != s.nd + 2)
    runtime_error(c.name(), ": expected codes of uint8 with ", s.nd + 2, " dimensions, got ", dtype_name(x.dtype), " ",
                  shape_text(x.shape()));
  s.n = x.size(0), s.ic = x.size(1), s.oc = c.integer(kOut), s.groups = c.integer(kGroups);
  if (s.groups < 1 || s.oc < 1 || s.ic % s.groups || s.oc % s.groups || s.ic < 1)
    runtime_error(c.name(), ": ", s.groups, " groups do not divide ", s.ic, " and ", s.oc, " channels");
  s.kernel = sizes_of(c, kKernel, 1), s.stride = sizes_of(c, kStride, 1), s.dilation = sizes_of(c, kDilation, 1);
  const Sizes padding = sizes_of(c, kPadding, 0), more = sizes_of(c, kOutputPadding, 0);
  const bool transposed = c.has(kOutputPadding);
  s.between = {1, 1, 1};
  for (int k = 0; k < 3; ++k) {
    s.in[k] = k >= 3 - s.nd ? x.size(x.ndim - 3 + k) : 1;
    auto good = [](int64_t size, int64_t least) { return least <= size && size < 1 << 30; };
    if (!good(s.kernel[k], 1) || !good(s.stride[k], 1) || !good(s.dilation[k], 1) || !good(padding[k], 0) ||
        !good(more[k], 0))
      runtime_error(c.name(), ": kernel, stride and dilation must be positive, padding not negative, all below 2**30");
    const int64_t reach = s.dilation[k] * (s.kernel[k] - 1);
    s.before[k] = padding[k];
    int64_t inner = s.in[k], after = padding[k];
    if (transposed) {
      s.between[k] = s.stride[k], s.stride[k] = 1, s.before[k] = reach - padding[k];
      inner = std::max<int64_t>(0, (s.in[k] - 1) * s.between[k] + 1), after = s.before[k] + more[k];
      if (s.before[k] < 0)
        not_implemented(c.name(), ": a transposed convolution whose padding reaches further than its kernel");
    }
    s.padded[k] = inner + s.before[k] + after;
    s.out[k] = s.padded[k] > reach ? (s.padded[k] - reach - 1) / s.stride[k] + 1 : 0;
    if (s.out[k] < 1 || s.in[k] < 1)
      runtime_error(c.name(), ": the result would have no pixels: input ", shape_text(x.shape()), ", kernel size ",
                    shape_text(c.ints(kKernel)));
  }
  return s;
}

void check_weights(const Call& c, const Shape& s) {
  const Tensor& w = c.tensor(kW);
  const int64_t spatial = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const Packing p{s.oc, s.icg(), s.groups, spatial, s.kernel[2], s.whole_rows(), s.depthwise()};
  if ((w.dtype != DType::Int8 && w.dtype != DType::Int16) || w.numel != p.size() || !w.contiguous() ||
      (p.depthwise && w.dtype != DType::Int16))
    runtime_error(c.name(), ": the packed weight does not belong to an input ", shape_text(c.tensor(kX).shape()));
  if (s.run() * s.ntaps() > (w.dtype == DType::Int8 ? 1 << 16 : 1 << 15))
    not_implemented(c.name(), ": sums of ", s.run() * s.ntaps(), " products may not fit into 32 bits");
}

void infer_conv(Call& c) {
  const Shape s = shape_of(c);
  check_weights(c, s);
  check_numbers(c, "scales", c.tensor(kScales), s.oc, true);
  if (c.has(kBias)) check_numbers(c, "bias", c.tensor(kBias), s.oc, false);
  std::vector<int64_t> shape{s.n, s.oc};
  for (int k = int(3 - s.nd); k < 3; ++k) shape.push_back(s.out[k]);
  if (Tensor* added = c.optional_tensor(kAdded))
    if (added->dtype != DType::UInt8 || !std::ranges::equal(added->shape(), shape))
      runtime_error(c.name(), ": what is added must be uint8 of the result's shape ", shape_text(shape), ", got ",
                    dtype_name(added->dtype), " ", shape_text(added->shape()));
  c.output(shape, DType::UInt8, c.tensor(kX).device, channels_last_strides(shape));
  c.hand_over(s);
}

// Codes where the processor multiplies bytes, numbers of 16 bits elsewhere.
void multiply(Shape s, const Tensor& x, int32_t zero, const Tensor& w, const Requantized& how, uint8_t* out) {
  const bool bytes = w.dtype == DType::Int8;
  if (bytes && codes_loops().tile_bytes && zero >= 0 && zero <= 255) {
    Laid<uint8_t> laid{s, x, zero, nullptr};
    const bool lies = laid.lies();
    if (!lies) {
      laid.to = scratch<uint8_t>(kScratchA, s.n * laid.image() + kBlock);
      laid.run();
    }
    const uint8_t* from = lies ? x.ptr<uint8_t>() : laid.to;
    return Product<uint8_t>{s, from, w.ptr<int8_t>(), false, zero, how, out}.run();
  }
  const bool filtered = s.filtered() && bytes;
  if (filtered)  // the last tiles may reach one row and column further
    for (int k = 1; k < 3; ++k) s.padded[k] = (s.out[k] + 1) / 2 * 2 + 2;
  Laid<int16_t> laid{s, x, zero, nullptr};
  laid.to = scratch<int16_t>(kScratchA, s.n * laid.image() + kBlock);
  laid.run();
  if (filtered) return Filtered{s, laid.to, w.ptr<int8_t>(), how, out}.run();
  const void* weights = bytes ? static_cast<const void*>(w.ptr<int8_t>()) : w.ptr<int16_t>();
  Product<int16_t>{s, laid.to, weights, !bytes, zero, how, out}.run();
}

void cpu_conv(Call& c) {
  const Shape s = c.handed<Shape>();
  const Tensor &x = c.tensor(kX), &scales = c.tensor(kScales), &w = c.tensor(kW);
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef lying = x.ndim == 2 ? contiguous(x) : TensorRef::borrow(const_cast<Tensor*>(&x)), added;
  if (Tensor* t = c.optional_tensor(kAdded)) {
    added = empty_strided(t->shape(), out.stride(), t->dtype);
    copy_into(*added, *t);
  }
  std::vector<float> bias(size_t(s.oc), 0.f), factors(static_cast<size_t>(s.oc));
  const float scale = float(c.real(kScale)), to_scale = float(c.real(kToScale));
  const Tensor* b = c.optional_tensor(kBias);
  for (int64_t k = 0; k < s.oc; ++k) {
    const float unit = scale * scales.ptr<float>()[scales.numel == 1 ? 0 : k];
    factors[size_t(k)] = unit / to_scale;
    if (b) bias[size_t(k)] = scales.numel == 1 ? b->ptr<float>()[k] * (1.f / unit) : b->ptr<float>()[k] / unit;
  }
  Requantized how{bias.data(), factors.data(), int32_t(c.integer(kToZero)), 0};
  if (c.boolean(kRelu)) how.low = how.zero;
  if (added)
    how.added = added->ptr<uint8_t>(), how.added_zero = int32_t(c.integer(kAddedZero)),
    how.added_factor = float(c.real(kAddedScale)) / to_scale;
  {
    LockRelease lock(s.products() / 32 + x.numel);
    multiply(s, *lying, int32_t(c.integer(kZero)), w, how, out.ptr<uint8_t>());
  }
  trim_scratch();
}

const Primitives rows{
    {"_quantized_pack", infer_pack, cpu_pack, Infer::ReadsValues},
    {"_quantized_conv", infer_conv, cpu_conv},
};

}  // namespace

CodesRegistration::CodesRegistration(int level, const CodesLoops& loops) {
  if (level <= cpu_level()) registered()[level] = loops;
}
const CodesLoops& codes_loops() {
  const CodesLoops* loops = registered();
  return cpu_level() >= kAvx512 && loops[kAvx512].tile ? loops[kAvx512] : loops[kBaseline];
}

}  // namespace flambeau
