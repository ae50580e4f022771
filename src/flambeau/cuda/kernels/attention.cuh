// Attention without the matrix of scores: a block for each query (or key), the others 128 at a time. Right for every
// shape, and without tensor cores: slow beside libraries.
#include "turns.cuh"
constexpr int kTile = 128;  // threads of a block, and keys (or queries) that it looks at together
constexpr int kWidths = 4;  // columns that a thread sums: up to 512 of them

struct Attention {
  int64_t queries, keys, width, values, causal;
  float scale;
};
// One pair's score, with what the mask says.
template <class T, class M, class Mask>
INLINE float score(const T* q, const T* k, const M* mask, const Mask& places, const Attention& a, int64_t batch,
                   int64_t i, int64_t j) {
  if (a.causal && j > i) return -infinity<float>();
  float sum = 0;
  for (int64_t e = 0; e < a.width; ++e) sum += cast<float>(q[e]) * cast<float>(k[e]);
  sum *= a.scale;
  if (!mask) return sum;
  const M m = mask[offset_of<int64_t>((batch * a.queries + i) * a.keys + j, places)];
  if constexpr (Same<M, bool>::value) return m ? sum : -infinity<float>();
  else return sum + cast<float>(m);
}
template <class T, class M, class Mask>
INLINE void attend(const T* query, const T* key, const T* value, const M* mask, const Mask& places, T* out, float* lse,
                   const Attention& a) {
  typedef Lanes<LogSumExp<float, float>> Op;
  __shared__ Op::Acc room[32];
  __shared__ float weight[kTile];
  const int64_t row = blockIdx.x, batch = row / a.queries, i = row % a.queries;
  const T *q = query + row * a.width, *k = key + batch * a.keys * a.width, *v = value + batch * a.keys * a.values;
  const Op op;
  Op::Acc acc = op.init();
  for (int64_t j = threadIdx.x; j < a.keys; j += kTile)
    acc = op.add(acc, score(q, k + j * a.width, mask, places, a, batch, i, j), j);
  acc = combine_block(op, acc, room);
  const float all = acc.top == -infinity<float>() ? -infinity<float>() : acc.top + log(acc.sum);
  float sum[kWidths] = {0, 0, 0, 0};
  for (int64_t j0 = 0; j0 < a.keys; j0 += kTile) {
    const int64_t j = j0 + threadIdx.x;
    __syncthreads();
    weight[threadIdx.x] =
        j < a.keys && all > -infinity<float>() ? exp(score(q, k + j * a.width, mask, places, a, batch, i, j) - all) : 0.f;
    __syncthreads();
    const int64_t many = a.keys - j0 < kTile ? a.keys - j0 : kTile;
#pragma unroll 1
    for (int c = 0; c < kWidths; ++c) {
      const int64_t e = c * kTile + threadIdx.x;
      if (e < a.values)
        for (int64_t t = 0; t < many; ++t) sum[0] += weight[t] * cast<float>(v[(j0 + t) * a.values + e]);
      turn<1>(sum);
    }
  }
#pragma unroll
  for (int c = 0; c < kWidths; ++c) {
    const int64_t e = c * kTile + threadIdx.x;
    if (e < a.values) out[row * a.values + e] = cast<T>(sum[c]);
  }
  if (threadIdx.x == 0) lse[row] = all;
}
// p = exp(score - lse) and what the loss gains by its score: p (grad . value - grad . out).
template <class T, class M, class Mask>
INLINE float slope(const T* q, const T* k, const T* v, const T* grad, const T* out, float all, const M* mask,
                   const Mask& places, const Attention& a, int64_t batch, int64_t i, int64_t j, float& p) {
  p = all > -infinity<float>() ? exp(score(q, k, mask, places, a, batch, i, j) - all) : 0.f;
  float gain = 0;
  for (int64_t e = 0; e < a.values; ++e)
    gain += cast<float>(grad[e]) * (cast<float>(v[e]) - cast<float>(out[e]));
  return p * gain;
}
// QUERIES: the gradient of one query, over all keys. Else of one key and its value, over all queries.
template <bool QUERIES, class T, class M, class Mask>
INLINE void attend_backward(const T* grad, const T* query, const T* key, const T* value, const M* mask,
                            const Mask& places, const T* out, const float* lse, T* to, T* to_value,
                            const Attention& a) {
  __shared__ float slopes[kTile], weights[kTile];
  const int64_t own = QUERIES ? a.queries : a.keys, others = QUERIES ? a.keys : a.queries;
  const int64_t row = blockIdx.x, batch = row / own, here = row % own;
  float sum[kWidths] = {0, 0, 0, 0}, with[kWidths] = {0, 0, 0, 0};
  for (int64_t t0 = 0; t0 < others; t0 += kTile) {
    const int64_t there = t0 + threadIdx.x;
    __syncthreads();
    float p = 0, s = 0;
    if (there < others) {
      const int64_t i = batch * a.queries + (QUERIES ? here : there), j = batch * a.keys + (QUERIES ? there : here);
      s = slope(query + i * a.width, key + j * a.width, value + j * a.values, grad + i * a.values, out + i * a.values,
                lse[i], mask, places, a, batch, i - batch * a.queries, j - batch * a.keys, p);
    }
    slopes[threadIdx.x] = s;
    weights[threadIdx.x] = p;
    __syncthreads();
    const int64_t many = others - t0 < kTile ? others - t0 : kTile, first = batch * others + t0;
    const T* other = QUERIES ? key : query;
#pragma unroll 1
    for (int c = 0; c < kWidths; ++c) {
      const int64_t e = c * kTile + threadIdx.x;
      if (e < a.width)
        for (int64_t t = 0; t < many; ++t) sum[0] += slopes[t] * cast<float>(other[(first + t) * a.width + e]);
      if (!QUERIES && e < a.values)
        for (int64_t t = 0; t < many; ++t) with[0] += weights[t] * cast<float>(grad[(first + t) * a.values + e]);
      turn<1>(sum);
      turn<1>(with);
    }
  }
#pragma unroll
  for (int c = 0; c < kWidths; ++c) {
    const int64_t e = c * kTile + threadIdx.x;
    if (e < a.width) to[row * a.width + e] = cast<T>(sum[c] * a.scale);
    if (!QUERIES && e < a.values) to_value[row * a.values + e] = cast<T>(with[c]);
  }
}
