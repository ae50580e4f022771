// Deformable convolution's columns (Dai et al. 2017; Zhu et al. 2019): what each kernel position reads when it is moved
// by an offset of its own and scaled by a mask, ready for a product with the weights; and the gradients of that.
//
// The places of one kernel position are the same for all channels of an offset group. So four taps per place are worked
// out once for a block of places and used for every channel.
#include <algorithm>
#include <cmath>
#include <vector>

#include "widened.h"

namespace flambeau {
namespace {

struct Shape {
  int64_t batch, channels, in[2], kernel[2], stride[2], padding[2], dilation[2], out[2], groups;
  bool masked;
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t places() const { return out[0] * out[1]; }
  int64_t plane() const { return in[0] * in[1]; }
  int64_t group_channels() const { return channels / groups; }
};

constexpr int64_t kBlock = 256;

// Four neighbours of each place (-1: outside, reads zero), their weights without the mask, and how each weight changes
// with the row and the column of the place.
template <class T>
struct Block {
  int32_t at[4][kBlock];
  T weight[4][kBlock], by_row[4][kBlock], by_column[4][kBlock], mask[kBlock];
  T value[kBlock];
};

template <class T>
struct Data {
  const T *x, *offset, *mask;
};

// Images, groups, kernel positions and blocks of places, as one range.
struct Piece {
  int64_t image, group, tap, first, count;
  Piece(const Shape& s, int64_t k) {
    const int64_t blocks = (s.places() + kBlock - 1) / kBlock;
    first = k % blocks * kBlock, k /= blocks;
    count = std::min(kBlock, s.places() - first);
    tap = k % s.taps(), k /= s.taps();
    group = k % s.groups, image = k / s.groups;
  }
  static int64_t number(const Shape& s) {
    return s.batch * s.groups * s.taps() * ((s.places() + kBlock - 1) / kBlock);
  }
  // where this piece begins among the offsets' rows (or, with the same arithmetic, the masks')
  int64_t row(const Shape& s) const { return (image * s.groups + group) * s.taps() + tap; }
  int64_t column(const Shape& s, int64_t channel) const {
    return ((image * s.channels + channel) * s.taps() + tap) * s.places() + first;
  }
};

template <bool Slopes, class T>
void one_place(const Shape& s, T y, T x, Block<T>& b, int64_t i) {
  const bool inside = y > T(-1) && x > T(-1) && y < T(s.in[0]) && x < T(s.in[1]);
  const T top = inside ? std::floor(y) : T(0), left = inside ? std::floor(x) : T(0);
  const T down = y - top, right = x - left, near[2][2] = {{T(1) - down, down}, {T(1) - right, right}};
  for (int k = 0; k < 4; ++k) {
    const int64_t row = int64_t(top) + (k >> 1), column = int64_t(left) + (k & 1);
    const bool there = inside && row >= 0 && column >= 0 && row < s.in[0] && column < s.in[1];
    b.at[k][i] = there ? int32_t(row * s.in[1] + column) : -1;
    b.weight[k][i] = near[0][k >> 1] * near[1][k & 1];
    if constexpr (Slopes) {
      b.by_row[k][i] = (k >> 1 ? T(1) : T(-1)) * near[1][k & 1];
      b.by_column[k][i] = (k & 1 ? T(1) : T(-1)) * near[0][k >> 1];
    }
  }
}

template <bool Slopes, class T>
void fill(const Shape& s, const Data<T>& d, const Piece& p, Block<T>& b) {
  const T *dy = d.offset + 2 * p.row(s) * s.places() + p.first, *dx = dy + s.places();
  const int64_t kr = p.tap / s.kernel[1] * s.dilation[0] - s.padding[0],
                kc = p.tap % s.kernel[1] * s.dilation[1] - s.padding[1];
  int64_t row = p.first / s.out[1], column = p.first % s.out[1];
  for (int64_t i = 0; i < p.count; ++i) {
    one_place<Slopes>(s, T(row * s.stride[0] + kr) + dy[i], T(column * s.stride[1] + kc) + dx[i], b, i);
    b.mask[i] = s.masked ? d.mask[p.row(s) * s.places() + p.first + i] : T(1);
    if (++column == s.out[1]) column = 0, ++row;
  }
}

template <class T>
void read(const int32_t (&at)[4][kBlock], const T (&weight)[4][kBlock], const T* __restrict plane, int64_t count,
          T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    T total = 0;
    for (int k = 0; k < 4; ++k) {
      const int32_t o = at[k][i];
      const T v = plane[o < 0 ? 0 : o];
      total += o < 0 ? T(0) : weight[k][i] * v;
    }
    to[i] = total;
  }
}

template <class T>
void columns(const Shape& s, const Data<T>& d, T* to) {
  parallel_for(Piece::number(s), std::max<int64_t>(1, 16384 / (kBlock * s.group_channels())),
               [&](int64_t k, int64_t end) {
                 auto b = std::make_unique<Block<T>>();
                 for (; k < end; ++k) {
                   const Piece p(s, k);
                   fill<false>(s, d, p, *b);
                   for (int q = 0; q < 4; ++q)
                     for (int64_t i = 0; i < p.count; ++i) b->weight[q][i] *= b->mask[i];
                   for (int64_t g = 0; g < s.group_channels(); ++g) {
                     const int64_t c = p.group * s.group_channels() + g;
                     read(b->at, b->weight, d.x + (p.image * s.channels + c) * s.plane(), p.count, to + p.column(s, c));
                   }
                 }
               });
}

// A thread has images of its own, so that no two add to one pixel.
template <class T>
void to_input(const Shape& s, const Data<T>& d, const T* g, T* to) {
  const int64_t pieces = Piece::number(s) / std::max<int64_t>(s.batch * s.groups, 1);
  std::fill(to, to + s.batch * s.channels * s.plane(), T(0));
  parallel_for(s.batch * s.groups, 1, [&](int64_t n, int64_t end) {
    auto b = std::make_unique<Block<T>>();
    for (int64_t k = n * pieces; k < end * pieces; ++k) {
      const Piece p(s, k);
      fill<false>(s, d, p, *b);
      for (int64_t r = 0; r < s.group_channels(); ++r) {
        const int64_t c = p.group * s.group_channels() + r;
        T* plane = to + (p.image * s.channels + c) * s.plane();
        const T* from = g + p.column(s, c);
        for (int64_t i = 0; i < p.count; ++i) {
          const T share = from[i] * b->mask[i];
          for (int q = 0; q < 4; ++q)
            if (b->at[q][i] >= 0) plane[b->at[q][i]] += b->weight[q][i] * share;
        }
      }
    }
  });
}

template <class T>
void to_places(const Shape& s, const Data<T>& d, const T* g, T* offset, T* mask) {
  auto add = [](const T* from, const T* value, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i] * value[i];
  };
  parallel_for(Piece::number(s), std::max<int64_t>(1, 8192 / (kBlock * s.group_channels())),
               [&](int64_t k, int64_t end) {
                 auto b = std::make_unique<Block<T>>();
                 T sums[3][kBlock];  // by row, by column, by the mask
                 for (; k < end; ++k) {
                   const Piece p(s, k);
                   fill<true>(s, d, p, *b);
                   for (auto& sum : sums) std::fill_n(sum, kBlock, T(0));
                   for (int64_t r = 0; r < s.group_channels(); ++r) {
                     const int64_t c = p.group * s.group_channels() + r;
                     const T *plane = d.x + (p.image * s.channels + c) * s.plane(), *from = g + p.column(s, c);
                     const T(*weights[3])[4][kBlock] = {&b->by_row, &b->by_column, &b->weight};
                     for (int q = 0; q < (s.masked ? 3 : 2); ++q) {
                       read(b->at, *weights[q], plane, p.count, b->value);
                       add(from, b->value, p.count, sums[q]);
                     }
                   }
                   for (int q = 0; q < 2; ++q)
                     for (int64_t i = 0; i < p.count; ++i)
                       offset[(2 * p.row(s) + q) * s.places() + p.first + i] = sums[q][i] * b->mask[i];
                   if (s.masked) std::copy_n(sums[2], p.count, mask + p.row(s) * s.places() + p.first);
                 }
               });
}

void need_shape(const Call& c, const Tensor& t, const char* what, std::initializer_list<int64_t> wanted) {
  if (!std::ranges::equal(t.shape(), wanted))
    runtime_error(c.name(), ": ", what, " must have shape ", shape_text(Dims(wanted.begin(), wanted.size())), ", got ",
                  shape_text(t.shape()));
}

// Arguments from `first`: input, offset, mask, kernel_size, stride, padding, dilation, offset_groups, use_mask.
Shape shape_of(const Call& c, int first) {
  const Tensor &x = c.tensor(first), &offset = c.tensor(first + 1), &mask = c.tensor(first + 2);
  Shape s{};
  if (x.ndim != 4) runtime_error(c.name(), ": input must have 4 dimensions, got ", shape_text(x.shape()));
  if (!is_floating(x.dtype) || offset.dtype != x.dtype || mask.dtype != x.dtype)
    runtime_error(c.name(), ": input, offset and mask must be of one floating-point dtype, got ", dtype_name(x.dtype),
                  ", ", dtype_name(offset.dtype), " and ", dtype_name(mask.dtype));
  s.batch = x.size(0), s.channels = x.size(1), s.groups = c.integer(first + 7), s.masked = c.boolean(first + 8);
  int64_t* parts[] = {s.kernel, s.stride, s.padding, s.dilation};
  const char* names[] = {"the kernel's size", "stride", "padding", "dilation"};
  for (int k = 0; k < 4; ++k)
    for (int d = 0; d < 2; ++d) {
      const int64_t v = parts[k][d] = c.ints(first + 3 + k)[d];
      if (v < (k != 2) || v > INT32_MAX) runtime_error(c.name(), ": ", names[k], " must be ", k != 2 ? "positive" :
                                                      "zero or more", ", got ", v);
    }
  for (int d = 0; d < 2; ++d) {
    s.in[d] = x.size(2 + d);
    const int64_t room = s.in[d] + 2 * s.padding[d] - s.dilation[d] * (s.kernel[d] - 1) - 1;
    s.out[d] = room < 0 ? 0 : room / s.stride[d] + 1;
  }
  if (s.out[0] < 1 || s.out[1] < 1)
    runtime_error(c.name(), ": the kernel ", s.kernel[0], "x", s.kernel[1], " does not fit into an input of ", s.in[0],
                  "x", s.in[1]);
  if (s.plane() > INT32_MAX) runtime_error(c.name(), ": images have at most 2^31 pixels, got ", shape_text(x.shape()));
  if (s.groups < 1 || s.channels % s.groups)
    runtime_error(c.name(), ": ", s.channels, " input channels cannot be shared among ", s.groups, " offset groups");
  need_shape(c, offset, "offset", {s.batch, 2 * s.groups * s.taps(), s.out[0], s.out[1]});
  if (s.masked) need_shape(c, mask, "mask", {s.batch, s.groups * s.taps(), s.out[0], s.out[1]});
  return s;
}

void infer_columns(Call& c) {
  const Shape s = c.hand_over(shape_of(c, 0));
  const int64_t shape[] = {s.batch, size_product(c.name(), {s.channels, s.taps()}), s.places()};
  c.output(shape, c.tensor(0).dtype, c.tensor(0).device);
}

void infer_backward(Call& c) {
  const Shape s = c.hand_over(shape_of(c, 1));
  need_shape(c, c.tensor(0), "the gradient", {s.batch, s.channels * s.taps(), s.places()});
  for (int k = 1; k < 4; ++k) c.output_like(c.tensor(k));
}

// The operands of a call in the dtype that is computed in.
template <class T>
struct Operands {
  TensorRef x, offset, mask;
  Operands(const WideResult& as, const Call& c, int first)
      : x(as.operand(c.tensor(first))), offset(as.operand(c.tensor(first + 1))),
        mask(as.operand(c.tensor(first + 2))) {}
  Data<T> data() const { return {x->ptr<T>(), offset->ptr<T>(), mask->ptr<T>()}; }
};

template <class T>
void compute(Call& c, const Shape& s) {
  WideResult to(c.out());
  const Operands<T> given(to, c, 0);
  {
    LockRelease lock(c.out().numel * 4);
    columns(s, given.data(), to.ptr<T>());
  }
  to.finish();
}

template <class T>
void compute_backward(Call& c, const Shape& s) {
  WideResult x(c.out(0)), offset(c.out(1)), mask(c.out(2));
  const Operands<T> given(x, c, 1);
  TensorRef g = x.operand(c.tensor(0));
  {
    LockRelease lock(g->numel * 16);
    to_input(s, given.data(), g->ptr<T>(), x.ptr<T>());
    to_places(s, given.data(), g->ptr<T>(), offset.ptr<T>(), mask.ptr<T>());
    if (!s.masked) std::fill_n(mask.ptr<T>(), c.out(2).numel, T(0));
  }
  for (WideResult* r : {&x, &offset, &mask}) r->finish();
}

void cpu_columns(Call& c) {
  const Shape s = c.handed<Shape>();
  if (c.out().numel == 0 || s.plane() == 0) return fill(c.out(), Scalar(0.0));
  if (sum_dtype(c.out().dtype) == DType::Float64) compute<double>(c, s);
  else compute<float>(c, s);
}
void cpu_backward(Call& c) {
  const Shape s = c.handed<Shape>();
  if (c.tensor(0).numel == 0 || s.plane() == 0) {
    for (int k = 0; k < 3; ++k) fill(c.out(k), Scalar(0.0));
    return;
  }
  if (sum_dtype(c.out().dtype) == DType::Float64) compute_backward<double>(c, s);
  else compute_backward<float>(c, s);
}

const Primitives rows{
    {"_deform_columns", infer_columns, cpu_columns},
    {"_deform_columns_backward", infer_backward, cpu_backward},
};

}  // namespace
}  // namespace flambeau
