#include <algorithm>

#include "../core/lazy.h"
#include "../core/recording.h"
#include "../runtime/program.h"
#include "routine.h"

namespace flambeau::programs {
namespace {

// The arguments of one call, as its schema asks for them; lists lie in memory of the routine that runs.
struct Arguments {
  Value values[kMaxArgs];
  Arena& memory;
};

// Reads one operand as the schema's type; `look` gives an operand's content.
template <class Look>
struct Fitting {
  const Form& form;
  const bool inplace;
  Arguments& to;
  const Look& look;
  const OpDef& op = *form.op;

  bool number(const Content& c, Value& v) const {
    if (c.tensor && c.tensor->numel == 1) v = number_of(*c.tensor, op.shown.c_str());
    else v = c.value;
    return v.is_number();
  }
  bool integer(const Content& c, int64_t& n) const {
    Value v;
    if (!number(c, v) || v.tag > Tag::Int) return false;
    n = v.tag == Tag::Bool ? int64_t(v.b) : v.i;
    return true;
  }
  bool real(const Content& c, double& n) const {
    Value v;
    if (!number(c, v) || v.tag == Tag::Complex) return false;
    n = v.scalar().to<double>();
    return true;
  }
  // The numbers of a list, or one that stands for `repeat` of them; false where `read` does not take one.
  template <class T, class Read>
  bool numbers(const Operand& o, int repeat, std::span<T>& list, const Read& read) const {
    const bool one = o.kind != Operand::Kind::List;
    const size_t n = one ? size_t(repeat) : o.list.size();
    list = {to.memory.take<T>(n), n};
    for (size_t k = 0; k < n; ++k)
      if (!read(look(one ? o : o.list[k]), list[k])) return false;
    return true;
  }
  bool list_of_ints(const Arg& arg, const Operand& o, Value& v) const {
    std::span<int64_t> list;
    if (!numbers(o, std::max(arg.repeat, 1), list, [this](auto& c, auto& n) { return integer(c, n); })) return false;
    v = Value(Dims(list));
    return true;
  }
  bool list_of_bools(const Arg& arg, const Operand& o, Value& v) const {
    if (o.kind != Operand::Kind::List || (arg.repeat && int(o.list.size()) != arg.repeat)) return false;
    for (const Operand& item : o.list)
      if (look(item).value.tag != Tag::Bool) return false;
    if (!list_of_ints(arg, o, v)) return false;
    v.tag = Tag::Bools;
    return true;
  }
  bool list_of_floats(const Arg& arg, const Operand& o, Value& v) const {
    std::span<double> list;
    if (o.kind != Operand::Kind::List && !arg.repeat) return false;
    if (!numbers(o, arg.repeat, list, [this](auto& c, auto& n) { return real(c, n); })) return false;
    v.tag = Tag::Floats;
    v.floats = {list.data(), int64_t(list.size())};
    return true;
  }
  bool list_of_tensors(const Operand& o, bool optional, Value& v) const {
    if (o.kind != Operand::Kind::List) return false;
    Tensor** list = to.memory.take<Tensor*>(o.list.size());
    for (size_t k = 0; k < o.list.size(); ++k) {
      const Content& c = look(o.list[k]);
      if (!c.tensor && !(optional && c.value.none())) return false;
      list[k] = c.tensor.get();
    }
    v.tag = Tag::Tensors;
    v.tensors = {list, int64_t(o.list.size())};
    return true;
  }

  bool fits(const Arg& arg, int position, const Operand& o, Value& v) const {
    switch (arg.type) {
      case Type::Ints: return list_of_ints(arg, o, v);
      case Type::Bools: return list_of_bools(arg, o, v);
      case Type::Floats: return list_of_floats(arg, o, v);
      case Type::Tensors:
      case Type::OptionalTensors: return list_of_tensors(o, arg.type == Type::OptionalTensors, v);
      default: break;
    }
    if (o.kind == Operand::Kind::List) return false;
    const Content& c = look(o);
    switch (arg.type) {
      case Type::Tensor:
        v = c.value;
        return c.tensor || (arg.number && v.is_number() && !(inplace && position == 0));
      case Type::Scalar: return number(c, v);
      case Type::Int: {
        int64_t n;
        if (!integer(c, n)) return false;
        v = Value(n);
        return true;
      }
      case Type::Float: {
        double n;
        if (!real(c, n)) return false;
        v = Value(n);
        return true;
      }
      case Type::Bool:
        v = c.value.tag == Tag::Int ? Value(c.value.i != 0) : c.value;
        return v.tag == Tag::Bool;
      case Type::Str: v = c.value; return v.tag == Tag::Str;
      case Type::DType: v = c.value; return v.tag == Tag::DType;
      case Type::Device: v = c.value; return v.tag == Tag::Device;
      case Type::Layout:
      case Type::MemoryFormat: v = c.value; return v.tag == Tag::Int;
      default: return false;
    }
  }

  bool is_none(const Operand& o) const {
    return o.kind != Operand::Kind::List && look(o).value.none() && !look(o).tensor;
  }
  // What stands for an argument that is not given, or None.
  static bool absent(const Arg& arg, bool given, Value& v) {
    const bool nothing = arg.optional || (arg.has_default && arg.value.none());
    v = !given && arg.has_default ? arg.value : given && nothing ? Value() : arg.value;
    return nothing || arg.has_default;
  }

  // Whether the operator takes the operands.
  bool run() const {
    const auto& args = op.schema.args;
    if (form.operands.size() > args.size()) return false;
    bool tensor = false;
    for (size_t k = 0; k < args.size(); ++k) {
      Value& v = to.values[k];
      const Operand* given = k < form.operands.size() ? &form.operands[k] : nullptr;
      if (!given || is_none(*given) ? !absent(args[k], given, v) : !fits(args[k], int(k), *given, v)) return false;
      tensor |= v.tag == Tag::Tensor;
    }
    return (tensor || !op.needs_tensor) && (to.values[0].tag == Tag::Tensor || !(inplace || op.writes_self));
  }
};

// One run of a routine.
struct Frame {
  const Machine& machine;
  const std::vector<Content>& weights;
  std::vector<Content> registers;
  Arena memory;  // of the arguments of a call

  const Content& look(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::Register: return registers[size_t(o.at)];
      case Operand::Kind::Weight: return weights[size_t(o.at)];
      default: return o.literal;
    }
  }
  std::vector<Content> contents(const std::vector<Operand>& operands) const {
    std::vector<Content> all;
    for (const Operand& o : operands) all.push_back(look(o));
    return all;
  }
  void keep(const Instruction& i, size_t k, Content c) {
    if (i.makes[k] >= 0) registers[size_t(i.makes[k])] = std::move(c);
  }
  void keep_all(const Instruction& i, std::vector<Content> made, const char* what) {
    if (made.size() != i.makes.size())
      value_error(what, ": the program wants ", i.makes.size(), " results, and a routine has ", made.size());
    for (size_t k = 0; k < made.size(); ++k) keep(i, k, std::move(made[k]));
  }

  void call(const Instruction& i) {
    auto looked = [this](const Operand& o) -> const Content& { return look(o); };
    for (const Form& form : i.forms) {
      memory.clear();
      Arguments arguments{.memory = memory};
      if (Fitting<decltype(looked)>{form, i.inplace, arguments, looked}.run()) return call(i, *form.op, arguments);
    }
    type_error(i.forms[0].op->shown, "(): the program gives it arguments that it does not take; it is ",
               i.forms[0].op->schema.text);
  }
  void call(const Instruction& i, const OpDef& op, const Arguments& arguments) {
    Call c;
    c.op = &op;
    c.args = arguments.values;
    c.nargs = int(op.schema.args.size());
    const int flag = op.inplace_argument;
    c.inplace = i.inplace || op.writes_self || (flag >= 0 && arguments.values[flag].b);
    if (c.inplace) c.given = arguments.values[0].tensor;
    run_op(c);
    if (int(i.makes.size()) > c.nout())
      value_error(op.shown, "(): the program wants result ", i.makes.size() - 1, " of ", c.nout());
    for (size_t k = 0; k < i.makes.size(); ++k)
      if (is_wanted(c, int(k))) keep(i, k, Content(k ? c.more[k - 1] : c.out1));
  }
  void number(const Instruction& i) {
    if (i.makes.size() != 1) value_error("a function of numbers has one result");
    std::vector<Content> given;
    for (const Operand& o : i.operands) given.push_back(look(o));
    keep(i, 0, Content(i.number(given)));
  }
  // A text's "{}" are the operands behind the condition.
  void check(const Instruction& i) const {
    if (i.operands.empty() || truth_of(look(i.operands[0]), "check")) return;
    std::string text = i.text;
    for (size_t k = 1, at = 0; k < i.operands.size() && (at = text.find("{}", at)) != text.npos; ++k) {
      const Value& v = look(i.operands[k]).value;
      const std::string shown = v.tag == Tag::Int ? std::to_string(v.i) : v.tag == Tag::Float ? concat(v.f) : "?";
      text.replace(at, 2, shown);
      at += shown.size();
    }
    value_error(text);
  }
  void loop(const Instruction& i) {
    std::vector<Content> given = contents(i.operands);
    const size_t carried = i.makes.size();
    if (carried > given.size()) value_error("while_loop: the program carries more than it begins with");
    for (;;) {
      const std::vector<Content> go = machine.run(i.routines[0], given);
      if (go.size() != 1) value_error("while_loop: a condition has one result");
      if (!truth_of(go[0], "while_loop")) break;
      std::vector<Content> made = machine.run(i.routines[1], given);
      if (made.size() != carried) value_error("while_loop: the body must give as many values as are carried");
      std::ranges::move(made, given.begin());
      interruption_point();
    }
    given.resize(carried);
    keep_all(i, std::move(given), "while_loop");
  }
  void scan(const Instruction& i);
  void run(const Instruction& i) {
    switch (i.code) {
      case Code::Call: return call(i);
      case Code::Number: return number(i);
      case Code::Check: return check(i);
      case Code::Cond: {
        std::vector<Content> given = contents(i.operands);
        if (given.empty()) value_error("cond: the program gives no condition");
        const bool taken = truth_of(given[0], "cond");
        given.erase(given.begin());
        return keep_all(i, machine.run(i.routines[taken ? 0 : 1], std::move(given)), "cond");
      }
      case Code::While: return loop(i);
      case Code::Scan: return scan(i);
    }
  }
};

// Slice k along a dimension.
TensorRef slice_of(const Tensor& t, int dim, int64_t k) {
  std::vector<int64_t> sizes(t.sizes, t.sizes + t.ndim), strides(t.strides, t.strides + t.ndim);
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return view_of(t, sizes, strides, t.data + k * t.strides[dim] * t.itemsize());
}

// The tensors that a scan walks along, which have their values.
std::vector<TensorRef> walked_along(const Scan& scan, const std::vector<Content>& given) {
  std::vector<TensorRef> along;
  for (int k = 0; k < scan.walked; ++k) {
    const TensorRef& t = given[size_t(scan.carried + k)].tensor;
    if (!t || t->ndim <= scan.dim) value_error("scan: it walks along tensors that have the dimension ", scan.dim);
    need_values(*t);
    along.push_back(resolved(*t));
    if (along.back()->sizes[scan.dim] != along[0]->sizes[scan.dim])
      value_error("scan: the tensors that it walks along differ in length");
  }
  if (along[0]->sizes[scan.dim] == 0) value_error("scan: the tensors that it walks along are empty");
  return along;
}

void Frame::scan(const Instruction& i) {
  const std::vector<Content> given = contents(i.operands);
  const size_t carried = size_t(i.scan.carried), walked = size_t(i.scan.walked);
  const std::vector<TensorRef> along = walked_along(i.scan, given);
  const int64_t steps = along[0]->sizes[i.scan.dim];
  std::vector<Content> inputs(given.begin(), given.begin() + long(carried));
  std::vector<TensorRef> stacked;  // of what every step gives beside what it carries
  for (int64_t n = 0; n < steps; ++n) {
    const int64_t at = i.scan.reverse ? steps - 1 - n : n;
    inputs.resize(carried);
    for (const TensorRef& t : along) inputs.emplace_back(slice_of(*t, i.scan.dim, at));
    inputs.insert(inputs.end(), given.begin() + long(carried + walked), given.end());
    std::vector<Content> made = machine.run(i.routines[0], std::move(inputs));
    if (made.size() != i.makes.size()) value_error("scan: the body gives what is carried, and a result for each step");
    for (size_t k = carried; k < made.size(); ++k) {
      if (!made[k].tensor) value_error("scan: what a step gives must be tensors");
      Tensor& one = *made[k].tensor;
      need_values(one);
      if (n == 0) {
        std::vector<int64_t> sizes(one.sizes, one.sizes + one.ndim);
        sizes.insert(sizes.begin(), steps);
        stacked.push_back(empty(sizes, one.dtype, one.device));
      }
      TensorRef place = slice_of(*stacked[k - carried], 0, at);
      if (!std::ranges::equal(place->shape(), one.shape()) || place->dtype != one.dtype)
        value_error("scan: the steps give tensors of different shapes");
      copy_into(*place, one);
    }
    inputs.assign(made.begin(), made.begin() + long(carried));
  }
  for (TensorRef& t : stacked) inputs.emplace_back(std::move(t));
  keep_all(i, std::move(inputs), "scan");
}

}  // namespace

Value number_of(const Tensor& t, const char* who) {
  if (t.numel != 1) value_error(who, ": a tensor of one element is needed, got shape ", shape_text(t.shape()));
  need_values(t);
  const TensorRef plain = resolved(t);
  switch (category(t.dtype)) {
    case Category::Bool: return Value(*plain->ptr<bool>());
    case Category::Integer: return Value(*to_dtype(*plain, DType::Int64)->ptr<int64_t>());
    case Category::Floating: return Value(*to_dtype(*plain, DType::Float64)->ptr<double>());
    default: {
      const complex128 z = *to_dtype(*plain, DType::Complex128)->ptr<complex128>();
      Value v;
      v.tag = Tag::Complex;
      v.c = {z.real(), z.imag()};
      return v;
    }
  }
}

bool truth_of(const Content& c, const char* who) {
  const Value v = c.tensor ? number_of(*c.tensor, who) : c.value;
  if (!v.is_number()) value_error(who, ": a condition must be a number or a tensor of one");
  return v.scalar().to<bool>();
}

std::vector<Content> Machine::run(int routine, std::vector<Content> inputs) const {
  const Routine& r = routines_[size_t(routine)];
  if (int(inputs.size()) != r.inputs)
    value_error("the program gives a routine ", inputs.size(), " inputs instead of ", r.inputs);
  inputs.resize(size_t(r.registers));
  Frame frame{*this, weights_, std::move(inputs), {}};
  for (const Instruction& i : r.body) {
    frame.run(i);
    for (int at : i.ends) frame.registers[size_t(at)] = Content();
  }
  return frame.contents(r.results);
}

}  // namespace flambeau::programs
