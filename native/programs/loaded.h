// A program from a file: its weights over the file's memory, its routines, and what its inputs and outputs are.
#pragma once
#include <map>

#include "../runtime/plan.h"
#include "archive.h"
#include "routine.h"

namespace flambeau::programs {

struct Input {
  std::string name;
  bool tensor = true;          // else an integer
  DType dtype = DType::Int64;
  std::vector<int64_t> sizes;  // -1: open
};

// Made, run and destroyed under the interpreter lock.
class Loaded {
 public:
  explicit Loaded(const std::string& path);
  // Of words in memory, and weights that are there; every run makes its plans anew.
  Loaded(std::string_view words, const std::vector<TensorRef>& weights);
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  // ValueError for inputs that the program is not for. Results have values in memory.
  std::vector<TensorRef> run(const std::vector<TensorRef>& inputs) const;
  // Plans a run on inputs of which only sizes count: nothing is computed. RuntimeError for a program that needs values
  // on its way.
  void plan(const std::vector<TensorRef>& inputs) const;
  // The plan that the file of the program that runs in this thread has for a captured one; null where there is none.
  static std::unique_ptr<Plan> plan_for(const Program& p);

 private:
  using Integers = std::vector<int64_t>;
  std::shared_ptr<const Archive> archive_;
  Integers words_;  // texts of operands lie in them
  std::vector<Content> weights_;
  std::vector<Input> inputs_;
  std::vector<std::string> outputs_;
  std::vector<Routine> routines_;
  // A plan serves every program whose key is the same, apart from sizes that differ in the plan's and are equal in the
  // program's: of sizes a plan only relies on those that are 0, 1 or equal.
  struct Kept {
    std::vector<uint64_t> key;
    Integers sizes_at, words;
    bool serves(const Program& p) const;
  };
  std::vector<Kept> plans_;
  // How inputs of these sizes are run: written down as a whole, which a plan then runs; computed at once, but large
  // pointwise calls together, where the file has no plan for them; or at once, where all tensors are small.
  enum class Way : uint8_t { Whole, Together, AtOnce };
  mutable std::map<Integers, Way> ways_;
  struct Recording;
  static thread_local Recording* recording_;

  void read(Words words);
  void read_storages(Words& words);
  TensorRef read_weight(Words& words, const std::vector<Storage*>& storages);
  void read_plans(Words words);
  void read_inputs(Words& words);
  Content fitting(size_t k, const TensorRef& given) const;
  std::vector<Content> fitting(const std::vector<TensorRef>& given) const;
};

}  // namespace flambeau::programs
