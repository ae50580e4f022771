// Batch normalisation by cuDNN in training: forwards, with running statistics, and backwards.
#include "cudnn.h"

namespace flambeau::cuda {
namespace {

using namespace cudnn;
constexpr int kSpatial = 1;  // the mode: one mean for each channel

class BatchNorm final : public LibraryCall {
 public:
  BatchNorm(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(l_, device, c.op)), way_(c.word("way")), eps_(c.number("eps")),
        factor_(c.number("momentum")) {
    const bool wide = c.word("dtype") == "float64";
    if (wide) one_.d = 1, zero_.d = 0;
    else one_.f = 1, zero_.f = 0;
    try {
      x_ = tensor(type_of(c.word("dtype"), c), c.list("sizes"), c.list("strides"), c.op);
      std::vector<int64_t> sizes(c.list("sizes").size(), 1), strides(sizes);
      sizes[1] = c.list("sizes")[1];
      strides[0] = sizes[1];
      channels_ = tensor(wide ? 1 : 0, sizes, strides, c.op);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~BatchNorm() override { drop(); }

  void run(const LibrarySite& at) override {
    check(l_, l_.set_stream(handle_, at.stream), at.op, "cudnnSetStream");
    auto p = [&](size_t k) { return at.pointer(k); };
    if (way_ == "train")  // x, scale, bias, running mean and variance, y, mean, 1 / deviation
      check(l_, l_.norm_train(handle_, kSpatial, &one_, &zero_, x_, p(0), x_, p(5), channels_, p(1), p(2), factor_,
                              p(3), p(4), eps_, p(6), p(7)),
            at.op, "cudnnBatchNormalizationForwardTraining");
    else  // gradient, x, scale, mean, 1 / deviation, gradients of x, scale and bias
      check(l_, l_.norm_backward(handle_, kSpatial, &one_, &zero_, &one_, &zero_, x_, p(1), x_, p(0), x_, p(5),
                                 channels_, p(2), p(6), p(7), eps_, p(3), p(4)),
            at.op, "cudnnBatchNormalizationBackward");
  }

 private:
  Library& l_;
  Handle* handle_;
  const std::string way_;
  const double eps_, factor_;
  union {
    float f;
    double d;
  } one_, zero_;
  TensorDesc *x_ = nullptr, *channels_ = nullptr;

  TensorDesc* tensor(int type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const char* op) {
    const std::vector<int> n(sizes.begin(), sizes.end()), s(strides.begin(), strides.end());
    TensorDesc* made = nullptr;
    check(l_, l_.tensor_create(&made), op, "cudnnCreateTensorDescriptor");
    const Status status = l_.tensor_set(made, type, int(n.size()), n.data(), s.data());
    if (status != 0) l_.tensor_destroy(made);
    check(l_, status, op, "cudnnSetTensorNdDescriptor");
    return made;
  }
  void drop() {
    for (TensorDesc* d : {x_, channels_})
      if (d) l_.tensor_destroy(d);
  }
};

}  // namespace

std::unique_ptr<LibraryCall> make_cudnn_batch_norm(int device, const Constants& constants) {
  return std::make_unique<BatchNorm>(device, constants);
}

}  // namespace flambeau::cuda
