// Products of 8-bit floats that come with scales: _scaled_mm. On the CPU both sides are widened to float32.
#include <algorithm>
#include <array>

#include "../core/parallel.h"
#include "gemm.h"
#include "rows.h"

namespace flambeau {
namespace {

// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
enum { kA, kB, kScaleA, kScaleB, kBias, kScaleResult, kOutDType };

bool multiplies(DType t) { return t == DType::Float8_e4m3fn || t == DType::Float8_e5m2; }
bool stores(DType t) { return multiplies(t) || t == DType::Float32 || t == DType::Float16 || t == DType::BFloat16; }

bool is_matrix(const Tensor& s, int64_t rows, int64_t columns) {
  return s.ndim == 2 && s.size(0) == rows && s.size(1) == columns && s.contiguous();
}

void check_scales(Call& c, int64_t m, int64_t n) {
  const Tensor &a = c.tensor(kScaleA), &b = c.tensor(kScaleB);
  const bool floats = a.dtype == DType::Float32 && b.dtype == DType::Float32;
  if (floats && ((a.numel == 1 && b.numel == 1) || (is_matrix(a, m, 1) && is_matrix(b, 1, n)))) return;
  value_error(c.name(), ": scales are float32, one number each, or one for each row [", m,
              ", 1] and each column [1, ", n, "], contiguous; got ", dtype_name(a.dtype), shape_text(a.shape()),
              " and ", dtype_name(b.dtype), shape_text(b.shape()),
              "; nn.functional.scaled_mm takes scales of blocks");
}

void infer(Call& c) {
  const Tensor &a = c.tensor(kA), &b = c.tensor(kB);
  if (a.ndim != 2 || b.ndim != 2)
    runtime_error(c.name(), ": expected two matrices, got ", shape_text(a.shape()), " and ", shape_text(b.shape()));
  if (a.size(1) != b.size(0))
    runtime_error(c.name(), ": shapes ", shape_text(a.shape()), " and ", shape_text(b.shape()),
                  " cannot be multiplied: the columns of the first are the rows of the second");
  if (!multiplies(a.dtype) || !multiplies(b.dtype))
    value_error(c.name(), ": expected float8_e4m3fn or float8_e5m2, got ", dtype_name(a.dtype), " and ",
                dtype_name(b.dtype), "; use mm for other dtypes");
  const int64_t m = a.size(0), n = b.size(1);
  check_scales(c, m, n);
  const Tensor *bias = c.optional_tensor(kBias), *scale = c.optional_tensor(kScaleResult);
  if (bias && (bias->ndim != 1 || bias->numel != n || !(is_half(bias->dtype) || bias->dtype == DType::Float32)))
    runtime_error(c.name(), ": bias is one row of ", n, " numbers in float32, float16 or bfloat16, got ",
                  dtype_name(bias->dtype), shape_text(bias->shape()));
  const DType to = c.dtype_or(kOutDType, a.dtype);
  if (!stores(to))
    runtime_error(c.name(), ": out_dtype is float32, float16, bfloat16, float8_e4m3fn or float8_e5m2, got ",
                  dtype_name(to));
  if (scale && (scale->numel != 1 || scale->dtype != DType::Float32))
    runtime_error(c.name(), ": scale_result is one number of float32, got ", dtype_name(scale->dtype),
                  shape_text(scale->shape()));
  if (scale && !multiplies(to))
    not_implemented(c.name(), ": scale_result is for results of 8 bits, and out_dtype is ", dtype_name(to),
                    "; multiply the result");
  c.output(std::array{m, n}, to, a.device);
}

void cpu(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  auto floats = [&](int k) { return contiguous(*to_dtype(c.tensor(k), DType::Float32)); };
  const TensorRef a = floats(kA), b = floats(kB), by_row = floats(kScaleA), by_column = floats(kScaleB);
  const TensorRef bias = c.optional_tensor(kBias) ? floats(kBias) : TensorRef();
  const float last = c.optional_tensor(kScaleResult) ? *floats(kScaleResult)->ptr<float>() : 1.f;
  const int64_t m = out.size(0), n = out.size(1), k = a->size(1);
  TensorRef made = empty(out.shape(), DType::Float32);
  {
    LockRelease lock(m * n * std::max<int64_t>(k, 1) / 16);
    gemm<float>(m, n, k, a->ptr<float>(), k, 1, b->ptr<float>(), n, 1, made->ptr<float>(), n);
    const float *rows = by_row->ptr<float>(), *columns = by_column->ptr<float>();
    const int64_t row = by_row->numel > 1, column = by_column->numel > 1;
    parallel_for(m, std::max<int64_t>(1, (1 << 15) / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float& v = made->ptr<float>()[i * n + j];
          v = (v * (rows[i * row] * columns[j * column]) + (bias ? bias->ptr<float>()[j] : 0.f)) * last;
        }
    });
  }
  copy_into(out, *made);
}

// _block_scaled_mm(self, mat2, scale_a, scale_b, recipe_a, recipe_b, out_dtype, use_fast_accum); float4 lies along what
// is summed over, two numbers in a byte. Its caller checks scales and sizes.
void infer_blocks(Call& c) {
  const Tensor &a = c.tensor(kA), &b = c.tensor(kB);
  c.output(std::array{a.size(0), b.size(1)}, c.dtype_or(6, a.dtype), a.device);
}
void refuse_blocks(Call& c) { not_implemented(c.name(), ": only on CUDA; call nn.functional.scaled_mm"); }

const Primitives rows{{"_scaled_mm", infer, cpu}, {"_block_scaled_mm", infer_blocks, refuse_blocks}};

}  // namespace
}  // namespace flambeau
