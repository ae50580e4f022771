// A = U S V^H by one-sided rotations (Hestenes 1958; Jacobi): columns of A are turned against each other until all are
// orthogonal, and are then U S; V is what turned them. A block for each matrix, by columns, with as many rows or more.
//
// Pairs of columns that share none are turned at once, a warp for each: n columns (one more that is not there, if n is
// odd) meet in n - 1 rounds, as in a tournament.

template <class T> using real_t = typename Real<T>::type;
template <class R> INLINE R square(R a) { return a * a; }
template <class R> INLINE R square(Complex<R> a) { return a.re * a.re + a.im * a.im; }
template <class R> INLINE R times(R a, R factor) { return a * factor; }
template <class R> INLINE Complex<R> times(Complex<R> a, R factor) { return {a.re * factor, a.im * factor}; }
template <class R> INLINE R over(R a, R by) { return a / by; }
template <class R> INLINE Complex<R> over(Complex<R> a, R by) { return {a.re / by, a.im / by}; }

template <class T> struct SingularValues {
  using R = real_t<T>;
  static constexpr R epsilon = sizeof(R) == 8 ? R(2.220446049250313e-16) : R(1.1920929e-07);
  static constexpr R nothing = sizeof(R) == 8 ? R(1e-290) : R(1e-30);  // squares below have lost digits
  T *a, *v, *u;  // [m, n], destroyed; [n, n] and [m, width]: null where they are not wanted
  R* values;     // [n]
  int64_t m, n, width;

  INLINE int64_t lane() const { return threadIdx.x & 31; }
  INLINE int64_t warp() const { return threadIdx.x / 32; }
  INLINE int64_t warps() const { return blockDim.x / 32; }

  // The largest number becomes 1, so that squares neither overflow nor vanish. Returns what it was.
  INLINE R scale() const {
    R own = R(0);
    for (int64_t i = threadIdx.x; i < m * n; i += blockDim.x) own = larger(own, R(absolute(a[i])));
    const R largest = largest_block(own);
    if (largest > R(0))
      for (int64_t i = threadIdx.x; i < m * n; i += blockDim.x) a[i] = over(a[i], largest);
    for (int64_t i = threadIdx.x; v && i < n * n; i += blockDim.x) v[i] = T(i / n == i % n ? R(1) : R(0));
    __syncthreads();
    return largest;
  }
  // Two columns of `length` become what turning them gives, by a warp.
  INLINE void turn(T* x, T* y, int64_t length, R cosine, R sine, T phase) const {
    for (int64_t i = lane(); i < length; i += 32) {
      const T one = x[i], other = y[i] * phase;
      x[i] = times(one, cosine) - times(other, sine);
      y[i] = times(one, sine) + times(other, cosine);
    }
  }
  // Whether columns p and q of A were not orthogonal; they are afterwards. By a warp.
  INLINE bool meet(int64_t p, int64_t q) const {
    T *x = a + p * m, *y = a + q * m;
    R alpha = R(0), beta = R(0);
    T gamma = T(0);
    for (int64_t i = lane(); i < m; i += 32) {
      alpha += square(x[i]);
      beta += square(y[i]);
      gamma = gamma + conjugate(x[i]) * y[i];
    }
    alpha = combine_warp(SumOf<R>(), alpha);
    beta = combine_warp(SumOf<R>(), beta);
    gamma = combine_warp(SumOf<T>(), gamma);
    const R size = R(absolute(gamma));
    if (!(size > epsilon * sqrt(R(m)) * sqrt(alpha) * sqrt(beta)) || alpha < nothing || beta < nothing) return false;
    const R zeta = (beta - alpha) / (R(2) * size);
    const R tangent = (zeta < R(0) ? R(-1) : R(1)) / (fabs(zeta) + sqrt(R(1) + zeta * zeta));
    const R cosine = R(1) / sqrt(R(1) + tangent * tangent);
    const T phase = conjugate(times(gamma, R(1) / size));
    turn(x, y, m, cosine, cosine * tangent, phase);
    if (v) turn(v + p * n, v + q * n, n, cosine, cosine * tangent, phase);
    return true;
  }
  // Turns until all columns are orthogonal; whether they became so.
  INLINE bool sweep() const {
    const int64_t players = n + n % 2;
    for (int round = 0; round < 40; ++round) {
      int turned = 0;
      for (int64_t day = 0; day < players - 1; ++day) {
        for (int64_t k = warp(); k < players / 2; k += warps()) {
          const int64_t one = k ? (day + k) % (players - 1) : players - 1;
          const int64_t other = (day + players - 1 - k) % (players - 1);
          if (one < n && other < n) turned |= meet(one < other ? one : other, one < other ? other : one);
        }
        __syncthreads();
      }
      if (!largest_block(turned)) return true;
    }
    return false;
  }
  // The lengths of the columns in falling order into `values`, where each goes into `order`; U's columns that have a
  // direction. How many have none.
  INLINE int64_t finish(R* lengths, int* order, R largest) const {
    for (int64_t j = warp(); j < n; j += warps()) {
      R own = R(0);
      for (int64_t i = lane(); i < m; i += 32) own += square(a[j * m + i]);
      own = combine_warp(SumOf<R>(), own);
      if (lane() == 0) lengths[j] = own;
    }
    __syncthreads();
    int missing = 0;
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
      int before = 0;
      for (int64_t k = 0; k < n; ++k) before += lengths[k] > lengths[j] || (lengths[k] == lengths[j] && k < j);
      order[j] = before;
      values[before] = sqrt(lengths[j]) * largest;
      missing += lengths[j] < nothing;
    }
    missing = sum_block(missing);
    for (int64_t e = threadIdx.x; u && e < m * n; e += blockDim.x) {
      const int64_t j = e / m;
      if (lengths[j] >= nothing) u[order[j] * m + e % m] = times(a[e], R(1) / sqrt(lengths[j]));
    }
    __syncthreads();
    return missing;
  }
  // The other columns of U from `first` on: of the unit vector that lies farthest from those that are there, what is
  // orthogonal to them; `part` has room for m numbers.
  INLINE void complete(int64_t first, T* part) const {
    for (int64_t j = first; j < width; ++j) {
      R least = R(2);
      int64_t row = m;
      for (int64_t i = threadIdx.x; i < m; i += blockDim.x) {
        R own = R(0);
        for (int64_t k = 0; k < j; ++k) own += square(u[k * m + i]);
        if (row == m || own < least) least = own, row = i;
      }
      const R best = -largest_block(-least);
      row = -largest_block(row < m && least == best ? -row : -m);
      T* x = u + j * m;
      for (int64_t i = threadIdx.x; i < m; i += blockDim.x) x[i] = T(i == row ? R(1) : R(0));
      __syncthreads();
      for (int again = 0; again < 2; ++again) {
        for (int64_t k = warp(); k < j; k += warps()) {
          T sum = T(0);
          for (int64_t i = lane(); i < m; i += 32) sum = sum + conjugate(u[k * m + i]) * x[i];
          sum = combine_warp(SumOf<T>(), sum);
          if (lane() == 0) part[k] = sum;
        }
        __syncthreads();
        R own = R(0);
        for (int64_t i = threadIdx.x; i < m; i += blockDim.x) {
          T rest = x[i];
          for (int64_t k = 0; k < j; ++k) rest = rest - u[k * m + i] * part[k];
          x[i] = rest;
          own += square(rest);
        }
        own = R(1) / sqrt(sum_block(own));
        for (int64_t i = threadIdx.x; i < m; i += blockDim.x) x[i] = times(x[i], own);
        __syncthreads();
      }
    }
  }
};

// One matrix, by a block; `right` becomes V, and v is room for it. `info`: 1 where columns did not become orthogonal.
template <class T>
INLINE void decompose_svd(SingularValues<T> x, T* right, real_t<T>* lengths, int* order, T* part, int* info) {
  const real_t<T> largest = x.scale();
  const bool done = x.sweep();
  const int64_t missing = x.finish(lengths, order, largest);
  if (x.u) x.complete(x.n - missing, part);
  for (int64_t e = threadIdx.x; right && e < x.n * x.n; e += blockDim.x) right[order[e / x.n] * x.n + e % x.n] = x.v[e];
  if (threadIdx.x == 0) *info = !done;
}
