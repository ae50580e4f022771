// Copies in another order: rolled and flipped tensors.
#include <algorithm>

#include "options.h"
#include "pieces.h"
#include "strided.h"
#include "views.h"
#include "walk.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements a thread should have to copy at least
constexpr int64_t kRow = 16;         // elements of a row from which on it is reversed alone

void infer_roll(Call& c) {
  const Tensor& t = c.tensor(0);
  Dims shifts = c.ints(1), dims = c.ints(2);
  if (shifts.empty()) runtime_error(c.name(), ": `shifts` required");
  if (dims.empty() ? shifts.size() != 1 : shifts.size() != dims.size())
    runtime_error(c.name(), ": one shift per dimension is expected, got ", shifts.size(), " shifts and ", dims.size(),
                  " dims");
  if (t.ndim == 0 && !dims.empty()) index_error(c.name(), ": dim ", dims[0], " of a tensor that has no dimensions");
  for (int64_t d : dims) wrap_dim(d, t.ndim, c.name());
  c.output_like(t);
}

int64_t modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

// The pieces of `from` in every dimension of `shift` (0: not rolled) go to the places after and before the cut.
void roll_from(Tensor& out, const Tensor& from, const int64_t* shift, int d, Layout to, Layout source) {
  while (d < to.ndim && shift[d] == 0) ++d;
  if (d == to.ndim) {
    TensorRef place = to.of(out), piece = source.of(from);
    return copy_into(*place, *piece);
  }
  int64_t n = to.sizes[d], cut = n - shift[d], item = out.itemsize();
  Layout a = to, b = source;
  apply_slice(a, d, {shift[d], 1, cut}, item);
  apply_slice(b, d, {0, 1, cut}, item);
  roll_from(out, from, shift, d + 1, a, b);
  apply_slice(to, d, {0, 1, shift[d]}, item);
  apply_slice(source, d, {cut, 1, shift[d]}, item);
  roll_from(out, from, shift, d + 1, to, source);
}
// One dimension d of memory without gaps: every row is two pieces.
void roll_rows(Tensor& out, const char* from, int64_t outer, int64_t n, int64_t shift) {
  const int64_t pitch = out.nbytes() / outer, moved = pitch / n * shift;
  const RowPiece pieces[] = {{from, pitch - moved, moved, pitch}, {from + pitch - moved, moved, 0, pitch}};
  copy_pieces(out.data, outer, pitch, out.itemsize(), {pieces, moved ? 2u : 1u});
}
void cpu_roll(Call& c) {
  const Tensor& t = c.tensor(0);
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Dims shifts = c.ints(1), dims = c.ints(2);
  int64_t shift[kMaxDims + 1] = {};
  if (dims.empty()) {  // rolled as one long row
    TensorRef flat = contiguous(t);
    return roll_rows(out, flat->data, 1, t.numel, modulo(shifts[0], t.numel));
  }
  for (size_t k = 0; k < dims.size(); ++k) {
    int64_t d = wrap_dim(dims[k], t.ndim, c.name());
    if (t.ndim > 0) shift[d] = modulo(shift[d] + modulo(shifts[k], t.sizes[d]), t.sizes[d]);
  }
  if (t.contiguous() && out.contiguous() && t.ndim > 0 && std::count(shift, shift + t.ndim, 0) >= t.ndim - 1) {
    const int64_t d = std::find_if(shift, shift + t.ndim - 1, [](int64_t n) { return n != 0; }) - shift;
    int64_t outer = 1;
    for (int64_t k = 0; k < d; ++k) outer *= t.sizes[k];
    return roll_rows(out, t.data, outer, t.sizes[d], shift[d]);
  }
  roll_from(out, t, shift, 0, Layout(out), Layout(t));
}

uint64_t flip_dims(Call& c) {
  const Tensor& t = c.tensor(0);
  uint64_t bits = 0;
  for (int64_t given : c.ints(1)) {
    uint64_t bit = uint64_t(1) << wrap_dim(given, t.ndim, c.name());
    if (bits & bit) runtime_error(c.name(), ": dim ", given, " is given twice");
    bits |= bit;
  }
  return bits;
}
// out = the elements at `from`, whose rows run backwards.
void reverse_rows(Tensor& out, const Layout& from) {
  Walk<2> w;  // the rows; the innermost dimension of the walk is the row itself
  int last = out.ndim - 1;
  for (int d = 0; d < last; ++d) w.add(out.sizes[d], {out.strides[d], from.strides[d]});
  w.done();
  int64_t n = out.sizes[last], run = w.length(), to_step = w.stride[0][w.ndim - 1], from_step = w.stride[1][w.ndim - 1];
  const int64_t piece = std::min<int64_t>(n, kGrain), pieces = (n + piece - 1) / piece;  // of a row
  visit_size(out.itemsize(), [&]<class T>() {
    const T* source = reinterpret_cast<const T*>(from.data);
    LockRelease lock(out.numel);
    w.each_row(0, w.rows, [&](const int64_t* offset) {
      parallel_for(run * pieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t a, int64_t b) {
        T* rows = out.ptr<T>() + offset[0];
        for (int64_t r = a; r < b && pieces == 1; ++r)
          reverse_run(rows + r * to_step, source + offset[1] + r * from_step, n);
        for (int64_t u = a; u < b && pieces > 1; ++u) {
          const int64_t r = u / pieces, first = u % pieces * piece, m = std::min(piece, n - first);
          T* to = rows + r * to_step + first;
          const T* row = source + offset[1] + r * from_step - first;  // the last element that is left
          reverse_run(to, row, m);
        }
      });
    });
  });
}
void infer_flip(Call& c) {
  c.hand_over(flip_dims(c));
  const Tensor& t = c.tensor(0);
  c.output(t.shape(), t.dtype, t.device, like_strides(t));
}
void cpu_flip(Call& c) {
  const Tensor& t = c.tensor(0);
  const uint64_t bits = c.handed<uint64_t>();
  if (t.numel == 0) return;
  Layout l(t);
  for (int d = 0; d < t.ndim; ++d)
    if (bits >> d & 1) apply_slice(l, d, {t.sizes[d] - 1, -1, t.sizes[d]}, t.itemsize());
  Tensor& out = c.out();
  int last = t.ndim - 1;
  if (last >= 0 && bits >> last & 1 && t.strides[last] == 1 && out.strides[last] == 1 && t.sizes[last] >= kRow)
    return reverse_rows(out, l);
  TensorRef source = l.of(t);
  copy_into(out, *source);
}

const Primitives rows{
    {"roll", infer_roll, cpu_roll, Images::Along},
    {"flip", infer_flip, cpu_flip, Images::Along},
};

}  // namespace
}  // namespace flambeau
