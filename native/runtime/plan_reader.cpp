#include "plan_reader.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "blocks.h"
#include "constants.h"
#include "literal.h"
#include "together.h"

namespace flambeau {

PlanArg from_outside(const Program& p, int64_t use, Plan& plan) {
  if (p.slots[size_t(p.uses.at(size_t(use)).slot)].made_by >= 0)
    value_error("compile: use ", use, " of the program is a result, not a tensor from outside");
  PlanArg a;
  a.kind = PlanArg::Kind::Outside;
  a.of = int(use);
  a.kept = plan.kept++;
  return a;
}

namespace {

// Steps (the leader among its calls, calls), results (slot, value), and how many of the first steps make values that
// are kept. Several calls are a group over the shape of the leader's result. A call is its operator, whether it is in
// place, arguments, the values it makes (-1: nobody asks), and its entry in the program (-1: none).
struct Reader {
  const Program& p;
  Plan& plan;
  Words& words;

  int number(size_t below, const char* what) { return int(words.within(0, int64_t(below), what)); }
  int value() {
    const int v = number(size_t(words.length()), "a value of the plan");
    plan.values = std::max(plan.values, v + 1);
    return v;
  }

  PlanArg argument() {
    PlanArg a;
    switch (const Given kind = read_given(words)) {
      case Given::List: return list();
      case Given::Given: {
        a.kind = PlanArg::Kind::Given;
        a.at = number(p.entries.size(), "the entry that has an argument");
        a.of = number(size_t(p.entries[size_t(a.at)].nargs), "an argument of an entry");
        const Tag tag = p.entries[size_t(a.at)].args[a.of].tag;
        if (tag == Tag::Tensor || tag == Tag::Tensors) words.fail("a given argument is a tensor");
        return a;
      }
      case Given::Outside: return from_outside(p, number(p.uses.size(), "a use of the program"), plan);
      case Given::Made:
        a.kind = PlanArg::Kind::Made;
        a.at = value();
        return a;
      case Given::View:
        a.kind = PlanArg::Kind::View;
        a.at = value();
        a.of = number(p.uses.size(), "a use of the program");
        if (p.slots[size_t(p.uses[size_t(a.of)].slot)].made_by < 0) words.fail("a view is one of a result");
        a.kept = plan.kept++;
        return a;
      case Given::Text: {
        a.literal = read_literal(words, kind);
        auto& text = a.literal.str;
        char* kept = plan.memory.take<char>(size_t(text.size) + 1);
        std::memcpy(kept, text.data, size_t(text.size));
        kept[text.size] = 0;
        text.data = kept;
        return a;
      }
      default: a.literal = read_literal(words, kind);
    }
    return a;
  }

  // Of integers or bools, which is a literal, or of tensors.
  PlanArg list() {
    PlanArg a;
    for (size_t n = words.count(); n-- > 0;) a.list.push_back(argument());
    auto literal = [](const PlanArg& item) {
      const Tag tag = item.literal.tag;
      return item.kind == PlanArg::Kind::Literal && (tag == Tag::Int || tag == Tag::Bool);
    };
    if (!std::ranges::all_of(a.list, literal)) {
      a.kind = PlanArg::Kind::List;
      return a;
    }
    int64_t* numbers = plan.memory.take<int64_t>(a.list.size());
    for (size_t k = 0; k < a.list.size(); ++k) {
      const Value& v = a.list[k].literal;
      numbers[k] = v.tag == Tag::Bool ? int64_t(v.b) : v.i;
    }
    a.literal.tag = Tag::Ints;
    a.literal.ints = {numbers, int64_t(a.list.size())};
    a.list.clear();
    return a;
  }

  // Whether a kernel finds there what its operator's schema says.
  bool fits(const Arg& arg, const PlanArg& a) const {
    using enum PlanArg::Kind;
    const bool tensor = a.kind == Outside || a.kind == Made || a.kind == View;
    const Value& v = a.kind == Given ? p.entries[size_t(a.at)].args[a.of] : a.literal;
    if (a.kind == List) {
      const bool some = arg.type == Type::OptionalTensors;
      return (arg.type == Type::Tensors || some) && std::ranges::all_of(a.list, [&](const PlanArg& item) {
        return item.kind == Literal ? some && item.literal.none() : item.kind != Given && item.kind != List;
      });
    }
    if (tensor) return arg.type == Type::Tensor;
    if (v.none()) return arg.optional || (arg.has_default && arg.value.none());
    switch (arg.type) {
      case Type::Tensor: return arg.number && v.is_number();
      case Type::Tensors:
      case Type::OptionalTensors: return v.tag == Tag::Ints && v.ints.size == 0;
      case Type::Scalar:
      case Type::Float: return v.is_number();
      case Type::Int: return v.tag == Tag::Int;
      case Type::Ints:
      case Type::Bools: return v.tag == Tag::Ints || v.tag == Tag::Bools;
      case Type::Floats: return v.tag == Tag::Floats;
      case Type::Bool: return v.tag == Tag::Bool;
      case Type::Str: return v.tag == Tag::Str;
      case Type::DType: return v.tag == Tag::DType;
      case Type::Device: return v.tag == Tag::Device;
      case Type::Layout:
      case Type::MemoryFormat: return v.tag == Tag::Int;
      default: return false;
    }
  }

  PlanCall call() {
    PlanCall c;
    const std::string_view name = words.text();
    c.op = find_op(name);
    if (!c.op || c.op->kind == Kind::Composite) words.fail(concat("'", name, "' is no native operator"));
    c.inplace = words.within(0, 2, "whether a call is in place");
    c.list_result = c.op->schema.list_result;
    for (size_t n = words.count(); n-- > 0;) c.args.push_back(argument());
    const auto& args = c.op->schema.args;
    bool fit = c.args.size() == args.size();
    for (size_t k = 0; fit && k < args.size(); ++k) fit = fits(args[k], c.args[k]);
    if (!fit) words.fail(concat("a call of ", name, " has other arguments"));
    for (size_t n = words.count(); n-- > 0;) {
      const int made = int(words.within(-1, words.length(), "a value of the plan"));
      plan.values = std::max(plan.values, made + 1);
      c.makes.push_back(made);
    }
    c.entry = int(words.within(-1, int64_t(p.entries.size()), "the entry that a call stands for"));
    return c;
  }

  CallGroup group() {
    const int64_t leader = words.next();
    std::vector<PlanCall> calls;
    for (size_t n = words.count(); n-- > 0;) calls.push_back(call());
    if (leader < 0 || size_t(leader) >= calls.size()) words.fail("a leader is one of its step's calls");
    for (const PlanCall& c : calls) {
      if (is_store(c) && c.args[0].kind == PlanArg::Kind::Outside && c.args[1].kind == PlanArg::Kind::Made) continue;
      if (calls.size() > 1 && (c.makes.size() != 1 || c.makes[0] < 0 ||
                               !(c.op->elementwise || find_row_fold(c.op->name, DType::Float32))))
        words.fail("a group is of pointwise calls, reductions of rows, and writes of what they make");
    }
    return {int(leader), std::move(calls)};
  }

  void run() {
    std::vector<CallGroup> groups;
    for (size_t n = words.count(); n-- > 0;) groups.push_back(group());
    for (size_t n = words.count(); n-- > 0;) {
      const int slot = number(p.slots.size(), "a slot of the program");
      if (p.slots[size_t(slot)].made_by < 0) words.fail("a result is what the program makes");
      plan.results.push_back({slot, value()});
    }
    const int kept = number(groups.size() + 1, "how many steps make what is kept");
    add_steps(plan, std::move(groups));
    if (kept) {
      const auto end = plan.steps.begin() + kept;
      std::vector<std::unique_ptr<Step>> constant(std::make_move_iterator(plan.steps.begin()),
                                                  std::make_move_iterator(end));
      plan.steps.erase(plan.steps.begin() + 1, end);
      plan.steps[0] = std::make_unique<KeptStep>(std::move(constant));
    }
    plan.finish();
  }
};

}  // namespace

std::unique_ptr<Plan> read_plan(const Program& p, Words words) {
  auto plan = std::make_unique<Plan>();
  Reader{p, *plan, words}.run();
  return plan;
}

}  // namespace flambeau
