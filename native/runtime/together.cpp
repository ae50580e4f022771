#include "together.h"

#include <algorithm>

#include "blocks.h"

namespace flambeau {
namespace {

// By value: whether it is needed outside the step that makes it.
std::vector<bool> needed_outside(const Plan& plan, const std::vector<CallGroup>& groups) {
  std::vector<bool> needed(size_t(plan.values), false);
  std::vector<int> maker(size_t(plan.values), -1);
  for (const Plan::Result& result : plan.results) needed[size_t(result.value)] = true;
  for (size_t k = 0; k < groups.size(); ++k)
    for (const PlanCall& call : groups[k].calls) {
      each_tensor(call.args, [&](const PlanArg& a) {
        if (a.at < 0) return;
        if (maker[size_t(a.at)] < 0) value_error("compile: a plan's value is used before it is made");
        if (maker[size_t(a.at)] != int(k)) needed[size_t(a.at)] = true;
      });
      for (int value : call.makes)
        if (value >= 0) maker[size_t(value)] = int(k);
    }
  return needed;
}

std::unique_ptr<Step> step_of(CallGroup group, const std::vector<bool>& needed) {
  auto& [leader, calls] = group;
  if (calls.size() == 1) {
    if (PartStep::takes(calls[0])) return std::make_unique<PartStep>(std::move(calls[0]));
    return std::make_unique<CallStep>(std::move(calls[0]));
  }
  std::vector<int> results;
  for (const PlanCall& call : calls)
    if (!is_store(call) && needed[size_t(call.makes[0])]) results.push_back(call.makes[0]);
  return std::make_unique<BlockStep>(std::move(calls), leader, std::move(results));
}

// Calls f with every use among an entry's arguments.
template <class F>
void each_use(const Entry& e, F&& f) {
  for (int k = 0; k < e.nargs; ++k) {
    const Value& v = e.args[k];
    if (v.tag == Tag::Tensor) f(v.i);
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.ints.size; ++j)
      if (v.ints.data[j] >= 0) f(v.ints.data[j]);
  }
}

// Which entries make something that somebody holds, or that such an entry reads, or do more than computing results.
std::vector<bool> needed_entries(const Program& p) {
  std::vector<bool> needed(p.entries.size(), false);
  for (int slot : p.wanted()) needed[size_t(p.slots[size_t(slot)].made_by)] = true;
  for (size_t k = p.entries.size(); k-- > 0;) {
    const Entry& e = p.entries[k];
    needed[k] = needed[k] || !e.writes.empty() || e.op->random;
    if (!needed[k]) continue;
    each_use(e, [&](int64_t use) {
      const int maker = p.slots[size_t(p.uses[size_t(use)].slot)].made_by;
      if (maker >= 0) needed[size_t(maker)] = true;
    });
  }
  return needed;
}

// The plans that are made here number values by the slots they fill.
PlanArg tensor_of(const Program& p, int64_t use, Plan& plan) {
  using Kind = PlanArg::Kind;
  const Use& u = p.uses[size_t(use)];
  PlanArg a;
  a.at = p.slots[size_t(u.slot)].made_by < 0 ? -1 : u.slot;
  a.kind = a.at < 0 ? Kind::Outside : Kind::View;
  if (a.at >= 0) {
    const Use& made = p.made_as(u.slot);
    const bool same = u.dtype == made.dtype && u.offset == made.offset &&
                      std::ranges::equal(u.sizes(), made.sizes()) && std::ranges::equal(u.strides(), made.strides());
    if (same) a.kind = Kind::Made;
  }
  if (a.kind != Kind::Made) {
    a.of = int(use);
    a.kept = plan.kept++;
  }
  return a;
}

PlanArg argument_of(const Program& p, int entry, int which, Plan& plan) {
  const Value& v = p.entries[size_t(entry)].args[which];
  if (v.tag == Tag::Tensor) return tensor_of(p, v.i, plan);
  PlanArg a;
  if (v.tag == Tag::Tensors) {
    a.kind = PlanArg::Kind::List;
    for (int64_t j = 0; j < v.ints.size; ++j)
      a.list.push_back(v.ints.data[j] < 0 ? PlanArg() : tensor_of(p, v.ints.data[j], plan));
    return a;
  }
  a.kind = PlanArg::Kind::Given;
  a.at = entry;
  a.of = which;
  return a;
}

PlanCall call_of(const Program& p, int entry, Plan& plan) {
  const Entry& e = p.entries[size_t(entry)];
  PlanCall call;
  call.op = e.op;
  call.entry = entry;
  call.inplace = e.form == Form::Inplace;
  call.list_result = e.list_result;
  for (int k = 0; k < e.nresults; ++k) {
    const int slot = p.uses[size_t(e.results[k])].slot;
    const bool fresh = p.slots[size_t(slot)].made_by == entry && !std::ranges::count(call.makes, slot);
    call.makes.push_back(fresh ? slot : -1);
  }
  for (int k = 0; k < e.nargs; ++k) call.args.push_back(argument_of(p, entry, k, plan));
  return call;
}

// What writes the result of a stored call to where its first argument lies.
PlanCall store_of(const Program& p, int entry, Plan& plan) {
  static OpHandle copy{"copy_"};
  PlanCall call;
  call.op = &copy.get();
  call.entry = entry;
  call.args.push_back(argument_of(p, entry, 0, plan));
  call.args.push_back(tensor_of(p, p.entries[size_t(entry)].results[0], plan));
  for (size_t k = 2; k < call.op->schema.args.size(); ++k)
    call.args.emplace_back().literal = call.op->schema.args[k].value;
  return call;
}

// A plan without steps that makes what is wanted.
std::unique_ptr<Plan> blank_plan(const Program& p) {
  auto plan = std::make_unique<Plan>();
  plan->values = int(p.slots.size());
  for (int slot : p.wanted()) plan->results.push_back({slot, slot});
  return plan;
}

}  // namespace

void add_steps(Plan& plan, std::vector<CallGroup> groups) {
  const std::vector<bool> needed = needed_outside(plan, groups);
  for (CallGroup& group : groups) plan.steps.push_back(step_of(std::move(group), needed));
}

bool goes_together(const Call& c) {
  if (!c.op->elementwise || c.given || c.inplace) return false;
  bool large = false;
  for (int k = 0; k < c.op->elementwise->operands; ++k) {
    if (c.args[k].tag != Tag::Tensor) continue;
    if (c.args[k].tensor->device.type != DeviceType::CPU) return false;
    large |= c.args[k].tensor->numel >= kWorthJoining;
  }
  return large;
}

std::unique_ptr<Plan> plan_calls(const Program& p) {
  auto plan = blank_plan(p);
  const std::vector<bool> needed = needed_entries(p);
  std::vector<CallGroup> groups;
  for (int k = 0; k < int(p.entries.size()); ++k) {
    if (!needed[size_t(k)]) continue;
    groups.emplace_back(CallGroup{0, {}}).calls.push_back(call_of(p, k, *plan));
    if (p.entries[size_t(k)].form == Form::Stored)
      groups.emplace_back(CallGroup{0, {}}).calls.push_back(store_of(p, k, *plan));
  }
  add_steps(*plan, std::move(groups));
  plan->finish();
  return plan;
}

std::unique_ptr<Plan> plan_together(const Program& p) {
  auto plan = blank_plan(p);
  const std::vector<bool> needed = needed_entries(p);
  std::vector<CallGroup> groups;
  std::vector<PlanCall> waiting;  // of the largest shape
  auto made = [&](int entry) { return p.uses[size_t(p.entries[size_t(entry)].results[0])].sizes(); };
  auto close = [&] {
    const int last = int(waiting.size()) - 1;
    if (last >= 0) groups.push_back({last, std::exchange(waiting, {})});
  };
  auto waits = [&](int value) {
    return value >= 0 && std::ranges::any_of(waiting, [&](const PlanCall& c) { return c.makes[0] == value; });
  };
  const int entries = int(p.entries.size());
  int largest = 0;
  for (int k = 1; k < entries; ++k)
    if (needed[size_t(k)] && count(made(k)) >= count(made(largest))) largest = k;
  for (int k = 0; k < entries; ++k) {
    if (!needed[size_t(k)]) continue;
    PlanCall call = call_of(p, k, *plan);
    const bool joins = std::ranges::equal(made(k), made(largest));
    auto needs_memory = [&](const PlanArg& a) {  // what is seen otherwise than it was made, or by another group
      return (!joins || a.kind == PlanArg::Kind::View) && waits(a.at);
    };
    if (std::ranges::any_of(call.args, needs_memory)) close();
    (joins ? waiting : groups.emplace_back(CallGroup{0, {}}).calls).push_back(std::move(call));
  }
  close();
  add_steps(*plan, std::move(groups));
  plan->finish();
  return plan;
}

}  // namespace flambeau
