// Sorting by the digits of keys: stable, every row at once. An element's key is an unsigned number of its own size whose
// order is the wanted one; all bits are turned to descend. Keys travel with the places where their elements were.
//
// A row of up to 4,096 elements is sorted by one block, which holds it in registers. Longer rows are cut into tiles. For
// each digit, the lowest first, counts of the tiles are summed up, and each tile puts its elements where its own begin.
// Digits that all elements of a row share are left out.

#include "scan.cuh"
// NaN is larger than all numbers.
template <class A, bool DESCENDING> INLINE bool comes_before(A a, A b) {
  if constexpr (DESCENDING) return (a != a && b == b) || b < a;
  else return (b != b && a == a) || a < b;
}
template <class A> struct Item {
  A key;
  int64_t place;
};
// The elements of [begin, end) that come before `item`; of equal ones those too, if `equal`.
template <bool DESCENDING, class A>
INLINE int64_t count_before(const Item<A>* run, int64_t begin, int64_t end, A key, bool equal) {
  const int64_t start = begin;
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    const bool before = equal ? !comes_before<A, DESCENDING>(key, run[middle].key)
                              : comes_before<A, DESCENDING>(run[middle].key, key);
    if (before) begin = middle + 1;
    else end = middle;
  }
  return begin - start;
}

// --- keys
template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef uint8_t type; };
template <> struct Bits<2> { typedef uint16_t type; };
template <> struct Bits<4> { typedef uint32_t type; };
template <> struct Bits<8> { typedef uint64_t type; };
template <class T> struct Ordered {
  typedef typename Bits<sizeof(T)>::type U;
  static constexpr U top = T(-1) < T(0) ? U(U(1) << (8 * sizeof(T) - 1)) : U(0);
  static INLINE U of(T v) { return U(U(v) ^ top); }
  static INLINE bool known(U) { return true; }  // whether the key tells the element
  static INLINE T back(U k) { return T(U(k ^ top)); }
  static INLINE bool odd(U) { return false; }  // whether it is a NaN's
};
template <> struct Ordered<bool> {
  typedef uint8_t U;
  static INLINE U of(bool v) { return v; }
  static INLINE bool known(U) { return true; }
  static INLINE bool back(U k) { return k != 0; }
  static INLINE bool odd(U) { return false; }
};
// Of floats by their bits: 0 and -0 have one key, and all NaNs.
template <class U_, U_ INFINITE> struct OrderedBits {
  typedef U_ U;
  static constexpr U sign = U(U(1) << (8 * sizeof(U) - 1));
  static INLINE U from_bits(U u) {
    const U size = U(u & U(~sign));
    return size > INFINITE ? U(~U(0)) : size == 0 ? sign : u & sign ? U(~u) : U(u | sign);
  }
  static INLINE U to_bits(U k) { return k & sign ? U(k ^ sign) : U(~k); }
  static INLINE bool known(U k) { return k != sign && k != U(~U(0)); }
  static INLINE bool odd(U k) { return k == U(~U(0)); }
};
template <> struct Ordered<float> : OrderedBits<uint32_t, 0x7f800000u> {
  static INLINE U of(float v) { return from_bits(__float_as_uint(v)); }
  static INLINE float back(U k) { return __uint_as_float(to_bits(k)); }
};
template <> struct Ordered<double> : OrderedBits<uint64_t, 0x7ff0000000000000ull> {
  static INLINE U of(double v) { return from_bits(U(__double_as_longlong(v))); }
  static INLINE double back(U k) { return __longlong_as_double((long long)(to_bits(k))); }
};
template <> struct Ordered<float16> : OrderedBits<uint16_t, 0x7c00> {
  static INLINE U of(float16 v) { return from_bits(v.bits); }
  static INLINE float16 back(U k) { return float16{to_bits(k)}; }
};
template <> struct Ordered<bfloat16> : OrderedBits<uint16_t, 0x7f80> {
  static INLINE U of(bfloat16 v) { return from_bits(v.bits); }
  static INLINE bfloat16 back(U k) { return bfloat16{to_bits(k)}; }
};
template <class T> struct OrderedEighth : OrderedBits<uint32_t, 0x7f800000u> {
  static INLINE U of(T v) { return from_bits(__float_as_uint(float8_value(v))); }
  static INLINE bool known(U) { return false; }
  static INLINE T back(U) { return T(); }
};
template <int M, int B, bool I> struct Ordered<Float8<M, B, I>> : OrderedEighth<Float8<M, B, I>> {};
template <int M, int B> struct Ordered<Float8Nuz<M, B>> : OrderedEighth<Float8Nuz<M, B>> {};
template <> struct Ordered<float8_e8m0fnu> : OrderedEighth<float8_e8m0fnu> {};

template <class T, bool DESCENDING> INLINE typename Ordered<T>::U key_of(T v) {
  typedef typename Ordered<T>::U U;
  const U k = Ordered<T>::of(v);
  return DESCENDING ? U(~k) : k;
}
// The element of a key; what the key does not tell (the sign of 0, which NaN) is read where it was.
template <class T, bool DESCENDING, class Place>
INLINE T element(typename Ordered<T>::U key, const T* row, Place place) {
  typedef typename Ordered<T>::U U;
  const U k = DESCENDING ? U(~key) : key;
  return Ordered<T>::known(k) ? Ordered<T>::back(k) : row[place];
}

// --- places within a block by one digit. A warp holds 32 * K elements one behind the other, K in each lane: element
// k * 32 + lane. The first `many` elements of the block are a row's. Those behind them have a key of ones: they stay
// behind, since order is stable, and so no step asks which of the two an element is.
template <int WARPS> struct Ranks {
  int32_t count[WARPS][256], start[257], shared_by_all;
};
// Lanes with the same digit.
INLINE uint32_t peers_of(uint32_t digit) {
  uint32_t peers = 0xffffffffu;
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const bool one = digit >> b & 1;
    const uint32_t ones = __ballot_sync(0xffffffffu, one);
    peers &= one ? ones : ~ones;
  }
  return peers;
}
// What 256 counts add up to before each, by one warp.
INLINE void starts_of(int32_t* count) {
  const int lane = threadIdx.x & 31;
  int32_t part[8], sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    part[j] = sum;
    sum += count[lane * 8 + j];
  }
  int32_t upto = sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(0xffffffffu, upto, step);
    if (lane >= step) upto += other;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) count[lane * 8 + j] = upto - sum + part[j];
  if (lane == 31) count[256] = upto;
}
// Where each element goes; room.start has where each digit begins. False: the row's elements have one digit.
template <int K, int WARPS, class U>
INLINE bool rank_block(U (&key)[K], int shift, int many, Ranks<WARPS>& room, int32_t (&rank)[K]) {
  constexpr int PART = K < 4 ? K : 4;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int32_t* own = room.count[warp];
  __syncthreads();  // what was there may still be read
#pragma unroll 1
  for (int d = lane; d < 256; d += 32) own[d] = 0;
  if (threadIdx.x == 0) room.shared_by_all = 0;
  __syncthreads();
#pragma unroll 1
  for (int done = 0; done < K; done += PART) {
#pragma unroll
    for (int k = 0; k < PART; ++k) {
      const uint32_t digit = uint32_t(key[k] >> shift) & 255, peers = peers_of(digit);
      const uint32_t before = peers & ((1u << lane) - 1);
      const int32_t base = own[digit];
      rank[k] = base + __popc(before);
      __syncwarp();
      if (before == 0) own[digit] = base + __popc(peers);
      __syncwarp();
    }
    turn<PART>(key);
    turn<PART>(rank);
  }
  __syncthreads();
#pragma unroll 1
  for (int d = threadIdx.x; d < 256; d += WARPS * 32) {
    int32_t sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const int32_t c = room.count[w][d];
      room.count[w][d] = sum;
      sum += c;
    }
    room.start[d] = sum;
    if (sum == (d == 255 ? 32 * K * WARPS : many)) room.shared_by_all = 1;
  }
  __syncthreads();
  if (warp == 0) starts_of(room.start);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const uint32_t digit = uint32_t(key[k] >> shift) & 255;
    rank[k] += room.start[digit] + own[digit];
  }
  return !room.shared_by_all;
}

// --- short rows
// Up to 32 elements: a warp for each row, each element is compared with all others. put(row, its new place, key, place)
template <class T, bool DESCENDING, class Index, class Put>
INLINE void sort_warp(const T* x, Index rows, Index n, const Put& put) {
  typedef typename Ordered<T>::U U;
  const Index row = Index(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x & 31;
  const bool there = lane < n;
  const U key = there ? key_of<T, DESCENDING>(x[row * n + lane]) : U(0);
  int rank = 0;
  for (int j = 0; j < n; ++j) {
    const U other = shuffle_from(key, j);
    rank += other < key || (other == key && j < lane);
  }
  if (there) put(row, Index(rank), key, lane);
}
// Each thread's elements at their new places in `room`, then those that lie where its own did.
template <int K, class V> INLINE void exchange(V* room, V* own, const int32_t* rank, int first) {
#pragma unroll
  for (int k = 0; k < K; ++k) room[rank[k]] = own[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) own[k] = room[first + k * 32];
}
// Up to 32 * K * WARPS elements: a block for each row.
template <class T, bool DESCENDING, int K, int WARPS, class Index, class Put>
INLINE void sort_block(const T* x, Index n, const Put& put) {
  typedef typename Ordered<T>::U U;
  union Room {
    U keys[32 * K * WARPS];
    uint16_t places[32 * K * WARPS];
  };
  __shared__ Ranks<WARPS> room;
  __shared__ Room moved;
  const Index row = blockIdx.x;
  const int first = threadIdx.x / 32 * K * 32 + (threadIdx.x & 31), many = int(n);
  U key[K];
  uint16_t place[K];
  int32_t rank[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = first + k * 32;
    key[k] = i < many ? key_of<T, DESCENDING>(x[row * n + i]) : U(~U(0));
    place[k] = uint16_t(i);
  }
#pragma unroll 1
  for (int shift = 0; shift < 8 * int(sizeof(U)); shift += 8) {
    if (!rank_block(key, shift, many, room, rank)) continue;
    exchange<K>(moved.keys, key, rank, first);
    __syncthreads();
    exchange<K>(moved.places, place, rank, first);
  }
  constexpr int PART = K < 2 ? K : 2;
#pragma unroll 1
  for (int done = first; done < first + K * 32; done += PART * 32) {
#pragma unroll
    for (int k = 0; k < PART; ++k)
      if (done + k * 32 < many) put(row, Index(done + k * 32), key[k], int(place[k]));
    turn<PART>(key);
    turn<PART>(place);
  }
}

// --- long rows: `tiles` tiles of 4,096 elements each, in blocks of 256 threads. Digits FIRST and above are sorted by.
constexpr int kTile = 4096;
INLINE void count_up(int32_t* p, int32_t v) { atomicAdd(p, v); }
INLINE void count_up(int64_t* p, int32_t v) { atomicAdd(reinterpret_cast<unsigned long long*>(p), (unsigned long long)(v)); }
// The tile of this block.
template <class Index> struct Tile {
  Index row, tile, from;
  int many;
  INLINE Tile(Index n, Index tiles) {
    row = Index(blockIdx.x) / tiles, tile = Index(blockIdx.x) - row * tiles, from = row * n + tile * kTile;
    many = int(n - tile * kTile < kTile ? n - tile * kTile : kTile);
  }
};
// Keys, and how many of a row have which digit: totals[row][digit's number][256], 0 before.
template <class T, bool DESCENDING, int FIRST, class U, class Place, class Index>
INLINE void begin_sort(const T* x, U* keys, Place* totals, Index n, Index tiles) {
  constexpr int DIGITS = int(sizeof(U)) - FIRST;
  __shared__ int32_t count[DIGITS][256];
  const Tile<Index> own(n, tiles);
  for (int d = 0; d < DIGITS; ++d) count[d][threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < own.many; i += 256) {
    const U key = key_of<T, DESCENDING>(x[own.from + i]);
    keys[own.from + i] = key;
#pragma unroll
    for (int d = 0; d < DIGITS; ++d) atomicAdd(&count[d][uint32_t(key >> (8 * (FIRST + d))) & 255], 1);
  }
  __syncthreads();
  totals += own.row * (DIGITS * 256);
  for (int d = 0; d < DIGITS; ++d)
    if (const int32_t c = count[d][threadIdx.x]) count_up(totals + d * 256 + threadIdx.x, c);
}
// A block for each digit of each row: totals become where each value of the digit begins; used: whether elements differ.
template <class Place> INLINE void begins_of_digits(Place* totals, int32_t* used, int64_t n) {
  __shared__ Place part[256];
  __shared__ int32_t all;
  if (threadIdx.x == 0) all = 0;
  Place* own = totals + int64_t(blockIdx.x) * 256 + threadIdx.x;
  const Place count = *own;
  *own = scan_block(SumOf<Place>(), count, part) - count;
  if (count == n) all = 1;
  __syncthreads();
  if (threadIdx.x == 0) used[blockIdx.x] = !all;
}
// How many times the row was moved before this digit: even, its elements are in the first of two places.
INLINE int moves_before(const int32_t* used, int digit) {
  int many = 0;
  for (int d = 0; d < digit; ++d) many += used[d];
  return many;
}
template <class U> struct Moving {
  U *even, *odd;
  INLINE U* from(int moves) const { return moves & 1 ? odd : even; }
  INLINE U* to(int moves) const { return moves & 1 ? even : odd; }
};
// counts[row][256][tile]: how many elements of each tile have which value of the digit.
template <int FIRST, class U, class Place, class Index>
INLINE void count_digits(const Moving<U>& keys, Place* counts, const int32_t* used, Index n, Index tiles, int digit) {
  constexpr int DIGITS = int(sizeof(U)) - FIRST;
  __shared__ int32_t count[256];
  const Tile<Index> own(n, tiles);
  used += own.row * DIGITS;
  if (!used[digit]) return;
  const U* from = keys.from(moves_before(used, digit)) + own.from;
  const int shift = 8 * (FIRST + digit);
  count[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < own.many; i += 256) atomicAdd(&count[uint32_t(from[i] >> shift) & 255], 1);
  __syncthreads();
  counts[(own.row * 256 + threadIdx.x) * tiles + own.tile] = count[threadIdx.x];
}
// Moves them, in order. counts: up to this tile and with it.
template <int FIRST, class U, class Place, class Index>
INLINE void move_digits(const Moving<U>& keys, const Moving<Place>& places, const Place* counts, const Place* totals,
                        const int32_t* used, Index n, Index tiles, int digit) {
  constexpr int DIGITS = int(sizeof(U)) - FIRST, K = 16, WARPS = 8, PART = 4;
  union Room {
    U keys[kTile];
    Place places[kTile];
  };
  __shared__ Ranks<WARPS> room;
  __shared__ Room moved;
  __shared__ Place begin[256];
  const Tile<Index> own(n, tiles);
  used += own.row * DIGITS;
  if (!used[digit]) return;
  const int moves = moves_before(used, digit), shift = 8 * (FIRST + digit);
  const U* from = keys.from(moves) + own.from;
  const Place* places_from = places.from(moves) + own.from;
  const int first = threadIdx.x / 32 * K * 32 + (threadIdx.x & 31), d = threadIdx.x;
  U key[K];
  Place place[K];
  int32_t rank[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = first + k * 32;
    key[k] = i < own.many ? from[i] : U(~U(0));
    place[k] = moves && i < own.many ? places_from[i] : Place(own.tile * kTile + i);
  }
  rank_block(key, shift, own.many, room, rank);
  const Place upto = counts[(own.row * 256 + d) * tiles + own.tile];
  const int32_t end = room.start[d + 1] < own.many ? room.start[d + 1] : own.many;
  begin[d] = totals[(own.row * DIGITS + digit) * 256 + d] + upto - end;
#pragma unroll
  for (int k = 0; k < K; ++k) moved.keys[rank[k]] = key[k];
  __syncthreads();
  U* to = keys.to(moves) + own.row * n;
  Place* places_to = places.to(moves) + own.row * n;
  Place at[K];
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile; i += PART * 256) {
#pragma unroll
    for (int k = 0; k < PART; ++k) {
      if (i + k * 256 >= own.many) continue;
      const U v = moved.keys[i + k * 256];
      at[k] = begin[uint32_t(v >> shift) & 255] + i + k * 256;
      to[at[k]] = v;
    }
    turn<PART>(at);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) moved.places[rank[k]] = place[k];
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile; i += PART * 256) {
#pragma unroll
    for (int k = 0; k < PART; ++k)
      if (i + k * 256 < own.many) places_to[at[k]] = moved.places[i + k * 256];
    turn<PART>(at);
  }
}
// put(row, place in order, key, place where it was) for all.
template <int FIRST, class U, class Place, class Index, class Put>
INLINE void each_sorted(const Moving<U>& keys, const Moving<Place>& places, const int32_t* used, Index n, Index tiles,
                        const Put& put) {
  constexpr int DIGITS = int(sizeof(U)) - FIRST;
  const Tile<Index> own(n, tiles);
  const int moves = moves_before(used + own.row * DIGITS, DIGITS);
  const U* from = keys.from(moves) + own.from;
  const Place* places_from = places.from(moves) + own.from;
#pragma unroll 4
  for (int i = threadIdx.x; i < own.many; i += 256) {
    const Index to = own.tile * kTile + i;
    put(own.row, to, from[i], moves ? places_from[i] : Place(to));
  }
}

// --- one element of a row by its place in order, without sorting: digit by digit, the highest first, by counts
// The keys of a row, for a block of 256 threads: in registers, K packs of V for each, or (K is 0) read again each time.
template <class T, bool DESCENDING, int V, int K> struct Keys {
  typedef typename Ordered<T>::U U;
  const T* row;
  int n;
  U kept[K > 0 ? K * V : 1];
  INLINE Keys(const T* row, int n) : row(row), n(n) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int i = (k * 256 + threadIdx.x) * V;
      if (i >= n) continue;
      const Pack<T, V> v = load_until<V>(row, i, n);
#pragma unroll
      for (int j = 0; j < V; ++j) kept[k * V + j] = key_of<T, DESCENDING>(v.v[j]);
    }
  }
  template <class F> INLINE void each(const F& f) const {
    if constexpr (K > 0) {
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const int i = (k * 256 + threadIdx.x) * V + j;
          if (i < n) f(kept[k * V + j], i);
        }
    } else {
#pragma unroll 2
      for (int i = threadIdx.x * V; i < n; i += 256 * V) {
        const Pack<T, V> v = load_until<V>(row, i, n);
#pragma unroll
        for (int j = 0; j < V; ++j)
          if (i + j < n) f(key_of<T, DESCENDING>(v.v[j]), i + j);
      }
    }
  }
  // The same for what is done once, not for each digit: less text.
  template <class F> INLINE void once(const F& f) {
    if constexpr (K > 0) {
      constexpr int PART = V < 2 ? V : 2;
#pragma unroll 1
      for (int done = 0; done < K * V; done += PART) {
        const int i = (done / V * 256 + threadIdx.x) * V + done % V;
#pragma unroll
        for (int j = 0; j < PART; ++j)
          if (i + j < n) f(kept[j], i + j);
        turn<PART>(kept);
      }
    } else each(f);
  }
};
struct Counted {
  int32_t count[257], value, before, many;
};
// Which value of a digit the k-th of the counted elements has, how many come before those and how many these are.
INLINE void find_value(Counted& room, int32_t k) {
  if (threadIdx.x >= 32) return;
  const int lane = threadIdx.x;
  starts_of(room.count);
  __syncwarp();
#pragma unroll 1
  for (int j = 0; j < 8; ++j) {
    const int d = lane * 8 + j;
    if (room.count[d] <= k && k < room.count[d + 1])
      room.value = d, room.before = room.count[d], room.many = room.count[d + 1] - room.count[d];
  }
}
// All elements before the one that was looked for are those with (key & mask) < prefix, and those where the two are
// equal up to its place `last`.
template <class U> struct Found {
  U prefix, mask;
  int last;
  INLINE bool has(U key, int place) const {
    const U own = U(key & mask);
    return own < prefix || (own == prefix && place <= last);
  }
};
// Of elements with one key the first counts first. EXACT: `last` is the element's own place; else it may be a later one.
template <bool EXACT, class K>
INLINE Found<typename K::U> find_element(K& keys, int32_t k, Counted& room) {
  typedef typename K::U U;
  Found<U> found{U(0), U(0), keys.n};
  int32_t many = keys.n;
#pragma unroll 1
  for (int shift = 8 * int(sizeof(U)) - 8; shift >= 0 && (EXACT ? many > 1 : many > k + 1); shift -= 8) {
    room.count[threadIdx.x] = 0;
    __syncthreads();
    keys.each([&](U key, int) {
      if (U(key & found.mask) == found.prefix) atomicAdd(&room.count[uint32_t(key >> shift) & 255], 1);
    });
    __syncthreads();
    find_value(room, k);
    __syncthreads();
    k -= room.before, many = room.many;
    found.prefix |= U(U(room.value) << shift), found.mask |= U(U(255) << shift);
  }
  if (EXACT ? many == 1 : many == k + 1) {
    if (EXACT) {
      __syncthreads();  // the value of the last digit may still be read
      keys.once([&](U key, int place) {
        if (U(key & found.mask) == found.prefix) room.value = place;
      });
      __syncthreads();
      found.last = room.value;
    }
    return found;
  }
  uint32_t prefix = 0, mask = 0;
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {  // of places
    if (uint32_t(keys.n - 1) >> shift == 0) continue;
    room.count[threadIdx.x] = 0;
    __syncthreads();
    keys.once([&](U key, int place) {
      if (U(key & found.mask) == found.prefix && (uint32_t(place) & mask) == prefix)
        atomicAdd(&room.count[uint32_t(place) >> shift & 255], 1);
    });
    __syncthreads();
    find_value(room, k);
    __syncthreads();
    k -= room.before;
    prefix |= uint32_t(room.value) << shift, mask |= 255u << shift;
  }
  found.last = int(prefix);
  return found;
}
// The first k elements of a row in order, up to MOST: put(their number, key, place).
template <int MOST, class K, class Put> INLINE void first_elements(K& keys, int k, const Put& put) {
  typedef typename K::U U;
  __shared__ Counted room;
  __shared__ U key[MOST];
  __shared__ int32_t place[MOST], many;
  const Found<U> found = find_element<false>(keys, k - 1, room);
  if (threadIdx.x == 0) many = 0;
  __syncthreads();
  keys.once([&](U own, int i) {
    if (!found.has(own, i)) return;
    const int at = atomicAdd(&many, 1);
    key[at] = own, place[at] = i;
  });
  __syncthreads();
  for (int i = threadIdx.x; i < k; i += 256) {
    const U own = key[i];
    const int32_t was = place[i];
    int number = 0;
    for (int j = 0; j < k; ++j) number += key[j] < own || (key[j] == own && place[j] < was);
    put(number, own, was);
  }
}
// How many keys are NaN's.
template <class T, class K> INLINE int32_t count_odd(K& keys) {
  int32_t many = 0;
  keys.once([&](typename K::U key, int) { many += Ordered<T>::odd(key); });
  return sum_block(many);
}
