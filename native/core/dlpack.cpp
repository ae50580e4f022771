#include "dlpack.h"

#include <algorithm>

#include "device_table.h"
#include "foreign.h"

namespace flambeau {
namespace {

enum : uint8_t { kInt, kUInt, kFloat, kOpaque, kBfloat, kComplex, kBool, kFloat8_e4m3fn = 10, kFloat8_e5m2 = 12 };

const struct { DType dtype; DLDataType code; } kTypes[] = {
    {DType::Bool, {kBool, 8, 1}}, {DType::UInt8, {kUInt, 8, 1}}, {DType::Int8, {kInt, 8, 1}},
    {DType::Int16, {kInt, 16, 1}}, {DType::UInt16, {kUInt, 16, 1}}, {DType::Int32, {kInt, 32, 1}},
    {DType::UInt32, {kUInt, 32, 1}}, {DType::Int64, {kInt, 64, 1}}, {DType::UInt64, {kUInt, 64, 1}},
    {DType::Float16, {kFloat, 16, 1}}, {DType::BFloat16, {kBfloat, 16, 1}}, {DType::Float32, {kFloat, 32, 1}},
    {DType::Float64, {kFloat, 64, 1}}, {DType::Complex64, {kComplex, 64, 1}}, {DType::Complex128, {kComplex, 128, 1}},
    {DType::Float8_e4m3fn, {kFloat8_e4m3fn, 8, 1}}, {DType::Float8_e5m2, {kFloat8_e5m2, 8, 1}}};

DType dtype_of(DLDataType d) {
  if (d.lanes != 1) not_implemented("from_dlpack: elements with ", int(d.lanes), " lanes are not supported");
  for (const auto& entry : kTypes)
    if (entry.code.code == d.code && entry.code.bits == d.bits) return entry.dtype;
  not_implemented("from_dlpack: unsupported element type (code ", int(d.code), ", ", int(d.bits), " bits)");
}

// The addresses that such an array reaches, also with negative strides, in bytes around its first element.
struct Reach {
  int64_t low = 0, high = 0;
  bool none = false;  // it has no elements
};
Reach reach_of(Dims shape, Dims strides, int64_t item) {
  Reach r;
  for (size_t k = 0; k < shape.size(); ++k) {
    int64_t reach;
    r.none |= shape[k] == 0;
    if (shape[k] > 0 &&
        (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) || __builtin_mul_overflow(reach, item, &reach) ||
         __builtin_add_overflow(reach < 0 ? r.low : r.high, reach, reach < 0 ? &r.low : &r.high)))
      value_error("from_dlpack: shape ", shape_text(shape), " with strides ", shape_text(strides), " overflows");
  }
  return r.none ? Reach{0, 0, true} : r;
}

}  // namespace

void describe_for_dlpack(const Tensor& t, DLTensor& d, std::vector<int64_t>& dims) {
  dims.assign(t.sizes, t.sizes + t.ndim);
  dims.insert(dims.end(), t.strides, t.strides + t.ndim);
  // a step over a dimension of one element may be anything; consumers take 1
  for (int k = 0; k < t.ndim; ++k)
    if (t.sizes[k] < 2) dims[size_t(t.ndim + k)] = 1;
  d = {};
  d.data = t.data;
  d.device = t.device.type == DeviceType::CUDA ? DLDevice{kDLCuda, t.device.index} : DLDevice{kDLCpu, 0};
  d.ndim = t.ndim;
  for (const auto& entry : kTypes)
    if (entry.dtype == t.dtype) d.dtype = entry.code;
  d.shape = dims.data();
  d.strides = dims.data() + t.ndim;
}

TensorRef over_dlpack(const DLTensor& d, bool readonly) {
  const bool there = d.device.type == kDLCuda && has_device({DeviceType::CUDA, -1});
  if (d.device.type != kDLCpu && d.device.type != kDLCudaHost && !there)
    runtime_error("from_dlpack: the memory is on DLPack device type ", d.device.type,
                  ", and this build uses the CPU only");
  if (d.ndim < 0 || d.ndim > kMaxDims || (d.ndim && !d.shape)) value_error("from_dlpack: ", d.ndim, " dimensions");
  DType dtype = dtype_of(d.dtype);
  int64_t item = item_size(dtype);
  std::vector<int64_t> shape(d.shape, d.shape + d.ndim);
  for (int64_t size : shape)
    if (size < 0) value_error("from_dlpack: negative size in ", shape_text(shape));
  count(shape);
  std::vector<int64_t> strides =
      d.strides ? std::vector<int64_t>(d.strides, d.strides + d.ndim) : contiguous_strides(shape);
  char* start = static_cast<char*>(d.data) + d.byte_offset;
  const auto [low, high, none] = reach_of(shape, strides, item);
  if (!none && !d.data) value_error("from_dlpack: elements but no memory");
  if (reinterpret_cast<uintptr_t>(start) % uintptr_t(std::min<int64_t>(item, 8)))
    value_error("from_dlpack: the memory is not aligned for ", dtype_name(dtype));
  TensorRef t = over_foreign(start + low, none ? 0 : size_t(high - low + item), readonly, dtype, start);
  if (there) t->device = t->storage->device = placed({DeviceType::CUDA, int8_t(d.device.id)});
  set_dims(*t, shape, strides);
  return t;
}

}  // namespace flambeau
