// Sorting and selection along one dimension.
//
// Every element becomes an unsigned key whose order is the wanted one (NaN above all numbers; complemented to descend),
// joined with its position: equal keys keep their order, so every sort here is stable, and values are fetched by
// position.
#include <numeric>

#include "fibres.h"
#include "options.h"
#include "radix.h"
#include "reduce.h"
#include "scratch.h"
#include "simd_casts.h"

namespace flambeau {
namespace {

struct Wide {  // key of 64 bits
  uint64_t key;
  int64_t index;
  bool operator<(const Wide& o) const { return key != o.key ? key < o.key : index < o.index; }
};
// Keys of 32 bits and positions below 2^32 share one word.
struct Narrow {
  uint64_t word;
  bool operator<(const Narrow& o) const { return word < o.word; }
};
inline int64_t index_of(const Wide& w) { return w.index; }
inline int64_t index_of(const Narrow& w) { return int64_t(uint32_t(w.word)); }
inline uint64_t key_of(const Wide& w) { return w.key; }
inline uint64_t key_of(const Narrow& w) { return w.word >> 32; }

template <class K, class S>
K key(S v) {
  if constexpr (std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>) {
    return key<K, float>(float(v));
  } else if constexpr (std::is_floating_point_v<S>) {
    using U = std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t>;
    constexpr U sign = U(1) << (8 * sizeof(S) - 1);
    if (v != v) return K(~U(0));
    if (v == 0) v = 0;  // -0 and 0 are equal
    U u = bit_copy<U>(v);
    return K(u & sign ? ~u : u | sign);
  } else if constexpr (std::is_signed_v<S>) {
    return K(int64_t(v)) ^ (K(1) << (8 * sizeof(K) - 1));
  } else {
    return K(v);
  }
}

// Of floats side by side, the first of which is number `first`: without branches, for the vector unit.
void fill_float_keys(Narrow* to, const float* from, int64_t n, int64_t first, bool descending) {
  const uint32_t* s = reinterpret_cast<const uint32_t*>(from);
  const uint32_t flip = descending ? ~0u : 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t u = s[i], magnitude = u & 0x7fffffff;
    u = magnitude == 0 ? 0 : u;
    uint32_t k = u ^ (uint32_t(int32_t(u) >> 31) | 0x80000000);
    k = magnitude > 0x7f800000 ? ~0u : k;
    to[i].word = uint64_t(k ^ flip) << 32 | uint32_t(first + i);
  }
}
template <class E, class S>
void fill_keys(E* to, const char* base, int64_t stride, int64_t n, bool descending, uint64_t low) {
  if constexpr (std::is_same_v<E, Narrow> &&
                sizeof(S) == 8) {  // numbers close together: their distance from the lowest
    for (int64_t i = 0; i < n; ++i) {
      S v;
      std::memcpy(&v, base + i * stride, sizeof(S));
      uint32_t k = uint32_t(key<uint64_t, S>(v) - low);
      to[i].word = uint64_t(descending ? ~k : k) << 32 | uint32_t(i);
    }
    return;
  }
  if constexpr (std::is_same_v<E, Narrow> && std::is_same_v<S, float>)
    if (stride == 4) return fill_float_keys(to, reinterpret_cast<const float*>(base), n, 0, descending);
  if constexpr (std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>)
    if (stride == 2) {
      float some[kBlock];
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t m = std::min(kBlock, n - i);
        cast_run(some, reinterpret_cast<const S*>(base) + i, m);
        fill_float_keys(to + i, some, m, i, descending);
      }
      return;
    }
  for (int64_t i = 0; i < n; ++i) {
    S v;
    std::memcpy(&v, base + i * stride, sizeof(S));
    if constexpr (std::is_same_v<E, Narrow>) {
      uint32_t k = uint32_t(key<std::conditional_t<sizeof(S) == 8, uint64_t, uint32_t>, S>(v));
      to[i].word = uint64_t(descending ? ~k : k) << 32 | uint32_t(i);
    } else {
      uint64_t k = key<uint64_t, S>(v);
      to[i] = {descending ? ~k : k, i};
    }
  }
}
template <class E> using FillKeys = void (*)(E*, const char*, int64_t, int64_t, bool, uint64_t);
template <class E>
FillKeys<E> fill_keys_of(DType t) {
  if constexpr (std::is_same_v<E, Narrow>) {
    switch (t) {
      case DType::Bool:
      case DType::UInt8: return fill_keys<E, uint8_t>;
      case DType::Int8: return fill_keys<E, int8_t>;
      case DType::Int16: return fill_keys<E, int16_t>;
      case DType::UInt16: return fill_keys<E, uint16_t>;
      case DType::Int32: return fill_keys<E, int32_t>;
      case DType::UInt32: return fill_keys<E, uint32_t>;
      case DType::Float16: return fill_keys<E, float16>;
      case DType::BFloat16: return fill_keys<E, bfloat16>;
      case DType::Float32: return fill_keys<E, float>;
      case DType::Int64: return fill_keys<E, int64_t>;
      case DType::UInt64: return fill_keys<E, uint64_t>;
      default: return nullptr;
    }
  } else {
    switch (t) {
      case DType::Int64: return fill_keys<E, int64_t>;
      case DType::UInt64: return fill_keys<E, uint64_t>;
      case DType::Float64: return fill_keys<E, double>;
      default: return nullptr;
    }
  }
}
// Keys that float or double NaNs have (before complementing).
uint64_t nan_key(DType t) { return t == DType::Float64 ? ~uint64_t(0) : is_floating(t) ? 0xffffffffu : ~uint64_t(0); }

constexpr int64_t kRadix = 512;  // fewer are compared
// spare: room for n elements, where there are kRadix of them or more
template <class E>
void sort_keys(E* a, E* spare, int64_t n) {
  if (n < kRadix) std::sort(a, a + n);
  else radix_sort(a, spare, n, std::is_same_v<E, Narrow> ? 4 : 8, [](const E& e) { return key_of(e); });
}

// The lowest key of 64-bit integers, and how far above it the highest is.
struct KeyRange {
  uint64_t low = 0, width = ~uint64_t(0);
  bool narrow() const { return width < uint64_t(1) << 32; }
};
KeyRange key_range(const Tensor& x) {
  if (!x.numel || (x.dtype != DType::Int64 && x.dtype != DType::UInt64)) return {};
  const uint64_t flip = x.dtype == DType::Int64 ? uint64_t(1) << 63 : 0, *p = x.ptr<uint64_t>();
  uint64_t low = ~uint64_t(0), high = 0;
  for (int64_t i = 0; i < x.numel; ++i) {
    low = std::min(low, p[i] ^ flip);
    high = std::max(high, p[i] ^ flip);
  }
  return {low, high - low};
}

// f(fibre, keys, spare, base) for every fibre of contiguous x, in parallel; `low`: what its keys are counted from.
template <class E, class F>
void each_fibre(const Tensor& x, const Fibres& f, bool descending, uint64_t low, F&& body) {
  FillKeys<E> fill = fill_keys_of<E>(x.dtype);
  const int64_t item = x.itemsize();
  parallel_for(f.outer * f.inner, std::max<int64_t>(1, 2048 / std::max<int64_t>(1, f.n)),
               [&](int64_t begin, int64_t end) {
                 E *keys = scratch<E>(kScratchA, f.n), *spare = scratch<E>(kScratchB, f.n < kRadix ? 0 : f.n);
                 for (int64_t u = begin; u < end; ++u) {
                   const char* base = x.data + (u / f.inner * f.n * f.inner + u % f.inner) * item;
                   fill(keys, base, f.inner * item, f.n, descending, low);
                   body(u, keys, spare, base);
                 }
                 trim_scratch();
               });
}
// f.operator()<kind of key>(what the keys are counted from)
template <class F>
void visit_keys(const Call& c, const Tensor& x, int64_t n, F&& f) {
  if (n >= int64_t(1) << 32) not_implemented(c.name(), ": more than 2^32 elements along one dimension");
  const KeyRange range = key_range(x);
  const bool wide = x.itemsize() == 8 && !range.narrow();
  if (!wide && fill_keys_of<Narrow>(x.dtype)) return f.template operator()<Narrow>(range.low);
  if (fill_keys_of<Wide>(x.dtype)) return f.template operator()<Wide>(0);
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype));
}

void copy_element(char* to, const char* from, int64_t item) {
  switch (item) {
    case 1: *to = *from; break;
    case 2: std::memcpy(to, from, 2); break;
    case 4: std::memcpy(to, from, 4); break;
    default: std::memcpy(to, from, 8); break;
  }
}

// Fibre u of the results: `count` elements from position `keys[first…]`.
struct Results {
  Tensor &values, &indices;
  int64_t count, inner, step, item;
  Results(Tensor& v, Tensor& i, int64_t count, const Fibres& f, int64_t item)
      : values(v), indices(i), count(count), inner(f.inner), step(f.inner * item), item(item) {}
  template <class E>
  void put(int64_t u, const E* keys, const char* base) {
    const int64_t first = u / inner * count * inner + u % inner;
    char* v = values.data;
    int64_t* at = indices.ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = index_of(keys[i]);
      copy_element(v + (first + i * inner) * item, base + k * step, item);
      at[first + i * inner] = k;
    }
  }
};

// Integers of few different values along long fibres: each is put behind those of its value so far.
constexpr int64_t kFew = 4096;
template <class S>
bool count_and_place(const Tensor& x, const Fibres& f, bool descending, Tensor& values, Tensor& indices) {
  using U = std::make_unsigned_t<S>;
  const S* from = x.ptr<S>();
  S base = *from, high = *from;
  for (int64_t i = 0; i < x.numel; ++i) base = std::min(base, from[i]), high = std::max(high, from[i]);
  const uint64_t width = uint64_t(U(U(high) - U(base)));
  if (width >= uint64_t(std::min(kFew, f.n / 4))) return false;
  parallel_for(f.outer * f.inner, 1, [&](int64_t u, int64_t end) {
    std::vector<int64_t> places(width + 1);
    // another thread may write to x meanwhile: what lies outside by now counts as the highest
    auto bin = [&](const S* p) {
      const uint64_t k = std::min<uint64_t>(U(U(__atomic_load_n(p, __ATOMIC_RELAXED)) - U(base)), width);
      return descending ? width - k : k;
    };
    for (; u < end; ++u) {
      const int64_t first = u / f.inner * f.n * f.inner + u % f.inner;
      std::ranges::fill(places, 0);
      for (int64_t i = 0; i < f.n; ++i) ++places[bin(from + first + i * f.inner)];
      int64_t at = 0;
      for (uint64_t k = 0; k <= width; ++k) {
        const int64_t count = places[k];
        const S value = S(U(base) + U(descending ? width - k : k));
        for (int64_t i = 0; i < count; ++i) values.ptr<S>()[first + (at + i) * f.inner] = value;
        places[k] = at;
        at += count;
      }
      for (int64_t i = 0; i < f.n; ++i) {
        const int64_t place = places[bin(from + first + i * f.inner)]++;
        indices.ptr<int64_t>()[first + std::min(place, f.n - 1) * f.inner] = i;
      }
    }
  });
  return true;
}
bool sort_few(Call& c, const Tensor& x, const Fibres& f, bool descending) {
  if (f.n < kRadix || category(x.dtype) != Category::Integer) return false;
  bool done = false;
  LockRelease lock(x.numel * 8);
  visit_dtype(x.dtype, [&]<class S>() {
    if constexpr (std::is_integral_v<S> && !std::is_same_v<S, bool>)
      done = count_and_place<S>(x, f, descending, c.out(0), c.out(1));
  });
  return done;
}

// sort(self, dim, descending, stable), always stable -> (values, indices), which lie in memory in self's order
void infer_sort(Call& c) {
  Tensor& x = c.tensor(0);
  c.dim(1, x.ndim);
  check_order(c, x);
  const std::vector<int64_t> strides = like_strides(x);
  c.output(x.shape(), x.dtype, x.device, strides);
  c.output(x.shape(), DType::Int64, x.device, strides);
}
// x in one piece, its dimensions in the order in which those of `out` lie; `dim` is the same one then.
TensorRef in_order_of(const Tensor& out, Tensor& x, int64_t& dim) {
  if (out.contiguous()) return contiguous(x);
  int order[kMaxDims];
  std::iota(order, order + x.ndim, 0);
  std::stable_sort(order, order + x.ndim, [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  std::vector<int64_t> sizes, strides;
  for (int k = 0; k < x.ndim; ++k) sizes.push_back(x.sizes[order[k]]), strides.push_back(x.strides[order[k]]);
  dim = std::find(order, order + x.ndim, int(dim)) - order;
  return contiguous(*view_of(x, sizes, strides, x.data));
}
void cpu_sort(Call& c) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return;
  int64_t dim = c.dim(1, given.ndim);
  TensorRef x = in_order_of(c.out(0), given, dim);
  const Fibres f(*x, dim);
  Results results(c.out(0), c.out(1), f.n, f, x->itemsize());
  const bool descending = c.boolean(2);
  if (sort_few(c, *x, f, descending)) return;
  visit_keys(c, *x, f.n, [&]<class E>(uint64_t low) {
    LockRelease lock(given.numel * 16);
    const bool close = std::is_same_v<E, Narrow> && x->itemsize() == 8;
    const uint64_t flip = x->dtype == DType::Int64 ? uint64_t(1) << 63 : 0;
    each_fibre<E>(*x, f, descending, low, [&](int64_t u, E* keys, E* spare, const char* base) {
      sort_keys(keys, spare, f.n);
      if (!close) return results.put(u, keys, base);
      // the numbers from their keys: reading them from where they were would miss the cache
      const int64_t first = u / f.inner * f.n * f.inner + u % f.inner;
      for (int64_t i = 0; i < f.n; ++i) {
        const uint32_t k = uint32_t(key_of(keys[i]));
        c.out(0).ptr<uint64_t>()[first + i * f.inner] = (low + (descending ? ~k : k)) ^ flip;
        c.out(1).ptr<int64_t>()[first + i * f.inner] = index_of(keys[i]);
      }
    });
  });
}

// The heap's top, its largest key, gives way to a smaller one.
template <class E>
void replace_top(E* heap, int64_t n, E key) {
  int64_t at = 0;
  for (int64_t child = 1; child < n; child = 2 * at + 1) {
    child += child + 1 < n && heap[child] < heap[child + 1];
    if (!(key < heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
}
// The lowest k of many keys come to the front: a heap of those so far, whose top few of the others beat.
template <class E>
void lowest_in_front(E* keys, int64_t k, int64_t n) {
  constexpr int kBlock = 16;  // keys that are compared side by side
  std::make_heap(keys, keys + k);
  int64_t i = k;
  auto each = [&](int64_t end) {
    for (; i < end; ++i)
      if (keys[i] < keys[0]) replace_top(keys, k, keys[i]);
  };
  while (i + kBlock <= n) {
    bool any = false;
    for (int j = 0; j < kBlock; ++j) any |= keys[i + j] < keys[0];
    if (any) each(i + kBlock);
    else i += kBlock;
  }
  each(n);
}

// Whether v comes before `worst`, or one of them is NaN, whose keys decide.
template <class S>
bool may_beat(S v, S worst, bool largest) {
  return largest ? !(v <= worst) : !(v >= worst);
}
// The first k of a row in order, k being few: its numbers become keys only where they beat the worst so far.
template <class S>
void first_of_row(const S* row, int64_t n, int64_t k, bool largest, Wide* heap) {
  constexpr int kSide = 32;  // numbers that are compared side by side
  auto key_at = [&](int64_t i) {
    const uint64_t of = key<uint64_t, S>(row[i]);
    return Wide{largest ? ~of : of, i};
  };
  for (int64_t i = 0; i < k; ++i) heap[i] = key_at(i);
  std::make_heap(heap, heap + k);
  S worst = row[heap[0].index];
  auto each = [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      if (!may_beat(row[i], worst, largest)) continue;
      if (const Wide found = key_at(i); found < heap[0]) replace_top(heap, k, found), worst = row[heap[0].index];
    }
  };
  int64_t i = k;
  for (; i + kSide <= n; i += kSide) {
    LaneInt<S> any = 0;  // as wide as the numbers, for the vector unit
    if (largest)
      for (int j = 0; j < kSide; ++j) any |= may_beat(row[i + j], worst, true) ? -1 : 0;
    else
      for (int j = 0; j < kSide; ++j) any |= may_beat(row[i + j], worst, false) ? -1 : 0;
    if (any) each(i, i + kSide);
  }
  each(i, n);
}
// topk of rows that are runs of memory; false where keys are made of all numbers instead.
bool few_of_rows(const Tensor& x, const Fibres& f, int64_t pitch, int64_t k, bool largest, Results& results) {
  bool done = false;
  if (pitch && k * 8 <= f.n) visit_dtype(x.dtype, [&]<class S>() {
    if constexpr (std::is_arithmetic_v<S> && !std::is_same_v<S, bool>) {
      done = true;
      LockRelease lock(x.numel * 2);
      parallel_for(f.outer, std::max<int64_t>(1, 16384 / f.n), [&](int64_t u, int64_t end) {
        Wide *heap = scratch<Wide>(kScratchA, k), *spare = scratch<Wide>(kScratchB, k < kRadix ? 0 : k);
        for (; u < end; ++u) {
          const S* row = x.ptr<S>() + u * pitch;
          first_of_row(row, f.n, k, largest, heap);
          sort_keys(heap, spare, k);
          results.put(u, heap, reinterpret_cast<const char*>(row));
        }
        trim_scratch();
      });
    }
  });
  return done;
}

// topk(self, k, dim, largest, sorted) -> (values, indices)
void infer_topk(Call& c) {
  Tensor& x = c.tensor(0);
  const int64_t dim = c.dim(2, x.ndim), n = x.ndim ? x.size(int(dim)) : 1, k = c.integer(1);
  check_order(c, x);
  if (k < 0 || k > n) runtime_error("topk: k must be from 0 to ", n, ", the size of dim ", dim, ", got ", k);
  Sizes s = reduced_shape(x, 0, true);
  if (x.ndim) s.size[dim] = k;
  c.output(s, x.dtype, x.device);
  c.output(s, DType::Int64, x.device);
}
void cpu_topk(Call& c) {
  Tensor& given = c.tensor(0);
  const int64_t k = given.ndim ? c.integer(1) : 1, dim = c.dim(2, given.ndim);  // a number is all there is of it
  const Fibres f(given, dim);
  if (!given.numel || k == 0) return;
  Results results(c.out(0), c.out(1), k, f, given.itemsize());
  if (few_of_rows(given, f, dim == given.ndim - 1 ? row_pitch(given) : 0, k, c.boolean(3), results)) return;
  TensorRef x = contiguous(given);
  visit_keys(c, *x, f.n, [&]<class E>(uint64_t low) {
    LockRelease lock(given.numel * 8);
    each_fibre<E>(*x, f, c.boolean(3), low, [&](int64_t u, E* keys, E* spare, const char* base) {
      if (k * 8 <= f.n) {
        lowest_in_front(keys, k, f.n);
      } else if (k < f.n) {
        std::nth_element(keys, keys + k - 1, keys + f.n);
      }
      sort_keys(keys, spare, k);
      results.put(u, keys, base);
    });
  });
}

// One element of each fibre, chosen by pick(keys, n, spare) -> its place among the keys.
template <class Pick>
void select_element(Call& c, int64_t dim, Pick pick) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return;
  const Fibres f(given, dim);
  TensorRef x = contiguous(given);
  Results results(c.out(0), c.out(1), 1, f, x->itemsize());
  visit_keys(c, *x, f.n, [&]<class E>(uint64_t low) {
    LockRelease lock(given.numel * 8);
    each_fibre<E>(*x, f, false, low, [&](int64_t u, E* keys, E* spare, const char* base) {
      results.put(u, keys + pick(keys, f.n, spare), base);
    });
  });
}
void infer_select(Call& c, int dim_arg, int keepdim_arg) {
  Tensor& x = c.tensor(0);
  const int64_t dim = c.dim(dim_arg, x.ndim);
  check_order(c, x);
  if (x.ndim && x.size(int(dim)) == 0)
    index_error(c.name(), "(): dim ", dim, " has size 0, so there is nothing to reduce");
  Sizes s = reduced_shape(x, uint64_t(1) << dim, c.boolean(keepdim_arg));
  c.output(s, x.dtype, x.device);
  c.output(s, DType::Int64, x.device);
}
// kthvalue(self, k, dim, keepdim)
void infer_kthvalue(Call& c) {
  Tensor& x = c.tensor(0);
  const int64_t dim = c.dim(2, x.ndim), n = x.ndim ? x.size(int(dim)) : 1;
  const int64_t k = c.integer(1);
  if (n && (k < 1 || k > n)) runtime_error("kthvalue: k must be from 1 to ", n, ", the size of dim ", dim, ", got ", k);
  infer_select(c, 2, 3);
}
void cpu_kthvalue(Call& c) {
  const int64_t k = c.integer(1) - 1;
  select_element(c, c.dim(2, c.tensor(0).ndim), [=](auto* keys, int64_t n, auto*) {
    std::nth_element(keys, keys + k, keys + n);
    return k;
  });
}
// median.dim(self, dim, keepdim), nanmedian.dim: the lower of two middle elements
void infer_median(Call& c) { infer_select(c, 1, 2); }
template <bool skip_nan, class E>
int64_t pick_median(DType dtype, E* keys, int64_t n) {
  const uint64_t nan = nan_key(dtype);
  int64_t nans = 0, first = -1;
  if (is_floating(dtype))
    for (int64_t i = 0; i < n; ++i)
      if (key_of(keys[i]) == nan) {
        if (first < 0) first = i;
        ++nans;
      }
  if (nans && (!skip_nan || nans == n)) return first;
  const int64_t k = (n - nans - 1) / 2;
  std::nth_element(keys, keys + k, keys + n);
  return k;
}
template <bool skip_nan>
void cpu_median(Call& c) {
  const DType dtype = c.tensor(0).dtype;
  select_element(c, c.dim(1, c.tensor(0).ndim),
                 [=](auto* keys, int64_t n, auto*) { return pick_median<skip_nan>(dtype, keys, n); });
}
// median.all(self), nanmedian.all: of no elements NaN
void infer_median_all(Call& c) {
  check_order(c, c.tensor(0));
  c.output({}, c.tensor(0).dtype, c.tensor(0).device);
}
template <bool skip_nan>
void cpu_median_all(Call& c) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return fill(c.out(), Scalar(is_floating(given.dtype) ? double(NAN) : 0.0));
  TensorRef x = contiguous(given);
  const int64_t n = x->numel, item = x->itemsize();
  visit_keys(c, *x, n, [&]<class E>(uint64_t low) {
    LockRelease lock(n * 8);
    E* keys = scratch<E>(kScratchA, n);
    fill_keys_of<E>(x->dtype)(keys, x->data, item, n, false, low);
    copy_element(c.out().data, x->data + index_of(keys[pick_median<skip_nan>(x->dtype, keys, n)]) * item, item);
    trim_scratch();
  });
}
// mode(self, dim, keepdim): the smallest of the most frequent elements, at its last position
void cpu_mode(Call& c) {
  select_element(c, c.dim(1, c.tensor(0).ndim), [](auto* keys, int64_t n, auto* spare) {
    sort_keys(keys, spare, n);
    int64_t best = 0, longest = 0;
    for (int64_t i = 0; i < n;) {
      int64_t j = i;
      while (j < n && key_of(keys[j]) == key_of(keys[i])) ++j;
      if (j - i > longest) {
        longest = j - i;
        best = j - 1;
      }
      i = j;
    }
    return best;
  });
}

const Primitives rows{
    {"sort", infer_sort, cpu_sort},
    {"topk", infer_topk, cpu_topk},
    {"kthvalue", infer_kthvalue, cpu_kthvalue},
    {"median.dim", infer_median, cpu_median<false>},
    {"nanmedian.dim", infer_median, cpu_median<true>},
    {"median.all", infer_median_all, cpu_median_all<false>},
    {"nanmedian.all", infer_median_all, cpu_median_all<true>},
    {"mode", infer_median, cpu_mode},
};

}  // namespace
}  // namespace flambeau
