#include <algorithm>
#include <cstring>
#include <utility>

#include "resize.h"

namespace flambeau::resizing {
namespace {

// Bytes are resized along one axis after the other, each time to bytes again, with weights of 16 bits: as image
// libraries and PyTorch do, so that the numbers are theirs.
struct ByteAxis {
  std::vector<int16_t> weight;
  int64_t taps;
  int bits = 0;
};
ByteAxis byte_axis(const Axis<double>& a) {
  ByteAxis b;
  b.taps = a.taps;
  std::vector<double> whole = a.weight;
  for (size_t k = 1; k < whole.size(); ++k)  // at the edges several taps are one pixel: rounded together
    if (int64_t(k) % a.taps && a.place[k] == a.place[k - 1]) whole[k] += std::exchange(whole[k - 1], 0.0);
  double most = 0;
  for (double w : whole) most = std::max(most, w);
  while (b.bits < 22 && int(0.5 + most * double(1 << (b.bits + 1))) < (1 << 15)) ++b.bits;
  for (double w : whole) b.weight.push_back(int16_t(int(w * double(1 << b.bits) + (w < 0 ? -0.5 : 0.5))));
  return b;
}

// Bytes are computed side by side.
constexpr int64_t kAbreast = 32;

// kAbreast bytes: the sums over `taps` of weight x the bytes at from + place x step. In plain loops: of conversions of
// vectors of eight bytes GCC makes thirty instructions each.
inline void byte_sums(const int16_t* weight, const int64_t* place, int64_t taps, const uint8_t* from, int64_t step,
                      int bits, uint8_t* to) {
  int32_t sums[kAbreast];
  std::fill_n(sums, kAbreast, bits ? 1 << (bits - 1) : 0);
  for (int64_t k = 0; k < taps; ++k) {
    if (!weight[k]) continue;
    const uint8_t* row = from + place[k] * step;
    const int32_t w = weight[k];
    for (int i = 0; i < kAbreast; ++i) sums[i] += row[i] * w;
  }
  for (int i = 0; i < kAbreast; ++i) {
    const int32_t s = sums[i] >> bits;
    to[i] = uint8_t(s < 0 ? 0 : s > 255 ? 255 : s);
  }
}

// Eight rows of eight bytes become columns: halves of rows are exchanged, then quarters, then bytes.
inline void turn_block(uint64_t (&row)[8]) {
  auto exchange = [](uint64_t& a, uint64_t& b, int shift, uint64_t mask) {
    const uint64_t t = ((a >> shift) ^ b) & mask;
    a ^= t << shift;
    b ^= t;
  };
  for (int i : {0, 1, 2, 3}) exchange(row[i], row[i + 4], 32, 0xffffffff);
  for (int i : {0, 1, 4, 5}) exchange(row[i], row[i + 2], 16, 0xffff0000ffff);
  for (int i : {0, 2, 4, 6}) exchange(row[i], row[i + 1], 8, 0xff00ff00ff00ff);
}
// to[column, row] = from[row, column]
void turn(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns, uint8_t* to, int64_t to_step) {
  for (int64_t j = 0; j < rows; j += 8)
    for (int64_t q = 0; q < columns; q += 8) {
      if (j + 8 <= rows && q + 8 <= columns) {
        uint64_t row[8];
        for (int i = 0; i < 8; ++i) std::memcpy(&row[i], from + (j + i) * from_step + q, 8);
        turn_block(row);
        for (int i = 0; i < 8; ++i) std::memcpy(to + (q + i) * to_step + j, &row[i], 8);
        continue;
      }
      for (int64_t y = j; y < std::min(j + 8, rows); ++y)
        for (int64_t x = q; x < std::min(q + 8, columns); ++x) to[x * to_step + y] = from[y * from_step + x];
    }
}

// from [rows, in] to [rows, out]: kAbreast rows at a time, turned so that their bytes lie side by side.
void byte_rows(const Axis<double>& a, const uint8_t* from, uint8_t* to, int64_t rows) {
  const ByteAxis b = byte_axis(a);
  const int64_t stripes = (rows + kAbreast - 1) / kAbreast;
  parallel_for(stripes, std::max<int64_t>(1, 32768 / (a.out * a.taps * kAbreast)), [&](int64_t stripe, int64_t end) {
    std::vector<uint8_t> turned(size_t(a.in * kAbreast)), made(size_t(a.out * kAbreast));
    for (; stripe < end; ++stripe) {
      const int64_t first = stripe * kAbreast, n = std::min(kAbreast, rows - first);
      turn(from + first * a.in, a.in, n, a.in, turned.data(), kAbreast);
      for (int64_t o = 0; o < a.out; ++o)
        byte_sums(&b.weight[o * a.taps], &a.place[o * a.taps], a.taps, turned.data(), kAbreast, b.bits,
                  &made[o * kAbreast]);
      turn(made.data(), kAbreast, a.out, n, to + first * a.out, a.out);
    }
  });
}
// from [planes, in, columns] to [planes, out, columns]; what is left of a row is computed in a buffer
void byte_columns(const Axis<double>& a, const uint8_t* from, uint8_t* to, int64_t planes, int64_t columns) {
  const ByteAxis b = byte_axis(a);
  const int64_t whole = columns / kAbreast * kAbreast;
  parallel_for(planes * a.out, std::max<int64_t>(1, 32768 / (columns * a.taps)), [&](int64_t r, int64_t end) {
    std::vector<uint8_t> rest(size_t(a.taps * kAbreast));
    std::vector<int64_t> order(static_cast<size_t>(a.taps));
    for (int64_t k = 0; k < a.taps; ++k) order[k] = k;
    for (; r < end; ++r) {
      const uint8_t* plane = from + r / a.out * a.in * columns;
      const int64_t o = r % a.out * a.taps;
      uint8_t* row = to + r * columns;
      for (int64_t q = 0; q < whole; q += kAbreast)
        byte_sums(&b.weight[o], &a.place[o], a.taps, plane + q, columns, b.bits, row + q);
      if (whole == columns) continue;
      for (int64_t k = 0; k < a.taps; ++k)
        std::memcpy(&rest[k * kAbreast], plane + a.place[o + k] * columns + whole, size_t(columns - whole));
      uint8_t made[kAbreast];
      byte_sums(&b.weight[o], order.data(), a.taps, rest.data(), kAbreast, b.bits, made);
      std::memcpy(row + whole, made, size_t(columns - whole));
    }
  });
}

}  // namespace

void resize_bytes(const Plan& p, const Tensor& x, Tensor& y) {
  const std::vector<Axis<double>> axes = axes_of<double>(p, x.sizes + 2);
  const int64_t planes = x.size(0) * x.size(1), rows = axes[1].in, columns = axes[2].out;
  TensorRef dense = contiguous(x);
  std::vector<uint8_t> half(size_t(planes * rows * columns));
  LockRelease lock((x.numel + y.numel) * 4);
  byte_rows(axes[2], dense->ptr<uint8_t>(), half.data(), planes * rows);
  byte_columns(axes[1], half.data(), y.ptr<uint8_t>(), planes, columns);
}

}  // namespace flambeau::resizing
