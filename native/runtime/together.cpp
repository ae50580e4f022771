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

// Which entry makes the tensor among an entry's arguments; -1: it comes from outside, or is no tensor.
int maker_of(const Program& p, const Value& v) {
  return v.tag == Tag::Tensor ? p.slots[size_t(p.uses[size_t(v.i)].slot)].made_by : -1;
}

// Which entries make something that somebody holds, or that such an entry reads.
std::vector<bool> needed_entries(const Program& p) {
  std::vector<bool> needed(p.entries.size(), false);
  for (int slot : p.wanted()) needed[size_t(p.slots[size_t(slot)].made_by)] = true;
  for (size_t k = p.entries.size(); k-- > 0;)
    for (int j = 0; needed[k] && j < p.entries[k].nargs; ++j)
      if (const int maker = maker_of(p, p.entries[k].args[j]); maker >= 0) needed[size_t(maker)] = true;
  return needed;
}

PlanArg argument_of(const Program& p, int entry, int which, Plan& plan) {
  using Kind = PlanArg::Kind;
  const Value& v = p.entries[size_t(entry)].args[which];
  PlanArg a;
  if (v.tag != Tag::Tensor) {
    a.kind = Kind::Given;
    a.at = entry;
    a.of = which;
    return a;
  }
  const Use& u = p.uses[size_t(v.i)];
  a.at = maker_of(p, v);
  a.kind = a.at < 0 ? Kind::Outside : Kind::View;
  if (a.at >= 0) {
    const Use& made = p.made_as(u.slot);
    const bool same = u.dtype == made.dtype && u.offset == made.offset &&
                      std::ranges::equal(u.sizes(), made.sizes()) && std::ranges::equal(u.strides(), made.strides());
    if (same) a.kind = Kind::Made;
  }
  if (a.kind != Kind::Made) {
    a.of = int(v.i);
    a.kept = plan.kept++;
  }
  return a;
}

// An entry as a call, which makes the value of its number.
PlanCall call_of(const Program& p, int entry, Plan& plan) {
  PlanCall call;
  call.op = p.entries[size_t(entry)].op;
  call.entry = entry;
  call.makes = {entry};
  for (int k = 0; k < p.entries[size_t(entry)].nargs; ++k) call.args.push_back(argument_of(p, entry, k, plan));
  return call;
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

std::unique_ptr<Plan> plan_together(const Program& p) {
  auto plan = std::make_unique<Plan>();
  plan->values = int(p.entries.size());
  for (int slot : p.wanted()) plan->results.push_back({slot, p.slots[size_t(slot)].made_by});
  const std::vector<bool> needed = needed_entries(p);
  std::vector<CallGroup> groups;
  std::vector<PlanCall> waiting;  // of the largest shape
  auto made = [&](int entry) { return p.uses[size_t(p.entries[size_t(entry)].results[0])].sizes(); };
  auto close = [&] {
    const int last = int(waiting.size()) - 1;
    if (last >= 0) groups.push_back({last, std::exchange(waiting, {})});
  };
  auto waits = [&](int value) {
    return value >= 0 && std::ranges::any_of(waiting, [&](const PlanCall& c) { return c.entry == value; });
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
