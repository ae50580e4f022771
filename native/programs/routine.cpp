#include "routine.h"

#include "../runtime/literal.h"

#include <algorithm>

namespace flambeau::programs {
namespace {

constexpr int kDeepest = 64;

Operand operand(Words& words, int registers, int weights, int depth) {
  if (depth > kDeepest) words.fail("lists lie too deep in each other");
  Operand o;
  const Given kind = read_given(words);
  if (kind == Given::Register) {
    o.kind = Operand::Kind::Register;
    o.at = int(words.within(0, registers, "a register"));
  } else if (kind == Given::Weight) {
    o.kind = Operand::Kind::Weight;
    o.at = int(words.within(0, weights, "a weight"));
  } else if (kind == Given::List) {
    o.kind = Operand::Kind::List;
    for (size_t n = words.count(); n-- > 0;) o.list.push_back(operand(words, registers, weights, depth + 1));
  } else {
    o.literal = Content(read_literal(words, kind));
  }
  return o;
}

std::vector<Operand> operands(Words& words, int registers, int weights) {
  std::vector<Operand> all;
  for (size_t n = words.count(); n-- > 0;) all.push_back(operand(words, registers, weights, 0));
  return all;
}

template <class F>
void each_register(const std::vector<Operand>& list, const F& f) {
  for (const Operand& o : list) {
    if (o.kind == Operand::Kind::Register) f(o.at);
    each_register(o.list, f);
  }
}

// Only earlier instructions make what a register holds, so the routine's registers are checked here once and for all.
void find_ends(Routine& r, Words& words) {
  std::vector<int> last(size_t(r.registers), -1);
  std::vector<bool> made(size_t(r.registers), false);
  std::fill_n(made.begin(), r.inputs, true);
  auto read = [&](int at) {
    if (!made[size_t(at)]) words.fail(concat("register ", at, " is read before it is made"));
  };
  for (int k = 0; k < int(r.body.size()); ++k) {
    auto reads = [&](int at) { read(at), last[size_t(at)] = k; };
    each_register(r.body[size_t(k)].operands, reads);
    for (const Form& form : r.body[size_t(k)].forms) each_register(form.operands, reads);
    for (int at : r.body[size_t(k)].makes)
      if (at >= 0) made[size_t(at)] = true, last[size_t(at)] = k;
  }
  each_register(r.results, [&](int at) { read(at), last[size_t(at)] = -1; });
  for (int at = 0; at < r.registers; ++at)
    if (last[size_t(at)] >= 0) r.body[size_t(last[size_t(at)])].ends.push_back(at);
}

// What is written of each kind of instruction before its operands.
void read_kind(Words& words, Instruction& i, int own, int routines, int registers, int weights) {
  // a routine runs later ones alone, so none runs itself
  auto routine = [&] { i.routines.push_back(int(words.within(own + 1, routines, "a routine"))); };
  switch (i.code) {
    case Code::Call:
      i.inplace = words.within(0, 2, "whether a call is in place");
      for (size_t n = words.count(); n-- > 0;) {
        const std::string_view name = words.text();
        const OpDef* op = find_op(name);
        if (!op || op->kind == Kind::Composite)
          words.fail(concat("it calls '", name, "', which this library does not have; write the program again with the "
                            "flambeau that this library is of"));
        i.forms.push_back({op, operands(words, registers, weights)});
      }
      if (i.forms.empty()) words.fail("a call names no operator");
      break;
    case Code::Number: {
      const std::string_view name = words.text();
      i.number = find_number(name);
      if (!i.number) words.fail(concat("there is no function of numbers '", name, "'"));
      break;
    }
    case Code::Check: i.text = words.text(); break;
    case Code::Cond:
    case Code::While: routine(), routine(); break;
    case Code::Scan:
      i.scan.carried = int(words.within(0, words.length(), "how much a scan carries"));
      i.scan.walked = int(words.within(1, words.length(), "what a scan walks along"));
      i.scan.dim = int(words.within(0, kMaxDims, "the dimension of a scan"));
      i.scan.reverse = words.within(0, 2, "the direction of a scan");
      routine();
      break;
  }
}

Routine read_routine(Words& words, int own, int routines, int weights) {
  Routine r;
  r.registers = int(words.within(0, words.length(), "how many registers there are"));
  r.inputs = int(words.within(0, r.registers + 1, "how many inputs there are"));
  for (size_t n = words.count(); n-- > 0;) {
    Instruction& i = r.body.emplace_back();
    i.code = Code(words.within(0, int(Code::Scan) + 1, "the kind of an instruction"));
    read_kind(words, i, own, routines, r.registers, weights);
    if (i.code != Code::Call) i.operands = operands(words, r.registers, weights);
    for (size_t m = words.count(); m-- > 0;) i.makes.push_back(int(words.within(-1, r.registers, "a register")));
    const int given = i.scan.carried + i.scan.walked;  // of a scan
    if (given > int(i.operands.size()) || i.scan.carried > int(i.makes.size())) words.fail("a scan lacks operands");
  }
  r.results = operands(words, r.registers, weights);
  find_ends(r, words);
  return r;
}

}  // namespace

std::vector<Routine> read_routines(Words& words, int weights) {
  const size_t n = words.count();
  std::vector<Routine> all;
  for (size_t k = 0; k < n; ++k) all.push_back(read_routine(words, int(k), int(n), weights));
  return all;
}

}  // namespace flambeau::programs
