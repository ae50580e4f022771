// Masks as indices: nonzero, and reading and writing where a mask is true.
#include "masks.h"

#include <algorithm>

#include "combine.h"
#include "options.h"

namespace flambeau {

int64_t count_true(const Tensor& mask) {  // contiguous bool
  int64_t n = 0;
  const uint8_t* m = mask.ptr<uint8_t>();
  for (int64_t k = 0; k < mask.numel; ++k) n += m[k] != 0;
  return n;
}
TensorRef as_mask(const Tensor& t) { return contiguous(*to_dtype(t, DType::Bool)); }

void true_places(const Tensor& mask, int64_t n, int64_t* out) {
  const uint8_t* m = mask.ptr<uint8_t>();
  int ndim = mask.ndim;
  if (ndim == 0 || n == 0) return;
  int64_t at[kMaxDims] = {}, j = 0, last = mask.sizes[ndim - 1];
  for (int64_t base = 0; base < mask.numel && j < n; base += last) {
    int64_t first = j, *column = out + (ndim - 1) * n;
    for (int64_t k = 0; k < last && j < n; ++k) {  // no branch on the mask: it cannot be predicted
      column[j] = k;
      j += m[base + k] != 0;
    }
    for (int d = 0; d + 1 < ndim; ++d) std::fill(out + d * n + first, out + d * n + j, at[d]);
    for (int d = ndim - 2; d >= 0 && ++at[d] == mask.sizes[d]; --d) at[d] = 0;
  }
  for (int d = 0; d < ndim; ++d) std::fill(out + d * n + j, out + (d + 1) * n, int64_t(0));
}

namespace {

void refuse_meta(const Call& c, const Tensor& t) {
  if (t.is_meta())
    not_implemented(c.name(), ": the result's shape depends on values, which a meta tensor does not have");
}

void infer_nonzero(Call& c) {
  const Tensor& t = c.tensor(0);
  refuse_meta(c, t);
  int64_t n = count_true(*c.hand_over(as_mask(t))), shape[2] = {n, t.ndim}, strides[2] = {1, std::max<int64_t>(n, 1)};
  c.output(shape, DType::Int64, t.device, strides);  // one dimension's coordinates after the other, as PyTorch has them
}
void cpu_nonzero(Call& c) {
  Tensor& out = c.out();
  if (out.numel) true_places(*c.handed<TensorRef>(), out.sizes[0], out.ptr<int64_t>());
}

// One row of coordinates per dimension, each its own contiguous tensor; a 0-d tensor counts as one of shape [1].
void infer_nonzero_tuple(Call& c) {
  const Tensor& t = c.tensor(0);
  refuse_meta(c, t);
  int64_t n = count_true(*c.hand_over(as_mask(t)));
  for (int k = 0; k < std::max<int>(t.ndim, 1); ++k) c.output(Dims(&n, 1), DType::Int64, t.device);
}
void cpu_nonzero_tuple(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t n = c.out(0).numel;
  if (t.ndim == 0) {
    if (n) c.out(0).ptr<int64_t>()[0] = 0;
    return;
  }
  std::vector<int64_t> all(n * t.ndim);
  true_places(*c.handed<TensorRef>(), n, all.data());
  for (int k = 0; k < t.ndim; ++k) std::copy_n(all.data() + k * n, n, c.out(k).ptr<int64_t>());
}

void check_bool_mask(const Call& c, const Tensor& mask) {
  if (mask.dtype != DType::Bool)
    runtime_error(c.name(), ": expected BoolTensor for mask, got ", dtype_name(mask.dtype));
}
void infer_masked_select(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1);
  check_bool_mask(c, mask);
  refuse_meta(c, mask);
  std::vector<int64_t> shape = broadcast_shapes(t.shape(), mask.shape(), c.name());
  int64_t n = count_true(*c.hand_over(expanded(mask, shape, DType::Bool)));
  c.output(Dims(&n, 1), t.dtype, t.device);
}
void cpu_masked_select(Call& c) {
  const TensorRef& m = c.handed<TensorRef>();
  TensorRef t = expanded(c.tensor(0), m->shape(), c.tensor(0).dtype);
  const uint8_t* keep = m->ptr<uint8_t>();
  visit_size(t->itemsize(), [&]<class T>() {
    const T* from = t->ptr<T>();
    T *to = c.out().ptr<T>(), *end = to + c.out().numel;
    for (int64_t k = 0; k < m->numel && to < end; ++k) {  // no branch on the mask: it cannot be predicted
      *to = from[k];
      to += keep[k] != 0;
    }
    std::fill(to, end, T{});  // another thread has cleared some since they were counted
  });
}

// masked_scatter(Tensor self, Tensor mask, Tensor source): the true places take source's elements in order
void infer_masked_scatter(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1), &source = c.tensor(2);
  check_bool_mask(c, mask);
  if (t.dtype != source.dtype)
    runtime_error(c.name(), ": source must have the tensor's dtype ", dtype_name(t.dtype), ", got ",
                  dtype_name(source.dtype));
  std::vector<int64_t> shape = broadcast_shapes(t.shape(), mask.shape(), c.name());
  if (c.inplace) {
    if (!std::ranges::equal(Dims(shape), t.shape()))
      runtime_error(c.name(), ": the mask of shape ", shape_text(mask.shape()), " does not fit self of shape ",
                    shape_text(t.shape()));
    check_writable(c, t);
    output_self(c);
  } else {
    c.output(shape, t.dtype, t.device);
  }
}
void cpu_masked_scatter(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  TensorRef mask = expanded(c.tensor(1), out.shape(), DType::Bool), source = contiguous(c.tensor(2)),
            to = contiguous(out);
  int64_t n = count_true(*mask), j = 0;
  if (n > source->numel)
    runtime_error(c.name(), ": the mask selects ", n, " elements and source holds ", source->numel);
  const uint8_t* keep = mask->ptr<uint8_t>();
  visit_size(out.itemsize(), [&]<class T>() {
    for (int64_t k = 0; k < mask->numel; ++k)
      if (keep[k] && j < source->numel) to->ptr<T>()[k] = source->ptr<T>()[j++];
  });
  if (to.get() != &out) copy_into(out, *to);
}

const Primitives rows{
    {"nonzero_rows", infer_nonzero, cpu_nonzero, Infer::ReadsValues},
    {"nonzero_numpy", infer_nonzero_tuple, cpu_nonzero_tuple, Infer::ReadsValues},
    {"masked_select", infer_masked_select, cpu_masked_select, Infer::ReadsValues},
    {"masked_scatter", infer_masked_scatter, cpu_masked_scatter},
};

}  // namespace
}  // namespace flambeau
