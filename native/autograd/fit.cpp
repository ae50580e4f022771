// A gradient takes the shape, the dtype and the device of what it is the gradient of.
#include "pass.h"

namespace flambeau {

namespace {

OpHandle op_sum{"sum"}, op_view{"view.size"}, op_to{"_to_copy"};

// The gradient on the device of what it is the gradient of, which an operator may have moved to a CUDA device or back.
TensorRef moved(TensorRef g, Device device) {
  const bool elsewhere = g->device.type == DeviceType::CUDA || device.type == DeviceType::CUDA;
  if (__builtin_expect(!elsewhere || g->device == device, 1)) return g;
  Value to;
  to.tag = Tag::Device;
  to.device = device;
  return invoke(op_to, {Value(g.get()), Value(), to});
}

// Broadcast dimensions summed.
TensorRef summed(TensorRef g, Dims shape, Node& from, int which) {
  if (same_shape(g->shape(), shape)) return g;
  int64_t extra = int64_t(g->ndim) - int64_t(shape.size());
  bool fits = extra >= 0, kept = false;
  std::vector<int64_t> dims;
  for (int64_t k = 0; k < extra; ++k) dims.push_back(k);
  for (size_t k = 0; fits && k < shape.size(); ++k) {
    int64_t have = g->sizes[extra + k];
    fits = shape[k] == have || shape[k] == 1;
    if (shape[k] != have) dims.push_back(extra + int64_t(k)), kept = true;
  }
  if (!fits)
    runtime_error(node_name(from), ": gradient ", which, " has shape ", shape_text(g->shape()),
                  ", which cannot be summed to ", shape_text(shape), ", the shape of what it is the gradient of");
  g = invoke(op_sum, {Value(g.get()), Value(Dims(dims)), Value(kept)});
  return kept && extra ? invoke(op_view, {Value(g.get()), Value(shape)}) : std::move(g);
}

}  // namespace

TensorRef fitted(TensorRef g, Dims shape, DType dtype, Device device, Node& from, int which) {
  if (g->dtype != dtype) {
    if (is_complex(g->dtype) && !is_complex(dtype)) {
      static OpHandle real{"real"};
      g = invoke(real, {Value(g.get())});
    }
    if (g->dtype != dtype) {
      Value d;
      d.tag = Tag::DType;
      d.dtype = dtype;
      g = invoke(op_to, {Value(g.get()), d});
    }
  }
  return moved(summed(std::move(g), shape, from, which), device);
}

}  // namespace flambeau
