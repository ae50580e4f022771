// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): four words for every (seed, thread, offset), in any order.

struct Given {  // what the generator hands over; in a recorded graph `state` is where both lie at each replay
  uint64_t seed, offset;
  const uint64_t* state;
};
struct Drawn {
  uint64_t seed, offset;
  INLINE explicit Drawn(const Given& g)
      : seed(g.state ? g.state[0] : g.seed), offset(g.state ? g.state[1] + g.offset : g.offset) {}
};
struct Four {
  uint32_t v[4];
};
INLINE Four philox(uint64_t seed, uint64_t subsequence, uint64_t counter) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = uint32_t(subsequence);
  uint32_t c3 = uint32_t(subsequence >> 32), k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    const uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// (0, 1]: never 0, so that its logarithm exists.
INLINE float unit(uint32_t v) { return float(v) * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
INLINE double unit(uint32_t low, uint32_t high) {
  const uint64_t v = uint64_t(low) ^ (uint64_t(high) << 21);
  return double(v) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
// Logarithm, exponential, sine with cosine, and tangent: for float the hardware's, as in PyTorch, whose numbers these are then.
template <class A> INLINE A quick_log(A v) { return log(v); }
template <class A> INLINE A quick_tan(A v) { return tan(v); }
template <class A> INLINE A quick_exp(A v) { return exp(v); }
INLINE void sine_cosine(float v, float* sine, float* cosine) {
#ifdef FLAMBEAU_EMULATE
  *sine = sin(v), *cosine = cos(v);
#else
  __sincosf(v, sine, cosine);
#endif
}
#ifndef FLAMBEAU_EMULATE
template <> INLINE float quick_log(float v) { return __logf(v); }
template <> INLINE float quick_tan(float v) { return __tanf(v); }
template <> INLINE float quick_exp(float v) { return __expf(v); }
#endif
// Two normal numbers from two uniform ones (Box and Muller 1958).
INLINE void normal_pair(uint32_t a, uint32_t b, float* out) {
  const float s = sqrt(-2.f * log(unit(a))), angle = float(b) * 1.4629180792671596e-9f + 7.314590396335798e-10f;
  sine_cosine(angle, out, out + 1);
  out[0] *= s;
  out[1] *= s;
}
INLINE void normal_pair(double u, double v, double* out) {
  const double s = sqrt(-2. * log(u)), angle = v * 6.283185307179586;
  out[0] = s * sin(angle);
  out[1] = s * cos(angle);
}
// Four draws of a thread: uniform, normal, whole.
template <class A> INLINE void uniform_four(Four w, A* out);
template <> INLINE void uniform_four<float>(Four w, float* out) {
  for (int k = 0; k < 4; ++k) out[k] = unit(w.v[k]);
}
template <class A> INLINE void normal_four(Four w, A* out);
template <> INLINE void normal_four<float>(Four w, float* out) {
  normal_pair(w.v[0], w.v[1], out);
  normal_pair(w.v[2], w.v[3], out + 2);
}
// double: two numbers from four words
INLINE void uniform_two(Four w, double* out) {
  out[0] = unit(w.v[0], w.v[1]);
  out[1] = unit(w.v[2], w.v[3]);
}
INLINE void normal_two(Four w, double* out) {
  normal_pair(unit(w.v[0], w.v[1]), unit(w.v[2], w.v[3]), out);
}
// Thread t of all `width` draws elements t, t + width, … : `many` from each call of philox.
template <int MANY, class Index, class Draw>
INLINE void draw_elements(Drawn from, Index n, Draw draw) {
  const int64_t width = int64_t(gridDim.x) * blockDim.x, t = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  uint64_t counter = from.offset / 4;
  for (int64_t i = t; i < n; i += width * MANY) draw(philox(from.seed, uint64_t(t), counter++), i, width);
}
// The same for EACH (4 or 2) elements of x beside each other, as draw(four words, these, place): thread t takes packs t,
// t + width, …; a call of philox serves 4 / EACH of them. Three packs are on their way while numbers are drawn.
template <int EACH, class T, class Draw> INLINE void draw_packs(Drawn from, const T* x, int64_t n, Draw draw) {
  constexpr int many = 3;
  const int64_t width = int64_t(gridDim.x) * blockDim.x, t = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = width * EACH;
  Pack<T, EACH> next[many];
#pragma unroll
  for (int k = 0; k < many; ++k)
    if (t * EACH + k * step < n) next[k] = load<EACH>(x + t * EACH + k * step);
  uint64_t counter = from.offset / 4;
  Four w{};
  int part = 0;
  for (int64_t i = t * EACH; i < n; i += step, part = (part + EACH) % 4) {
    const Pack<T, EACH> own = next[0];
#pragma unroll
    for (int k = 1; k < many; ++k) next[k - 1] = next[k];
    if (i + many * step < n) next[many - 1] = load<EACH>(x + i + many * step);
    if (part == 0) w = philox(from.seed, uint64_t(t), counter++);
    else w.v[0] = w.v[2], w.v[1] = w.v[3];
    draw(w, own, i);
  }
}
