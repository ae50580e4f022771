// Several pieces of memory as one, so that a list of tensors is exchanged without being copied into one first.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace flambeau::distributed {

class Joined {
 public:
  Joined(const std::vector<char*>& addresses, const std::vector<int64_t>& bytes) : addresses_(addresses) {
    for (int64_t each : bytes) starts_.push_back(starts_.back() + size_t(each));
  }

  // f(address, offset in all, bytes) for what lies in [from, to), piece by piece.
  template <class F>
  void each(size_t from, size_t to, const F& f) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end() - 1, from);
    for (size_t k = size_t(after - starts_.begin()) - 1; from < to; ++k) {
      const size_t end = std::min(to, starts_[k + 1]);
      if (end > from) f(addresses_[k] + (from - starts_[k]), from, end - from);
      from = end;
    }
  }
  void copy_to(char* target, size_t from, size_t to) const {
    each(from, to, [&](const char* own, size_t at, size_t bytes) { std::memcpy(target + (at - from), own, bytes); });
  }
  void copy_from(const char* source, size_t from, size_t to) const {
    each(from, to, [&](char* own, size_t at, size_t bytes) { std::memcpy(own, source + (at - from), bytes); });
  }

 private:
  const std::vector<char*>& addresses_;
  std::vector<size_t> starts_{0};  // and where the last one ends
};

}  // namespace flambeau::distributed
