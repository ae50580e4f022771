#include "program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <typeinfo>

#include "../core/recording.h"
#include "../core/stamp.h"

namespace flambeau {

// --- memory ----------------------------------------------------------------------------------------------------------

void* Arena::bytes(size_t n) {
  n = (n + 15) & ~size_t(15);
  while (chunk_ < chunks_.size() && used_ + n > chunks_[chunk_].second) ++chunk_, used_ = 0;
  if (chunk_ == chunks_.size()) {
    const size_t size = std::max(n, kChunk << std::min<size_t>(chunk_, 6));
    chunks_.emplace_back(std::make_unique_for_overwrite<char[]>(size), size);
    used_ = 0;
  }
  void* p = chunks_[chunk_].first.get() + used_;
  used_ += n;
  return p;
}
void Arena::clear() { chunk_ = used_ = 0; }

// One that is done is kept for the next: its vectors and its memory have the right sizes.
static Program* spare = nullptr;

Program* new_program() {
  if (!spare) return new Program;
  spare->refcount = 1;
  return std::exchange(spare, nullptr);
}
void release(Program* p) {
  if (--p->refcount) return;
  p->clear();
  if (spare || p->key.capacity() > kLargeKey) delete p;
  else spare = p;
}

Program::Program() { clear(); }
Program::~Program() { clear(); }

void Program::clear() {
  for (ProgramSlot& s : slots)
    if (s.made_by < 0 && s.storage) release(s.storage);
  slots.clear();
  uses.clear();
  entries.clear();
  lines.clear();
  codes.clear();
  key.clear();
  sizes_at.clear();
  arena.clear();
  std::ranges::fill(table_, -1);
  if (named_) std::ranges::fill(names_, std::pair<int64_t, uint64_t>{});
  named_ = 0;
  outside_ = 0;
  foreign_ = exact = fast = record = pointwise = anew = marks = draws = false;
  stage = Stage::Open;
  why = Why::End;
  planner = nullptr;
  places = nullptr;
  error.clear();
  plan.reset();
  key.push_back(uint64_t(default_dtype()));
}

// --- writing down ----------------------------------------------------------------------------------------------------

static size_t place_of(const Storage* s, size_t mask) {
  return (reinterpret_cast<uintptr_t>(s) * 0x9E3779B97F4A7C15u >> 32) & mask;
}

void Program::grow_table() {
  table_.assign(std::max<size_t>(64, table_.size() * 2), -1);
  for (int k = 0; k < int(slots.size()); ++k) {
    if (slots[k].made_by >= 0) continue;
    size_t at = place_of(slots[k].storage, table_.size() - 1);
    while (table_[at] >= 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = k;
  }
}

Awaited* awaited(const Storage& s) {
  Pending* p = pending_of(s);
  return p && typeid(*p) == typeid(Awaited) ? static_cast<Awaited*>(p) : nullptr;
}

bool Program::ours(const Tensor& t) const {
  if (!(t.flags & kPending)) return true;
  const Awaited* a = awaited(*t.storage);
  return a && a->program == this;
}

int Program::find(const Storage* s) const {
  if (table_.empty()) return -1;
  for (size_t at = place_of(s, table_.size() - 1); table_[at] >= 0; at = (at + 1) & (table_.size() - 1))
    if (slots[table_[at]].storage == s) return table_[at];
  return -1;
}
bool Program::reads(Storage& shown) const {
  const Storage* s = owner_of(&shown);
  if (foreign_ && !s->resizable) return true;  // another library's memory may have come in by another way
  return find(s) >= 0;
}
bool Program::writes(Storage& shown) const {
  const int slot = find(owner_of(&shown));
  return slot >= 0 && slots[size_t(slot)].written;
}

int Program::slot_of(Storage* s) {
  if (is_pending(*s)) return awaited(*s)->slot;
  s = owner_of(s);
  foreign_ |= !s->resizable;
  if (size_t(outside_ + 1) * 2 > table_.size()) grow_table();
  size_t at = place_of(s, table_.size() - 1);
  for (; table_[at] >= 0; at = (at + 1) & (table_.size() - 1))
    if (slots[table_[at]].storage == s) return table_[at];
  table_[at] = int(slots.size());
  ++outside_;
  retain(s);
  slots.push_back({s, -1});
  return table_[at];
}

// How a size, a stride or an offset stands in the key: 0 and 1 as they are, others by the order they first came in.
uint64_t Program::named(int64_t size) {
  if (exact || (size >= 0 && size < 2)) return uint64_t(size);
  if ((named_ + 1) * 2 > names_.size()) {
    auto before = std::exchange(names_, {});
    names_.resize(std::max<size_t>(64, before.size() * 2));
    for (auto& [value, name] : before)
      if (name) *place_of_name(value) = {value, name};
  }
  auto* place = place_of_name(size);
  if (!place->second) *place = {size, ++named_ + 1};
  return place->second;
}
std::pair<int64_t, uint64_t>* Program::place_of_name(int64_t size) {
  const size_t mask = names_.size() - 1;
  size_t at = (uint64_t(size) * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (names_[at].second && names_[at].first != size) at = (at + 1) & mask;
  return &names_[at];
}

void Program::mark_sizes(size_t n) {
  for (size_t k = key.size() - n; k < key.size(); ++k) sizes_at.push_back(int64_t(k));
}

int Program::note_use(const Tensor& t, int slot) {
  Use u{slot, t.dtype, t.ndim, uint16_t(t.flags & kWrappedNumber), t.device, t.offset(), nullptr};
  int64_t* dims = arena.take<int64_t>(2 * size_t(t.ndim));
  std::copy_n(t.sizes, t.ndim, dims);
  std::copy_n(t.strides, t.ndim, dims + t.ndim);
  u.dims = dims;
  uses.push_back(u);
  return int(uses.size()) - 1;
}

// A device as the key's highest bits; the CPU is 0.
static uint64_t where_of(Device d) {
  return d.type == DeviceType::CPU ? 0 : uint64_t(1 + uint8_t(d.index)) << 56;
}

int Program::use_of(const Tensor& t) {
  const int number = note_use(t, slot_of(t.storage));
  const Use& u = uses.back();
  const int n = 2 * u.ndim;
  key.resize(key.size() + 3 + size_t(n));
  uint64_t* to = key.data() + key.size() - 3 - n;
  *to++ = uint64_t(u.slot) << 32 | uint64_t(u.dtype) << 24 | uint64_t(u.ndim) << 16 | u.flags |
          uint64_t(t.contiguous()) << 15 | where_of(t.device);
  *to++ = named(u.offset);
  *to++ = named(t.numel);
  for (int k = 0; k < n; ++k) *to++ = named(u.dims[k]);
  if (marks) mark_sizes(size_t(2 + n));
  return number;
}

bool is_number(const Value& v, const Arg& arg) {
  if (!v.is_number() || v.tag == Tag::Bool) return false;
  if (arg.type != Type::Scalar && arg.type != Type::Float && arg.type != Type::Tensor) return false;
  if (!arg.has_default || v.tag != arg.value.tag) return true;
  return v.tag == Tag::Int ? v.i != arg.value.i : std::bit_cast<int64_t>(v.f) != std::bit_cast<int64_t>(arg.value.f);
}
void Program::write_number(const Value& v) {
  key.push_back(uint64_t(v.tag));
  if (!planner && !fast) return;
  key.push_back(v.tag == Tag::Int ? uint64_t(v.i) : std::bit_cast<uint64_t>(v.f));
  if (v.tag == Tag::Complex) key.push_back(std::bit_cast<uint64_t>(v.c.im));
}

bool is_sizes(const Arg& arg) {
  static constexpr std::string_view kNames[] = {"size",        "self_shape", "self_size",
                                                 "self_stride", "input_size", "shape"};
  return arg.type == Type::Ints && std::ranges::count(kNames, arg.name);
}
template <class T>
const T* Program::write_words(const T* data, int64_t n, bool sizes) {
  T* list = arena.take<T>(size_t(n));
  std::copy_n(data, n, list);
  key.push_back(uint64_t(n));
  for (int64_t j = 0; j < n; ++j)
    key.push_back(sizes ? named(int64_t(list[j])) : std::bit_cast<uint64_t>(list[j]));
  if (sizes && marks) mark_sizes(size_t(n));
  return list;
}

void Program::write_argument(const Value& from, const Arg& arg, Value& to) {
  to = from;
  if (is_number(from, arg)) return write_number(from);
  key.push_back(uint64_t(from.tag) << 56);
  switch (from.tag) {
    case Tag::Tensor: to.i = use_of(*from.tensor); break;
    case Tag::Tensors: {
      const int64_t n = from.tensors.size;
      int64_t* list = arena.take<int64_t>(size_t(n));
      key.push_back(uint64_t(n));
      for (int64_t j = 0; j < n; ++j) {
        if (from.tensors.data[j]) list[j] = use_of(*from.tensors.data[j]);
        else list[j] = -1, key.push_back(~uint64_t(0));
      }
      to.ints = {list, n};
      break;
    }
    case Tag::Ints:
    case Tag::Bools: to.ints.data = write_words(from.ints.data, from.ints.size, is_sizes(arg)); break;
    case Tag::Floats: to.floats.data = write_words(from.floats.data, from.floats.size, false); break;
    case Tag::Str: {
      const size_t n = size_t(from.str.size);
      uint64_t* words = arena.take<uint64_t>(n / 8 + 1);
      words[n / 8] = 0;
      std::memcpy(words, from.str.data, n);
      to.str.data = reinterpret_cast<char*>(words);
      key.push_back(n);
      key.insert(key.end(), words, words + n / 8 + 1);
      break;
    }
    case Tag::Float: key.push_back(std::bit_cast<uint64_t>(from.f)); break;
    case Tag::Int: key.push_back(uint64_t(from.i)); break;
    case Tag::Bool: key.push_back(from.b); break;
    case Tag::DType: key.push_back(uint64_t(from.dtype)); break;
    case Tag::Device: key.push_back(uint64_t(from.device.type) << 8 | uint64_t(uint8_t(from.device.index))); break;
    default: break;
  }
}

// Whether all its arguments are values that a program can hold.
bool Program::takes_all(const Call& c) const {
  auto known = [](Device d) { return d.type == DeviceType::CPU || d.type == DeviceType::CUDA; };
  auto fits = [&](const Tensor& t) { return t.storage && known(t.device) && ours(t); };
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Generator || v.tag == Tag::Object || (v.tag == Tag::Int && v.huge))
      return false;
    if (v.tag == Tag::Tensor && !fits(*v.tensor)) return false;
    if (v.tag == Tag::Device && !known(v.device)) return false;
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j)
      if (v.tensors.data[j] && !fits(*v.tensors.data[j])) return false;
  }
  return true;
}

void Program::note_writes(const Call& c, Entry& e) {
  draws |= c.op->random;
  if (e.form == Form::Plain && !c.op->writes_self && !c.op->writes_more) return;
  size_t most = e.form != Form::Plain, n = 0;
  if (!most) each_written(c, [&](const Tensor&) { ++most; });
  int* to = arena.take<int>(most);
  auto note = [&](const Tensor& t) {
    to[n] = slot_of(t.storage);
    slots[size_t(to[n++])].written = true;
    lose_writes(*t.storage);
  };
  if (e.form != Form::Plain) note(c.tensor(0));
  else each_written(c, note);
  e.writes = {to, n};
}

void Program::write_results(Call& c, Entry& e) {
  e.nresults = c.nout();
  e.results = arena.take<int>(size_t(e.nresults));
  for (int k = 0; k < c.nout(); ++k) {
    Storage* s = c.out(k).storage;
    if (!pending_of(*s)) {
      slots.push_back({s, int(entries.size())});
      attach(*s, std::make_unique<Awaited>(this, int(slots.size()) - 1));
    }
    e.results[k] = use_of(c.out(k));
  }
}

// The call with its arguments; its results are not noted yet.
Entry Program::begin(const Call& c, Form form) {
  Entry e{c.op, arena.take<Value>(size_t(c.nargs)), c.nargs, c.list_result, form, 0, nullptr, {}};
  key.push_back(c.op->id + uint64_t(form));
  for (int k = 0; k < c.nargs; ++k)
    write_argument(c.args[k], c.op->schema.args[size_t(k)], *new (&e.args[k]) Value);
  return e;
}
void Program::end(const Entry& e) {
  entries.push_back(e);
  if (places) note_line();
}

void Program::note_line() {
  const Place here = places->here();
  if (here.code && (codes.empty() || codes.back().get() != here.code)) codes.push_back(Ref<Object>::borrow(here.code));
  lines.push_back(here);
}

std::string Program::line_of(int entry) const {
  return entry >= 0 && size_t(entry) < lines.size() ? places->text(lines[size_t(entry)]) : "";
}

std::vector<int> Program::wanted() const {
  std::vector<int> held;
  for (size_t k = 0; k < slots.size(); ++k)
    if (slots[k].made_by >= 0 && slots[k].storage) held.push_back(int(k));
  return held;
}

const Use& Program::made_as(int slot) const {
  const Entry& e = entries.at(size_t(slots.at(size_t(slot)).made_by));
  return uses[size_t(*std::find_if(e.results, e.results + e.nresults,
                                   [&](int u) { return uses[size_t(u)].slot == slot; }))];
}

bool laid_out(const Tensor& t, Dims sizes, Dims strides) {
  return std::ranges::equal(t.shape(), sizes) && std::ranges::equal(t.stride(), strides);
}
TensorRef bare_tensor(DType dtype, Device device, Dims sizes, Dims strides, uint16_t flags) {
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->dtype = dtype;
  t->device = device;
  set_dims(*t, sizes, strides);
  t->flags |= flags;
  return t;
}

void Program::seal() {
  uint64_t bits = 0;
  int n = 0;
  for (ProgramSlot& s : slots) {
    if (s.made_by >= 0 && s.storage) {
      bits |= uint64_t(1) << n;
      retain(s.storage);
    }
    if (++n == 64) key.push_back(std::exchange(bits, 0)), n = 0;
  }
  key.push_back(bits);
}

Awaited::~Awaited() {
  if (program->stage == Stage::Open) program->slots[size_t(slot)].storage = nullptr;
  release(program);
}
}  // namespace flambeau
