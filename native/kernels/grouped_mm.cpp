// Products of groups of rows or columns that follow each other, each with a matrix of its own: _grouped_mm; and of
// matrices of bytes, summed in 32 bits: _int_mm.
#include <algorithm>
#include <array>

#include "../core/parallel.h"
#include "gemm.h"
#include "rows.h"

namespace flambeau {
namespace {

// _grouped_mm(self, mat2, offs, bias, out_dtype)
enum { kA, kB, kOffsets, kBias, kOutDType };

bool multiplies(DType t) { return t == DType::Float32 || t == DType::Float64 || is_half(t); }

void check_offsets(const Call& c, const Tensor& a, const Tensor& b) {
  const Tensor* offsets = c.optional_tensor(kOffsets);
  const bool both = a.ndim == 3 && b.ndim == 3;
  if (both && offsets)
    runtime_error(c.name(), ": offs are for matrices of 2 dimensions, and both have 3; leave them out");
  if (both) return;
  if (!offsets) runtime_error(c.name(), ": expected offs, where each group of a matrix of 2 dimensions ends");
  if (offsets->ndim != 1 || offsets->dtype != DType::Int32 || offsets->device != a.device)
    runtime_error(c.name(), ": expected offs in one dimension, of int32, beside the matrices, got ",
                  dtype_name(offsets->dtype), shape_text(offsets->shape()), " on ", device_name(offsets->device));
}

// Where a group begins: `group` elements further for each group before it, `start` for each row or column.
struct Part {
  const char* data;
  int64_t group, start, row, column, size;  // strides in elements, bytes of one
  const void* at(int64_t g, int64_t begin) const { return data + (g * group + begin * start) * size; }
};
Part part_of(const Tensor& t, int dim) {  // dim: which of the last two dimensions groups follow each other in
  return {static_cast<const char*>(t.data), t.ndim == 3 ? t.stride()[0] : 0, t.ndim == 2 ? t.stride()[size_t(dim)] : 0,
          t.stride()[size_t(t.ndim - 2)], t.stride()[size_t(t.ndim - 1)], item_size(t.dtype)};
}

void infer(Call& c) {
  const Tensor &a = c.tensor(kA), &b = c.tensor(kB);
  if ((a.ndim != 2 && a.ndim != 3) || (b.ndim != 2 && b.ndim != 3))
    runtime_error(c.name(), ": expected matrices of 2 or 3 dimensions, got ", shape_text(a.shape()), " and ",
                  shape_text(b.shape()));
  if (a.dtype != b.dtype || !multiplies(a.dtype))
    runtime_error(c.name(), ": expected matrices of one dtype, float32, float64, float16 or bfloat16, got ",
                  dtype_name(a.dtype), " and ", dtype_name(b.dtype));
  if (c.optional_tensor(kBias)) not_implemented(c.name(), ": bias is not available; add it to the result");
  if (c.dtype_or(kOutDType, a.dtype) != a.dtype)
    runtime_error(c.name(), ": out_dtype is that of the matrices, ", dtype_name(a.dtype), "; got ",
                  dtype_name(c.dtype_or(kOutDType, a.dtype)), ", convert the result");
  check_offsets(c, a, b);
  const Tensor* offsets = c.optional_tensor(kOffsets);
  const int64_t groups = offsets ? offsets->numel : a.size(0), m = a.size(a.ndim - 2), n = b.size(b.ndim - 1);
  for (const Tensor* t : {&a, &b})
    if (t->ndim == 3 && t->size(0) != groups)
      runtime_error(c.name(), ": ", groups, " groups need as many matrices, got ", shape_text(t->shape()));
  if (a.size(a.ndim - 1) != b.size(b.ndim - 2))
    runtime_error(c.name(), ": shapes ", shape_text(a.shape()), " and ", shape_text(b.shape()),
                  " cannot be multiplied: the last dimension of the first is the one before the last of the second");
  if (a.ndim == b.ndim) c.output(std::array{groups, m, n}, a.dtype, a.device);
  else c.output(std::array{m, n}, a.dtype, a.device);
}

// Where each group ends, checked.
std::vector<int64_t> ends_of(const Call& c, const Tensor& offsets, int64_t length) {
  const TensorRef plain = contiguous(offsets);
  std::vector<int64_t> ends(plain->ptr<int32_t>(), plain->ptr<int32_t>() + offsets.numel);
  for (size_t k = 0; k < ends.size(); ++k)
    if (ends[k] < (k ? ends[k - 1] : 0) || ends[k] > length)
      value_error(c.name(), ": offs rise from 0 to at most ", length, "; got ", ends[k], " at index ", k);
  return ends;
}

void cpu(Call& c) {
  const Tensor &a = c.tensor(kA), &b = c.tensor(kB), *offsets = c.optional_tensor(kOffsets);
  Tensor& out = c.out();
  const int64_t groups = out.ndim == 3 ? out.size(0) : offsets->numel;
  const bool depth_moves = a.ndim == 2 && b.ndim == 2;
  const Part left = part_of(a, depth_moves), right = part_of(b, !depth_moves);
  const int64_t m = a.size(a.ndim - 2), n = b.size(b.ndim - 1), k = a.size(a.ndim - 1);
  const auto ends = offsets ? ends_of(c, *offsets, depth_moves ? k : a.ndim == 2 ? m : n) : std::vector<int64_t>();
  std::memset(out.data, 0, size_t(out.numel * item_size(out.dtype)));
  LockRelease lock(out.numel * std::max<int64_t>(k, 1) / 16);
  for (int64_t g = 0, begin = 0; g < groups; ++g) {
    const int64_t length = offsets ? ends[size_t(g)] - begin : 0;
    const int64_t rows = offsets && a.ndim == 2 && !depth_moves ? length : m;
    const int64_t columns = offsets && b.ndim == 2 && !depth_moves ? length : n, depth = depth_moves ? length : k;
    const int64_t place = out.ndim == 3 ? g * m * n : a.ndim == 2 ? begin * n : begin;
    if (rows * columns * depth)
      gemm_any(a.dtype, rows, columns, depth, {left.at(g, begin), left.row, left.column},
               {right.at(g, begin), right.row, right.column}, static_cast<char*>(out.data) + place * left.size, n,
               Scalar(1.0), Scalar(0.0));
    begin += length;
  }
}

void infer_int(Call& c) {
  const Tensor &a = c.tensor(kA), &b = c.tensor(kB);
  if (a.ndim != 2 || b.ndim != 2 || a.size(1) != b.size(0))
    runtime_error(c.name(), ": expected matrices [m, k] and [k, n], got ", shape_text(a.shape()), " and ",
                  shape_text(b.shape()));
  for (const Tensor* t : {&a, &b})
    if (t->dtype != DType::Int8 && t->dtype != DType::UInt8)
      runtime_error(c.name(), ": expected int8 or uint8, got ", dtype_name(t->dtype), "; use mm for other dtypes");
  c.output(std::array{a.size(0), b.size(1)}, DType::Int32, a.device);
}
void cpu_int(Call& c) {
  const TensorRef a = to_dtype(c.tensor(kA), DType::Int32), b = to_dtype(c.tensor(kB), DType::Int32);
  Tensor& out = c.out();
  LockRelease lock(out.numel * std::max<int64_t>(a->size(1), 1) / 16);
  gemm_any(DType::Int32, out.size(0), out.size(1), a->size(1), {a->data, a->stride()[0], a->stride()[1]},
           {b->data, b->stride()[0], b->stride()[1]}, out.data, out.size(1), Scalar(int64_t(1)), Scalar(int64_t(0)));
}

const Primitives rows{{"_grouped_mm", infer, cpu}, {"_int_mm", infer_int, cpu_int}};

}  // namespace
}  // namespace flambeau
