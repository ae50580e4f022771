#include "blocks.h"

#include <algorithm>
#include <cstring>

namespace flambeau {
namespace {

using Kind = BlockCode::Kind;
using Cell = BlockCode::Cell;
constexpr int64_t kScratch = 28 << 10;  // bytes of blocks in use at once, below the size of the first-level cache
constexpr int64_t kLongest = 2048;
constexpr int64_t kUnit = 1024;         // pieces begin where no vector crosses a cache line
constexpr int64_t kMostScratch = 2 << 20;  // of a row that does not fit the first-level cache

bool same_argument(const PlanArg& a, const PlanArg& b) { return a.kind == b.kind && a.at == b.at && a.of == b.of; }

// --- making one ------------------------------------------------------------------------------------------------------

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
  void place_memory();
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

// The iteration space: results first, whose layout decides the order.
void Builder::place_memory() {
  std::vector<std::vector<int64_t>> strides;
  for (int value : group.results) {
    const Own& made = own[size_t(value)];
    const Tensor& t = *made.tensor;
    Cell& c = code.cells[size_t(made.cell)];
    c.memory = int(strides.size());
    possible &= !c.per_row || t.contiguous();
    if (c.per_row) strides.emplace_back(shape.size(), 0);
    else strides.push_back(along(t, t.shape()));
    code.results.push_back({{t.sizes, t.sizes + t.ndim}, {t.strides, t.strides + t.ndim}, t.dtype, t.device});
  }
  const int first = int(strides.size());
  strides.insert(strides.end(), input_strides.begin(), input_strides.end());
  for (auto& c : code.cells)
    if (c.kind == Kind::Input) c.memory += first;
  auto& s = code.space;
  s.operands = int(strides.size());
  auto item = [&](int k) {
    return item_size(k < first ? code.results[size_t(k)].dtype
                               : tensors[size_t(code.inputs[size_t(k - first)])]->dtype);
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
    return c.memory >= 0 && (c.per_row || code.space.linear(c.memory, item_size(c.dtype)));
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

// --- running ---------------------------------------------------------------------------------------------------------

// What does not change from block to block.
struct Prepared {
  const BlockCode& step;
  char* memory[kMostMemory];
  std::vector<std::array<char, 16>> number;  // by cell
  std::vector<std::array<Scalar, pointwise::kMaxScalars>> scalars;  // by instruction
  std::vector<const BlockChain*> chain;      // by instruction: that begins there

  Prepared(const BlockCode& step, const PlanRun& r)
      : step(step), number(step.cells.size()), scalars(step.code.size()), chain(step.code.size()) {
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.number && c.kind == Kind::Number) store_scalar(number[k].data(), r.given(*c.number).scalar(), c.dtype);
    }
    for (size_t i = 0; i < step.code.size(); ++i)
      for (int k = 0; k < step.code[i].scalars; ++k) {
        const PlanCall& call = *step.code[i].call;
        const PlanArg& a = call.args[size_t(call.op->elementwise->operands + k)];
        scalars[i][size_t(k)] = pointwise::number_of(r.given(a));
      }
    for (const BlockChain& c : step.chains)
      if (is_plain(c)) chain[size_t(c.first)] = &c;
  }
  // Steps of chains have no numbers of their own: sums are those of the operands, quotients are not rounded.
  bool is_plain(const BlockChain& c) const {
    for (int i = c.first; i < c.last; ++i) {
      const Scalar& s = scalars[size_t(i)][0];
      if (!step.code[size_t(i)].scalars || s.category == kAbsent) continue;
      if (s.category > Category::Integer ? s.re != 1 || s.im != 0 : s.i != 1) return false;
    }
    return true;
  }
  void read_constants() {
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.kind != Kind::Number || c.from < 0) continue;
      const auto& from = step.cells[size_t(c.from)];
      const char* at = from.kind == Kind::Input ? memory[from.memory] : number[size_t(c.from)].data();
      if (from.dtype == c.dtype) std::memcpy(number[k].data(), at, size_t(item_size(c.dtype)));
      else make_cast(from.dtype, c.dtype).apply(number[k].data(), at, 1);
    }
  }
};

struct Blocks {
  using What = BlockCode::What;
  const Prepared& p;
  const BlockCode& step;
  const int64_t block, columns, rows;  // of a whole block
  std::vector<char*> at;       // by cell
  std::vector<int64_t> item;
  std::vector<char*> buffer;
  std::unique_ptr<char[]> large;
  alignas(64) char scratch[kScratch + (64 << 6)];

  explicit Blocks(const Prepared& p)
      : p(p), step(p.step), block(step.block), columns(step.columns), rows(columns ? block / columns : 0),
        at(step.cells.size()), item(step.cells.size()) {
    place();
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      item[k] = c.kind == Kind::Absent ? 0 : item_size(c.dtype);
      if (c.buffer >= 0) at[k] = buffer[size_t(c.buffer)];
      if (c.same_rows && c.buffer >= 0) move<true>(int(k), 0, block);
      if (c.kind != Kind::Number) continue;
      auto* number = const_cast<char*>(p.number[k].data());
      if (!c.filled) {
        at[k] = number;
        item[k] = 0;
      } else {
        visit_size(item[k], [&]<class U>() {
          std::fill_n(reinterpret_cast<U*>(at[k]), block, *reinterpret_cast<const U*>(number));
        });
      }
    }
  }

  void place() {
    auto size = [&](const BlockCode::Buffer& b) { return (b.item * (b.per_row ? rows : block) + 63) / 64 * 64; };
    int64_t total = 0;
    for (const auto& b : step.buffers) total += size(b);
    char* next = scratch;
    if (total > int64_t(sizeof scratch)) {
      large.reset(new char[size_t(total) + 64]);
      next = large.get() + (64 - reinterpret_cast<uintptr_t>(large.get()) % 64);
    }
    for (const auto& b : step.buffers) {
      buffer.push_back(next);
      next += size(b);
    }
  }

  template <bool kGather>
  void move(int k, int64_t start, int64_t n) {
    const auto& c = step.cells[size_t(k)];
    visit_size(item[size_t(k)], [&]<class U>() {
      block_move<kGather, U>(step.space, c.memory, p.memory[c.memory], start, n, at[size_t(k)]);
    });
  }
  void run(int64_t begin, int64_t end) {
    if (p.chain[0] && step.one_chain) {  // nothing has to be kept longer than a tile
      point_at(begin, 0);
      begin += together(*p.chain[0], end - begin, true);
    }
    for (int64_t start = begin; start < end; start += block) one(start, std::min(block, end - start));
  }
  // The chain for whole tiles; how many elements that is. What lies in scratch memory is an array, or one tile.
  int64_t together(const BlockChain& c, int64_t n, bool tiles) {
    n -= n % kChainTile;
    ChainStep steps[3 * kMostInstructions + 1];
    for (size_t k = 0; k < c.steps.size(); ++k) {
      const auto& s = c.steps[k];
      const size_t cell = size_t(std::max(s.cell, 0));
      steps[k] = {s.op, at[cell], s.cell >= 0 && item[cell] == 0, tiles && step.cells[cell].buffer >= 0};
    }
    if (n) c.loop(steps, n);
    return n;
  }
  // What a chain has left of the block: its instructions one by one, from element `begin` on.
  void rest(const BlockChain& c, int64_t begin, int64_t n) {
    for (int i = c.first; i < c.last && begin < n; ++i) {
      const auto& code = step.code[size_t(i)];
      char* ptr[pointwise::kMaxOperands];
      int64_t stride[pointwise::kMaxOperands];
      for (int k = 0; k < code.count; ++k) {
        const size_t cell = size_t(k ? code.from[k] : code.to);
        stride[k] = item[cell];
        ptr[k] = at[cell] + begin * item[cell];
      }
      code.loop(ptr, stride, n - begin, p.scalars[size_t(i)].data());
    }
  }
  // Where each cell begins; n elements of inputs that must be packed are.
  void point_at(int64_t start, int64_t n) {
    const int64_t row = columns ? start / columns : 0;
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.memory < 0 || c.constant) continue;
      if (c.buffer < 0) at[k] = p.memory[c.memory] + (c.per_row ? row : start) * item[k];
      else if (c.kind == Kind::Input && !c.same_rows && n) move<true>(int(k), start, n);
    }
  }
  void one(int64_t start, int64_t n) {
    const int64_t many = columns ? n / columns : 0;
    point_at(start, n);
    for (size_t i = 0; i < step.code.size();) {
      const BlockChain* c = p.chain[i];
      if (c) {
        rest(*c, together(*c, n, false), n);
        i = size_t(c->last);
      } else {
        execute(step.code[i], p.scalars[i].data(), n, many);
        ++i;
      }
    }
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.kind == Kind::Register && c.memory >= 0 && c.buffer >= 0) move<false>(int(k), start, n);
    }
  }
  void execute(const BlockCode::Instruction& code, const Scalar* scalars, int64_t n, int64_t many) {
    char* const to = at[size_t(code.to)];
    const int64_t step_to = item[size_t(code.to)];
    if (code.what != What::Loop) {
      const char* from = at[size_t(code.from[1])];
      const int64_t step_from = item[size_t(code.from[1])];
      if (code.what == What::Convert) return code.cast.apply(to, from, code.per_row ? many : n);
      for (int64_t r = 0; r < many; ++r) {
        if (code.what == What::Fold) code.fold(from + r * columns * step_from, columns, to + r * step_to);
        else spread(from + r * step_from, to + r * columns * step_to, step_to);
      }
      return;
    }
    char* ptr[pointwise::kMaxOperands] = {to};
    int64_t stride[pointwise::kMaxOperands] = {step_to};
    for (int k = 1; k < code.count; ++k) {
      ptr[k] = at[size_t(code.from[k])];
      stride[k] = item[size_t(code.from[k])];
    }
    if (!code.by_row) return code.loop(ptr, stride, code.per_row ? many : n, scalars);
    int64_t next[pointwise::kMaxOperands];  // from row to row
    for (int k = 0; k < code.count; ++k) {
      const bool one = k && step.cells[size_t(code.from[k])].per_row;
      next[k] = one ? stride[k] : stride[k] * columns;
      if (one) stride[k] = 0;
    }
    for (int64_t r = 0; r < many; ++r) {
      code.loop(ptr, stride, columns, scalars);
      for (int k = 0; k < code.count; ++k) ptr[k] += next[k];
    }
  }
  void spread(const char* from, char* to, int64_t size) {
    visit_size(size, [&]<class U>() {
      std::fill_n(reinterpret_cast<U*>(to), columns, *reinterpret_cast<const U*>(from));
    });
  }
};

}  // namespace

// Whether all of it is one chain that reads and writes memory in place.
static bool is_one_chain(const BlockCode& code) {
  return code.block >= kChainTile && code.chains.size() == 1 &&
         code.chains[0].last - code.chains[0].first == int(code.code.size()) &&
         std::ranges::none_of(code.cells, [](const Cell& c) { return c.buffer >= 0 && (c.memory >= 0 || c.filled); });
}

// The group over these tensors.
static std::shared_ptr<BlockCode> build(const BlockStep& group, PlanRun& r, const std::vector<Tensor*>& tensors) {
  auto code = std::make_shared<BlockCode>();
  for (Tensor* t : tensors) code->made_for.push_back(bare_tensor(t->dtype, t->device, t->shape(), t->stride(), 0));
  Builder b{group, r, tensors, *code, {}, {}, {}};
  b.own.resize(r.values.size());
  bool folds = false;
  for (const PlanCall& call : group.calls) {
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
    if (call.op->elementwise) b.add(call);
    else b.add_fold(call);
  }
  if (!b.fits() || code->inputs.size() + group.results.size() > size_t(kMostMemory)) return code;
  if (code->code.size() > size_t(kMostInstructions)) return code;
  b.place_memory();
  b.place_buffers();
  code->chains = find_chains(*code);
  code->one_chain = is_one_chain(*code);
  code->possible = b.possible && code->block > 0;
  return code;
}

static void compute(Prepared& prepared, std::span<const TensorRef> held) {
  const BlockCode& step = prepared.step;
  prepared.read_constants();
  Calling calling{held};
  LockRelease lock(step.numel * step.weight);
  const int64_t unit = step.columns ? step.columns : kUnit;  // a thread has whole rows
  const int64_t grain = std::max<int64_t>(pointwise::kGrain / std::max(1, step.weight), 1024);
  parallel_for((step.numel + unit - 1) / unit, (grain + unit - 1) / unit, [&](int64_t begin, int64_t end) {
    Blocks blocks(prepared);
    blocks.run(begin * unit, std::min(end * unit, step.numel));
  });
}

BlockStep::BlockStep(std::vector<PlanCall> group, int leader, std::vector<int> results)
    : leader(leader), results(std::move(results)) {
  calls = std::move(group);
  std::vector<int> made;
  for (const PlanCall& call : calls) {
    each_tensor(call.args, [&](const PlanArg& a) {
      const bool inside = a.at >= 0 && std::ranges::count(made, a.at);
      if (inside && a.kind == PlanArg::Kind::View) own.push_back(a);
      if (!inside && std::ranges::none_of(inputs, [&](auto& i) { return same_argument(i, a); })) inputs.push_back(a);
    });
    made.push_back(call.makes[0]);
  }
}

// The code for these tensors: that of the last run, or new code.
static std::shared_ptr<const BlockCode> code_for(BlockStep& step, PlanRun& r, const std::vector<Tensor*>& tensors) {
  std::vector<int64_t> seen;
  for (const PlanArg& a : step.own) {
    const Use& u = r.program.uses[size_t(a.of)];
    seen.insert(seen.end(), u.dims, u.dims + 2 * u.ndim);
  }
  auto same = [&](const TensorRef& made_for, const Tensor* t) {
    return made_for->dtype == t->dtype && laid_out(*t, made_for->shape(), made_for->stride());
  };
  if (step.code && step.code->seen_as == seen && std::ranges::equal(step.code->made_for, tensors, same))
    return step.code;
  std::shared_ptr<BlockCode> code = build(step, r, tensors);
  code->seen_as = std::move(seen);
  return step.code = code;
}

void BlockStep::run(PlanRun& r) {
  std::vector<Tensor*> tensors;
  for (const PlanArg& a : inputs) tensors.push_back(r.tensor(a));
  const std::shared_ptr<const BlockCode> code = code_for(*this, r, tensors);
  if (!code->possible) {
    for (const PlanCall& call : calls) run_call(call, r);
    return;
  }
  Prepared prepared(*code, r);
  std::vector<TensorRef> held;
  for (size_t k = 0; k < results.size(); ++k) {
    const BlockCode::Result& made = code->results[k];
    TensorRef t = empty_strided(made.sizes, made.strides, made.dtype, made.device);
    prepared.memory[k] = t->data;
    held.push_back(std::move(t));
  }
  for (size_t k = 0; k < code->inputs.size(); ++k) {
    Tensor& t = *tensors[size_t(code->inputs[k])];
    prepared.memory[results.size() + k] = t.data;
    held.push_back(TensorRef::borrow(&t));
  }
  if (code->numel) compute(prepared, held);
  for (size_t k = 0; k < results.size(); ++k) r.values[size_t(results[k])] = held[k];
}

std::string BlockStep::text() const {
  std::string s = code && code->possible ? concat("blocks of ", code->block, ":") : "one by one:";
  for (const PlanCall& call : calls) s += " " + call.op->name;
  return s;
}

}  // namespace flambeau
