// Moving bytes that lie together, and elements that lie apart.
#pragma once
#include <algorithm>
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

template <int step, class U> inline void pick(U* __restrict to, const char* from, int64_t n) {
  using Loose [[gnu::aligned(1), gnu::may_alias]] = U;
  const Loose* p = reinterpret_cast<const Loose*>(from);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = p[step * i];
}
// Elements `stride` bytes apart, side by side.
template <class U> inline void gather_run(U* to, const char* from, int64_t stride, int64_t n) {
  constexpr int64_t item = sizeof(U);
  const auto element = [&](int64_t k) {
    U v;
    std::memcpy(&v, from + k * stride, sizeof(U));
    return v;
  };
  if (stride == 0) return (void)std::fill_n(to, n, element(0));
  if (stride == 2 * item) return pick<2>(to, from, n);
  if (stride == 3 * item) return pick<3>(to, from, n);
  if (stride == 4 * item) return pick<4>(to, from, n);
  int64_t i = 0;
  if constexpr (item == 4) {
    typedef U Four __attribute__((vector_size(16)));
    for (; i + 4 <= n; i += 4, from += 4 * stride) {
      const Four v{element(0), element(1), element(2), element(3)};
      std::memcpy(to + i, &v, sizeof v);
    }
  }
  for (; i < n; ++i, from += stride) to[i] = element(0);
}

}  // namespace flambeau
