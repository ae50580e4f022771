// Codes to codes in one pass: sums and products of two tensors, functions as tables of 256 entries, the largest of
// windows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "../core/call.h"
#include "../core/channels_last.h"
#include "../core/parallel.h"

#include "../core/machine.h"
#include "codes.h"

namespace flambeau {
namespace {

PassLoops* registered() {
  static PassLoops loops[2] = {};
  return loops;
}
const PassLoops& pass_loops() {
  const PassLoops* loops = registered();
  return cpu_level() >= kAvx512 && loops[kAvx512].look_up ? loops[kAvx512] : loops[kBaseline];
}

constexpr int64_t kGrain = 1 << 15;

bool is_byte(const Tensor& t) { return t.dtype == DType::UInt8 || t.dtype == DType::Int8; }
void check_bytes(const Call& c, const Tensor& t) {
  if (!is_byte(t)) runtime_error(c.name(), ": expected codes of uint8 or int8, got ", dtype_name(t.dtype));
}

// Whether the elements fill one piece of memory, in whichever order of dimensions.
bool dense(const Tensor& t) {
  std::array<bool, kMaxDims> used{};
  int64_t step = 1;
  for (int done = 0; done < t.ndim; ++done) {
    int next = -1;
    for (int k = 0; k < t.ndim; ++k)
      if (!used[size_t(k)] && (t.sizes[k] == 1 || t.strides[k] == step)) next = k;
    if (next < 0) return false;
    used[size_t(next)] = true;
    if (t.sizes[next] != 1) step *= t.sizes[next];
  }
  return true;
}
Tensor& output_as_it_lies(Call& c, const Tensor& t) {
  return dense(t) ? c.output(t.shape(), t.dtype, t.device, t.stride()) : c.output_like(t);
}
// t, or a copy with the strides of the result.
TensorRef lying_as(const Tensor& out, const Tensor& t) {
  if (std::ranges::equal(t.stride(), out.stride())) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty_strided(out.shape(), out.stride(), t.dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

// --- _code_pair(a, scale, zero point, b, scale, zero point, result's scale, zero point, multiply, relu) --------------

void infer_pair(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(3);
  check_bytes(c, a);
  if (b.dtype != a.dtype || !std::ranges::equal(a.shape(), b.shape()))
    runtime_error(c.name(), ": expected two tensors of one shape and dtype, got ", dtype_name(a.dtype), " ",
                  shape_text(a.shape()), " and ", dtype_name(b.dtype), " ", shape_text(b.shape()));
  output_as_it_lies(c, a);
}

template <class T>
void pair_of(const Call& c, const Tensor& a, const Tensor& b, Tensor& out) {
  const Affine of_a{float(c.real(1)), int32_t(c.integer(2))}, of_b{float(c.real(4)), int32_t(c.integer(5))},
      of_out{float(c.real(6)), int32_t(c.integer(7))};
  const float high = float(int32_t(std::numeric_limits<T>::max()) - of_out.zero),
              low = c.boolean(9) ? 0.f : float(int32_t(std::numeric_limits<T>::min()) - of_out.zero);
  const bool multiply = c.boolean(8);
  const Rounding rounding{low, high, of_out.zero};
  const float inverse = 1.f / of_out.scale, factor = of_a.scale * of_b.scale * inverse;
  const T *x = a.ptr<T>(), *y = b.ptr<T>();
  const PassLoops& loops = pass_loops();
  const auto add_codes = [&] {
    if constexpr (std::is_signed_v<T>) return loops.add_signed;
    else return loops.add_unsigned;
  }();
  const auto multiply_codes = [&] {
    if constexpr (std::is_signed_v<T>) return loops.multiply_signed;
    else return loops.multiply_unsigned;
  }();
  T* to = out.ptr<T>();
  parallel_for(out.numel, kGrain, [&](int64_t k, int64_t end) {
    if (multiply) multiply_codes(x + k, of_a.zero, y + k, of_b.zero, factor, rounding, end - k, to + k);
    else add_codes(x + k, of_a, y + k, of_b, inverse, rounding, end - k, to + k);
  });
}
void cpu_pair(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef a = lying_as(out, c.tensor(0)), b = lying_as(out, c.tensor(3));
  LockRelease lock(out.numel / 4);
  if (out.dtype == DType::UInt8) pair_of<uint8_t>(c, *a, *b, out);
  else pair_of<int8_t>(c, *a, *b, out);
}

// --- _code_table(codes, table): table[code], the least code first ----------------------------------------------------

void infer_table(Call& c) {
  const Tensor &x = c.tensor(0), &table = c.tensor(1);
  check_bytes(c, x);
  if (table.dtype != x.dtype || table.ndim != 1 || table.numel != 256 || !table.contiguous())
    runtime_error(c.name(), ": the table must be ", dtype_name(x.dtype), " of shape [256], got ",
                  dtype_name(table.dtype), " ", shape_text(table.shape()));
  output_as_it_lies(c, x);
}
void cpu_table(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef x = lying_as(out, c.tensor(0));
  std::array<uint8_t, 256> table;
  std::memcpy(table.data(), c.tensor(1).ptr<uint8_t>(), table.size());
  if (out.dtype == DType::Int8) std::rotate(table.begin(), table.begin() + 128, table.end());  // by the codes' bits
  LockRelease lock(out.numel / 4);
  const uint8_t* from = x->ptr<uint8_t>();
  uint8_t* to = out.ptr<uint8_t>();
  parallel_for(out.numel, kGrain, [&](int64_t k, int64_t end) {
    pass_loops().look_up(table.data(), from + k, end - k, to + k);
  });
}

// --- _code_values(codes, scale, zero point) -> float32 -------------------------------------------------------------

void infer_values(Call& c) {
  const Tensor& x = c.tensor(0);
  check_bytes(c, x);
  if (dense(x)) c.output(x.shape(), DType::Float32, x.device, x.stride());
  else c.output(x.shape(), DType::Float32, x.device);
}
template <class T> void values(const Call& c, const Tensor& x, Tensor& out) {
  const float scale = float(c.real(1)), zero = float(c.integer(2));
  const T* from = x.ptr<T>();
  float* to = out.ptr<float>();
  parallel_for(out.numel, kGrain, [&](int64_t k, int64_t end) {
    for (; k < end; ++k) to[k] = (float(from[k]) - zero) * scale;
  });
}
void cpu_values(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef x = lying_as(out, c.tensor(0));
  LockRelease lock(out.numel / 4);
  if (x->dtype == DType::UInt8) values<uint8_t>(c, *x, out);
  else values<int8_t>(c, *x, out);
}

// --- _code_max_pool2d(codes, kernel, stride, padding, dilation, output size): images with channels last --------------

void infer_max_pool(Call& c) {
  const Tensor& x = c.tensor(0);
  check_bytes(c, x);
  for (int k = 1; k <= 5; ++k)
    if (c.ints(k).size() != 2) runtime_error(c.name(), ": expected two numbers for each argument");
  if (x.ndim != 4) runtime_error(c.name(), ": expected images of 4 dimensions, got shape ", shape_text(x.shape()));
  for (int k = 0; k < 2; ++k) {
    const int64_t kernel = c.ints(1)[size_t(k)], stride = c.ints(2)[size_t(k)], padding = c.ints(3)[size_t(k)],
                  dilation = c.ints(4)[size_t(k)], out = c.ints(5)[size_t(k)];
    const bool good = kernel > 0 && stride > 0 && dilation > 0 && padding >= 0 && padding < kernel && out > 0 &&
                      (out - 1) * stride - padding < x.size(2 + k) && x.size(2 + k) + padding > 0;
    if (!good) runtime_error(c.name(), ": kernel, stride or padding does not fit images ", shape_text(x.shape()));
  }
  const int64_t shape[4] = {x.size(0), x.size(1), c.ints(5)[0], c.ints(5)[1]};
  c.output(shape, x.dtype, x.device, channels_last_strides(shape));
}

struct Span {
  int64_t begin, end;  // steps of the window that lie inside
  Span(int64_t out, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    const int64_t from = out * stride - padding;
    begin = from < 0 ? (-from + dilation - 1) / dilation : 0;
    end = std::min(kernel, (size - from + dilation - 1) / dilation);
  }
};

template <class T>
void max_pool(const Call& c, const Tensor& x, Tensor& out) {
  const int64_t channels = x.size(1), height = x.size(2), width = x.size(3), rows = out.size(2), across = out.size(3);
  const Dims kernel = c.ints(1), stride = c.ints(2), padding = c.ints(3), dilation = c.ints(4);
  const LargestCodes<T> largest = [] {
    if constexpr (std::is_signed_v<T>) return pass_loops().largest_signed;
    else return pass_loops().largest_unsigned;
  }();
  parallel_for(out.size(0) * rows, std::max<int64_t>(1, kGrain / (across * channels * kernel[0] * kernel[1] + 1)),
               [&](int64_t r, int64_t last) {
    for (; r < last; ++r) {
      const int64_t oh = r % rows;
      const Span down(oh, height, kernel[0], stride[0], padding[0], dilation[0]);
      const T* image = x.ptr<T>() + r / rows * height * width * channels;
      for (int64_t ow = 0; ow < across; ++ow) {
        const Span over(ow, width, kernel[1], stride[1], padding[1], dilation[1]);
        T* to = out.ptr<T>() + (r * across + ow) * channels;
        const int64_t h = oh * stride[0] - padding[0] + down.begin * dilation[0];
        const int64_t w = ow * stride[1] - padding[1] + over.begin * dilation[1];
        if (down.begin >= down.end || over.begin >= over.end)
          std::fill_n(to, channels, std::numeric_limits<T>::min());
        else
          largest(image + (h * width + w) * channels, down.end - down.begin, dilation[0] * width * channels,
                  over.end - over.begin, dilation[1] * channels, channels, to);
      }
    }
  });
}
void cpu_max_pool(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef x = with_channels_last(c.tensor(0));
  LockRelease lock(out.numel * c.ints(1)[0] * c.ints(1)[1] / 16);
  if (out.dtype == DType::UInt8) max_pool<uint8_t>(c, *x, out);
  else max_pool<int8_t>(c, *x, out);
}

const Primitives rows{
    {"_code_pair", infer_pair, cpu_pair},
    {"_code_table", infer_table, cpu_table},
    {"_code_values", infer_values, cpu_values},
    {"_code_max_pool2d", infer_max_pool, cpu_max_pool},
};

}  // namespace

PassRegistration::PassRegistration(int level, const PassLoops& loops) {
  if (level <= cpu_level()) registered()[level] = loops;
}

}  // namespace flambeau
