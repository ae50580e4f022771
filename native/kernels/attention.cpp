// Attention without the matrix of scores: blocks of queries meet blocks of keys, the softmax is corrected as its
// maximum grows (Milakov and Gimelshein 2018; Dao et al. 2022), and the gradient recomputes the scores from their
// logarithmic sum.
#include "attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../core/machine.h"
#include "elementwise.h"
#include "gemm.h"
#include "options.h"
#include "row_loops.h"

namespace flambeau {

const AttentionKernels* attention_kernels[2];

namespace {

using namespace attention;
using Floats = Matrices<float>;

// One block of scores: 64 KiB, or of wide heads, whose keys and values are to be packed less often, 256 KiB. The blocks
// depend on sizes alone.
constexpr int64_t kQueries = 64, kKeys = 256, kTall = 256, kWide = 512;

const AttentionKernels& row_kernels() {
  static const auto& chosen = best_loops(attention_kernels);
  return chosen;
}

// Queries of a block.
int64_t tall_of(const Sizes& s) { return s.width + s.values > kWide ? kTall : kQueries; }
Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {count(q.shape().first(q.ndim - 2)), q.size(q.ndim - 2), k.size(k.ndim - 2), q.size(q.ndim - 1),
      v.size(v.ndim - 1)};
}

// scores[rows, cols] of a block
void block_scores(const Sizes& s, const float* q, const Floats& qm, const float* k, const Floats& km, float scale,
                  int64_t i0, int64_t rows, int64_t j0, int64_t cols, float* to, bool threads) {
  gemm<float>(rows, cols, s.width, q + i0 * qm.rs, qm.rs, qm.cs, k + j0 * km.rs, km.cs, km.rs, to, cols, {scale},
              threads);
}
void clear(float* rows, int64_t n, int64_t width, int64_t apart) {
  for (int64_t i = 0; i < n; ++i) std::fill_n(rows + i * apart, width, 0.f);
}
constexpr int64_t kRowGrain = 32;  // rows of scores that are worth a thread
constexpr int64_t kPieces = 8;     // of wide heads: fewer would leave threads without work

// long because: one pass over a block of keys: scores, their exponentials and the sum live in the same scratch memory
void forward(const Sizes& s, const Floats& qm, const Floats& km, const Floats& vm, const Mask& mask, bool causal,
             float scale, const Floats& om, float* lse) {
  const auto& kernels = row_kernels();
  const int64_t tall = tall_of(s), blocks = (s.queries + tall - 1) / tall, pieces = s.batch * blocks;
  const bool shared = tall > kQueries && pieces < kPieces;  // threads share each block
  const int64_t grain = std::max<int64_t>(1, (1 << 17) / (tall * s.keys * (s.width + s.values) + 1));
  parallel_for(pieces, shared ? pieces : grain, [&](int64_t t, int64_t end) {
    float* scores = scratch<float>(kScratchC, tall * kKeys);
    float top[kTall], sum[kTall];
    for (; t < end; ++t) {
      const int64_t b = t / blocks, i0 = t % blocks * tall, rows = std::min(tall, s.queries - i0);
      const float *q = qm.at(b), *k = km.at(b), *v = vm.at(b);
      const int64_t mask_at = mask.data ? mask.offset(b) : 0;
      float* o = om.into(b) + i0 * om.rs;
      clear(o, rows, s.values, om.rs);
      for (int64_t i = 0; i < rows; ++i) top[i] = -std::numeric_limits<float>::infinity(), sum[i] = 0;
      const int64_t stop = causal ? std::min(s.keys, i0 + rows) : s.keys;
      for (int64_t j0 = 0; j0 < stop; j0 += kKeys) {
        const int64_t cols = std::min(kKeys, stop - j0);
        block_scores(s, q, qm, k, km, scale, i0, rows, j0, cols, scores, shared);
        parallel_for(rows, kRowGrain, [&](int64_t i, int64_t last) {
          for (; i < last; ++i) {
            float* row = scores + i * cols;
            const int64_t seen = keys_seen(causal, i0 + i, j0, cols);
            std::fill(row + seen, row + cols, 0.f);
            if (mask.data) mask.apply(row, seen, mask_at, i0 + i, j0);
            float m = std::max(top[i], kernels.row_max(row, seen));
            // a row that saw nothing yet stays empty instead of becoming inf - inf
            float shift = m == -std::numeric_limits<float>::infinity() ? 0 : m;
            float keep = top[i] == m ? 1 : std::exp(top[i] - shift);
            sum[i] = sum[i] * keep + float(exp_sum(row, row, shift, seen));
            if (keep != 1)
              for (int64_t d = 0; d < s.values; ++d) o[i * om.rs + d] *= keep;
            top[i] = m;
          }
        });
        gemm<float>(rows, s.values, cols, scores, cols, 1, v + j0 * vm.rs, vm.rs, vm.cs, o, om.rs, {1, 1}, shared);
      }
      for (int64_t i = 0; i < rows; ++i) {
        const float by = sum[i] == 0 ? 0 : 1 / sum[i];
        for (int64_t d = 0; d < s.values; ++d) o[i * om.rs + d] *= by;
        lse[b * s.queries + i0 + i] = top[i] + std::log(sum[i]);
      }
    }
  });
}

// One matrix of the batch per piece of work: sums over queries and over keys stay in one thread, or in products that
// threads share.
// long because: three gradients share every block of scores, which is computed once
void backward(const Sizes& s, const Floats& gm, const Floats& qm, const Floats& km, const Floats& vm,
              const Mask& mask, const Floats& om, const float* lse, bool causal, float scale, const Floats& gq,
              const Floats& gk, const Floats& gv) {
  const auto& kernels = row_kernels();
  const int64_t tall = tall_of(s);
  const bool shared = tall > kQueries && s.batch < kPieces;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / (s.queries * s.keys * (s.width + s.values) + 1));
  parallel_for(s.batch, shared ? s.batch : grain, [&](int64_t b, int64_t end) {
    float* p = scratch<float>(kScratchC, tall * kKeys);
    float* ds = scratch<float>(kScratchD, tall * kKeys);
    float mean[kTall];
    for (; b < end; ++b) {
      const int64_t mask_at = mask.data ? mask.offset(b) : 0;
      const float *g = gm.at(b), *q = qm.at(b), *k = km.at(b), *v = vm.at(b), *o = om.at(b);
      float *dq = gq.into(b), *dk = gk.into(b), *dv = gv.into(b);
      clear(dq, s.queries, s.width, gq.rs);
      clear(dk, s.keys, s.width, gk.rs);
      clear(dv, s.keys, s.values, gv.rs);
      for (int64_t i0 = 0; i0 < s.queries; i0 += tall) {
        const int64_t rows = std::min(tall, s.queries - i0);
        const float* gb = g + i0 * gm.rs;
        for (int64_t i = 0; i < rows; ++i) {
          mean[i] = 0;
          for (int64_t d = 0; d < s.values; ++d) mean[i] += gb[i * gm.rs + d * gm.cs] * o[(i0 + i) * om.rs + d * om.cs];
        }
        const int64_t stop = causal ? std::min(s.keys, i0 + rows) : s.keys;
        for (int64_t j0 = 0; j0 < stop; j0 += kKeys) {
          const int64_t cols = std::min(kKeys, stop - j0);
          block_scores(s, q, qm, k, km, scale, i0, rows, j0, cols, p, shared);
          gemm<float>(rows, cols, s.values, gb, gm.rs, gm.cs, v + j0 * vm.rs, vm.cs, vm.rs, ds, cols, {}, shared);
          parallel_for(rows, kRowGrain, [&](int64_t i, int64_t last) {
            for (; i < last; ++i) {
              float *row = p + i * cols, *slopes = ds + i * cols;
              const int64_t seen = keys_seen(causal, i0 + i, j0, cols);
              std::fill(row + seen, row + cols, 0.f);
              std::fill(slopes + seen, slopes + cols, 0.f);
              if (mask.data) mask.apply(row, seen, mask_at, i0 + i, j0);
              const float sum = lse[b * s.queries + i0 + i];  // -infinity: the query saw nothing
              exp_sum(row, row, sum == -std::numeric_limits<float>::infinity() ? 0 : sum, seen);
              kernels.row_grad(slopes, row, seen, mean[i], scale);
            }
          });
          gemm<float>(cols, s.values, rows, p, 1, cols, gb, gm.rs, gm.cs, dv + j0 * gv.rs, gv.rs, {1, 1}, shared);
          gemm<float>(rows, s.width, cols, ds, cols, 1, k + j0 * km.rs, km.rs, km.cs, dq + i0 * gq.rs, gq.rs,
                      {1, 1}, shared);
          gemm<float>(cols, s.width, rows, ds, 1, cols, q + i0 * qm.rs, qm.rs, qm.cs, dk + j0 * gk.rs, gk.rs,
                      {1, 1}, shared);
        }
      }
    }
  });
}

void check(const Call& c, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto shapes = [&] { return concat("query ", shape_text(q.shape()), ", key ", shape_text(k.shape()), ", value ",
      shape_text(v.shape())); };
  if (q.ndim < 2 || k.ndim != q.ndim || v.ndim != q.ndim)
    runtime_error(c.name(), ": expected query, key and value of equally many dimensions, at least 2, got ", shapes());
  bool fits = k.size(k.ndim - 1) == q.size(q.ndim - 1) && v.size(v.ndim - 2) == k.size(k.ndim - 2);
  for (int d = 0; fits && d < q.ndim - 2; ++d) fits = q.size(d) == k.size(d) && q.size(d) == v.size(d);
  if (!fits) runtime_error(c.name(), ": the shapes do not fit: ", shapes());
  if (q.dtype != k.dtype || q.dtype != v.dtype || (q.dtype != DType::Float32 && !is_half(q.dtype)))
    runtime_error(c.name(), ": expected query, key and value of one dtype, float32, float16 or bfloat16, got ",
        dtype_name(q.dtype),
                  ", ", dtype_name(k.dtype), " and ", dtype_name(v.dtype));
}

void check_mask(const Call& c, int at, const Tensor& q, const Tensor& k) {
  const Tensor* m = c.optional_tensor(at);
  if (!m) return;
  bool fits = m->ndim <= q.ndim;
  for (int d = 1; fits && d <= m->ndim; ++d) {
    const int64_t full = d == 1 ? k.size(k.ndim - 2) : d == 2 ? q.size(q.ndim - 2) : q.size(q.ndim - d);
    fits = m->size(m->ndim - d) == 1 || m->size(m->ndim - d) == full;
  }
  if (!fits)
    runtime_error("scaled_dot_product_attention: a mask of shape ", shape_text(m->shape()),
                  " does not broadcast to the scores of query ", shape_text(q.shape()), " and key ",
                  shape_text(k.shape()));
}
TensorRef mask_tensor(const Call& c, int at) {
  Tensor* m = c.optional_tensor(at);
  if (!m) return {};
  return m->dtype == DType::Bool ? TensorRef::borrow(m) : to_dtype(*m, DType::Float32);
}
Mask mask_of(const TensorRef& m, const Tensor& q) { return m ? Mask(*m, q) : Mask(); }

TensorRef rows_side_by_side(Tensor& t) {
  return t.strides[t.ndim - 1] == 1 || t.size(t.ndim - 1) == 1 ? TensorRef::borrow(&t) : contiguous(t);
}
int64_t work_of(const Sizes& s) { return s.batch * s.queries * s.keys * (s.width + s.values) / 16; }

// A result that lies as `like` does: where heads lie inside of rows, joining them again is no copy then. Kernels of a
// GPU know that order and the usual one; those here need rows in one piece.
void output_as(Call& c, Dims shape, const Tensor& like) {
  const int64_t* by = like.strides;
  if (like.ndim == 4 && like.device.type == DeviceType::CUDA && by[1] < by[2]) {
    const int64_t heads = std::max<int64_t>(1, shape[1]), rows = std::max<int64_t>(1, shape[2]);
    const int64_t width = std::max<int64_t>(1, shape[3]), strides[] = {rows * heads * width, width, heads * width, 1};
    c.output(shape, like.dtype, like.device, strides);
  } else if (like.ndim == 4 && like.device.type != DeviceType::CUDA && by[3] == 1 && by[0] && by[1] && by[2] &&
             std::ranges::equal(shape, like.shape())) {
    c.output(shape, like.dtype, like.device, like_strides(like));
  } else {
    c.output(shape, like.dtype, like.device);
  }
}

// fused_attention(query, key, value, mask, is_causal, scale, cudnn) -> result, logarithm of each query's sum (float32)
void infer_attention(Call& c) {
  Tensor &q = c.tensor(0), &k = c.tensor(1), &v = c.tensor(2);
  check(c, q, k, v);
  check_mask(c, 3, q, k);
  std::vector<int64_t> shape(q.sizes, q.sizes + q.ndim);
  shape.back() = v.size(v.ndim - 1);
  output_as(c, shape, q);
  shape.pop_back();
  c.output(shape, DType::Float32, q.device);
}
void cpu_attention(Call& c) {
  Tensor &out = c.out(0), &lse = c.out(1);
  if (lse.numel == 0) return;
  TensorRef m = mask_tensor(c, 3), wide;
  if (const Sizes s = sizes_of(c.tensor(0), c.tensor(1), c.tensor(2)); takes_halves(c.tensor(0), s)) {
    const TensorRef q = rows_side_by_side(c.tensor(0)), k = rows_side_by_side(c.tensor(1)),
                    v = rows_side_by_side(c.tensor(2));
    LockRelease lock(work_of(s));
    return forward_halves(s, {q.get(), k.get(), v.get(), mask_of(m, *q), c.boolean(4), float(c.real(5))},
                          out, lse.ptr<float>());
  }
  TensorRef q = to_dtype(c.tensor(0), DType::Float32), k = to_dtype(c.tensor(1), DType::Float32),
      v = to_dtype(c.tensor(2), DType::Float32);
  Tensor* to = &out;
  if (out.dtype != DType::Float32) wide = empty(out.shape(), DType::Float32, out.device), to = wide.get();
  {
    Sizes s = sizes_of(*q, *k, *v);
    LockRelease lock(work_of(s));
    forward(s, Floats(*q), Floats(*k), Floats(*v), mask_of(m, *q), c.boolean(4), float(c.real(5)), Floats(*to),
            lse.ptr<float>());
  }
  if (wide) copy_into(out, *wide);
}

// fused_attention_backward(grad, query, key, value, mask, result, lse, is_causal, scale, cudnn) -> gradients of query,
// key, value
void infer_backward(Call& c) {
  Tensor &q = c.tensor(1), &k = c.tensor(2), &v = c.tensor(3);
  check(c, q, k, v);
  check_mask(c, 4, q, k);
  const Dims rows(q.sizes, size_t(q.ndim - 1));
  if (!std::ranges::equal(c.tensor(0).shape(), c.tensor(5).shape()) || c.tensor(5).ndim != q.ndim ||
      c.tensor(6).numel != size_product(c.name(), rows) || c.tensor(5).size(q.ndim - 1) != v.size(q.ndim - 1))
    runtime_error(c.name(), ": the gradient ", shape_text(c.tensor(0).shape()), " and the result ",
        shape_text(c.tensor(5).shape()), " do not fit the query ", shape_text(q.shape()));
  for (const Tensor* t : {&q, &k, &v}) output_as(c, t->shape(), *t);
}
void cpu_backward(Call& c) {
  TensorRef in[5], lse = contiguous(*to_dtype(c.tensor(6), DType::Float32)), wide[3];
  TensorRef m = mask_tensor(c, 4);
  if (const Sizes s = sizes_of(c.tensor(1), c.tensor(2), c.tensor(3)); takes_halves(c.tensor(1), s)) {
    for (int n = 0; n < 5; ++n) in[n] = rows_side_by_side(c.tensor(n < 4 ? n : 5));
    LockRelease lock(2 * work_of(s));
    const HalfOperands of{in[1].get(), in[2].get(), in[3].get(), mask_of(m, *in[1]), c.boolean(7), float(c.real(8))};
    return backward_halves(s, of, *in[0], *in[4], lse->ptr<float>(), c.out(0), c.out(1), c.out(2));
  }
  for (int n = 0; n < 5; ++n) in[n] = to_dtype(c.tensor(n < 4 ? n : 5), DType::Float32);
  bool same = c.out(0).dtype == DType::Float32;
  for (int n = 0; n < 3; ++n)
    wide[n] = same ? TensorRef::borrow(&c.out(n)) : empty(c.out(n).shape(), DType::Float32, c.out(n).device);
  {
    Sizes s = sizes_of(*in[1], *in[2], *in[3]);
    LockRelease lock(2 * work_of(s));
    backward(s, Floats(*in[0]), Floats(*in[1]), Floats(*in[2]), Floats(*in[3]), mask_of(m, *in[1]),
             Floats(*in[4]), lse->ptr<float>(), c.boolean(7), float(c.real(8)), Floats(*wide[0]), Floats(*wide[1]),
             Floats(*wide[2]));
  }
  for (int n = 0; n < 3 && !same; ++n) copy_into(c.out(n), *wide[n]);
}

const Primitives rows{
    {"fused_attention", infer_attention, cpu_attention},
    {"fused_attention_backward", infer_backward, cpu_backward},
};

}  // namespace
}  // namespace flambeau
