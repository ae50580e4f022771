// Reductions: what each operator accumulates, and three ways through memory. Every sum is taken in an order that the
// shape alone decides, so results are the same on every GPU.
//
// An operation has: Acc, init(), add(acc, element, its place along the reduced dimensions), combine(a, b) of two
// accumulators where a's places come first or are arbitrary, and finish(acc) -> result. settled(acc) is what a thread
// makes of its own elements before they are joined with others'. An operation that has add_pack(acc, elements that lie
// side by side, the first one's place), with packs = true, takes them at once.

template <class Op> struct Lanes : Op {
  typedef typename Op::Acc Acc;
  INLINE Acc shuffle(Acc v, int k) const { return shuffle_xor(v, k); }
  // In pairs of lanes both must compute the same: the lower lane's value comes first.
  INLINE Acc combine_lanes(Acc mine, Acc other, bool upper) const {
    return upper ? Op::combine(other, mine) : Op::combine(mine, other);
  }
};

struct One {  // operations with one result; those with two have pair = true and second(acc, n)
  static constexpr bool pair = false, packs = false;
  template <class Acc> INLINE Acc settled(Acc acc) const { return acc; }
};
template <class T, class A> struct Sum : One {
  typedef A Acc;
  INLINE Acc init() const { return Acc(0); }
  INLINE Acc add(Acc a, T v, int64_t) const { return a + cast<Acc>(v); }
  INLINE Acc combine(Acc a, Acc b) const { return a + b; }
  INLINE Acc finish(Acc a, int64_t) const { return a; }
};
template <class T, class A> struct Mean : Sum<T, A> {
  INLINE A finish(A a, int64_t n) const { return a / A(typename Real<A>::type(n)); }
};
template <class T, class A> struct NanSum : Sum<T, A> {
  INLINE A add(A a, T v, int64_t) const {
    const A x = cast<A>(v);
    return x != x ? a : a + x;
  }
};
template <class T, class A> struct Prod : One {
  typedef A Acc;
  INLINE Acc init() const { return Acc(1); }
  INLINE Acc add(Acc a, T v, int64_t) const { return a * cast<Acc>(v); }
  INLINE Acc combine(Acc a, Acc b) const { return a * b; }
  INLINE Acc finish(Acc a, int64_t) const { return a; }
};
template <class T, class A> struct Any : One {
  typedef int32_t Acc;
  INLINE Acc init() const { return 0; }
  INLINE Acc add(Acc a, T v, int64_t) const { return a | int32_t(cast<bool>(v)); }
  INLINE Acc combine(Acc a, Acc b) const { return a | b; }
  INLINE bool finish(Acc a, int64_t) const { return a; }
};
template <class T, class A> struct All : One {
  typedef int32_t Acc;
  INLINE Acc init() const { return 1; }
  INLINE Acc add(Acc a, T v, int64_t) const { return a & int32_t(cast<bool>(v)); }
  INLINE Acc combine(Acc a, Acc b) const { return a & b; }
  INLINE bool finish(Acc a, int64_t) const { return a; }
};
// The largest (or smallest) element and the first of its places; a NaN comes before all numbers.
template <class A> struct Placed {
  A value;
  int64_t place;
};
template <class T, class A, bool LARGEST> struct ArgBest : One {
  typedef Placed<A> Acc;
  INLINE Acc init() const { return {LARGEST ? Limits<A>::lowest() : Limits<A>::highest(), int64_t(1) << 62}; }
  INLINE bool better(Acc a, A x) const {
    return (LARGEST ? a.value < x : x < a.value) || (x != x && a.value == a.value) || a.place == int64_t(1) << 62;
  }
  INLINE Acc add(Acc a, T v, int64_t place) const {  // a later place, so that only what is better counts
    const A x = cast<A>(v);
    return better(a, x) ? Acc{x, place} : a;
  }
  static constexpr bool packs = true;
  // The best of the pack, then the first of its places.
  template <int V> INLINE Acc add_pack(Acc a, const Pack<T, V>& v, int64_t place) const {
    A best = cast<A>(v.v[0]);
#pragma unroll
    for (int k = 1; k < V; ++k) best = LARGEST ? larger(best, cast<A>(v.v[k])) : smaller(best, cast<A>(v.v[k]));
    if (!better(a, best)) return a;
    int first = 0;
#pragma unroll
    for (int k = V - 1; k >= 0; --k) first = cast<A>(v.v[k]) == best ? k : first;
    if (best != best) {
#pragma unroll
      for (int k = V - 1; k >= 0; --k) first = cast<A>(v.v[k]) != cast<A>(v.v[k]) ? k : first;
    }
    return {best, place + first};
  }
  INLINE Acc combine(Acc a, Acc b) const {
    const bool odd_a = a.value != a.value, odd_b = b.value != b.value;
    const bool second = odd_a != odd_b ? odd_b
                        : odd_a || a.value == b.value ? b.place < a.place
                                                      : (LARGEST ? a.value < b.value : b.value < a.value);
    return second ? b : a;
  }
  INLINE int64_t finish(Acc a, int64_t) const { return a.place; }
};
template <class T, class A> struct ArgMax : ArgBest<T, A, true> {};
template <class T, class A> struct ArgMin : ArgBest<T, A, false> {};
template <class T, class A> struct MaxDim : ArgMax<T, A> {
  static constexpr bool pair = true;
  INLINE A finish(Placed<A> a, int64_t) const { return a.value; }
  INLINE int64_t second(Placed<A> a, int64_t) const { return a.place; }
};
template <class T, class A> struct MinDim : ArgMin<T, A> {
  static constexpr bool pair = true;
  INLINE A finish(Placed<A> a, int64_t) const { return a.value; }
  INLINE int64_t second(Placed<A> a, int64_t) const { return a.place; }
};
template <class T, class A> struct Max : One {
  typedef A Acc;
  INLINE Acc init() const { return Limits<A>::lowest(); }
  INLINE Acc add(Acc a, T v, int64_t) const { return larger(a, cast<A>(v)); }
  INLINE Acc combine(Acc a, Acc b) const { return larger(a, b); }
  INLINE Acc finish(Acc a, int64_t) const { return a; }
};
template <class T, class A> struct Min : One {
  typedef A Acc;
  INLINE Acc init() const { return Limits<A>::highest(); }
  INLINE Acc add(Acc a, T v, int64_t) const { return smaller(a, cast<A>(v)); }
  INLINE Acc combine(Acc a, Acc b) const { return smaller(a, b); }
  INLINE Acc finish(Acc a, int64_t) const { return a; }
};
// A thread's sums of differences from its first number and of their squares, so that no number needs a division. Settled,
// `origin` is the mean and `squares` are those of differences from it; two of them are joined by Chan, Golub and LeVeque
// (1979).
template <class A> struct Spread {
  A origin, sum, squares, count;
};
template <class T, class A> struct Variance : One {
  typedef Spread<A> Acc;
  double correction;
  INLINE Acc init() const { return {A(0), A(0), A(0), A(0)}; }
  INLINE Acc add(Acc a, T v, int64_t) const {
    const A x = cast<A>(v), origin = a.count == A(0) ? x : a.origin, d = x - origin;
    return {origin, a.sum + d, a.squares + d * d, a.count + A(1)};
  }
  static constexpr bool packs = true;
  template <int V> INLINE Acc add_pack(Acc a, const Pack<T, V>& v, int64_t) const {
    if (a.count == A(0)) a.origin = cast<A>(v.v[0]);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const A d = cast<A>(v.v[k]) - a.origin;
      a.sum += d, a.squares += d * d;
    }
    a.count += A(V);
    return a;
  }
  INLINE Acc settled(Acc a) const {
    const A mean = a.count > A(0) ? a.sum / a.count : A(0);
    return {a.origin + mean, A(0), a.squares - a.sum * mean, a.count};
  }
  INLINE Acc combine(Acc a, Acc b) const {
    const A n = a.count + b.count;
    if (n == A(0)) return a;
    const A d = b.origin - a.origin, share = b.count / n;
    return {a.origin + d * share, A(0), a.squares + b.squares + d * d * a.count * share, n};
  }
  INLINE A finish(Acc a, int64_t n) const { return a.squares / A(n - correction > 0 ? n - correction : 0); }
};
template <class T, class A> struct Deviation : Variance<T, A> {
  INLINE A finish(Spread<A> a, int64_t n) const { return sqrt(Variance<T, A>::finish(a, n)); }
};
template <class T, class A> struct VarianceMean : Variance<T, A> {
  static constexpr bool pair = true;
  INLINE A second(Spread<A> a, int64_t n) const { return n ? a.origin : not_a_number<A>(); }
};
template <class T, class A> struct DeviationMean : Deviation<T, A> {
  static constexpr bool pair = true;
  INLINE A second(Spread<A> a, int64_t n) const { return n ? a.origin : not_a_number<A>(); }
};
// The smallest and the largest at once.
template <class A> struct Range {
  A low, high;
};
template <class T, class A> struct MinMax : One {
  typedef Range<A> Acc;
  static constexpr bool pair = true;
  INLINE Acc init() const { return {Limits<A>::highest(), Limits<A>::lowest()}; }
  INLINE Acc add(Acc a, T v, int64_t) const { return {smaller(a.low, cast<A>(v)), larger(a.high, cast<A>(v))}; }
  INLINE Acc combine(Acc a, Acc b) const { return {smaller(a.low, b.low), larger(a.high, b.high)}; }
  INLINE A finish(Acc a, int64_t) const { return a.low; }
  INLINE A second(Acc a, int64_t) const { return a.high; }
};
// log(sum(exp(x))) with the maximum taken out as it grows.
template <class A> struct Scaled {
  A top, sum;
};
template <class T, class A> struct LogSumExp : One {
  typedef Scaled<A> Acc;
  INLINE Acc init() const { return {-infinity<A>(), A(0)}; }
  INLINE Acc add(Acc a, T v, int64_t) const { return combine(a, Acc{cast<A>(v), A(1)}); }
  static constexpr bool packs = true;
  template <int V> INLINE Acc add_pack(Acc a, const Pack<T, V>& v, int64_t = 0) const {  // scaled once for all of them
    A top = a.top;
#pragma unroll
    for (int k = 0; k < V; ++k) top = larger(top, cast<A>(v.v[k]));
    if (is_infinite(top)) return {top, A(1)};
    A sum = a.sum * exp(a.top - top);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += exp(cast<A>(v.v[k]) - top);
    return {top, sum};
  }
  INLINE Acc combine(Acc a, Acc b) const {
    const A top = larger(a.top, b.top);
    if (is_infinite(top)) return {top, A(1)};
    return {top, a.sum * exp(a.top - top) + b.sum * exp(b.top - top)};
  }
  INLINE A finish(Acc a, int64_t) const { return a.sum == A(0) ? -infinity<A>() : a.top + log(a.sum); }
};
// … of complex numbers: their real parts are scaled; those that are infinite count alone and as they are.
template <class R> struct Turned {
  R top;
  Complex<R> sum;
};
template <class T, class R> struct LogSumExp<T, Complex<R>> : One {
  typedef Turned<R> Acc;
  INLINE Acc init() const { return {-infinity<R>(), Complex<R>(0)}; }
  INLINE Acc add(Acc a, T v, int64_t) const {
    const Complex<R> z = cast<Complex<R>>(v);
    return combine(a, Acc{z.re, exp(is_infinite(z.re) ? z : Complex<R>(R(0), z.im))});
  }
  INLINE Acc combine(Acc a, Acc b) const {
    const R top = larger(a.top, b.top);
    const auto share = [&](Acc v) {
      return !is_infinite(top) ? scaled(v.sum, exp(v.top - top)) : v.top == top ? v.sum : Complex<R>(0);
    };
    return {top, share(a) + share(b)};
  }
  INLINE Complex<R> finish(Acc a, int64_t) const {
    return a.sum == Complex<R>(0) ? Complex<R>(-infinity<R>()) : Complex<R>(is_infinite(a.top) ? R(0) : a.top) + log(a.sum);
  }
};
// Norms: of order 0 the count of nonzero elements, 1, 2, infinite ones by Max and Min of absolute values, any other.
template <class T, class A> struct Norm : One {
  typedef A Acc;
  double order;
  INLINE Acc init() const { return order < 0 && is_infinite(order) ? infinity<A>() : A(0); }
  INLINE Acc add(Acc a, T v, int64_t) const {
    const A x = A(absolute(widen(v)));
    if (is_infinite(order)) return order > 0 ? larger(a, x) : smaller(a, x);
    return a + (order == 0 ? A(x != 0) : order == 1 ? x : order == 2 ? x * x : pow(x, A(order)));
  }
  INLINE Acc combine(Acc a, Acc b) const {
    return !is_infinite(order) ? a + b : order > 0 ? larger(a, b) : smaller(a, b);
  }
  INLINE Acc finish(Acc a, int64_t) const {
    return order == 2 ? sqrt(a) : order == 0 || order == 1 || is_infinite(order) ? a : pow(a, A(1) / A(order));
  }
};

// Two sums at once.
template <class A> struct Two {
  A first, second;
};
template <class A> struct JoinTwo : One {
  typedef Two<A> Acc;
  INLINE Acc init() const { return {A(0), A(0)}; }
  INLINE Acc combine(Acc a, Acc b) const { return {a.first + b.first, a.second + b.second}; }
};

// --- the ways through memory
// kept: sizes and strides of what remains, reduced: of what is summed over. Chunk c of `chunks` takes the elements
// [c * width, (c + 1) * width) of the reduced ones.
template <class O, class P, int K> struct Results {
  O* first;
  P* second;
  Layout<K> to, to_second;
  template <class Op, class Index> INLINE void put(const Op& op, typename Op::Acc acc, Index row, Index n) const {
    first[offset_of<Index, K>(row, to)] = cast<O>(op.finish(acc, n));
    if constexpr (Op::pair) second[offset_of<Index, K>(row, to_second)] = cast<P>(op.second(acc, n));
  }
};
// Elements that lie side by side join an accumulator.
template <class Op, class T, int V>
INLINE typename Op::Acc join_pack(const Op& op, typename Op::Acc acc, const Pack<T, V>& v, int64_t place) {
  if constexpr (Op::packs) return op.add_pack(acc, v, place);
#pragma unroll
  for (int k = 0; k < V; ++k) acc = op.add(acc, v.v[k], place + k);
  return acc;
}
// A thread's part of the elements [begin, end) of a row: packs of V from its `own` on, `threads` packs apart. V > 1: the
// elements lie side by side, and four packs are on their way at once.
template <int V, class Op, class T, class Index, int R>
INLINE typename Op::Acc reduce_part(const Op& op, const T* from, const Layout<R>& reduced, Index begin, Index end,
                                    Index own, Index threads) {
  typename Op::Acc acc = op.init();
  if constexpr (V > 1) {
    const Index whole = begin + (end > begin ? (end - begin) / V * V : 0), step = threads * V;
    Index i = begin + own * V;
    for (; i + 3 * step < whole; i += 4 * step) {
      Pack<T, V> v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = load<V>(from + i + k * step);
#pragma unroll
      for (int k = 0; k < 4; ++k) acc = join_pack(op, acc, v[k], i + k * step);
    }
    for (; i < whole; i += step) acc = join_pack(op, acc, load<V>(from + i), i);
    for (i = whole + own; i < end; i += threads) acc = op.add(acc, from[i], i);
  } else {
    for (Index i = begin + own; i < end; i += threads) acc = op.add(acc, from[offset_of<Index, R>(i, reduced)], i);
  }
  return op.settled(acc);
}
// One block per result and chunk.
template <int V, class Op, class T, class Out, class Index, int K, int R>
INLINE void reduce_rows(const Lanes<Op>& op, const T* x, const Out& out, typename Op::Acc* partial,
                        const Layout<K>& kept, const Layout<R>& reduced, Index rows, Index n, Index width) {
  __shared__ typename Op::Acc room[32];
  const Index row = blockIdx.x, chunk = blockIdx.y, begin = chunk * width, end = begin + width < n ? begin + width : n;
  auto acc = reduce_part<V>(op, x + offset_of<Index, K>(row, kept), reduced, begin, end, Index(threadIdx.x),
                            Index(blockDim.x));
  acc = combine_block(op, acc, room);
  if (threadIdx.x != 0) return;
  if (gridDim.y > 1) partial[int64_t(row) * gridDim.y + chunk] = acc;
  else out.put(op, acc, row, n);
}
// Short rows: LANES threads of a warp for each result.
template <int V, int LANES, class Op, class T, class Out, class Index, int K, int R>
INLINE void reduce_lines(const Lanes<Op>& op, const T* x, const Out& out, const Layout<K>& kept,
                         const Layout<R>& reduced, Index rows, Index n) {
  const Index row = Index(blockIdx.x) * (blockDim.x / LANES) + threadIdx.x / LANES, own = threadIdx.x % LANES;
  auto acc = op.init();
  if (row < rows)
    acc = reduce_part<V>(op, x + offset_of<Index, K>(row, kept), reduced, Index(0), n, own, Index(LANES));
#pragma unroll
  for (int k = LANES / 2; k > 0; k >>= 1) acc = op.combine_lanes(acc, op.shuffle(acc, k), (threadIdx.x & k) != 0);
  if (own == 0 && row < rows) out.put(op, acc, row, n);
}
// Neighbouring results lie in neighbouring columns: each thread takes V of them, 8 rows of threads share its columns.
template <int V, class Op, class T, class Out, class Index, int K, int R>
INLINE void reduce_columns(const Lanes<Op>& op, const T* x, const Out& out, typename Op::Acc* partial,
                           const Layout<K>& kept, const Layout<R>& reduced, Index rows, Index n, Index width) {
  typedef typename Op::Acc Acc;
  __shared__ Acc room[8][32 * V];
  const int lane = threadIdx.x & 31, part = threadIdx.x >> 5;
  const Index row = (Index(blockIdx.x) * 32 + lane) * V, chunk = blockIdx.y;
  const Index end = (chunk + 1) * width < n ? (chunk + 1) * width : n;
  Acc acc[V];
#pragma unroll
  for (int k = 0; k < V; ++k) acc[k] = op.init();
  if (row < rows) {
    const T* from = x + offset_of<Index, K>(row, kept);
    Index i = chunk * width + part;
    for (; i + 24 < end; i += 32) {  // four packs on their way at once
      Pack<T, V> v[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) v[m] = load<V>(from + offset_of<Index, R>(i + 8 * m, reduced));
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int k = 0; k < V; ++k) acc[k] = op.add(acc[k], v[m].v[k], i + 8 * m);
    }
    for (; i < end; i += 8) {
      const Pack<T, V> v = load<V>(from + offset_of<Index, R>(i, reduced));
#pragma unroll
      for (int k = 0; k < V; ++k) acc[k] = op.add(acc[k], v.v[k], i);
    }
  }
#pragma unroll
  for (int k = 0; k < V; ++k) room[part][lane + 32 * k] = op.settled(acc[k]);
  __syncthreads();
  for (int column = threadIdx.x; column < 32 * V; column += 256) {
    const Index to = Index(blockIdx.x) * 32 * V + (column & 31) * V + (column >> 5);
    if (to >= rows) continue;
    Acc all = room[0][column];
    for (int k = 1; k < 8; ++k) all = op.combine(all, room[k][column]);
    if (gridDim.y > 1) partial[int64_t(to) * gridDim.y + chunk] = all;
    else out.put(op, all, to, n);
  }
}
// The second stage: one warp per result joins the chunks.
template <class Op, class Out, class Index>
INLINE void reduce_chunks(const Lanes<Op>& op, const Out& out, const typename Op::Acc* partial, Index rows, Index n,
                          int chunks) {
  const Index row = Index(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  typename Op::Acc acc = op.init();
  for (int k = threadIdx.x & 31; k < chunks; k += 32) acc = op.combine(acc, partial[int64_t(row) * chunks + k]);
  acc = combine_warp(op, acc);
  if ((threadIdx.x & 31) == 0) out.put(op, acc, row, n);
}
