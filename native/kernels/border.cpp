// Padding whose border repeats the tensor's own elements: reflect, replicate, circular; and its adjoint.
//
// Each padded dimension has a table of the place every output element comes from. Rows of the last dimension are two
// borders looked up in the table around one run that is copied whole.
#include <algorithm>
#include <cstring>
#include <vector>

#include "../core/call.h"
#include "move.h"

namespace flambeau {
namespace {

constexpr int kPadded = 3;  // dimensions that can have a border

struct Side {
  int64_t in = 1, out = 1, before = 0, lead = 0;  // lead: output elements before the run; before: less what is cut off
  int64_t run = 1, first = 0;                     // the run: its length, and where it starts in the input
  std::vector<int64_t> place;
};
struct Border {
  int64_t planes = 1;
  char mode = 'r';     // reflect; 'p': replicate, 'c': circular
  Side side[kPadded];  // the last one is the innermost
};

int64_t place_of(char mode, int64_t at, int64_t n) {
  if (mode == 'c') return (at % n + n) % n;
  if (mode == 'p') return std::clamp<int64_t>(at, 0, n - 1);  // replicate
  const int64_t far = n - 1;
  at = std::abs(at);
  return far - std::abs(far - at);
}

// All but the tables, which only the kernels need: a tensor on the meta device may be of any size.
Border describe(const Call& c, Dims shape, Dims pad, std::string_view mode) {
  Border b;
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    runtime_error("pad: expected mode reflect, replicate or circular, got '", std::string(mode), "'");
  b.mode = mode == "replicate" ? 'p' : mode[0];
  const int padded = int(pad.size()) / 2, lead = int(shape.size()) - padded;
  if (pad.size() % 2 || padded > kPadded || lead < 0)
    runtime_error("pad: expected up to ", kPadded, " pairs for a tensor of shape ", shape_text(shape), ", got ",
                  shape_text(pad));
  for (int d = 0; d < lead; ++d)  // a meta tensor may have any size
    b.planes = int64_t(uint64_t(b.planes) * uint64_t(shape[size_t(d)]));
  for (int k = 0; k < padded; ++k) {
    Side& s = b.side[kPadded - 1 - k];
    const int64_t before = pad[size_t(2 * k)], after = pad[size_t(2 * k + 1)], n = shape[shape.size() - 1 - size_t(k)];
    const int64_t limit = mode == "reflect" ? n - 1 : mode == "circular" ? n : n ? INT64_MAX : 0;
    if (std::max(before, after) > limit)
      runtime_error("pad: padding (", before, ", ", after, ") must be ", mode == "reflect" ? "below" : "at most",
                    " the size ", mode == "reflect" ? "that it reflects" : "that it repeats", ", dimension ",
                    int64_t(shape.size()) - 1 - k, " of input ", shape_text(shape));
    s.in = n;
    s.before = before;
    constexpr int64_t most = int64_t(1) << 40;
    if (n > most || std::min(before, after) < -most || std::max(before, after) > most)
      runtime_error("pad: padding (", before, ", ", after, ") of a dimension of size ", n,
                    " is too large; all must be within 2^40");
    if ((s.out = n + before + after) < 0 || (n && s.out == 0) || s.out > int64_t(1) << 40)
      runtime_error("pad: dimension ", int64_t(shape.size()) - 1 - k, " of size ", n, " with padding (", before, ", ",
                    after, ") would have size ", n + before + after);
    s.lead = std::clamp<int64_t>(before, 0, s.out);  // a negative `after` may cut the border itself
    s.first = std::max<int64_t>(-before, 0);
    s.run = std::max<int64_t>(0, std::min(n, n + after) - s.first);
  }
  return b;
}
void make_tables(Border& b) {
  for (Side& s : b.side) {
    s.place.resize(size_t(s.out));
    for (int64_t o = 0; o < s.out; ++o) s.place[size_t(o)] = place_of(b.mode, o - s.before, s.in);
  }
}

std::vector<int64_t> padded_shape(Dims shape, const Border& b, size_t padded) {
  std::vector<int64_t> out(shape.begin(), shape.end());
  for (size_t k = 0; k < padded; ++k) out[out.size() - 1 - k] = b.side[kPadded - 1 - k].out;
  return out;
}

// row(output row, input row) for the output rows [begin, end)
template <class F>
void each_row(const Border& b, int64_t begin, int64_t end, F&& row) {
  const Side &z = b.side[0], &y = b.side[1];
  int64_t j = begin % y.out, i = begin / y.out % z.out, p = begin / y.out / z.out;
  for (int64_t to = begin; to < end; ++to) {
    row(to, (p * z.in + z.place[size_t(i)]) * y.in + y.place[size_t(j)]);
    if (++j == y.out) {
      j = 0;
      if (++i == z.out) i = 0, ++p;
    }
  }
}
int64_t plane_rows(const Border& b) { return b.side[0].out * b.side[1].out; }
constexpr int64_t kGrain = 65536;

// _border(self, pad, mode)
void infer_border(Call& c) {
  const Tensor& x = c.tensor(0);
  const Border& b = c.hand_over(describe(c, x.shape(), c.ints(1), c.str(2)));
  c.output(padded_shape(x.shape(), b, c.ints(1).size() / 2), x.dtype, x.device);
}
void cpu_border(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  Tensor& out = c.out();
  if (!out.numel) return;
  Border& b = c.handed<Border>();
  make_tables(b);
  const Side& s = b.side[kPadded - 1];
  LockRelease lock(out.numel);
  visit_size(out.itemsize(), [&]<class T>() {
    parallel_for(b.planes * plane_rows(b), std::max<int64_t>(1, kGrain / s.out), [&](int64_t begin, int64_t end) {
      each_row(b, begin, end, [&](int64_t to, int64_t from) {
        T* y = out.ptr<T>() + to * s.out;
        const T* row = x->ptr<T>() + from * s.in;
        const int64_t last = std::min(s.lead + s.run, s.out);
        for (int64_t o = 0; o < s.lead; ++o) y[o] = row[s.place[size_t(o)]];
        if (s.run)
          move_bytes(reinterpret_cast<char*>(y + s.lead), reinterpret_cast<const char*>(row + s.first),
                     (last - s.lead) * int64_t(sizeof(T)));
        for (int64_t o = last; o < s.out; ++o) y[o] = row[s.place[size_t(o)]];
      });
    });
  });
}

// _border_backward(grad, self_shape, pad, mode): every output element's gradient added where the element came from
void infer_border_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  const Border& b = c.hand_over(describe(c, c.ints(1), c.ints(2), c.str(3)));
  if (!std::ranges::equal(g.shape(), padded_shape(c.ints(1), b, c.ints(2).size() / 2)))
    runtime_error("_border_backward: the gradient has shape ", shape_text(g.shape()));
  c.output(c.ints(1), g.dtype, g.device);
}
template <class T>
void add_border(const Border& b, const Tensor& grad, Tensor& out) {
  const Side& s = b.side[kPadded - 1];
  std::memset(static_cast<void*>(out.data), 0, size_t(out.nbytes()));
  if (!grad.numel) return;
  LockRelease lock(grad.numel);
  const int64_t rows = plane_rows(b);  // of one plane, which a thread sums alone
  parallel_for(b.planes, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, rows * s.out)),
               [&](int64_t begin, int64_t end) {
    each_row(b, begin * rows, end * rows, [&](int64_t from, int64_t to) {
      const T* g = grad.ptr<T>() + from * s.out;
      T* row = out.ptr<T>() + to * s.in;
      const int64_t last = std::min(s.lead + s.run, s.out), run = last - s.lead;
      for (int64_t o = 0; o < s.lead; ++o) row[s.place[size_t(o)]] += g[o];
      for (int64_t k = 0; k < run; ++k) row[s.first + k] += g[s.lead + k];
      for (int64_t o = last; o < s.out; ++o) row[s.place[size_t(o)]] += g[o];
    });
  });
}
void cpu_border_backward(Call& c) {
  Tensor& out = c.out();
  const DType given = c.tensor(0).dtype;
  const DType compute = given == DType::Float16 || given == DType::BFloat16 ? DType::Float32 : given;
  TensorRef grad = contiguous(*to_dtype(c.tensor(0), compute));
  TensorRef sum = compute == given ? TensorRef::borrow(&out) : empty(out.shape(), compute);
  if (!out.numel) return;
  Border& b = c.handed<Border>();
  make_tables(b);
  switch (compute) {
    case DType::Float32: add_border<float>(b, *grad, *sum); break;
    case DType::Float64: add_border<double>(b, *grad, *sum); break;
    case DType::Complex64: add_border<complex64>(b, *grad, *sum); break;
    case DType::Complex128: add_border<complex128>(b, *grad, *sum); break;
    default: not_implemented("pad: no gradient for ", dtype_name(given));
  }
  if (compute != given) copy_into(out, *sum);
}

const Primitives rows{{"_border", infer_border, cpu_border, Images::Along},
                      {"_border_backward", infer_border_backward, cpu_border_backward, Images::Along}};

}  // namespace
}  // namespace flambeau
