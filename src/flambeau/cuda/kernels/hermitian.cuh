// A = P L D L^H P^T of complex Hermitian matrices by columns, in LAPACK's compact form (Bunch and Kaufman 1977): below
// the diagonal of a column lies L; pivots count from 1, and two equal negative ones belong to a block of 2 x 2 in D.

template <class R> INLINE R size_of(Complex<R> a) { return fabs(a.re) + fabs(a.im); }
template <class R> INLINE Complex<R> real_part(Complex<R> a) { return Complex<R>(a.re, R(0)); }

// The largest element of column `from` from row `first` on, and the first row that has it; by a block.
template <class R> INLINE R largest_below(const Complex<R>* column, int64_t first, int64_t n, int64_t* row) {
  R best = R(0);
  int64_t own = n;
  for (int64_t i = first + threadIdx.x; i < n; i += blockDim.x)
    if (own == n || size_of(column[i]) > best) best = size_of(column[i]), own = i;
  const R all = largest_block(best);
  const int64_t found = -largest_block(own < n && best == all ? -own : -n);
  *row = found < n ? found : n - 1;
  return all;
}
// Rows and columns p < q of what is left of the matrix change places; by a block.
template <class R> INLINE void exchange(Complex<R>* a, int64_t n, int64_t p, int64_t q) {
  for (int64_t i = p + 1 + threadIdx.x; i < n; i += blockDim.x) {
    Complex<R>* one = a + p * n + i;
    if (i == q) {
      *one = conjugate(*one);
      continue;
    }
    Complex<R>* other = i < q ? a + i * n + q : a + q * n + i;
    const Complex<R> kept = *one;
    *one = i < q ? conjugate(*other) : *other;
    *other = i < q ? conjugate(kept) : kept;
  }
  if (threadIdx.x == 0) {
    const R kept = a[p * n + p].re;
    a[p * n + p] = real_part(a[q * n + q]);
    a[q * n + q] = Complex<R>(kept, R(0));
  }
  __syncthreads();
}
// Which row becomes the pivot of column k, and of how many columns its block is.
template <class R> INLINE int choose_pivot(const Complex<R>* a, int64_t n, int64_t k, R own, int64_t* row) {
  const R bound = R(0.6403882032022076);  // (1 + sqrt(17)) / 8: the least growth
  int64_t far = k;
  const R largest = k + 1 < n ? largest_below(a + k * n, k + 1, n, &far) : R(0);
  *row = k;
  if (!(larger(own, largest) > R(0))) return 0;
  if (own >= bound * largest) return 1;
  R beside = R(0);  // the largest of row `far`, but for the diagonal
  for (int64_t j = k + threadIdx.x; j < n; j += blockDim.x)
    if (j != far) beside = larger(beside, size_of(j < far ? a[j * n + far] : a[far * n + j]));
  beside = largest_block(beside);
  if (own >= bound * largest * (largest / beside)) return 1;
  *row = far;
  return fabs(a[far * n + far].re) >= bound * beside ? 1 : 2;
}
// What is left of the matrix after a column of L.
template <class R> INLINE void eliminate_one(Complex<R>* a, int64_t n, int64_t k) {
  Complex<R>* x = a + k * n;
  const R scale = R(1) / x[k].re;
  const int64_t left = n - k - 1;
  for (int64_t e = threadIdx.x; e < left * left; e += blockDim.x) {
    const int64_t i = k + 1 + e % left, j = k + 1 + e / left;
    if (i < j) continue;
    const Complex<R> v = a[j * n + i] - scaled(x[i] * conjugate(x[j]), scale);
    a[j * n + i] = i == j ? real_part(v) : v;
  }
  __syncthreads();
  for (int64_t i = k + 1 + threadIdx.x; i < n; i += blockDim.x) x[i] = scaled(x[i], scale);
  __syncthreads();
}
// … after two; `room` holds them until nobody reads what they are made of.
template <class R> INLINE void eliminate_two(Complex<R>* a, int64_t n, int64_t k, Complex<R>* room) {
  Complex<R>*x = a + k * n, *y = x + n;
  const R size = absolute(x[k + 1]), d11 = y[k + 1].re / size, d22 = x[k].re / size, factor = R(1) / (d11 * d22 - R(1));
  const Complex<R> d21 = scaled(x[k + 1], R(1) / size);
  for (int64_t i = k + 2 + threadIdx.x; i < n; i += blockDim.x) {
    room[i] = scaled(scaled(x[i], d11) - d21 * y[i], factor / size);
    room[n + i] = scaled(scaled(y[i], d22) - conjugate(d21) * x[i], factor / size);
  }
  __syncthreads();
  const int64_t left = n - k - 2;
  for (int64_t e = threadIdx.x; e < left * left; e += blockDim.x) {
    const int64_t i = k + 2 + e % left, j = k + 2 + e / left;
    if (i < j) continue;
    const Complex<R> v = a[j * n + i] - x[i] * conjugate(room[j]) - y[i] * conjugate(room[n + j]);
    a[j * n + i] = i == j ? real_part(v) : v;
  }
  __syncthreads();
  for (int64_t i = k + 2 + threadIdx.x; i < n; i += blockDim.x) x[i] = room[i], y[i] = room[n + i];
  __syncthreads();
}
// One matrix, by a block. `info`: the first column (from 1) whose pivot is 0, or 0.
template <class R> INLINE void factor_hermitian(Complex<R>* a, int64_t n, int* pivots, int* info, Complex<R>* room) {
  int zero = 0;
  for (int64_t k = 0; k < n;) {
    int64_t row = k;
    const int width = choose_pivot(a, n, k, R(fabs(a[k * n + k].re)), &row);
    const int64_t last = k + (width == 2);
    if (width == 0 && !zero) zero = int(k + 1);
    __syncthreads();
    if (row != last) {
      exchange(a, n, last, row);
      if (width == 2 && threadIdx.x == 0) {
        const Complex<R> kept = a[k * n + last];
        a[k * n + last] = a[k * n + row];
        a[k * n + row] = kept;
      }
    }
    if (threadIdx.x == 0)
      for (int64_t j = k; j <= last; ++j) {
        a[j * n + j] = real_part(a[j * n + j]);
        pivots[j] = width == 2 ? -int(row + 1) : int(row + 1);
      }
    __syncthreads();
    if (width == 1) eliminate_one(a, n, k);
    else if (width == 2) eliminate_two(a, n, k, room);
    k = last + 1;
  }
  if (threadIdx.x == 0) *info = zero;
}

// One column of B becomes that of X of A X = B, by a warp.
template <class R> struct HermitianColumn {
  const Complex<R>* a;
  Complex<R>* b;
  int64_t n;
  INLINE void exchange(int64_t i, int64_t pivot) const {
    const int64_t j = pivot < 1 ? 0 : pivot > n ? n - 1 : pivot - 1;
    if ((threadIdx.x & 31) == 0 && i != j) {
      const Complex<R> kept = b[i];
      b[i] = b[j];
      b[j] = kept;
    }
    __syncwarp();
  }
  // From row `first` on: B less a column of L times its element k.
  INLINE void subtract(int64_t k, int64_t first) const {
    const Complex<R> factor = b[k];
    for (int64_t i = first + (threadIdx.x & 31); i < n; i += 32) b[i] = b[i] - a[k * n + i] * factor;
    __syncwarp();
  }
  // Element k less the product of that column's adjoint with what lies from row `first` on.
  INLINE void reduce(int64_t k, int64_t first) const {
    Complex<R> sum(R(0));
    for (int64_t i = first + (threadIdx.x & 31); i < n; i += 32) sum = sum + conjugate(a[k * n + i]) * b[i];
    sum = combine_warp(SumOf<Complex<R>>(), sum);
    if ((threadIdx.x & 31) == 0) b[k] = b[k] - sum;
    __syncwarp();
  }
  INLINE void divide(int64_t k, int64_t width) const {
    if ((threadIdx.x & 31) == 0) {
      if (width == 1) {
        b[k] = scaled(b[k], R(1) / a[k * n + k].re);
      } else {
        const Complex<R> side = a[k * n + k + 1], p = a[k * n + k] / conjugate(side), q = a[(k + 1) * n + k + 1] / side;
        const Complex<R> below = p * q - Complex<R>(R(1)), one = b[k] / conjugate(side), other = b[k + 1] / side;
        b[k] = (q * one - other) / below;
        b[k + 1] = (p * other - one) / below;
      }
    }
    __syncwarp();
  }
  template <class P> INLINE void solve(const P* pivots) const {
    for (int64_t k = 0; k < n;) {
      const int64_t width = pivots[k] < 0 && k + 1 < n ? 2 : 1;
      exchange(k + width - 1, pivots[k] < 0 ? -pivots[k] : pivots[k]);
      for (int64_t j = k; j < k + width; ++j) subtract(j, k + width);
      divide(k, width);
      k += width;
    }
    for (int64_t k = n - 1; k >= 0;) {
      const int64_t width = pivots[k] < 0 && k > 0 ? 2 : 1;
      for (int64_t j = k; j > k - width; --j) reduce(j, k + 1);
      exchange(k, pivots[k] < 0 ? -pivots[k] : pivots[k]);
      k -= width;
    }
  }
};
