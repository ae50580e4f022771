// Matrix products and convolutions that are right for every shape and layout, and slow beside NVIDIA's libraries.

// C = alpha A B + beta D for each of `count` pairs; a block computes a tile of 64 x 64, each thread 4 x 4 of it.
struct Steps {  // strides in elements
  int64_t row, column;
};
template <class A, class T, int K>
INLINE void matmul(const T* a, const T* b, const T* d, T* c, const Layout<K>& batch_a, const Layout<K>& batch_b,
                   const Layout<K>& batch_c, const Layout<K>& batch_d, Steps sa, Steps sb, Steps sc, Steps sd,
                   int64_t count, int64_t m, int64_t n, int64_t depth, A alpha, A beta) {
  constexpr int S = 64, D = 16;
  __shared__ A left[D][S + 1], right[D][S + 1];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t column0 = int64_t(blockIdx.x) * S;
  for (int64_t row0 = int64_t(blockIdx.y) * S; row0 < m; row0 += int64_t(gridDim.y) * S)
  for (int64_t pair = blockIdx.z; pair < count; pair += gridDim.z) {
    const T* pa = a + offset_of<int64_t>(pair, batch_a);
    const T* pb = b + offset_of<int64_t>(pair, batch_b);
    A sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] = A(0);
    for (int64_t k0 = 0; k0 < depth; k0 += D) {
      for (int e = threadIdx.x; e < S * D; e += 256) {
        const int i = e / D, k = e % D, j = e % S, l = e / S;
        left[k][i] = row0 + i < m && k0 + k < depth ? cast<A>(pa[(row0 + i) * sa.row + (k0 + k) * sa.column]) : A(0);
        right[l][j] =
            column0 + j < n && k0 + l < depth ? cast<A>(pb[(k0 + l) * sb.row + (column0 + j) * sb.column]) : A(0);
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < D; ++k) {
        A x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = left[k][ty * 4 + i], y[i] = right[k][tx * 4 + i];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] = sum[i][j] + x[i] * y[j];
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t row = row0 + ty * 4 + i, column = column0 + tx * 4 + j;
        if (row >= m || column >= n) continue;
        A v = alpha * sum[i][j];
        if (d) v = v + beta * cast<A>(d[offset_of<int64_t>(pair, batch_d) + row * sd.row + column * sd.column]);
        c[offset_of<int64_t>(pair, batch_c) + row * sc.row + column * sc.column] = cast<T>(v);
      }
  }
}

// A convolution has a small side (the result) and a big one: small position p and tap t meet at big position
// p * stride - padding + t * dilation. Weights are [small channel][big channel of its group][tap].
struct Convolution {
  int64_t batch, small, big, groups;
  int64_t p[3], q[3], taps[3], stride[3], padding[3], dilation[3];
};
template <bool CONJUGATED, class A> INLINE A maybe_conjugate(A v) { return CONJUGATED ? conjugate(v) : v; }
// One element of the small side. Gradients take the weights conjugated.
template <class A, bool BACK, class T> INLINE A gather_small(const T* big, const T* w, const Convolution& c, int64_t i) {
  const int64_t p2 = i % c.p[2], p1 = i / c.p[2] % c.p[1], p0 = i / (c.p[2] * c.p[1]) % c.p[0];
  const int64_t plane = i / (c.p[2] * c.p[1] * c.p[0]), s = plane % c.small, n = plane / c.small;
  const int64_t per = c.big / c.groups, first = s / (c.small / c.groups) * per;
  const int64_t all = c.taps[0] * c.taps[1] * c.taps[2];
  A sum = A(0);
  for (int64_t b = 0; b < per; ++b) {
    const T* x = big + (n * c.big + first + b) * c.q[0] * c.q[1] * c.q[2];
    const T* v = w + (s * per + b) * all;
    for (int64_t t0 = 0; t0 < c.taps[0]; ++t0) {
      const int64_t q0 = p0 * c.stride[0] - c.padding[0] + t0 * c.dilation[0];
      if (q0 < 0 || q0 >= c.q[0]) continue;
      for (int64_t t1 = 0; t1 < c.taps[1]; ++t1) {
        const int64_t q1 = p1 * c.stride[1] - c.padding[1] + t1 * c.dilation[1];
        if (q1 < 0 || q1 >= c.q[1]) continue;
        for (int64_t t2 = 0; t2 < c.taps[2]; ++t2) {
          const int64_t q2 = p2 * c.stride[2] - c.padding[2] + t2 * c.dilation[2];
          if (q2 < 0 || q2 >= c.q[2]) continue;
          sum = sum + cast<A>(x[(q0 * c.q[1] + q1) * c.q[2] + q2]) *
                          maybe_conjugate<BACK>(cast<A>(v[(t0 * c.taps[1] + t1) * c.taps[2] + t2]));
        }
      }
    }
  }
  return sum;
}
// The small position that tap t of big position q belongs to, or -1.
INLINE int64_t small_of(const Convolution& c, int d, int64_t q, int64_t t) {
  const int64_t at = q + c.padding[d] - t * c.dilation[d];
  return at >= 0 && at % c.stride[d] == 0 && at / c.stride[d] < c.p[d] ? at / c.stride[d] : -1;
}
// One element of the big side.
template <class A, bool BACK, class T> INLINE A gather_big(const T* small, const T* w, const Convolution& c, int64_t i) {
  const int64_t q2 = i % c.q[2], q1 = i / c.q[2] % c.q[1], q0 = i / (c.q[2] * c.q[1]) % c.q[0];
  const int64_t plane = i / (c.q[2] * c.q[1] * c.q[0]), b = plane % c.big, n = plane / c.big;
  const int64_t per = c.big / c.groups, many = c.small / c.groups, group = b / per, own = b % per;
  const int64_t all = c.taps[0] * c.taps[1] * c.taps[2];
  A sum = A(0);
  for (int64_t s = group * many; s < (group + 1) * many; ++s) {
    const T* y = small + (n * c.small + s) * c.p[0] * c.p[1] * c.p[2];
    const T* v = w + (s * per + own) * all;
    for (int64_t t0 = 0; t0 < c.taps[0]; ++t0) {
      const int64_t p0 = small_of(c, 0, q0, t0);
      if (p0 < 0) continue;
      for (int64_t t1 = 0; t1 < c.taps[1]; ++t1) {
        const int64_t p1 = small_of(c, 1, q1, t1);
        if (p1 < 0) continue;
        for (int64_t t2 = 0; t2 < c.taps[2]; ++t2) {
          const int64_t p2 = small_of(c, 2, q2, t2);
          if (p2 < 0) continue;
          sum = sum + cast<A>(y[(p0 * c.p[1] + p1) * c.p[2] + p2]) *
                          maybe_conjugate<BACK>(cast<A>(v[(t0 * c.taps[1] + t1) * c.taps[2] + t2]));
        }
      }
    }
  }
  return sum;
}
// One weight's gradient, by one block; SMALL: the small side is what was convolved, else the big one.
template <class A, bool SMALL, class T> INLINE A weight_sum(const T* small, const T* big, const Convolution& c, int64_t i) {
  __shared__ A room[32];
  const int64_t all = c.taps[0] * c.taps[1] * c.taps[2], per = c.big / c.groups, t = i % all;
  const int64_t s = i / (all * per), b = s / (c.small / c.groups) * per + i / all % per;
  const int64_t t2 = t % c.taps[2], t1 = t / c.taps[2] % c.taps[1], t0 = t / (c.taps[2] * c.taps[1]);
  const int64_t plane = c.p[0] * c.p[1] * c.p[2], many = c.batch * plane;
  A sum = A(0);
  for (int64_t e = threadIdx.x; e < many; e += blockDim.x) {
    const int64_t n = e / plane, p = e % plane;
    const int64_t q0 = p / (c.p[2] * c.p[1]) * c.stride[0] - c.padding[0] + t0 * c.dilation[0];
    const int64_t q1 = p / c.p[2] % c.p[1] * c.stride[1] - c.padding[1] + t1 * c.dilation[1];
    const int64_t q2 = p % c.p[2] * c.stride[2] - c.padding[2] + t2 * c.dilation[2];
    if (q0 < 0 || q0 >= c.q[0] || q1 < 0 || q1 >= c.q[1] || q2 < 0 || q2 >= c.q[2]) continue;
    sum = sum + maybe_conjugate<SMALL>(cast<A>(small[(n * c.small + s) * plane + p])) *
                    maybe_conjugate<!SMALL>(cast<A>(big[(((n * c.big + b) * c.q[0] + q0) * c.q[1] + q1) * c.q[2] + q2]));
  }
  return combine_block(SumOf<A>(), sum, room);
}
