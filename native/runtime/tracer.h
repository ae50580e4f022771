// Writes down what a thread calls, and runs it when somebody looks: at a value, at memory that is about to be written,
// or at the end. Plans are looked up by the program's key; for a program that has not been seen before Python makes one
// (hooks.plan_program).
#pragma once
#include "../core/recording.h"
#include "plan.h"

namespace flambeau {

struct Tracer final : Recorder {
  Program* program = nullptr;  // being written; null: nothing yet
  bool whole = false;          // nobody may look at a value before the end
  Object* planner = nullptr;   // as in Program; borrowed
  bool exact = false, fast = false, record = false;  // the same
  bool pointwise = false;      // nothing is put off but large pointwise calls on the CPU
  bool anew = false;           // plans are neither looked up nor kept
  bool marks = false;          // programs know which words of their keys are sizes
  bool planning = false;       // plan() will end it: what cannot be put off is an error
  int64_t at_once = 0;         // what could not be put off so far: calls, looks at memory, seeds
  int64_t calls = 0, numbers = 0;  // written down so far, and the numbers in the largest tensor of each
  const Places* places = nullptr;
  ~Tracer() override;
  bool take(Call& c) override;
  void before_write(const Tensor& t) override;
  void before_read(const Tensor& t) override;
  void before_draw() override;
  void run(Why why);  // what is written so far
  void plan();        // the same, but the plan is made and nothing runs: what it would make has no values
};

// Runs a program that has run before, over the memory that its slots have now.
void run_again(Program& p);

// Every plan that is kept, the one used last first; at most kMostPlans.
inline constexpr size_t kMostPlans = 1024;
struct PlanCounts {
  int64_t programs = 0, plans = 0, made = 0, calls = 0;  // run so far; kept; made so far; calls written down
  int64_t breaks = 0;  // programs that ran before their function had ended
};
PlanCounts plan_counts();
void forget_plans();

}  // namespace flambeau
