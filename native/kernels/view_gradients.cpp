// Gradients of views whose elements may overlap: what the view has read is added up where it lies.
#include "combine.h"
#include "options.h"
#include "views.h"
#include "walk.h"

namespace flambeau {
namespace {

// unfold_backward(Tensor grad, int[] self_shape, int dim, int size, int step): windows are added up
void infer_unfold_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  check_size(c, c.ints(1));
  Tensor& out = c.output(c.ints(1), g.dtype, g.device);
  int64_t d = c.dim(2, out.ndim), size = c.integer(3), step = c.integer(4), have = out.ndim ? out.sizes[d] : 1;
  if (size < 0 || size > have || step <= 0)
    runtime_error(c.name(), ": size ", size, " and step ", step, " do not fit shape ", shape_text(out.shape()));
  std::vector<int64_t> shape(out.sizes, out.sizes + out.ndim);
  if (out.ndim) shape[d] = (have - size) / step + 1;
  shape.push_back(size);
  if (!std::ranges::equal(Dims(shape), g.shape()))
    runtime_error(c.name(), ": expected a gradient of shape ", shape_text(shape), ", got ", shape_text(g.shape()));
}
// out seen through this layout += grad, element by element in order
void add_through(Tensor& out, const Layout& l, const Tensor& g) {
  Walk<2> w;
  for (int k = 0; k < l.ndim; ++k) w.add(l.sizes[k], {l.strides[k], g.strides[k]});
  w.done();
  int64_t item = out.itemsize(), n = w.length(), to = w.stride[0][w.ndim - 1], from = w.stride[1][w.ndim - 1];
  LockRelease lock(g.numel);
  w.each_row(0, w.rows, [&](const int64_t* offset) {
    add_run(out.dtype, l.data + offset[0] * item, to, g.data + offset[1] * item, from, n);
  });
}
void cpu_unfold_backward(Call& c) {
  Tensor& out = c.out();
  const Tensor& g = c.tensor(0);
  fill(out, Scalar(0));
  int64_t d = c.dim(2, out.ndim), size = c.integer(3), step = c.integer(4);
  Layout l(out);
  if (out.ndim == 0) {
    l.push(size, 1);
  } else {
    l.sizes[d] = (out.sizes[d] - size) / step + 1;
    l.strides[d] = out.strides[d] * step;
    l.push(size, out.strides[d]);
  }
  add_through(out, l, g);
}

// as_strided_backward(Tensor grad, int[] self_size, int[] self_stride, int self_offset, int[] size, int[] stride, int?
// offset): self's memory region is rebuilt as a flat row, the gradient is added where the view read, and the row is
// read back as self.
void infer_as_strided_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  if (c.ints(1).size() != c.ints(2).size() || c.ints(4).size() != c.ints(5).size() ||
      !std::ranges::equal(c.ints(4), g.shape()))
    runtime_error(c.name(), ": expected sizes and strides of equal length and a gradient of shape ",
                  shape_text(c.ints(4)), ", got ", shape_text(g.shape()));
  check_size(c, c.ints(1));
  constexpr int64_t most = int64_t(1) << 48;  // no storage reaches further
  for (int k : {2, 5})
    for (int64_t s : c.ints(k))
      if (s > most || s < -most) runtime_error(c.name(), ": stride ", s, " is out of bounds");
  if (c.integer(3) < 0 || c.integer(3) > most || c.integer_or(6, 0) < 0 || c.integer_or(6, 0) > most)
    runtime_error(c.name(), ": the offset is out of bounds");
  c.output(c.ints(1), g.dtype, g.device);
}

struct Reach {
  int64_t first, last;
  void include(Dims size, Dims stride, int64_t offset) {
    int64_t low = offset, high = offset;
    for (size_t k = 0; k < size.size(); ++k) (stride[k] < 0 ? low : high) += (size[k] - 1) * stride[k];
    first = std::min(first, low);
    last = std::max(last, high);
  }
};
Layout layout_of(Dims size, Dims stride, char* data) {
  Layout l;
  for (size_t k = 0; k < size.size(); ++k) l.push(size[k], stride[k]);
  l.data = data;
  return l;
}

void cpu_as_strided_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  Dims self_size = c.ints(1), self_stride = c.ints(2), size = c.ints(4), stride = c.ints(5);
  int64_t self_offset = c.integer(3), offset = c.integer_or(6, self_offset), item = g.itemsize();
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Reach reach{self_offset, self_offset};
  reach.include(self_size, self_stride, self_offset);
  if (g.numel > 0) reach.include(size, stride, offset);
  int64_t n = reach.last - reach.first + 1;
  TensorRef memory = empty(Dims(&n, 1), g.dtype);
  fill(*memory, Scalar(0));
  if (g.numel > 0) add_through(*memory, layout_of(size, stride, memory->data + (offset - reach.first) * item), g);
  TensorRef seen = layout_of(self_size, self_stride, memory->data + (self_offset - reach.first) * item).of(*memory);
  if (may_overlap(*seen)) {  // elements of self that share an address share its gradient evenly
    TensorRef uses = empty(Dims(&n, 1), g.dtype), one = empty(self_size, g.dtype);
    fill(*uses, Scalar(0));
    fill(*one, Scalar(1));
    add_through(*uses, layout_of(self_size, self_stride, uses->data + (self_offset - reach.first) * item), *one);
    if (g.dtype == DType::Float64) {
      for (int64_t k = 0; k < n; ++k) memory->ptr<double>()[k] /= std::max(uses->ptr<double>()[k], 1.0);
    } else if (g.dtype == DType::Float32) {
      for (int64_t k = 0; k < n; ++k) memory->ptr<float>()[k] /= std::max(uses->ptr<float>()[k], 1.0f);
    } else {
      not_implemented(c.name(), ": gradient of as_strided for an overlapping input of dtype ", dtype_name(g.dtype));
    }
  }
  copy_into(out, *seen);
}

const Primitives rows{
    {"unfold_backward", infer_unfold_backward, cpu_unfold_backward},
    {"as_strided_backward", infer_as_strided_backward, cpu_as_strided_backward},
};

}  // namespace
}  // namespace flambeau
