// Running sums and their kin along one dimension: one block per row, a tile of the row at a time, always in order.

template <class T, class A> struct RunningSum {
  typedef A Acc;
  static constexpr bool pair = false;
  INLINE Acc init() const { return A(0); }
  INLINE Acc of(T v, int64_t) const { return cast<A>(v); }
  INLINE Acc combine(Acc a, Acc b) const { return a + b; }
  INLINE A value(Acc a) const { return a; }
};
template <class T, class A> struct RunningProduct : RunningSum<T, A> {
  INLINE A init() const { return A(1); }
  INLINE A combine(A a, A b) const { return a * b; }
};
template <class A> struct Known {
  A value;
  int64_t place;  // -1: nothing yet
};
// The last of equal elements counts; a NaN stays.
template <class T, class A, bool LARGEST> struct RunningBest {
  typedef Known<A> Acc;
  static constexpr bool pair = true;
  INLINE Acc init() const { return {A(0), -1}; }
  INLINE Acc of(T v, int64_t i) const { return {cast<A>(v), i}; }
  INLINE Acc combine(Acc a, Acc b) const {
    if (a.place < 0) return b;
    if (b.place < 0) return a;
    const bool odd = b.value != b.value, better = LARGEST ? a.value <= b.value : b.value <= a.value;
    return odd || (better && a.value == a.value) ? b : a;
  }
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
  INLINE Acc init() const { return {-infinity<A>(), A(0)}; }
  INLINE Acc of(T v, int64_t) const { return {cast<A>(v), A(1)}; }
  INLINE Acc combine(Acc a, Acc b) const {
    const A top = larger(a.top, b.top);
    if (is_infinite(top)) return {top, A(1)};
    return {top, a.sum * exp(a.top - top) + b.sum * exp(b.top - top)};
  }
  INLINE A value(Acc a) const { return a.sum == A(0) ? -infinity<A>() : a.top + log(a.sum); }
};
// … of complex numbers, kept as logarithms: imaginary parts stay beside those of the elements, whole turns included.
template <class T, class R> struct RunningLogSum<T, Complex<R>> : RunningSum<T, Complex<R>> {
  INLINE Complex<R> init() const { return Complex<R>(-infinity<R>()); }
  INLINE Complex<R> combine(Complex<R> a, Complex<R> b) const { return logaddexp_(a, b); }
};

// [outer, n, inner]: a block of 256 threads for each row; the running value enters the next tile.
template <class Op, class T, class O, class P, class Index>
INLINE void scan_rows(const T* x, O* out, P* places, Index n, Index inner) {
  typedef typename Op::Acc Acc;
  __shared__ Acc part[256];
  const Op op;
  const Index row = blockIdx.x, outer = row / inner, at = outer * n * inner + (row - outer * inner);
  Acc before = op.init();
  for (Index begin = 0; begin < n; begin += 256) {
    const Index i = begin + threadIdx.x;
    const Acc own = i < n ? op.of(x[at + i * inner], i) : op.init();
    const Acc all = op.combine(before, scan_block(op, own, part));
    if (i < n) {
      out[at + i * inner] = cast<O>(op.value(all));
      if constexpr (Op::pair) places[at + i * inner] = cast<P>(op.second(all));
    }
    before = op.combine(before, part[255]);
  }
}
// Neighbouring rows lie in neighbouring columns: one thread each.
template <class Op, class T, class O, class P, class Index>
INLINE void scan_columns(const T* x, O* out, P* places, Index n, Index inner, Index rows) {
  const Op op;
  const Index row = Index(blockIdx.x) * 256 + threadIdx.x, outer = row / inner;
  if (row >= rows) return;
  const Index at = outer * n * inner + (row - outer * inner);
  typename Op::Acc all = op.init();
  for (Index i = 0; i < n; ++i) {
    all = op.combine(all, op.of(x[at + i * inner], i));
    out[at + i * inner] = cast<O>(op.value(all));
    if constexpr (Op::pair) places[at + i * inner] = cast<P>(op.second(all));
  }
}
