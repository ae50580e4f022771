// Pooling: the window of every result along each of three axes; missing axes have one element. Images lie in planes, or
// with their channels last, of which V are computed together. Index: int32_t where all products of sizes fit.
struct Divider {
  uint32_t factor, shift;
};
struct Axis {
  int64_t in, out, kernel, stride, pad, dilation;
  Divider by_in, by_out, by_stride;
};
struct Axes {
  Axis axis[3];
  int64_t channels, packs;  // of images with channels last: how many, how many times V; else 1
  Divider by_packs;
};
// n / size, for n of 0 to 2^31 - 1; of 64 bits it is a division.
template <class Index> INLINE Index over(Index n, const Divider& d, int64_t size) {
  if constexpr (sizeof(Index) == 4) return Index(__umulhi(2 * uint32_t(n), d.factor) >> d.shift);
  else return n / Index(size);
}
template <class Index> struct Window {
  Index begin, end, extent;  // inside the source; what it counts for in a mean
};
template <bool EVEN, bool PADDED, class Index> INLINE Window<Index> window_of(const Axis& a, Index i) {
  const Index in = Index(a.in), out = Index(a.out);
  if constexpr (!EVEN) {
    const Index begin = over(i * in, a.by_out, out), end = over((i + 1) * in + out - 1, a.by_out, out);
    return {begin, end, end - begin};
  } else {
    const Index begin = i * Index(a.stride) - Index(a.pad), dilation = Index(a.dilation);
    const Index reach = begin + (Index(a.kernel) - 1) * dilation + 1, border = in + Index(a.pad);
    const Index last = reach < border ? reach : border;
    Index skipped = begin < 0 ? -begin : 0;
    if (dilation > 1) skipped = (skipped + dilation - 1) / dilation * dilation;
    Window<Index> w{begin + skipped, last < in ? last : in, last - begin};
    if (!PADDED) w.extent = w.end > w.begin ? w.end - w.begin : 0;
    return w;
  }
}
// The results [begin, end) whose windows, without gaps, hold element i.
template <bool EVEN, class Index> INLINE Window<Index> covering(const Axis& a, Index i) {
  const Index in = Index(a.in), out = Index(a.out);
  if constexpr (!EVEN) return {over(i * out, a.by_in, in), over((i + 1) * out + in - 1, a.by_in, in), 0};
  else {
    const Index from = i + Index(a.pad), short_of = from - Index(a.kernel);  // o stride <= from, o stride > short_of
    const Index begin = short_of < 0 ? 0 : over(short_of, a.by_stride, a.stride) + 1;
    const Index end = over(from, a.by_stride, a.stride) + 1;
    return {begin, end < out ? end : out, 0};
  }
}
// A place in [plane, axes] (channels last: [image, axes, pack]): what is left of the number, axis by axis.
template <bool LAST, int V, class Index> struct Cell {
  Index place[3], plane, pack;
  template <bool OUT> INLINE static Cell of(const Axes& a, Index i) {
    Cell c;
    c.pack = 0;
    if constexpr (LAST) {
      const Index rest = over(i, a.by_packs, a.packs);
      c.pack = i - rest * Index(a.packs);
      i = rest;
    }
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const Axis& x = a.axis[d];
      const Index size = Index(OUT ? x.out : x.in), rest = over(i, OUT ? x.by_out : x.by_in, size);
      c.place[d] = i - rest * size;
      i = rest;
    }
    c.plane = i;
    return c;
  }
  INLINE static Index step(const Axes& a) { return LAST ? Index(a.channels) : 1; }
  // Where the plane begins of which `size` are the elements, or the pack's first channel of the image.
  INLINE Index first(const Axes& a, Index size) const { return plane * size * step(a) + pack * V; }
};
// Where pack i of the results lies: three windows, and where its plane of the source begins.
template <bool EVEN, bool PADDED, bool LAST, int V, class Index> struct Windows {
  Window<Index> w[3];
  Index first, step;
  INLINE Windows(const Axes& a, Index i) {
    typedef Cell<LAST, V, Index> Cell;
    const Cell c = Cell::template of<true>(a, i);
#pragma unroll
    for (int d = 0; d < 3; ++d) w[d] = window_of<EVEN, PADDED>(a.axis[d], c.place[d]);
    first = c.first(a, Index(a.axis[0].in) * Index(a.axis[1].in) * Index(a.axis[2].in));
    step = Cell::step(a);
  }
  // For all elements of the window, up to four at a time: read(k, offset), then use(k, place in the plane).
  template <class Read, class Use> INLINE void each(const Axes& a, const Read& read, const Use& use) const {
    const Index d0 = Index(a.axis[0].dilation), d1 = Index(a.axis[1].dilation), d2 = Index(a.axis[2].dilation);
    for (Index i = w[0].begin; i < w[0].end; i += d0)
      for (Index j = w[1].begin; j < w[1].end; j += d1) {
        const Index row = (i * Index(a.axis[1].in) + j) * Index(a.axis[2].in);
        for (Index k = w[2].begin; k < w[2].end; k += 4 * d2) {
#pragma unroll
          for (int q = 0; q < 4; ++q)
            if (k + q * d2 < w[2].end) read(q, first + (row + k + q * d2) * step);
#pragma unroll
          for (int q = 0; q < 4; ++q)
            if (k + q * d2 < w[2].end) use(q, row + k + q * d2);
        }
      }
  }
  INLINE bool empty() const { return w[0].begin >= w[0].end || w[1].begin >= w[1].end || w[2].begin >= w[2].end; }
  INLINE Index size() const {
    return empty() ? 0 : (w[0].end - w[0].begin) * (w[1].end - w[1].begin) * (w[2].end - w[2].begin);
  }
  INLINE Index extent() const { return w[0].extent * w[1].extent * w[2].extent; }
  // Its elements [begin, end), counted row by row, in steps of `parts`, four at a time: for windows without gaps.
  template <class Read, class Use>
  INLINE void some(const Axes& a, Index begin, Index end, Index parts, const Read& read, const Use& use) const {
    typedef typename Unsigned<Index>::type Size;
    if (begin >= end) return;
    const Index e1 = w[1].end - w[1].begin, e2 = w[2].end - w[2].begin;
    const Index r = Index(Size(begin) / Size(e2)), ahead = Index(Size(parts) / Size(e2));
    Index k = begin - r * e2, i = Index(Size(r) / Size(e1)), j = r - i * e1;
    const Index dk = parts - ahead * e2, di = Index(Size(ahead) / Size(e1)), dj = ahead - di * e1;
    for (Index n = begin; n < end; n += 4 * parts) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        if (n + q * parts < end)
          read(q, first + (((w[0].begin + i) * Index(a.axis[1].in) + w[1].begin + j) * Index(a.axis[2].in) +
                           w[2].begin + k) * step);
        k += dk, j += dj, i += di;
        if (k >= e2) k -= e2, ++j;
        if (j >= e1) j -= e1, ++i;
      }
#pragma unroll
      for (int q = 0; q < 4; ++q)
        if (n + q * parts < end) use(q);
    }
  }
};
// V results beside each other in a row of a plane, the first of them number i, and their windows.
template <int V, bool EVEN, bool PADDED, class Index> struct Beside {
  static constexpr int many = 3;  // elements of each window on their way
  Window<Index> w0, w1, w2[V];
  Index first, widest;
  INLINE Beside(const Axes& a, Index i) : widest(0) {
    typedef Cell<false, 1, Index> Cell;
    const Cell c = Cell::template of<true>(a, i);
    w0 = window_of<EVEN, PADDED>(a.axis[0], c.place[0]);
    w1 = window_of<EVEN, PADDED>(a.axis[1], c.place[1]);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      w2[v] = window_of<EVEN, PADDED>(a.axis[2], c.place[2] + v);
      const Index wide = w2[v].end - w2[v].begin;
      widest = wide > widest ? wide : widest;
    }
    first = c.first(a, Index(a.axis[0].in) * Index(a.axis[1].in) * Index(a.axis[2].in));
  }
  // For all elements of each window: read(v, k, offset), then use(v, k, place in the plane).
  template <class Read, class Use> INLINE void each(const Axes& a, const Read& read, const Use& use) const {
    const Index d0 = Index(a.axis[0].dilation), d1 = Index(a.axis[1].dilation), d2 = Index(a.axis[2].dilation);
    for (Index i = w0.begin; i < w0.end; i += d0)
      for (Index j = w1.begin; j < w1.end; j += d1) {
        const Index row = (i * Index(a.axis[1].in) + j) * Index(a.axis[2].in);
        for (Index t = 0; t < widest; t += many * d2) {
#pragma unroll
          for (int k = 0; k < many; ++k)
#pragma unroll
            for (int v = 0; v < V; ++v)
              if (const Index at = w2[v].begin + t + k * d2; at < w2[v].end) read(v, k, first + row + at);
#pragma unroll
          for (int k = 0; k < many; ++k)
#pragma unroll
            for (int v = 0; v < V; ++v)
              if (const Index at = w2[v].begin + t + k * d2; at < w2[v].end) use(v, k, row + at);
        }
      }
  }
};
// The largest elements of V windows and their places, at first where windows begin; the last of several NaN.
template <int V, class A, class Index> struct Maxima {
  A best[V];
  Index place[V];
  INLINE void begin(int v, const Axes& a, Index p, Index q, Index r) {
    best[v] = Limits<A>::lowest();
    place[v] = (p * Index(a.axis[1].in) + q) * Index(a.axis[2].in) + r;
  }
  INLINE void take(int v, A value, Index from) {
    if (value > best[v] || value != value) best[v] = value, place[v] = from;
  }
  template <bool PLACES, class T> INLINE void put(T* out, int64_t* places) const {
    Pack<T, V> to;
    Pack<int64_t, V> at;
#pragma unroll
    for (int v = 0; v < V; ++v) to.v[v] = cast<T>(best[v]), at.v[v] = place[v];
    store<V>(out, to);
    if constexpr (PLACES) store<V>(places, at);
  }
};
template <int V, bool PLACES, class W, class Index, class T>
INLINE void largest_beside(const Axes& a, Index i, const T* x, T* out, int64_t* places) {
  typedef typename Wide<T>::type A;
  const W w(a, i * V);
  T own[V][W::many];
  Maxima<V, A, Index> all;
#pragma unroll
  for (int v = 0; v < V; ++v) all.begin(v, a, w.w0.begin, w.w1.begin, w.w2[v].begin);
  w.each(a, [&](int v, int k, Index from) { own[v][k] = x[from]; },
         [&](int v, int k, Index from) { all.take(v, cast<A>(own[v][k]), from); });
  all.template put<PLACES>(out + i * V, places + i * V);
}
template <int V, class A, class W, class Index, class T>
INLINE void mean_beside(const Axes& a, Index i, const T* x, T* out, int64_t divisor) {
  const W w(a, i * V);
  T own[V][W::many];
  A sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = A(0);
  w.each(a, [&](int v, int k, Index from) { own[v][k] = x[from]; },
         [&](int v, int k, Index) { sum[v] += cast<A>(own[v][k]); });
  const bool none = w.w0.begin >= w.w0.end || w.w1.begin >= w.w1.end;
  const Index extent = w.w0.extent * w.w1.extent;
  Pack<T, V> to;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const A by = divisor ? A(divisor) : A(extent * w.w2[v].extent);
    to.v[v] = cast<T>(none || w.w2[v].begin >= w.w2[v].end ? A(0) : A(sum[v] / by));
  }
  store<V>(out + i * V, to);
}
// Pack i of the largest elements and, where PLACES, where they are in their images; channels lie last.
template <int V, bool PLACES, class W, class Index, class T>
INLINE void largest_of(const Axes& a, Index i, const T* x, T* out, int64_t* places) {
  typedef typename Wide<T>::type A;
  const W w(a, i);
  Pack<T, V> own[4];
  Maxima<V, A, Index> all;
#pragma unroll
  for (int j = 0; j < V; ++j) all.begin(j, a, w.w[0].begin, w.w[1].begin, w.w[2].begin);
  w.each(a, [&](int k, Index from) { own[k] = load<V>(x + from); }, [&](int k, Index from) {
#pragma unroll
    for (int j = 0; j < V; ++j) all.take(j, cast<A>(own[k].v[j]), from);
  });
  all.template put<PLACES>(out + i * V, places + i * V);
}
// Pack i of means, channels last; divisor: 0, or what to divide by.
template <int V, class A, class W, class Index, class T>
INLINE void mean_of(const Axes& a, Index i, const T* x, T* out, int64_t divisor) {
  const W w(a, i);
  Pack<T, V> own[4], to;
  A sum[V];
#pragma unroll
  for (int j = 0; j < V; ++j) sum[j] = A(0);
  w.each(a, [&](int k, Index at) { own[k] = load<V>(x + at); }, [&](int k, Index) {
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] += cast<A>(own[k].v[j]);
  });
  const A by = divisor ? A(divisor) : A(w.extent());
#pragma unroll
  for (int j = 0; j < V; ++j) to.v[j] = cast<T>(w.empty() ? A(0) : A(sum[j] / by));
  store<V>(out + i * V, to);
}
// Sums of large windows in planes by 32 or 256 threads each; put(result, sum). V > 1: the windows are whole planes, whose
// axes count packs. Chunk blockIdx.y takes `width` elements of each window.
template <int V, int THREADS, class A, class W, class Index, class T, class Put>
INLINE void sum_planes(const Axes& a, Index results, Index width, const T* x, const Put& put) {
  const Index i = Index(blockIdx.x) * (256 / THREADS) + Index(threadIdx.x / THREADS);
  const bool there = i < results;
  const W w(a, there ? i : 0);
  const Index size = w.size(), begin = Index(blockIdx.y) * width, end = begin + width < size ? begin + width : size;
  Pack<T, V> own[4];
  A sum = A(0);
  if (there)
    w.some(a, begin + Index(threadIdx.x % THREADS), end, Index(THREADS),
           [&](int k, Index at) { own[k] = load<V>(x + at * V); }, [&](int k) {
#pragma unroll
             for (int j = 0; j < V; ++j) sum += cast<A>(own[k].v[j]);
           });
  if constexpr (THREADS == 32) sum = combine_warp(SumOf<A>(), sum);
  else sum = sum_block(sum);
  if (there && threadIdx.x % THREADS == 0) put(i, sum, w);
}
// The same with channels last: 2^shift threads beside each other for the packs of one cell.
template <int V, class A, class W, class Index, class T, class Put>
INLINE void sum_last(const Axes& a, Index across, Index width, int64_t shift, const T* x, const Put& put) {
  __shared__ A room[256];
  const Index lanes = Index(1) << int(shift), cell = Index(blockIdx.x) / across, part = Index(threadIdx.x) >> int(shift);
  const Index pack = (Index(blockIdx.x) - cell * across) * lanes + (Index(threadIdx.x) & (lanes - 1));
  const bool there = pack < Index(a.packs);
  const Index i = cell * Index(a.packs) + (there ? pack : 0), parts = 256 >> int(shift);
  const W w(a, i);
  const Index size = w.size(), begin = Index(blockIdx.y) * width, end = begin + width < size ? begin + width : size;
  Pack<T, V> own[4];
  A sum[V];
#pragma unroll
  for (int j = 0; j < V; ++j) sum[j] = A(0);
  if (there)
    w.some(a, begin + part, end, parts, [&](int k, Index at) { own[k] = load<V>(x + at); }, [&](int k) {
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] += cast<A>(own[k].v[j]);
    });
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (j) __syncthreads();
    room[threadIdx.x] = sum[j];
    __syncthreads();
    if (part || !there) continue;
    A all = sum[j];
    for (Index k = 1; k < parts; ++k) all += room[k * lanes + Index(threadIdx.x)];
    put(i * V + j, all, w);
  }
}
// A block of the source: two rows of V columns, or where channels lie last of two columns, V channels of each; and the
// results whose windows hold some of it. `cells` counts the blocks.
template <int V, bool EVEN, bool LAST, class Index> struct Block {
  static constexpr int own = LAST ? V : 1, across = LAST ? 2 : V;
  Index row, column, n1, n2, o1, o2, step, from, to, begin[3], end[3];
  Index at;  // where it begins in its plane
  INLINE Block(const Axes& a, const Axes& cells, Index i) {
    typedef Cell<LAST, own, Index> Cell;
    const Cell c = Cell::template of<false>(cells, i);
    n1 = Index(a.axis[1].in), n2 = Index(a.axis[2].in), o1 = Index(a.axis[1].out), o2 = Index(a.axis[2].out);
    row = c.place[1] * 2, column = c.place[2] * across, step = Cell::step(a);
    const Index low = row + 1 < n1 ? row + 1 : row, right = column + across <= n2 ? column + across - 1 : n2 - 1;
    from = c.first(a, Index(a.axis[0].out) * o1 * o2);
    at = (c.place[0] * n1 + row) * n2 + column;
    to = c.first(a, Index(a.axis[0].in) * n1 * n2) + at * step;
    const Window<Index> w0 = covering<EVEN>(a.axis[0], c.place[0]);
    begin[0] = w0.begin, end[0] = w0.end;
    begin[1] = covering<EVEN>(a.axis[1], row).begin, end[1] = covering<EVEN>(a.axis[1], low).end;
    begin[2] = covering<EVEN>(a.axis[2], column).begin, end[2] = covering<EVEN>(a.axis[2], right).end;
  }
  // Where a result lies, or the first channel of a pack of them.
  INLINE Index result(Index p, Index q, Index r) const { return from + ((p * o1 + q) * o2 + r) * step; }
  template <class A, class T> INLINE void put(T* out, const A (&sum)[2][across][own]) const {
#pragma unroll
    for (int y = 0; y < 2; ++y) {
      if (row + y >= n1) break;
      Pack<T, V> all[LAST ? across : 1];
#pragma unroll
      for (int x = 0; x < across; ++x)
#pragma unroll
        for (int j = 0; j < own; ++j) all[LAST ? x : 0].v[LAST ? j : x] = cast<T>(sum[y][x][j]);
      store<V>(out + to + y * n2 * step, all[0]);
      if constexpr (LAST)
        if (column + 1 < n2) store<V>(out + to + (y * n2 + 1) * step, all[1]);
    }
  }
};
// A number of 64 bits as an Index; -1 where it is none.
template <class Index> INLINE Index near_or_none(int64_t n) { return n == int64_t(Index(n)) ? Index(n) : Index(-1); }
// The gradient of a block of the source: what windows that hold some of it give the elements that they name, in the
// windows' order. Each axis of `a` has windows without gaps that hold those of the pool.
template <int V, bool EVEN, bool LAST, class Index, class T>
INLINE void given_back(const Axes& a, const Axes& cells, Index i, const T* grad, const int64_t* places, T* out) {
  typedef typename Wide<T>::type A;
  typedef Block<V, EVEN, LAST, Index> Block;
  constexpr int own = Block::own, across = Block::across, many = LAST ? 2 : 3;
  const Block b(a, cells, i);
  A sum[2][across][own] = {};
  for (Index p = b.begin[0]; p < b.end[0]; ++p)
    for (Index q = b.begin[1]; q < b.end[1]; q += 2)
      for (Index r = b.begin[2]; r < b.end[2]; r += many) {
        Pack<int64_t, own> at[2][many];
        Pack<T, own> g[2][many];
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
          for (int m = 0; m < many; ++m)
            if (q + k < b.end[1] && r + m < b.end[2]) {
              const Index from = b.result(p, q + k, r + m);
              at[k][m] = load<own>(places + from), g[k][m] = load<own>(grad + from);
            }
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
          for (int m = 0; m < many; ++m) {
            if (q + k >= b.end[1] || r + m >= b.end[2]) continue;
#pragma unroll
            for (int j = 0; j < own; ++j) {
              const Index place = near_or_none<Index>(at[k][m].v[j] - b.at);
              const A v = cast<A>(g[k][m].v[j]);
#pragma unroll
              for (int x = 0; x < across; ++x) {
                if (place == x) sum[0][x][j] += v;
                if (place == b.n2 + x) sum[1][x][j] += v;
              }
            }
          }
      }
  b.put(out, sum);
}
// … of means: the shares of all windows that hold some of it.
template <int V, bool EVEN, bool PADDED, bool LAST, class A, class Index, class T>
INLINE void shares_of(const Axes& a, const Axes& cells, Index i, const T* grad, T* out, int64_t divisor) {
  typedef Block<V, EVEN, LAST, Index> Block;
  constexpr int own = Block::own, across = Block::across, many = LAST ? 2 : 4;
  const Block b(a, cells, i);
  A sum[2][across][own] = {};
  for (Index p = b.begin[0]; p < b.end[0]; ++p) {
    const Index e0 = window_of<EVEN, PADDED>(a.axis[0], p).extent;
    for (Index q = b.begin[1]; q < b.end[1]; ++q) {
      const Window<Index> w1 = window_of<EVEN, PADDED>(a.axis[1], q);
      const bool held[2] = {b.row >= w1.begin && b.row < w1.end, b.row + 1 >= w1.begin && b.row + 1 < w1.end};
      for (Index r = b.begin[2]; r < b.end[2]; r += many) {
        Pack<T, own> g[many];
#pragma unroll
        for (int m = 0; m < many; ++m)
          if (r + m < b.end[2]) g[m] = load<own>(grad + b.result(p, q, r + m));
#pragma unroll
        for (int m = 0; m < many; ++m) {
          if (r + m >= b.end[2]) continue;
          const Window<Index> w2 = window_of<EVEN, PADDED>(a.axis[2], r + m);
          const A by = divisor ? A(divisor) : A(e0 * w1.extent * w2.extent);
#pragma unroll
          for (int j = 0; j < own; ++j) {
            const A share = cast<A>(g[m].v[j]) / by;
#pragma unroll
            for (int x = 0; x < across; ++x)
              if (b.column + x >= w2.begin && b.column + x < w2.end) {
                if (held[0]) sum[0][x][j] += share;
                if (held[1]) sum[1][x][j] += share;
              }
          }
        }
      }
    }
  }
  b.put(out, sum);
}
// Where window o of fractional pooling begins, by a number of [0, 1).
template <class A> INLINE int64_t drawn_start(const Axis& a, int64_t o, A sample) {
  const int64_t last = a.in - a.kernel;
  if (o == a.out - 1) return last;
  const A step = A(last) / A(a.out - 1);
  const int64_t at = int64_t((A(o) + sample) * step) - int64_t(sample * step);
  return at < 0 ? 0 : at < last ? at : last;
}

// --- images resized: the taps of one result along one axis
template <class A> INLINE A near_weight(A x, A a) { return fma(fma(a + 2, x, -(a + 3)) * x, x, A(1)); }
template <class A> INLINE A far_weight(A x, A a) { return fma(fma(fma(a, x, -5 * a), x, 8 * a), x, -4 * a); }
// MODE: n nearest, e nearest-exact, l linear, c cubic. `scale` is the step of linear and cubic, `step` that of nearest.
template <class A, char MODE, class Index = int64_t> struct Taps {
  static constexpr int many = MODE == 'c' ? 4 : MODE == 'l' ? 2 : 1;
  static constexpr int before = MODE == 'c' ? 1 : 0;  // taps before the pixel that `pixel_of` names
  Index place[many];
  A weight[many];
  // Where result o lies between pixels, and the pixel before it.
  INLINE static A between(Index o, Index in, Index out, A scale, bool corners) {
    const A at = corners ? scale * A(o) : fma(scale, A(o) + A(0.5), A(-0.5));
    return MODE != 'l' ? at : in == out ? A(o) : at < A(0) ? A(0) : at;
  }
  INLINE static Index pixel_of(Index o, Index in, Index out, A scale, float step, bool corners) {
    if constexpr (MODE == 'n' || MODE == 'e') {
      const float at = MODE == 'n' ? float(o) * step : (float(o) + 0.5f) * step;
      return in == out ? o : Index(floor(at));
    } else {
      return Index(floor(between(o, in, out, scale, corners)));
    }
  }
  INLINE Taps(Index o, Index in, Index out, A scale, float step, bool corners) {
    Index low = pixel_of(o, in, out, scale, step, corners);
    if (low > in - 1) low = in - 1;
    if constexpr (many == 1) {
      place[0] = low;
      weight[0] = A(1);
    } else {
      A t = between(o, in, out, scale, corners) - A(low);
      t = t < A(0) ? A(0) : t > A(1) ? A(1) : t;
      if constexpr (MODE == 'l') {
        set(0, low, in, A(1) - t);
        set(1, low + 1, in, t);
      } else {
        const A c = A(-0.75);
        set(0, low - 1, in, far_weight(t + 1, c));
        set(1, low, in, near_weight(t, c));
        set(2, low + 1, in, near_weight(A(1) - t, c));
        set(3, low + 2, in, far_weight(A(2) - t, c));
      }
    }
  }
  INLINE void set(int k, Index at, Index in, A w) {
    place[k] = at < 0 ? 0 : at < in ? at : in - 1;
    weight[k] = w;
  }
};
struct Steps {
  double scale[3];
  float step[3];
};
// One axis of an image that is resized: the taps of a result, the results that read a pixel.
template <class A, char MODE, bool CORNERS, class Index> struct Resized {
  typedef Taps<A, MODE, Index> Own;
  Index in, out;
  A scale;
  float step;
  INLINE Resized(const Axes& a, const Steps& s, int d)
      : in(Index(a.axis[d].in)), out(Index(a.axis[d].out)), scale(A(s.scale[d])), step(s.step[d]) {}
  INLINE Own taps(Index o) const { return Own(o, in, out, scale, step, CORNERS); }
  INLINE Index pixel_of(Index o) const { return Own::pixel_of(o, in, out, scale, step, CORNERS); }
  // The first result at `pixel` or behind it: guessed, then corrected, since pixels never go back.
  INLINE Index from(Index pixel) const {
    const A by = Own::many == 1 ? A(step) : scale;
    A guess = by > A(0) ? CORNERS || Own::many == 1 ? A(pixel) / by : (A(pixel) + A(0.5)) / by - A(0.5) : A(0);
    guess = guess < A(0) ? A(0) : guess > A(out) ? A(out) : guess;
    Index o = Index(guess);
    while (o > 0 && pixel_of(o - 1) >= pixel) --o;
    while (o < out && pixel_of(o) < pixel) ++o;
    return o;
  }
  INLINE Index begin(Index i) const { return i == 0 ? 0 : from(i - Own::many + 1 + Own::before); }
  INLINE Index end(Index i) const { return i == in - 1 ? out : from(i + Own::before + 1); }
  INLINE A weight(Index o, Index i) const {
    const Own t = taps(o);
    A w = A(0);
#pragma unroll
    for (int k = 0; k < Own::many; ++k) w += t.place[k] == i ? t.weight[k] : A(0);
    return w;
  }
};
// Pack i of the result. In planes V are neighbours of one row.
template <int V, bool LAST, char M0, char M1, char M2, bool CORNERS, class A, class Index, class T, class Settle>
INLINE void resize(const Axes& a, const Steps& s, Index i, const T* x, T* out, const Settle& settle) {
  constexpr int own = LAST ? V : 1;
  typedef Cell<LAST, own, Index> Cell;
  const Cell c = Cell::template of<true>(a, LAST ? i : i * V);
  const Resized<A, M0, CORNERS, Index> r0(a, s, 0);
  const Resized<A, M1, CORNERS, Index> r1(a, s, 1);
  const Resized<A, M2, CORNERS, Index> r2(a, s, 2);
  const T* from = x + c.first(a, r0.in * r1.in * r2.in);
  const Index step = Cell::step(a);
  const auto t0 = r0.taps(c.place[0]);
  const auto t1 = r1.taps(c.place[1]);
  Pack<T, V> to;
#pragma unroll
  for (int m = 0; m < V / own; ++m) {
    const auto t2 = r2.taps(c.place[2] + m);
    if constexpr (t0.many * t1.many * t2.many == 1) {
      const Pack<T, own> v = load<own>(from + ((t0.place[0] * r1.in + t1.place[0]) * r2.in + t2.place[0]) * step);
#pragma unroll
      for (int j = 0; j < own; ++j) to.v[m + j] = v.v[j];
    } else {
      A sum[own];
#pragma unroll
      for (int j = 0; j < own; ++j) sum[j] = A(0);
#pragma unroll
      for (int p = 0; p < t0.many; ++p)
#pragma unroll
        for (int q = 0; q < t1.many; ++q)
#pragma unroll
          for (int r = 0; r < t2.many; ++r) {
            const A w = t0.weight[p] * t1.weight[q] * t2.weight[r];
            const Pack<T, own> v =
                load<own>(from + ((t0.place[p] * r1.in + t1.place[q]) * r2.in + t2.place[r]) * step);
#pragma unroll
            for (int j = 0; j < own; ++j) sum[j] += w * cast<A>(v.v[j]);
          }
#pragma unroll
      for (int j = 0; j < own; ++j) to.v[m + j] = settle(sum[j]);
    }
  }
  store<V>(out + i * V, to);
}
// Pack i of the source's gradient: gathered from the results that read it, four rows at a time.
template <int V, bool LAST, char M0, char M1, char M2, bool CORNERS, class A, class Index, class T, class Settle>
INLINE void resize_back(const Axes& a, const Steps& s, Index i, const T* grad, T* out, const Settle& settle) {
  typedef Cell<LAST, V, Index> Cell;
  const Cell c = Cell::template of<false>(a, i);
  const Resized<A, M0, CORNERS, Index> r0(a, s, 0);
  const Resized<A, M1, CORNERS, Index> r1(a, s, 1);
  const Resized<A, M2, CORNERS, Index> r2(a, s, 2);
  const T* from = grad + c.first(a, r0.out * r1.out * r2.out);
  const Index step = Cell::step(a), i0 = c.place[0], i1 = c.place[1], i2 = c.place[2];
  const Index end0 = r0.end(i0), begin1 = r1.begin(i1), end1 = r1.end(i1), begin2 = r2.begin(i2), end2 = r2.end(i2);
  A sum[V];
#pragma unroll
  for (int j = 0; j < V; ++j) sum[j] = A(0);
  for (Index p = r0.begin(i0); p < end0; ++p) {
    const A w0 = r0.weight(p, i0);
    for (Index q = begin1; q < end1; q += 4) {
      A rows[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) rows[k] = q + k < end1 ? w0 * r1.weight(q + k, i1) : A(0);
      for (Index r = begin2; r < end2; ++r) {
        const A w2 = r2.weight(r, i2);
        Pack<T, V> own[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (q + k < end1) own[k] = load<V>(from + ((p * r1.out + q + k) * r2.out + r) * step);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (q + k < end1) {
#pragma unroll
            for (int j = 0; j < V; ++j) sum[j] += rows[k] * w2 * cast<A>(own[k].v[j]);
          }
      }
    }
  }
  Pack<T, V> to;
#pragma unroll
  for (int j = 0; j < V; ++j) to.v[j] = settle(sum[j]);
  store<V>(out + i * V, to);
}
// MODE with antialias: every pixel that result o covers, weighted by a triangle, Keys' cubic with a = -1/2 (c), or
// three lobes of a sinc (s); n: one pixel of an axis that has no other.
template <class A, char MODE> struct Covered {
  int64_t first, many;
  A centre, shrink, total;
  INLINE static A smooth(A x) {
    x = fabs(x);
    if constexpr (MODE == 'l') return x < 1 ? 1 - x : A(0);
    if constexpr (MODE == 'c') return x < 1 ? near_weight(x, A(-0.5)) : x < 2 ? far_weight(x, A(-0.5)) : A(0);
    if (x == 0 || x >= 3) return x == 0 ? A(1) : A(0);
    const A pi = A(3.14159265358979323846) * x;
    return 3 * sin(pi) * sin(pi / 3) / (pi * pi);
  }
  INLINE Covered(int64_t o, int64_t in, A scale) : first(0), many(1), centre(0), shrink(0), total(1) {
    if constexpr (MODE != 'n') {
      const A wide = scale > 1 ? scale : A(1), reach = (MODE == 'l' ? 1 : MODE == 'c' ? 2 : 3) * wide;
      const int64_t most = int64_t(ceil(reach)) * 2 + 1;
      centre = scale * (A(o) + A(0.5));
      shrink = 1 / wide;
      const int64_t begin = int64_t(centre - reach + A(0.5)), end = int64_t(centre + reach + A(0.5));
      first = begin > 0 ? begin : 0;
      many = (end < in ? end : in) - first;
      many = many < 0 ? 0 : many < most ? many : most;
      total = A(0);
      for (int64_t k = 0; k < many; ++k) total += raw(k);
      if (total == 0) total = A(1);
    }
  }
  INLINE A raw(int64_t k) const {
    if constexpr (MODE == 'n') return A(1);
    else return smooth((A(k + first) - centre + A(0.5)) * shrink);
  }
  INLINE A weight(int64_t k) const { return raw(k) / total; }
};
