// The steps of a plan that compute from numbers and sizes alone: what they make is kept, as long as the same come.
#pragma once
#include "plan.h"

namespace flambeau {

// Words that say what a value is, beside what a program's key says of it.
void add_words(std::vector<uint64_t>& to, const Value& v);

struct KeptStep final : Step {
  std::vector<std::unique_ptr<Step>> steps;
  bool taken = false;  // in the last run, from an earlier one

  explicit KeptStep(std::vector<std::unique_ptr<Step>> steps);
  ~KeptStep() override { forget(); }
  void run(PlanRun& r) override;
  std::string text() const override { return "constants"; }
  std::vector<TensorRef> tensors() const;  // that are kept

 private:
  struct Kept {
    int value;
    TensorRef tensor;
  };
  std::vector<std::pair<int, int>> numbers_;  // entry and argument, in the program
  std::vector<int> layouts_;                  // uses of the program
  std::vector<uint64_t> made_from_;
  std::vector<Kept> kept_;
  int64_t bytes_ = 0;

  std::vector<uint64_t> what_it_is_made_from(const Program& p) const;
  void forget();
  void keep(const PlanRun& r, std::vector<uint64_t> made_from);
};

}  // namespace flambeau
