// Linear layers on bytes: weights of 8 bits, activations quantized for each call (or left as they are).
//
// A number stands for scale * (q - zero). So sum (q - z)(w - zw) = sum q w - z sum w - zw sum q + k z zw, where the
// sums of w are known beforehand.
#include "int8.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/machine.h"
#include "rows.h"

namespace flambeau {
namespace {

constexpr int64_t kRows = 16;          // rows of weights that one turn takes
constexpr int64_t kInputs = 4;         // and rows of the input
constexpr int64_t kGrainWork = 1 << 16;  // multiplications worth a thread

Int8Loops* registered() {
  static Int8Loops loops[2] = {};
  return loops;
}
const Int8Loops& best_loops() {
  const Int8Loops* loops = registered();
  return cpu_level() >= kAvx512 && loops[kAvx512].dots ? loops[kAvx512] : loops[kBaseline];
}

struct Affine {
  double scale;
  int32_t zero;
};

// Scale and zero point for numbers from `low` to `high` in [0, top], as PyTorch chooses them: 0 has a code of its own,
// and the range's end whose code is less off decides the zero point.
Affine choose(float low, float high, int top) {
  low = std::min(low, 0.f), high = std::max(high, 0.f);
  double scale = (double(high) - low) / top;
  if (float(scale) == 0.f || std::isinf(1.f / float(scale))) scale = 0.1;
  constexpr float kLeast = 6.1e-5f;
  if (scale < kLeast) {
    const float before = float(scale);
    scale = kLeast;
    if (low == 0.f) high = kLeast * float(top);
    else if (high == 0.f) low = -kLeast * float(top);
    else low *= kLeast / before, high *= kLeast / before;
  }
  const double from_low = -low / scale, from_high = top - high / scale;
  const double off_low = std::fabs(low / scale), off_high = top + std::fabs(high / scale);
  const double zero = off_low < off_high ? from_low : from_high;
  const int32_t code = zero < 0 ? 0 : zero > top ? top : int32_t(std::nearbyint(zero));
  return {scale, code};
}

Affine choose_for(const Call& c, const Tensor& x, int top) {
  const Int8Loops& loops = best_loops();
  constexpr int64_t kBlock = 1 << 13;
  const int64_t blocks = (x.numel + kBlock - 1) / kBlock;
  std::vector<float> low(blocks, 0.f), high(blocks, 0.f);
  parallel_for(blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      loops.range(x.ptr<float>() + b * kBlock, std::min(kBlock, x.numel - b * kBlock), &low[b], &high[b]);
  });
  float least = 0, most = 0;
  bool finite = true;
  for (int64_t b = 0; b < blocks; ++b) {
    finite &= std::isfinite(low[b]) && std::isfinite(high[b]);
    least = std::min(least, low[b]), most = std::max(most, high[b]);
  }
  if (!finite) runtime_error(c.name(), ": the input holds an infinity or NaN, for which there is no scale");
  return choose(least, most, top);
}

// --- _choose_affine(Tensor self, bool reduce_range) -> (scale, zero point) -------------------------------------------

void infer_choose(Call& c) {
  const Tensor& x = c.tensor(0);
  if (x.dtype != DType::Float32) runtime_error(c.name(), ": expected float32, got ", dtype_name(x.dtype));
  c.output(Dims{}, DType::Float64, x.device);
  c.output(Dims{}, DType::Int64, x.device);
}
void cpu_choose(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  const Affine found = choose_for(c, *x, c.boolean(1) ? 127 : 255);
  *c.out(0).ptr<double>() = found.scale;
  *c.out(1).ptr<int64_t>() = found.zero;
}

// --- _int8_linear(input, weight, scales, zero points, sums of the weight's rows, bias, reduce_range) -----------------

void check_vector(const Call& c, const char* what, const Tensor& t, DType dtype, int64_t n, bool one) {
  if (t.dtype != dtype || t.ndim != 1 || !(t.numel == n || (one && t.numel == 1)) || !t.contiguous())
    runtime_error(c.name(), ": ", what, " must be ", dtype_name(dtype), " of shape [", n, "], got ",
                  dtype_name(t.dtype), " ", shape_text(t.shape()));
}

int64_t check_layer(const Call& c, const Tensor& x, const Tensor& w) {
  if (w.dtype != DType::Int8 || w.ndim != 2 || !w.contiguous())
    runtime_error(c.name(), ": weight must be a contiguous matrix of int8, got ", dtype_name(w.dtype), " ",
                  shape_text(w.shape()));
  if (x.ndim < 1 || x.size(x.ndim - 1) != w.size(1))
    runtime_error(c.name(), ": input of shape ", shape_text(x.shape()), " does not end in the ", w.size(1),
                  " features that weight ", shape_text(w.shape()), " expects");
  if (w.size(1) > (1 << 16))
    not_implemented(c.name(), ": more than 65536 features, whose sum may not fit into 32 bits");
  return w.size(0);
}

void output_features(Call& c, const Tensor& x, int64_t n) {
  std::vector<int64_t> shape(x.sizes, x.sizes + x.ndim);
  shape.back() = n;
  c.output(shape, x.dtype, x.device);
}

void infer_int8_linear(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1);
  const int64_t n = check_layer(c, x, w);
  if (x.dtype != DType::Float32) runtime_error(c.name(), ": input must be float32, got ", dtype_name(x.dtype));
  check_vector(c, "scales", c.tensor(2), DType::Float32, n, true);
  check_vector(c, "zero points", c.tensor(3), DType::Int32, n, true);
  check_vector(c, "sums", c.tensor(4), DType::Int32, n, false);
  if (c.has(5)) check_vector(c, "bias", c.tensor(5), DType::Float32, n, false);
  output_features(c, x, n);
}

// What one call multiplies with: the quantized input, and the numbers of each feature.
struct Layer {
  int64_t m, n;
  const uint8_t* q;
  const int8_t* w;
  Int8Features features;
  const int32_t* input_sums;
  bool seven_bits;
  float* out;

  void run() const {
    const Int8Loops& loops = best_loops();
    const int64_t groups = (n + kRows - 1) / kRows, k = features.k;
    parallel_for(groups, std::max<int64_t>(1, kGrainWork / (kRows * k * m + 1)), [&](int64_t begin, int64_t end) {
      int32_t products[kInputs * kRows];
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * kRows, count = std::min(kRows, n - first);
        for (int64_t i = 0; i < m; i += kInputs) {
          const int64_t inputs = std::min(kInputs, m - i);
          loops.dots(q + i * k, inputs, w + first * k, count, k, products, seven_bits);
          for (int64_t j = 0; j < inputs; ++j)
            loops.finish(features, products + j * count, input_sums[i + j], first, count, out + (i + j) * n + first);
        }
      }
    });
  }
};

void cpu_int8_linear(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  const Tensor& w = c.tensor(1);
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const int64_t n = w.size(0), k = w.size(1), m = out.numel / n;
  TensorRef q = empty(x->shape(), DType::UInt8), input_sums = empty(Dims{&m, 1}, DType::Int32);
  LockRelease lock(m * n * std::max<int64_t>(k, 1) / 64);
  const int top = c.boolean(6) ? 127 : 255;
  const Affine of_input = choose_for(c, *x, top);
  const Int8Loops& loops = best_loops();
  parallel_for(m, std::max<int64_t>(1, kGrainWork / (k + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint8_t* to = q->ptr<uint8_t>() + i * k;
      loops.quantize(x->ptr<float>() + i * k, k, 1.f / float(of_input.scale), float(of_input.zero), top, to);
      int32_t sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += to[j];
      input_sums->ptr<int32_t>()[i] = sum;
    }
  });
  Tensor* bias = c.optional_tensor(5);
  const Tensor &scales = c.tensor(2), &zeros = c.tensor(3);
  const Int8Features features{k, of_input.zero, float(of_input.scale), scales.ptr<float>(),
                              bias ? bias->ptr<float>() : nullptr, zeros.ptr<int32_t>(), c.tensor(4).ptr<int32_t>(),
                              scales.numel == 1, zeros.numel == 1};
  Layer{m, n, q->ptr<uint8_t>(), w.ptr<int8_t>(), features, input_sums->ptr<int32_t>(), top == 127, out.ptr<float>()}
      .run();
}

// --- _weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales): weights alone are bytes --------------------------

void infer_weight_only(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1), &scales = c.tensor(2);
  if (x.ndim != 2) runtime_error(c.name(), ": expected a matrix as input, got shape ", shape_text(x.shape()));
  if (x.dtype != DType::Float32 && !is_half(x.dtype))
    runtime_error(c.name(), ": input must be float32, bfloat16 or float16, got ", dtype_name(x.dtype));
  const int64_t n = check_layer(c, x, w);
  check_vector(c, "scales", scales, x.dtype, n, false);
  output_features(c, x, n);
}
void cpu_weight_only(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef x = contiguous(*to_dtype(c.tensor(0), DType::Float32)), s = to_dtype(c.tensor(2), DType::Float32);
  TensorRef y = out.dtype == DType::Float32 ? TensorRef::borrow(&out) : empty(out.shape(), DType::Float32);
  const Tensor& w = c.tensor(1);
  const int64_t n = w.size(0), k = w.size(1), m = x->size(0), groups = (n + kRows - 1) / kRows;
  {
    LockRelease lock(m * n * std::max<int64_t>(k, 1) / 32);
    parallel_for(groups, std::max<int64_t>(1, kGrainWork / (kRows * k * m + 1)), [&](int64_t begin, int64_t end) {
      float products[kRows];
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * kRows, count = std::min(kRows, n - first);
        for (int64_t i = 0; i < m; ++i) {
          best_loops().dot_floats(x->ptr<float>() + i * k, w.ptr<int8_t>() + first * k, count, k, products);
          for (int64_t r = 0; r < count; ++r)
            y->ptr<float>()[i * n + first + r] = products[r] * s->ptr<float>()[first + r];
        }
      }
    });
  }
  if (y.get() != &out) copy_into(out, *y);
}

const Primitives rows{
    {"_choose_affine", infer_choose, cpu_choose},
    {"_int8_linear", infer_int8_linear, cpu_int8_linear},
    {"_weight_int8pack_mm", infer_weight_only, cpu_weight_only},
};

}  // namespace

Int8Registration::Int8Registration(int level, const Int8Loops& loops) {
  if (level <= cpu_level()) registered()[level] = loops;
}

}  // namespace flambeau
