// Radix sort, stable: least significant digit first, 8 bits at a time; digits in which all keys agree are skipped.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace flambeau {

// Sorts a[0 … n) by the lowest 8 * digits bits of key(element); n > 0; scratch has room for n elements.
template <class E, class Key>
void radix_sort(E* a, E* scratch, int64_t n, int digits, Key key) {
  std::vector<int64_t> counts(size_t(digits * 256), 0);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t k = key(a[i]);
    for (int d = 0; d < digits; ++d) ++counts[size_t(d * 256 + int(k >> (8 * d) & 255))];
  }
  E *from = a, *to = scratch;
  for (int d = 0; d < digits; ++d) {
    int64_t* count = &counts[size_t(d * 256)];
    if (count[key(from[0]) >> (8 * d) & 255] == n) continue;
    int64_t sum = 0;
    for (int b = 0; b < 256; ++b) {
      int64_t c = count[b];
      count[b] = sum;
      sum += c;
    }
    for (int64_t i = 0; i < n; ++i) to[count[key(from[i]) >> (8 * d) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != a) std::copy(from, from + n, a);
}

}  // namespace flambeau
