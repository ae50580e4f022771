#include "blocks.h"

#include <algorithm>
#include <cstring>

#include "../core/images.h"

namespace flambeau {
namespace {

using Kind = BlockCode::Kind;
using Cell = BlockCode::Cell;
constexpr int64_t kUnit = 1024;         // pieces begin where no vector crosses a cache line

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
      begin += together(*p.chain[0], 0, end - begin, true);
    }
    for (int64_t start = begin; start < end; start += block) one(start, std::min(block, end - start));
  }
  // Where a row of the block begins, or its one number is.
  char* at_row(size_t cell, int64_t row) const {
    return at[cell] + row * item[cell] * (step.cells[cell].per_row ? 1 : columns);
  }
  void chained(const BlockChain& c, int64_t n, int64_t many) {
    if (!c.by_row) return rest(c, 0, together(c, 0, n, false), n);
    for (int64_t row = 0; row < many; ++row) rest(c, row, together(c, row, columns, false), columns);
  }
  // The chain for whole tiles from the beginning of a row; how many elements that is. What lies in scratch memory is an
  // array, or one tile.
  int64_t together(const BlockChain& c, int64_t row, int64_t n, bool tiles) {
    n -= n % kChainTile;
    ChainStep steps[3 * kMostInstructions + 1];
    for (size_t k = 0; k < c.steps.size(); ++k) {
      const auto& s = c.steps[k];
      const size_t cell = size_t(std::max(s.cell, 0));
      const bool number = s.cell >= 0 && (item[cell] == 0 || step.cells[cell].per_row);
      steps[k] = {*c.loop, s.op, at_row(cell, row), number, tiles && step.cells[cell].buffer >= 0};
    }
    steps[c.steps.size()] = {*c.loop, ChainOp::None, nullptr, false, false};
    c.loop->join(steps);
    if (n) c.loop->go(steps, n);
    return n;
  }
  // What a chain has left of the row: its instructions one by one, from element `begin` on.
  void rest(const BlockChain& c, int64_t row, int64_t begin, int64_t n) {
    for (int i = c.first; i < c.last && begin < n; ++i) {
      const auto& code = step.code[size_t(i)];
      char* ptr[pointwise::kMaxOperands];
      int64_t stride[pointwise::kMaxOperands];
      for (int k = 0; k < code.count; ++k) {
        const size_t cell = size_t(k ? code.from[k] : code.to);
        stride[k] = step.cells[cell].per_row ? 0 : item[cell];
        ptr[k] = at_row(cell, row) + begin * stride[k];
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
        chained(*c, n, many);
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
    if (is_store(call)) {
      stores.push_back({call.args[1].at, int(inputs.size())});
      inputs.push_back(call.args[0]);
      continue;
    }
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
    return made_for->dtype == t->dtype && made_for->device == t->device &&
           laid_out(*t, made_for->shape(), made_for->stride());
  };
  if (step.code && step.code->seen_as == seen && std::ranges::equal(step.code->made_for, tensors, same))
    return step.code;
  std::shared_ptr<BlockCode> code = block_code(step, r, tensors);
  code->seen_as = std::move(seen);
  return step.code = code;
}

// What the group reads. `lying`: its images as they lie, if the group is over those.
static std::vector<Tensor*> tensors_of(const BlockStep& step, PlanRun& r, std::vector<TensorRef>& lying, Seen& seen) {
  std::vector<Tensor*> tensors;
  for (const PlanArg& a : step.inputs) tensors.push_back(r.tensor(a));
  const bool along = std::ranges::all_of(step.calls, [](const PlanCall& c) { return c.op->elementwise != nullptr; });
  seen = along && step.own.empty() ? lie_together(tensors, lying) : Seen::Nowhere;
  if (seen != Seen::Nowhere) {
    for (size_t k = 0; k < tensors.size(); ++k) tensors[k] = lying[k].get();
  } else {
    lying.clear();
    for (Tensor* t : tensors) need_memory(*t);
  }
  return tensors;
}

DeviceGroup device_groups[kDeviceTypes] = {};

// Whether one device computes the group: its results, what it reads and what it writes lie there.
static bool is_at_home(const BlockCode& code, const std::vector<Tensor*>& tensors, Device& device) {
  if (!tensors.empty()) device = tensors[0]->device;
  constexpr int kMostDims = 8;  // of a kernel's parameters
  const bool can = device.type == DeviceType::CPU ||
                   (device_groups[int(device.type)] && code.space.ndim <= kMostDims);
  return can && std::ranges::all_of(tensors, [&](const Tensor* t) { return t->device == device; }) &&
         std::ranges::all_of(code.results, [&](const BlockCode::Result& r) { return r.device == device; });
}

void BlockStep::run(PlanRun& r) {
  std::vector<TensorRef> lying;
  Seen seen;
  const std::vector<Tensor*> tensors = tensors_of(*this, r, lying, seen);
  const std::shared_ptr<const BlockCode> code = code_for(*this, r, tensors);
  Device device;
  if (!code->possible || !is_at_home(*code, tensors, device)) {
    for (const PlanCall& call : calls) run_call(call, r);
    return;
  }
  Prepared prepared(*code, r);
  std::vector<TensorRef> held;
  for (size_t k = 0; k < results.size(); ++k) {
    const BlockCode::Result& made = code->results[k];
    const int old = code->may_take[k];
    TensorRef t = old >= 0 && lying.empty() && ends_here(inputs[size_t(old)], r)
                      ? TensorRef::borrow(tensors[size_t(old)])
                      : empty_strided(made.sizes, made.strides, made.dtype, made.device);
    prepared.memory[k] = t->data;
    held.push_back(std::move(t));
  }
  size_t at = results.size();
  auto bind = [&](int input) {
    Tensor& t = *tensors[size_t(input)];
    prepared.memory[at++] = t.data;
    held.push_back(TensorRef::borrow(&t));
  };
  for (const Store& s : stores) bind(s.input);
  for (int input : code->inputs) bind(input);
  if (code->numel && device.type == DeviceType::CPU) compute(prepared, held);
  else if (code->numel) device_groups[int(device.type)](*code, r, device, {prepared.memory, at});
  for (size_t k = 0; k < results.size(); ++k) {
    TensorRef made = std::move(held[k]);
    r.values[size_t(results[k])] = seen == Seen::Plain ? as_plain(std::move(made)) : std::move(made);
  }
}

std::string BlockStep::text() const {
  std::string s = code && code->possible ? concat("blocks of ", code->block, ":") : "one by one:";
  for (const PlanCall& call : calls) s += " " + call.op->name;
  return s;
}

}  // namespace flambeau
