// Tensors as DLPack describes them (https://dmlc.github.io/dlpack/latest/c_api.html).
#pragma once
#include <vector>

#include "tensor.h"

namespace flambeau {

// The specification's structures.
struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
enum : int32_t { kDLCpu = 1, kDLCuda = 2, kDLCudaHost = 3 };

// Describes t, whose sizes and strides go to `dims`: they must live as long as the description.
void describe_for_dlpack(const Tensor& t, DLTensor& d, std::vector<int64_t>& dims);
// A tensor over such memory; whose it is, and who gives it back, is for the caller to say. ValueError for what cannot
// be, NotImplementedError for element types that are not known here.
TensorRef over_dlpack(const DLTensor& d, bool readonly);

}  // namespace flambeau
