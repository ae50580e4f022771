// Pointwise calls on CUDA tensors: their signature, the plan kept for it, the launch.
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../core/device_table.h"
#include "../kernels/cast.h"
#include "allocator.h"
#include "launch.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

using pointwise::kMaxOperands;
using pointwise::kMaxScalars;

using Words = std::array<uint64_t, sizeof(PointwiseKey) / 8>;
Words words_of(const PointwiseKey& k) { return std::bit_cast<Words>(k); }

// Plans by their keys: a place is looked for from where the key's hash says on. Under the interpreter lock.
class Plans {
 public:
  const PointwisePlan* find(const PointwiseKey& key) const {
    const Words words = words_of(key);
    for (size_t at = hash_of(words);; ++at) {
      const Entry* e = places_[at & (places_.size() - 1)].get();
      if (!e || same(e->words, words)) return e ? &e->plan : nullptr;
    }
  }
  const PointwisePlan* add(const PointwiseKey& key, const PointwisePlan& plan) {
    if (const PointwisePlan* known = find(key)) return known;  // another thread was faster
    auto made = std::make_unique<Entry>(words_of(key), plan);
    if (2 * ++count_ > places_.size()) grow();
    return &put(std::move(made))->plan;
  }
  void clear() { *this = {}; }

 private:
  struct Entry {
    Words words;
    PointwisePlan plan;
  };
  std::vector<std::unique_ptr<Entry>> places_ = std::vector<std::unique_ptr<Entry>>(256);  // a power of two
  size_t count_ = 0;

  static size_t hash_of(const Words& words) {
    uint64_t h = 0;
    for (uint64_t w : words) h = (std::rotl(h, 23) ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
  }
  static bool same(const Words& a, const Words& b) {
    uint64_t different = 0;
    for (size_t k = 0; k < a.size(); ++k) different |= a[k] ^ b[k];
    return !different;
  }
  Entry* put(std::unique_ptr<Entry> e) {
    size_t at = hash_of(e->words);
    while (places_[at & (places_.size() - 1)]) ++at;
    return (places_[at & (places_.size() - 1)] = std::move(e)).get();
  }
  void grow() {
    const size_t twice = 2 * places_.size();
    for (auto& e : std::exchange(places_, std::vector<std::unique_ptr<Entry>>(twice)))
      if (e) put(std::move(e));
  }
};
Plans& plans() {
  static auto* p = new Plans;
  return *p;
}

// As the kernels have it: dimension 0 is the innermost, strides count elements, the result comes first.
constexpr int kGeometryDims = 8;
struct Geometry {
  int32_t ndim = 0, unused = 0;
  int64_t sizes[kGeometryDims] = {};
  int64_t strides[kMaxOperands][kGeometryDims] = {};
  // n / sizes[d] is (2 n factor[d] >> 32) >> shift[d] for n below 2^31 (Granlund and Montgomery 1994, section 4)
  uint32_t factor[kGeometryDims] = {}, shift[kGeometryDims] = {};

  void add_dim(int64_t size) {
    const int s = std::bit_width(uint64_t(size - 1));
    if (s < 32) factor[ndim] = uint32_t(((uint64_t(1) << (31 + s)) + uint64_t(size) - 1) / uint64_t(size));
    shift[ndim] = uint32_t(s);
    sizes[ndim++] = size;
  }
};

// A call as a launch needs it; numbers and scalars are written where the key says that there are any.
struct Launched {
  PointwiseKey key;
  const char* name;
  int tensors = 0;  // with the result
  alignas(16) char number[kOperands][16];
  alignas(16) char scalar[kMaxScalars][16];
  explicit Launched(const char* name) : name(name) {}
};
// One that is worked out.
struct Work : Launched {
  pointwise::Plan& plan;
  int tensor[kMaxOperands];  // numbers of the operands that are tensors; the result first
  Work(const char* name, pointwise::Plan& plan) : Launched(name), plan(plan) {}
};

// An argument behind the operands: numbers are passed, texts and booleans are part of the kernel.
void place_scalar(Launched& w, int k, const Value& v) {
  auto& place = w.key.scalar[k];
  char* bytes = w.scalar[k];
  switch (v.tag) {
    case Tag::Bool: place = {ScalarKind::Bool, char(v.b)}; break;
    case Tag::Int:
      if (v.huge && !is_integral(w.key.compute)) {
        const double value = double(uint64_t(v.i));
        place.kind = ScalarKind::Float, std::memcpy(bytes, &value, sizeof value);
      } else {
        place.kind = ScalarKind::Int, std::memcpy(bytes, &v.i, sizeof v.i);
      }
      break;
    case Tag::Float: place.kind = ScalarKind::Float; std::memcpy(bytes, &v.f, sizeof v.f); break;
    case Tag::Complex: place.kind = ScalarKind::Complex; std::memcpy(bytes, &v.c, sizeof v.c); break;
    case Tag::Str: place = {ScalarKind::Text, v.str.size ? v.str.data[0] : char(0)}; break;
    default: place.kind = ScalarKind::Absent;
  }
}

void place_scalars(Launched& w, const Call& c, int operands) {
  for (int k = operands; k < c.nargs && w.key.scalars < kMaxScalars; ++k, ++w.key.scalars)
    place_scalar(w, w.key.scalars, c.args[k]);
}

void read_number(const Tensor& t, DType as, char* to) {  // of a tensor of the CPU without dimensions
  if (t.dtype == as) std::memcpy(to, t.data, size_t(t.itemsize()));
  else make_cast(t.dtype, as).apply(to, t.data, 1);
}

void place_operands(Call* c, Work& w, DType compute, unsigned bool_operands) {
  pointwise::Plan& p = w.plan;
  w.key.count = uint8_t(p.count - 1);
  w.tensor[w.tensors++] = 0;
  for (int k = 1; k < p.count; ++k) {
    pointwise::Operand& o = p.operand[k];
    auto& place = w.key.operand[k - 1];
    place.loop_dtype = bool_operands >> (k - 1) & 1 ? DType::Bool : compute;
    if (o.absent) {
      place = {OperandKind::Absent, DType::Undefined, DType::Undefined};
    } else if (o.tensor && o.tensor->device.type == DeviceType::CUDA) {
      place.kind = OperandKind::Tensor;
      place.dtype = o.tensor->dtype;
      w.tensor[w.tensors++] = k;
    } else {  // a number, or a tensor of the CPU without dimensions, which acts as one
      place.kind = OperandKind::Number;
      place.dtype = place.loop_dtype;
      if (o.tensor) read_number(*o.tensor, place.dtype, w.number[k - 1]);
      else store_scalar(w.number[k - 1], c->args[k - 1].scalar(), place.dtype);
      o.tensor = nullptr;
    }
  }
}

// Of how many elements offsets have 31 bits, those too at which a block's last threads find that there is nothing left.
constexpr int64_t kMostOfBlock = 1 << 13, kNarrow = (int64_t(1) << 31) - kMostOfBlock;

// How many neighbours along the innermost dimension every tensor that does not repeat holds at one aligned address, up
// to 16 bytes of the largest elements.
int64_t neighbours(const Work& w) {
  const auto& s = w.plan.space;
  int64_t largest = 1;
  uint64_t together = uint64_t(s.size[0]);  // the lowest bit of all that must be a multiple
  for (int j = 0; j < w.tensors; ++j) {
    const int k = w.tensor[j];
    const pointwise::Operand& o = w.plan.operand[k];
    const auto address = reinterpret_cast<uintptr_t>(o.data);
    if (j > 0 && s.stride[k][0] == 0) continue;
    if (s.stride[k][0] != o.item || address % uintptr_t(o.item)) return 1;
    largest = std::max(largest, o.item);
    together |= address / uintptr_t(o.item);
    for (int d = 1; d < s.ndim; ++d) together |= uint64_t(s.stride[k][d] / o.item);
  }
  return std::min(int64_t(together & -together), 16 / largest);
}

// The dimensions of a tile have that many elements; its operands, in bytes an element, fit the shared memory.
constexpr int64_t kLeastOfTile = 32, kMostOfTile = 32;

// Whether operands run along another dimension than the result: they are marked, and that dimension becomes the second.
bool runs_across(Work& w) {
  auto& s = w.plan.space;
  if (s.stride[0][0] != w.plan.operand[0].item || s.size[0] < kLeastOfTile) return false;
  int other = 0;
  int64_t room = 0;
  for (int j = 1; j < w.tensors; ++j) {
    const int k = w.tensor[j];
    const int64_t item = w.plan.operand[k].item;
    if (s.stride[k][0] == 0 || s.stride[k][0] == item || room + item > kMostOfTile) continue;
    for (int d = other ? other : 1; d < (other ? other + 1 : s.ndim); ++d) {
      if (s.stride[k][d] != item || s.size[d] < kLeastOfTile) continue;
      w.key.operand[k - 1].kind = OperandKind::Across;
      room += item;
      other = d;
      break;
    }
  }
  if (other) s.swap_dims(1, other);
  return other;
}

// Whether a tile of elements of two bytes at most can be read and written by pairs of neighbours.
bool by_pairs(const Work& w) {
  const auto& s = w.plan.space;
  uint64_t together = uint64_t(s.size[0]) | uint64_t(s.size[1]);
  for (int j = 0; j < w.tensors; ++j) {
    const int k = w.tensor[j];
    const pointwise::Operand& o = w.plan.operand[k];
    const int along = j > 0 && w.key.operand[k - 1].kind == OperandKind::Across;
    if (o.item > 2) return false;
    if (j > 0 && s.stride[k][along] == 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(o.data);
    if (s.stride[k][along] != o.item || address % uintptr_t(o.item)) return false;
    together |= address / uintptr_t(o.item);
    for (int d = 0; d < s.ndim; ++d)
      if (d != along) together |= uint64_t(s.stride[k][d] / o.item);
  }
  return together % 2 == 0;
}

void mark_repeated(Work& w) {
  for (int j = 1; j < w.tensors; ++j)
    if (w.plan.space.stride[w.tensor[j]][0] == 0) w.key.operand[w.tensor[j] - 1].kind = OperandKind::Repeated;
}

// Whether all offsets fit 31 bits, and the form of the kernel.
void look_at_layout(Work& w) {
  const auto& s = w.plan.space;
  const bool one = s.numel() == 1;
  bool flat = s.ndim == 1, narrow = true;
  uintptr_t addresses = 0;
  for (int j = 0; j < w.tensors; ++j) {
    const int k = w.tensor[j];
    const pointwise::Operand& o = w.plan.operand[k];
    flat = flat && (one || s.stride[k][0] == o.item);
    int64_t reach = 1;
    for (int d = 0; d < s.ndim; ++d) reach += (s.size[d] - 1) * std::abs(s.stride[k][d] / o.item);
    narrow = narrow && reach < kNarrow;
    addresses |= reinterpret_cast<uintptr_t>(o.data);
  }
  w.key.wide = !narrow || s.numel() >= kNarrow;
  if (flat) {
    w.key.pack = addresses % 16 == 0;
  } else if (const int64_t pack = neighbours(w); pack > 1) {
    w.key.form = Form::Packed;
    w.key.pack = uint8_t(pack);
    mark_repeated(w);
  } else {
    w.key.form = runs_across(w) ? Form::Tiled : Form::Strided;
    if (w.key.form == Form::Tiled && by_pairs(w)) {
      w.key.pack = 2;
      mark_repeated(w);
    }
  }
}

const PointwisePlan& plan_of(const Launched& w) {
  if (const PointwisePlan* found = plans().find(w.key); __builtin_expect(found != nullptr, 1)) return *found;
  ++plan_counts().made;
  const PointwisePlan made = hooks.plan_pointwise(w.key, w.name);
  return *plans().add(w.key, made);
}

int64_t parts(int64_t n, int64_t each) { return (n + each - 1) / each; }
int64_t blocks_of(const PointwisePlan& plan, int64_t n) { return parts(n, int64_t(plan.vector) * plan.threads); }

void launch_once(const Launched& w, const PointwisePlan& plan, char* const* data, int64_t n, int64_t blocks,
                 const Geometry* g) {
  void* parameters[2 * kMaxOperands + kMaxScalars + 2];
  int count = 0;
  for (int j = 0; j < w.tensors; ++j) parameters[count++] = const_cast<char**>(&data[j]);
  if (g) parameters[count++] = const_cast<Geometry*>(g);
  parameters[count++] = &n;
  for (int k = 0; k < w.key.count; ++k)
    if (w.key.operand[k].kind == OperandKind::Number) parameters[count++] = const_cast<char*>(w.number[k]);
  for (int k = 0; k < w.key.scalars; ++k)
    if (w.key.scalar[k].kind >= ScalarKind::Int) parameters[count++] = const_cast<char*>(w.scalar[k]);
  if (blocks >= int64_t(1) << 31) runtime_error(w.name, ": ", n, " elements are more than one launch covers");
  launch(w.name, w.key.device, plan.function, {unsigned(blocks), 1, 1}, {unsigned(plan.threads), 1, 1}, 0,
         parameters);
}

// Launches over the innermost dimensions that a Geometry holds, once for each place of the others.
void launch_over(const Work& w, const PointwisePlan& plan, char* const* data, int dims) {
  const auto& s = w.plan.space;
  if (dims > kGeometryDims) {
    const int d = dims - 1;
    char* moved[kMaxOperands];
    for (int64_t i = 0; i < s.size[d]; ++i) {
      for (int j = 0; j < w.tensors; ++j) moved[j] = data[j] + i * s.stride[w.tensor[j]][d];
      launch_over(w, plan, moved, d);
    }
    return;
  }
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= s.size[d];
  if (w.key.form == Form::Flat) return launch_once(w, plan, data, n, blocks_of(plan, n), nullptr);
  Geometry g;
  for (int d = 0; d < dims; ++d) g.add_dim(s.size[d]);
  for (int j = 0; j < w.tensors; ++j)
    for (int d = 0; d < dims; ++d) g.strides[j][d] = s.stride[w.tensor[j]][d] / w.plan.operand[w.tensor[j]].item;
  const int64_t side = plan.vector, outer = w.key.form == Form::Tiled ? n / (s.size[0] * s.size[1]) : 0;
  const int64_t blocks = outer ? parts(s.size[0], side) * parts(s.size[1], side) * outer : blocks_of(plan, n);
  launch_once(w, plan, data, n, blocks, &g);
}

void run(Work& w) {
  look_at_layout(w);
  use_device(w.key.device);
  ++plan_counts().pointwise;
  char* data[kMaxOperands];
  for (int j = 0; j < w.tensors; ++j) data[j] = w.plan.operand[w.tensor[j]].data;
  launch_over(w, plan_of(w), data, w.plan.space.ndim);
}

pointwise::Shape shape_of(const Tensor& t) {
  pointwise::Shape s;
  s.ndim = t.ndim;
  std::copy(t.sizes, t.sizes + t.ndim, s.size);
  return s;
}

void place(pointwise::Operand& o, const Tensor& t) {
  o.tensor = &t;
  o.data = t.data;
  o.dtype = t.dtype;
  o.item = t.itemsize();
}

// Names of the two kernels that are no operator's. Where bits move as they are, the dtype is one of few of that size.
const char kCopy[] = "copy", kFill[] = "fill";
DType plain(int64_t item) {
  return item == 1   ? DType::UInt8
         : item == 2 ? DType::Int16
         : item == 4 ? DType::Int32
         : item == 8 ? DType::Int64
                     : DType::Complex128;
}

}  // namespace

void run_pointwise(Call& c, Pointwise& worked_out) {
  pointwise::Plan& p = worked_out.plan;
  Tensor& out = *worked_out.out;
  if (out.numel == 0) return;
  if (c.given) pointwise::check_overlap(out, p, worked_out.copies);
  Work w(worked_out.row.name, p);
  w.key.row = &worked_out.row;
  w.key.device = uint8_t(index_of(out.device));
  w.key.compute = worked_out.compute;
  w.key.loop_out = worked_out.loop_out;
  w.key.result = out.dtype;
  place(p.operand[0], out);
  place_operands(&c, w, worked_out.compute, worked_out.row.bool_operands);
  for (int k = 1; k < p.count; ++k)
    if (p.operand[k].tensor) p.operand[k].item = p.operand[k].tensor->itemsize();
  pointwise::prepare_space(p, worked_out.shape);
  place_scalars(w, c, worked_out.row.operands);
  run(w);
}

void run_pointwise_short(const Call& c, const ShortCall& s) {
  const ElementwiseRow& row = s.row;
  Launched w(row.name);
  char* data[kMaxOperands];
  uintptr_t addresses = 0;
  auto add_tensor = [&](char* p) {
    data[w.tensors++] = p;
    addresses |= reinterpret_cast<uintptr_t>(p);
  };
  add_tensor(s.ptr[0]);
  w.key.row = &row;
  w.key.count = row.operands;
  w.key.device = uint8_t(index_of(c.out1->device));
  w.key.compute = s.compute;
  w.key.loop_out = s.compute == s.dtype ? s.result : wide_of(s.result);
  w.key.result = s.result;
  for (int k = 0; k < row.operands; ++k) {
    const bool mask = row.bool_operands >> k & 1;
    auto& place = w.key.operand[k];
    place.loop_dtype = mask ? DType::Bool : s.compute;
    if (s.stride[k + 1]) {
      place.dtype = mask ? DType::Bool : s.dtype;
      add_tensor(s.ptr[k + 1]);
    } else if (s.ptr[k + 1]) {
      place.kind = OperandKind::Number;
      place.dtype = place.loop_dtype;
      std::memcpy(w.number[k], s.number[k], sizeof w.number[k]);
    } else {
      place = {OperandKind::Absent, DType::Undefined, DType::Undefined};
    }
  }
  place_scalars(w, c, row.operands);
  w.key.wide = s.numel >= kNarrow;
  w.key.pack = addresses % 16 == 0;
  use_device(w.key.device);
  ++plan_counts().pointwise;
  const PointwisePlan& plan = plan_of(w);
  launch_once(w, plan, data, s.numel, blocks_of(plan, s.numel), nullptr);
}

void copy_strided(Tensor& dst, const Tensor& src) {
  if (dst.numel == 0) return;
  if (dst.dtype == src.dtype && src.dtype != plain(src.itemsize())) {
    TensorRef to = view_of(dst, dst.shape(), dst.stride(), dst.data);
    TensorRef from = view_of(src, src.shape(), src.stride(), src.data);
    to->dtype = from->dtype = plain(src.itemsize());
    return copy_strided(*to, *from);
  }
  pointwise::Plan p;
  p.count = 2;
  place(p.operand[0], dst);
  place(p.operand[1], src);
  Work w(kCopy, p);
  w.key.row = kCopy;
  w.key.device = uint8_t(index_of(dst.device));
  w.key.compute = w.key.loop_out = src.dtype;
  w.key.result = dst.dtype;
  place_operands(nullptr, w, src.dtype, 0);
  pointwise::prepare_space(p, shape_of(dst));
  run(w);
}

void fill_strided(Tensor& dst, const char* value) {
  pointwise::Plan p;
  p.count = 1;
  place(p.operand[0], dst);
  Work w(kFill, p);
  w.key.row = kFill;
  w.key.device = uint8_t(index_of(dst.device));
  const DType dtype = plain(dst.itemsize());
  w.key.compute = w.key.loop_out = w.key.result = dtype;
  w.tensor[w.tensors++] = 0;
  w.key.count = 1;
  w.key.operand[0] = {OperandKind::Number, dtype, dtype};
  std::memcpy(w.number[0], value, size_t(dst.itemsize()));
  pointwise::prepare_space(p, shape_of(dst));
  run(w);
}

void forget_pointwise_plans() { plans().clear(); }

}  // namespace flambeau::cuda
