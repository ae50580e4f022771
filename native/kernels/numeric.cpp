// Small numerical primitives without a family: frexp, and the exclusive or of 64-bit words along the last dimension.
#include <cmath>

#include "options.h"

namespace flambeau {
namespace {

// frexp(Tensor self) -> (mantissa, exponent): self = mantissa * 2**exponent, |mantissa| in [1/2, 1); int32 exponents.
void infer_frexp(Call& c) {
  const Tensor& t = c.tensor(0);
  if (!is_floating(t.dtype)) runtime_error("frexp: expected floating-point numbers, got ", dtype_name(t.dtype));
  if (is_float8(t.dtype)) not_implemented("frexp: not offered for ", dtype_name(t.dtype), "; convert it with .float()");
  std::vector<int64_t> strides = like_strides(t);
  c.output(t.shape(), t.dtype, t.device, strides);
  c.output(t.shape(), DType::Int32, t.device, strides);
}
template <class T, class F>
void split_all(const Tensor& x, Tensor& mantissa, Tensor& exponent) {
  parallel_for(x.numel, 1 << 15, [&](int64_t a, int64_t b) {
    const T* from = x.ptr<T>();
    T* to = mantissa.ptr<T>();
    int32_t* power = exponent.ptr<int32_t>();
    for (int64_t k = a; k < b; ++k) {
      int e = 0;
      F m = std::frexp(F(from[k]), &e);
      to[k] = T(m);
      power[k] = std::isfinite(m) ? e : 0;
    }
  });
}
void cpu_frexp(Call& c) {
  Tensor &mantissa = c.out(0), &exponent = c.out(1);
  TensorRef x = empty_strided(mantissa.shape(), mantissa.stride(), mantissa.dtype, mantissa.device);
  copy_into(*x, c.tensor(0));
  LockRelease lock(x->numel * 4);
  switch (x->dtype) {
    case DType::Float32: return split_all<float, float>(*x, mantissa, exponent);
    case DType::Float64: return split_all<double, double>(*x, mantissa, exponent);
    case DType::Float16: return split_all<float16, float>(*x, mantissa, exponent);
    default: return split_all<bfloat16, float>(*x, mantissa, exponent);
  }
}

// xor_rows(Tensor self) of int64 [rows, n] -> [rows]
void infer_xor(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim != 2 || t.dtype != DType::Int64)
    runtime_error(c.name(), ": expected an int64 matrix, got ", dtype_name(t.dtype), " ", shape_text(t.shape()));
  c.output(Dims(t.sizes, 1), DType::Int64, t.device);
}
void cpu_xor(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  int64_t* out = c.out().ptr<int64_t>();
  const int64_t rows = x->sizes[0], n = x->sizes[1];
  LockRelease lock(x->numel);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t* from = x->ptr<int64_t>() + r * n;
    int64_t all = 0;
    for (int64_t k = 0; k < n; ++k) all ^= from[k];
    out[r] = all;
  }
}

const Primitives rows{
    {"frexp", infer_frexp, cpu_frexp},
    {"xor_rows", infer_xor, cpu_xor},
};

}  // namespace
}  // namespace flambeau
