// Graphs of operations for cuDNN's backend interface, and the engines that compute them.
#pragma once
#include <span>

#include "cudnn.h"

namespace flambeau::cuda::cudnn {

// Kinds of descriptors.
enum { kPointwiseMode = 0, kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5, kForward = 10,
       kFilter = 11, kData = 12, kPointwise = 13, kGraph = 15, kPack = 16, kTensor = 17, kProductMode = 18,
       kProduct = 19, kReductionMode = 21, kReduction = 22, kReshape = 31 };
// Types of attributes.
enum { kTypeHandle = 0, kTypeDType = 1, kTypeBool = 2, kTypeInt64 = 3, kTypeFloat = 4, kTypeDouble = 5,
       kTypePointer = 6, kTypeMode = 7, kTypeHeuristic = 8, kTypeNote = 11, kTypePointwise = 14, kTypeDescriptor = 15,
       kTypeReduction = 18 };
enum { kTensorCores = 0, kDownConverts = 1, kNondeterministic = 4, kNotes = 32 };  // what an engine says of itself
enum { kFloat = 0, kInt32 = 4, kBoolean = 11 };                                    // dtypes beside those of operands

struct TensorForm {
  int type = kFloat;
  std::vector<int64_t> sizes, strides;
  int64_t id = 0, alignment = 16;
  bool between = false;    // two operations, and nowhere in memory
  bool is_number = false;  // of the CPU, read when the graph runs
};
Descriptor describe(Library& l, const char* op, const TensorForm& t);
// The constants that describe an operand: "q", "q_strides", "q_alignment".
TensorForm form_of(const Constants& c, const std::string& name, int type, int64_t id);

// The graph of these operations, which must follow what they read; they may go, it keeps what it needs.
Descriptor graph_of(Library& l, Handle* handle, const char* op, std::span<const Descriptor> operations);

// Operations as they are added, and the tensors that they read and write, by their numbers; all compute in float32.
class Operations {
 public:
  enum Mode { Add = 0, Multiply = 1, Divide = 6, Subtract = 9, Exp = 13, Log = 15, Identity = 21, AtLeast = 303,
              Position = 501, Select = 601 };
  enum Fold { Sum = 0, Largest = 3 };
  static constexpr size_t kNone = size_t(-1);

  Operations(Library& l, const char* op) : l_(l), op_(op) {}
  size_t tensor(const TensorForm& t) { return tensors_.push_back(describe(l_, op_, t)), tensors_.size() - 1; }
  size_t number(int64_t id) { return tensor({kFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, id, 16, false, true}); }
  size_t between(const std::vector<int64_t>& sizes, int type = kFloat);                                 // by rows
  size_t between(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int type);

  void multiply(size_t a, size_t b, size_t c);  // matrices: c = a b
  void pointwise(Mode mode, size_t y, size_t x, size_t b = kNone, size_t t = kNone, int computes = kFloat,
                 int64_t axis = -1);
  void fold(Fold mode, size_t y, size_t x);  // over the dimensions where y has size 1
  void view(size_t y, size_t x);             // the same elements, described in another way
  Descriptor graph(Handle* handle) const { return graph_of(l_, handle, op_, operations_); }

 private:
  static constexpr int64_t kFirstBetween = 1000;
  Library& l_;
  const char* op_;
  std::vector<Descriptor> tensors_, operations_;
};

struct Engine {
  Descriptor plan;
  size_t workspace;
};
// The engines that compute a graph, at most so many, those first that the library thinks are fast; none that says of
// itself what is forbidden. Throws Unsupported where there is none for `what`.
std::vector<Engine> engines_for(Library& l, Handle* handle, const char* op, const Descriptor& graph,
                                const std::vector<int>& forbidden, size_t most, const char* what);

// Where the operands with these ids are, for one run.
Descriptor packed(Library& l, const char* op, std::span<const int64_t> ids, void* const* places, void* room);
inline void execute(Library& l, Handle* handle, const char* op, const Engine& e, const Descriptor& pack) {
  check(l, l.execute(handle, e.plan.get(), pack.get()), op, "cudnnBackendExecute");
}

}  // namespace flambeau::cuda::cudnn
