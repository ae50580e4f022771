// Where the elements of a fused group lie; native/cuda/groups.cpp has the same struct.
struct Walk {
  int32_t ndim, unused;
  int64_t sizes[8];
  int64_t strides[16][8];
};
// The offsets of element `at` in the first COUNT operands, dimensions below FIRST left out.
template <class Index, int COUNT, int FIRST> INLINE void walk_to(const Walk& w, Index at, Index* offset) {
  typedef typename Unsigned<Index>::type Size;
#pragma unroll
  for (int k = 0; k < COUNT; ++k) offset[k] = 0;
  Size rest = Size(at);
#pragma unroll
  for (int d = FIRST; d < 8; ++d) {
    if (d >= w.ndim) break;
    const Size size = Size(w.sizes[d]), next = rest / size;
    const Index place = Index(rest - next * size);
    rest = next;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) offset[k] += place * Index(w.strides[k][d]);
  }
}
