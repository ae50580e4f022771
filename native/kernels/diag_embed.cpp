// diag_embed: matrices of zeros with the last dimension of self on a diagonal.
#include <cstdlib>

#include "views.h"

namespace flambeau {
namespace {

// (self, offset, dim1, dim2)
void infer_diag_embed(Call& c) {
  const Tensor& t = c.tensor(0);
  const int64_t offset = c.integer(1), a = c.dim(2, t.ndim + 1), b = c.dim(3, t.ndim + 1);
  if (t.ndim == 0) runtime_error(c.name(), ": the tensor has no dimension to lay on a diagonal");
  if (a == b)
    runtime_error(c.name(), ": dims ", shape_text({{c.integer(2), c.integer(3)}}), " name a dimension twice");
  if (offset == INT64_MIN) runtime_error(c.name(), ": offset ", offset, " is too large");
  Layout l(t);
  const int64_t side = size_sum(c.name(), {t.sizes[t.ndim - 1], std::abs(offset)});
  --l.ndim;
  l.insert(int(std::min(a, b)), side, 0);
  l.insert(int(std::max(a, b)), side, 0);
  c.output(l.shape(), t.dtype, t.device);
}

void cpu_diag_embed(Call& c) {
  const Tensor& t = c.tensor(0);
  Tensor& out = c.out();
  const int64_t offset = c.integer(1), a = c.dim(2, out.ndim), b = c.dim(3, out.ndim);
  fill(out, Scalar(0));
  if (t.numel == 0) return;
  Layout l(out);  // the diagonal, as `diagonal` sees it
  l.data += (offset < 0 ? -offset * out.strides[a] : offset * out.strides[b]) * out.itemsize();
  l.erase(int(std::max(a, b)));
  l.erase(int(std::min(a, b)));
  l.push(t.sizes[t.ndim - 1], out.strides[a] + out.strides[b]);
  copy_into(*l.of(out), t);
}

const Primitives rows{{"diag_embed", infer_diag_embed, cpu_diag_embed}};

}  // namespace
}  // namespace flambeau
