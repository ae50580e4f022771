// cuDNN's functions, its handle of each device, and descriptors that end with their owner.
#pragma once
#include "calls.h"
#include "handles.h"

namespace flambeau::cuda::cudnn {

using Status = int;
struct Handle;
struct TensorDesc;
struct DropoutDesc;
struct RnnDesc;
struct RnnData;
using Desc = void*;  // of the backend interface

// clang-format off
#define FLAMBEAU_CUDNN_FUNCTIONS(X)                                                                                    \
  X(create, Status, "cudnnCreate", (Handle**))                                                                         \
  X(set_stream, Status, "cudnnSetStream", (Handle*, Stream))                                                           \
  X(version, size_t, "cudnnGetVersion", ())                                                                            \
  X(status_name, const char*, "cudnnGetErrorString", (Status))                                                         \
  X(desc_create, Status, "cudnnBackendCreateDescriptor", (int kind, Desc*))                                            \
  X(desc_destroy, Status, "cudnnBackendDestroyDescriptor", (Desc))                                                     \
  X(desc_finalize, Status, "cudnnBackendFinalize", (Desc))                                                             \
  X(desc_set, Status, "cudnnBackendSetAttribute", (Desc, int attribute, int type, int64_t count, const void*))         \
  X(desc_get, Status, "cudnnBackendGetAttribute",                                                                      \
    (Desc, int attribute, int type, int64_t asked, int64_t* count, void*))                                             \
  X(execute, Status, "cudnnBackendExecute", (Handle*, Desc plan, Desc pack))                                           \
  X(tensor_create, Status, "cudnnCreateTensorDescriptor", (TensorDesc**))                                              \
  X(tensor_destroy, Status, "cudnnDestroyTensorDescriptor", (TensorDesc*))                                             \
  X(tensor_set, Status, "cudnnSetTensorNdDescriptor",                                                                  \
    (TensorDesc*, int type, int ndim, const int* sizes, const int* strides))                                           \
  X(dropout_create, Status, "cudnnCreateDropoutDescriptor", (DropoutDesc**))                                           \
  X(dropout_destroy, Status, "cudnnDestroyDropoutDescriptor", (DropoutDesc*))                                          \
  X(dropout_set, Status, "cudnnSetDropoutDescriptor",                                                                  \
    (DropoutDesc*, Handle*, float p, void* states, size_t, unsigned long long seed))                                   \
  X(rnn_create, Status, "cudnnCreateRNNDescriptor", (RnnDesc**))                                                       \
  X(rnn_destroy, Status, "cudnnDestroyRNNDescriptor", (RnnDesc*))                                                      \
  X(rnn_set, Status, "cudnnSetRNNDescriptor_v8",                                                                       \
    (RnnDesc*, int algorithm, int cell, int bias, int direction, int input, int type, int precision, int math,         \
     int32_t inputs, int32_t hidden, int32_t projected, int32_t layers, DropoutDesc*, uint32_t flags))                 \
  X(rnn_data_create, Status, "cudnnCreateRNNDataDescriptor", (RnnData**))                                              \
  X(rnn_data_destroy, Status, "cudnnDestroyRNNDataDescriptor", (RnnData*))                                             \
  X(rnn_data_set, Status, "cudnnSetRNNDataDescriptor",                                                                 \
    (RnnData*, int type, int layout, int steps, int batch, int width, const int* lengths, void* padding))              \
  X(rnn_weight_size, Status, "cudnnGetRNNWeightSpaceSize", (Handle*, RnnDesc*, size_t*))                               \
  X(rnn_weight, Status, "cudnnGetRNNWeightParams",                                                                     \
    (Handle*, RnnDesc*, int32_t layer, size_t, const void* weights, int32_t which, TensorDesc*, void** matrix,         \
     TensorDesc*, void** bias))                                                                                        \
  X(rnn_room, Status, "cudnnGetRNNTempSpaceSizes",                                                                     \
    (Handle*, RnnDesc*, int way, RnnData*, size_t* room, size_t* reserve))                                             \
  X(rnn_forward, Status, "cudnnRNNForward",                                                                            \
    (Handle*, RnnDesc*, int way, const int32_t* lengths, RnnData*, const void* x, RnnData*, void* y, TensorDesc*,      \
     const void* hx, void* hy, TensorDesc*, const void* cx, void* cy, size_t, const void* weights, size_t, void* room, \
     size_t, void* reserve))                                                                                           \
  X(rnn_data_backward, Status, "cudnnRNNBackwardData_v8",                                                              \
    (Handle*, RnnDesc*, const int32_t* lengths, RnnData*, const void* y, const void* dy, RnnData*, void* dx,           \
     TensorDesc*, const void* hx, const void* dhy, void* dhx, TensorDesc*, const void* cx, const void* dcy, void* dcx, \
     size_t, const void* weights, size_t, void* room, size_t, void* reserve))                                          \
  X(rnn_weights_backward, Status, "cudnnRNNBackwardWeights_v8",                                                        \
    (Handle*, RnnDesc*, int mode, const int32_t* lengths, RnnData*, const void* x, TensorDesc*, const void* hx,        \
     RnnData*, const void* y, size_t, void* to_weights, size_t, void* room, size_t, void* reserve))
// clang-format on

inline constexpr const char* kName = "cuDNN";
struct Library {
  FLAMBEAU_LIBRARY(FLAMBEAU_CUDNN_FUNCTIONS)
  Handles<Handle> handles;
};
Library& library_of(const Constants& constants);
Handle* handle_of(Library& l, int device, const char* op);
int type_of(const std::string& dtype, const Constants& constants);  // cuDNN has numbers of its own

// Throws for a status that is an error: Unsupported where cuDNN has nothing for what was described.
void check(const Library& l, Status status, const char* op, const char* where);
inline bool unsupported(Status s) { return s >= 3000 && s < 4000; }

class Descriptor {
 public:
  Descriptor(Library& l, int kind, const char* op) : l_(&l), op_(op) {
    check(l, l.desc_create(kind, &desc_), op, "cudnnBackendCreateDescriptor");
  }
  Descriptor(Descriptor&& other) noexcept : l_(other.l_), op_(other.op_), desc_(std::exchange(other.desc_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(l_, other.l_), std::swap(op_, other.op_), std::swap(desc_, other.desc_);
    return *this;
  }
  ~Descriptor() { if (desc_) l_->desc_destroy(desc_); }
  Desc get() const { return desc_; }

  void set(int attribute, int type, int64_t count, const void* values) {
    check(*l_, l_->desc_set(desc_, attribute, type, count, values), op_, "cudnnBackendSetAttribute");
  }
  template <class T>
  void set(int attribute, int type, const T& value) { set(attribute, type, 1, &value); }
  void set(int attribute, const std::vector<int64_t>& values) {
    set(attribute, 3, int64_t(values.size()), values.data());
  }
  void set(int attribute, const Descriptor& other) { set(attribute, 15, other.desc_); }
  void finish() { check(*l_, try_finish(), op_, "cudnnBackendFinalize"); }
  Status try_finish() { return l_->desc_finalize(desc_); }

 private:
  Library* l_;
  const char* op_;  // of the plan's operator, whose name lives as long as the program
  Desc desc_ = nullptr;
};

}  // namespace flambeau::cuda::cudnn
