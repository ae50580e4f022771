// Sliding blocks as columns (im2col), their sum back into images (col2im), and padding with a constant.
#include <algorithm>

#include "strided.h"
#include "widened.h"

namespace flambeau {
namespace {

struct Blocks {
  int64_t n, channels, height, width, kh, kw, dh, dw, ph, pw, sh, sw, oh, ow;
  bool batched;
};

int64_t two(Dims given, int d, const Call& c, const char* what, int64_t least) {
  if (given.size() != 1 && given.size() != 2)
    runtime_error(c.name(), ": expected ", what, " of 1 or 2 ints, got ", shape_text(given));
  int64_t v = given.size() == 1 ? given[0] : given[d];
  if (v < least || v > (int64_t(1) << 31))
    runtime_error(c.name(), ": ", what, " should be ", least ? "greater than zero" : "zero or more", ", but got ",
        shape_text(given));
  return v;
}

// kernel, dilation, padding, stride are arguments first … first + 3.
Blocks describe(const Call& c, int64_t height, int64_t width, int first) {
  Blocks b{};
  b.height = height, b.width = width;
  b.kh = two(c.ints(first), 0, c, "kernel_size", 1), b.kw = two(c.ints(first), 1, c, "kernel_size", 1);
  b.dh = two(c.ints(first + 1), 0, c, "dilation", 1), b.dw = two(c.ints(first + 1), 1, c, "dilation", 1);
  b.ph = two(c.ints(first + 2), 0, c, "padding", 0), b.pw = two(c.ints(first + 2), 1, c, "padding", 0);
  b.sh = two(c.ints(first + 3), 0, c, "stride", 1), b.sw = two(c.ints(first + 3), 1, c, "stride", 1);
  int64_t rh = height + 2 * b.ph - b.dh * (b.kh - 1) - 1, rw = width + 2 * b.pw - b.dw * (b.kw - 1) - 1;
  b.oh = rh < 0 ? 0 : rh / b.sh + 1, b.ow = rw < 0 ? 0 : rw / b.sw + 1;
  if (b.oh < 1 || b.ow < 1)
    runtime_error(c.name(), ": the kernel does not fit: an image of ", height, "x", width, " with kernel_size=(", b.kh,
                  ", ", b.kw, "), dilation=(", b.dh, ", ", b.dw, "), padding=(", b.ph, ", ", b.pw, "), stride=(", b.sh,
                  ", ", b.sw, ") has ", b.oh, "x", b.ow, " blocks");
  return b;
}

// The places of a row that lie inside the image, where the first one reads column x0.
struct Inside {
  int64_t begin, end;
  Inside(const Blocks& b, int64_t x0)
      : begin(std::min(b.ow, x0 < 0 ? (b.sw - 1 - x0) / b.sw : 0)),
        end(std::clamp((b.width - x0 + b.sw - 1) / b.sw, begin, b.ow)) {}
};
// row(column element, element of the image that its first place reads, that place's column) for every row of places of
// a column matrix; INT64_MIN: outside of the image.
template <class F>
void each_row(const Blocks& b, F&& row) {
  const int64_t rows = b.channels * b.kh * b.kw, places = b.oh * b.ow;
  parallel_for(b.n * b.channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, b.kh * b.kw * places)),
      [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      int64_t n = i / b.channels, ch = i % b.channels;
      Poll poll;
      for (int64_t k = 0; k < b.kh * b.kw; ++k, poll()) {
        int64_t y0 = k / b.kw * b.dh - b.ph, x0 = k % b.kw * b.dw - b.pw;
        int64_t at = (n * rows + ch * b.kh * b.kw + k) * places;
        for (int64_t y = 0; y < b.oh; ++y, at += b.ow) {
          int64_t from = y * b.sh + y0;
          row(at, from >= 0 && from < b.height ? (i * b.height + from) * b.width + x0 : INT64_MIN, x0);
        }
      }
    }
  });
}

// im2col(self, kernel_size, dilation, padding, stride)
Blocks blocks_of_image(const Call& c) {
  Tensor& x = c.tensor(0);
  if ((x.ndim != 3 && x.ndim != 4) || x.numel == 0)
    if (!(x.ndim == 4 && x.size(0) == 0 && x.size(1) * x.size(2) * x.size(3) > 0))
      runtime_error(c.name(), ": input must have 4 dimensions, or 3 without a batch, and only the batch may be empty, "
                    "got shape ", shape_text(x.shape()));
  Blocks b = describe(c, x.size(x.ndim - 2), x.size(x.ndim - 1), 1);
  b.batched = x.ndim == 4;
  b.n = b.batched ? x.size(0) : 1, b.channels = x.size(x.ndim - 3);
  return b;
}
void infer_im2col(Call& c) {
  const Blocks& b = c.hand_over(blocks_of_image(c));
  int64_t rows[] = {b.channels, b.kh, b.kw}, places[] = {b.oh, b.ow}, shape[] = {b.n, count(rows), count(places)};
  c.output(Dims(shape).subspan(b.batched ? 0 : 1), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_im2col(Call& c) {
  const Blocks& b = c.handed<Blocks>();
  TensorRef x = contiguous(c.tensor(0));
  Tensor& out = c.out();
  LockRelease lock(out.numel);
  visit_size(out.itemsize(), [&]<class U>() {
    const U* from = x->ptr<U>();
    U* to = out.ptr<U>();
    each_row(b, [&](int64_t at, int64_t row, int64_t x0) {
      if (row == INT64_MIN) return (void)std::fill_n(to + at, b.ow, U(0));
      const Inside in(b, x0);
      std::fill_n(to + at, in.begin, U(0));
      if (in.end > in.begin)
        move_run<U>(reinterpret_cast<char*>(to + at + in.begin), sizeof(U),
                    reinterpret_cast<const char*>(from + row + in.begin * b.sw), b.sw * int64_t(sizeof(U)),
                    in.end - in.begin);
      std::fill(to + at + in.end, to + at + b.ow, U(0));
    });
  });
}

// col2im(self, output_size, kernel_size, dilation, padding, stride)
Blocks blocks_of_columns(const Call& c) {
  Tensor& x = c.tensor(0);
  if (x.ndim != 2 && x.ndim != 3)
    runtime_error(c.name(), ": input must have 3 dimensions (batch, elements of a block, blocks), or 2 without a "
                  "batch, got shape ", shape_text(x.shape()));
  int64_t height = two(c.ints(1), 0, c, "output_size", 1), width = two(c.ints(1), 1, c, "output_size", 1);
  Blocks b = describe(c, height, width, 2);
  b.batched = x.ndim == 3;
  int64_t rows = x.size(x.ndim - 2), places = x.size(x.ndim - 1);
  int64_t block[] = {b.kh, b.kw};
  if (rows == 0 || rows % count(block))
    runtime_error(c.name(), ": dimension 1 of input, ", rows, ", must be a multiple of the block's size, kernel_size=(",
                  b.kh, ", ", b.kw, ")");
  if (__int128(b.oh) * b.ow != places)
    runtime_error(c.name(), ": output_size=(", height, ", ", width, ") has ", b.oh, "x", b.ow, " = ", b.oh * b.ow, " "
                  "blocks with these arguments, the input has ", places);
  b.n = b.batched ? x.size(0) : 1, b.channels = rows / (b.kh * b.kw);
  return b;
}
void infer_col2im(Call& c) {
  const Blocks& b = c.hand_over(blocks_of_columns(c));
  if (const DType t = c.tensor(0).dtype; t == DType::Bool || is_float8(t))
    runtime_error(c.name(), ": not implemented for dtype ", dtype_name(t));
  int64_t shape[] = {b.n, b.channels, b.height, b.width};
  c.output(Dims(shape).subspan(b.batched ? 0 : 1), c.tensor(0).dtype, c.tensor(0).device);
}
template <class T>
void add_columns(const Blocks& b, const T* from, T* to) {
  std::fill_n(to, b.n * b.channels * b.height * b.width, T(0));
  each_row(b, [&](int64_t at, int64_t row, int64_t x0) {
    if (row == INT64_MIN) return;
    const Inside in(b, x0);
    T* __restrict image = to + row;
    const T* columns = from + at;
    if (b.sw == 1)
      for (int64_t o = in.begin; o < in.end; ++o) image[o] += columns[o];
    else
      for (int64_t o = in.begin; o < in.end; ++o) image[o * b.sw] += columns[o];
  });
}
void cpu_col2im(Call& c) {
  const Blocks& b = c.handed<Blocks>();
  Tensor& out = c.out();
  if (out.numel == 0) return;
  WideResult to(out);
  TensorRef x = to.operand(c.tensor(0));
  {
    LockRelease lock(x->numel);
    auto run = [&]<class T>() { add_columns<T>(b, x->ptr<T>(), to.ptr<T>()); };
    switch (to.dtype) {
      case DType::Float32: run.operator()<float>(); break;
      case DType::Float64: run.operator()<double>(); break;
      case DType::Complex64: run.operator()<complex64>(); break;
      case DType::Complex128: run.operator()<complex128>(); break;
      default: run.operator()<int64_t>();
    }
  }
  to.finish();
}

// constant_pad_nd(self, pad, value): pad lists (before, after) from the last dimension on; negative numbers crop.
void infer_constant_pad(Call& c) {
  Tensor& x = c.tensor(0);
  Dims pad = c.ints(1);
  if (pad.size() % 2) runtime_error(c.name(), ": pad holds two numbers per dimension, before and after; got ",
                                    pad.size(), " numbers");
  if (pad.size() > size_t(2 * x.ndim))
    runtime_error(c.name(), ": pad names ", pad.size() / 2, " dimensions and the input has ", int(x.ndim));
  std::vector<int64_t> shape(x.sizes, x.sizes + x.ndim);
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    int64_t& n = shape[x.ndim - 1 - k];
    int64_t before = n;
    if (__builtin_add_overflow(n, pad[2 * k], &n) || __builtin_add_overflow(n, pad[2 * k + 1], &n))
      runtime_error(c.name(), ": sizes overflow with pad ", shape_text(pad));
    if (n < 0 || (before == 0 && pad[2 * k] + pad[2 * k + 1] < 0))
      runtime_error(c.name(), ": dimension ", x.ndim - 1 - int(k), " of size ", before, " cannot be cut by padding ",
                    pad[2 * k], " and ", pad[2 * k + 1]);
  }
  c.output(shape, x.dtype, x.device);
}
void cpu_constant_pad(Call& c) {
  Tensor &x = c.tensor(0), &out = c.out();
  Dims pad = c.ints(1);
  std::vector<int64_t> shape(x.sizes, x.sizes + x.ndim);
  int64_t from = 0, to = 0;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    int d = x.ndim - 1 - int(k);
    int64_t before = pad[2 * k], after = pad[2 * k + 1];
    from += std::min(x.size(d), std::max<int64_t>(0, -before)) * x.strides[d], to += std::max<int64_t>(0,
        before) * out.strides[d];
    shape[d] += std::min<int64_t>(0, before) + std::min<int64_t>(0, after);
  }
  if (out.numel > 0) fill(out, c.scalar(2));
  for (int64_t n : shape) if (n <= 0) return;
  TensorRef source = view_of(x, shape, x.stride(), x.data + from * x.itemsize());
  TensorRef target = view_of(out, shape, out.stride(), out.data + to * out.itemsize());
  copy_into(*target, *source);
}

const Primitives rows{
    {"im2col", infer_im2col, cpu_im2col},
    {"col2im", infer_col2im, cpu_col2im},
    {"constant_pad_nd", infer_constant_pad, cpu_constant_pad, Images::Along},
};

}  // namespace
}  // namespace flambeau
