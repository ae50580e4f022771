// The distinct elements of a tensor in ascending order, how often each occurs, and which of them every element is.
//
// Elements become unsigned keys of their own size whose order is the wanted one. Keys of a small range are marked in a
// table, few distinct keys of a large range are collected in a hash table, all others are sorted. NaNs, each of which
// is distinct, stay outside of all that and follow behind the numbers in the order of their places.
#include <cstring>
#include <memory>
#include <numeric>
#include <tuple>

#include "radix.h"
#include "reduce.h"
#include "scratch.h"
#include "steady.h"

namespace flambeau {
namespace {

template <int size>
using BitsOf = std::tuple_element_t<size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3,
                                    std::tuple<uint8_t, uint16_t, uint32_t, uint64_t>>;

// How elements of type S become keys and keys become elements again.
template <class S>
struct Order {
  using Bits = BitsOf<sizeof(S)>;
  static constexpr bool real = std::is_floating_point_v<S> || std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>;
  static constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(S) - 1));
  static constexpr Bits infinity = std::is_same_v<S, float16>    ? Bits(0x7c00)
                                   : std::is_same_v<S, bfloat16> ? Bits(0x7f80)
                                   : sizeof(S) == 4              ? Bits(0x7f800000)
                                                                 : Bits(0x7ff0000000000000);
  static bool nan(Bits u) { return real && Bits(u & ~sign) > infinity; }
  static Bits key(Bits u) {
    if constexpr (real) {
      if (u == sign) u = 0;  // -0 and 0 are equal
      return u & sign ? Bits(~u) : Bits(u | sign);
    } else {
      return std::is_signed_v<S> ? Bits(u ^ sign) : u;
    }
  }
  static Bits element(Bits k) {
    if constexpr (real) return k & sign ? Bits(k ^ sign) : Bits(~k);
    else return std::is_signed_v<S> ? Bits(k ^ sign) : k;
  }
};

struct Range {
  uint64_t low = ~uint64_t(0), high = 0;  // of the numbers' keys
  int64_t nans = 0;
};
struct Found {
  std::vector<uint64_t> keys;  // above the lowest key, ascending
  std::vector<int64_t> counts;
  void add(uint64_t key, int64_t count) {
    keys.push_back(key);
    counts.push_back(count);
  }
};

template <class S>
Range range_of(const BitsOf<sizeof(S)>* x, int64_t n) {
  using O = Order<S>;
  constexpr int64_t piece = int64_t(1) << 16;
  std::vector<Range> pieces(size_t((n + piece - 1) / piece));
  parallel_for(int64_t(pieces.size()), 2, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      typename O::Bits low = ~typename O::Bits(0), high = 0;
      int64_t nans = 0;
      for (int64_t i = p * piece, last = std::min(n, i + piece); i < last; ++i) {
        const bool nan = O::nan(x[i]);
        const auto k = O::key(x[i]);
        low = !nan && k < low ? k : low;
        high = !nan && k > high ? k : high;
        nans += nan;
      }
      pieces[size_t(p)] = {low, high, nans};
    }
  });
  Range all;
  for (const Range& r : pieces) all = {std::min(all.low, r.low), std::max(all.high, r.high), all.nans + r.nans};
  return all;
}

// Writes name(i) for every number's place i, and numbers the NaNs from `next` on.
template <class S, class F>
void put_inverse(const BitsOf<sizeof(S)>* x, int64_t n, int64_t nans, int64_t next, int64_t* inverse, F&& name) {
  if (nans) {
    for (int64_t i = 0; i < n; ++i) inverse[i] = Order<S>::nan(x[i]) ? next++ : name(i);
  } else {
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) inverse[i] = name(i);
    });
  }
}

template <class S>
Found by_table(const BitsOf<sizeof(S)>* x, int64_t n, const Range& range, int64_t* inverse, bool counting) {
  using O = Order<S>;
  const auto low = typename O::Bits(range.low);
  std::vector<uint32_t> table(size_t(range.high - range.low + 1), 0);
  auto at = [&](int64_t i) -> uint32_t& { return table[size_t(typename O::Bits(O::key(x[i]) - low))]; };
  if (counting) {
    for (int64_t i = 0; i < n; ++i)
      if (!O::nan(x[i])) ++at(i);
  } else {
    for (int64_t i = 0; i < n; ++i)
      if (!O::nan(x[i])) at(i) = 1;
  }
  Found found;
  for (size_t k = 0; k < table.size(); ++k) {
    if (!table[k]) continue;
    found.add(k, table[k]);
    table[k] = uint32_t(found.keys.size() - 1);
  }
  const int64_t numbers = int64_t(found.keys.size());
  if (inverse) put_inverse<S>(x, n, range.nans, numbers, inverse, [&](int64_t i) { return int64_t(at(i)); });
  return found;
}

// False, having found nothing, where there are too many distinct keys for it or they collide too often.
template <class S>
bool by_hash(const BitsOf<sizeof(S)>* x, int64_t n, const Range& range, int64_t* inverse, Found& found) {
  using O = Order<S>;
  constexpr int kBits = 14, kProbes = 64;
  constexpr size_t kSlots = size_t(1) << kBits, kMost = kSlots / 4;
  std::vector<uint64_t> keys;        // by order of appearance
  std::vector<int64_t> counts;
  std::vector<uint32_t> slots(kSlots, 0);  // a number of `keys` and 1, or 0
  for (int64_t i = 0; i < n; ++i) {
    if (O::nan(x[i])) continue;
    const uint64_t k = O::key(x[i]) - range.low;
    size_t slot = size_t(k * 0x9e3779b97f4a7c15u >> (64 - kBits));
    for (int probes = 0; slots[slot] && keys[slots[slot] - 1] != k; slot = (slot + 1) % kSlots)
      if (++probes == kProbes) return false;
    if (!slots[slot]) {
      if (keys.size() == kMost) return false;
      keys.push_back(k);
      counts.push_back(0);
      slots[slot] = uint32_t(keys.size());
    }
    ++counts[slots[slot] - 1];
    if (inverse) inverse[i] = slots[slot] - 1;
  }
  std::vector<uint32_t> order(keys.size());
  for (size_t j = 0; j < order.size(); ++j) order[j] = uint32_t(j);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  std::vector<int64_t> rank(keys.size());
  for (size_t j = 0; j < order.size(); ++j) {
    found.add(keys[order[j]], counts[order[j]]);
    rank[order[j]] = int64_t(j);
  }
  if (!inverse) return true;
  auto name = [&](int64_t i) { return rank[size_t(inverse[i])]; };
  put_inverse<S>(x, n, range.nans, int64_t(rank.size()), inverse, name);
  return true;
}

struct Placed {  // a key and its place
  uint64_t key;
  int64_t place;
};
// E: keys of 32 or 64 bits alone, keys of 32 bits above places in one word, or both in 64 bits each.
template <class S, class E, class Make, class Key, class Place>
Found by_sort(const BitsOf<sizeof(S)>* x, int64_t n, const Range& range, int64_t* inverse, Make make, Key key,
              Place place) {
  using O = Order<S>;
  const int64_t count = n - range.nans;
  E *const keys = scratch<E>(kScratchA, count), *const spare = scratch<E>(kScratchB, count);
  int64_t filled = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!O::nan(x[i])) keys[filled++] = make(O::key(x[i]) - range.low, i);
  auto less = [&](const E& a, const E& b) { return key(a) < key(b); };
  if (!std::is_sorted(keys, keys + count, less)) {
    int digits = 1;
    while (digits < 8 && (range.high - range.low) >> (8 * digits)) ++digits;
    radix_sort(keys, spare, count, digits, key);
  }
  size_t distinct = 1;
  for (int64_t i = 1; i < count; ++i) distinct += key(keys[i]) != key(keys[i - 1]);
  Found found;
  found.keys.reserve(distinct);
  found.counts.reserve(distinct);
  for (int64_t i = 0, next; i < count; i = next) {
    const uint64_t k = key(keys[i]);
    for (next = i; next < count && key(keys[next]) == k; ++next)
      if (inverse) inverse[place(keys[next])] = int64_t(found.keys.size());
    found.add(k, next - i);
  }
  if (inverse && range.nans)
    put_inverse<S>(x, n, range.nans, int64_t(found.keys.size()), inverse, [&](int64_t i) { return inverse[i]; });
  trim_scratch();
  return found;
}

template <class S>
Found find(const BitsOf<sizeof(S)>* x, int64_t n, const Range& range, int64_t* inverse, bool counting) {
  const uint64_t width = range.high - range.low;
  Found found;
  if (range.nans == n) {
    if (inverse) put_inverse<S>(x, n, n, 0, inverse, [](int64_t) { return int64_t(0); });
    return found;
  }
  const bool narrow = sizeof(S) <= 2 ? width <= 256 || n >= 1024 : width <= uint64_t(n);
  if (narrow) return by_table<S>(x, n, range, inverse, counting);
  if (n >= 4096 && by_hash<S>(x, n, range, inverse, found)) return found;
  auto none = [](const auto&) { return int64_t(0); };
  if (width >> 32 == 0) {
    if (!inverse) {
      return by_sort<S, uint32_t>(x, n, range, inverse, [](uint64_t k, int64_t) { return uint32_t(k); },
                                  [](uint32_t e) { return uint64_t(e); }, none);
    }
    return by_sort<S, uint64_t>(x, n, range, inverse, [](uint64_t k, int64_t i) { return k << 32 | uint64_t(i); },
                                [](uint64_t e) { return e >> 32; }, [](uint64_t e) { return int64_t(uint32_t(e)); });
  }
  if constexpr (sizeof(S) == 8) {
    if (!inverse) {
      return by_sort<S, uint64_t>(x, n, range, inverse, [](uint64_t k, int64_t) { return k; },
                                  [](uint64_t e) { return e; }, none);
    }
    found = by_sort<S, Placed>(x, n, range, inverse, [](uint64_t k, int64_t i) { return Placed{k, i}; },
                               [](const Placed& e) { return e.key; }, [](const Placed& e) { return e.place; });
  }
  return found;
}

// The elements found, then the NaNs. A zero has the sign of the first one there is.
template <class S>
void put_values(const BitsOf<sizeof(S)>* x, int64_t n, const Range& range, const Found& found, BitsOf<sizeof(S)>* to) {
  using O = Order<S>;
  using Bits = typename O::Bits;
  for (uint64_t k : found.keys) {
    Bits u = O::element(Bits(k + range.low));
    if (O::real && u == 0) u = *std::find_if(x, x + n, [](Bits e) { return Bits(e & ~O::sign) == 0; });
    *to++ = u;
  }
  for (int64_t i = 0, left = range.nans; left; ++i)
    if (O::nan(x[i])) {
      *to++ = x[i];
      --left;
    }
}

// _unique(self, return_inverse, return_counts) -> (values, inverse, counts); what is not wanted is empty
void infer_unique(Call& c) {
  const Tensor& x = c.tensor(0);
  if (x.is_meta()) not_implemented("unique: the result's shape depends on values, which a meta tensor does not have");
  if (is_complex(x.dtype))
    not_implemented("unique: not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  if (x.numel >= int64_t(1) << 32) not_implemented("unique: more than 2^32 elements");
}
// The results are made here: their sizes are known only at the end.
void cpu_unique(Call& c) {
  Tensor& given = c.tensor(0);
  const int64_t n = given.numel;
  const bool counting = c.boolean(2);
  const int64_t nothing = 0;
  TensorRef x = snapshot(given, given.dtype),
            inverse = empty(c.boolean(1) ? given.shape() : Dims(&nothing, 1), DType::Int64);
  visit_dtype(given.dtype, [&]<class S>() {
    if constexpr (!std::is_same_v<S, complex64> && !std::is_same_v<S, complex128>) {
      using Bits = BitsOf<sizeof(S)>;
      const Bits* data = x->ptr<Bits>();
      Range range;
      Found found;
      {
        LockRelease lock(n * 4);
        range = range_of<S>(data, n);
        found = find<S>(data, n, range, c.boolean(1) ? inverse->ptr<int64_t>() : nullptr, counting);
      }
      const int64_t distinct = int64_t(found.keys.size()) + range.nans, counts = counting ? distinct : 0;
      put_values<S>(data, n, range, found, c.output({&distinct, 1}, given.dtype, given.device).template ptr<Bits>());
      c.push(inverse);
      int64_t* to = c.output({&counts, 1}, DType::Int64, given.device).template ptr<int64_t>();
      if (counting) std::fill(std::copy(found.counts.begin(), found.counts.end(), to), to + counts, int64_t(1));
    }
  });
}

// _without_repeats(self): what differs from the element before it
void infer_without_repeats(Call& c) {
  if (c.tensor(0).is_meta())
    not_implemented("unique_consecutive: the result's shape depends on values, which a meta tensor does not have");
}
// How many of x[begin … end) differ from the one before them; the first of all does.
template <class S>
int64_t runs_in(const S* x, int64_t begin, int64_t end) {
  int64_t count = begin == 0 && end > 0;
  for (int64_t i = std::max<int64_t>(begin, 1); i < end; ++i) count += !(x[i] == x[i - 1]);
  return count;
}
// Always written, counted where it differs: there is no branch to predict.
template <class S>
void put_runs(const S* x, int64_t begin, int64_t end, S* to, int64_t count) {
  int64_t filled = 0;
  for (int64_t i = begin; i < end && filled < count; ++i) {
    to[filled] = x[i];
    filled += i == 0 || !(x[i] == x[i - 1]);
  }
  std::fill(to + filled, to + count, S{});  // another thread has made equal what differed
}
void cpu_without_repeats(Call& c) {
  constexpr int64_t kPart = 1 << 16;
  Tensor& given = c.tensor(0);
  TensorRef x = contiguous(given);
  visit_dtype(given.dtype, [&]<class S>() {
    const S* from = x->ptr<S>();
    const int64_t n = given.numel, parts = (n + kPart - 1) / kPart;
    std::vector<int64_t> places(size_t(parts + 1), 0);
    {
      LockRelease lock(n);
      parallel_for(parts, 1, [&](int64_t k, int64_t last) {
        for (; k < last; ++k) places[size_t(k + 1)] = runs_in(from, k * kPart, std::min(n, (k + 1) * kPart));
      });
    }
    std::partial_sum(places.begin(), places.end(), places.begin());
    S* to = c.output({&places.back(), 1}, given.dtype, given.device).template ptr<S>();
    LockRelease lock(n);
    parallel_for(parts, 1, [&](int64_t k, int64_t last) {
      for (; k < last; ++k)
        put_runs(from, k * kPart, std::min(n, (k + 1) * kPart), to + places[size_t(k)],
                 places[size_t(k + 1)] - places[size_t(k)]);
    });
  });
}

const Primitives rows{
    {"_unique", infer_unique, cpu_unique, Infer::ReadsValues},
    {"_without_repeats", infer_without_repeats, cpu_without_repeats, Infer::ReadsValues},
};

}  // namespace
}  // namespace flambeau
