// Fused groups of compiled programs on CUDA: a block program becomes the key of one generated kernel, which Python
// makes once for each key (flambeau.cuda.kernels.groups has the language). Layouts and numbers become parameters.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../kernels/cast.h"
#include "../runtime/blocks.h"
#include "launch.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

using Kind = BlockCode::Kind;
using What = BlockCode::What;

// As in src/flambeau/cuda/kernels/group.cuh: sizes and strides in elements, innermost dimension first.
struct Walk {
  int32_t ndim = 0, unused = 0;
  int64_t sizes[8] = {};
  int64_t strides[kMostMemory][8] = {};
};

struct Parameters {
  std::vector<void*> places;
  std::vector<std::array<char, 16>> values;  // reserved: `places` points in there
  char* next() {
    values.emplace_back();
    places.push_back(values.back().data());
    return values.back().data();
  }
};

struct Group {
  const BlockCode& code;
  const PlanRun& run;
  std::span<char* const> memory;
  std::string key;
  Walk walk;

  void word(const auto& v) { key += concat(v, " "); }
  int item_of(int memory) const;
  char letter_of(int memory) const;
  int64_t elements_of_thread() const;
  int64_t reach() const;
  void lay_out();
  void describe_cells();
  void describe_scalars(const BlockCode::Instruction& i);
  void describe_code();
  void pass_numbers(Parameters& p) const;
};

// Bytes of an element of this memory: the cell that is read or written there knows.
int Group::item_of(int memory) const {
  for (const auto& c : code.cells)
    if (c.memory == memory) return int(item_size(c.dtype));
  return 1;
}

void Group::lay_out() {
  const auto& s = code.space;
  walk.ndim = s.ndim;
  for (int d = 0; d < s.ndim; ++d) walk.sizes[d] = s.size[d];
  for (int k = 0; k < s.operands; ++k)
    for (int d = 0; d < s.ndim; ++d) walk.strides[k][d] = s.stride[k][d] / item_of(k);
}

// How many elements lie between the first and the last of whichever memory spreads furthest, and at least how many
// there are.
int64_t Group::reach() const {
  int64_t most = code.numel;
  for (int k = 0; k < code.space.operands; ++k) {
    int64_t own = 1;
    for (int d = 0; d < walk.ndim; ++d) own += (walk.sizes[d] - 1) * std::abs(walk.strides[k][d]);
    most = std::max(most, own);
  }
  return most;
}

// How memory lies in a space of one dimension: end to end ('p' from an address of whole accesses of 16 bytes on), one
// element, or otherwise.
char Group::letter_of(int k) const {
  if (walk.ndim > 1) return 's';
  const int64_t step = walk.strides[k][0];
  if (step != 1) return step == 0 ? 'z' : 's';
  return !code.columns && reinterpret_cast<uintptr_t>(memory[size_t(k)]) % 16 == 0 ? 'p' : 'u';
}

// As in src/flambeau/cuda/kernels/groups.py: two packs where all memory is read and written so, else four elements.
int64_t Group::elements_of_thread() const {
  int item = 1;
  bool packed = false;
  for (int k = 0; k < code.space.operands; ++k) {
    const char letter = letter_of(k);
    if (letter == 'p') packed = true, item = std::max(item, item_of(k));
    else if (letter != 'z') return 4;
  }
  return packed ? 2 * std::max(1, 16 / item) : 4;
}

void Group::describe_cells() {
  word(code.columns ? "rows" : "each");
  word(reach() < int64_t(1) << 30 ? 32 : 64);
  std::string letters;
  for (int k = 0; k < code.space.operands; ++k) letters += letter_of(k);
  word(letters);
  word(code.cells.size());
  for (const auto& c : code.cells) {
    word("IRNA"[int(c.kind)]);
    word(dtype_name(c.kind == Kind::Absent ? DType::Float32 : c.dtype));
    word(c.memory);
    word(c.kind == Kind::Number ? c.from : int(c.per_row));
  }
}

void Group::describe_scalars(const BlockCode::Instruction& i) {
  word(i.scalars);
  for (int k = 0; k < i.scalars; ++k) {
    const Value& v = run.given(i.call->args[size_t(i.call->op->elementwise->operands + k)]);
    switch (v.tag) {
      case Tag::Int: word("int"); break;
      case Tag::Float: word("float"); break;
      case Tag::Complex: word("complex"); break;
      case Tag::Bool: word(v.b ? "true" : "false"); break;
      case Tag::Str: word(concat("text:", v.str.size ? v.str.data[0] : '0')); break;
      default: word("absent");
    }
  }
}

void Group::describe_code() {
  for (const auto& i : code.code) {
    word("LCFS"[int(i.what)]);
    word(i.to);
    word(int(i.per_row));
    word(i.count - 1);
    for (int k = 1; k < i.count; ++k) word(i.from[k]);
    if (i.what == What::Fold) word(i.call->op->name);
    if (i.what != What::Loop) continue;
    word(i.call->op->name);
    word(dtype_name(i.compute));
    describe_scalars(i);
  }
}

// Numbers of cells, then scalars of instructions, in the order of the key.
void Group::pass_numbers(Parameters& p) const {
  for (const auto& c : code.cells)
    if (c.kind == Kind::Number && c.from < 0) store_scalar(p.next(), run.given(*c.number).scalar(), c.dtype);
  for (const auto& i : code.code)
    for (int k = 0; i.what == What::Loop && k < i.scalars; ++k) {
      const Value& v = run.given(i.call->args[size_t(i.call->op->elementwise->operands + k)]);
      if (v.tag == Tag::Int) std::memcpy(p.next(), &v.i, sizeof v.i);
      else if (v.tag == Tag::Float) std::memcpy(p.next(), &v.f, sizeof v.f);
      else if (v.tag == Tag::Complex) std::memcpy(p.next(), &v.c, sizeof v.c);
    }
}

void run_group(const BlockCode& code, const PlanRun& r, Device where, std::span<char* const> memory) {
  constexpr unsigned kThreads = 256;
  const int device = index_of(where);
  use_device(device);
  Group g{code, r, memory, {}, {}};
  g.lay_out();
  g.describe_cells();
  g.describe_code();
  Parameters p;
  p.values.reserve(memory.size() + code.cells.size() + code.code.size() * pointwise::kMaxScalars + 2);
  for (char* m : memory) std::memcpy(p.next(), &m, sizeof m);
  p.places.push_back(&g.walk);
  const int64_t columns = code.columns, rows = columns ? code.numel / columns : 0;
  const int64_t count = columns ? columns : code.numel;
  std::memcpy(p.next(), &count, sizeof count);
  g.pass_numbers(p);
  const Function kernel = named_kernel(device, "group", g.key);
  const unsigned threads = !columns || columns > 1024 ? kThreads : columns > 128 ? 128 : 32;
  const int64_t each = int64_t(kThreads) * g.elements_of_thread();
  const int64_t blocks = columns ? rows : (code.numel + each - 1) / each;
  launch("a fused group", device, kernel, {unsigned(blocks), 1, 1}, {threads, 1, 1}, 0, p.places.data());
}

const bool added = (device_groups[int(DeviceType::CUDA)] = run_group, true);

}  // namespace
}  // namespace flambeau::cuda
