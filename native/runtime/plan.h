// What a program does when it runs: steps, each of which computes some slots from others.
//
// A plan is made for one key and serves every program of that key; its slots are the program's. A slot is let go after
// the last step that reads it.
#pragma once
#include "program.h"

namespace flambeau {

struct Plan;

// A plan while it runs.
struct PlanRun {
  Plan& plan;
  Program& program;
  std::vector<Storage*> slots;     // where each slot's memory is; counted
  std::vector<TensorRef> tensors;  // by use of the plan: they have memory while a step runs
  PlanRun(Plan& plan, Program& program);
  ~PlanRun();
  Tensor& bind(int use);  // until unbind
  void unbind(int use);
  void put(int slot, Storage* s);  // takes the reference
  void drop(int slot);
};

struct Step {
  std::vector<int> uses;   // of the plan, that it reads
  std::vector<int> makes;  // slots; -1: nobody asks for this result
  std::vector<int> drops;  // slots that nobody needs after this step
  virtual ~Step() = default;
  virtual void run(PlanRun& r) = 0;
  virtual std::string text(const Plan& plan) const = 0;
};

// A number among the arguments: of which entry of the program that runs, and where there.
struct NumberFrom {
  int arg, entry, entry_arg;
};

// A layout of a slot of the plan.
struct PlanUse {
  int slot;
  DType dtype;
  Device device;
  uint16_t flags;
  int64_t offset;
  std::vector<int64_t> sizes, strides;
};

// A call of one operator.
struct CallStep final : Step {
  const OpDef* op = nullptr;
  std::vector<Value> args;  // tensors: uses of the plan, as in Entry
  std::vector<NumberFrom> numbers;
  bool list_result = false;
  Arena memory;             // of lists and strings
  void run(PlanRun& r) override;
  std::string text(const Plan& plan) const override;
};

PlanUse plan_use(const Use& u);

struct Plan {
  int slots;
  Ref<Object> planner;      // who made it, where it was not this library
  std::vector<int> wanted;  // slots that somebody holds
  std::vector<PlanUse> uses;
  std::vector<std::unique_ptr<Step>> steps;

  explicit Plan(const Program& p);
  int use(const Use& u);
  void finish();  // works out when slots are let go
  void run(Program& p);

 private:
  friend struct PlanRun;
  std::vector<TensorRef> tensors_;  // of the last run, for the next
};

// While one lives in this thread, it hears how long each step of its plans takes, in seconds.
struct StepTimes {
  std::vector<std::pair<std::string, double>> steps;
  StepTimes();
  ~StepTimes();
  StepTimes* before;
};

// A step that calls what entry `k` of the program calls.
std::unique_ptr<CallStep> call_of(const Program& p, int k, Plan& plan);

}  // namespace flambeau
