// Loops over K registers do PART of them at a time and then turn all by PART, so that their text need not be repeated K
// times; K / PART turns later everything is where it was.
template <int PART, int K, class V> INLINE void turn(V (&own)[K]) {
  if constexpr (PART < K) {
    V first[PART];
#pragma unroll
    for (int k = 0; k < PART; ++k) first[k] = own[k];
#pragma unroll
    for (int k = 0; k < K; ++k) own[k] = k + PART < K ? own[k + PART < K ? k + PART : 0] : first[k + PART - K];
  }
}
