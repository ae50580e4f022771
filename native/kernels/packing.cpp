// Sequences of different lengths between their two forms: padded [steps, sequences, *], and packed rows, those of step
// 0 of all sequences, then those of step 1 of the sequences that have one, and so on. Rows are moved as bytes.
#include <cstring>

#include "elementwise.h"

namespace flambeau {
namespace {

// The batch sizes of an argument: their sum is the number of packed rows.
int64_t rows_of(const Call& c, Dims batch_sizes, int64_t steps, int64_t sequences) {
  int64_t rows = 0, before = sequences;
  if (int64_t(batch_sizes.size()) > steps)
    runtime_error(c.name(), ": ", int64_t(batch_sizes.size()), " batch sizes for ", steps, " steps");
  for (int64_t n : batch_sizes) {
    if (n < 0 || n > before) runtime_error(c.name(), ": batch sizes must not rise or pass ", sequences, ", got ", n);
    rows = size_sum(c.name(), {rows, before = n});
  }
  return rows;
}

// Calls move(row of the packed form, step, first sequence, sequences) per step.
template <class F>
void each_step(Dims batch_sizes, F&& move) {
  int64_t row = 0;
  for (size_t t = 0; t < batch_sizes.size(); ++t) {
    move(row, int64_t(t), batch_sizes[t]);
    row += batch_sizes[t];
  }
}

bool dense_rows(const Tensor& t) {  // everything after the first two dimensions without gaps
  int64_t step = 1;
  for (int d = t.ndim - 1; d >= 2; --d) {
    if (t.size(d) != 1 && t.strides[d] != step) return false;
    step *= t.size(d);
  }
  return true;
}

// pack_rows(input, batch_sizes, batch_first)
void infer_pack(Call& c) {
  const Tensor& x = c.tensor(0);
  const bool batch_first = c.boolean(2);
  if (x.ndim < 2) runtime_error(c.name(), ": expected steps and sequences, got shape ", shape_text(x.shape()));
  std::vector<int64_t> shape(x.sizes + 1, x.sizes + x.ndim);
  shape[0] = rows_of(c, c.ints(1), x.size(batch_first), x.size(!batch_first));
  c.output(shape, x.dtype, x.device);
}
void cpu_pack(Call& c) {
  TensorRef x = dense_rows(c.tensor(0)) ? TensorRef::borrow(&c.tensor(0)) : contiguous(c.tensor(0));
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const int64_t bytes = out.nbytes() / out.size(0), item = x->itemsize();
  const int64_t step = x->strides[c.boolean(2)] * item, sequence = x->strides[!c.boolean(2)] * item;
  LockRelease lock(out.nbytes() / 16);
  each_step(c.ints(1), [&](int64_t row, int64_t t, int64_t n) {
    char* to = out.data + row * bytes;
    const char* from = x->data + t * step;
    if (sequence == bytes) std::memcpy(to, from, size_t(n * bytes));
    else for (int64_t k = 0; k < n; ++k) std::memcpy(to + k * bytes, from + k * sequence, size_t(bytes));
  });
}

// pad_rows(data, batch_sizes, sequences, batch_first, padding_value, steps)
void infer_pad(Call& c) {
  const Tensor& x = c.tensor(0);
  const int64_t sequences = c.integer(2), steps = c.integer(5);
  if (x.ndim < 1 || rows_of(c, c.ints(1), steps, sequences) != x.size(0))
    runtime_error(c.name(), ": the batch sizes do not add up to the rows of ", shape_text(x.shape()));
  std::vector<int64_t> shape{steps, sequences};
  if (c.boolean(3)) std::swap(shape[0], shape[1]);
  shape.insert(shape.end(), x.sizes + 1, x.sizes + x.ndim);
  c.output(shape, x.dtype, x.device);
}
void cpu_pad(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const int64_t sequences = c.integer(2), steps = c.integer(5), bytes = out.nbytes() / (sequences * steps);
  const int64_t step = c.boolean(3) ? bytes : sequences * bytes, sequence = c.boolean(3) ? steps * bytes : bytes;
  int64_t shape[] = {bytes / out.itemsize()};
  TensorRef padding = empty(shape, out.dtype);
  fill(*padding, c.scalar(4));
  LockRelease lock(out.nbytes() / 16);
  auto pad = [&](int64_t t, int64_t from) {
    for (int64_t k = from; k < sequences; ++k)
      std::memcpy(out.data + t * step + k * sequence, padding->data, size_t(bytes));
  };
  each_step(c.ints(1), [&](int64_t row, int64_t t, int64_t n) {
    char* to = out.data + t * step;
    const char* from = x->data + row * bytes;
    if (sequence == bytes) std::memcpy(to, from, size_t(n * bytes));
    else for (int64_t k = 0; k < n; ++k) std::memcpy(to + k * sequence, from + k * bytes, size_t(bytes));
    pad(t, n);
  });
  for (int64_t t = int64_t(c.ints(1).size()); t < steps; ++t) pad(t, 0);
}

const Primitives rows{
    {"pack_rows", infer_pack, cpu_pack},
    {"pad_rows", infer_pad, cpu_pad},
};

}  // namespace
}  // namespace flambeau
