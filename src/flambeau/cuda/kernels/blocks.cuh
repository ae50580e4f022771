// What kernels of whole rows are made of: layouts, sums over a warp and a block, more than one element per access.

// Sizes and strides (in elements), outermost dimension first.
template <int N> struct Layout {
  int64_t size[N], stride[N];
};
// The coordinates of element `at` in row-major order.
template <class Index, int N> INLINE void unravel(Index at, const Layout<N>& l, Index* place) {
  typedef typename Unsigned<Index>::type Size;
  Size rest = Size(at);
#pragma unroll
  for (int d = N - 1; d > 0; --d) {
    const Size size = Size(l.size[d]), next = rest / size;
    place[d] = Index(rest - next * size);
    rest = next;
  }
  place[0] = Index(rest);
}
template <class Index, int N> INLINE Index offset(const Layout<N>& l, const Index* place) {
  Index sum = 0;
#pragma unroll
  for (int d = 0; d < N; ++d) sum += place[d] * Index(l.stride[d]);
  return sum;
}
// The offset of element `at`, in one step.
template <class Index, int N> INLINE Index offset_of(Index at, const Layout<N>& l) {
  Index place[N];
  unravel(at, l, place);
  return offset(l, place);
}

// Where the block is in the grid; BACKWARDS: counted from its end.
struct BlockInGrid {
  uint32_t x, y;
};
template <bool BACKWARDS> INLINE BlockInGrid block_in_grid() {
  if (BACKWARDS) return {gridDim.x - 1 - blockIdx.x, gridDim.y - 1 - blockIdx.y};
  return {blockIdx.x, blockIdx.y};
}

// --- shuffles of any type, in words of 4 bytes
template <class T, class F> INLINE T by_words(T v, const F& f) {
  constexpr int words = (sizeof(T) + 3) / 4;
  union Words {
    T value;
    uint32_t word[words];
    INLINE Words() {}
  } from, to;
  from.value = v;
#pragma unroll
  for (int k = 0; k < words; ++k) to.word[k] = f(from.word[k]);
  return to.value;
}
template <class T> INLINE T shuffle_xor(T v, int mask) {
  return by_words(v, [=](uint32_t w) { return __shfl_xor_sync(0xffffffffu, w, mask); });
}

// The combination of all threads' values of one warp, in every lane; always in the same order.
template <class Op> INLINE typename Op::Acc combine_warp(const Op& op, typename Op::Acc v) {
#pragma unroll
  for (int k = 16; k > 0; k >>= 1) v = op.combine_lanes(v, op.shuffle(v, k), (threadIdx.x & k) != 0);
  return v;
}
// … of a block of up to 1024 threads, in every thread. `room`: shared, one accumulator per warp.
template <class Op> INLINE typename Op::Acc combine_block(const Op& op, typename Op::Acc v, typename Op::Acc* room) {
  v = combine_warp(op, v);
  const int warps = (blockDim.x + 31) / 32;
  if (warps == 1) return v;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[threadIdx.x / 32] = v;
  __syncthreads();
  if (warps & (warps - 1)) {
    v = room[0];
    for (int k = 1; k < warps; ++k) v = op.combine(v, room[k]);
    return v;
  }
  v = room[threadIdx.x & (warps - 1)];
  for (int k = warps / 2; k > 0; k >>= 1) v = op.combine_lanes(v, op.shuffle(v, k), (threadIdx.x & k) != 0);
  return v;
}
// Operations that kernels of rows use: a sum and a maximum that a NaN wins.
template <class T> struct SumOf {
  typedef T Acc;
  INLINE T combine(T a, T b) const { return a + b; }
  INLINE T combine_lanes(T a, T b, bool) const { return a + b; }
  INLINE T shuffle(T v, int k) const { return shuffle_xor(v, k); }
};
template <class T> struct LargestOf {
  typedef T Acc;
  INLINE T combine(T a, T b) const { return larger(a, b); }
  INLINE T combine_lanes(T a, T b, bool) const { return larger(a, b); }
  INLINE T shuffle(T v, int k) const { return shuffle_xor(v, k); }
};
// The combination of the values of all threads up to one's own, in a block of 256. `part`: shared, one for each thread;
// afterwards it holds what every thread got.
template <class Op> INLINE typename Op::Acc scan_block(const Op& op, typename Op::Acc own, typename Op::Acc* part) {
  __syncthreads();  // the scan before may still be read
  part[threadIdx.x] = own;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    if (threadIdx.x >= step) own = op.combine(part[threadIdx.x - step], own);
    __syncthreads();
    part[threadIdx.x] = own;
    __syncthreads();
  }
  return own;
}
template <class T> INLINE T sum_block(T v) {
  __shared__ T room[32];
  return combine_block(SumOf<T>(), v, room);
}
template <class T> INLINE T largest_block(T v) {
  __shared__ T room[32];
  return combine_block(LargestOf<T>(), v, room);
}
