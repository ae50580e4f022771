#include "blocks.h"

#include <algorithm>
#include <cstring>

namespace flambeau {
namespace {

using Kind = BlockStep::Kind;
constexpr int64_t kScratch = 28 << 10;  // bytes of blocks in use at once, below the size of the first-level cache
constexpr int64_t kLongest = 2048;

// --- making one ------------------------------------------------------------------------------------------------------

struct Builder {
  const Program& p;
  Plan& plan;
  BlockStep& step;
  std::vector<int> reads;               // uses of the plan, by input
  std::vector<int> value_of;            // slot -> cell of its value, or -1
  std::vector<int> last_read;           // cell -> the last instruction that reads it
  std::vector<int64_t> shape;           // of the group
  std::vector<std::vector<int64_t>> input_strides;

  int cell(BlockStep::Cell c) {
    step.cells.push_back(c);
    return int(step.cells.size()) - 1;
  }

  // Strides of a use along the group's shape; `member` is the shape of the call that reads it.
  std::vector<int64_t> along(const Use& u, Dims member) const {
    std::vector<int64_t> strides(shape.size(), 0);
    if (!std::ranges::equal(member, shape)) {  // it is read from end to end
      if (u.ndim && count(u.sizes()) != 1) strides = contiguous_strides(shape);
      return strides;
    }
    const int added = int(shape.size()) - u.ndim;
    for (int d = 0; d < u.ndim; ++d)
      if (u.dims[d] != 1) strides[size_t(d + added)] = u.dims[u.ndim + d];
    return strides;
  }

  int input(const Use& u, Dims member) {
    std::vector<int64_t> strides = along(u, member);
    for (size_t k = 0; k < reads.size(); ++k) {
      const PlanUse& known = plan.uses[size_t(reads[k])];
      if (known.slot == u.slot && known.dtype == u.dtype && known.offset == u.offset && input_strides[k] == strides)
        return input_cell(int(k));
    }
    reads.push_back(plan.use(u));
    bool constant = std::ranges::all_of(strides, [](int64_t s) { return s == 0; });
    input_strides.push_back(std::move(strides));
    BlockStep::Cell c{Kind::Input, u.dtype};
    c.memory = int(reads.size()) - 1;
    c.constant = constant;
    return cell(c);
  }
  int input_cell(int memory) const {
    for (size_t k = 0; k < step.cells.size(); ++k)
      if (step.cells[k].kind == Kind::Input && step.cells[k].memory == memory) return int(k);
    return -1;
  }

  int converted(int from, DType to) {
    const BlockStep::Cell source = step.cells[size_t(from)];
    if (source.constant) {
      BlockStep::Cell c{Kind::Number, to};
      c.constant = true;
      c.from = from;
      return cell(c);
    }
    if (source.dtype == to) return from;
    BlockStep::Instruction i;
    i.cast = make_cast(source.dtype, to);
    i.count = 2;
    i.from[1] = from;
    i.to = cell({Kind::Register, to});
    step.code.push_back(i);
    return i.to;
  }

  void add(int entry);
  void place_memory(const std::vector<int>& wanted);
  void place_buffers();
};

// The call as its operator works it out, with tensors that have no memory.
struct Described {
  std::vector<TensorRef> tensors;
  std::vector<Value> values;
  Call c;
  Described(const Program& p, const Entry& e) : values(e.args, e.args + e.nargs) {
    for (Value& v : values) {
      if (v.tag != Tag::Tensor) continue;
      const Use& u = p.uses[size_t(v.i)];
      TensorRef t = bare_tensor(u.dtype, u.device, u.sizes(), u.strides(), u.flags);
      v.tensor = t.get();
      tensors.push_back(std::move(t));
    }
    c.op = e.op;
    c.args = values.data();
    c.nargs = e.nargs;
    c.describes = true;
  }
};

void Builder::add(int entry) {
  const Entry& e = p.entries[size_t(entry)];
  const ElementwiseRow& row = *e.op->elementwise;
  Described d(p, e);
  Pointwise w(row);
  pointwise::infer(d.c, e.op->promote, w);
  BlockStep::Instruction i;
  i.loop = w.plan.loop;
  i.entry = entry;
  i.count = w.plan.count;
  i.row = &row;
  i.scalars = std::min(std::max(e.nargs - row.operands, 0), pointwise::kMaxScalars);
  for (int k = 0; k < row.operands; ++k) {
    const Value& v = e.args[k];
    const DType wants = row.bool_operands >> k & 1 ? DType::Bool : w.compute;
    int from;
    if (v.tag == Tag::Tensor) {
      const Use& u = p.uses[size_t(v.i)];
      from = value_of[size_t(u.slot)];
      if (from < 0) from = input(u, w.shape.dims());
      from = converted(from, wants);
    } else {
      BlockStep::Cell c{v.none() ? Kind::Absent : Kind::Number, wants};
      c.constant = !v.none();
      c.entry = entry;
      c.arg = k;
      from = cell(c);
    }
    if (step.cells[size_t(from)].constant && !w.plan.broadcasts) step.cells[size_t(from)].filled = true;
    i.from[k + 1] = from;
  }
  i.to = cell({Kind::Register, w.loop_out});
  step.code.push_back(i);
  step.weight += row.weight;
  step.names.push_back(e.op->name);
  value_of[size_t(p.uses[size_t(e.results[0])].slot)] = converted(i.to, w.out->dtype);
}

// The iteration space: results first, whose layout decides the order.
void Builder::place_memory(const std::vector<int>& wanted) {
  std::vector<std::vector<int64_t>> strides;
  for (int slot : wanted) {
    const Use& u = p.made_as(slot);
    BlockStep::Cell& c = step.cells[size_t(value_of[size_t(slot)])];
    c.memory = int(strides.size());
    strides.push_back(along(u, u.sizes()));
    step.makes.push_back(slot);
    step.results.push_back(plan_use(u));
  }
  const int first = int(strides.size());
  strides.insert(strides.end(), input_strides.begin(), input_strides.end());
  for (auto& c : step.cells)
    if (c.kind == Kind::Input) c.memory += first;
  step.uses = reads;
  auto& s = step.space;
  s.operands = int(strides.size());
  auto item = [&](int k) {
    return item_size(k < first ? step.results[size_t(k)].dtype : plan.uses[size_t(reads[size_t(k - first)])].dtype);
  };
  for (int d = int(shape.size()) - 1; d >= 0; --d) {
    if (shape[size_t(d)] == 1) continue;
    for (int k = 0; k < s.operands; ++k) s.stride[k][s.ndim] = strides[size_t(k)][size_t(d)] * item(k);
    s.add_dim(shape[size_t(d)]);
  }
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    for (int k = 0; k < s.operands; ++k) s.stride[k][0] = k < first ? item(k) : 0;
    s.add_dim(1);
  }
}

// Which registers share scratch memory: one is free again after the last instruction that reads it.
void Builder::place_buffers() {
  last_read.assign(step.cells.size(), -1);
  for (size_t i = 0; i < step.code.size(); ++i)
    for (int k = 1; k < step.code[i].count; ++k) last_read[size_t(step.code[i].from[k])] = int(i);
  std::vector<int> free;
  auto buffer = [&](int64_t item, bool for_good) {
    for (size_t k = 0; !for_good && k < free.size(); ++k) {
      if (step.buffers[size_t(free[k])] < item) continue;
      int b = free[k];
      free.erase(free.begin() + long(k));
      return b;
    }
    step.buffers.push_back(int(item));
    return int(step.buffers.size()) - 1;
  };
  for (auto& c : step.cells) {
    const bool packed = c.kind == Kind::Input && !c.constant && !step.space.linear(c.memory, item_size(c.dtype));
    if (packed || c.filled) c.buffer = buffer(item_size(c.dtype), true);
  }
  for (size_t i = 0; i < step.code.size(); ++i) {
    auto& code = step.code[i];
    auto& to = step.cells[size_t(code.to)];
    const bool in_place = to.memory >= 0 && step.space.linear(to.memory, item_size(to.dtype));
    if (!in_place) to.buffer = buffer(item_size(to.dtype), to.memory >= 0);
    for (int k = 1; k < code.count; ++k) {
      const auto& from = step.cells[size_t(code.from[k])];
      if (from.kind == Kind::Register && from.memory < 0 && last_read[size_t(code.from[k])] == int(i) &&
          std::find(free.begin(), free.end(), from.buffer) == free.end())
        free.push_back(from.buffer);
    }
    if (to.memory < 0 && last_read[size_t(code.to)] < 0) free.push_back(to.buffer);
  }
  int64_t bytes = 8;
  for (int b : step.buffers) bytes += b;
  for (const auto& c : step.cells)  // what is read and written in place lies in the cache too
    if (c.memory >= 0 && c.buffer < 0) bytes += item_size(c.dtype);
  step.block = std::min<int64_t>(kScratch / bytes / 64 * 64, kLongest);
}

// --- running ---------------------------------------------------------------------------------------------------------

// What does not change from block to block.
struct Prepared {
  const BlockStep& step;
  char* memory[kMostMemory];
  std::vector<std::array<char, 16>> number;  // by cell
  std::vector<std::array<Scalar, pointwise::kMaxScalars>> scalars;  // by instruction

  Prepared(const BlockStep& step, PlanRun& r) : step(step), number(step.cells.size()), scalars(step.code.size()) {
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.kind == Kind::Number && c.entry >= 0)
        store_scalar(number[k].data(), r.program.entries[size_t(c.entry)].args[c.arg].scalar(), c.dtype);
    }
    for (size_t i = 0; i < step.code.size(); ++i)
      for (int k = 0; k < step.code[i].scalars; ++k)
        scalars[i][size_t(k)] = pointwise::number_of(
            r.program.entries[size_t(step.code[i].entry)].args[step.code[i].row->operands + k]);
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
  const Prepared& p;
  const BlockStep& step;
  int64_t block;
  std::vector<char*> at;       // by cell
  std::vector<int64_t> item;
  std::vector<char*> buffer;
  alignas(64) char scratch[kScratch + (64 << 6)];

  explicit Blocks(const Prepared& p)
      : p(p), step(p.step), block(step.block), at(step.cells.size()), item(step.cells.size()) {
    char* next = scratch;
    for (int b : step.buffers) {
      buffer.push_back(next);
      next += (b * block + 63) / 64 * 64;
    }
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      item[k] = c.kind == Kind::Absent ? 0 : item_size(c.dtype);
      if (c.buffer >= 0) at[k] = buffer[size_t(c.buffer)];
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

  template <bool kGather>
  void move(int k, int64_t start, int64_t n) {
    const auto& c = step.cells[size_t(k)];
    visit_size(item[size_t(k)], [&]<class U>() {
      block_move<kGather, U>(step.space, c.memory, p.memory[c.memory], start, n, at[size_t(k)]);
    });
  }
  void run(int64_t begin, int64_t end) {
    for (int64_t start = begin; start < end; start += block) one(start, std::min(block, end - start));
  }
  void one(int64_t start, int64_t n) {
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.memory < 0 || c.constant) continue;
      if (c.buffer < 0) at[k] = p.memory[c.memory] + start * item[k];
      else if (c.kind == Kind::Input) move<true>(int(k), start, n);
    }
    char* ptr[pointwise::kMaxOperands];
    int64_t stride[pointwise::kMaxOperands];
    for (size_t i = 0; i < step.code.size(); ++i) {
      const auto& code = step.code[i];
      if (!code.loop) {
        code.cast.apply(at[size_t(code.to)], at[size_t(code.from[1])], n);
      } else {
        ptr[0] = at[size_t(code.to)];
        stride[0] = item[size_t(code.to)];
        for (int k = 1; k < code.count; ++k) {
          ptr[k] = at[size_t(code.from[k])];
          stride[k] = item[size_t(code.from[k])];
        }
        code.loop(ptr, stride, n, p.scalars[i].data());
      }
    }
    for (size_t k = 0; k < step.cells.size(); ++k) {
      const auto& c = step.cells[k];
      if (c.kind == Kind::Register && c.memory >= 0 && c.buffer >= 0) move<false>(int(k), start, n);
    }
  }
};

}  // namespace

std::unique_ptr<BlockStep> block_step(const Program& p, Plan& plan, const std::vector<int>& entries, int leader,
                                      const std::vector<int>& wanted) {
  auto step = std::make_unique<BlockStep>();
  Builder b{p, plan, *step, {}, std::vector<int>(p.slots.size(), -1), {}, {}, {}};
  const Dims shape = p.uses[size_t(p.entries[size_t(leader)].results[0])].sizes();
  b.shape.assign(shape.begin(), shape.end());
  step->numel = count(b.shape);
  for (int e : entries) b.add(e);
  if (b.reads.size() + wanted.size() > size_t(kMostMemory)) return nullptr;
  if (step->code.size() > size_t(kMostInstructions)) return nullptr;
  b.place_memory(wanted);
  b.place_buffers();
  if (step->block == 0) return nullptr;
  return step;
}

static void compute(Prepared& prepared, std::span<const TensorRef> held) {
  const BlockStep& step = prepared.step;
  prepared.read_constants();
  Calling calling{held};
  LockRelease lock(step.numel * step.weight);
  parallel_for(step.numel, std::max<int64_t>(pointwise::kGrain / step.weight, 1024), [&](int64_t begin, int64_t end) {
    Blocks blocks(prepared);
    blocks.run(begin, end);
  });
}

void BlockStep::run(PlanRun& r) {
  Prepared prepared(*this, r);
  std::vector<TensorRef> held;
  for (size_t k = 0; k < results.size(); ++k) {
    TensorRef t = empty_strided(results[k].sizes, results[k].strides, results[k].dtype, results[k].device);
    prepared.memory[k] = t->data;
    held.push_back(std::move(t));
  }
  for (size_t k = 0; k < uses.size(); ++k) {
    Tensor& t = r.bind(uses[k]);
    prepared.memory[results.size() + k] = t.data;
    held.push_back(TensorRef::borrow(&t));
  }
  if (numel) compute(prepared, held);
  for (size_t k = 0; k < results.size(); ++k) {
    retain(held[k]->storage);
    r.put(makes[k], held[k]->storage);
  }
}

std::string BlockStep::text(const Plan& plan) const {
  std::string s = "blocks of " + std::to_string(block) + ":";
  for (const std::string& n : names) s += " " + n;
  return s;
}

}  // namespace flambeau
