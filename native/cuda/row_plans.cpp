// Calls of all other rows on CUDA tensors: signature, the bounded table of plans, and their steps.
#include <cstring>
#include <list>
#include <memory>
#include <unordered_map>

#include "../core/generator.h"
#include "../core/op.h"
#include "../kernels/matrices.h"
#include "allocator.h"
#include "graphs.h"
#include "launch.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

constexpr size_t kMostPlans = 4096;

// A call's signature as words; its tensors are noted on the way, in the order the steps number them.
struct Signature {
  std::vector<uint64_t> words;
  std::vector<Tensor*> tensors;
  Generator* generator = nullptr;

  void clear() {
    words.clear();
    tensors.clear();
    generator = nullptr;
  }
  void add(uint64_t w) { words.push_back(w); }
  void add_text(const char* text, int64_t size) {
    add(uint64_t(size));
    for (int64_t at = 0; at < size; at += 8) {
      uint64_t w = 0;
      std::memcpy(&w, text + at, size_t(std::min<int64_t>(8, size - at)));
      add(w);
    }
  }
  void add_tensor(Tensor* t) {
    if (!t) return add(~uint64_t(0));
    tensors.push_back(t);
    const bool aligned = reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
    add(uint64_t(t->dtype) | uint64_t(t->ndim) << 8 | uint64_t(aligned) << 16 | uint64_t(t->device.type) << 24 |
        uint64_t(uint8_t(t->device.index)) << 32);
    for (int d = 0; d < t->ndim; ++d) {
      add(uint64_t(t->sizes[d]));
      add(uint64_t(t->strides[d]));
    }
  }
  void add_value(const Value& v);
  void read(const Call& c, int device);
};

void Signature::add_value(const Value& v) {
  add(uint64_t(v.tag) | uint64_t(v.tag == Tag::Int && v.huge) << 8);
  switch (v.tag) {
    case Tag::None: break;
    case Tag::Tensor: add_tensor(v.tensor); break;
    case Tag::Bool: add(v.b); break;
    case Tag::Int: add(uint64_t(v.i)); break;
    case Tag::Float: add(std::bit_cast<uint64_t>(v.f)); break;
    case Tag::Complex: add(std::bit_cast<uint64_t>(v.c.re)), add(std::bit_cast<uint64_t>(v.c.im)); break;
    case Tag::Ints:
    case Tag::Bools:
      add(uint64_t(v.ints.size));
      for (int64_t k = 0; k < v.ints.size; ++k) add(uint64_t(v.ints.data[k]));
      break;
    case Tag::Floats:
      add(uint64_t(v.floats.size));
      for (int64_t k = 0; k < v.floats.size; ++k) add(std::bit_cast<uint64_t>(v.floats.data[k]));
      break;
    case Tag::Tensors:
      add(uint64_t(v.tensors.size));
      for (int64_t k = 0; k < v.tensors.size; ++k) add_tensor(v.tensors.data[k]);
      break;
    case Tag::Str: add_text(v.str.data, v.str.size); break;
    case Tag::DType: add(uint64_t(v.dtype)); break;
    case Tag::Device: add(uint64_t(v.device.type) | uint64_t(uint8_t(v.device.index)) << 8); break;
    case Tag::Generator: generator = v.generator; break;
    default: not_implemented("an argument that is a Python object has no place in a CUDA kernel");
  }
}

void Signature::read(const Call& c, int device) {
  clear();
  add(process.library_switches);
  add(reinterpret_cast<uint64_t>(c.op->row) | uint64_t(device) << 56);
  for (int k = 0; k < c.nargs; ++k) add_value(c.args[k]);
  for (int k = 0; k < c.nout(); ++k) add_tensor(&c.out(k));
}

uint64_t hash_of(const std::vector<uint64_t>& words) {
  uint64_t h = words.size();
  for (uint64_t w : words) h = (std::rotl(h, 23) ^ w) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

struct Entry {
  uint64_t hash;
  std::vector<uint64_t> words;
  std::shared_ptr<const RowPlan> plan;  // a call keeps it while its steps run
};
struct Table {  // under the interpreter lock
  std::list<Entry> entries;  // the one used last first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> places;
  std::vector<std::unique_ptr<Signature>> spare;
  std::unordered_map<std::string, Function> named;
};
Table& table() {
  static Table* t = new Table;
  return *t;
}

// A new plan that asks libraries for no more than `use`; it takes the place of the one there was. Python may have let
// other threads run: if one of them made the same plan, that is the one to use, so that all share what it finds out.
std::shared_ptr<const RowPlan> make_plan(const Call& c, int device, const Signature& s, uint64_t hash, LibraryUse use) {
  Table& t = table();
  ++plan_counts().made;
  auto made = std::make_shared<RowPlan>();
  made->use = use;
  hooks.plan_row(c, device, *made);
  const auto found = t.places.find(hash);  // after Python ran: the table may be another
  if (found != t.places.end()) {
    const Entry& there = *found->second;
    if (there.words == s.words && there.plan->use == made->use) return there.plan;
    t.entries.erase(found->second);
    t.places.erase(found);
  }
  t.entries.push_front({hash, s.words, made});
  t.places[hash] = t.entries.begin();
  if (t.entries.size() > kMostPlans) {
    t.places.erase(t.entries.back().hash);
    t.entries.pop_back();
  }
  return made;
}

std::shared_ptr<const RowPlan> plan_of(const Call& c, int device, const Signature& s) {
  Table& t = table();
  const uint64_t hash = hash_of(s.words);
  const auto found = t.places.find(hash);
  if (found == t.places.end() || found->second->words != s.words) return make_plan(c, device, s, hash, LibraryUse::All);
  t.entries.splice(t.entries.begin(), t.entries, found->second);
  return found->second->plan;
}

// Scratch memory of one call: given back when the steps are launched, which is in time on one stream.
struct ScratchMemory {
  Block* blocks[kMostScratch];
  size_t count = 0;
  void take(const char* name, int device, const std::vector<size_t>& sizes) {
    for (size_t n : sizes) {
      Block* b = allocate(device, n);
      if (!b) fail(ErrorKind::OutOfMemory, name, ": ", out_of_memory_text(device, n));
      blocks[count++] = b;
    }
  }
  ~ScratchMemory() { while (count) give_back(blocks[--count]); }
};

struct Running {
  const char* name;
  int device;
  const Signature& call;
  const ScratchMemory& scratch;
  Generator* generator;

  Address address(const Parameter& p) const {
    const Address base = p.kind == Parameter::Scratch ? scratch.blocks[p.index]->address
                                                      : reinterpret_cast<Address>(call.tensors[size_t(p.index)]->data);
    return base + Address(p.offset);
  }
  // Seed and offset; while work is recorded, the address where a replay finds them, and how far from there.
  void draw(uint64_t count, uint64_t* given) const {
    const RecordedDraws recorded = recorded_draws(device, *generator, count);
    given[0] = generator->seed;
    given[1] = recorded.state ? recorded.offset : generator->offset;
    given[2] = recorded.state;
    if (!recorded.state) generator->offset += count;
  }
  void run_launch(const Step& s) const {
    constexpr size_t kMost = 64;
    if (s.parameters.size() > kMost) runtime_error(name, ": a kernel of ", s.parameters.size(), " parameters");
    void* parameters[kMost];
    uint64_t values[kMost][3];
    size_t k = 0;
    for (const Parameter& p : s.parameters) {
      if (p.kind == Parameter::Number) {
        parameters[k++] = const_cast<char*>(p.bytes.data());
        continue;
      }
      if (p.kind == Parameter::Seed) draw(uint64_t(p.offset), values[k]);
      else values[k][0] = address(p);
      parameters[k] = values[k];
      ++k;
    }
    launch(name, device, s.function, s.grid, s.block, s.shared, parameters);
  }
  void run_library(const Step& s, Stream stream) const {
    std::vector<Address> operands(s.parameters.size());
    for (size_t k = 0; k < s.parameters.size(); ++k)
      if (s.parameters[k].kind != Parameter::Number) operands[k] = address(s.parameters[k]);
    note_launch(name);
    ++plan_counts().libraries;
    s.call->run({name, device, stream, operands.data(), s.call->workspace ? operands.back() : 0});
    wait_if_blocking(name, device, stream);
  }
  // The CPU waits for what a decomposition says of itself; in recorded work nobody can.
  void run_check(const Step& s, Stream stream) const {
    if (capturing(stream)) return;
    about_to_wait(name);
    std::vector<int32_t> found(static_cast<size_t>(s.nbytes));
    check(driver().copy_to_host(found.data(), address(s.parameters[0]), found.size() * 4, stream), name);
    synchronize_stream(device, stream, name);
    raise_failures(found.data(), s.nbytes, s.api, s.value != 0);
  }
  void run_step(const Step& s) const {
    const Stream stream = current_stream(device);
    if (s.kind == Step::Launch) return run_launch(s);
    if (s.kind == Step::Library) return run_library(s, stream);
    if (s.kind == Step::Check) return run_check(s, stream);
    const Address to = address(s.parameters[0]);
    if (s.kind == Step::Fill)
      check(driver().fill8(to, static_cast<unsigned char>(s.value), size_t(s.nbytes), stream), name);
    else check(driver().copy_on_device(to, address(s.parameters[1]), size_t(s.nbytes), stream), name);
  }
};

void check_places(const Call& c, const Signature& s, int device) {
  for (const Tensor* t : s.tensors)
    if (t->device.type != DeviceType::CUDA || t->device.index != device)
      runtime_error(c.name(), ": tensors of two devices, ", device_name({DeviceType::CUDA, int8_t(device)}), " and ",
                    device_name(t->device), "; move one with .to()");
}

int device_of(const Call& c) {
  if (c.out1) return index_of(c.out1->device);
  for (int k = 0; k < c.nargs; ++k)
    if (c.args[k].tag == Tag::Tensor) return index_of(c.args[k].tensor->device);
  return tls.cuda_device;
}

Generator& generator_of(const Call& c, const Signature& s, int device) {
  Generator& g = s.generator ? *s.generator : default_generator_of(device);
  if (g.device.type != DeviceType::CUDA || index_of(g.device) != device)
    runtime_error(c.name(), ": expected a generator of cuda:", device, ", got one of ", device_name(g.device),
                  "; make it with Generator(\"cuda\")");
  return g;
}

void run_plan(const Call& c, int device, const Signature& s, const RowPlan& plan) {
  use_device(device);
  ScratchMemory scratch;
  scratch.take(c.name(), device, plan.scratch);
  const Running running{c.name(), device, s, scratch, plan.draws ? &generator_of(c, s, device) : nullptr};
  for (const Step& step : plan.steps) running.run_step(step);
}

// A library may find out only now that it cannot do what it was told; then the call is made anew by another plan, which
// stays. Steps before have written nothing that a plan reads.
void run_or_replan(const Call& c, int device, const Signature& s) {
  std::shared_ptr<const RowPlan> plan = plan_of(c, device, s);
  while (true) {
    Generator* const drawn = plan->draws ? &generator_of(c, s, device) : nullptr;
    const uint64_t before = drawn ? drawn->offset : 0;
    try {
      return run_plan(c, device, s, *plan);
    } catch (const Unsupported& refusal) {
      if (plan->use == LibraryUse::None) throw;
      if (drawn) drawn->offset = before;
      plan = make_plan(c, device, s, hash_of(s.words), refusal.after(plan->use));
    }
  }
}

}  // namespace

void run_row(Call& c) {
  const int device = device_of(c);
  Table& t = table();
  std::unique_ptr<Signature> s;
  if (t.spare.empty()) {
    s = std::make_unique<Signature>();
  } else {
    s = std::move(t.spare.back());
    t.spare.pop_back();
  }
  s->read(c, device);
  check_places(c, *s, device);
  ++plan_counts().rows;
  run_or_replan(c, device, *s);
  t.spare.push_back(std::move(s));
}

Function named_kernel(int device, const char* family, const std::string& key) {
  const std::string whole = concat(device, " ", family, " ", key);
  auto& named = table().named;
  if (auto found = named.find(whole); found != named.end()) return found->second;
  const auto made = static_cast<Function>(hooks.make_kernel(device, family, key));
  table().named[whole] = made;
  return made;
}

void forget_pointwise_plans();
void forget_plans() {
  forget_pointwise_plans();
  table().named.clear();
  table().places.clear();
  table().entries.clear();
}

}  // namespace flambeau::cuda
