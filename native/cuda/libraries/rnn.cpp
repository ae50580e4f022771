// Recurrent layers by cuDNN: one above the other, in one direction or both, over sequences of falling length whose rows
// lie step by step. What the library keeps for the way back (its reserve) is a result of the way there. The library
// writes over it on the way back, which therefore works on a copy: the way back can be gone again.
#include <algorithm>

#include "cudnn.h"

namespace flambeau::cuda {
namespace {

using namespace cudnn;

enum { kRelu = 0, kTanh = 1, kLSTM = 2, kGRU = 3 };
enum { kStandard = 0, kNoBias = 0, kTwoBiases = 2, kLinearInput = 0, kWhole = 0, kPacked = 1, kInference = 0,
       kTraining = 1, kAddGradients = 0, kPadded = 1 };
enum { kDefaultMath = 0, kTensorMath = 1, kExactMath = 3 };
enum { kX, kH, kC, kLengths, kWeights };
enum { kOut, kLastH, kLastC, kReserve };                                         // behind the weights, of the way there
enum { kKeptOut, kKept, kGradOut, kGradH, kGradC, kToX, kToH, kToC, kToWeights };  // of the way back
constexpr size_t kApart = 256;
size_t padded(size_t n) { return (n + kApart - 1) / kApart * kApart; }

// A descriptor that ends with its owner.
template <class T>
class Own {
 public:
  Own(const Library& l, Status (*create)(T**), Status (*drop)(T*), const char* op) : drop_(drop) {
    check(l, create(&made_), op, "cudnnCreateDescriptor");
  }
  Own(const Own&) = delete;
  ~Own() { drop_(made_); }
  T* get() const { return made_; }

 private:
  T* made_ = nullptr;
  Status (*drop_)(T*);
};

// A part of an operand and where it lies among the library's weights, in bytes.
struct Block {
  size_t operand, begin, place, bytes;
};

class Recurrent final : public LibraryCall {
 public:
  Recurrent(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(l_, device, c.op)),
        back_(c.integer("back") != 0), keeps_(c.integer("keeps") != 0), bias_(c.integer("bias") != 0),
        sides_(int(c.integer("directions"))), layers_(int(c.integer("layers"))),
        more_(kWeights + size_t(layers_ * sides_) * each()),
        dropout_(l_, l_.dropout_create, l_.dropout_destroy, c.op), rnn_(l_, l_.rnn_create, l_.rnn_destroy, c.op),
        x_(l_, l_.rnn_data_create, l_.rnn_data_destroy, c.op), y_(l_, l_.rnn_data_create, l_.rnn_data_destroy, c.op),
        state_(l_, l_.tensor_create, l_.tensor_destroy, c.op) {
    describe(c);
    find_weights(c);
    const int way = keeps_ || back_ ? kTraining : kInference;
    check(l_, l_.rnn_room(handle_, rnn_.get(), way, x_.get(), &room_, &kept), c.op, "cudnnGetRNNTempSpaceSizes");
    weights_ = padded(weights_size_), room_ = padded(room_);
    workspace = weights_ * (back_ ? 2 : 1) + room_ + (back_ ? kept : 0);
  }

  void run(const LibrarySite& at) override {
    check(l_, l_.set_stream(handle_, at.stream), at.op, "cudnnSetStream");
    for (const Block& b : blocks_)
      cuda::check(driver().copy_on_device(at.workspace + b.place, at.operands[kWeights + b.operand] + b.begin, b.bytes,
                                          at.stream), at.op);
    if (!back_) return forward(at);
    cuda::check(driver().copy_on_device(reserved(at), at.operands[more_ + kKept], kept, at.stream), at.op);
    backward(at, reinterpret_cast<void*>(reserved(at)));
  }

 private:
  Library& l_;
  Handle* handle_;
  const bool back_, keeps_, bias_;
  const int sides_, layers_;
  const size_t more_;  // the first operand behind the weights
  void* more(const LibrarySite& at, size_t k) const { return at.pointer(more_ + k); }
  Own<DropoutDesc> dropout_;
  Own<RnnDesc> rnn_;
  Own<RnnData> x_, y_;
  Own<TensorDesc> state_;
  std::vector<Block> blocks_;
  size_t weights_size_ = 0, weights_ = 0, room_ = 0;

  size_t each() const { return bias_ ? 4 : 2; }  // weights of a layer in one direction

  // Scratch memory: weights, room to work in; of the way back also the weights' gradients and the reserve.
  void* room(const LibrarySite& at) const { return reinterpret_cast<void*>(at.workspace + weights_); }
  Address gradients(const LibrarySite& at) const { return at.workspace + weights_ + room_; }
  Address reserved(const LibrarySite& at) const { return at.workspace + 2 * weights_ + room_; }

  void describe(const Constants& c) {
    const std::string &dtype = c.word("dtype"), &mode = c.word("mode");
    const int type = type_of(dtype, c), precision = dtype == "float64" ? 1 : 0;
    const int cell = mode == "lstm" ? kLSTM : mode == "gru" ? kGRU : mode == "relu" ? kRelu : kTanh;
    const int exact = dtype == "float32" && !c.integer("tf32") ? kExactMath : kDefaultMath;
    const int math = dtype == "float16" ? kTensorMath : exact;
    const int inputs = int(c.integer("inputs")), hidden = int(c.integer("hidden"));
    const std::vector<int> lengths(c.list("lengths").begin(), c.list("lengths").end());
    const int batch = int(lengths.size()), steps = lengths.at(0);
    const bool whole = lengths.back() == steps;  // then rows lie as padded ones do, for which the library is faster
    check(l_, l_.dropout_set(dropout_.get(), handle_, 0, nullptr, 0, 0), c.op, "cudnnSetDropoutDescriptor");
    check(l_, l_.rnn_set(rnn_.get(), kStandard, cell, bias_ ? kTwoBiases : kNoBias, sides_ - 1, kLinearInput, type,
                         precision, math, inputs, hidden, hidden, layers_, dropout_.get(), whole ? kPadded : 0),
          c.op, "cudnnSetRNNDescriptor_v8");
    const int layout = whole ? kWhole : kPacked;
    check(l_, l_.rnn_data_set(x_.get(), type, layout, steps, batch, inputs, lengths.data(), nullptr), c.op,
          "cudnnSetRNNDataDescriptor");
    check(l_, l_.rnn_data_set(y_.get(), type, layout, steps, batch, sides_ * hidden, lengths.data(), nullptr), c.op,
          "cudnnSetRNNDataDescriptor");
    const int sizes[] = {layers_ * sides_, batch, hidden}, strides[] = {batch * hidden, hidden, 1};
    check(l_, l_.tensor_set(state_.get(), type, 3, sizes, strides), c.op, "cudnnSetTensorNdDescriptor");
  }

  // The library counts a layer's directions one after the other. Each operand's rows are gate after gate; neighbours
  // that the library keeps side by side are copied at once.
  void find_weights(const Constants& c) {
    check(l_, l_.rnn_weight_size(handle_, rnn_.get(), &weights_size_), c.op, "cudnnGetRNNWeightSpaceSize");
    const Own<TensorDesc> matrix(l_, l_.tensor_create, l_.tensor_destroy, c.op);
    const Own<TensorDesc> bias(l_, l_.tensor_create, l_.tensor_destroy, c.op);
    const size_t element = size_t(c.integer("element")), hidden = size_t(c.integer("hidden"));
    const size_t inputs = size_t(c.integer("inputs")), gates = size_t(c.integer("gates"));
    const auto base = Address(1) << 20;  // nothing is read there: the library only adds to it
    for (size_t side = 0; side < size_t(layers_ * sides_); ++side)
      for (size_t which = 0; which < 2 * gates; ++which) {
        void *at_matrix = nullptr, *at_bias = nullptr;
        check(l_, l_.rnn_weight(handle_, rnn_.get(), int32_t(side), weights_size_, reinterpret_cast<void*>(base),
                                int32_t(which), matrix.get(), &at_matrix, bias.get(), &at_bias),
              c.op, "cudnnGetRNNWeightParams");
        const size_t recurrent = which >= gates, gate = which % gates, above = size_t(sides_) * hidden;
        const size_t width = recurrent ? hidden : side < size_t(sides_) ? inputs : above;
        const size_t rows = hidden * width * element;
        add(each() * side + recurrent, gate * rows, reinterpret_cast<Address>(at_matrix) - base, rows);
        if (bias_)
          add(each() * side + 2 + recurrent, gate * hidden * element, reinterpret_cast<Address>(at_bias) - base,
              hidden * element);
      }
  }
  void add(size_t operand, size_t begin, size_t place, size_t bytes) {
    for (Block& b : blocks_)
      if (b.operand == operand && b.begin + b.bytes == begin && b.place + b.bytes == place) {
        b.bytes += bytes;
        return;
      }
    blocks_.push_back({operand, begin, place, bytes});
  }

  void forward(const LibrarySite& at) const {
    check(l_, l_.rnn_forward(handle_, rnn_.get(), keeps_ ? kTraining : kInference,
                             static_cast<const int32_t*>(at.pointer(kLengths)), x_.get(), at.pointer(kX), y_.get(),
                             more(at, kOut), state_.get(), at.pointer(kH), more(at, kLastH), state_.get(),
                             at.pointer(kC), more(at, kLastC), weights_size_, at.room(), room_, room(at),
                             keeps_ ? kept : 0, keeps_ ? more(at, kReserve) : nullptr),
          at.op, "cudnnRNNForward");
  }
  void backward(const LibrarySite& at, void* reserve) const {
    const auto* lengths = static_cast<const int32_t*>(at.pointer(kLengths));
    check(l_, l_.rnn_data_backward(handle_, rnn_.get(), lengths, y_.get(), more(at, kKeptOut), more(at, kGradOut),
                                   x_.get(), more(at, kToX), state_.get(), at.pointer(kH), more(at, kGradH),
                                   more(at, kToH), state_.get(), at.pointer(kC), more(at, kGradC), more(at, kToC),
                                   weights_size_, at.room(), room_, room(at), kept, reserve),
          at.op, "cudnnRNNBackwardData_v8");
    const Address to = gradients(at);
    cuda::check(driver().fill8(to, 0, weights_size_, at.stream), at.op);
    check(l_, l_.rnn_weights_backward(handle_, rnn_.get(), kAddGradients, lengths, x_.get(), at.pointer(kX),
                                      state_.get(), at.pointer(kH), y_.get(), more(at, kKeptOut), weights_size_,
                                      reinterpret_cast<void*>(to), room_, room(at), kept, reserve),
          at.op, "cudnnRNNBackwardWeights_v8");
    for (const Block& b : blocks_)
      cuda::check(driver().copy_on_device(at.operands[more_ + kToWeights + b.operand] + b.begin, to + b.place, b.bytes,
                                          at.stream), at.op);
  }
};

}  // namespace

// Operands: x, h0, c0, lengths, then weight_ih, weight_hh and with "bias" bias_ih and bias_hh of each layer and
// direction; then out, hn, cn and, if it "keeps", the reserve; or ("back") out, the reserve, the gradients of out, hn
// and cn, and where those of x, h0, c0 and the weights go.
std::unique_ptr<LibraryCall> make_cudnn_recurrent(int device, const Constants& constants) {
  return std::make_unique<Recurrent>(device, constants);
}

}  // namespace flambeau::cuda
