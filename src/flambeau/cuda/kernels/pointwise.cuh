// Pointwise kernels: V elements per thread, read and written 16 bytes at once where operands are contiguous.
//
// Everything a thread needs is read before anything is written: the compiler must take it that what is written may be
// what is read next, and one read after the other keeps too few bytes on their way.
template <class Index> INLINE Index least(Index a, Index b) { return a < b ? a : b; }

// A tile of SIDE x SIDE elements over the two innermost dimensions, a block's share.
template <class Index, int COUNT, int SIDE> struct Tile {
  Index at[COUNT];  // offsets of its first element
  int size[2];      // how much of it there is
  INLINE explicit Tile(const Geometry& g) {
    const uint32_t columns = uint32_t((g.sizes[0] + SIDE - 1) / SIDE), rows = uint32_t((g.sizes[1] + SIDE - 1) / SIDE);
    const uint32_t line = blockIdx.x / columns, outer = line / rows;
    const Index first[2] = {Index(blockIdx.x - line * columns) * SIDE, Index(line - outer * rows) * SIDE};
    offsets_of<Index, COUNT, 2>(g, Index(outer), at);
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      size[d] = int(least(Index(SIDE), Index(g.sizes[d]) - first[d]));
#pragma unroll
      for (int k = 0; k < COUNT; ++k) at[k] += first[d] * Index(g.strides[k][d]);
    }
  }
  INLINE bool has(int a, int b) const { return a < size[0] && b < size[1]; }
  INLINE Index offset(const Geometry& g, int k, int a, int b) const {
    return at[k] + a * Index(g.strides[k][0]) + b * Index(g.strides[k][1]);
  }
};

// What a formula yields, as the type that the operator declares: whole numbers come back from C++'s promotion to int.
template <class T, class V> struct Settle {
  static constexpr bool keep = Same<V, bool>::value || Same<V, T>::value || IsComplex<V>::value ||
                               (IsComplex<T>::value && Same<V, typename Real<T>::type>::value);
  typedef typename Choose<keep, V, T>::type type;
};
template <class T, class V> INLINE typename Settle<T, V>::type settle(V v) {
  return typename Settle<T, V>::type(v);
}
template <char MODE, class T> INLINE T quotient(T a, T b) {
  if constexpr (MODE == 'f') return floor_div(a, b);
  else if constexpr (MODE == 't' && IsWhole<T>::value) return whole_trunc_div(a, b);
  else if constexpr (MODE == 't') return trunc_(a / b);
  else return a / b;
}
