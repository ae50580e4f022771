#include "plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "../core/images.h"
#include "../core/recording.h"
#include "constants.h"

namespace flambeau {

// --- while it runs ---------------------------------------------------------------------------------------------------

PlanRun::PlanRun(Plan& plan, Program& program)
    : plan(plan), program(program), values(size_t(plan.values)), kept_(std::move(plan.kept_)) {
  plan.kept_.clear();
  kept_.resize(size_t(plan.kept));
}
PlanRun::~PlanRun() {
  let_go();
  plan.kept_ = std::move(kept_);
}

// The tensor that is kept for this argument, with the layout that the program has there.
Tensor& PlanRun::kept(const PlanArg& a) {
  const Use& u = program.uses[size_t(a.of)];
  TensorRef& t = kept_[size_t(a.kept)];
  if (!t || t->dtype != u.dtype) t = bare_tensor(u.dtype, u.device, u.sizes(), u.strides(), u.flags);
  else if (!laid_out(*t, u.sizes(), u.strides())) set_dims(*t, u.sizes(), u.strides());
  return *t;
}

Tensor* PlanRun::tensor(const PlanArg& a) {
  if (a.kind == PlanArg::Kind::Made) return values[size_t(a.at)].get();
  Tensor& t = kept(a);
  if (t.storage) return &t;  // an argument that stands twice
  const Use& u = program.uses[size_t(a.of)];
  Storage* s = a.kind == PlanArg::Kind::Outside ? program.slots[size_t(u.slot)].storage : as_made(a.at, u.slot).storage;
  retain(t.storage = s);
  t.data = static_cast<char*>(s->data) + u.offset * item_size(u.dtype);
  bound_.push_back(a.kept);
  return &t;
}

void PlanRun::let_go() {
  for (int k : bound_) {
    TensorRef& t = kept_[size_t(k)];
    if (t->refcount > 1 || t->weakrefs || t->dict) t = nullptr;  // somebody has kept it: it stays what it is
    else release(std::exchange(t->storage, nullptr));
  }
  bound_.clear();
  replaced_.clear();
}

Tensor& PlanRun::as_made(int value, int slot) {
  TensorRef& t = values[size_t(value)];
  need_memory(*t);
  const Use& made = program.made_as(slot);
  if (t->dtype == made.dtype && laid_out(*t, made.sizes(), made.strides())) return *t;
  TensorRef again = empty_strided(made.sizes(), made.strides(), made.dtype, made.device);
  copy_into(*again, *t);
  replaced_.push_back(std::exchange(t, std::move(again)));  // another argument of the step may be that tensor
  return *t;
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

thread_local Listener* listening = nullptr;
void run_timed(Step& step, PlanRun& r) {
  auto begin = std::chrono::steady_clock::now();
  step.run(r);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  listening->done(step, r, took.count());
}

// Of a run that failed, the results that are there.
void hand_out(PlanRun& r) {
  for (auto [slot, value, last] : r.plan.results) {
    TensorRef made = r.values[size_t(value)];
    if (last) r.values[size_t(value)] = nullptr;
    if (made) hand_out(r.program, slot, std::move(made));
  }
}

}  // namespace

std::unique_ptr<Recordings> (*device_recordings[kDeviceTypes])() = {};

void hand_out(const Program& p, int slot, TensorRef made) {
  Storage* s = p.slots[size_t(slot)].storage;
  const Use& u = p.made_as(slot);
  if (made->flags & kPending || !is_pending(*s) || !laid_out(*made, u.sizes(), u.strides())) return;
  retain(made->storage);
  struct Let { Storage* s; ~Let() { release(s); } } memory{made->storage};
  made = nullptr;  // so that its memory can be taken
  adopt(*s, *memory.s);
}

Listener::Listener() : before_(std::exchange(listening, this)) {}
Listener::~Listener() { listening = before_; }
Listener* Listener::of_thread() { return listening; }
Listener::Unheard::Unheard() : before(std::exchange(listening, nullptr)) {}
Listener::Unheard::~Unheard() { listening = before; }

// An operator that fails says where the user called it; of a group, the calls whose name it says, or all.
static void add_lines(std::string& error, const Step& step, const Program& p) {
  constexpr size_t kMost = 3;
  auto named = [&](const PlanCall& c) { return c.op && error.starts_with(c.op->name + ":"); };
  const bool some = std::ranges::any_of(step.calls, named);
  std::vector<std::string> lines;
  for (const PlanCall& c : step.calls) {
    if (some && !named(c)) continue;
    std::string line = p.line_of(c.entry);
    if (!line.empty() && lines.size() < kMost && !std::ranges::count(lines, line)) lines.push_back(std::move(line));
  }
  for (size_t k = 0; k < lines.size(); ++k) error += (k ? "\n  or in " : "\n  called in ") + lines[k];
}

void Plan::run_steps(PlanRun& r) {
  const Step* running = nullptr;
  try {
    for (const auto& step : steps) {
      struct Bound { PlanRun& r; ~Bound() { r.let_go(); } } bound{r};
      running = step.get();
      if (listening) run_timed(*step, r);
      else step->run(r);
      for (int value : step->drops) r.values[size_t(value)] = nullptr;
    }
  } catch (Error& e) {
    if (e.kind != ErrorKind::Python) add_lines(e.text, *running, r.program);
    throw;
  }
}

void Plan::run(Program& p) {
  Plainly plainly;
  if (p.record && repeat(p)) return;
  PlanRun r(*this, p);
  struct Out {
    PlanRun& r;
    ~Out() { hand_out(r); }
  } out{r};
  run_steps(r);
  for (const Result& result : results) r.as_made(result.value, result.slot);
}

// By what the device has recorded; who listens wants to see the steps.
bool Plan::repeat(Program& p) {
  if (!recordings_)
    for (const Use& u : p.uses)
      if (auto make = device_recordings[int(u.device.type)]) {
        recordings_ = make();
        break;
      }
  if (!recordings_) return false;
  if (!listening) return recordings_->run(*this, p);
  listening->recording(recordings_->text());
  return false;
}

std::vector<TensorRef> Plan::record(Program& p, std::vector<TensorRef>& constants) {
  PlanRun r(*this, p);
  r.recording = true;
  run_steps(r);
  if (!steps.empty())
    if (auto* first = dynamic_cast<const KeptStep*>(steps[0].get())) constants = first->tensors();
  std::vector<TensorRef> made;
  for (const Result& result : results) made.push_back(TensorRef::borrow(&r.as_made(result.value, result.slot)));
  return made;
}

bool Step::ends_here(const PlanArg& a, const PlanRun& r) const {
  if (a.kind != PlanArg::Kind::Made || !std::ranges::count(drops, a.at)) return false;
  const Tensor& t = *r.values[size_t(a.at)];
  if (t.refcount > 1 || t.storage->refcount > 1) return false;
  int seen = 0;
  for (const PlanCall& call : calls)
    each_tensor(call.args, [&](const PlanArg& other) { seen += other.at == a.at; });
  return seen == 1;
}

// A pointwise call writes over an operand that ends with it, if that is what its result will be.
void CallStep::run(PlanRun& r) {
  const PlanCall& call = calls[0];
  if (!call.op->elementwise || call.inplace || call.op->writes_self || call.entry < 0) return run_call(call, r);
  const Entry& entry = r.program.entries[size_t(call.entry)];
  if (entry.nresults != 1) return run_call(call, r);
  const Use& made = r.program.uses[size_t(entry.results[0])];
  for (const PlanArg& a : call.args) {
    if (!ends_here(a, r)) continue;
    Tensor& t = *r.values[size_t(a.at)];
    if (t.dtype == made.dtype && laid_out(t, made.sizes(), made.strides())) return run_call(call, r, &t);
  }
  run_call(call, r);
}

void run_call(const PlanCall& call, PlanRun& r, Tensor* to) {
  Value values[kMaxArgs];
  std::vector<std::vector<Tensor*>> lists;
  for (size_t k = 0; k < call.args.size(); ++k) {
    const PlanArg& a = call.args[k];
    if (a.kind <= PlanArg::Kind::Given) {
      values[k] = r.given(a);
    } else if (a.kind != PlanArg::Kind::List) {
      values[k] = r.tensor(a);
    } else {
      auto& list = lists.emplace_back();
      for (const PlanArg& item : a.list) list.push_back(item.kind == PlanArg::Kind::Literal ? nullptr : r.tensor(item));
      values[k].tag = Tag::Tensors;
      values[k].tensors = {list.data(), int64_t(list.size())};
    }
  }
  Call c;
  c.op = call.op;
  c.args = values;
  c.nargs = int(call.args.size());
  c.list_result = call.list_result;
  c.given = to;
  if (call.inplace) c.inplace = true, c.given = values[0].tensor;
  const PrimitiveRow* row = call.op->row;
  if (row && row->is_view()) {
    run_on_memory(c);  // as pending as what it is a view of
  } else if (!run_on_images(c)) {
    each_tensor(call.args, [&](const PlanArg& a) {
      if (a.kind == PlanArg::Kind::Made) need_memory(*r.tensor(a));
    });
    run_on_memory(c);
  }
  for (size_t k = 0; k < call.makes.size(); ++k)
    if (call.makes[k] >= 0) r.values[size_t(call.makes[k])] = TensorRef::borrow(&c.out(int(k)));
}

bool PartStep::takes(const PlanCall& call) {
  using Kind = PlanArg::Kind;
  const auto& args = call.args;
  return (call.op->name == "_with_part" || call.op->name == "_with_number") && args[0].kind == Kind::Made &&
         args[1].kind >= Kind::Made && args[1].at == args[0].at && args[2].kind != Kind::List;
}

void PartStep::run(PlanRun& r) {
  const PlanCall& call = calls[0];
  const int at = call.args[0].at;
  if (call.args[1].kind == PlanArg::Kind::Made) return run_call(call, r);  // all of it, as it was made
  const Use& part = r.program.uses[size_t(call.args[1].of)];
  TensorRef whole = TensorRef::borrow(&r.as_made(at, part.slot));
  const PlanArg& value = call.args[2];
  Tensor* from = value.kind > PlanArg::Kind::Given ? r.tensor(value) : nullptr;
  TensorRef& held = r.values[size_t(at)];
  if (value.at == at || !std::ranges::count(drops, at) || held->refcount > 2 || held->storage->refcount > 1) {
    whole = empty_strided(held->shape(), held->stride(), held->dtype, held->device);
    copy_into(*whole, *held);
  }
  TensorRef to = view_of(*whole, part.sizes(), part.strides(), whole->data + part.offset * whole->itemsize());
  if (from) copy_into(*to, *from);
  else fill(*to, r.given(value).scalar());
  if (call.makes[0] >= 0) r.values[size_t(call.makes[0])] = std::move(whole);
}

std::string PartStep::text() const { return CallStep(calls[0]).text(); }

// --- making one ------------------------------------------------------------------------------------------------------

void Plan::finish() {
  std::vector<int> last(size_t(values), -1);
  for (size_t k = 0; k < steps.size(); ++k)
    for (const PlanCall& call : steps[k]->calls) {
      auto needed = [&](int value) {
        if (value >= 0) last[size_t(value)] = int(k);
      };
      each_tensor(call.args, [&](const PlanArg& a) { needed(a.at); });
      std::ranges::for_each(call.makes, needed);
    }
  for (Result& result : results) last[size_t(result.value)] = -1;
  for (size_t k = 0; k < results.size(); ++k)
    results[k].last = std::none_of(results.begin() + long(k) + 1, results.end(),
                                   [&](const Result& later) { return later.value == results[k].value; });
  for (int value = 0; value < values; ++value)
    if (last[size_t(value)] >= 0) steps[size_t(last[size_t(value)])]->drops.push_back(value);
}

static std::string text_of(const PlanArg& a) {
  using Kind = PlanArg::Kind;
  switch (a.kind) {
    case Kind::Made:
    case Kind::View: return concat("%", a.at);
    case Kind::Outside: return "input";
    case Kind::Given: return "…";
    case Kind::Literal:
      if (a.literal.tag == Tag::Ints) return shape_text({a.literal.ints.data, size_t(a.literal.ints.size)});
      if (a.literal.tag == Tag::Bool) return a.literal.b ? "True" : "False";
      if (a.literal.tag == Tag::Int) return std::to_string(a.literal.i);
      return a.literal.none() ? "None" : "…";
    default: break;
  }
  std::string s = "[";
  for (const PlanArg& item : a.list) s += (s.size() > 1 ? ", " : "") + text_of(item);
  return s + "]";
}

std::string CallStep::text() const {
  const PlanCall& call = calls[0];
  std::string s = call.op->name + "(";
  for (size_t k = 0; k < call.args.size(); ++k) s += (k ? ", " : "") + text_of(call.args[k]);
  return s + ")";
}

}  // namespace flambeau
