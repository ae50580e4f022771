// Copies: joining and repeating tensors, clone, copy_, triangles.
#include <algorithm>

#include "../core/channels_last.h"
#include "options.h"
#include "pieces.h"
#include "walk.h"
#include "views.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 15;  // bytes a thread should have to copy at least

// --- cat and stack ---------------------------------------------------------------------------------------------------

// PyTorch lets 1-d tensors without elements join anything.
bool skipped(const Tensor& t) { return t.ndim == 1 && t.sizes[0] == 0; }

std::span<Tensor* const> require_some(const Call& c) {
  std::span<Tensor* const> tensors = c.tensors(0);
  if (tensors.empty()) value_error(c.name(), ": the list of tensors is empty");
  return tensors;
}
DType joint_dtype(std::span<Tensor* const> tensors) {
  DType d = tensors[0]->dtype;
  for (Tensor* t : tensors) d = t->dtype == d ? d : promote_types(d, t->dtype);
  return d;
}

void infer_cat(Call& c) {
  std::span<Tensor* const> tensors = require_some(c);
  const Tensor* first = nullptr;
  for (Tensor* t : tensors) {
    if (t->ndim == 0) runtime_error(c.name(), ": zero-dimensional tensor cannot be concatenated");
    if (!skipped(*t) && !first) first = t;
  }
  if (!first)  // only 1-d tensors without elements: any dim
    return void(c.output(Dims{tensors[0]->sizes, 1}, joint_dtype(tensors), tensors[0]->device));
  Layout l(*first);
  int64_t d = c.dim(1, first->ndim), total = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& t = *tensors[k];
    if (skipped(t)) continue;
    if (t.ndim != first->ndim)
      runtime_error(c.name(), ": tensor 0 has ", int(first->ndim), " dimensions and tensor ", k, " has ", int(t.ndim),
                    "; they must have equally many");
    for (int j = 0; j < t.ndim; ++j)
      if (j != d && t.sizes[j] != first->sizes[j])
        runtime_error(c.name(), ": tensor 0 has size ", first->sizes[j], " in dimension ", j, " and tensor ", k,
                      " has ", t.sizes[j], "; they may differ only in dimension ", d);
    total = size_sum(c.name(), {total, t.sizes[d]});
  }
  l.sizes[d] = total;
  c.output(l.shape(), joint_dtype(tensors), first->device);
}

void join(Tensor& out, std::span<Tensor* const> tensors, int64_t d, bool stacked) {
  int64_t outer = 1;
  for (int k = 0; k < d; ++k) outer *= out.sizes[k];
  if (out.numel == 0) return;
  int64_t pitch = out.nbytes() / outer, row = 0;
  RowPieces pieces(tensors.size());
  for (Tensor* t : tensors) {
    if (!stacked && skipped(*t)) continue;
    const int64_t bytes = t->numel * out.itemsize() / outer, at = row * out.strides[d] * out.itemsize();
    if (t->contiguous() && out.contiguous() && t->dtype == out.dtype) {
      pieces.add({t->data, bytes, at, bytes});
    } else {
      Layout l(out);
      l.data += at;
      if (stacked) l.erase(int(d));
      else l.sizes[d] = t->sizes[d];
      TensorRef place = l.of(out);
      copy_into(*place, *t);
    }
    row += stacked ? 1 : t->sizes[d];
  }
  if (pieces.count) copy_pieces(out.data, outer, pitch, out.itemsize(), pieces.all());
}
void cpu_cat(Call& c) {
  if (c.out().numel) join(c.out(), c.tensors(0), c.dim(1, c.out().ndim), false);
}

void infer_stack(Call& c) {
  std::span<Tensor* const> tensors = c.tensors(0);
  if (tensors.empty()) runtime_error(c.name(), ": the list of tensors is empty");
  const Tensor& first = *tensors[0];
  int64_t d = c.dim(1, first.ndim + 1);
  for (size_t k = 0; k < tensors.size(); ++k)
    if (!std::ranges::equal(tensors[k]->shape(), first.shape()))
      runtime_error(c.name(), ": tensor 0 has shape ", shape_text(first.shape()), " and tensor ", k, " has ",
                    shape_text(tensors[k]->shape()), "; all must have one shape");
  const int64_t n = int64_t(tensors.size());
  Layout l(first);
  l.insert(int(d), n, 0);
  if (d == first.ndim || !std::ranges::all_of(tensors, [](Tensor* t) { return has_channels_last_order(*t); })) {
    c.output(l.shape(), joint_dtype(tensors), first.device);
    return;
  }
  count(l.shape());  // throws before strides that do not fit are computed
  // Images with the channels last lie as those of `cat` do, whose dimension d is n times as long.
  Layout joined(first);
  joined.sizes[d] *= n;
  std::vector<int64_t> strides = channels_last_strides(joined.shape());
  strides.insert(strides.begin() + d, strides[size_t(d)] * first.sizes[d]);
  c.output(l.shape(), joint_dtype(tensors), first.device, strides);
}
void cpu_stack(Call& c) { join(c.out(), c.tensors(0), c.dim(1, c.out().ndim), true); }

// --- repeat ----------------------------------------------------------------------------------------------------------

void infer_repeat(Call& c) {
  const Tensor& t = c.tensor(0);
  Dims repeats = c.ints(1);
  if (int(repeats.size()) < t.ndim)
    runtime_error(c.name(), ": ", repeats.size(), " repeats are too few for a tensor of ", int(t.ndim), " dimensions");
  Layout l;
  int extra = int(repeats.size()) - t.ndim;
  for (size_t k = 0; k < repeats.size(); ++k) {
    if (repeats[k] < 0) runtime_error(c.name(), ": repeats must not be negative, got ", repeats[k], " in ",
                                      shape_text(repeats));
    int64_t size;
    if (__builtin_mul_overflow(repeats[k], int(k) < extra ? 1 : t.sizes[k - extra], &size))
      runtime_error(c.name(), ": the size of dimension ", k, " overflows an int64");
    l.push(size, 0);
  }
  c.output(l.shape(), t.dtype, t.device);
}
void cpu_repeat(Call& c) {
  const Tensor& t = c.tensor(0);
  Tensor& out = c.out();
  if (out.numel == 0) return;
  // the result seen as [r0, s0, r1, s1, …]; self lacks the r dimensions. Only true repeats get a dimension of their
  // own.
  Layout to, from;
  to.data = out.data;
  from.data = t.data;
  int extra = out.ndim - t.ndim;
  for (int k = 0; k < out.ndim; ++k) {
    int64_t size = k < extra ? 1 : t.sizes[k - extra], stride = k < extra ? 0 : t.strides[k - extra];
    int64_t repeats = out.sizes[k] / size;
    if (repeats != 1) {
      to.push(repeats, size * out.strides[k]);
      from.push(repeats, 0);
    }
    if (size != 1) {
      to.push(size, out.strides[k]);
      from.push(size, stride);
    }
  }
  TensorRef place = to.of(out), source = from.of(t);
  copy_into(*place, *source);
}

// repeat_interleave_index(Tensor repeats, int? output_size): [2, 0, 1] -> [0, 0, 2]
int64_t repeats_total(Call& c, const Tensor& repeats) {
  int64_t total = 0;
  for (int64_t k = 0; k < repeats.numel; ++k) {
    int64_t r = repeats.ptr<int64_t>()[k];
    if (r < 0) runtime_error(c.name(), ": repeats can not be negative, got ", r);
    if (__builtin_add_overflow(total, r, &total)) runtime_error(c.name(), ": too many repeats");
  }
  return total;
}
TensorRef int64_list(const Tensor& t) { return contiguous(*to_dtype(t, DType::Int64)); }

void infer_repeat_interleave(Call& c) {
  const Tensor& r = c.tensor(0);
  if (r.ndim > 1) runtime_error(c.name(), ": repeats must have at most 1 dimension, got shape ", shape_text(r.shape()));
  if (r.dtype != DType::Int64 && r.dtype != DType::Int32) runtime_error(c.name(), ": repeats must be int64 or int32, "
                                                                        "got ", dtype_name(r.dtype));
  if (r.is_meta() && !c.has(1))
    not_implemented(c.name(), ": on the meta device the result's size is only known with output_size");
  int64_t total = r.is_meta() ? c.integer(1) : repeats_total(c, *c.hand_over(int64_list(r)));
  if (c.has(1) && c.integer(1) != total) runtime_error(c.name(), ": output_size=", c.integer(1), ", but the repeats "
                                                       "add up to ", total);
  c.output(Dims(&total, 1), DType::Int64, r.device);
}
void cpu_repeat_interleave(Call& c) {
  const TensorRef& repeats = c.handed<TensorRef>();
  int64_t* out = c.out().ptr<int64_t>();
  int64_t left = c.out().numel;  // what was counted: the repeats may be others by now
  for (int64_t k = 0; k < repeats->numel; ++k) {
    const int64_t n = std::clamp<int64_t>(__atomic_load_n(repeats->ptr<int64_t>() + k, __ATOMIC_RELAXED), 0, left);
    out = std::fill_n(out, n, k);
    left -= n;
  }
  std::fill_n(out, left, int64_t(0));
}

// --- clone, copy_ ----------------------------------------------------------------------------------------------------

void infer_clone(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t format = c.integer_or(1, 3);
  if (t.contiguous() && (format == 3 || format == 0)) c.output(t.shape(), t.dtype, t.device);
  else c.output(t.shape(), t.dtype, t.device, format_strides(c, t, format));
}
void cpu_clone(Call& c) { copy_into(c.out(), c.tensor(0)); }

void infer_copy_(Call& c) {
  Tensor& self = c.tensor(0);
  const Tensor& source = c.tensor(1);
  std::vector<int64_t> shape = broadcast_shapes(self.shape(), source.shape(), c.name());
  if (!std::ranges::equal(shape, self.shape()))
    runtime_error(c.name(), ": the tensor written to has shape ", shape_text(self.shape()), " and cannot grow to ",
                  shape_text(shape), ", which a source of shape ", shape_text(source.shape()), " needs");
  check_writable(c, self);
  write_self(c);
}
void cpu_copy_(Call& c) {
  NonBlocking may_go_on(c.boolean(2));
  copy_into(c.out(), c.tensor(1));
}

// --- triangles of matrices -------------------------------------------------------------------------------------------

void infer_triangle(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim < 2) runtime_error(c.name(), ": expected a matrix, or a batch of them, got shape ", shape_text(t.shape()));
  output_self(c);
}
template <bool Upper>
void cpu_triangle(Call& c) {
  Tensor &out = c.out(), &self = c.tensor(0);
  // rows that lie alike are copied up to the edge, others as a whole before
  const bool along = !c.given && self.contiguous() && out.contiguous();
  if (!along) begin_with_self(c);
  if (out.numel == 0) return;
  int64_t rows = out.sizes[out.ndim - 2], columns = out.sizes[out.ndim - 1], diagonal = c.integer(1);
  int64_t column_stride = out.strides[out.ndim - 1];
  // rows are walked one by one, unmerged: a row's place in its matrix follows from the count
  Walk<1> lines;
  for (int d = 0; d + 1 < out.ndim; ++d) {
    lines.size[d] = out.sizes[d];
    lines.stride[0][d] = out.strides[d];
  }
  lines.size[out.ndim - 1] = columns;
  lines.stride[0][out.ndim - 1] = column_stride;
  lines.ndim = out.ndim;
  lines.rows = out.numel / columns;
  visit_size(out.itemsize(), [&]<class T>() {
    T *data = out.ptr<T>(), *from = along ? self.ptr<T>() : nullptr;
    LockRelease lock(out.numel);
    parallel_for(lines.rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t a, int64_t b) {
      int64_t row = a % rows;
      lines.each_row(a, b, [&](const int64_t* offset) {
        __int128 edge = __int128(row) + diagonal + (Upper ? 0 : 1);
        int64_t cut = edge < 0 ? 0 : edge > columns ? columns : int64_t(edge);
        const int64_t zeros = Upper ? 0 : cut, end = Upper ? cut : columns, kept = Upper ? cut : 0;
        T* line = data + offset[0];
        if (from) {
          std::copy_n(from + offset[0] + kept, columns - (end - zeros), line + kept);
          std::fill(line + zeros, line + end, T{});
        } else {
          for (int64_t k = zeros; k < end; ++k) line[k * column_stride] = T{};
        }
        if (++row == rows) row = 0;
      });
    });
  });
}

// --- the reverse of views: a part's gradient placed into zeros -------------------------------------------------------

// (Tensor grad, int[] self_shape, …): zeros of that shape; `grad` goes where the view was.
Tensor& into_zeros(Call& c) {
  const Tensor& g = c.tensor(0);
  check_size(c, c.ints(1));
  if (c.ints(1).empty()) runtime_error(c.name(), ": expected a shape of at least one dimension");
  return c.output(c.ints(1), g.dtype, g.device);
}
void infer_slice_backward(Call& c) {
  Tensor& out = into_zeros(c);
  c.dim(2, out.ndim);
  if (c.integer(5) == 0) value_error("slice step cannot be zero");
}
void infer_select_backward(Call& c) {
  Tensor& out = into_zeros(c);
  int64_t size = out.sizes[c.dim(2, out.ndim)], at = c.integer(3);
  if (at < -size || at >= size)
    index_error(c.name(), ": index ", at, " out of range for shape ", shape_text(out.shape()));
}
void place(Call& c, const Layout& l) {
  TensorRef part = l.of(c.out());
  if (!std::ranges::equal(part->shape(), c.tensor(0).shape()))
    runtime_error(c.name(), ": expected a gradient of shape ", shape_text(part->shape()), ", got ",
                  shape_text(c.tensor(0).shape()));
  copy_into(*part, c.tensor(0));
}
void cpu_slice_backward(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  int64_t d = c.dim(2, out.ndim);
  Layout l(out);
  apply_slice(l, int(d), slice_of(out.sizes[d], c.integer_or(3, kNoBound), c.integer_or(4, kNoBound), c.integer(5)),
              out.itemsize());
  place(c, l);
}
void cpu_select_backward(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  int64_t d = c.dim(2, out.ndim), at = c.integer(3);
  Layout l(out);
  l.data += (at < 0 ? at + out.sizes[d] : at) * out.strides[d] * out.itemsize();
  l.erase(int(d));
  place(c, l);
}

const Primitives rows{
    {"cat", infer_cat, cpu_cat, Images::Along},
    {"stack", infer_stack, cpu_stack},
    {"repeat", infer_repeat, cpu_repeat},
    {"repeat_interleave_index", infer_repeat_interleave, cpu_repeat_interleave, Infer::ReadsValues},
    {"clone", infer_clone, cpu_clone, Images::Copied},
    {"copy_", infer_copy_, cpu_copy_, Images::Read},
    {"tril", infer_triangle, cpu_triangle<false>},
    {"triu", infer_triangle, cpu_triangle<true>},
    {"slice_backward", infer_slice_backward, cpu_slice_backward, Images::Along},
    {"select_backward", infer_select_backward, cpu_select_backward},
};

}  // namespace
}  // namespace flambeau
