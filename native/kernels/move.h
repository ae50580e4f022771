// Moving bytes that lie together.
#pragma once
#include <cstdint>
#include <cstring>

namespace flambeau {

// memcpy, but where it is slow: AMD's processors move long runs (`rep movsb`) at a tenth of their speed when the
// destination lies a few bytes after the source modulo 4096, as in the shifted rows of a matrix, and a little slower to
// a destination that no vector begins at.
inline void move_bytes(char* to, const char* from, int64_t n) {
  using Block [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = char;
  const uintptr_t apart = (uintptr_t(to) - uintptr_t(from)) % 4096, past = uintptr_t(to) % 32;
  if (n > 1024 && ((apart > 0 && apart < 64) || (past && n < 1 << 16))) {
    std::memcpy(to, from, 32);
    to += 32 - past, from += 32 - past, n -= int64_t(32 - past);
    for (; n >= 64; n -= 64, to += 64, from += 64) {
      const Block a = *reinterpret_cast<const Block*>(from), b = *reinterpret_cast<const Block*>(from + 32);
      *reinterpret_cast<Block*>(to) = a;
      *reinterpret_cast<Block*>(to + 32) = b;
    }
  }
  std::memcpy(to, from, size_t(n));
}

}  // namespace flambeau
