// What attention's passes share (attention.cpp, attention_halves.cpp): its sizes, where matrices and masks lie, and the
// loops over rows of scores, whose tables kernels/simd/attention.cpp fills.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "../core/call.h"

namespace flambeau {

struct AttentionKernels {
  float (*row_max)(const float* row, int64_t n);
  // score = p (score - mean) scale, where p are probabilities
  void (*row_grad)(float* score, const float* p, int64_t n, float mean, float scale);
};
extern const AttentionKernels* attention_kernels[2];

namespace attention {

struct Sizes {
  int64_t batch, queries, keys, width, values;
};

// Matrices of a batch: where each lies and its strides.
template <class T>
struct Matrices {
  const T* data;
  int64_t rs, cs;
  std::vector<int64_t> sizes, steps;
  explicit Matrices(const Tensor& t)
      : data(reinterpret_cast<const T*>(t.data)), rs(t.strides[t.ndim - 2]), cs(t.strides[t.ndim - 1]),
        sizes(t.sizes, t.sizes + t.ndim - 2), steps(t.strides, t.strides + t.ndim - 2) {}
  const T* at(int64_t index) const {
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0; index /= sizes[d]) offset += index % sizes[d] * steps[d];
    return data + offset;
  }
  T* into(int64_t index) const { return const_cast<T*>(at(index)); }  // of a result, whose rows lie in one piece
};

// What is added to the scores, or which of them count: of the scores' shape, repeated where a size is 1.
struct Mask {
  const char* data = nullptr;
  bool boolean = false;
  int64_t rs = 0, cs = 0;
  std::vector<int64_t> sizes, steps;
  Mask() = default;
  Mask(const Tensor& t, const Tensor& q)
      : data(t.data), boolean(t.dtype == DType::Bool), sizes(q.sizes, q.sizes + q.ndim - 2) {
    auto stride = [&](int from_end) {
      const int d = t.ndim - from_end;
      return d < 0 || t.size(d) == 1 ? int64_t(0) : t.strides[d];
    };
    rs = stride(2), cs = stride(1);
    for (int d = q.ndim; d > 2; --d) steps.push_back(stride(d));
  }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (size_t d = sizes.size(); d-- > 0; index /= sizes[d]) at += index % sizes[d] * steps[d];
    return at;
  }
  // row[j] += mask, or -infinity where it must not be seen
  void apply(float* row, int64_t n, int64_t batch_offset, int64_t i, int64_t j0) const {
    const int64_t at = batch_offset + i * rs + j0 * cs;
    if (boolean) {
      const char* m = data + at;
      for (int64_t j = 0; j < n; ++j) row[j] = m[j * cs] ? row[j] : -std::numeric_limits<float>::infinity();
    } else if (cs == 1) {
      const float* m = reinterpret_cast<const float*>(data) + at;
      for (int64_t j = 0; j < n; ++j) row[j] += m[j];
    } else {
      const float* m = reinterpret_cast<const float*>(data) + at;
      for (int64_t j = 0; j < n; ++j) row[j] += m[j * cs];
    }
  }
};

// How many keys of a block a query sees; what lies in a row behind them is to be zeros.
inline int64_t keys_seen(bool causal, int64_t query, int64_t first_key, int64_t cols) {
  return causal ? std::clamp<int64_t>(query + 1 - first_key, 0, cols) : cols;
}

// --- bfloat16 on processors that multiply it (attention_halves.cpp) --------------------------------------------------

// Two rows of a block of scores, of which so many numbers count, and what their gradients are made of.
struct TwoRows {
  const float *scores[2], *slopes[2];
  int64_t seen[2];
  float sum[2], mean[2];  // logarithmic sum of the exponentials; sum of the slopes by the probabilities
};
struct HalfRows {
  // x *= by; returns the largest
  float (*scaled_max)(float* x, int64_t n, float by);
  // to = e^(x - top), rounded, zeros from n to `wide`; returns the sum of what is written
  float (*exponentials)(const float* x, uint16_t* to, float top, int64_t n, int64_t wide);
  // to = x by, rounded
  void (*narrow)(const float* x, uint16_t* to, float by, int64_t n);
  // Of `wide` columns p = e^(by score - sum) and d = p (slope - mean) scale: both in panels of pairs, d also as rows.
  void (*slopes)(const TwoRows& of, int64_t wide, float by, float scale, uint16_t* p, uint16_t* d, int64_t panel,
                 uint16_t* const (&rows)[2]);
  float (*dot)(const uint16_t* a, const uint16_t* b, int64_t n);
};
extern const HalfRows* half_rows_of_attention;

struct HalfOperands {
  const Tensor *q, *k, *v;
  Mask mask;
  bool causal;
  float scale;
};
// Whether these are halves of such a processor, and enough of them.
bool takes_halves(const Tensor& q, const Sizes& s);
void forward_halves(const Sizes& s, const HalfOperands& of, const Tensor& out, float* lse);
void backward_halves(const Sizes& s, const HalfOperands& of, const Tensor& grad, const Tensor& result, const float* lse,
                     const Tensor& gq, const Tensor& gk, const Tensor& gv);

}  // namespace attention
}  // namespace flambeau
