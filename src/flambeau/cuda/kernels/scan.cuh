// Running sums and their kin along one dimension, and the places of elements that are not 0.
#include "turns.cuh"
//
// A long row is cut into chunks: the total of each, what comes before each, then the chunks from there on. Sizes alone
// decide where it is cut and what is combined in which order.
//
// An operation has: Acc, init(), of(element, its place), combine(a, b) where a comes first, join(a, b) where nobody
// knows which does, and value(acc) -> result. `turned`: how many elements a loop over registers has in its text.

template <class T, class A> struct RunningSum {
  typedef A Acc;
  static constexpr bool pair = false;
  static constexpr int turned = 16;
  INLINE Acc init() const { return A(0); }
  INLINE Acc of(T v, int64_t) const { return cast<A>(v); }
  INLINE Acc combine(Acc a, Acc b) const { return a + b; }
  INLINE Acc join(Acc a, Acc b) const { return a + b; }
  INLINE A value(Acc a) const { return a; }
};
template <class T, class A> struct RunningProduct : RunningSum<T, A> {
  INLINE A init() const { return A(1); }
  INLINE A combine(A a, A b) const { return a * b; }
  INLINE A join(A a, A b) const { return a * b; }
};
template <class A> struct Known {
  A value;
  int64_t place;  // -1: nothing yet
};
// The last of equal elements counts; a NaN stays.
template <class T, class A, bool LARGEST> struct RunningBest {
  typedef Known<A> Acc;
  static constexpr bool pair = true;
  static constexpr int turned = 4;
  INLINE Acc init() const { return {A(0), -1}; }
  INLINE Acc of(T v, int64_t i) const { return {cast<A>(v), i}; }
  INLINE Acc combine(Acc a, Acc b) const {
    if (a.place < 0) return b;
    if (b.place < 0) return a;
    const bool odd = b.value != b.value, better = LARGEST ? a.value <= b.value : b.value <= a.value;
    return odd || (better && a.value == a.value) ? b : a;
  }
  INLINE Acc join(Acc a, Acc b) const { return a.place < b.place ? combine(a, b) : combine(b, a); }
  INLINE A value(Acc a) const { return a.value; }
  INLINE int64_t second(Acc a) const { return a.place; }
};
template <class T, class A> struct RunningMax : RunningBest<T, A, true> {};
template <class T, class A> struct RunningMin : RunningBest<T, A, false> {};
template <class A> struct LogSum {
  A top, sum;
};
template <class T, class A> struct RunningLogSum {
  typedef LogSum<A> Acc;
  static constexpr bool pair = false;
  static constexpr int turned = 2;
  INLINE Acc init() const { return {-infinity<A>(), A(0)}; }
  INLINE Acc of(T v, int64_t) const { return {cast<A>(v), A(1)}; }
  INLINE Acc combine(Acc a, Acc b) const {
    const A top = larger(a.top, b.top);
    if (is_infinite(top)) return {top, A(1)};
    return {top, a.sum * exp(a.top - top) + b.sum * exp(b.top - top)};
  }
  INLINE Acc join(Acc a, Acc b) const { return combine(a, b); }
  INLINE A value(Acc a) const { return a.sum == A(0) ? -infinity<A>() : a.top + log(a.sum); }
};
// … of complex numbers, kept as logarithms: imaginary parts stay beside those of the elements, whole turns included.
template <class T, class R> struct RunningLogSum<T, Complex<R>> : RunningSum<T, Complex<R>> {
  static constexpr int turned = 1;
  INLINE Complex<R> init() const { return Complex<R>(-infinity<R>()); }
  static __noinline__ Complex<R> added(Complex<R> a, Complex<R> b) { return logaddexp_(a, b); }  // so long is it
  INLINE Complex<R> combine(Complex<R> a, Complex<R> b) const { return added(a, b); }
  INLINE Complex<R> join(Complex<R> a, Complex<R> b) const { return added(a, b); }
};

// --- shuffles of any type
template <class T> INLINE T shuffle_up(T v, int by) {
  return by_words(v, [=](uint32_t w) { return __shfl_up_sync(0xffffffffu, w, by); });
}
template <class T> INLINE T shuffle_from(T v, int lane) {
  return by_words(v, [=](uint32_t w) { return __shfl_sync(0xffffffffu, w, lane); });
}
// The combination of the values of all lanes up to one's own.
template <class Op> INLINE typename Op::Acc scan_warp(const Op& op, typename Op::Acc own) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const typename Op::Acc other = shuffle_up(own, step);
    if (lane >= step) own = op.combine(other, own);
  }
  return own;
}
// The same without one's own.
template <class Op> INLINE typename Op::Acc shifted(const Op& op, typename Op::Acc upto) {
  const typename Op::Acc left = shuffle_up(upto, 1);
  return (threadIdx.x & 31) == 0 ? op.init() : left;
}
// What comes before this warp, of which `mine` is the total; `before` goes on behind the block. room: shared, one for
// each warp.
template <class Op>
INLINE typename Op::Acc before_warp(const Op& op, typename Op::Acc mine, typename Op::Acc& before,
                                    typename Op::Acc* room) {
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[warp] = mine;
  __syncthreads();
  typename Op::Acc ahead = before;
  for (int k = 0; k < warps; ++k) {
    if (k == warp) ahead = before;
    before = op.combine(before, room[k]);
  }
  return ahead;
}
// Elements [i, i + V) of a row that ends at `to`.
template <int V, class T, class Index> INLINE Pack<T, V> load_until(const T* row, Index i, Index to) {
  if (i + V <= to) return load<V>(row + i);
  Pack<T, V> v;
#pragma unroll
  for (int j = 0; j < V; ++j) v.v[j] = row[i + j < to ? i + j : to - 1];
  return v;
}
template <int V, class T, class Index> INLINE void store_until(T* row, Index i, Index to, const Pack<T, V>& v) {
  if (i + V <= to) return store<V>(row + i, v);
#pragma unroll
  for (int j = 0; j < V; ++j)
    if (i + j < to) row[i + j] = v.v[j];
}

// The combination of a pack's elements, J of them at a time; and what is written for it, `acc` what comes before it.
template <int J, class Op, class T, int V, class Index>
INLINE typename Op::Acc sum_pack(const Op& op, Pack<T, V>& own, Index i) {
  typename Op::Acc sum = op.init();
#pragma unroll 1
  for (int from = 0; from < V; from += J) {
#pragma unroll
    for (int j = 0; j < J; ++j) sum = from + j ? op.combine(sum, op.of(own.v[j], i + from + j)) : op.of(own.v[j], i);
    turn<J>(own.v);
  }
  return sum;
}
template <int J, class Op, class T, class O, class P, int V, class Index>
INLINE void store_sums(const Op& op, typename Op::Acc acc, Pack<T, V>& own, O* out, P* places, Index i, Index to) {
  Pack<O, V> values;
  Pack<P, V> seconds;
#pragma unroll 1
  for (int from = 0; from < V; from += J) {
#pragma unroll
    for (int j = 0; j < J; ++j) {
      acc = op.combine(acc, op.of(own.v[j], i + from + j));
      values.v[j] = cast<O>(op.value(acc));
      if constexpr (Op::pair) seconds.v[j] = cast<P>(op.second(acc));
    }
    turn<J>(own.v);
    turn<J>(values.v);
    if constexpr (Op::pair) turn<J>(seconds.v);
  }
  store_until<V>(out, i, to, values);
  if constexpr (Op::pair) store_until<V>(places, i, to, seconds);
}

// Rows of n elements side by side. A warp holds K packs of V elements in each lane's registers, its packs one behind the
// other; a block holds as many of these as it has warps, and goes on until its chunk of `width` elements ends. ALONE:
// each warp has a row of its own, which it holds whole. befores: what comes before each chunk; null: each is a row.
// What lanes hold behind the end of a chunk is anything: it reaches only what lies behind it, which is not written.
template <class Op, int V, int K, bool ALONE, class T, class O, class P, class Index>
INLINE void scan_rows(const T* x, O* out, P* places, const typename Op::Acc* befores, Index rows, Index n, Index width,
                      Index chunks) {
  typedef typename Op::Acc Acc;
  constexpr int J = Op::turned < V ? Op::turned : V, PACKS = Op::turned / V;
  constexpr int PART = PACKS < 1 ? 1 : PACKS < K ? PACKS : K;
  __shared__ Acc room[8];
  const Op op;
  const int lane = threadIdx.x & 31, warp = ALONE ? 0 : threadIdx.x / 32, warps = ALONE ? 1 : blockDim.x / 32;
  const Index own = ALONE ? Index(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32 : Index(blockIdx.x);
  const Index row = own / chunks, from = (own - row * chunks) * width;
  if (row >= rows) return;
  const Index to = n - from < width ? n : from + width;
  x += row * n, out += row * n;
  if constexpr (Op::pair) places += row * n;
  Acc before = befores ? befores[own] : op.init();
  for (Index tile = from; tile < to; tile += Index(warps) * (32 * V * K)) {
    const Index first = tile + (warp * K * 32 + lane) * V;
    Pack<T, V> kept[K];
    Acc part[K], all = op.init();
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + k * 32 * V < to) kept[k] = load_until<V>(x, first + k * 32 * V, to);
#pragma unroll 1
    for (int k = 0; k < K; k += PART) {
#pragma unroll
      for (int m = 0; m < PART; ++m) {
        const Acc upto = scan_warp(op, sum_pack<J>(op, kept[m], first + (k + m) * 32 * V));
        part[m] = op.combine(all, shifted(op, upto));
        all = op.combine(all, shuffle_from(upto, 31));
      }
      turn<PART>(kept);
      turn<PART>(part);
    }
    const Acc ahead = ALONE ? before : before_warp(op, all, before, room);
#pragma unroll 1
    for (int k = 0; k < K; k += PART) {
#pragma unroll
      for (int m = 0; m < PART; ++m) {
        const Index i = first + (k + m) * 32 * V;
        if (i < to) store_sums<J>(op, op.combine(ahead, part[m]), kept[m], out, places, i, to);
      }
      turn<PART>(kept);
      turn<PART>(part);
    }
  }
}
// The totals of such chunks.
template <class Op, int V, class T, class Index>
INLINE void total_rows(const T* x, typename Op::Acc* totals, Index n, Index width, Index chunks) {
  typedef typename Op::Acc Acc;
  __shared__ Acc room[8];
  const Op op;
  const Index row = Index(blockIdx.x) / chunks, from = (Index(blockIdx.x) - row * chunks) * width;
  const Index to = n - from < width ? n : from + width;
  x += row * n;
  Acc acc = op.init();
#pragma unroll 4
  for (Index i = from + threadIdx.x * V; i < to; i += Index(blockDim.x) * V) {
    const Pack<T, V> v = load_until<V>(x, i, to);
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (i + j < to) acc = op.join(acc, op.of(v.v[j], i + j));
  }
#pragma unroll
  for (int k = 16; k > 0; k /= 2) {
    const Acc other = shuffle_xor(acc, k);
    acc = threadIdx.x & k ? op.join(other, acc) : op.join(acc, other);
  }
  if ((threadIdx.x & 31) == 0) room[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int k = 1; k < blockDim.x / 32; ++k) acc = op.join(acc, room[k]);
  totals[blockIdx.x] = acc;
}
// Totals of a row's chunks become what comes before each, a block of 256 threads for each row. whole: where the total of
// all is put, or null.
template <class Op, class Index>
INLINE void scan_totals(typename Op::Acc* totals, Index chunks, typename Op::Acc* whole = nullptr) {
  typedef typename Op::Acc Acc;
  constexpr int EACH = 4;
  __shared__ Acc room[8];
  const Op op;
  totals += Index(blockIdx.x) * chunks;
  Acc before = op.init();
  for (Index tile = 0; tile < chunks; tile += 256 * EACH) {
    const Index first = tile + threadIdx.x * EACH;
    Acc part[EACH], sum = op.init();
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      part[j] = sum;
      if (first + j < chunks) sum = op.combine(sum, totals[first + j]);
    }
    const Acc upto = scan_warp(op, sum);
    const Acc ahead = op.combine(before_warp(op, shuffle_from(upto, 31), before, room), shifted(op, upto));
#pragma unroll
    for (int j = 0; j < EACH; ++j)
      if (first + j < chunks) totals[first + j] = op.combine(ahead, part[j]);
  }
  if (whole && threadIdx.x == 0) *whole = before;
}

// Neighbouring rows lie in neighbouring columns: one thread for each chunk of a row, [outer, n, inner].
template <class Op, class Index> struct Column {
  Index row, chunk, at, from, to;
  bool exists;
  INLINE Column(Index n, Index inner, Index rows, Index width, Index chunks) {
    const Index own = Index(blockIdx.x) * 256 + threadIdx.x;
    chunk = own / rows, row = own - chunk * rows, exists = chunk < chunks;
    const Index outer = row / inner;
    at = outer * n * inner + (row - outer * inner), from = chunk * width;
    to = n - from < width ? n : from + width;
  }
};
template <class Op, class T, class O, class P, class Index>
INLINE void scan_columns(const T* x, O* out, P* places, const typename Op::Acc* befores, Index n, Index inner,
                         Index rows, Index width, Index chunks) {
  const Op op;
  const Column<Op, Index> own(n, inner, rows, width, chunks);
  if (!own.exists) return;
  typename Op::Acc all = befores ? befores[own.row * chunks + own.chunk] : op.init();
#pragma unroll 4
  for (Index i = own.from; i < own.to; ++i) {
    const Index place = own.at + i * inner;
    all = op.combine(all, op.of(x[place], i));
    out[place] = cast<O>(op.value(all));
    if constexpr (Op::pair) places[place] = cast<P>(op.second(all));
  }
}
template <class Op, class T, class Index>
INLINE void total_columns(const T* x, typename Op::Acc* totals, Index n, Index inner, Index rows, Index width,
                          Index chunks) {
  const Op op;
  const Column<Op, Index> own(n, inner, rows, width, chunks);
  if (!own.exists) return;
  typename Op::Acc all = op.init();
#pragma unroll 4
  for (Index i = own.from; i < own.to; ++i) all = op.combine(all, op.of(x[own.at + i * inner], i));
  totals[own.row * chunks + own.chunk] = all;
}

// --- the places of elements that are not 0: how many each piece of 4,096 has, what comes before it (scan_totals), then
// the places. K packs of V elements for each of 256 threads.
template <int V, class T> INLINE void count_piece(const T* x, int64_t n, int64_t* counts) {
  const int64_t from = int64_t(blockIdx.x) * 4096, to = n - from < 4096 ? n : from + 4096;
  int32_t many = 0;
#pragma unroll
  for (int k = 0; k < 16 / V; ++k) {
    const int64_t i = from + (k * 256 + threadIdx.x) * V;
    if (i >= to) continue;
    const Pack<T, V> v = load_until<V>(x, i, to);
#pragma unroll
    for (int j = 0; j < V; ++j) many += i + j < to && cast<bool>(v.v[j]);
  }
  many = sum_block(many);
  if (threadIdx.x == 0) counts[blockIdx.x] = many;
}
// put(number of the element among those that are not 0, its place), for neighbouring elements by neighbouring threads
template <int V, class T, class Put>
INLINE void each_true(const T* x, int64_t n, const int64_t* befores, const Put& put) {
  constexpr int K = 16 / V;
  __shared__ int32_t room[8];
  __shared__ uint16_t found[4096];
  const RunningSum<int32_t, int32_t> op;
  const int lane = threadIdx.x & 31;
  const int64_t from = int64_t(blockIdx.x) * 4096, to = n - from < 4096 ? n : from + 4096;
  const int64_t first = from + (threadIdx.x / 32 * K * 32 + lane) * V;
  uint32_t which[K];
  int32_t part[K], all = 0, before = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t i = first + k * 32 * V;
    which[k] = 0;
    if (i >= to) continue;
    const Pack<T, V> v = load_until<V>(x, i, to);
#pragma unroll
    for (int j = 0; j < V; ++j) which[k] |= uint32_t(i + j < to && cast<bool>(v.v[j])) << j;
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int32_t own = __popc(which[k]), upto = scan_warp(op, own);
    part[k] = all + upto - own;
    all += shuffle_from(upto, 31);
  }
  const int32_t ahead = before_warp(op, all, before, room);
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    int32_t number = ahead + part[0];
    for (uint32_t left = which[0]; left; left &= left - 1)
      found[number++] = uint16_t(first - from + k * 32 * V + __popc((left & -left) - 1));
    turn<1>(which);
    turn<1>(part);
  }
  __syncthreads();
  for (int32_t k = threadIdx.x; k < before; k += 256) put(befores[blockIdx.x] + k, from + found[k]);
}
