// Loops on codes for layers whose results are codes again, one set per instruction set (simd/codes.cpp).
//
// Products are those of 16-bit numbers, from which the zero points are taken beforehand: they and their sums in pairs
// fit into 32 bits whatever the codes are, which products of bytes (summed in pairs in 16 bits) do not. Processors that
// sum four products of bytes in 32 bits take the codes as they are; sums then start at what the zero point adds up to.
#pragma once
#include <cstdint>

namespace flambeau {

constexpr int64_t kBlock = 16;        // output channels that one tile computes
constexpr int64_t kMostPixels = 12;   // and the most pixels

// How sums become codes: clamp(round((sum + bias) factor + added) + zero, low, 255).
struct Requantized {
  const float *bias, *factors;  // of each output channel
  int32_t zero, low;
  const uint8_t* added = nullptr;  // codes of a tensor of the result's form, whose step is `added_factor` of ours
  int32_t added_zero = 0;
  float added_factor = 0;
};

struct CodesLoops {
  int64_t pixels;  // that a tile is best at
  // to[i] = x[i] - zero
  void (*widen)(const uint8_t* x, int64_t n, int32_t zero, int16_t* to);
  // sums[r][16] = the sums over all taps t and pairs i of the inputs at[r][taps[t] + 2 i …] with the weights
  // [tap][pair][16][2], which are bytes or (wide) 16-bit numbers.
  void (*tile)(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
               const void* weights, bool wide, int32_t* sums);
  // The same of bytes with bytes, for `blocks` (1 or 2) blocks of channels with weights `apart`: sums[r][16 blocks]
  // begin at start[16 blocks]. Null where the processor has no such sums; whole quads of bytes are read.
  void (*tile_bytes)(const uint8_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
                     const int8_t* weights, int64_t apart, int64_t blocks, const int32_t* start, int32_t* sums);
  // sums[c] = the sum over all taps of at[taps[t] + c] with its weight, for a multiple of 16 channels; the weights are
  // [channels / 16][pair of taps][2][16], as `depthwise_place` says.
  void (*depthwise)(const int16_t* at, const int64_t* taps, int64_t ntaps, const int16_t* weights, int64_t channels,
                    int32_t* sums);
  // Codes of `rows` rows of n sums (each `apart` from the next) of output channels from `first` on; the first row's
  // place in the result is `at`, and the next one's `row` further.
  void (*finish)(const Requantized& how, const int32_t* sums, int64_t rows, int64_t apart, int64_t n, int64_t first,
                 int64_t at, int64_t row, uint8_t* to);
  // Minimal filtering of 3 x 3 kernels in tiles of 2 x 2 (Winograd): 16 products in place of 36, exact, since the
  // weights are taken four times. Input: what the 4 x 4 pixels at x become, number k of channel c at to[k apart + c].
  void (*filter_input)(const int16_t* x, int64_t row, int64_t channels, int16_t* to, int64_t apart);
  // Weights of a block, [3][pairs of 3 * channels][16][2] -> [16][pairs of channels][16][2].
  void (*filter_weights)(const int8_t* w, int64_t channels, int16_t* to);
  // Output: the sums [16][16 channels] of one tile, each `apart` from the next, -> those of its 2 x 2 pixels.
  void (*filter_output)(const int32_t* sums, int64_t apart, int32_t* to);
};

// Where in its block the weight of channel c < 16 lies, for the first or the second tap of a pair.
inline int64_t depthwise_place(int64_t c, int64_t second) {
  const int64_t half = c / 4 % 2, lane = c / 8;
  return half * 16 + lane * 8 + c % 4 * 2 + second;
}

struct CodesRegistration {
  CodesRegistration(int level, const CodesLoops& loops);
};
const CodesLoops& codes_loops();

// --- one pass (simd/code_passes.cpp) ---------------------------------------------------------------------------------

struct Affine {
  float scale;
  int32_t zero;
  float start() const { return scale * float(-zero); }  // what code 0 stands for
};

// How a number in units of the result's scale becomes a code.
struct Rounding {
  float low, high;
  int32_t zero;
};

template <class T>
using AddCodes = void (*)(const T* a, Affine of_a, const T* b, Affine of_b, float inverse, const Rounding& r, int64_t n,
                          T* to);
template <class T>
using MultiplyCodes = void (*)(const T* a, int32_t a_zero, const T* b, int32_t b_zero, float factor, const Rounding& r,
                               int64_t n, T* to);
template <class T>
using LargestCodes = void (*)(const T* from, int64_t rows, int64_t row, int64_t across, int64_t pixel, int64_t n,
                              T* to);

struct PassLoops {
  AddCodes<uint8_t> add_unsigned;
  AddCodes<int8_t> add_signed;
  MultiplyCodes<uint8_t> multiply_unsigned;
  MultiplyCodes<int8_t> multiply_signed;
  void (*look_up)(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to);
  LargestCodes<uint8_t> largest_unsigned;
  LargestCodes<int8_t> largest_signed;
};
struct PassRegistration {
  PassRegistration(int level, const PassLoops& loops);
};

}  // namespace flambeau
