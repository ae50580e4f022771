// Attention by cuDNN, forward and backward: the operations that it is made of, in the order in which the library knows
// them as one. The scores are nowhere in memory; the logarithm of each query's sum is kept for the way back.
#include <limits>

#include "cudnn_graph.h"

namespace flambeau::cuda {
namespace {

using namespace cudnn;

enum { kQ, kK, kV, kBias, kOut, kLse, kGrad, kToQ, kToK, kToV };                    // operands
enum { kScale = 20, kHidden, kOne, kTotals, kWide };                                // further ids in the graph
constexpr const char* kNames[] = {"q", "k", "v", "bias", "out", "lse", "grad", "to_q", "to_k", "to_v"};
constexpr size_t kApart = 256;
size_t padded(size_t n) { return (n + kApart - 1) / kApart * kApart; }

class Attention final : public LibraryCall {
 public:
  Attention(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(l_, device, c.op)), op_(c.op), type_(type_of(c.word("dtype"), c)),
        back_(c.integer("back") != 0), biased_(c.has("bias")), causal_(c.integer("causal") != 0),
        scale_(float(c.number("scale"))), version_(l_.version()), steps_(l_, c.op) {
    const std::vector<int64_t>&q = c.list("q"), &k = c.list("k");
    batch_ = q[0], heads_ = q[1], queries_ = q[2], width_ = q[3], keys_ = k[2];
    refuse_what_is_wrong();
    if (version_ < 91000) hidden_ = std::numeric_limits<float>::lowest();
    for (int n = 0; n < (back_ ? kToV + 1 : kLse + 1); ++n)
      if (n != kBias || biased_) operands_[n] = operand(c, n);
    if (back_) backward(c);
    else forward();
    engines_ = engines_for(l_, handle_, op_, steps_.graph(handle_), {}, 1, "attention of these shapes and layouts");
    room_ = padded(engines_[0].workspace);
    totals_ = back_ ? padded(size_t(batch_ * heads_ * queries_) * sizeof(float)) : 0;
    wide_ = back_ ? size_t(batch_ * heads_ * queries_ * width_) * sizeof(float) : 0;
    workspace = room_ + totals_ + wide_;
  }

  void run(const LibrarySite& at) override {
    check(l_, l_.set_stream(handle_, at.stream), at.op, "cudnnSetStream");
    if (back_ && version_ < 90600)  // what is summed there begins with what is there
      cuda::check(driver().fill8(at.workspace + room_ + totals_, 0, wide_, at.stream), at.op);
    std::vector<int64_t> ids;
    std::vector<void*> places;
    auto add = [&](int64_t id, void* place) { ids.push_back(id), places.push_back(place); };
    for (int n = 0; n < (back_ ? kToV + 1 : kLse + 1); ++n)
      if (n != kBias || biased_) add(n + 1, at.pointer(size_t(n)));
    add(kScale, &scale_);
    if (causal_) add(kHidden, &hidden_);
    if (back_) {
      add(kOne, &one_);
      add(kTotals, reinterpret_cast<void*>(at.workspace + room_));
      add(kWide, reinterpret_cast<void*>(at.workspace + room_ + totals_));
    }
    execute(l_, handle_, op_, engines_[0], packed(l_, op_, ids, places.data(), at.room()));
  }

 private:
  using O = Operations;
  Library& l_;
  Handle* handle_;
  const char* op_;
  const int type_;
  const bool back_, biased_, causal_;
  float scale_, hidden_ = -std::numeric_limits<float>::infinity(), one_ = 1;
  const size_t version_;
  Operations steps_;
  int64_t batch_, heads_, queries_, keys_, width_;
  size_t operands_[kToV + 1] = {};
  std::vector<Engine> engines_;
  size_t room_ = 0, totals_ = 0, wide_ = 0;

  // Releases of which NVIDIA's frontend says that they compute wrong numbers.
  void refuse_what_is_wrong() const {
    if (version_ == 91000 || version_ == 91001 || (back_ && version_ <= 91500 && keys_ % 128))
      throw Unsupported(concat(op_, ": cuDNN ", version_, " does not compute this attention right"));
  }
  // Keys, and on the way back values, are described with their columns as rows.
  size_t operand(const Constants& c, int n) {
    TensorForm t = form_of(c, kNames[n], n == kLse ? int(kFloat) : type_, n + 1);
    if (n == kK || (n == kV && back_)) std::swap(t.sizes[2], t.sizes[3]), std::swap(t.strides[2], t.strides[3]);
    return steps_.tensor(t);
  }
  size_t scores() { return steps_.between({batch_, heads_, queries_, keys_}); }
  size_t per_query() { return steps_.between({batch_, heads_, queries_, 1}); }
  size_t to_scores(O::Mode mode, size_t x, size_t b = O::kNone) {
    const size_t y = scores();
    steps_.pointwise(mode, y, x, b);
    return y;
  }
  size_t to_each_query(O::Mode mode, size_t x, size_t b = O::kNone) {
    const size_t y = per_query();
    steps_.pointwise(mode, y, x, b);
    return y;
  }
  // Of the queries and keys, scaled, with the bias.
  size_t scaled_scores(size_t scale) {
    const size_t products = scores();
    steps_.multiply(operands_[kQ], operands_[kK], products);
    const size_t scaled = to_scores(O::Multiply, products, scale);
    return biased_ ? to_scores(O::Add, scaled, operands_[kBias]) : scaled;
  }
  // Query i sees keys 0 to i.
  size_t visible(size_t x) {
    if (!causal_) return x;
    const std::vector<int64_t> sizes{batch_, heads_, queries_, keys_};
    const size_t row = steps_.between(sizes, kInt32), column = steps_.between(sizes, kInt32);
    const size_t seen = steps_.between(sizes, kBoolean), y = scores();
    steps_.pointwise(O::Position, row, x, O::kNone, O::kNone, kFloat, 2);
    steps_.pointwise(O::Position, column, x, O::kNone, O::kNone, kFloat, 3);
    steps_.pointwise(O::AtLeast, seen, row, column, O::kNone, kBoolean);
    steps_.pointwise(O::Select, y, x, steps_.number(kHidden), seen);
    return y;
  }

  void forward() {
    const size_t x = visible(scaled_scores(steps_.number(kScale)));
    const size_t largest = per_query(), sum = per_query();
    steps_.fold(O::Largest, largest, x);
    const size_t powers = to_scores(O::Exp, to_scores(O::Subtract, x, largest));
    steps_.fold(O::Sum, sum, powers);
    steps_.pointwise(O::Add, operands_[kLse], largest, to_each_query(O::Log, sum));
    const size_t weights = steps_.between({batch_, heads_, queries_, keys_}, type_);
    steps_.pointwise(O::Divide, weights, powers, sum);
    steps_.multiply(weights, operands_[kV], operands_[kOut]);
  }

  // With P the weights and T = grad v', the scores' gradient is D = P (T - totals), where totals = rowsum(grad out).
  void backward(const Constants& c) {
    const size_t totals = sums_of_queries(c), scale = steps_.number(kScale);
    const size_t x = visible(to_scores(O::Subtract, scaled_scores(scale), operands_[kLse]));
    const size_t weights = to_scores(O::Exp, x);
    steps_.multiply(turned(weights), operands_[kGrad], operands_[kToV]);
    const size_t t = scores();
    steps_.multiply(operands_[kGrad], operands_[kV], t);
    const size_t d = to_scores(O::Multiply, to_scores(O::Multiply, to_scores(O::Subtract, t, totals), weights), scale);
    steps_.multiply(turned(d), operands_[kQ], operands_[kToK]);
    const size_t keys = steps_.between(c.list("k"), c.list("k_strides"), type_);
    steps_.view(keys, operands_[kK]);
    const std::vector<int64_t> sizes{batch_, heads_, queries_, width_};
    const size_t wide = steps_.tensor(
        {kFloat, sizes, {heads_ * queries_ * width_, queries_ * width_, width_, 1}, kWide, 16, false, false});
    steps_.multiply(d, keys, wide);
    steps_.pointwise(O::Identity, operands_[kToQ], wide);
  }
  size_t sums_of_queries(const Constants& c) {
    const size_t products = steps_.between(c.list("out")), sums = per_query();
    steps_.pointwise(O::Multiply, products, operands_[kGrad], operands_[kOut]);
    steps_.fold(O::Sum, sums, products);
    const size_t totals = steps_.tensor({kFloat, {batch_, heads_, queries_, 1},
                                         {heads_ * queries_, queries_, 1, 1}, kTotals, 16, false, false});
    steps_.pointwise(O::Multiply, totals, sums, steps_.number(kOne));
    return totals;
  }
  // Scores with a row for each key.
  size_t turned(size_t x) {
    const size_t y = steps_.between({batch_, heads_, keys_, queries_},
                                    {heads_ * queries_ * keys_, queries_ * keys_, 1, keys_}, type_);
    steps_.view(y, x);
    return y;
  }
};

}  // namespace

// Operands: q, k, v, bias (or absent), out, lse; on the way back also the gradient of out, and where those of q, k and
// v go. Constants: their sizes [batch, heads, rows, columns] and strides, and `back`, `causal`, `scale`.
std::unique_ptr<LibraryCall> make_cudnn_attention(int device, const Constants& constants) {
  return std::make_unique<Attention>(device, constants);
}

}  // namespace flambeau::cuda
