// Views: operators that only decide new sizes, strides and a first address for the same memory.
#include "views.h"

#include <algorithm>
#include <numeric>

#include "options.h"

namespace flambeau {

Slice slice_of(int64_t size, int64_t start, int64_t stop, int64_t step) {
  if (step == 0) value_error("slice step cannot be zero");
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto clip = [&](int64_t at) {
    if (at < 0) at += size;
    return std::clamp(at, low, high);
  };
  start = start == kNoBound ? (step > 0 ? low : high) : clip(start);
  stop = stop == kNoBound ? (step > 0 ? high : low) : clip(stop);
  uint64_t span = step > 0 ? (stop > start ? uint64_t(stop - start) : 0) : (start > stop ? uint64_t(start - stop) : 0);
  uint64_t pace = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
  return {start, step, span ? int64_t((span - 1) / pace) + 1 : 0};
}

void apply_slice(Layout& l, int dim, const Slice& s, int64_t itemsize) {
  if (s.length > 0 || s.step > 0) l.data += s.start * l.strides[dim] * itemsize;
  l.sizes[dim] = s.length;
  int64_t stride;  // a huge step leaves at most one element: its stride does not matter
  if (!__builtin_mul_overflow(l.strides[dim], s.step, &stride)) l.strides[dim] = stride;
}

bool view_strides(Dims sizes, Dims strides, Dims to, int64_t* result) {
  // Old dimensions fall into chunks that are contiguous in themselves; each chunk is cut up anew, from the back.
  int k = int(to.size()) - 1;
  int64_t chunk = 1, base = sizes.empty() ? 1 : strides.back();
  auto cut = [&] {
    int64_t done = 1;
    while (k >= 0 && (done < chunk || to[k] == 1)) {
      result[k] = done * base;
      done *= to[k--];
    }
    return done == chunk;
  };
  for (int d = int(sizes.size()) - 1; d >= 0; --d) {
    chunk *= sizes[d];
    bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * base);
    if (!ends) continue;
    if (!cut()) return false;
    if (d > 0) chunk = 1, base = strides[d - 1];
  }
  if (sizes.empty()) cut();
  return k < 0;
}

std::vector<int64_t> resolve_size(const char* op, Dims size, int64_t numel) {
  std::vector<int64_t> to(size.begin(), size.end());
  int64_t known = 1, unknown = -1;
  bool overflow = false;
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] == -1) {
      if (unknown >= 0) runtime_error(op, ": -1 can stand for one size only, got ", shape_text(size));
      unknown = int64_t(k);
    } else if (to[k] < 0) {
      runtime_error(op, ": invalid shape dimension ", to[k], " in ", shape_text(size));
    } else {
      overflow |= __builtin_mul_overflow(known, to[k], &known);
    }
  }
  if (!overflow && unknown >= 0) {
    if (known == 0 && numel == 0)
      runtime_error(op, ": an empty tensor does not say what -1 stands for in ", shape_text(size), "; write the size");
    if (known > 0 && numel % known == 0) to[unknown] = numel / known, known = numel;
  }
  if (overflow || known != numel) runtime_error(op, ": ", numel, " elements cannot have shape ", shape_text(size));
  return to;
}

bool dense(const Tensor& t) {
  if (t.contiguous()) return true;
  int order[kMaxDims];
  int n = 0;
  for (int d = 0; d < t.ndim; ++d)
    if (t.sizes[d] != 1) order[n++] = d;
  std::sort(order, order + n, [&](int a, int b) { return t.strides[a] < t.strides[b]; });
  int64_t step = 1;
  for (int k = 0; k < n; ++k) {
    if (t.strides[order[k]] != step) return false;
    step *= t.sizes[order[k]];
  }
  return true;
}

std::vector<int64_t> like_strides(const Tensor& t) {
  if (t.contiguous()) return contiguous_strides(t.shape());
  if (dense(t)) return {t.strides, t.strides + t.ndim};
  std::vector<int> order(t.ndim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    int64_t x = std::abs(t.strides[a]), y = std::abs(t.strides[b]);
    return x != 0 && y != 0 && x > y;  // a broadcast dimension stays where it is
  });
  std::vector<int64_t> strides(t.ndim);
  int64_t step = 1;
  for (int k = t.ndim; k-- > 0;) {
    strides[order[k]] = step;
    step *= std::max<int64_t>(t.sizes[order[k]], 1);
  }
  return strides;
}

std::vector<int64_t> format_strides(const Call& c, const Tensor& t, int64_t memory_format) {
  if (memory_format == 0) return contiguous_strides(t.shape());
  if (memory_format == 3) return like_strides(t);
  int want = memory_format == 1 ? 4 : 5;
  if (t.ndim != want)
    runtime_error(c.name(), ": memory_format channels_last", want == 5 ? "_3d" : "", " needs a tensor of ", want,
                  " dimensions, got ", int(t.ndim));
  std::vector<int64_t> strides(want);
  strides[1] = 1;
  int64_t step = std::max<int64_t>(t.sizes[1], 1);
  for (int d = want - 1; d >= 2; --d) strides[d] = step, step *= std::max<int64_t>(t.sizes[d], 1);
  strides[0] = step;
  return strides;
}

void begin_with_self(Call& c) {
  if (c.out().data != c.tensor(0).data) copy_into(c.out(), c.tensor(0));
}

void check_writable(const Call& c, const Tensor& t) {
  bool repeats = false;
  for (int d = 0; d < t.ndim; ++d) repeats |= t.strides[d] == 0 && t.sizes[d] > 1;
  if (repeats && t.numel > 0)
    runtime_error(c.name(), ": elements of the tensor written to share memory (shape ", shape_text(t.shape()),
                  ", strides ", shape_text(t.stride()), "); clone() it first");
}

namespace {

void infer_alias(Call& c) { c.view(alias(c.tensor(0))); }

// --- other shapes over the same elements -----------------------------------------------------------------------------

TensorRef reshaped(const Tensor& t, Dims to) {  // null when it needs a copy
  Layout l;
  l.ndim = int(to.size());
  l.data = t.data;
  std::copy(to.begin(), to.end(), l.sizes);
  if (t.contiguous()) {
    int64_t step = 1;
    for (int k = l.ndim; k-- > 0;) {
      l.strides[k] = step;
      step *= std::max<int64_t>(l.sizes[k], 1);
    }
    return l.of(t);
  }
  return view_strides(t.shape(), t.stride(), to, l.strides) ? l.of(t) : TensorRef();
}

void check_dims(const Call& c, size_t n) {
  if (n > size_t(kMaxDims)) runtime_error(c.name(), ": tensors have at most ", kMaxDims, " dimensions, got ", n);
}

void view_to(Call& c, const Tensor& t, Dims size) {
  check_dims(c, size.size());
  std::vector<int64_t> to = resolve_size(c.name(), size, t.numel);
  TensorRef r = reshaped(t, to);
  if (!r)
    runtime_error(c.name(), ": a tensor of shape ", shape_text(t.shape()), " with strides ", shape_text(t.stride()),
                  " cannot be seen as ", shape_text(to), " without a copy; use .reshape(...), which copies");
  c.view(std::move(r));
}
void infer_view(Call& c) { view_to(c, c.tensor(0), c.ints(1)); }
void infer_view_as(Call& c) { view_to(c, c.tensor(0), c.tensor(1).shape()); }

void infer_view_dtype(Call& c) {
  const Tensor& t = c.tensor(0);
  DType d = c.args[1].dtype;
  int64_t old_size = t.itemsize(), new_size = item_size(d);
  Layout l(t);
  if (old_size != new_size) {
    if (t.ndim == 0)
      runtime_error(c.name(), ": a 0-dim tensor of ", dtype_name(t.dtype), " cannot be viewed as ", dtype_name(d),
                    " (different element sizes)");
    int last = t.ndim - 1;
    if (t.strides[last] != 1)
      runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), ", of another size, the last "
                    "dimension must have stride 1, got ", t.strides[last]);
    int64_t ratio = std::max(old_size, new_size) / std::min(old_size, new_size);
    if (new_size < old_size) {
      for (int k = 0; k < last; ++k) l.strides[k] *= ratio;
      l.sizes[last] *= ratio;
    } else {
      if (l.sizes[last] % ratio)
        runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), " the last dimension must be "
                      "a multiple of ", ratio, ", got ", l.sizes[last]);
      if (t.offset() % ratio) runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), " the "
                                            "storage offset must be a multiple of ", ratio, ", got ", t.offset());
      for (int k = 0; k < last; ++k) {
        if (l.strides[k] % ratio && l.sizes[k] > 1)
          runtime_error(c.name(), ": self.stride(", k, ") must be divisible by ", ratio, ", but got ", l.strides[k]);
        l.strides[k] /= ratio;
      }
      l.sizes[last] /= ratio;
    }
  }
  TensorRef r = l.of(t);
  r->dtype = d;
  c.view(std::move(r));
}

// reshape, flatten, contiguous: a view where strides allow it, otherwise the kernel copies.
void reshape_to(Call& c, Dims to) {
  const Tensor& t = c.tensor(0);
  if (TensorRef r = reshaped(t, to)) return c.view(std::move(r));
  c.output(to, t.dtype, t.device);
}
void infer_reshape(Call& c) {
  check_dims(c, c.ints(1).size());
  reshape_to(c, resolve_size(c.name(), c.ints(1), c.tensor(0).numel));
}
void infer_reshape_as(Call& c) { reshape_to(c, resolve_size(c.name(), c.tensor(1).shape(), c.tensor(0).numel)); }
void cpu_reshape(Call& c) {
  const Tensor& t = c.tensor(0);
  Tensor& out = c.out();
  if (out.storage == t.storage) return;
  TensorRef same = view_of(out, t.shape(), contiguous_strides(t.shape()), out.data);
  copy_into(*same, t);
}

void infer_flatten(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t from = c.dim(1, t.ndim), to = c.dim(2, t.ndim);
  if (from > to) runtime_error(c.name(), ": start_dim must not be past end_dim, got ", from, " and ", to);
  if (t.ndim == 0) {
    int64_t one = 1;
    return reshape_to(c, Dims(&one, 1));
  }
  if (from == to) return c.push(TensorRef::borrow(&c.tensor(0)));
  Layout l;
  for (int k = 0; k < from; ++k) l.push(t.sizes[k], 0);
  l.push(std::accumulate(t.sizes + from, t.sizes + to + 1, int64_t(1), std::multiplies<>()), 0);
  for (int k = int(to) + 1; k < t.ndim; ++k) l.push(t.sizes[k], 0);
  reshape_to(c, l.shape());
}
void infer_ravel(Call& c) {  // one row without gaps: what is spread out is copied
  const Tensor& t = c.tensor(0);
  int64_t n = t.numel;
  if (t.contiguous()) reshape_to(c, Dims(&n, 1));
  else c.output(Dims(&n, 1), t.dtype, t.device);
}

void infer_unflatten(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t dim = c.dim(1, t.ndim);
  Dims sizes = c.ints(2);
  if (sizes.empty()) runtime_error(c.name(), ": sizes must be non-empty");
  if (t.ndim == 0) runtime_error(c.name(), ": expected a tensor of at least one dimension");
  std::vector<int64_t> part = resolve_size(c.name(), sizes, t.sizes[dim]);
  check_dims(c, t.ndim + part.size());
  Layout l(t);
  int64_t stride = l.strides[dim];
  l.erase(int(dim));
  for (size_t k = part.size(); k-- > 0;) {
    l.insert(int(dim), part[k], stride);
    stride *= std::max<int64_t>(part[k], 1);
  }
  c.view(l.of(t));
}

// --- order of dimensions ---------------------------------------------------------------------------------------------

void infer_permute(Call& c) {
  const Tensor& t = c.tensor(0);
  Dims dims = c.ints(1);
  if (int(dims.size()) != t.ndim)
    runtime_error(c.name(), ": dims must name all ", int(t.ndim), " dimensions, got ", dims.size());
  Layout l;
  l.data = t.data;
  uint64_t seen = 0;
  for (int64_t given : dims) {
    int64_t d = wrap_dim(given, t.ndim, c.name());
    if (seen >> d & 1) runtime_error(c.name(), ": a dim is named twice in ", shape_text(dims));
    seen |= uint64_t(1) << d;
    l.push(t.sizes[d], t.strides[d]);
  }
  c.view(l.of(t));
}

void swap_dims(Call& c, const Tensor& t, int64_t a, int64_t b) {
  Layout l(t);
  if (t.ndim > 0) {
    std::swap(l.sizes[a], l.sizes[b]);
    std::swap(l.strides[a], l.strides[b]);
  }
  c.view(l.of(t));
}
void infer_transpose(Call& c) {
  const Tensor& t = c.tensor(0);
  swap_dims(c, t, c.dim(1, t.ndim), c.dim(2, t.ndim));
}
void infer_t(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim > 2) runtime_error(c.name(), ": expected at most 2 dimensions, got ", int(t.ndim), "; transpose(i, j) or "
                                "mT name the two to swap");
  if (t.ndim < 2) return c.view(alias(t));
  swap_dims(c, t, 0, 1);
}
void infer_matrix_t(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim < 2) runtime_error(c.name(), ": mT transposes matrices, in the last two dimensions, and this tensor has ",
                                int(t.ndim));
  swap_dims(c, t, t.ndim - 2, t.ndim - 1);
}
void infer_reverse_dims(Call& c) {
  const Tensor& t = c.tensor(0);
  Layout l(t);
  std::reverse(l.sizes, l.sizes + l.ndim);
  std::reverse(l.strides, l.strides + l.ndim);
  c.view(l.of(t));
}

void infer_movedim(Call& c) {
  const Tensor& t = c.tensor(0);
  Dims source = c.ints(1), destination = c.ints(2);
  if (source.size() != destination.size())
    runtime_error(c.name(), ": source ", shape_text(source), " and destination ", shape_text(destination), " must name "
                  "equally many dimensions");
  int from[kMaxDims];
  std::fill(from, from + t.ndim, -1);
  uint64_t moved = 0, taken = 0;
  for (size_t k = 0; k < source.size(); ++k) {
    int64_t s = wrap_dim(source[k], t.ndim, c.name()), d = wrap_dim(destination[k], t.ndim, c.name());
    if (moved >> s & 1 || taken >> d & 1)
      runtime_error(c.name(), ": repeated dim in source or destination (", shape_text(source), " to ",
                    shape_text(destination), ")");
    moved |= uint64_t(1) << s;
    taken |= uint64_t(1) << d;
    if (t.ndim) from[d] = int(s);
  }
  Layout l;
  l.data = t.data;
  int next = 0;
  for (int d = 0; d < t.ndim; ++d) {
    if (from[d] < 0) {
      while (moved >> next & 1) ++next;
      from[d] = next++;
    }
    l.push(t.sizes[from[d]], t.strides[from[d]]);
  }
  c.view(l.of(t));
}

// --- dimensions of one element ---------------------------------------------------------------------------------------

void infer_squeeze(Call& c) {
  const Tensor& t = c.tensor(0);
  uint64_t drop = ~uint64_t(0);
  if (c.has(1)) {
    drop = 0;
    for (int64_t given : c.ints(1)) {
      uint64_t bit = uint64_t(1) << wrap_dim(given, t.ndim, c.name());
      if (drop & bit) runtime_error(c.name(), ": dim ", given, " is given twice");
      drop |= bit;
    }
  }
  Layout l;
  l.data = t.data;
  for (int d = 0; d < t.ndim; ++d)
    if (t.sizes[d] != 1 || !(drop >> d & 1)) l.push(t.sizes[d], t.strides[d]);
  c.view(l.of(t));
}

void infer_unsqueeze(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t d = c.dim(1, t.ndim + 1);
  Layout l(t);
  l.insert(int(d), 1, d < t.ndim ? t.sizes[d] * t.strides[d] : 1);
  c.view(l.of(t));
}

void expand_to(Call& c, const Tensor& t, Dims size) {
  int n = int(size.size());
  check_dims(c, size.size());
  if (n < t.ndim)
    runtime_error(c.name(), ": ", n, " sizes ", shape_text(size), " are too few for a tensor of shape ",
                  shape_text(t.shape()), "; -1 keeps the size of a dimension");
  Layout l;
  l.data = t.data;
  for (int k = 0; k < n; ++k) {
    int d = k - (n - t.ndim);
    int64_t want = size[k];
    if (d < 0) {
      if (want < 0) runtime_error(c.name(), ": size ", want, " stands for the size of dimension ", k, ", which is new "
                                  "and has none");
      l.push(want, 0);
      continue;
    }
    if (want == -1) want = t.sizes[d];
    if (want != t.sizes[d] && (t.sizes[d] != 1 || want < 0))
      runtime_error(c.name(), ": a tensor of shape ", shape_text(t.shape()), " cannot be expanded to ",
                    shape_text(size), ": dimension ", k, " has size ", t.sizes[d], ", which is neither ", want,
                    " nor 1");
    l.push(want, want == t.sizes[d] ? t.strides[d] : 0);
  }
  c.view(l.of(t));
}
void infer_expand(Call& c) { expand_to(c, c.tensor(0), c.ints(1)); }
void infer_expand_as(Call& c) { expand_to(c, c.tensor(0), c.tensor(1).shape()); }

// --- parts -----------------------------------------------------------------------------------------------------------

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

// --- complex numbers -------------------------------------------------------------------------------------------------

void part_view(Call& c, int64_t part) {
  const Tensor& t = c.tensor(0);
  if (!is_complex(t.dtype)) {
    if (part == 0) return c.push(TensorRef::borrow(&c.tensor(0)));
    runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(t.dtype));
  }
  Layout l(t);
  for (int k = 0; k < l.ndim; ++k) l.strides[k] *= 2;
  l.data += part * (t.itemsize() / 2);
  TensorRef r = l.of(t);
  r->dtype = real_of(t.dtype);
  c.view(std::move(r));
}
void infer_real(Call& c) { part_view(c, 0); }
void infer_imag(Call& c) { part_view(c, 1); }

void infer_view_as_real(Call& c) {
  const Tensor& t = c.tensor(0);
  if (!is_complex(t.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(t.dtype));
  Layout l(t);
  for (int k = 0; k < l.ndim; ++k) l.strides[k] *= 2;
  l.push(2, 1);
  TensorRef r = l.of(t);
  r->dtype = real_of(t.dtype);
  c.view(std::move(r));
}
void infer_view_as_complex(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.dtype != DType::Float32 && t.dtype != DType::Float64)
    runtime_error(c.name(), ": expected float32 or float64, got ", dtype_name(t.dtype));
  if (t.ndim == 0 || t.sizes[t.ndim - 1] != 2)
    runtime_error(c.name(), ": the last dimension must have size 2 (real, imaginary), got shape ",
                  shape_text(t.shape()));
  if (t.strides[t.ndim - 1] != 1) runtime_error(c.name(), ": the last dimension must have stride 1, got ",
                                                t.strides[t.ndim - 1]);
  if (t.offset() % 2) runtime_error(c.name(), ": the storage offset must be even, got ", t.offset());
  Layout l(t);
  --l.ndim;
  for (int k = 0; k < l.ndim; ++k) {
    if (l.strides[k] % 2 && l.sizes[k] > 1) runtime_error(c.name(), ": the strides before the last must be even, got ",
                                                          l.strides[k], " in dimension ", k);
    l.strides[k] /= 2;
  }
  TensorRef r = l.of(t);
  r->dtype = complex_of(t.dtype);
  c.view(std::move(r));
}

// contiguous: self when it is laid out so already
bool has_format(const Call& c, const Tensor& t, int64_t format) {
  if (format == 3) runtime_error(c.name(), ": preserve_format says nothing here, where a tensor shall become "
                                 "contiguous; name contiguous_format or channels_last");
  if (format == 0) return t.contiguous();
  std::vector<int64_t> strides = format_strides(c, t, format);
  for (int k = 0; k < t.ndim; ++k)
    if (t.sizes[k] != 1 && t.strides[k] != strides[k]) return false;
  return true;
}
void infer_contiguous(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t format = c.integer_or(1, 0);
  if (has_format(c, t, format)) return c.push(TensorRef::borrow(&c.tensor(0)));
  c.output(t.shape(), t.dtype, t.device, format_strides(c, t, format));
}
void cpu_contiguous(Call& c) {
  if (&c.out() != &c.tensor(0)) copy_into(c.out(), c.tensor(0));
}

const Primitives rows{
    {"alias", infer_alias, nullptr},
    {"view.size", infer_view, nullptr},
    {"view.dtype", infer_view_dtype, nullptr},
    {"view_as", infer_view_as, nullptr},
    {"reshape", infer_reshape, cpu_reshape},
    {"reshape_as", infer_reshape_as, cpu_reshape},
    {"flatten", infer_flatten, cpu_reshape},
    {"ravel", infer_ravel, cpu_reshape},
    {"unflatten", infer_unflatten, nullptr},
    {"permute", infer_permute, nullptr},
    {"transpose", infer_transpose, nullptr},
    {"t", infer_t, nullptr},
    {"mT", infer_matrix_t, nullptr},
    {"numpy_T", infer_reverse_dims, nullptr},
    {"movedim", infer_movedim, nullptr},
    {"squeeze", infer_squeeze, nullptr},
    {"unsqueeze", infer_unsqueeze, nullptr},
    {"expand", infer_expand, nullptr},
    {"expand_as", infer_expand_as, nullptr},
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
    {"real", infer_real, nullptr},
    {"imag", infer_imag, nullptr},
    {"view_as_real", infer_view_as_real, nullptr},
    {"view_as_complex", infer_view_as_complex, nullptr},
    {"contiguous", infer_contiguous, cpu_contiguous},
};

}  // namespace
}  // namespace flambeau
