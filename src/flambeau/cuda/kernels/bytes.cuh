// Images of bytes resized along one axis, with weights of 16 bits: the CPU's numbers (native/kernels/resize_bytes.cpp).

// The weights of all results along an axis by one block, of at most `most` taps each; `wide` is room for as many.
// Neighbouring taps that are one pixel, at the edges, are rounded together.
template <class TapsOf>
INLINE void byte_weights(const TapsOf& taps, int64_t out, int64_t most, double* wide, int16_t* weights, int64_t* places,
                         int* bits) {
  double largest = 0;
  for (int64_t o = threadIdx.x; o < out; o += 256) {
    const auto t = taps.of(o);
    for (int64_t k = 0; k < most; ++k) {
      const bool there = k < t.many;
      double w = there ? double(taps.weight(t, k)) : 0.0;
      const int64_t at = o * most + k, place = there ? taps.place(t, k) : 0;
      if (there && k && places[at - 1] == place) {
        w += wide[at - 1];
        wide[at - 1] = 0;
      }
      wide[at] = w;
      places[at] = place;
    }
    for (int64_t k = 0; k < most; ++k) largest = larger(largest, wide[o * most + k]);
  }
  largest = largest_block(largest);
  int own = 0;
  while (own < 22 && int(0.5 + largest * double(1 << (own + 1))) < (1 << 15)) ++own;
  for (int64_t o = threadIdx.x; o < out; o += 256)
    for (int64_t k = 0; k < most; ++k) {
      const double w = wide[o * most + k];
      weights[o * most + k] = int16_t(int(w * double(1 << own) + (w < 0 ? -0.5 : 0.5)));
    }
  if (threadIdx.x == 0) bits[0] = own;
}
template <char MODE> struct TapsAlong {
  int64_t in, out;
  double scale;
  float step;
  bool corners;
  INLINE Taps<double, MODE> of(int64_t o) const { return Taps<double, MODE>(o, in, out, scale, step, corners); }
  INLINE double weight(const Taps<double, MODE>& t, int64_t k) const { return t.weight[k]; }
  INLINE int64_t place(const Taps<double, MODE>& t, int64_t k) const { return t.place[k]; }
};
template <char MODE> struct CoveredAlong {
  int64_t in;
  double scale;
  INLINE Covered<double, MODE> of(int64_t o) const { return Covered<double, MODE>(o, in, scale); }
  INLINE double weight(const Covered<double, MODE>& t, int64_t k) const { return t.weight(k); }
  INLINE int64_t place(const Covered<double, MODE>& t, int64_t k) const { return t.first + k; }
};
// One byte of the result: `x` begins the row or column, whose bytes lie `step` apart.
INLINE uint8_t byte_sum(const uint8_t* x, int64_t step, const int16_t* weights, const int64_t* places, int64_t most,
                        int bits) {
  int sum = bits ? 1 << (bits - 1) : 0;
  for (int64_t k = 0; k < most; ++k)
    if (weights[k]) sum += int(x[places[k] * step]) * int(weights[k]);
  sum >>= bits;
  return uint8_t(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}
