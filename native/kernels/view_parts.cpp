// Views of a part of a tensor: slices, pieces, windows, diagonals, and any strides that stay in its storage.
#include "options.h"
#include "views.h"

namespace flambeau {
namespace {

void require_dims(const Call& c, const Tensor& t) {
  if (t.ndim == 0) runtime_error(c.name(), "(): the tensor has no dimension to take a part of");
}

void infer_slice(Call& c) {
  const Tensor& t = c.tensor(0);
  require_dims(c, t);
  int64_t d = c.dim(1, t.ndim);
  Layout l(t);
  apply_slice(l, int(d), slice_of(t.sizes[d], c.integer_or(2, kNoBound), c.integer_or(3, kNoBound), c.integer(4)),
              t.itemsize());
  c.view(l.of(t));
}

void infer_narrow(Call& c) {
  const Tensor& t = c.tensor(0);
  require_dims(c, t);
  int64_t d = c.dim(1, t.ndim), start = c.integer(2), length = c.integer(3), size = t.sizes[d];
  if (length < 0) runtime_error(c.name(), "(): length must not be negative, got ", length);
  if (start < -size || start > size)
    index_error(c.name(), ": start ", start, " is out of range for a dimension of size ", size, ": ", -size, " to ",
                size);
  if (start < 0) start += size;
  if (length > size - start)
    runtime_error(c.name(), ": start ", start, " + length ", length, " is past the end of a dimension of size ", size);
  Layout l(t);
  apply_slice(l, int(d), {start, 1, length}, t.itemsize());
  c.view(l.of(t));
}

void infer_select(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim == 0) index_error(c.name(), "(): the tensor has no dimension to take a part of");
  int64_t d = c.dim(1, t.ndim), at = c.integer(2), size = t.sizes[d];
  if (at < -size || at >= size)
    index_error(c.name(), "(): index ", at, " is outside dimension ", d, " of a tensor of shape ",
                shape_text(t.shape()));
  Layout l(t);
  l.data += (at < 0 ? at + size : at) * l.strides[d] * t.itemsize();
  l.erase(int(d));
  c.view(l.of(t));
}

// Refuses at once what would fill the memory with views one by one: an expanded dimension may be 2^62 long.
void expect_views(Call& c, int64_t n) {
  if (n > (int64_t(1) << 31))
    runtime_error(c.name(), ": the result would be ", n, " tensors; at most 2^31 are returned");
  c.more.reserve(size_t(n));
}

void push_part(Call& c, const Tensor& t, int64_t d, int64_t start, int64_t length) {
  Layout l(t);
  apply_slice(l, int(d), {start, 1, length}, t.itemsize());
  c.view(l.of(t));
}

void split_equal(Call& c, const Tensor& t, int64_t d, int64_t part) {
  int64_t size = t.sizes[d];
  if (part < 0) runtime_error(c.name(), ": split_size must not be negative, got ", part);
  if (part == 0 && size != 0) runtime_error(c.name(), ": a dimension of size ", size, " cannot be split into parts of "
                                            "size 0");
  if (size == 0 || part == 0) return push_part(c, t, d, 0, size);
  expect_views(c, (size - 1) / part + 1);
  for (int64_t start = 0; start < size; start += part) push_part(c, t, d, start, std::min(part, size - start));
}
void infer_split(Call& c) {
  const Tensor& t = c.tensor(0);
  require_dims(c, t);
  split_equal(c, t, c.dim(2, t.ndim), c.integer(1));
}
void infer_split_with_sizes(Call& c) {
  const Tensor& t = c.tensor(0);
  require_dims(c, t);
  int64_t d = c.dim(2, t.ndim), sum = 0;
  for (int64_t n : c.ints(1)) {
    if (n < 0)
      runtime_error(c.name(), ": expects split_sizes to have only non-negative entries, but got split_sizes=",
                    shape_text(c.ints(1)));
    if (__builtin_add_overflow(sum, n, &sum)) sum = -1;
  }
  if (sum != t.sizes[d])
    runtime_error(c.name(), ": split_sizes ", shape_text(c.ints(1)), " must add up to ", t.sizes[d], ", the size of "
                  "dimension ", d);
  int64_t start = 0;
  for (int64_t n : c.ints(1)) {
    push_part(c, t, d, start, n);
    start += n;
  }
}
void infer_chunk(Call& c) {
  const Tensor& t = c.tensor(0);
  require_dims(c, t);
  int64_t d = c.dim(2, t.ndim), chunks = c.integer(1);
  if (chunks <= 0) runtime_error(c.name(), ": chunks must be positive, got ", chunks);
  int64_t part = t.sizes[d] / chunks + (t.sizes[d] % chunks != 0);
  if (part == 0 && chunks > 65535) runtime_error(c.name(), ": ", chunks, " chunks of nothing are too many");
  if (part == 0) {  // PyTorch keeps the count of chunks when there is nothing to share out
    for (int64_t k = 0; k < chunks; ++k) push_part(c, t, d, 0, 0);
    return;
  }
  split_equal(c, t, d, part);
}

void infer_unbind(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim == 0) index_error(c.name(), ": dim ", c.integer(1), " of a tensor that has no dimensions");
  int64_t d = c.dim(1, t.ndim);
  Layout l(t);
  l.erase(int(d));
  expect_views(c, t.sizes[d]);
  for (int64_t k = 0; k < t.sizes[d]; ++k) {
    l.data = t.data + k * t.strides[d] * t.itemsize();
    c.view(l.of(t));
  }
}

void infer_unfold(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t d = c.dim(1, t.ndim), size = c.integer(2), step = c.integer(3), have = t.ndim ? t.sizes[d] : 1;
  if (size < 0) runtime_error(c.name(), ": size is ", size, " but must be >= 0");
  if (size > have) runtime_error(c.name(), ": size ", size, " is more than dimension ", d, " has, ", have);
  if (step <= 0) runtime_error(c.name(), ": step must be positive, got ", step);
  Layout l(t);
  if (t.ndim == 0) {
    l.push(size, 1);
  } else {
    int64_t stride = l.strides[d];
    l.sizes[d] = (have - size) / step + 1;
    // the stride of a single window says nothing: it may wrap
    l.strides[d] = l.sizes[d] > 1 ? size_product(c.name(), {stride, step}) : int64_t(uint64_t(stride) * uint64_t(step));
    l.push(size, stride);
  }
  c.view(l.of(t));
}

void infer_diagonal(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t offset = c.integer(1), a = c.dim(2, t.ndim), b = c.dim(3, t.ndim);
  if (a == b)
    runtime_error(c.name(), ": dim1 and dim2 must be two dimensions, got ", c.integer(2), " and ", c.integer(3));
  int64_t rows = t.sizes[a], columns = t.sizes[b];
  int64_t length =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  Layout l(t);
  if (length > 0) l.data += (offset >= 0 ? offset * t.strides[b] : -offset * t.strides[a]) * t.itemsize();
  l.erase(int(std::max(a, b)));
  l.erase(int(std::min(a, b)));
  l.push(length, t.strides[a] + t.strides[b]);
  c.view(l.of(t));
}

void infer_as_strided(Call& c) {
  const Tensor& t = c.tensor(0);
  Dims size = c.ints(1), stride = c.ints(2);
  int64_t offset = c.integer_or(3, t.offset()), first = offset, last = offset;
  if (size.size() != stride.size())
    runtime_error(c.name(), ": sizes ", shape_text(size), " and strides ", shape_text(stride), " must be equally many");
  check_dims(c, size.size());
  if (offset < 0) runtime_error(c.name(), ": storage_offset must be non-negative, got ", offset);
  bool empty = false, overflow = false;
  for (size_t k = 0; k < size.size(); ++k) {
    if (size[k] < 0) runtime_error(c.name(), ": sizes must not be negative, got ", size[k], " in ", shape_text(size));
    int64_t reach = 0;
    if (size[k] == 0) {
      empty = true;
      continue;
    }
    int64_t& end = stride[k] < 0 ? first : last;
    overflow |= __builtin_mul_overflow(size[k] - 1, stride[k], &reach) || __builtin_add_overflow(end, reach, &end);
  }
  if (!empty && !t.is_meta() && (overflow || first < 0 || last >= int64_t(t.storage->nbytes) / t.itemsize()))
    runtime_error(c.name(), ": sizes ", shape_text(size), " with strides ", shape_text(stride), " from element ",
                  offset, " on reach outside the storage of ", t.storage ? t.storage->nbytes : 0, " bytes");
  char* start = t.is_meta() ? t.data : static_cast<char*>(t.storage->data) + (empty ? 0 : offset) * t.itemsize();
  c.view(view_of(t, size, stride, start));
}

const Primitives rows{
    {"slice", infer_slice, nullptr},
    {"narrow", infer_narrow, nullptr},
    {"select", infer_select, nullptr},
    {"split.size", infer_split, nullptr},
    {"split_with_sizes", infer_split_with_sizes, nullptr},
    {"chunk", infer_chunk, nullptr},
    {"unbind", infer_unbind, nullptr},
    {"unfold", infer_unfold, nullptr},
    {"diagonal", infer_diagonal, nullptr},
    {"as_strided", infer_as_strided, nullptr},
};

}  // namespace
}  // namespace flambeau
