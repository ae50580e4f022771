// Arithmetic on sizes, checked: what no int64 holds is an error that names the operator and the sizes.
//
// Sizes come from users, and expanded tensors have as many elements as they like without the memory; so every product
// or sum of sizes that is not bounded by memory that exists goes through here. Views of meta tensors count, too.
#pragma once
#include <initializer_list>
#include <span>

#include "error.h"

namespace flambeau {

[[noreturn]] void size_overflow(const char* op, const char* between, std::span<const int64_t> sizes);  // tensor.cpp

// The product; 0 when a factor is 0, however large the others are.
inline int64_t size_product(const char* op, std::span<const int64_t> sizes) {
  int64_t n = 1;
  bool overflow = false, zero = false;
  for (int64_t s : sizes) {
    zero |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (__builtin_expect(overflow && !zero, 0)) size_overflow(op, " * ", sizes);
  return zero ? 0 : n;
}
inline int64_t size_sum(const char* op, std::span<const int64_t> sizes) {
  int64_t n = 0;
  bool overflow = false;
  for (int64_t s : sizes) overflow |= __builtin_add_overflow(n, s, &n);
  if (__builtin_expect(overflow, 0)) size_overflow(op, " + ", sizes);
  return n;
}
inline int64_t size_product(const char* op, std::initializer_list<int64_t> sizes) {
  return size_product(op, std::span(sizes.begin(), sizes.size()));
}
inline int64_t size_sum(const char* op, std::initializer_list<int64_t> sizes) {
  return size_sum(op, std::span(sizes.begin(), sizes.size()));
}

}  // namespace flambeau
