// Writing where an index says: what happens to an element that is there already, and additions by many threads at once.

template <class T, char HOW> INLINE T combined(T old, T v) {
  typedef typename Wide<T>::type W;
  const W a = widen(old), b = widen(v);
  if constexpr (HOW == 'a') return cast<T>(W(a + b));
  else if constexpr (HOW == 'm') return cast<T>(W(a * b));
  else if constexpr (HOW == 'u') return cast<T>(larger(a, b));
  else if constexpr (HOW == 'd') return cast<T>(smaller(a, b));
  else return v;
}
INLINE void atomic_add(float* p, float v) { atomicAdd(p, v); }
INLINE void atomic_add(double* p, double v) { atomicAdd(p, v); }
INLINE void atomic_add(int32_t* p, int32_t v) { atomicAdd(p, v); }
INLINE void atomic_add(uint32_t* p, uint32_t v) { atomicAdd(p, v); }
INLINE void atomic_add(int64_t* p, int64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}
INLINE void atomic_add(uint64_t* p, uint64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}
template <class R> INLINE void atomic_add(Complex<R>* p, Complex<R> v) {
  atomicAdd(&p->re, v.re);
  atomicAdd(&p->im, v.im);
}
INLINE void atomic_add(complex32* p, complex32 v) {
  union Word {
    complex32 value;
    uint32_t bits;
    INLINE Word() {}
  } seen, next;
  uint32_t* word = reinterpret_cast<uint32_t*>(p);
  uint32_t found = *word;
  do {
    seen.bits = found;
    next.value = combined<complex32, 'a'>(seen.value, v);
    found = atomicCAS(word, seen.bits, next.bits);
  } while (found != seen.bits);
}
// Types of one or two bytes: by their 32-bit word.
template <class T> INLINE void atomic_add(T* p, T v) {
  const uint64_t address = reinterpret_cast<uint64_t>(p);
  uint32_t* word = reinterpret_cast<uint32_t*>(address & ~uint64_t(3));
  const int shift = int(address & 3) * 8;
  const uint32_t mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
  uint32_t seen = *word, found;
  do {
    found = seen;
    union { T value; uint16_t bits; } part;
    part.bits = uint16_t((found & mask) >> shift);
    part.value = combined<T, 'a'>(part.value, v);
    seen = atomicCAS(word, found, (found & ~mask) | ((uint32_t(part.bits) << shift) & mask));
  } while (seen != found);
}

// --- the places of elements that are not zero: counts of pieces, where each piece begins, the places themselves
constexpr int kPiece = 2048;  // elements that a block of 256 threads looks at
template <class T> INLINE void count_piece(const T* x, int64_t n, int64_t* counts) {
  int32_t many = 0;
  for (int k = 0; k < kPiece / 256; ++k) {
    const int64_t i = int64_t(blockIdx.x) * kPiece + k * 256 + threadIdx.x;
    if (i < n) many += cast<bool>(x[i]);
  }
  many = sum_block(many);
  if (threadIdx.x == 0) counts[blockIdx.x] = many;
}
// Sums of all before, in one block: counts become places. One more element holds the total.
INLINE void places_of_pieces(int64_t* counts, int64_t pieces) {
  __shared__ int64_t part[256];
  int64_t total = 0;
  for (int64_t begin = 0; begin < pieces; begin += 256) {
    const int64_t i = begin + threadIdx.x, own = i < pieces ? counts[i] : 0;
    const int64_t sum = scan_block(SumOf<int64_t>(), own, part);
    if (i < pieces) counts[i] = total + sum - own;
    total += part[255];
  }
  if (threadIdx.x == 0) counts[pieces] = total;
}
// take(position of the element, its number among those that are not zero)
template <class T, class Take> INLINE void each_true(const T* x, int64_t n, const int64_t* begins, Take take) {
  __shared__ int32_t part[256];
  int64_t before = begins[blockIdx.x];
  for (int k = 0; k < kPiece / 256; ++k) {
    const int64_t i = int64_t(blockIdx.x) * kPiece + k * 256 + threadIdx.x;
    const int32_t own = i < n && cast<bool>(x[i]);
    const int32_t number = scan_block(SumOf<int32_t>(), own, part);
    if (own) take(i, before + number - 1);
    before += part[255];
  }
}
