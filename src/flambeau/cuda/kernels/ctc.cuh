// Connectionist temporal classification (Graves et al. 2006): a block for each sequence, its threads share the states.
// States are blank, l1, blank, l2, … blank; state s may follow s, s - 1, and s - 2 where that is another label.
struct Sequence {
  int64_t start, steps, labels;
};
template <int N> struct Sequences {
  Sequence of[N];
};
struct Alignment {
  int64_t batch, classes, blank, steps, width;  // width: of the widest row of alpha
};
template <class A> INLINE A log_sum(A a, A b, A c) {
  const A top = a > b ? (a > c ? a : c) : (b > c ? b : c);
  if (top == -infinity<A>()) return a + b + c;
  return log(exp(a - top) + exp(b - top) + exp(c - top)) + top;
}
struct States {
  const int64_t* labels;
  int64_t width, blank;
  INLINE int64_t operator[](int64_t s) const { return s & 1 ? labels[s / 2] : blank; }
  INLINE bool jumps(int64_t s) const { return (s & 1) && s > 1 && labels[s / 2] != labels[s / 2 - 1]; }
};
// A label that is no class gives NaN.
template <class A> INLINE A emission(const A* emitted, int64_t c, const Alignment& a) {
  return c >= 0 && c < a.classes ? emitted[c] : not_a_number<A>();
}

template <class A>
INLINE void ctc_forward(const A* x, const int64_t* labels, A* loss, A* alpha, const Sequence& q, int64_t n,
                        const Alignment& a) {
  const A never = -infinity<A>();
  const States l{labels + q.start, 2 * q.labels + 1, a.blank};
  x += n * a.classes;
  alpha += n * a.steps * a.width;
  for (int64_t t = 0; t < a.steps; ++t) {
    const A *before = alpha + (t - 1) * a.width, *emitted = x + t * a.batch * a.classes;
    for (int64_t s = threadIdx.x; s < a.width; s += blockDim.x) {
      A v = never;
      if (t < q.steps && s < l.width) {
        if (t == 0) v = s < 2 ? emission(emitted, l[s], a) : never;
        else v = emission(emitted, l[s], a) +
                 log_sum(before[s], s ? before[s - 1] : never, l.jumps(s) ? before[s - 2] : never);
      }
      alpha[t * a.width + s] = v;
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  if (q.steps == 0) {
    loss[n] = q.labels == 0 ? A(0) : infinity<A>();
    return;
  }
  const A* last = alpha + (q.steps - 1) * a.width;
  loss[n] = -log_sum(last[l.width - 1], l.width > 1 ? last[l.width - 2] : never, never);
}

// With respect to logits: the softmax less the share of alignments that emit the class there. `beta`: two rows for each
// sequence, `next`: for each label the next place of the same one (or -1), with bit 62 where an earlier place has it.
template <class A>
INLINE void ctc_backward(const A* grad, const A* x, const int64_t* labels, const A* losses, const A* alpha, A* to,
                         A* beta, int64_t* next, bool zero_infinity, const Sequence& q, int64_t n,
                         const Alignment& a) {
  const A never = -infinity<A>(), loss = losses[n], g = grad[n];
  const int64_t later = int64_t(1) << 62, row = a.batch * a.classes;
  const States l{labels + q.start, 2 * q.labels + 1, a.blank};
  x += n * a.classes;
  to += n * a.classes;
  alpha += n * a.steps * a.width;
  beta += n * 2 * a.width;
  next += n * a.width;
  const bool silent = zero_infinity && loss == infinity<A>();
  for (int64_t k = threadIdx.x; k < q.labels; k += blockDim.x) {
    int64_t found = -1, seen = 0;
    for (int64_t j = q.labels - 1; j > k; --j)
      if (l.labels[j] == l.labels[k]) found = j;
    for (int64_t j = 0; j < k; ++j)
      if (l.labels[j] == l.labels[k]) seen = later;
    next[k] = (found + 1) | seen;
  }
  for (int64_t t = a.steps - 1; t >= 0; --t) {
    const A* emitted = x + t * row;
    const bool inside = t < q.steps && !silent;
    for (int64_t k = threadIdx.x; k < a.classes; k += blockDim.x)
      to[t * row + k] = !inside ? A(0) : loss == infinity<A>() ? not_a_number<A>() : exp(emitted[k]) * g;
    if (!inside) continue;
    const A* after = beta + ((t + 1) & 1) * a.width;
    A* now = beta + (t & 1) * a.width;
    __syncthreads();
    for (int64_t s = threadIdx.x; s < l.width; s += blockDim.x) {
      const A one = s + 1 < l.width ? after[s + 1] : never;
      const A two = s + 2 < l.width && l.jumps(s + 2) ? after[s + 2] : never;
      now[s] = t == q.steps - 1 ? (s >= l.width - 2 ? emission(emitted, l[s], a) : never)
                                : emission(emitted, l[s], a) + log_sum(t == q.steps - 1 ? never : after[s], one, two);
    }
    __syncthreads();
    const A* own = alpha + t * a.width;
    A quiet = A(0);
    for (int64_t s = threadIdx.x; s < l.width; s += blockDim.x) {
      const int64_t c = l[s];
      if (c == a.blank) quiet += exp(own[s] + now[s] + loss - emission(emitted, c, a));
      if (!(s & 1) || c == a.blank || (next[s / 2] & later)) continue;
      A sum = A(0);
      for (int64_t j = s / 2; j >= 0; j = (next[j] & ~later) - 1)
        sum += exp(own[2 * j + 1] + now[2 * j + 1] + loss - emission(emitted, c, a));
      if (c >= 0 && c < a.classes) to[t * row + c] -= sum * g;
    }
    quiet = sum_block(quiet);
    if (threadIdx.x == 0) to[t * row + a.blank] -= quiet * g;
  }
}
