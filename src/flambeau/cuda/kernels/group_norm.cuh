// Group norm of large images. Each plane, or part of one, is read once for its moments and, on the way back, for sums
// of the gradient; what belongs to a group is joined from these; another pass computes the elements. Elements are
// [images, channels, inner], or with the channels last [images, inner, channels]. A: the type that is computed in.

// How a block goes through parts of planes, `width` elements of each: part blockIdx.y. THREADS of a plane: 32 or 256.
// Where elements are read for a second time blocks are BACKWARDS: what was read last may still be in the cache.
template <int V, int THREADS, bool BACKWARDS, class Index> struct InPlanes {
  static constexpr int own = 1;
  Index channels, inner, plane, begin, end;
  bool exists;
  INLINE InPlanes(Index images, Index channels, Index inner, Index width) : channels(channels), inner(inner) {
    const Index block = block_in_grid<BACKWARDS>().x;
    plane = block * (256 / THREADS) + threadIdx.x / THREADS;
    exists = plane < images * channels;
    begin = part() * width;
    end = begin + width < inner ? begin + width : inner;
  }
  INLINE Index part() const { return block_in_grid<BACKWARDS>().y; }
  INLINE bool leads() const { return exists && threadIdx.x % THREADS == 0; }
  INLINE Index image() const { return plane / channels; }
  INLINE Index channel() const { return plane % channels; }  // the first of `own`
  INLINE Index start() const { return plane * inner + begin; }
  // For all packs of this thread, MANY at a time: read(k, place in memory) for each, then use(k, place).
  template <int MANY, class Read, class Use> INLINE void each(const Read& read, const Use& use) const {
    constexpr Index step = THREADS * V;
    if (!exists) return;
    const Index from = plane * inner;
    for (Index first = begin + Index(threadIdx.x % THREADS) * V; first < end; first += step * MANY) {
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (first + k * step < end) read(k, from + first + k * step);
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (first + k * step < end) use(k, from + first + k * step);
    }
  }
  // The sum of what all threads of a plane have, in each of them.
  template <class A> INLINE void join(A (&v)[1]) const {
    if constexpr (THREADS == 32) v[0] = combine_warp(SumOf<A>(), v[0]);
    else v[0] = sum_block(v[0]);
  }
};
// The same with channels last: each thread has V channels, LANES threads lie beside each other.
template <int V, int LANES, bool BACKWARDS, class Index> struct InImages {
  static constexpr int own = V, parts = 256 / LANES;
  Index channels, inner, of, at, begin, end;
  bool exists;
  INLINE InImages(Index, Index channels, Index inner, Index width) : channels(channels), inner(inner) {
    const Index across = (channels + LANES * V - 1) / (LANES * V);
    const Index block = block_in_grid<BACKWARDS>().x;
    of = block / across;
    at = ((block - of * across) * LANES + threadIdx.x % LANES) * V;
    exists = at < channels;
    begin = part() * width;
    end = begin + width < inner ? begin + width : inner;
  }
  INLINE Index part() const { return block_in_grid<BACKWARDS>().y; }
  INLINE bool leads() const { return exists && threadIdx.x < LANES; }
  INLINE Index image() const { return of; }
  INLINE Index channel() const { return at; }
  INLINE Index start() const { return (of * inner + begin) * channels + at; }
  template <int MANY, class Read, class Use> INLINE void each(const Read& read, const Use& use) const {
    if (!exists) return;
    const Index from = of * inner * channels + at;
    for (Index first = begin + threadIdx.x / LANES; first < end; first += parts * MANY) {
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (const Index r = first + k * parts; r < end) read(k, from + r * channels);
#pragma unroll
      for (int k = 0; k < MANY; ++k)
        if (const Index r = first + k * parts; r < end) use(k, from + r * channels);
    }
  }
  template <class A> INLINE void join(A (&v)[V]) const {
    __shared__ A room[8][V * LANES];
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int j = 0; j < V; ++j)
#pragma unroll
      for (int k = LANES; k < 32; k *= 2) v[j] += shuffle_xor(v[j], k);
    __syncthreads();  // the sums before may still be read
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (threadIdx.x % 32 < LANES) room[threadIdx.x / 32][j * LANES + lane] = v[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      v[j] = room[0][j * LANES + lane];
#pragma unroll
      for (int k = 1; k < 8; ++k) v[j] += room[k][j * LANES + lane];
    }
  }
};

// What is known of a part of a plane: its mean and the squares of differences from it; of the gradient, the sum and
// that of its products with these differences.
template <class A, bool BACK> struct alignas(2 * sizeof(A)) PlaneSums {
  A mean, squares;
};
template <class A> struct alignas(16) PlaneSums<A, true> {
  A mean, squares, grad, products;
};
// A thread sums differences from its own first number; means are joined as differences from one number of the plane.
template <int V, bool BACK, class A, class Walk, class T, class G, class Index>
INLINE void sum_planes_of(const Walk& walk, const T* x, const G* grad, PlaneSums<A, BACK>* partial, Index planes) {
  constexpr int own = Walk::own, many = V >= 8 ? 2 : 4;
  A origin[own], sum[own], squares[own], slopes[own], products[own];
#pragma unroll
  for (int j = 0; j < own; ++j) origin[j] = sum[j] = squares[j] = slopes[j] = products[j] = A(0);
  Index count = 0;
  Pack<T, V> given[many];
  Pack<G, V> g[many];
  walk.template each<many>(
      [&](int k, Index at) {
        given[k] = load<V>(x + at);
        if constexpr (BACK) g[k] = load<V>(grad + at);
      },
      [&](int k, Index) {
        if (count == 0) {
#pragma unroll
          for (int j = 0; j < own; ++j) origin[j] = cast<A>(given[k].v[j]);
        }
        count += V / own;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const int to = own == 1 ? 0 : j;
          const A d = cast<A>(given[k].v[j]) - origin[to];
          sum[to] += d;
          squares[to] += d * d;
          if constexpr (BACK) {
            const A v = cast<A>(g[k].v[j]);
            slopes[to] += v;
            products[to] += v * d;
          }
        }
      });
  A mean[own], near[own];
  const A n = A(walk.end - walk.begin), some = A(count), share = count ? A(1) / some : A(0);
#pragma unroll
  for (int j = 0; j < own; ++j) {
    near[j] = walk.exists ? cast<A>(x[walk.start() + j]) : A(0);
    mean[j] = count ? some * (origin[j] - near[j]) + sum[j] : A(0);
  }
  walk.join(mean);
#pragma unroll
  for (int j = 0; j < own; ++j) {
    mean[j] = near[j] + mean[j] / n;
    const A apart = origin[j] - mean[j], mine = sum[j] * share, away = apart + mine;
    squares[j] += count ? some * away * away - sum[j] * mine : A(0);
    products[j] += count ? slopes[j] * apart : A(0);
  }
  walk.join(squares);
  if constexpr (BACK) {
    walk.join(slopes);
    walk.join(products);
  }
  if (!walk.leads()) return;
  const Index to = walk.part() * planes + walk.image() * walk.channels + walk.channel();
#pragma unroll
  for (int j = 0; j < own; ++j) {
    if constexpr (BACK) partial[to + j] = {mean[j], squares[j], slopes[j], products[j]};
    else partial[to + j] = {mean[j], squares[j]};
  }
}
// The parts of a group: chunk, then channel. THREADS: 32 or 256 for each group.
template <class Index> struct Parts {
  Index images, channels, groups, inner, chunks, width;
  INLINE Index of_group() const { return channels / groups; }
  INLINE Index many(Index chunk) const { return chunk + 1 < chunks ? width : inner - chunk * width; }
};
// Each group's mean and 1 / deviation from its parts. With xhat = (x - mean) scale and h = g w, on the way back also
// what every element loses: dx = scale (h - mean(h) - xhat mean(h xhat)) = scale h - constant - (x - mean) linear.
template <int THREADS, bool BACK, class A, class W, class Index>
INLINE void join_groups(const Parts<Index>& parts, const PlaneSums<A, BACK>* partial, const W* weight, A* means,
                        A* scales, A* constants, A* linears, double eps) {
  const Index row = Index(blockIdx.x) * (256 / THREADS) + threadIdx.x / THREADS, of = parts.of_group();
  const bool exists = row < parts.images * parts.groups;
  const Index planes = parts.images * parts.channels, first = exists ? row * of : 0, from = first % parts.channels;
  const auto join = [&](A v) {
    if constexpr (THREADS == 32) return combine_warp(SumOf<A>(), v);
    else return sum_block(v);
  };
  const auto each = [&](const auto& f) {
    if (!exists) return;
    for (Index e = threadIdx.x % THREADS; e < of * parts.chunks; e += THREADS) {
      const Index chunk = e / of, c = e - chunk * of;
      f(partial[chunk * planes + first + c], A(parts.many(chunk)), from + c);
    }
  };
  const A near = partial[first].mean, n = A(of) * A(parts.inner);
  A mean = A(0), squares = A(0), h = A(0), products = A(0);
  each([&](const PlaneSums<A, BACK>& p, A count, Index) { mean += count * (p.mean - near); });
  mean = near + join(mean) / n;
  each([&](const PlaneSums<A, BACK>& p, A count, Index c) {
    const A d = p.mean - mean;
    squares += p.squares + count * d * d;
    if constexpr (BACK) {
      const A w = weight ? cast<A>(weight[c]) : A(1);
      h += w * p.grad;
      products += w * (p.products + p.grad * d);
    }
  });
  const A scale = rsqrt(join(squares) / n + A(eps));
  if constexpr (BACK) h = join(h), products = join(products);
  if (!exists || threadIdx.x % THREADS) return;
  means[row] = mean;
  scales[row] = scale;
  if constexpr (BACK) constants[row] = scale * (h / n), linears[row] = scale * scale * (scale * (products / n));
}
// Gradients of weight and bias: sums over images and parts of what belongs to a channel. Walk: [rows, channels].
template <class A, class Walk, class O, class Index>
INLINE void join_weights(const Walk& walk, const Parts<Index>& parts, const PlaneSums<A, true>* partial, const A* means,
                         const A* scales, O* to_weight, O* to_bias) {
  A slopes[1] = {A(0)}, products[1] = {A(0)};
  const Index c = walk.channel(), group = c / parts.of_group();
  PlaneSums<A, true> own[4];
  walk.template each<4>([&](int k, Index at) { own[k] = partial[at]; }, [&](int k, Index at) {
    const Index row = at / parts.channels % parts.images * parts.groups + group;
    slopes[0] += own[k].grad;
    products[0] += (own[k].products + own[k].grad * (own[k].mean - means[row])) * scales[row];
  });
  walk.join(slopes);
  walk.join(products);
  if (!walk.leads()) return;
  to_weight[c] = cast<O>(products[0]);
  to_bias[c] = cast<O>(slopes[0]);
}
// What belongs to each channel of a thread: each(its number among these, the channel, the row of its group).
template <class Walk, class Index, class F> INLINE void of_channels(const Walk& walk, Index groups, const F& each) {
#pragma unroll
  for (int j = 0; j < Walk::own; ++j) {
    if (!walk.exists) break;
    const Index c = walk.channel() + j;
    each(j, c, walk.image() * groups + c / (walk.channels / groups));
  }
}
template <class A, class W, class Index> INLINE A weighted(A scale, const W* weight, Index c) {
  return scale * (weight ? cast<A>(weight[c]) : A(1));
}
template <int V, class A, class Walk, class T, class W, class Index>
INLINE void normalize_groups(const Walk& walk, const T* x, const W* weight, const W* bias, T* out, const A* means,
                             const A* scales, Index groups) {
  constexpr int own = Walk::own, many = V >= 8 ? 2 : 4;
  A mean[own], factor[own], shift[own];
  of_channels(walk, groups, [&](int j, Index c, Index row) {
    mean[j] = means[row], factor[j] = weighted(scales[row], weight, c);
    shift[j] = bias ? cast<A>(bias[c]) : A(0);
  });
  Pack<T, V> given[many];
  walk.template each<many>([&](int k, Index at) { given[k] = load<V>(x + at); }, [&](int k, Index at) {
    Pack<T, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int by = own == 1 ? 0 : j;
      to.v[j] = cast<T>((cast<A>(given[k].v[j]) - mean[by]) * factor[by] + shift[by]);
    }
    store<V>(out + at, to);
  });
}
template <int V, class A, class Walk, class G, class T, class W, class Index>
INLINE void normalize_groups_backward(const Walk& walk, const G* grad, const T* x, const W* weight, T* out,
                                      const A* means, const A* scales, const A* constants, const A* linears,
                                      Index groups) {
  constexpr int own = Walk::own, many = V >= 8 ? 2 : 4;
  A mean[own], factor[own], constant[own], linear[own];
  of_channels(walk, groups, [&](int j, Index c, Index row) {
    mean[j] = means[row], factor[j] = weighted(scales[row], weight, c);
    constant[j] = constants[row], linear[j] = linears[row];
  });
  Pack<T, V> given[many];
  Pack<G, V> g[many];
  walk.template each<many>([&](int k, Index at) { given[k] = load<V>(x + at), g[k] = load<V>(grad + at); },
                           [&](int k, Index at) {
    Pack<T, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int by = own == 1 ? 0 : j;
      to.v[j] = cast<T>(cast<A>(g[k].v[j]) * factor[by] - constant[by] -
                        (cast<A>(given[k].v[j]) - mean[by]) * linear[by]);
    }
    store<V>(out + at, to);
  });
}
