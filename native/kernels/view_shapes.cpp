// Views of all elements in another shape or order of dimensions, and what copies where no view is possible.
#include <algorithm>
#include <numeric>

#include "options.h"
#include "views.h"

namespace flambeau {
namespace {

void infer_alias(Call& c) { c.view(alias(c.tensor(0))); }

// --- other shapes over the same elements -----------------------------------------------------------------------------

TensorRef reshaped(const Tensor& t, Dims to) {  // null when it needs a copy
  Layout l;
  l.ndim = int(to.size());
  l.data = t.data;
  if (t.contiguous()) {
    int64_t step = 1;
    for (int k = l.ndim; k-- > 0;) {
      const int64_t size = l.sizes[k] = to[size_t(k)];
      l.strides[k] = step;
      step *= std::max<int64_t>(size, 1);
    }
    return l.of(t);
  }
  std::copy(to.begin(), to.end(), l.sizes);
  return view_strides(t.shape(), t.stride(), to, l.strides) ? l.of(t) : TensorRef();
}

void view_to(Call& c, const Tensor& t, Dims size) {
  check_dims(c, size.size());
  const Sizes to = resolve_size(c.name(), size, t.numel);
  TensorRef r = reshaped(t, to);
  if (!r)
    runtime_error(c.name(), ": a tensor of shape ", shape_text(t.shape()), " with strides ", shape_text(t.stride()),
                  " cannot be seen as ", shape_text(to), " without a copy; use .reshape(...), which copies");
  c.view(std::move(r));
}
void infer_view(Call& c) { view_to(c, c.tensor(0), c.ints(1)); }
void infer_view_as(Call& c) { view_to(c, c.tensor(0), c.tensor(1).shape()); }

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
  check_dims(c, t.ndim + sizes.size());
  const Sizes part = resolve_size(c.name(), sizes, t.sizes[dim]);
  Layout l(t);
  int64_t stride = l.strides[dim];
  l.erase(int(dim));
  for (int k = part.ndim; k-- > 0;) {
    l.insert(int(dim), part.size[k], stride);
    stride *= std::max<int64_t>(part.size[k], 1);
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
  if (t.ndim == 0) return c.view(alias(t));
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
  for (int k = n - t.ndim - 1; k >= 0; --k)  // a new dimension of size 1 steps over what follows, as unsqueeze makes it
    if (l.sizes[k] == 1) l.strides[k] = k + 1 < n ? l.sizes[k + 1] * l.strides[k + 1] : 0;
  c.view(l.of(t));
}
void infer_expand(Call& c) { expand_to(c, c.tensor(0), c.ints(1)); }
void infer_expand_as(Call& c) { expand_to(c, c.tensor(0), c.tensor(1).shape()); }

// --- order in memory -------------------------------------------------------------------------------------------------

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
    {"view_as", infer_view_as, nullptr},
    {"reshape", infer_reshape, cpu_reshape, Images::Copied},
    {"reshape_as", infer_reshape_as, cpu_reshape, Images::Copied},
    {"flatten", infer_flatten, cpu_reshape, Images::Copied},
    {"ravel", infer_ravel, cpu_reshape, Images::Copied},
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
    {"contiguous", infer_contiguous, cpu_contiguous, Images::Copied},
};

}  // namespace
}  // namespace flambeau
