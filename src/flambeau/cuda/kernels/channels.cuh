// Sums over each channel, and passes over its elements, in both orders that tensors have: channels last (columns of a
// matrix) or planes of `inner` elements. V elements are read at once. A block takes some channels and, if it is one of
// several, a part of their elements. Where elements are read for a second time all goes BACKWARDS: what was read last may
// still be in the cache. A: the type that is computed in.

// [rows, channels]: each thread has V channels beside each other, LANES threads beside each other, 256 / LANES rows.
template <int V, int LANES, bool BACKWARDS, class Index> struct ChannelsLast {
  static constexpr int own = V, parts = 256 / LANES;
  static constexpr bool apart = true;  // the elements of a pack belong to channels of their own
  Index rows, channels, height;
  INLINE ChannelsLast(int64_t rows, int64_t channels, int64_t, int64_t height)
      : rows(rows), channels(channels), height(height) {}
  INLINE Index channel() const { return (Index(block_in_grid<BACKWARDS>().x) * LANES + threadIdx.x % LANES) * V; }
  INLINE bool exists() const { return channel() < channels; }
  // For all packs of this thread, MANY at a time: read(k, place in memory) for each, then use(k, place, row).
  template <int MANY, class Read, class Use> INLINE void each(const Read& read, const Use& use) const {
    if (!exists()) return;
    const Index begin = Index(block_in_grid<BACKWARDS>().y) * height, end = begin + height < rows ? begin + height : rows;
    const auto place = [=](Index r) { return BACKWARDS ? end - 1 - (r - begin) : r; };
    for (Index first = begin + threadIdx.x / LANES; first < end; first += parts * MANY) {
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (const Index r = first + k * parts; r < end) read(k, place(r) * channels + channel());
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (const Index r = first + k * parts; r < end) use(k, place(r) * channels + channel(), place(r));
    }
  }
  // Joins what the threads of a channel have, first those of a warp; f(channel, joined), once for each.
  template <class Join, class F> INLINE void deliver(const Join& join, typename Join::Acc* acc, const F& f) const {
    __shared__ typename Join::Acc room[8][LANES * V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int k = LANES; k < 32; k *= 2)
        acc[j] = join.combine_lanes(acc[j], join.shuffle(acc[j], k), (threadIdx.x & k) != 0);
      if (threadIdx.x % 32 < LANES) room[threadIdx.x / 32][threadIdx.x % LANES * V + j] = acc[j];
    }
    __syncthreads();
    const Index c = Index(blockIdx.x) * LANES * V + threadIdx.x;
    if (threadIdx.x >= LANES * V || c >= channels) return;
    typename Join::Acc all = room[0][threadIdx.x];
    for (int k = 1; k < 8; ++k) all = join.combine(all, room[k][threadIdx.x]);
    f(c, all);
  }
};
// [batch, channels, inner]: a block for each channel, and for `depth` of the batch.
template <int V, bool BACKWARDS, class Index> struct Planes {
  static constexpr int own = 1;
  static constexpr bool apart = false;
  Index batch, channels, inner, depth;
  INLINE Planes(int64_t batch, int64_t channels, int64_t inner, int64_t depth)
      : batch(batch), channels(channels), inner(inner), depth(depth) {}
  INLINE Index channel() const { return block_in_grid<BACKWARDS>().x; }
  INLINE bool exists() const { return true; }
  template <int MANY, class Read, class Use> INLINE void each(const Read& read, const Use& use) const {
    typedef typename Unsigned<Index>::type Size;
    const Index begin = Index(block_in_grid<BACKWARDS>().y) * depth, end = begin + depth < batch ? begin + depth : batch;
    const Size packs = Size(inner) / V, all = Size(end - begin) * packs;
    for (Size first = threadIdx.x; first < all; first += 256 * MANY) {
      Index at[MANY], row[MANY];
#pragma unroll
      for (int k = 0; k < MANY; ++k) {
        if (first + k * 256 >= all) break;
        const Size pack = BACKWARDS ? all - 1 - (first + k * 256) : first + k * 256, b = pack / packs;
        row[k] = begin + Index(b);
        at[k] = (row[k] * channels + channel()) * inner + Index(pack - b * packs) * V;
        read(k, at[k]);
      }
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (first + k * 256 < all) use(k, at[k], row[k]);
    }
  }
  template <class Join, class F> INLINE void deliver(const Join& join, typename Join::Acc* acc, const F& f) const {
    __shared__ typename Join::Acc room[32];
    const typename Join::Acc all = combine_block(join, *acc, room);
    if (threadIdx.x == 0) f(channel(), all);
  }
};

// How many packs of V elements a thread has on their way.
template <int V> constexpr int kMany = V >= 8 ? 2 : 4;

// --- what is summed: read(place) gives V elements, add(acc, these, row, channel) adds them to V sums or to one
template <class A> struct JoinOne : One {
  typedef A Acc;
  INLINE Acc init() const { return A(0); }
  INLINE Acc combine(Acc a, Acc b) const { return a + b; }
};
// Mean and squared differences.
template <class A, class T> struct SpreadOf {
  typedef Variance<T, A> Join;
  template <int V> struct Given { Pack<T, V> x; };
  const T* x;
  template <int V, class Index> INLINE Given<V> read(Index at) const { return {load<V>(x + at)}; }
  template <int V, bool APART, class Index> INLINE void add(Spread<A>* acc, const Given<V>& own, Index, Index) const {
#pragma unroll
    for (int j = 0; j < V; ++j) acc[APART ? j : 0] = Join().add(acc[APART ? j : 0], own.x.v[j], 0);
  }
};
template <class A, class T> struct SumOfChannel {
  typedef JoinOne<A> Join;
  template <int V> struct Given { Pack<T, V> x; };
  const T* x;
  template <int V, class Index> INLINE Given<V> read(Index at) const { return {load<V>(x + at)}; }
  template <int V, bool APART, class Index> INLINE void add(A* acc, const Given<V>& own, Index, Index) const {
#pragma unroll
    for (int j = 0; j < V; ++j) acc[APART ? j : 0] = acc[APART ? j : 0] + cast<A>(own.x.v[j]);
  }
};
// g and g xhat. OF: what mean and 1 / deviation belong to: 'c' the channel, 'r' the row, 'g' the row's group of
// `of_group` channels.
template <class A, class T, class G, char OF> struct SlopesOf {
  typedef JoinTwo<A> Join;
  template <int V> struct Given {
    Pack<G, V> grad;
    Pack<T, V> x;
  };
  const G* grad;
  const T* x;
  const A *means, *scales;
  int64_t groups, of_group;
  template <int V, class Index> INLINE Given<V> read(Index at) const { return {load<V>(grad + at), load<V>(x + at)}; }
  template <int V, bool APART, class Index>
  INLINE void add(Two<A>* acc, const Given<V>& own, Index row, Index channel) const {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Index c = channel + (APART ? j : 0);
      const Index of = OF == 'c' ? c : OF == 'r' ? row : row * Index(groups) + c / Index(of_group);
      Two<A>& to = acc[APART ? j : 0];
      const A v = cast<A>(own.grad.v[j]);
      to.first += v;
      to.second += v * (cast<A>(own.x.v[j]) - means[of]) * scales[of];
    }
  }
};
template <int V, class Walk, class Term, class F>
INLINE void sum_channels(const Walk& walk, const Term& term, const F& deliver) {
  typedef Lanes<typename Term::Join> Join;
  const Join join{};
  typename Join::Acc acc[Walk::own];
#pragma unroll
  for (int j = 0; j < Walk::own; ++j) acc[j] = join.init();
  typename Term::template Given<V> given[kMany<V>];
  const auto channel = walk.channel();
  walk.template each<kMany<V>>(
      [&](int k, auto at) { given[k] = term.template read<V>(at); },
      [&](int k, auto, auto row) { term.template add<V, Walk::apart>(acc, given[k], row, channel); });
#pragma unroll
  for (int j = 0; j < Walk::own; ++j) acc[j] = join.settled(acc[j]);
  walk.deliver(join, acc, deliver);
}
// What several blocks have summed: partial[chunk, channel]. A warp for each channel, 8 of them in a block.
template <class Join, class Index, class F>
INLINE void join_channels(const typename Join::Acc* partial, Index channels, Index chunks, const F& f) {
  typedef typename Join::Acc Acc;
  constexpr int many = 4;  // reads on their way
  const Lanes<Join> join{};
  const Index c = Index(blockIdx.x) * 8 + threadIdx.x / 32;
  if (c >= channels) return;
  Acc acc = join.init();
  for (Index first = threadIdx.x % 32; first < chunks; first += 32 * many) {
    Acc next[many];
#pragma unroll
    for (int k = 0; k < many; ++k)
      next[k] = first + k * 32 < chunks ? partial[(first + k * 32) * channels + c] : join.init();
#pragma unroll
    for (int k = 0; k < many; ++k) acc = join.combine(acc, next[k]);
  }
  acc = combine_warp(join, acc);
  if (threadIdx.x % 32 == 0) f(c, acc);
}

// --- batch norm: what each channel's elements are computed with
template <class A> struct Affine {  // (x - mean) factor + bias
  A mean, factor, bias;
};
template <int V, class A, class T, class Walk>
INLINE void normalize_channels(const Walk& walk, const T* x, T* out, const A* mean, const A* factor, const A* bias) {
  Affine<A> by[Walk::own];
#pragma unroll
  for (int j = 0; j < Walk::own; ++j) {
    const auto c = walk.channel() + j;
    if (walk.exists()) by[j] = {mean[c], factor[c], bias[c]};
  }
  Pack<T, V> own[kMany<V>];
  walk.template each<kMany<V>>([&](int k, auto at) { own[k] = load<V>(x + at); }, [&](int k, auto at, auto) {
    Pack<T, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Affine<A>& f = by[Walk::apart ? j : 0];
      to.v[j] = cast<T>((cast<A>(own[k].v[j]) - f.mean) * f.factor + f.bias);
    }
    store<V>(out + at, to);
  });
}
template <class A> struct Slope {  // factor (g - constant - (x - mean) linear)
  A mean, factor, constant, linear;
};
template <int V, class A, class T, class Walk>
INLINE void normalize_backward(const Walk& walk, const T* grad, const T* x, T* out, const A* mean, const A* factor,
                               const A* constant, const A* linear) {
  Slope<A> by[Walk::own];
#pragma unroll
  for (int j = 0; j < Walk::own; ++j) {
    const auto c = walk.channel() + j;
    if (walk.exists()) by[j] = {mean[c], factor[c], constant[c], linear[c]};
  }
  Pack<T, V> g[kMany<V>], own[kMany<V>];
  walk.template each<kMany<V>>([&](int k, auto at) { g[k] = load<V>(grad + at), own[k] = load<V>(x + at); },
                           [&](int k, auto at, auto) {
    Pack<T, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Slope<A>& s = by[Walk::apart ? j : 0];
      to.v[j] = cast<T>(s.factor * (cast<A>(g[k].v[j]) - s.constant - (cast<A>(own[k].v[j]) - s.mean) * s.linear));
    }
    store<V>(out + at, to);
  });
}
