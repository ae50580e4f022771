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

// --- rows of packs: 2^shift threads beside each other for each row, with four packs of each on their way at once
template <class Index> struct RowWalk {
  Index row, first, packs, lanes;
  INLINE RowWalk(int64_t packs, int64_t shift)
      : row(Index(blockIdx.x) * (256 >> shift) + Index(threadIdx.x >> shift)),
        first(Index(threadIdx.x & ((1 << shift) - 1))), packs(packs), lanes(1 << shift) {}
  // read(k, pack) for up to four packs, then use(k, pack) for these
  template <class Read, class Use> INLINE void each(const Read& read, const Use& use) const {
    const Index step = lanes * 4;
    for (Index at = Index(blockIdx.y) * step + first; at < packs; at += Index(gridDim.y) * step) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (at + k * lanes < packs) read(k, at + k * lanes);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (at + k * lanes < packs) use(k, at + k * lanes);
    }
  }
};
template <int V, class Index, class T>
INLINE void copy_row(const RowWalk<Index>& walk, const T* from, T* to, bool inside) {
  Pack<T, V> own[4];
  walk.each([&](int k, Index at) { own[k] = inside ? load<V>(from + at * V) : Pack<T, V>{}; },
            [&](int k, Index at) { store<V>(to + at * V, own[k]); });
}
// Additions to V neighbours; four bytes and more at once where the hardware can.
template <int V, class T> INLINE void atomic_add_pack(T* p, const Pack<T, V>& v) {
#if !defined(FLAMBEAU_EMULATE) && __CUDA_ARCH__ >= 900
  if constexpr (Same<T, float>::value && V == 4) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(p), "f"(v.v[0]), "f"(v.v[1]), "f"(v.v[2]), "f"(v.v[3]) : "memory");
    return;
  }
  if constexpr (Same<T, float>::value && V == 2) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(p), "f"(v.v[0]), "f"(v.v[1]) : "memory");
    return;
  }
  if constexpr (IsHalf<T>::value && V % 2 == 0) {
#pragma unroll
    for (int j = 0; j < V; j += 2) {
      const uint32_t pair = uint32_t(v.v[j].bits) | uint32_t(v.v[j + 1].bits) << 16;
      if constexpr (Same<T, float16>::value)
        asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(p + j), "r"(pair) : "memory");
      else asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" :: "l"(p + j), "r"(pair) : "memory");
    }
    return;
  }
#endif
#pragma unroll
  for (int j = 0; j < V; ++j) atomic_add(p + j, v.v[j]);
}
