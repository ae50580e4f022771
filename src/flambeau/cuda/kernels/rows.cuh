// Softmax, norms and losses: one block per row of n elements, or, where rows do not lie side by side in memory but
// columns do (`inner` of them), one thread per column. A: the type that is computed in.

// Where a row's elements are, and which of them this thread visits.
template <class Index, bool COLUMNS> struct Row {
  Index at, step, first, stride, n;
  bool exists;
  INLINE Row(Index rows, Index n, Index inner) : n(n) {
    if constexpr (COLUMNS) {
      const Index row = Index(blockIdx.x) * blockDim.x + threadIdx.x, outer = row / inner;
      exists = row < rows;
      at = outer * n * inner + (row - outer * inner);
      step = inner;
      first = 0;
      stride = 1;
    } else {
      exists = true;
      at = Index(blockIdx.x) * n;
      step = 1;
      first = threadIdx.x;
      stride = blockDim.x;
    }
  }
  template <class Op> INLINE typename Op::Acc join(const Op& op, typename Op::Acc v, typename Op::Acc* room) const {
    if constexpr (COLUMNS) return v;
    else return combine_block(op, v, room);
  }
};

// A row of n elements read V at once by all threads of a block. Where K is not 0, no thread has more than K such packs,
// and they stay in registers: f(k, i) is called for pack k, which begins at element i.
template <int V, int K, class Index, class F> INLINE void each_pack(Index n, const F& f) {
  if constexpr (K > 0) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Index i = (Index(k) * blockDim.x + threadIdx.x) * V;
      if (i < n) f(k, i);
    }
  } else {
    for (Index i = Index(threadIdx.x) * V; i < n; i += Index(blockDim.x) * V) f(0, i);
  }
}
template <class T, int V, int K> struct Kept {
  Pack<T, V> pack[K > 0 ? K : 1];
  // Pack k, which is read where it was not kept.
  template <class Index> INLINE Pack<T, V> get(const T* row, int k, Index i) const {
    if constexpr (K > 0) return pack[k];
    else return load<V>(row + i);
  }
};
// A row that registers hold: its largest element, then every exponential once.
template <class A, bool LOG, int V, int K, class T, class O, class Index>
INLINE void softmax_kept(const T* x, O* out, Index n) {
  __shared__ A room[32];
  Pack<A, V> kept[K];
  A top = -infinity<A>(), sum = A(0);
  each_pack<V, K>(n, [&](int k, Index i) {
    const Pack<T, V> own = load<V>(x + i);
#pragma unroll
    for (int j = 0; j < V; ++j) top = larger(top, kept[k].v[j] = cast<A>(own.v[j]));
  });
  top = combine_block(LargestOf<A>(), top, room);
  each_pack<V, K>(n, [&](int k, Index) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const A d = kept[k].v[j] - top, e = exp(d);
      kept[k].v[j] = LOG ? d : e;
      sum += e;
    }
  });
  sum = combine_block(SumOf<A>(), sum, room);
  const A scale = LOG ? log(sum) : A(1) / sum;
  each_pack<V, K>(n, [&](int k, Index i) {
    Pack<O, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) to.v[j] = cast<O>(LOG ? kept[k].v[j] - scale : kept[k].v[j] * scale);
    store<V>(out + i, to);
  });
}
// A longer one is read twice.
template <class A, bool LOG, int V, class T, class O, class Index>
INLINE void softmax_read(const T* x, O* out, Index n) {
  typedef Lanes<LogSumExp<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  const Op op;
  typename Op::Acc acc = op.init();
  each_pack<V, 0>(n, [&](int, Index i) { acc = op.add_pack(acc, load<V>(x + i)); });
  acc = combine_block(op, acc, room);
  const A lost = acc.top == -infinity<A>() ? not_a_number<A>() : A(0);  // nothing to share
  const A scale = LOG ? log(acc.sum) : A(1) / acc.sum;
  each_pack<V, 0>(n, [&](int, Index i) {
    const Pack<T, V> own = load<V>(x + i);
    Pack<O, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const A d = cast<A>(own.v[j]) - acc.top + lost;
      to.v[j] = cast<O>(LOG ? d - scale : exp(d) * scale);
    }
    store<V>(out + i, to);
  });
}
template <class A, bool LOG, int V, int K, class T, class O, class Index>
INLINE void softmax_row(const T* x, O* out, Index n) {
  x += Index(blockIdx.x) * n, out += Index(blockIdx.x) * n;
  if constexpr (K > 0) softmax_kept<A, LOG, V, K>(x, out, n);
  else softmax_read<A, LOG, V>(x, out, n);
}
template <class A, bool LOG, class T, class O, class Index>
INLINE void softmax_column(const T* x, O* out, Index rows, Index n, Index inner) {
  typedef LogSumExp<T, A> Op;
  const Row<Index, true> row(rows, n, inner);
  if (!row.exists) return;
  const Op op;
  typename Op::Acc acc = op.init();
  for (Index i = 0; i < n; ++i) acc = op.add(acc, x[row.at + i * row.step], i);
  const A lost = acc.top == -infinity<A>() ? not_a_number<A>() : A(0);
  const A scale = LOG ? log(acc.sum) : A(1) / acc.sum;
  for (Index i = 0; i < n; ++i) {
    const A d = cast<A>(x[row.at + i * row.step]) - acc.top + lost;
    out[row.at + i * row.step] = cast<O>(LOG ? d - scale : exp(d) * scale);
  }
}
template <bool LOG, class A> INLINE A softmax_slope(A g, A y, A sum) {
  return LOG ? g - exp(y) * sum : (g - sum) * y;
}
template <class A, bool LOG, int V, int K, class T, class O, class Index>
INLINE void softmax_backward_row(const T* grad, const T* y, O* out, Index n) {
  __shared__ A room[32];
  const Index at = Index(blockIdx.x) * n;
  grad += at, y += at, out += at;
  Kept<T, V, K> grads, values;
  A sum = A(0);
  each_pack<V, K>(n, [&](int k, Index i) {
    grads.pack[k] = load<V>(grad + i), values.pack[k] = load<V>(y + i);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const A g = cast<A>(grads.pack[k].v[j]);
      sum += LOG ? g : g * cast<A>(values.pack[k].v[j]);
    }
  });
  sum = combine_block(SumOf<A>(), sum, room);
  each_pack<V, K>(n, [&](int k, Index i) {
    const Pack<T, V> g = grads.get(grad, k, i), v = values.get(y, k, i);
    Pack<O, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) to.v[j] = cast<O>(softmax_slope<LOG>(cast<A>(g.v[j]), cast<A>(v.v[j]), sum));
    store<V>(out + i, to);
  });
}
template <class A, bool LOG, class T, class O, class Index>
INLINE void softmax_backward_column(const T* grad, const T* y, O* out, Index rows, Index n, Index inner) {
  const Row<Index, true> row(rows, n, inner);
  if (!row.exists) return;
  A sum = A(0);
  for (Index i = 0; i < n; ++i) {
    const Index k = row.at + i * row.step;
    sum += LOG ? cast<A>(grad[k]) : cast<A>(grad[k]) * cast<A>(y[k]);
  }
  for (Index i = 0; i < n; ++i) {
    const Index k = row.at + i * row.step;
    out[k] = cast<O>(softmax_slope<LOG>(cast<A>(grad[k]), cast<A>(y[k]), sum));
  }
}

// --- layer, rms and group norm: rows of n elements; weight and bias belong to element i / inner % weights. PLAIN: a row
// has all weights, one for each element; otherwise those of a pack are one. Without weights all are 1.
template <class W, int V, bool PLAIN> struct Weights {
  const W* data;
  INLINE Pack<W, V> of(int64_t i, int64_t from, int64_t inner, int64_t weights) const {
    Pack<W, V> all;
    if (PLAIN && data) {
      return load<V>(data + i);
    } else {
      const W one = data ? data[(from + i / inner) % weights] : cast<W>(1.f);
#pragma unroll
      for (int j = 0; j < V; ++j) all.v[j] = one;
      return all;
    }
  }
};
// A row's mean (0 where nothing is CENTRED) and 1 / deviation, by all threads of its block, which keep what they read.
template <class A> struct Moments {
  A mean, scale;
};
template <class A, bool CENTRED, int V, int K, class T, class Index>
INLINE Moments<A> row_moments(const T* row, Kept<T, V, K>& kept, Index n, double eps) {
  if constexpr (CENTRED && K == 0) {
    typedef Lanes<Variance<T, A>> Op;
    __shared__ typename Op::Acc room[32];
    const Op op{};
    typename Op::Acc acc = op.init();
    each_pack<V, K>(n, [&](int, Index i) {
      const Pack<T, V> own = load<V>(row + i);
#pragma unroll
      for (int j = 0; j < V; ++j) acc = op.add(acc, own.v[j], i);
    });
    acc = combine_block(op, op.settled(acc), room);
    return {acc.origin, rsqrt(acc.squares / A(n) + A(eps))};
  } else {
    __shared__ A room[32];
    A sum = A(0), squares = A(0);
    each_pack<V, K>(n, [&](int k, Index i) {
      kept.pack[k] = load<V>(row + i);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const A v = cast<A>(kept.pack[k].v[j]);
        if constexpr (CENTRED) sum += v;
        else squares += v * v;
      }
    });
    if constexpr (CENTRED) {
      sum = combine_block(SumOf<A>(), sum, room) / A(n);
      each_pack<V, K>(n, [&](int k, Index) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const A d = cast<A>(kept.pack[k].v[j]) - sum;
          squares += d * d;
        }
      });
    }
    return {sum, rsqrt(combine_block(SumOf<A>(), squares, room) / A(n) + A(eps))};
  }
}
template <class A, bool CENTRED, bool PLAIN, int V, int K, class T, class W, class O, class Index>
INLINE void norm_forward(const T* x, const W* weight, const W* bias, O* out, Index n, Index inner, Index groups,
                         Index weights, double eps) {
  const Index row = blockIdx.x, from = row % groups * (n / inner);
  x += row * n, out += row * n;
  Kept<T, V, K> kept;
  const Moments<A> own = row_moments<A, CENTRED>(x, kept, n, eps);
  const Weights<W, V, PLAIN> w{weight}, b{bias};
  each_pack<V, K>(n, [&](int k, Index i) {
    const Pack<T, V> given = kept.get(x, k, i);
    A value[V];
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = (cast<A>(given.v[j]) - own.mean) * own.scale;
    if (weight) {
      const Pack<W, V> by = w.of(i, from, inner, weights);
#pragma unroll
      for (int j = 0; j < V; ++j) value[j] = value[j] * cast<A>(by.v[j]);
    }
    if (bias) {
      const Pack<W, V> by = b.of(i, from, inner, weights);
#pragma unroll
      for (int j = 0; j < V; ++j) value[j] = value[j] + cast<A>(by.v[j]);
    }
    Pack<O, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) to.v[j] = cast<O>(value[j]);
    store<V>(out + i, to);
  });
}
// With d = x - mean, xhat = d s and h = g w: dx = s (h - mean(h) - xhat mean(h xhat)). What a row needs is joined twice:
// the sums of x and h, then, with the mean, those of d d and h d.
template <class A> struct NormSlopes {
  A mean, scale, constant, linear;  // mean(h), mean(h xhat) s
};
template <class A, bool CENTRED, int V, int K, class T, class Index, class H>
INLINE NormSlopes<A> norm_slopes(const T* x, Kept<T, V, K>& kept, Index n, double eps, const H& h_of) {
  const Lanes<JoinTwo<A>> join{};
  __shared__ Two<A> room[32];
  Two<A> sums = join.init();
  A h[V];
  NormSlopes<A> own{A(0), A(0), A(0), A(0)};
  if constexpr (K == 0) {
    const Moments<A> moments = row_moments<A, CENTRED>(x, kept, n, eps);
    own.mean = moments.mean, own.scale = moments.scale;
  } else if constexpr (CENTRED) {
    each_pack<V, K>(n, [&](int k, Index i) {
      h_of(k, i, h);
#pragma unroll
      for (int j = 0; j < V; ++j) sums.first += cast<A>(kept.pack[k].v[j]), sums.second += h[j];
    });
    sums = combine_block(join, sums, room);
    own.mean = sums.first / A(n), own.constant = sums.second / A(n);
    sums = join.init();
  }
  each_pack<V, K>(n, [&](int k, Index i) {
    const Pack<T, V> given = kept.get(x, k, i);
    h_of(k, i, h);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const A d = cast<A>(given.v[j]) - own.mean;
      sums.first += K == 0 ? h[j] : d * d, sums.second += h[j] * d;
    }
  });
  sums = combine_block(join, sums, room);
  if constexpr (K == 0) own.constant = CENTRED ? sums.first / A(n) : A(0);
  else own.scale = rsqrt(sums.first / A(n) + A(eps));
  own.linear = sums.second / A(n) * own.scale * own.scale;
  return own;
}
// What is kept for the weights' gradients. SUMMED: a block adds up g and g xhat of all of its rows, for each of the
// elements that its threads hold; otherwise it is mean and s of each row, for a kernel that does.
template <class A> struct NormSums {
  A *means, *scales;
  Two<A>* partial;
};
template <class A, bool CENTRED, bool PLAIN, bool SUMMED, int V, int K, class G, class T, class W, class Index>
INLINE void norm_backward(const G* grad, const T* x, const W* weight, T* out, const NormSums<A>& to, Index rows,
                          Index n, Index inner, Index groups, Index weights, double eps) {
  const Weights<W, V, PLAIN> w{weight};
  Two<A> part[SUMMED ? K : 1][V] = {};
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Index at = row * n, from = row % groups * (n / inner);
    Kept<T, V, K> kept;
    Kept<G, V, K> grads;
    if constexpr (K > 0) each_pack<V, K>(n, [&](int k, Index i) {
      kept.pack[k] = load<V>(x + at + i), grads.pack[k] = load<V>(grad + at + i);
    });
    const auto h_of = [&](int k, Index i, A* h) {
      const Pack<G, V> g = grads.get(grad + at, k, i);
      const Pack<W, V> by = w.of(i, from, inner, weights);
#pragma unroll
      for (int j = 0; j < V; ++j) h[j] = cast<A>(g.v[j]) * cast<A>(by.v[j]);
    };
    const NormSlopes<A> own = norm_slopes<A, CENTRED>(x + at, kept, n, eps, h_of);
    each_pack<V, K>(n, [&](int k, Index i) {
      const Pack<T, V> given = kept.get(x + at, k, i);
      Pack<T, V> made;
      A h[V];
      h_of(k, i, h);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const A d = cast<A>(given.v[j]) - own.mean;
        made.v[j] = cast<T>(own.scale * (h[j] - own.constant - d * own.linear));
        if constexpr (SUMMED) {
          const A g = cast<A>(grads.pack[k].v[j]);
          part[k][j].first += g, part[k][j].second += g * d * own.scale;
        }
      }
      store<V>(out + at + i, made);
    });
    if (!SUMMED && threadIdx.x == 0) to.means[row] = own.mean, to.scales[row] = own.scale;
  }
  if constexpr (SUMMED) each_pack<V, K>(n, [&](int k, Index i) {
    for (int j = 0; j < V; ++j) to.partial[Index(blockIdx.x) * n + i + j] = part[k][j];
  });
}
// --- cross entropy: row r of [batch, classes, inner] with its label; a label that is no class gives NaN
template <class A, class W, class L> struct Labels {
  const L* label;
  const W* weight;
  int64_t ignored, classes;
  INLINE bool counts(int64_t r) const { return int64_t(label[r]) != ignored; }
  INLINE A share(int64_t c) const { return weight ? cast<A>(weight[c]) : A(1); }
  INLINE A weight_of(int64_t r) const {
    const int64_t c = int64_t(label[r]);
    return c >= 0 && c < classes ? share(c) : not_a_number<A>();
  }
};
// The largest element, the sum of exponentials below it, and with smoothing the sums of elements by their classes'
// weights and of these weights; of a row for all of its threads. V: how many elements are read at once.
template <class A> struct RowSums {
  Scaled<A> acc;
  A plain, shares;
};
template <int V, bool COLUMNS, class A, class T, class W, class L, class Index>
INLINE RowSums<A> row_sums(const T* x, const Labels<A, W, L>& labels, const Row<Index, COLUMNS>& row, double smoothing) {
  typedef Lanes<LogSumExp<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  __shared__ A sums[32];
  const Op op;
  RowSums<A> own{op.init(), A(0), A(0)};
  constexpr int many = COLUMNS ? 1 : 4;  // packs on their way at once
  const Index step = row.stride * V;
  for (Index first = row.first * V; first < row.n; first += step * many) {
    Pack<T, V> v[many];
#pragma unroll
    for (int m = 0; m < many; ++m)
      if (const Index i = first + m * step; i < row.n) v[m] = load<V>(x + row.at + i * row.step);
#pragma unroll
    for (int m = 0; m < many; ++m) {
      const Index i = first + m * step;
      if (i >= row.n) break;
      own.acc = op.add_pack(own.acc, v[m]);
      if (smoothing == 0) continue;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const A share = labels.share(i + j);
        own.plain += share * cast<A>(v[m].v[j]), own.shares += share;
      }
    }
  }
  own.acc = row.join(op, own.acc, room);
  if (smoothing != 0) {
    own.plain = row.join(SumOf<A>(), own.plain, sums);
    own.shares = row.join(SumOf<A>(), own.shares, sums);
  }
  return own;
}
template <class A, bool COLUMNS, int V, class T, class W, class L, class Index>
INLINE void cross_entropy(const T* x, const Labels<A, W, L>& labels, A* losses, Index rows, Index n, Index inner,
                          double smoothing) {
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  const RowSums<A> own = row_sums<V>(x, labels, row, smoothing);
  if (!COLUMNS && threadIdx.x != 0) return;
  const int64_t r = COLUMNS ? int64_t(blockIdx.x) * blockDim.x + threadIdx.x : int64_t(blockIdx.x);
  if (!labels.counts(r)) {
    losses[r] = A(0);
    return;
  }
  const A whole = own.acc.top + log(own.acc.sum), w = labels.weight_of(r);
  const int64_t c = w == w ? int64_t(labels.label[r]) : 0;
  A loss = A(1 - smoothing) * w * (whole - cast<A>(x[row.at + Index(c) * row.step]));
  if (smoothing != 0) loss += A(smoothing) / A(n) * (own.shares * whole - own.plain);
  losses[r] = loss;
}
// The sum of losses, over the sum of their labels' weights for a mean. One block.
template <class A, class O, class W, class L, class Index>
INLINE void deliver_losses(const A* losses, const Labels<A, W, L>& labels, O* out, A* total, Index rows, bool mean) {
  __shared__ A room[32];
  A sum = A(0), weight = A(0);
  for (Index r = threadIdx.x; r < rows; r += blockDim.x) {
    if (losses) sum += losses[r];
    if (mean && labels.counts(r)) weight += labels.weight_of(r);
  }
  sum = combine_block(SumOf<A>(), sum, room);
  weight = combine_block(SumOf<A>(), weight, room);
  if (threadIdx.x != 0) return;
  if (out) *out = cast<O>(mean ? sum / weight : sum);
  if (total) *total = mean ? weight : A(1);
}
template <class A, bool COLUMNS, int V, class G, class T, class W, class L, class Index>
INLINE void cross_entropy_backward(const G* grad, const T* x, const Labels<A, W, L>& labels, const A* total, T* out,
                                   Index rows, Index n, Index inner, double smoothing, bool each) {
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  const RowSums<A> own = row_sums<V>(x, labels, row, smoothing);
  const int64_t r = COLUMNS ? int64_t(blockIdx.x) * blockDim.x + threadIdx.x : int64_t(blockIdx.x);
  const bool counts = labels.counts(r);
  const A w = counts ? labels.weight_of(r) : A(0), hit = A(1 - smoothing) * w, miss = A(smoothing) / A(n);
  const A scale = counts ? cast<A>(grad[each ? r : 0]) / *total : A(0), mass = hit + miss * own.shares;
  const A share = A(1) / own.acc.sum;
  const int64_t label = counts ? int64_t(labels.label[r]) : -1;
  for (Index i = row.first * V; i < n; i += row.stride * V) {
    const Pack<T, V> v = load<V>(x + row.at + i * row.step);
    Pack<T, V> to;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const A p = exp(cast<A>(v.v[j]) - own.acc.top) * share;
      A q = smoothing != 0 ? miss * labels.share(i + j) : A(0);
      if (label == int64_t(i + j)) q += hit;
      to.v[j] = cast<T>(counts ? scale * (p * mass - q) : A(0));
    }
    store<V>(out + row.at + i * row.step, to);
  }
}
