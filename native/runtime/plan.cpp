#include "plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "../core/recording.h"

namespace flambeau {

// --- while it runs ---------------------------------------------------------------------------------------------------

PlanRun::PlanRun(Plan& plan, Program& program)
    : plan(plan), program(program), slots(size_t(plan.slots), nullptr), tensors(std::move(plan.tensors_)) {
  plan.tensors_.clear();
  tensors.resize(plan.uses.size());
  for (size_t k = 0; k < program.slots.size(); ++k)
    if (const ProgramSlot& s = program.slots[k]; s.made_by < 0) retain(slots[k] = s.storage);
}
PlanRun::~PlanRun() {
  for (Storage* s : slots)
    if (s) release(s);
  plan.tensors_ = std::move(tensors);
}

Tensor& PlanRun::bind(int use) {
  const PlanUse& u = plan.uses[size_t(use)];
  TensorRef& t = tensors[size_t(use)];
  if (!t) t = bare_tensor(u.dtype, u.device, u.sizes, u.strides, u.flags);
  Storage* s = slots[size_t(u.slot)];
  if (t->storage == s) return *t;  // an argument that stands twice
  retain(t->storage = s);
  t->data = static_cast<char*>(s->data) + u.offset * item_size(u.dtype);
  return *t;
}
void PlanRun::unbind(int use) {
  TensorRef& t = tensors[size_t(use)];
  if (!t || !t->storage) return;
  if (t->refcount > 1 || t->weakrefs || t->dict) t = nullptr;  // somebody has kept it: it stays what it is
  else release(std::exchange(t->storage, nullptr));
}
void PlanRun::put(int slot, Storage* s) {
  if (slots[size_t(slot)]) release(slots[size_t(slot)]);
  slots[size_t(slot)] = s;
}
void PlanRun::drop(int slot) {
  if (Storage* s = std::exchange(slots[size_t(slot)], nullptr)) release(s);
}

namespace {

// Steps run on plain memory, whatever is switched on where somebody has looked at a result.
struct Plainly {
  static constexpr bool ThreadState::*kSwitches[] = {
      &ThreadState::level_factories, &ThreadState::dispatch_disabled, &ThreadState::overrides_disabled,
      &ThreadState::autocast_enabled, &ThreadState::grad_enabled, &ThreadState::inference_enabled,
      &ThreadState::packing, &ThreadState::watch_writes};
  static constexpr int ThreadState::*kCounts[] = {&ThreadState::dispatch_modes, &ThreadState::user_modes,
                                                  &ThreadState::function_modes, &ThreadState::active_levels};
  Recorder* recorder = exchange_recorder(nullptr);  // the count of modes that is kept leaves it out
  ThreadState before = tls;
  Plainly() {
    for (auto on : kSwitches) tls.*on = false;
    for (auto count : kCounts) tls.*count = 0;
  }
  ~Plainly() {
    for (auto on : kSwitches) tls.*on = before.*on;
    for (auto count : kCounts) tls.*count = before.*count;
    exchange_recorder(recorder);
  }
};

thread_local StepTimes* listening = nullptr;
void run_timed(Step& step, PlanRun& r, const Plan& plan) {
  auto begin = std::chrono::steady_clock::now();
  step.run(r);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  listening->steps.emplace_back(step.text(plan), took.count());
}

struct Bound {
  PlanRun& r;
  const Step& step;
  ~Bound() {
    for (int u : step.uses) r.unbind(u);
  }
};

// Whoever holds results gets their memory.
void hand_out(PlanRun& r) {
  for (int slot : r.plan.wanted) {
    Storage* made = r.slots[size_t(slot)];
    Storage* s = r.program.slots[size_t(slot)].storage;
    if (made && is_pending(*s)) adopt(*s, *made);
  }
}

}  // namespace

StepTimes::StepTimes() : before(std::exchange(listening, this)) {}
StepTimes::~StepTimes() { listening = before; }

void Plan::run(Program& p) {
  Plainly plainly;
  PlanRun r(*this, p);
  struct Out {
    PlanRun& r;
    ~Out() { hand_out(r); }  // of a run that fails: what is there already
  } out{r};
  for (const auto& step : steps) {
    Bound bound{r, *step};
    if (listening) run_timed(*step, r, *this);
    else step->run(r);
    for (int slot : step->drops) r.drop(slot);
  }
}

void CallStep::run(PlanRun& r) {
  constexpr size_t kMost = 24;  // no operator has more (bind/python.h)
  Value values[kMost];
  std::copy(args.begin(), args.end(), values);
  for (const NumberFrom& n : numbers) values[n.arg] = r.program.entries[size_t(n.entry)].args[n.entry_arg];
  std::vector<std::vector<Tensor*>> lists;
  for (size_t k = 0; k < args.size(); ++k) {
    Value& v = values[k];
    if (v.tag == Tag::Tensor) v.tensor = &r.bind(int(v.i));
    if (v.tag != Tag::Tensors) continue;
    auto& list = lists.emplace_back();
    for (int64_t use : std::span(v.ints.data, size_t(v.ints.size)))
      list.push_back(use < 0 ? nullptr : &r.bind(int(use)));
    v.tensors = {list.data(), int64_t(list.size())};
  }
  Call c;
  c.op = op;
  c.args = values;
  c.nargs = int(args.size());
  c.list_result = list_result;
  run_on_memory(c);
  for (size_t k = 0; k < makes.size(); ++k) {
    if (makes[k] < 0) continue;
    Storage* s = c.out(int(k)).storage;
    retain(s);
    r.put(makes[k], s);
  }
}

// --- making one ------------------------------------------------------------------------------------------------------

PlanUse plan_use(const Use& u) {
  return {u.slot,   u.dtype,  u.device,
          u.flags,  u.offset, {u.dims, u.dims + u.ndim},
          {u.dims + u.ndim, u.dims + 2 * u.ndim}};
}

int Plan::use(const Use& u) {
  uses.push_back(plan_use(u));
  return int(uses.size()) - 1;
}

Plan::Plan(const Program& p)
    : slots(int(p.slots.size())), planner(Ref<Object>::borrow(p.planner)), wanted(p.wanted()) {}

void Plan::finish() {
  std::vector<int> last(size_t(slots), -1);
  for (size_t k = 0; k < steps.size(); ++k) {
    steps[k]->drops.clear();
    for (int slot : steps[k]->makes)
      if (slot >= 0) last[size_t(slot)] = int(k);
    for (int u : steps[k]->uses) last[size_t(uses[size_t(u)].slot)] = int(k);
  }
  for (int slot : wanted) last[size_t(slot)] = -1;
  for (size_t slot = 0; slot < last.size(); ++slot)
    if (last[slot] >= 0) steps[size_t(last[slot])]->drops.push_back(int(slot));
}

std::unique_ptr<CallStep> call_of(const Program& p, int k, Plan& plan) {
  const Entry& e = p.entries[size_t(k)];
  auto step = std::make_unique<CallStep>();
  step->op = e.op;
  step->list_result = e.list_result;
  step->args.assign(e.args, e.args + e.nargs);
  auto use = [&](int64_t u) {
    step->uses.push_back(plan.use(p.uses[size_t(u)]));
    return step->uses.back();
  };
  for (int a = 0; a < e.nargs; ++a) {
    Value& v = step->args[size_t(a)];
    if (is_number(v, e.op->schema.args[size_t(a)].type)) step->numbers.push_back({a, k, a});
    if (v.tag == Tag::Tensor) v.i = use(v.i);
    else if (v.tag == Tag::Tensors || v.tag == Tag::Ints) {
      auto* list = step->memory.take<int64_t>(size_t(v.ints.size));
      for (int64_t j = 0; j < v.ints.size; ++j)
        list[j] = v.tag == Tag::Ints || v.ints.data[j] < 0 ? v.ints.data[j] : use(v.ints.data[j]);
      v.ints.data = list;
    } else if (v.tag == Tag::Floats) {
      auto* list = step->memory.take<double>(size_t(v.floats.size));
      std::copy_n(v.floats.data, v.floats.size, list);
      v.floats.data = list;
    } else if (v.tag == Tag::Str) {
      auto* text = step->memory.take<char>(size_t(v.str.size) + 1);
      std::copy_n(v.str.data, v.str.size, text);
      v.str.data = text;
    }
  }
  for (int r = 0; r < e.nresults; ++r) {
    int slot = p.uses[size_t(e.results[r])].slot;
    bool first = p.slots[size_t(slot)].made_by == k && std::ranges::count(step->makes, slot) == 0;
    step->makes.push_back(first ? slot : -1);
  }
  return step;
}

std::string CallStep::text(const Plan& plan) const {
  auto slot = [&](int64_t use) { return use < 0 ? "None" : concat("%", plan.uses[size_t(use)].slot); };
  std::string s = op->name + "(";
  for (size_t k = 0; k < args.size(); ++k) {
    const Value& v = args[k];
    if (k) s += ", ";
    if (v.tag == Tag::Tensor) s += slot(v.i);
    else if (v.tag == Tag::Ints) s += shape_text({v.ints.data, size_t(v.ints.size)});
    else if (v.tag == Tag::Bool) s += v.b ? "True" : "False";
    else if (v.tag != Tag::Tensors) s += v.none() ? "None" : "…";
    else {
      for (int64_t j = 0; j < v.ints.size; ++j) s += (j ? ", " : "[") + slot(v.ints.data[j]);
      s += "]";
    }
  }
  return s + ")";
}

}  // namespace flambeau
