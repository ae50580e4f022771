// Products and what follows them, and products of one input, as one call each. Graphs are rewritten to them; results
// are those of the separate calls, to the bit.
#include <algorithm>
#include <cstring>

#include "../core/parallel.h"
#include "elementwise.h"
#include "gemm.h"

namespace flambeau {
namespace {

// --- _linear_tail ----------------------------------------------------------------------------------------------------

enum { kInput, kWeight, kBias, kOther, kActivation, kColumns };
constexpr const char* kTail = "_linear_tail";

// The loops of the pointwise calls that a product takes in, with what each is given besides its operands.
struct Activation {
  const char *name, *loop;
  char option;  // the first character of a string argument
};
constexpr Activation kActivations[] = {{"relu", "relu", 0},        {"gelu", "gelu", 'n'}, {"gelu_tanh", "gelu", 't'},
                                       {"silu", "silu", 0},        {"tanh", "tanh", 0},   {"sigmoid", "sigmoid", 0}};
const Activation* activation_of(std::string_view name) {
  if (name == "none") return nullptr;
  const auto* found = std::ranges::find(kActivations, name, &Activation::name);
  if (found == std::end(kActivations))
    value_error(kTail, ": activation is none, relu, gelu, gelu_tanh, silu, tanh or sigmoid, got ", name);
  return found;
}

struct Tail final : Finish<float> {
  const float* base = nullptr;  // where C begins
  int64_t width = 0;
  const float* added = nullptr;
  bool row_added = false;       // it is one row, for all
  LoopFn add = find_elementwise("add")->loop[size_t(DType::Float32)], activate = nullptr;
  Scalar one = 1, option;

  void run(LoopFn loop, float* c, const float* other, int64_t n, const Scalar& s) const {
    auto* at = reinterpret_cast<char*>(c);
    char* const ptr[] = {at, at, reinterpret_cast<char*>(const_cast<float*>(other))};
    const int64_t strides[] = {4, 4, 4};
    loop(ptr, strides, n, &s);
  }
  void piece(float* c, int64_t crs, int64_t rows, int64_t cols) const override {
    const int64_t at = c - base, column = width ? at % width : 0;
    const bool whole = cols == crs && !row_added;  // one line
    for (int64_t i = 0; i < (whole ? 1 : rows); ++i) {
      float* row = c + i * crs;
      const int64_t n = whole ? rows * cols : cols;
      if (added) run(add, row, added + (row_added ? column : at + i * crs), n, one);
      if (activate) run(activate, row, nullptr, n, option);
    }
  }
};

bool is_one_row(const Tensor& other, const Tensor& result) { return other.ndim == 1 && result.ndim > 1; }

void infer_tail(Call& c) {
  const Tensor &x = c.tensor(kInput), &w = c.tensor(kWeight);
  const bool columns = c.boolean(kColumns);
  const bool half = x.dtype == DType::Float16 || x.dtype == DType::BFloat16;
  if (!(x.dtype == DType::Float32 || (half && x.device.type == DeviceType::CUDA)) || w.dtype != x.dtype ||
      x.ndim < 1 || w.ndim != 2 || x.size(x.ndim - 1) != w.size(columns ? 0 : 1))
    runtime_error(kTail, ": expected float32 rows (on CUDA halves too), and a matrix that fits them, got ",
                  dtype_name(x.dtype), shape_text(x.shape()), " and ", dtype_name(w.dtype), shape_text(w.shape()));
  std::vector<int64_t> shape(x.sizes, x.sizes + x.ndim);
  shape.back() = w.size(columns ? 1 : 0);
  const Tensor *bias = c.optional_tensor(kBias), *other = c.optional_tensor(kOther);
  const int64_t n[] = {shape.back()};
  if (bias && (bias->dtype != x.dtype || !std::ranges::equal(bias->shape(), n)))
    runtime_error(kTail, ": bias is one row of the result ", shape_text(shape), ", got ", shape_text(bias->shape()));
  if (other && (other->dtype != x.dtype ||
                !(std::ranges::equal(other->shape(), shape) || std::ranges::equal(other->shape(), n))))
    runtime_error(kTail, ": what is added has the result's shape ", shape_text(shape), " or is a row of it, got ",
                  shape_text(other->shape()));
  activation_of(c.str(kActivation));
  c.output(shape, x.dtype, x.device);
}

void cpu_tail(Call& c) {
  const Tensor& w = c.tensor(kWeight);
  Tensor& out = c.out();
  if (!out.numel) return;
  TensorRef x = contiguous(c.tensor(kInput)), bias, other;
  if (Tensor* t = c.optional_tensor(kBias)) bias = contiguous(*t);
  if (Tensor* t = c.optional_tensor(kOther)) other = contiguous(*t);
  Tail tail;
  tail.base = out.ptr<float>();
  tail.width = out.size(out.ndim - 1);
  if (other) tail.added = other->ptr<float>(), tail.row_added = is_one_row(*other, out);
  if (const Activation* a = activation_of(c.str(kActivation))) {
    tail.activate = find_elementwise(a->loop)->loop[size_t(DType::Float32)];
    if (a->option) tail.option.i = a->option;
  }
  const int64_t n = tail.width, k = x->size(x->ndim - 1), m = out.numel / n;
  const bool columns = c.boolean(kColumns);
  Epilogue<float> e{1, 0, bias ? bias->ptr<float>() : nullptr};
  e.finish = &tail;
  LockRelease lock(m * n * std::max<int64_t>(k, 1) / 16);
  gemm<float>(m, n, k, x->ptr<float>(), k, 1, w.ptr<float>(), w.strides[columns ? 0 : 1], w.strides[columns ? 1 : 0],
              out.ptr<float>(), n, e);
}

// --- _linears --------------------------------------------------------------------------------------------------------

constexpr const char* kSeveral = "_linears";

void infer_several(Call& c) {
  const Tensor& x = c.tensor(0);
  const auto weights = c.tensors(1), biases = c.tensors(2);
  if (x.dtype != DType::Float32 || x.ndim < 1 || weights.size() != biases.size())
    runtime_error(kSeveral, ": expected float32 rows, and a bias or None for each of the ", weights.size(),
                  " weights, got ", dtype_name(x.dtype), shape_text(x.shape()), " and ", biases.size(), " biases");
  std::vector<int64_t> shape(x.sizes, x.sizes + x.ndim);
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor &w = *weights[i], *b = biases[i];
    if (w.dtype != x.dtype || w.ndim != 2 || w.size(1) != x.size(x.ndim - 1) ||
        (b && (b->dtype != x.dtype || b->ndim != 1 || b->size(0) != w.size(0))))
      runtime_error(kSeveral, ": weight ", i, " of shape ", shape_text(w.shape()), " or its bias does not fit rows of ",
                    x.size(x.ndim - 1), " numbers");
    shape.back() = w.size(0);
    c.output(shape, x.dtype, x.device);
  }
}

void cpu_several(Call& c) {
  const auto weights = c.tensors(1), biases = c.tensors(2);
  TensorRef x = contiguous(c.tensor(0));
  int64_t m = 1;
  const int64_t k = x->size(x->ndim - 1);
  for (int d = 0; d + 1 < x->ndim; ++d) m *= x->size(d);
  std::vector<TensorRef> held;
  auto floats = [&](Tensor* t) {
    if (!t) return static_cast<const float*>(nullptr);
    held.push_back(contiguous(*t));
    return static_cast<const float*>(held.back()->ptr<float>());
  };
  std::vector<Joined> products;
  int64_t n = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor& y = c.out(int(i));
    products.push_back({weights[i]->size(0), floats(weights[i]), floats(biases[i]), y.ptr<float>()});
    n += products.back().n;
  }
  LockRelease lock(m * n * std::max<int64_t>(k, 1) / 16);
  gemm_joined(m, k, x->ptr<float>(), products);
}

const Primitives rows{{"_linear_tail", infer_tail, cpu_tail}, {"_linears", infer_several, cpu_several}};

}  // namespace
}  // namespace flambeau
