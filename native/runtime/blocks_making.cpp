// How a group becomes a block program: which cells its values have, and where these lie.
#include <algorithm>

#include "blocks.h"

namespace flambeau {
namespace {

using Kind = BlockCode::Kind;
using Cell = BlockCode::Cell;
constexpr int64_t kLongest = 2048;
constexpr int64_t kMostScratch = 2 << 20;  // of a row that does not fit the first-level cache

struct Builder {
  const BlockStep& group;
  const PlanRun& run;
  const std::vector<Tensor*>& tensors;  // by input of the group
  BlockCode& code;
  struct Own {
    int cell = -1;
    TensorRef tensor;                   // its layout, without memory
    LoopFn loop = nullptr;              // that computes it
    DType compute, loop_out;
    bool broadcasts;
  };
  std::vector<Own> own;                 // by value
  std::vector<int64_t> shape;           // of the group
  std::vector<std::vector<int64_t>> input_strides;  // by operand that is read
  bool possible = true;

  int cell(Cell c) {
    code.cells.push_back(c);
    return int(code.cells.size()) - 1;
  }

  // Strides of a tensor along the group's shape; `member` is the shape of the call that reads it.
  std::vector<int64_t> along(const Tensor& t, Dims member) const {
    std::vector<int64_t> strides(shape.size(), 0);
    if (!std::ranges::equal(member, shape)) {  // it is read from end to end
      if (t.numel != 1) strides = contiguous_strides(shape);
      return strides;
    }
    const int added = int(shape.size()) - t.ndim;
    for (int d = 0; d < t.ndim; ++d)
      if (t.sizes[d] != 1) strides[size_t(d + added)] = t.strides[d];
    return strides;
  }

  size_t position(const PlanArg& a) const {  // among the group's inputs
    auto same = [&](const PlanArg& i) { return same_argument(i, a); };
    return size_t(std::ranges::find_if(group.inputs, same) - group.inputs.begin());
  }
  // Whether it has one number for each row of the group.
  bool is_per_row(const Tensor& t) const {
    if (!code.columns || t.numel * code.columns != code.numel || code.numel == t.numel) return false;
    const Dims rows(shape.data(), shape.size() - 1), sizes = t.shape();
    if (std::ranges::equal(sizes, rows)) return true;
    return sizes.size() == shape.size() && sizes.back() == 1 && std::ranges::equal(sizes.first(rows.size()), rows);
  }
  // An operand of a call whose result has one number for each row.
  int row_input(const PlanArg& a) {
    const size_t k = position(a);
    const Tensor& t = *tensors[k];
    possible &= t.numel == 1 || (t.contiguous() && is_per_row(t));
    code.inputs.push_back(int(k));
    input_strides.emplace_back(shape.size(), 0);
    Cell c{Kind::Input, t.dtype};
    c.memory = int(code.inputs.size()) - 1;
    c.constant = t.numel == 1;
    c.per_row = !c.constant;
    return cell(c);
  }
  int input(const PlanArg& a, Dims member) {
    const size_t k = position(a);
    const Tensor& t = *tensors[k];
    std::vector<int64_t> strides = along(t, member);
    for (size_t j = 0; j < code.inputs.size(); ++j) {
      const Tensor& known = *tensors[size_t(code.inputs[j])];
      const int same = input_cell(int(j));
      if (known.data == t.data && known.dtype == t.dtype && input_strides[j] == strides &&
          !code.cells[size_t(same)].per_row)
        return same;
    }
    code.inputs.push_back(int(k));
    auto stays = [](int64_t s) { return s == 0; };
    const bool constant = std::ranges::all_of(strides, stays);
    const bool same_rows = code.columns && std::all_of(strides.begin(), strides.end() - 1, stays);
    input_strides.push_back(std::move(strides));
    Cell c{Kind::Input, t.dtype};
    c.memory = int(code.inputs.size()) - 1;
    c.constant = constant;
    c.same_rows = same_rows && !constant;
    return cell(c);
  }
  int input_cell(int memory) const {
    for (size_t k = 0; k < code.cells.size(); ++k)
      if (code.cells[k].kind == Kind::Input && code.cells[k].memory == memory) return int(k);
    return -1;
  }

  int converted(int from, DType to) {
    const Cell source = code.cells[size_t(from)];
    if (source.constant) {
      Cell c{Kind::Number, to};
      c.constant = true;
      c.from = from;
      return cell(c);
    }
    if (source.dtype == to) return from;
    BlockCode::Instruction i;
    i.what = BlockCode::What::Convert;
    i.cast = make_cast(source.dtype, to);
    return instruction(i, from, to, source.per_row);
  }
  // Adds one of a single operand; its result's cell.
  int instruction(BlockCode::Instruction i, int from, DType dtype, bool per_row) {
    i.count = 2;
    i.from[1] = from;
    i.per_row = per_row;
    Cell c{Kind::Register, dtype};
    c.per_row = per_row;
    i.to = cell(c);
    code.code.push_back(i);
    return i.to;
  }
  int spread(int from) {
    BlockCode::Instruction i;
    i.what = BlockCode::What::Spread;
    return instruction(i, from, code.cells[size_t(from)].dtype, false);
  }

  // The value of the group that this argument is; null: it comes from outside.
  const Own* own_of(const PlanArg& a) const {
    return a.at >= 0 && own[size_t(a.at)].tensor ? &own[size_t(a.at)] : nullptr;
  }
  TensorRef seen_as(const PlanArg& a) const;
  TensorRef tensor_of(const PlanArg& a) const {
    return own_of(a) ? seen_as(a) : TensorRef::borrow(tensors[position(a)]);
  }
  bool fits() const;
  void describe(const PlanCall& call);
  void describe_fold(const PlanCall& call);
  void add(const PlanCall& call);
  void add_fold(const PlanCall& call);
  int operand(const PlanArg& a, const Own& made, DType wants, bool per_row);
  void add_store(const BlockStep::Store& s, int memory);
  template <class F> bool is_read_later(int cell, F&& is_it) const;
  int may_take(int value) const;
  void place_memory();
  void walk(const std::vector<std::vector<int64_t>>& strides);
  void place_buffers();
  void place_blocks();
};

// How a call of the group sees a value of it.
TensorRef Builder::seen_as(const PlanArg& a) const {
  if (a.kind != PlanArg::Kind::View) return own[size_t(a.at)].tensor;
  const Use& u = run.program.uses[size_t(a.of)];
  return bare_tensor(u.dtype, u.device, u.sizes(), u.strides(), u.flags);
}
// Whether values that calls see in a shape of their own have the layouts that the program gave them.
bool Builder::fits() const {
  for (const PlanArg& a : group.own) {
    const Use& made = run.program.made_as(run.program.uses[size_t(a.of)].slot);
    if (!laid_out(*own[size_t(a.at)].tensor, made.sizes(), made.strides())) return false;
  }
  return true;
}

// The call as its operator works it out, with tensors that have no memory.
struct Described {
  std::vector<TensorRef> tensors;
  std::vector<Value> values;
  Call c;
  Described(const Builder& b, const PlanCall& call) {
    for (const PlanArg& a : call.args) {
      if (a.kind <= PlanArg::Kind::Given) {
        values.push_back(b.run.given(a));
        continue;
      }
      tensors.push_back(b.tensor_of(a));
      values.push_back(tensors.back().get());
    }
    c.op = call.op;
    c.args = values.data();
    c.nargs = int(values.size());
    c.describes = true;
  }
};

// What the operator says of its result and its loop.
void Builder::describe(const PlanCall& call) {
  Described d(*this, call);
  Pointwise w(*call.op->elementwise);
  pointwise::infer(d.c, call.op->promote, w);
  own[size_t(call.makes[0])] = {-1, bare_tensor(w.out->dtype, w.out->device, w.out->shape(), w.out->stride(), 0),
                                w.plan.loop, w.compute, w.loop_out, w.plan.broadcasts};
}

void Builder::describe_fold(const PlanCall& call) {
  Described d(*this, call);
  call.op->row->infer(d.c);
  const Tensor& out = d.c.out();
  own[size_t(call.makes[0])].tensor = bare_tensor(out.dtype, out.device, out.shape(), out.stride(), 0);
}

// The cell of an operand, in the dtype that the loop wants.
int Builder::operand(const PlanArg& a, const Own& made, DType wants, bool per_row) {
  if (a.kind <= PlanArg::Kind::Given) {
    Cell c{run.given(a).none() ? Kind::Absent : Kind::Number, wants};
    c.constant = c.kind == Kind::Number;
    c.number = &a;
    return cell(c);
  }
  const Own* value = own_of(a);
  if (!value) return converted(per_row ? row_input(a) : input(a, made.tensor->shape()), wants);
  const bool one_per_row = code.cells[size_t(value->cell)].per_row;
  const TensorRef seen = seen_as(a);
  if (per_row) possible &= one_per_row && std::ranges::equal(seen->shape(), made.tensor->shape());
  else if (one_per_row) possible &= size_t(seen->ndim) == shape.size() && seen->sizes[seen->ndim - 1] == 1;
  else possible &= !code.columns || std::ranges::equal(seen->shape(), shape);
  const int from = converted(value->cell, wants);
  return one_per_row && !per_row && !made.broadcasts ? spread(from) : from;
}

void Builder::add_fold(const PlanCall& call) {
  const PlanArg& a = call.args[0];
  Own& made = own[size_t(call.makes[0])];
  const Own* value = own_of(a);
  const int from = value ? value->cell : input(a, shape);
  BlockCode::Instruction i;
  i.what = BlockCode::What::Fold;
  i.fold = find_row_fold(call.op->name, made.tensor->dtype);
  i.call = &call;
  const Tensor& x = value ? *value->tensor : *tensors[position(a)];
  possible &= i.fold && x.dtype == made.tensor->dtype && std::ranges::equal(x.shape(), shape) &&
              is_per_row(*made.tensor) && !code.cells[size_t(from)].constant;
  made.cell = instruction(i, from, made.tensor->dtype, true);
}

void Builder::add(const PlanCall& call) {
  const ElementwiseRow& row = *call.op->elementwise;
  Own& made = own[size_t(call.makes[0])];
  BlockCode::Instruction i;
  i.loop = made.loop;
  i.compute = made.compute;
  i.call = &call;
  i.count = row.operands + 1;
  i.scalars = std::min(std::max(int(call.args.size()) - row.operands, 0), pointwise::kMaxScalars);
  i.per_row = is_per_row(*made.tensor);
  possible &= i.per_row || !code.columns || std::ranges::equal(made.tensor->shape(), shape);
  for (int k = 0; k < row.operands; ++k) {
    const DType wants = row.bool_operands >> k & 1 ? DType::Bool : made.compute;
    const int from = operand(call.args[size_t(k)], made, wants, i.per_row);
    Cell& c = code.cells[size_t(from)];
    if (c.constant && !made.broadcasts) c.filled = true;
    i.by_row |= c.per_row && !i.per_row;
    i.from[k + 1] = from;
  }
  Cell to{Kind::Register, made.loop_out};
  to.per_row = i.per_row;
  i.to = cell(to);
  code.code.push_back(i);
  code.weight += row.weight;
  made.cell = converted(i.to, made.tensor->dtype);
}

// Whether an input, as the group's argument, is read after the instruction that makes this cell.
template <class F>
bool Builder::is_read_later(int made, F&& is_it) const {
  bool later = false;
  for (const auto& i : code.code) {
    for (int k = 1; later && k < i.count; ++k) {
      const Cell& c = code.cells[size_t(i.from[k])];
      if (c.kind == Kind::Input && is_it(group.inputs[size_t(code.inputs[size_t(c.memory)])])) return true;
    }
    later |= i.to == made;
  }
  return false;
}

// The input whose memory a result may have: of its layout, and read before the result is written.
int Builder::may_take(int value) const {
  const Own& made = own[size_t(value)];
  for (size_t k = 0; k < tensors.size(); ++k) {
    const PlanArg& a = group.inputs[k];
    const Tensor& t = *tensors[k];
    if (a.kind != PlanArg::Kind::Made || t.dtype != made.tensor->dtype || std::ranges::count(code.may_take, int(k)) ||
        !laid_out(t, made.tensor->shape(), made.tensor->stride()))
      continue;
    if (!is_read_later(made.cell, [&](const PlanArg& read) { return same_argument(read, a); })) return int(k);
  }
  return -1;
}

// A value goes to memory from outside.
void Builder::add_store(const BlockStep::Store& s, int memory) {
  const Own& made = own[size_t(s.value)];
  const Tensor& to = *tensors[size_t(s.input)];
  possible &= to.dtype == made.tensor->dtype && std::ranges::equal(to.shape(), made.tensor->shape()) &&
              !code.cells[size_t(made.cell)].per_row;
  int at = made.cell;
  if (code.cells[size_t(at)].memory >= 0) {  // it has one already
    BlockCode::Instruction i;
    i.what = BlockCode::What::Convert;
    i.cast = make_cast(to.dtype, to.dtype);
    at = instruction(i, at, to.dtype, false);
  }
  code.cells[size_t(at)].memory = memory;
  const PlanArg& a = group.inputs[size_t(s.input)];
  const int slot = run.program.uses[size_t(a.of)].slot;
  code.cells[size_t(at)].late = is_read_later(at, [&](const PlanArg& read) {
    return read.kind == PlanArg::Kind::Outside && run.program.uses[size_t(read.of)].slot == slot;
  });
}

// Which memory the group reads and writes: results first, whose layout decides the order of the walk.
void Builder::place_memory() {
  std::vector<std::vector<int64_t>> strides;
  for (int value : group.results) {
    code.may_take.push_back(may_take(value));
    const Own& made = own[size_t(value)];
    const Tensor& t = *made.tensor;
    Cell& c = code.cells[size_t(made.cell)];
    c.memory = int(strides.size());
    possible &= !c.per_row || t.contiguous();
    if (c.per_row) strides.emplace_back(shape.size(), 0);
    else strides.push_back(along(t, t.shape()));
    code.results.push_back({{t.sizes, t.sizes + t.ndim}, {t.strides, t.strides + t.ndim}, t.dtype, t.device});
  }
  for (const BlockStep::Store& s : group.stores) {
    const Tensor& to = *tensors[size_t(s.input)];
    add_store(s, int(strides.size()));
    strides.push_back(along(to, to.shape()));
  }
  const int first = int(strides.size());
  strides.insert(strides.end(), input_strides.begin(), input_strides.end());
  for (auto& c : code.cells)
    if (c.kind == Kind::Input) c.memory += first;
  walk(strides);
}

// The iteration space over memory with these strides, in elements: of results, stores, inputs.
void Builder::walk(const std::vector<std::vector<int64_t>>& strides) {
  const int results = int(code.results.size()), first = results + int(group.stores.size());
  auto& s = code.space;
  s.operands = int(strides.size());
  auto item = [&](int k) {
    if (k < results) return item_size(code.results[size_t(k)].dtype);
    const int input = k < first ? group.stores[size_t(k - results)].input : code.inputs[size_t(k - first)];
    return item_size(tensors[size_t(input)]->dtype);
  };
  for (int d = int(shape.size()) - 1; d >= 0; --d) {
    if (shape[size_t(d)] == 1) continue;
    for (int k = 0; k < s.operands; ++k) s.stride[k][s.ndim] = strides[size_t(k)][size_t(d)] * item(k);
    s.add_dim(shape[size_t(d)]);
  }
  if (!code.columns) {  // else rows stay rows, in their order
    s.sort();
    s.merge();
  }
  if (s.ndim == 0) {
    for (int k = 0; k < s.operands; ++k) s.stride[k][0] = k < first ? item(k) : 0;
    s.add_dim(1);
  }
}

// Which registers share scratch memory: one is free again after the last instruction that reads it.
void Builder::place_buffers() {
  std::vector<int> last_read(code.cells.size(), -1);  // cell -> the last instruction that reads it
  for (size_t i = 0; i < code.code.size(); ++i)
    for (int k = 1; k < code.code[i].count; ++k) last_read[size_t(code.code[i].from[k])] = int(i);
  std::vector<int> free;
  auto buffer = [&](const Cell& c, bool for_good) {
    const int item = int(item_size(c.dtype));
    for (size_t k = 0; !for_good && !c.per_row && k < free.size(); ++k) {
      if (code.buffers[size_t(free[k])].item < item) continue;
      int b = free[k];
      free.erase(free.begin() + long(k));
      return b;
    }
    code.buffers.push_back({item, c.per_row});
    return int(code.buffers.size()) - 1;
  };
  auto in_place = [&](const Cell& c) {
    return c.memory >= 0 && !c.late && (c.per_row || code.space.linear(c.memory, item_size(c.dtype)));
  };
  auto reuse = [&](const Cell& c) {
    if (!c.per_row && std::find(free.begin(), free.end(), c.buffer) == free.end()) free.push_back(c.buffer);
  };
  for (auto& c : code.cells)
    if ((c.kind == Kind::Input && !c.constant && !in_place(c)) || c.filled) c.buffer = buffer(c, true);
  for (size_t i = 0; i < code.code.size(); ++i) {
    auto& now = code.code[i];
    auto& to = code.cells[size_t(now.to)];
    if (!in_place(to)) to.buffer = buffer(to, to.memory >= 0);
    for (int k = 1; k < now.count; ++k) {
      const auto& from = code.cells[size_t(now.from[k])];
      if (from.kind == Kind::Register && from.memory < 0 && last_read[size_t(now.from[k])] == int(i)) reuse(from);
    }
    if (to.memory < 0 && last_read[size_t(now.to)] < 0) reuse(to);
  }
  place_blocks();
}

// How long a block is.
void Builder::place_blocks() {
  int64_t bytes = 8;
  for (const auto& b : code.buffers) bytes += b.per_row ? 0 : b.item;
  for (const auto& c : code.cells)  // what is read and written in place lies in the cache too
    if (c.memory >= 0 && c.buffer < 0 && !c.per_row) bytes += item_size(c.dtype);
  if (!code.columns) {
    code.block = std::min<int64_t>(kScratch / bytes / 64 * 64, kLongest);
  } else {
    code.block = std::max<int64_t>(1, kScratch / (bytes * code.columns)) * code.columns;
    possible &= bytes * code.columns <= kMostScratch;
  }
}

}  // namespace

// Whether all of it is one chain that reads and writes memory in place.
static bool is_one_chain(const BlockCode& code) {
  return code.block >= kChainTile && code.chains.size() == 1 &&
         code.chains[0].last - code.chains[0].first == int(code.code.size()) &&
         std::ranges::none_of(code.cells, [](const Cell& c) { return c.buffer >= 0 && (c.memory >= 0 || c.filled); });
}

// The group over these tensors.
std::shared_ptr<BlockCode> block_code(const BlockStep& group, PlanRun& r, const std::vector<Tensor*>& tensors) {
  auto code = std::make_shared<BlockCode>();
  for (Tensor* t : tensors) code->made_for.push_back(bare_tensor(t->dtype, t->device, t->shape(), t->stride(), 0));
  Builder b{group, r, tensors, *code, {}, {}, {}};
  b.own.resize(r.values.size());
  bool folds = false;
  for (const PlanCall& call : group.calls) {
    if (is_store(call)) continue;
    if (call.op->elementwise) b.describe(call);
    else b.describe_fold(call), folds = true;
  }
  const PlanCall& first = group.calls[size_t(group.leader)];  // a reduction: its argument has the group's shape
  const Tensor& leader = first.op->elementwise ? *b.own[size_t(first.makes[0])].tensor : *b.tensor_of(first.args[0]);
  b.shape.assign(leader.sizes, leader.sizes + leader.ndim);
  code->numel = leader.numel;
  code->columns = folds && leader.ndim ? b.shape.back() : 0;
  if (folds && code->columns < 2) return code;
  for (const PlanCall& call : group.calls) {
    if (is_store(call)) continue;
    if (call.op->elementwise) b.add(call);
    else b.add_fold(call);
  }
  if (!b.fits() || code->inputs.size() + group.results.size() + group.stores.size() > size_t(kMostMemory)) return code;
  if (code->code.size() > size_t(kMostInstructions)) return code;
  b.place_memory();
  b.place_buffers();
  code->chains = find_chains(*code);
  code->one_chain = is_one_chain(*code);
  code->possible = b.possible && code->block > 0;
  return code;
}

}  // namespace flambeau
