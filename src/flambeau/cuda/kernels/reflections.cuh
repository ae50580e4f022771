// Products with Q = H_0 H_1 ... of reflections H_j = I - tau_j v_j v_j^H. v_j is 0 above element j, 1 there, and what
// lies below the diagonal of column j.

// One warp: a vector of `length` elements that are `step` apart. A column x becomes H x, a row x becomes x H, for each
// reflection in turn, from the first on (`forward`) or from the last. Each lane reads and writes elements of its own.
template <class T>
INLINE void reflect(T* x, int64_t step, int64_t length, const T* v, const T* tau, int64_t count, bool forward,
                    bool adjoint, bool row) {
  for (int64_t turn = 0; turn < count; ++turn) {
    const int64_t j = forward ? turn : count - 1 - turn, first = j + ((threadIdx.x - j) & 31);
    const T* own = v + j * length;
    T sum = T(0);
    for (int64_t i = first; i < length; i += 32) {
      const T e = i == j ? T(1) : own[i];
      sum = sum + (row ? e : conjugate(e)) * x[i * step];
    }
    sum = combine_warp(SumOf<T>(), sum) * (adjoint ? conjugate(tau[j]) : tau[j]);
    for (int64_t i = first; i < length; i += 32) {
      const T e = i == j ? T(1) : own[i];
      x[i * step] = x[i * step] - sum * (row ? conjugate(e) : e);
    }
  }
}
