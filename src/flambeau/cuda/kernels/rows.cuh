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

template <class A, bool LOG, bool COLUMNS, class T, class O, class Index>
INLINE void softmax(const T* x, O* out, Index rows, Index n, Index inner) {
  typedef Lanes<LogSumExp<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  const Op op;
  typename Op::Acc acc = op.init();
  for (Index i = row.first; i < n; i += row.stride) acc = op.add(acc, x[row.at + i * row.step], i);
  acc = row.join(op, acc, room);
  const A lost = acc.top == -infinity<A>() ? not_a_number<A>() : A(0);  // nothing to share
  const A scale = LOG ? log(acc.sum) : A(1) / acc.sum;
  for (Index i = row.first; i < n; i += row.stride) {
    const A d = cast<A>(x[row.at + i * row.step]) - acc.top + lost;
    out[row.at + i * row.step] = cast<O>(LOG ? d - scale : exp(d) * scale);
  }
}
template <class A, bool LOG, bool COLUMNS, class T, class O, class Index>
INLINE void softmax_backward(const T* grad, const T* y, O* out, Index rows, Index n, Index inner) {
  typedef SumOf<A> Op;
  __shared__ A room[32];
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  A sum = A(0);
  for (Index i = row.first; i < n; i += row.stride) {
    const Index k = row.at + i * row.step;
    sum += LOG ? cast<A>(grad[k]) : cast<A>(grad[k]) * cast<A>(y[k]);
  }
  sum = row.join(Op(), sum, room);
  for (Index i = row.first; i < n; i += row.stride) {
    const Index k = row.at + i * row.step;
    const A g = cast<A>(grad[k]), v = cast<A>(y[k]);
    out[k] = cast<O>(LOG ? g - exp(v) * sum : (g - sum) * v);
  }
}

// --- layer, rms and group norm: rows of n elements; weight and bias belong to element i / inner % weights

// A row's mean (0 where nothing is CENTRED) and 1 / deviation, by all threads of its block.
template <class A> struct Moments {
  A mean, scale;
};
template <class A, bool CENTRED, class T, class Index>
INLINE Moments<A> row_moments(const T* row, Index n, double eps) {
  if constexpr (CENTRED) {
    typedef Lanes<Variance<T, A>> Op;
    __shared__ typename Op::Acc room[32];
    const Op op{};
    typename Op::Acc acc = op.init();
    for (Index i = threadIdx.x; i < n; i += blockDim.x) acc = op.add(acc, row[i], i);
    acc = combine_block(op, acc, room);
    return {acc.mean, rsqrt(acc.squares / A(n) + A(eps))};
  } else {
    __shared__ A squares[32];
    A sum = A(0);
    for (Index i = threadIdx.x; i < n; i += blockDim.x) {
      const A v = cast<A>(row[i]);
      sum += v * v;
    }
    return {A(0), rsqrt(combine_block(SumOf<A>(), sum, squares) / A(n) + A(eps))};
  }
}
template <class A, bool CENTRED, class T, class W, class Index>
INLINE void norm_forward(const T* x, const W* weight, const W* bias, T* out, Index n, Index inner, Index groups,
                         Index weights, double eps) {
  const Index row = blockIdx.x, at = row * n, from = row % groups * (n / inner);
  const Moments<A> own = row_moments<A, CENTRED>(x + at, n, eps);
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const Index c = (from + i / inner) % weights;
    A v = (cast<A>(x[at + i]) - own.mean) * own.scale;
    if (weight) v = v * cast<A>(weight[c]);
    if (bias) v = v + cast<A>(bias[c]);
    out[at + i] = cast<T>(v);
  }
}
// With xhat = (x - mean) s and h = g w: dx = s (h - mean(h) - xhat mean(h xhat)). mean and s are kept for the second
// kernel, which sums over rows for the weights.
template <class A, bool CENTRED, class T, class W, class Index>
INLINE void norm_backward(const T* grad, const T* x, const W* weight, T* out, A* means, A* scales, Index n,
                          Index inner, Index groups, Index weights, double eps) {
  __shared__ A sums[32];
  const Index row = blockIdx.x, at = row * n, from = row % groups * (n / inner);
  const auto [mean, scale] = row_moments<A, CENTRED>(x + at, n, eps);
  A h_sum = A(0), hx_sum = A(0);
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const A w = weight ? cast<A>(weight[(from + i / inner) % weights]) : A(1), h = cast<A>(grad[at + i]) * w;
    h_sum += h;
    hx_sum += h * (cast<A>(x[at + i]) - mean) * scale;
  }
  h_sum = CENTRED ? combine_block(SumOf<A>(), h_sum, sums) / A(n) : A(0);
  hx_sum = combine_block(SumOf<A>(), hx_sum, sums) / A(n);
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const A w = weight ? cast<A>(weight[(from + i / inner) % weights]) : A(1), h = cast<A>(grad[at + i]) * w;
    out[at + i] = cast<T>(scale * (h - h_sum - (cast<A>(x[at + i]) - mean) * scale * hx_sum));
  }
  if (threadIdx.x == 0) {
    means[row] = mean;
    scales[row] = scale;
  }
}
// Sums of g and g xhat for weight c: over all rows of its group and the `inner` elements beside each other.
template <class A, class T, class W, class Index>
INLINE void norm_weights(const T* grad, const T* x, const A* means, const A* scales, W* grad_weight, W* grad_bias,
                         Index rows, Index n, Index inner, Index groups, Index weights) {
  __shared__ A room[32];
  const Index c = blockIdx.x, each = n / inner, group = groups > 1 ? c / each : 0, place = groups > 1 ? c % each : c;
  const Index many = rows / groups * inner;
  A sum = A(0), with = A(0);
  for (Index k = threadIdx.x; k < many; k += blockDim.x) {
    const Index row = k / inner * groups + group, at = row * n + place * inner + k % inner;
    const A g = cast<A>(grad[at]);
    sum += g;
    with += g * (cast<A>(x[at]) - means[row]) * scales[row];
  }
  sum = combine_block(SumOf<A>(), sum, room);
  with = combine_block(SumOf<A>(), with, room);
  if (threadIdx.x != 0) return;
  if (grad_weight) grad_weight[c] = cast<W>(with);
  if (grad_bias) grad_bias[c] = cast<W>(sum);
}

// --- batch norm: channel c of [batch, channels, inner]
template <class A, class T, class S, class Index>
INLINE void batch_statistics(const T* x, A* means, A* scales, A* save_mean, A* save_scale, S* running_mean,
                             S* running_var, Index batch, Index channels, Index inner, double eps, double momentum) {
  typedef Lanes<Variance<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  const Index c = blockIdx.x, n = batch * inner;
  Op op;
  op.correction = 0;
  typename Op::Acc acc = op.init();
  for (Index i = threadIdx.x; i < n; i += blockDim.x)
    acc = op.add(acc, x[(i / inner * channels + c) * inner + i % inner], i);
  acc = combine_block(op, acc, room);
  if (threadIdx.x != 0) return;
  const A var = acc.squares / A(n), scale = rsqrt(var + A(eps));
  means[c] = acc.mean;
  scales[c] = scale;
  if (save_mean) save_mean[c] = acc.mean;
  if (save_scale) save_scale[c] = scale;
  if (running_mean) running_mean[c] = cast<S>(cast<A>(running_mean[c]) * A(1 - momentum) + acc.mean * A(momentum));
  if (running_var)
    running_var[c] = cast<S>(cast<A>(running_var[c]) * A(1 - momentum) + acc.squares / A(n - 1) * A(momentum));
}
// Sums of g and g xhat per channel.
template <class A, class T, class Index>
INLINE void batch_sums(const T* grad, const T* x, const A* means, const A* scales, A* sums, A* withs, Index batch,
                       Index channels, Index inner) {
  __shared__ A room[32];
  const Index c = blockIdx.x, n = batch * inner;
  A sum = A(0), with = A(0);
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const Index at = (i / inner * channels + c) * inner + i % inner;
    const A g = cast<A>(grad[at]);
    sum += g;
    with += g * (cast<A>(x[at]) - means[c]) * scales[c];
  }
  sum = combine_block(SumOf<A>(), sum, room);
  with = combine_block(SumOf<A>(), with, room);
  if (threadIdx.x == 0) sums[c] = sum, withs[c] = with;
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
template <class A, bool COLUMNS, class T, class W, class L, class Index>
INLINE void cross_entropy(const T* x, const Labels<A, W, L>& labels, A* losses, Index rows, Index n, Index inner,
                          double smoothing) {
  typedef Lanes<LogSumExp<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  __shared__ A sums[32];
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  const Op op;
  typename Op::Acc acc = op.init();
  A plain = A(0), shares = A(0);
  for (Index i = row.first; i < n; i += row.stride) {
    const T v = x[row.at + i * row.step];
    acc = op.add(acc, v, i);
    if (smoothing != 0) plain += labels.share(i) * cast<A>(v), shares += labels.share(i);
  }
  acc = row.join(op, acc, room);
  if (smoothing != 0) {
    plain = row.join(SumOf<A>(), plain, sums);
    shares = row.join(SumOf<A>(), shares, sums);
  }
  if (!COLUMNS && threadIdx.x != 0) return;
  const int64_t r = COLUMNS ? int64_t(blockIdx.x) * blockDim.x + threadIdx.x : int64_t(blockIdx.x);
  if (!labels.counts(r)) {
    losses[r] = A(0);
    return;
  }
  const A whole = acc.top + log(acc.sum), w = labels.weight_of(r);
  const int64_t c = w == w ? int64_t(labels.label[r]) : 0;
  A loss = A(1 - smoothing) * w * (whole - cast<A>(x[row.at + Index(c) * row.step]));
  if (smoothing != 0) loss += A(smoothing) / A(n) * (shares * whole - plain);
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
template <class A, bool COLUMNS, class T, class W, class L, class Index>
INLINE void cross_entropy_backward(const T* grad, const T* x, const Labels<A, W, L>& labels, const A* total, T* out,
                                   Index rows, Index n, Index inner, double smoothing, bool each) {
  typedef Lanes<LogSumExp<T, A>> Op;
  __shared__ typename Op::Acc room[32];
  __shared__ A sums[32];
  const Row<Index, COLUMNS> row(rows, n, inner);
  if (!row.exists) return;
  const Op op;
  typename Op::Acc acc = op.init();
  A shares = A(0);
  for (Index i = row.first; i < n; i += row.stride) {
    acc = op.add(acc, x[row.at + i * row.step], i);
    if (smoothing != 0) shares += labels.share(i);
  }
  acc = row.join(op, acc, room);
  if (smoothing != 0) shares = row.join(SumOf<A>(), shares, sums);
  const int64_t r = COLUMNS ? int64_t(blockIdx.x) * blockDim.x + threadIdx.x : int64_t(blockIdx.x);
  const bool counts = labels.counts(r);
  const A w = counts ? labels.weight_of(r) : A(0), hit = A(1 - smoothing) * w, miss = A(smoothing) / A(n);
  const A scale = counts ? cast<A>(grad[each ? r : 0]) / *total : A(0), mass = hit + miss * shares;
  for (Index i = row.first; i < n; i += row.stride) {
    const Index k = row.at + i * row.step;
    const A p = exp(cast<A>(x[k]) - acc.top) / acc.sum;
    A q = smoothing != 0 ? miss * labels.share(i) : A(0);
    if (counts && int64_t(labels.label[r]) == int64_t(i)) q += hit;
    out[k] = cast<T>(counts ? scale * (p * mass - q) : A(0));
  }
}
