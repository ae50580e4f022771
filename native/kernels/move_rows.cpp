// Short rows, one after the other: what moving them costs is the way from row to row, not the bytes.
#include "strided.h"

#include <bit>

namespace flambeau {
namespace {

// At least one block; the last one overlaps the one before it.
template <int block> inline void move_blocks(char* to, const char* from, int64_t bytes) {
  const int64_t last = bytes - block;
  for (int64_t k = 0; k < last; k += block) std::memcpy(to + k, from + k, block);
  std::memcpy(to + last, from + last, block);
}
template <class U> inline void repeat(char* to, const U& v, int64_t bytes) {
  constexpr int block = 32;
  char same[block];
  for (size_t k = 0; k < block / sizeof(U); ++k) std::memcpy(same + k * sizeof(U), &v, sizeof(U));
  for (int64_t k = 0; k < bytes - block; k += block) std::memcpy(to + k, same, block);
  std::memcpy(to + bytes - block, same, block);
}
template <class U, int n>
void move_few(char* dst, int64_t dst_stride, int64_t dst_step, const char* src, int64_t src_stride, int64_t src_step,
              int64_t rows) {
  if (dst_stride == sizeof(U) && src_stride == sizeof(U)) {
    constexpr int64_t bytes = n * sizeof(U), wide = std::bit_ceil(uint64_t(bytes));
    if (wide != bytes && bytes < 8 && rows > 2 && dst_step == bytes && std::abs(src_step) >= bytes) {
      // what a wide move writes too much is the beginning of the next row; what it reads too much is there for all rows
      // but the first and the last
      std::memcpy(dst, src, bytes);
      for (int64_t r = 1; r + 1 < rows; ++r) std::memcpy(dst + r * bytes, src + r * src_step, wide);
      std::memcpy(dst + (rows - 1) * bytes, src + (rows - 1) * src_step, bytes);
      return;
    }
    for (int64_t r = 0; r < rows; ++r) std::memcpy(dst + r * dst_step, src + r * src_step, bytes);
  } else if (dst_stride == sizeof(U)) {
    for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += src_step)
      for (int i = 0; i < n; ++i) reinterpret_cast<U*>(dst)[i] = *reinterpret_cast<const U*>(src + i * src_stride);
  } else {
    for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += src_step)
      for (int i = 0; i < n; ++i)
        *reinterpret_cast<U*>(dst + i * dst_stride) = *reinterpret_cast<const U*>(src + i * src_stride);
  }
}

}  // namespace

template <class U>
void move_rows(char* dst, int64_t dst_stride, int64_t dst_step, const char* src, int64_t src_stride, int64_t src_step,
               int64_t n, int64_t rows) {
#define FLAMBEAU_FEW(N) \
  case N: return move_few<U, N>(dst, dst_stride, dst_step, src, src_stride, src_step, rows)
  switch (n) {
    FLAMBEAU_FEW(1); FLAMBEAU_FEW(2); FLAMBEAU_FEW(3); FLAMBEAU_FEW(4);
    FLAMBEAU_FEW(5); FLAMBEAU_FEW(6); FLAMBEAU_FEW(7); FLAMBEAU_FEW(8);
  }
#undef FLAMBEAU_FEW
  constexpr int64_t kLong = 512;  // bytes
  const int64_t bytes = n * int64_t(sizeof(U));
  if (dst_stride == sizeof(U) && src_stride == sizeof(U) && bytes >= 16 && bytes <= kLong) {
    for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += src_step)
      bytes >= 32 ? move_blocks<32>(dst, src, bytes) : move_blocks<16>(dst, src, bytes);
    return;
  }
  if (dst_stride == sizeof(U) && src_stride == 0 && bytes >= 32) {
    for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += src_step)
      repeat(dst, *reinterpret_cast<const U*>(src), bytes);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) move_run<U>(dst + r * dst_step, dst_stride, src + r * src_step, src_stride, n);
}

#define FLAMBEAU_MOVE_ROWS(U) \
  template void move_rows<U>(char*, int64_t, int64_t, const char*, int64_t, int64_t, int64_t, int64_t);
FLAMBEAU_MOVE_ROWS(uint8_t) FLAMBEAU_MOVE_ROWS(uint16_t) FLAMBEAU_MOVE_ROWS(uint32_t) FLAMBEAU_MOVE_ROWS(uint64_t)
FLAMBEAU_MOVE_ROWS(complex128)
#undef FLAMBEAU_MOVE_ROWS

}  // namespace flambeau
