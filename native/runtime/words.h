// Numbers and texts, one after another, as Python writes them (flambeau/_graph/words.py): how plans and programs reach
// native code. Nothing in them is trusted: reading past the end, or what cannot be, is a ValueError.
#pragma once
#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "../core/error.h"

namespace flambeau {

class Words {
 public:
  Words(std::span<const int64_t> all, const char* what) : all_(all), what_(what) {}

  int64_t next() { return rest(1)[0]; }
  double real() { return std::bit_cast<double>(next()); }
  // A number of at least `least` and below `end`.
  int64_t within(int64_t least, int64_t end, const char* name) {
    const int64_t n = next();
    if (n < least || n >= end) fail(concat(name, " is ", n, ", and must be in [", least, ", ", end, ")"));
    return n;
  }
  // How many items follow; each is at least one word.
  size_t count() { return size_t(within(0, int64_t(all_.size() - at_) + 1, "a number of items")); }
  std::span<const int64_t> list() { return rest(count()); }
  // Its bytes fill whole words.
  std::string_view text() {
    const int64_t bytes = within(0, int64_t(all_.size() - at_) * 8 + 1, "the length of a text");
    return {reinterpret_cast<const char*>(rest(size_t(bytes + 7) / 8).data()), size_t(bytes)};
  }
  // How many there are: whatever has a number of its own is written in at least one.
  int64_t length() const { return int64_t(all_.size()); }
  [[noreturn]] void fail(const std::string& why) const { value_error(what_, ": at word ", at_, ", ", why); }

 private:
  std::span<const int64_t> rest(size_t n) {
    if (n > all_.size() - at_) fail("it ends too early");
    return all_.subspan(std::exchange(at_, at_ + n), n);
  }
  std::span<const int64_t> all_;
  const char* what_;
  size_t at_ = 0;
};

}  // namespace flambeau
