// Tables looked up by number: embedding with its gradient and renorm, and one_hot.
#include <cmath>
#include <cstring>

#include "combine.h"
#include "gemm.h"
#include "indices.h"
#include "options.h"
#include "steady.h"
#include "views.h"

namespace flambeau::indices {
namespace {

// embedding_rows(Tensor weight, Tensor indices, int padding_idx, bool scale_grad_by_freq)
void infer_embedding(Call& c) {
  const Tensor &weight = c.tensor(0), &index = c.tensor(1);
  if (weight.ndim != 2) runtime_error("embedding: weight must have 2 dimensions (num_embeddings, embedding_dim), got "
                                      "shape ", shape_text(weight.shape()));
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32)
    runtime_error("embedding: indices must be int64 or int32, got ", dtype_name(index.dtype));
  Layout l(index);
  l.push(weight.sizes[1], 1);
  c.output(l.shape(), weight.dtype, weight.device);
}
void cpu_embedding(Call& c) {
  const Tensor& weight = c.tensor(0);
  TensorRef index = index_vector(c.tensor(1));
  int64_t shape[2] = {index->numel, weight.sizes[1]};
  TensorRef out = view_of(c.out(), shape, contiguous_strides(shape), c.out().data);
  select_rows(c, weight, *index, *out, 0);
}

// (Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq)
void infer_embedding_backward(Call& c) {
  const Tensor &g = c.tensor(0), &index = c.tensor(1);
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32)
    runtime_error(c.name(), ": Expected dtype int64 for indices, got ", dtype_name(index.dtype));
  if (g.ndim != index.ndim + 1 || !std::equal(index.sizes, index.sizes + index.ndim, g.sizes))
    runtime_error(c.name(), ": expected a gradient of the indices' shape and one more dimension, got ",
                  shape_text(g.shape()), " for ", shape_text(index.shape()));
  if (c.boolean(4) && !is_floating(g.dtype))
    runtime_error(c.name(), ": scale_grad_by_freq needs a floating-point gradient, got ", dtype_name(g.dtype));
  int64_t shape[2] = {c.integer(2), g.sizes[g.ndim - 1]};
  check_size(c, shape);
  c.output(shape, g.dtype, g.device);
}
// Row k of `from` is added to row at[k] of `to`, divided by how often that number is seen where that is counted. The
// additions to one row keep their order: every thread owns a range of rows.
void add_rows(Tensor& to, const Tensor& from, const int64_t* at, int64_t n, int64_t padding,
              const std::vector<int64_t>& seen) {
  const int64_t rows = to.sizes[0], width = to.sizes[1], item = to.itemsize();
  LockRelease lock(n * width);
  parallel_for(rows, std::max<int64_t>(1, n * width < (1 << 17) ? rows : rows / 8), [&](int64_t first, int64_t last) {
    for (int64_t k = 0; k < n; ++k) {
      const int64_t r = index_within(at + k, rows);
      if (r < first || r >= last || r == padding) continue;
      char* row = to.data + r * width * item;
      const char* add = from.data + k * width * item;
      if (seen.empty()) {
        add_run(to.dtype, row, 1, add, 1, width);
      } else if (to.dtype == DType::Float64) {
        for (int64_t j = 0; j < width; ++j)
          reinterpret_cast<double*>(row)[j] += reinterpret_cast<const double*>(add)[j] / double(seen[r]);
      } else {
        for (int64_t j = 0; j < width; ++j)
          reinterpret_cast<float*>(row)[j] += reinterpret_cast<const float*>(add)[j] / float(seen[r]);
      }
    }
  });
}
// The same of halves, whose sums are float32 and rounded once: of the rows that anything is added to, and of no others.
void add_half_rows(Tensor& to, const Tensor& from, const int64_t* at, int64_t n, int64_t padding,
                   const std::vector<int64_t>& seen) {
  const int64_t rows = to.sizes[0], width = to.sizes[1];
  std::vector<int64_t> place(size_t(rows), -1), used, places(static_cast<size_t>(n)), counts;
  for (int64_t k = 0; k < n; ++k) {
    int64_t& p = place[size_t(index_within(at + k, rows))];
    if (p < 0) {
      p = int64_t(used.size()), used.push_back(&p - place.data());
      if (!seen.empty()) counts.push_back(seen[size_t(used.back())]);
    }
    places[size_t(k)] = p;
  }
  const int64_t shape[] = {int64_t(used.size()), width}, count = shape[0];
  TensorRef sums = empty(shape, DType::Float32), wide = to_dtype(from, DType::Float32);
  fill(*sums, Scalar(0));
  add_rows(*sums, *wide, places.data(), n, 0 <= padding && padding < rows ? place[size_t(padding)] : -1, counts);
  parallel_for(count, 1 + 32768 / (width + 1), [&](int64_t i, int64_t end) {
    for (; i < end; ++i)
      float_to_half(to.dtype, sums->ptr<float>() + i * width, to.ptr<uint16_t>() + used[size_t(i)] * width, width);
  });
}
void cpu_embedding_backward(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  TensorRef g = contiguous(c.tensor(0)), index = index_vector(c.tensor(1));
  int64_t rows = out.sizes[0], padding = c.integer(3), n = index->numel;
  const int64_t* at = index->ptr<int64_t>();
  check_indices(c, *index, 0, rows);
  std::vector<int64_t> seen;
  if (c.boolean(4)) {
    seen.assign(rows, 0);
    for (int64_t k = 0; k < n; ++k) ++seen[index_within(at + k, rows)];
  }
  if (is_half(out.dtype)) add_half_rows(out, *g, at, n, padding, seen);
  else add_rows(out, *g, at, n, padding, seen);
}

// embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type): rows that are used and too long
// shrink
void infer_renorm(Call& c) {
  if (c.tensor(0).ndim != 2 || !is_floating(c.tensor(0).dtype))
    runtime_error(c.name(), ": expected a 2-D floating-point weight");
  write_self(c);
}
void cpu_renorm(Call& c) {
  Tensor& out = c.out();
  TensorRef index = index_vector(c.tensor(1)), table = empty(out.shape(), DType::Float64);
  copy_into(*table, out);
  check_indices(c, *index, 0, out.sizes[0]);
  double most = c.real(2), p = c.real(3);
  int64_t width = out.sizes[1];
  std::vector<bool> done(out.sizes[0]);
  for (int64_t k = 0; k < index->numel; ++k) {
    int64_t r = index_within(index->ptr<int64_t>() + k, out.sizes[0]);
    if (done[r]) continue;
    done[r] = true;
    double* row = table->ptr<double>() + r * width;
    double norm = 0;
    for (int64_t j = 0; j < width; ++j) {
      double a = std::fabs(row[j]);
      norm = std::isinf(p) ? std::max(norm, a) : norm + (p == 0 ? a != 0 : std::pow(a, p));
    }
    if (!std::isinf(p) && p != 0) norm = std::pow(norm, 1 / p);
    if (norm <= most) continue;
    double scale = most / (norm + 1e-7);
    for (int64_t j = 0; j < width; ++j) row[j] *= scale;
  }
  copy_into(out, *table);
}

// one_hot(Tensor self, int num_classes): -1 takes the largest value + 1
void infer_one_hot(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t classes = c.integer_or(1, -1);
  if (t.dtype != DType::Int64) runtime_error(c.name(), ": classes must be int64, got ", dtype_name(t.dtype));
  if (classes < -1 || classes == 0) runtime_error(c.name(), ": num_classes should be positive, got ", classes);
  if (classes == -1) {
    if (t.is_meta()) not_implemented(c.name(), ": on the meta device num_classes must be given");
    if (t.numel == 0) runtime_error(c.name(), ": an empty tensor does not say how many classes there are; pass "
                                    "num_classes");
    TensorRef flat = contiguous(t);
    classes = *std::max_element(flat->ptr<int64_t>(), flat->ptr<int64_t>() + t.numel) + 1;
  }
  Layout l(t);
  l.push(std::max<int64_t>(classes, 0), 1);
  c.output(l.shape(), DType::Int64, t.device);
}
void cpu_one_hot(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  TensorRef index = contiguous(c.tensor(0));
  int64_t classes = out.sizes[out.ndim - 1];
  for (int64_t k = 0; k < index->numel; ++k) {
    int64_t at = __atomic_load_n(index->ptr<int64_t>() + k, __ATOMIC_RELAXED);
    if (at < 0) runtime_error(c.name(), ": class numbers must not be negative, got ", at);
    if (at >= classes) runtime_error(c.name(), ": class ", at, " is not below num_classes=", classes);
    out.ptr<int64_t>()[k * classes + at] = 1;
  }
}

const Primitives rows{
    {"embedding_rows", infer_embedding, cpu_embedding},
    {"embedding_dense_backward", infer_embedding_backward, cpu_embedding_backward},
    {"embedding_renorm_", infer_renorm, cpu_renorm},
    {"one_hot", infer_one_hot, cpu_one_hot, Infer::ReadsValues},
};

}  // namespace
}  // namespace flambeau::indices
