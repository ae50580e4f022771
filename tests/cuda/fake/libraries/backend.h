// Descriptors of cuDNN's backend interface: attributes by their numbers, and the tensors they describe.
#pragma once
#include "common.h"

enum { kBad = 2000, kUnsupported = 3000 };
enum { kPointwiseMode = 0, kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5, kForward = 10,
       kFilter = 11, kData = 12, kPointwise = 13, kGraph = 15, kPack = 16, kTensor = 17, kProductMode = 18, kProduct = 19,
       kReductionMode = 21, kReduction = 22, kReshape = 31 };

struct Handle : OfDevice {
  void* stream = nullptr;
};
struct Desc {
  int kind;
  bool finished = false;
  std::map<int, std::vector<char>> values;
  int engine = -1;

  template <class T>
  std::vector<T> list(int attribute) const {
    auto found = values.find(attribute);
    if (found == values.end()) return {};
    std::vector<T> v(found->second.size() / sizeof(T));
    std::memcpy(v.data(), found->second.data(), found->second.size());
    return v;
  }
  template <class T>
  T one(int attribute) const { return list<T>(attribute).at(0); }
  bool has(int attribute) const { return values.contains(attribute); }
};
constexpr size_t kSizes[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8, 4, 4, 4};  // of the types of attributes

struct Tensor {
  int type = -1;
  std::vector<int64_t> sizes, strides;
  int64_t id = 0, alignment = 1;
  bool between = false, is_number = false;
  size_t bytes() const {
    int64_t far = 1;
    for (size_t d = 0; d < sizes.size(); ++d) far += (sizes[d] - 1) * strides[d];
    return size_t(far) * bytes_of(type);
  }
};
// CUDA's numbers of bfloat16, int32 and bytes.
inline int element_type(int cudnn_type) {
  return cudnn_type == 9 ? 14 : cudnn_type == 4 ? 10 : cudnn_type == 11 ? 8 : cudnn_type;
}

inline Tensor tensor_of(const Desc& d) {
  return {element_type(d.one<int>(901)), d.list<int64_t>(902), d.list<int64_t>(903), d.one<int64_t>(906),
          d.one<int64_t>(900), d.has(907) && d.one<char>(907), d.has(908) && d.one<char>(908)};
}
