// What a program does when it runs: steps, each of which computes values from others.
//
// A plan is made for one key and serves every program of that key, whatever its sizes and numbers: of a call's
// arguments it knows where they stand. Values have the layout their operator gives them; one that somebody wants as the
// program made it is laid out so first.
#pragma once
#include "program.h"

namespace flambeau {

// An argument of a call in a plan.
struct PlanArg {
  enum class Kind : uint8_t {
    Literal,
    Given,    // what stands in the program: argument `of` of entry `at`
    Outside,  // a tensor over memory from outside, as use `of` of the program says
    Made,     // value `at`
    View,     // the memory of value `at`, as use `of` of the program says
    List,     // of tensors
  };
  Kind kind = Kind::Literal;
  int at = -1, of = -1;
  int kept = -1;  // Outside, View: which of the tensors that plans keep
  Value literal;
  std::vector<PlanArg> list;
};

struct PlanCall {
  const OpDef* op = nullptr;
  std::vector<PlanArg> args;
  bool list_result = false, inplace = false;
  std::vector<int> makes;  // values; -1: nobody asks for this result
  int entry = -1;          // of the program, that it stands for; of several, one
};

// Whether it only writes a value to memory from outside.
inline bool is_store(const PlanCall& c) { return c.op && c.op->writes_self && c.op->name == "copy_"; }

// Calls f for every argument that is a tensor, those in lists too.
template <class F>
void each_tensor(const std::vector<PlanArg>& args, F&& f) {
  for (const PlanArg& a : args) {
    if (a.kind == PlanArg::Kind::List) each_tensor(a.list, f);
    else if (a.kind > PlanArg::Kind::Given) f(a);
  }
}

struct Plan;

// A plan while it runs.
struct PlanRun {
  Plan& plan;
  Program& program;
  std::vector<TensorRef> values;
  bool recording = false;  // nothing is computed: what the steps launch is recorded
  PlanRun(Plan& plan, Program& program);
  ~PlanRun();
  Tensor* tensor(const PlanArg& a);  // has memory until let_go, or is images that lie otherwise (core/images.h)
  void let_go();
  // The value of a slot, laid out as the program made it.
  Tensor& as_made(int value, int slot);
  const Value& given(const PlanArg& a) const {
    return a.kind == PlanArg::Kind::Given ? program.entries[size_t(a.at)].args[a.of] : a.literal;
  }

 private:
  Tensor& kept(const PlanArg& a);
  std::vector<TensorRef> kept_;
  std::vector<int> bound_;
  std::vector<TensorRef> replaced_;
};

struct Step {
  std::vector<PlanCall> calls;  // that it makes or stands for
  std::vector<int> drops;       // values that nobody needs after this step
  virtual ~Step() = default;
  virtual void run(PlanRun& r) = 0;
  virtual std::string text() const = 0;

 protected:
  // Whether a result may lie where this argument does: nobody else reads that value, and nobody will.
  bool ends_here(const PlanArg& a, const PlanRun& r) const;
};
// `to`: where the result goes; null: to memory of its own.
void run_call(const PlanCall& call, PlanRun& r, Tensor* to = nullptr);

// A call of one operator.
struct CallStep final : Step {
  explicit CallStep(PlanCall call) { calls.push_back(std::move(call)); }
  void run(PlanRun& r) override;
  std::string text() const override;
};

// A value of which a part is overwritten (`_with_part`, `_with_number`): the value itself, if nobody reads it any more.
struct PartStep final : Step {
  explicit PartStep(PlanCall call) { calls.push_back(std::move(call)); }
  static bool takes(const PlanCall& call);
  void run(PlanRun& r) override;
  std::string text() const override;
};

// What a device has recorded of a plan's runs, to repeat them as a whole.
struct Recordings {
  virtual ~Recordings() = default;
  virtual bool run(Plan& plan, Program& p) = 0;  // false: nothing has happened, the steps are to run one by one
  virtual std::string text() const = 0;          // what became of the last program that was asked for
};
// How they are made, by device type; null: such devices record nothing.
extern std::unique_ptr<Recordings> (*device_recordings[kDeviceTypes])();

struct Plan {
  int values = 0, kept = 0;
  Ref<Object> planner;      // who made it, where it was not this library
  struct Result {
    int slot, value;
    bool last = true;  // no later one has the same value
  };
  std::vector<Result> results;  // what somebody holds
  std::vector<std::unique_ptr<Step>> steps;
  Arena memory;             // of literals

  void finish();  // works out when values are let go
  void run(Program& p);
  // The steps of a run that is recorded: its results, and in `constants` what it reads of earlier runs.
  std::vector<TensorRef> record(Program& p, std::vector<TensorRef>& constants);

 private:
  friend struct PlanRun;
  std::vector<TensorRef> kept_;  // of the last run, for the next
  std::unique_ptr<Recordings> recordings_;

  void run_steps(PlanRun& r);
  bool repeat(Program& p);
};
// Whoever holds the result in this slot gets `made` as its memory, if it has the layout of the slot.
void hand_out(const Program& p, int slot, TensorRef made);

// While one lives in this thread, it hears what becomes of the calls that are captured there.
struct Listener {
  virtual void at_once(const Call& c, const Places* places) = 0;  // a call that cannot be put off
  virtual void runs(const Program& p, bool known) = 0;            // known: its plan was there
  virtual void done(const Step& step, PlanRun& r, double seconds) = 0;
  virtual void recording(const std::string& text) = 0;            // of the program that runs, which asks for it
  static Listener* of_thread();
  // While it lives nobody hears anything: a planner captures programs of its own.
  struct Unheard {
    Listener* before;
    Unheard();
    ~Unheard();
  };

 protected:
  Listener();
  ~Listener();

 private:
  Listener* before_;
};

}  // namespace flambeau
