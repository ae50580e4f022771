// A = P L D L^H P^T of Hermitian matrices (or L^T of symmetric ones) by columns, in LAPACK's compact form (Bunch and
// Kaufman 1977): below the diagonal of a column lies L; pivots count from 1, and two equal negative ones belong to a
// block of 2 x 2 in D.

template <class T> using real_t = typename Real<T>::type;
template <class R> INLINE R size_of(R a) { return fabs(a); }
template <class R> INLINE R size_of(Complex<R> a) { return fabs(a.re) + fabs(a.im); }
template <class R> INLINE R real_part(R a) { return a; }
template <class R> INLINE Complex<R> real_part(Complex<R> a) { return Complex<R>(a.re, R(0)); }

// What differs between Hermitian and symmetric matrices: an element seen from the other side, one of the diagonal, and
// the size that a block of 2 x 2 is scaled by.
template <class T> struct Hermitian {
  using Element = T;
  static INLINE T flip(T a) { return conjugate(a); }
  static INLINE T settle(T a) { return real_part(a); }
  static INLINE T scale(T a) { return T(absolute(a)); }
};
template <class T> struct Symmetric {
  using Element = T;
  static INLINE T flip(T a) { return a; }
  static INLINE T settle(T a) { return a; }
  static INLINE T scale(T a) { return a; }
};

// The largest element of column `from` from row `first` on, and the first row that has it; by a block.
template <class T> INLINE real_t<T> largest_below(const T* column, int64_t first, int64_t n, int64_t* row) {
  using R = real_t<T>;
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
template <class Form, class T> INLINE void exchange(T* a, int64_t n, int64_t p, int64_t q) {
  for (int64_t i = p + 1 + threadIdx.x; i < n; i += blockDim.x) {
    T* one = a + p * n + i;
    if (i == q) {
      *one = Form::flip(*one);
      continue;
    }
    T* other = i < q ? a + i * n + q : a + q * n + i;
    const T kept = *one;
    *one = i < q ? Form::flip(*other) : *other;
    *other = i < q ? Form::flip(kept) : kept;
  }
  if (threadIdx.x == 0) {
    const T kept = Form::settle(a[p * n + p]);
    a[p * n + p] = Form::settle(a[q * n + q]);
    a[q * n + q] = kept;
  }
  __syncthreads();
}
// Which row becomes the pivot of column k, and of how many columns its block is.
template <class Form, class T> INLINE int choose_pivot(const T* a, int64_t n, int64_t k, int64_t* row) {
  using R = real_t<T>;
  const R bound = R(0.6403882032022076);  // (1 + sqrt(17)) / 8: the least growth
  int64_t far = k;
  const R own = size_of(Form::settle(a[k * n + k]));
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
  return size_of(Form::settle(a[far * n + far])) >= bound * beside ? 1 : 2;
}
// What is left of the matrix after a column of L.
template <class Form, class T> INLINE void eliminate_one(T* a, int64_t n, int64_t k) {
  T* x = a + k * n;
  const T scale = T(1) / x[k];
  const int64_t left = n - k - 1;
  for (int64_t e = threadIdx.x; e < left * left; e += blockDim.x) {
    const int64_t i = k + 1 + e % left, j = k + 1 + e / left;
    if (i < j) continue;
    const T v = a[j * n + i] - x[i] * Form::flip(x[j]) * scale;
    a[j * n + i] = i == j ? Form::settle(v) : v;
  }
  __syncthreads();
  for (int64_t i = k + 1 + threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] * scale;
  __syncthreads();
}
// … after two; `room` holds them until nobody reads what they are made of.
template <class Form, class T> INLINE void eliminate_two(T* a, int64_t n, int64_t k, T* room) {
  T *x = a + k * n, *y = x + n;
  const T scale = Form::scale(x[k + 1]), d11 = y[k + 1] / scale, d22 = x[k] / scale, d21 = x[k + 1] / scale;
  const T factor = T(1) / (d11 * d22 - T(1)) / scale;
  for (int64_t i = k + 2 + threadIdx.x; i < n; i += blockDim.x) {
    room[i] = (x[i] * d11 - d21 * y[i]) * factor;
    room[n + i] = (y[i] * d22 - Form::flip(d21) * x[i]) * factor;
  }
  __syncthreads();
  const int64_t left = n - k - 2;
  for (int64_t e = threadIdx.x; e < left * left; e += blockDim.x) {
    const int64_t i = k + 2 + e % left, j = k + 2 + e / left;
    if (i < j) continue;
    const T v = a[j * n + i] - x[i] * Form::flip(room[j]) - y[i] * Form::flip(room[n + j]);
    a[j * n + i] = i == j ? Form::settle(v) : v;
  }
  __syncthreads();
  for (int64_t i = k + 2 + threadIdx.x; i < n; i += blockDim.x) x[i] = room[i], y[i] = room[n + i];
  __syncthreads();
}
// One matrix, by a block. `info`: the first column (from 1) whose pivot is 0, or 0.
template <class Form, class T> INLINE void factor_ldl(T* a, int64_t n, int* pivots, int* info, T* room) {
  int zero = 0;
  for (int64_t k = 0; k < n;) {
    int64_t row = k;
    const int width = choose_pivot<Form>(a, n, k, &row);
    const int64_t last = k + (width == 2);
    if (width == 0 && !zero) zero = int(k + 1);
    __syncthreads();
    if (row != last) {
      exchange<Form>(a, n, last, row);
      if (width == 2 && threadIdx.x == 0) {
        const T kept = a[k * n + last];
        a[k * n + last] = a[k * n + row];
        a[k * n + row] = kept;
      }
    }
    if (threadIdx.x == 0)
      for (int64_t j = k; j <= last; ++j) {
        a[j * n + j] = Form::settle(a[j * n + j]);
        pivots[j] = width == 2 ? -int(row + 1) : int(row + 1);
      }
    __syncthreads();
    if (width == 1) eliminate_one<Form>(a, n, k);
    else if (width == 2) eliminate_two<Form>(a, n, k, room);
    k = last + 1;
  }
  if (threadIdx.x == 0) *info = zero;
}

// One column of B becomes that of X of A X = B, by a warp.
template <class Form> struct LdlColumn {
  using T = typename Form::Element;
  const T* a;
  T* b;
  int64_t n;
  INLINE void exchange(int64_t i, int64_t pivot) const {
    const int64_t j = pivot < 1 ? 0 : pivot > n ? n - 1 : pivot - 1;
    if ((threadIdx.x & 31) == 0 && i != j) {
      const T kept = b[i];
      b[i] = b[j];
      b[j] = kept;
    }
    __syncwarp();
  }
  // From row `first` on: B less a column of L times its element k.
  INLINE void subtract(int64_t k, int64_t first) const {
    const T factor = b[k];
    for (int64_t i = first + (threadIdx.x & 31); i < n; i += 32) b[i] = b[i] - a[k * n + i] * factor;
    __syncwarp();
  }
  // Element k less the product of that column's transpose (or adjoint) with what lies from row `first` on.
  INLINE void reduce(int64_t k, int64_t first) const {
    T sum(0);
    for (int64_t i = first + (threadIdx.x & 31); i < n; i += 32) sum = sum + Form::flip(a[k * n + i]) * b[i];
    sum = combine_warp(SumOf<T>(), sum);
    if ((threadIdx.x & 31) == 0) b[k] = b[k] - sum;
    __syncwarp();
  }
  INLINE void divide(int64_t k, int64_t width) const {
    if ((threadIdx.x & 31) == 0) {
      if (width == 1) {
        b[k] = b[k] / a[k * n + k];
      } else {
        const T side = a[k * n + k + 1], other_side = Form::flip(side);
        const T p = a[k * n + k] / other_side, q = a[(k + 1) * n + k + 1] / side, below = p * q - T(1);
        const T one = b[k] / other_side, other = b[k + 1] / side;
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
