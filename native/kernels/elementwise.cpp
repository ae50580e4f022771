// Runs pointwise operators: decides dtypes, shape and layout of the result, then feeds the operator's loop.
//
// Two paths. The short one serves what most calls are: contiguous operands of one shape and dtype (or a number), a
// fresh or in-place result. It decides with a few comparisons and calls the loop once. The general path promotes,
// broadcasts, orders and merges dimensions, and converts or packs block by block whatever the loop cannot read
// directly.
#include "elementwise.h"

#include <array>
#include <string>
#include <unordered_map>

#include "../core/device_table.h"
#include "../core/machine.h"
#include "../core/op.h"
#include "cast.h"
#include "strided.h"

namespace flambeau {

namespace {

constexpr int64_t kGrain = 32768;       // element visits that pay for a second thread
constexpr int kByValue = 255;  // a row's weight where the time depends on the values: may take seconds for one element
constexpr int64_t kBlock = 512;         // elements converted at a time: stays in the first-level cache
constexpr int kMaxOperands = 6;         // with the result
constexpr int64_t kShortRow = 16;       // inner dimensions below this are packed across rows
constexpr int64_t kLongRow = 256;       // rows from this on need not be joined
constexpr int kMaxScalars = 8;

std::unordered_map<std::string_view, ElementwiseRow>& table() {
  static std::unordered_map<std::string_view, ElementwiseRow> rows;
  return rows;
}

// PyTorch's names of dtypes in its messages about casting.
const char* type_name(DType t) {
  static constexpr const char* names[] = {"Bool",          "Byte",        "Char",     "Short",        "UInt16",
                                          "Int",           "UInt32",      "Long",     "UInt64",       "Half",
                                          "BFloat16",      "Float",       "Double",   "ComplexFloat", "ComplexDouble",
                                          "Float8_e4m3fn", "Float8_e5m2", "Undefined"};
  return names[int(t)];
}

bool can_cast(DType from, DType to) {
  return category(from) <= category(to) || (is_differentiable(from) && category(from) == category(to));
}

// --- promotion ----------------------------------------------------------------------------------------------------

// A tensor's dtype with dimensions outranks a 0-d one, which outranks a Python number, within one category.
struct Promotion {
  DType dim = DType::Undefined, zero = DType::Undefined, number = DType::Undefined;

  static DType join(DType a, DType b) { return a == DType::Undefined ? b : promote_types(a, b); }
  static DType outrank(DType high, DType low) {
    if (high == DType::Undefined || low == DType::Undefined) return high == DType::Undefined ? low : high;
    if (category(low) <= category(high)) return high;
    return category(low) == Category::Complex && category(high) == Category::Floating ? complex_of(high)
                                                                                      : promote_types(high, low);
  }
  void add(const Value& v) {
    if (v.tag == Tag::Tensor) {
      const Tensor& t = *v.tensor;
      if (t.ndim > 0) dim = join(dim, t.dtype);
      else if (!(t.flags & kWrappedNumber)) zero = join(zero, t.dtype);
      else number = join(number, of_category(category(t.dtype)));
    } else if (v.is_number()) {
      number = join(number, of_category(Category(int(v.tag) - int(Tag::Bool))));
    }
  }
  static DType of_category(Category c) {
    switch (c) {
      case Category::Bool: return DType::Bool;
      case Category::Integer: return DType::Int64;
      case Category::Floating: return default_dtype();
      default: return complex_of(default_dtype());
    }
  }
  DType result() const { return outrank(dim, outrank(zero, number)); }
};
static_assert(int(Tag::Complex) - int(Tag::Bool) == int(Category::Complex));

// A row's loop at a dtype; halves compute in float32. `compute` becomes the loop's own dtype.
LoopFn pick_loop(const ElementwiseRow& row, DType& compute) {
  if (compute == DType::Undefined) return nullptr;
  if (LoopFn f = row.loop[int(compute)]) return f;
  if (!is_half(compute)) return nullptr;
  compute = DType::Float32;
  return row.loop[int(DType::Float32)];
}

Scalar number_of(const Value& v) {
  if (v.is_number()) return v.scalar();
  Scalar s;
  if (v.tag == Tag::Str) s.i = v.str.size ? v.str.data[0] : 0;
  else s.category = kAbsent;
  return s;
}
void read_scalars(const Call& c, const ElementwiseRow& row, Scalar* scalars) {
  for (int k = row.operands; k < c.nargs && k - row.operands < kMaxScalars; ++k)
    scalars[k - row.operands] = number_of(c.args[k]);
}

// --- the short path -----------------------------------------------------------------------------------------------

bool same_sizes(const Tensor& a, const Tensor& b) {
  if (a.ndim != b.ndim || a.numel != b.numel) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}
bool plain(const Tensor& t) { return (t.flags & kContiguous) && t.device.type == DeviceType::CPU; }
// same memory or none shared: the common in-place and fresh cases
bool safe_beside(const Tensor& out, const char* p, int64_t bytes) {
  return p == out.data || p + bytes <= out.data || out.data + out.nbytes() <= p;
}

struct Short {
  char* ptr[4];
  int64_t stride[4];
  alignas(16) char number[3][16];
};

// Operand k of the short path beside the leading tensor, or false.
bool place_short(Short& s, int k, const Value& v, const Tensor& self, const ElementwiseRow& row) {
  const bool mask = row.bool_operands >> k & 1, loose = row.operands == 2 || row.any_stride;
  if (v.tag == Tag::Tensor) {
    const Tensor& t = *v.tensor;
    if (t.dtype != (mask ? DType::Bool : self.dtype) || !plain(t) || !same_sizes(t, self)) return false;
    s.ptr[k + 1] = t.data;
    s.stride[k + 1] = item_size(t.dtype);
    return true;
  }
  s.stride[k + 1] = 0;
  if (v.none()) {
    s.ptr[k + 1] = nullptr;
    return row.any_stride;
  }
  if (!loose || mask || !v.is_number() || v.huge) return false;
  if (int(v.tag) - int(Tag::Bool) > int(category(self.dtype))) return false;
  if ((self.flags & kWrappedNumber) || (is_half(self.dtype) && row.operands == 2)) return false;
  if (self.dtype == DType::Float32) {
    float f = v.tag == Tag::Float ? float(v.f) : v.scalar().to<float>();
    std::memcpy(s.number[k], &f, 4);
  } else {
    store_scalar(s.number[k], v.scalar(), self.dtype);
  }
  s.ptr[k + 1] = s.number[k];
  return true;
}

// One row after another where the second operand is a vector along the last dimensions: a bias.
bool is_bias(const Tensor& self, const Tensor& t) {
  if (t.ndim == 0 || t.ndim >= self.ndim || t.numel < 8 || t.dtype != self.dtype || !plain(t) || self.numel == 0)
    return false;
  for (int d = 1; d <= t.ndim; ++d)
    if (t.sizes[t.ndim - d] != self.sizes[self.ndim - d]) return false;
  return true;
}

// long because: the whole of a small call; each test in it decides whether the call is one
bool run_short(Call& c, const ElementwiseRow& row, Promote promote) {
  const int operands = row.operands;
  if (operands > 3 || promote == Promote::Logical || row.weight == kByValue) return false;
  int lead = 0;  // the first operand that decides shape and dtype: in 1 - x the second, in where(c, x, 0) too
  while (lead < operands && (c.args[lead].tag != Tag::Tensor || (row.bool_operands >> lead & 1))) ++lead;
  if (lead == operands || (lead > 0 && promote == Promote::FirstOnly)) return false;
  Tensor& self = *c.args[lead].tensor;
  if (!plain(self)) return false;
  DType dtype = self.dtype, compute = dtype, result = promote == Promote::Compare ? DType::Bool : dtype;
  LoopFn loop = row.loop[int(dtype)];
  if (!loop || (promote == Promote::IntToFloat && !is_differentiable(dtype))) return false;
  if (promote == Promote::ComplexToReal && is_complex(dtype)) return false;

  Short s;
  s.ptr[lead + 1] = self.data;
  s.stride[lead + 1] = item_size(dtype);
  int64_t row_length = 0;  // of a bias
  for (int k = 0; k < operands; ++k) {
    if (k == lead || place_short(s, k, c.args[k], self, row)) continue;
    if (k != 1 || operands != 2 || c.args[1].tag != Tag::Tensor || !is_bias(self, *c.args[1].tensor)) return false;
    s.ptr[2] = c.args[1].tensor->data;
    s.stride[2] = item_size(dtype);
    row_length = c.args[1].tensor->numel;
  }
  if (row.adapt) {
    row.adapt(c, compute, result);
    if (compute != dtype) return false;
  }
  const int64_t n = self.numel;
  if (row_length && n * row.weight > kGrain) return false;
  Tensor* out;
  if (c.given) {
    out = c.given;
    if (out != &self || lead || result != dtype) return false;
    for (int k = 1; k < operands; ++k)
      if (s.stride[k + 1] &&
          !safe_beside(*out, s.ptr[k + 1], row_length ? row_length * s.stride[k + 1] : out->numel * s.stride[k + 1]))
        return false;
    if (row_length && s.ptr[2] == out->data) return false;
    c.push(TensorRef::borrow(out));
  } else {
    out = &c.output(self.shape(), result, self.device);
  }
  s.ptr[0] = out->data;
  s.stride[0] = item_size(result);
  Scalar scalars[kMaxScalars];
  if (operands < c.nargs) read_scalars(c, row, scalars);
  if (row_length) {
    for (int64_t at = 0; at < n; at += row_length) {
      loop(s.ptr, s.stride, row_length, scalars);
      s.ptr[0] += row_length * s.stride[0];
      s.ptr[1] += row_length * s.stride[1];
    }
    return true;
  }
  if (n * row.weight <= kGrain) {
    if (n) loop(s.ptr, s.stride, n, scalars);
    return true;
  }
  Calling calling(c);
  LockRelease lock(n * row.weight);
  parallel_for(n, std::max<int64_t>(kGrain / row.weight, 1024), [&](int64_t begin, int64_t end) {
    char* p[4];
    for (int k = 0; k <= operands; ++k) p[k] = s.ptr[k] ? s.ptr[k] + begin * s.stride[k] : nullptr;
    loop(p, s.stride, end - begin, scalars);
  });
  return true;
}

// --- the general path ---------------------------------------------------------------------------------------------

using Space = Strided<kMaxOperands>;

struct Operand {
  const Tensor* tensor = nullptr;  // null: a number, or absent
  bool absent = false, constant = false;
  char* data = nullptr;
  DType dtype = DType::Undefined, loop_dtype = DType::Undefined;
  int64_t item = 0, loop_item = 0;
  Cast cast;
  alignas(16) char number[16];
};

struct Plan {
  Space space;
  Operand operand[kMaxOperands];  // [0]: the result
  int count = 0;                  // with the result
  LoopFn loop = nullptr;
  bool broadcasts = false;        // the loop takes operands of stride 0
  Scalar scalars[kMaxScalars];
};

struct Shape {
  int ndim = 0;
  int64_t size[kMaxDims];
  Dims dims() const { return {size, size_t(ndim)}; }
  void broadcast(const Tensor& t, const char* op) {
    if (t.ndim > ndim) {
      int added = t.ndim - ndim;
      std::move_backward(size, size + ndim, size + t.ndim);
      std::fill_n(size, added, int64_t(1));
      ndim = t.ndim;
    }
    for (int d = 1; d <= t.ndim; ++d) {
      int64_t &mine = size[ndim - d], theirs = t.sizes[t.ndim - d];
      if (mine == theirs || theirs == 1) continue;
      if (mine != 1)
        runtime_error(op, ": shapes do not broadcast: dimension ", ndim - d, " has sizes ", mine, " and ", theirs, ", "
                      "which must be equal or 1");
      mine = theirs;
    }
  }
};

int64_t broadcast_stride(const Tensor& t, const Shape& shape, int d) {  // in elements; d counts from the front of shape
  int own = d - (shape.ndim - t.ndim);
  return own < 0 || (t.sizes[own] == 1 && shape.size[d] != 1) ? 0 : t.strides[own];
}

// Strides of a fresh result: dense, its dimensions ordered as the operands' memory orders them (the first operand that
// can tell decides; equal strides by size), so that channels_last stays channels_last.
bool result_strides(const Plan& p, const Shape& shape, int64_t* strides) {
  int perm[kMaxDims];
  for (int d = 0; d < shape.ndim; ++d) perm[d] = shape.ndim - 1 - d;
  auto order = [&](int a, int b) {  // > 0: a moves through memory in larger steps
    for (int k = 1; k < p.count; ++k) {
      const Tensor* t = p.operand[k].tensor;
      if (!t) continue;
      int64_t x = broadcast_stride(*t, shape, a), y = broadcast_stride(*t, shape, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (shape.size[a] > shape.size[b]) return 1;
    }
    return 0;
  };
  bool moved = false;
  for (int i = 1; i < shape.ndim; ++i) {
    int slot = i;
    for (int j = i - 1; j >= 0; --j) {
      int o = order(perm[j], perm[slot]);
      if (o > 0) {
        std::swap(perm[j], perm[slot]);
        slot = j;
        moved = true;
      } else if (o < 0) {
        break;
      }
    }
  }
  if (!moved) return false;
  int64_t step = 1;
  for (int k = 0; k < shape.ndim; ++k) {
    strides[perm[k]] = step;
    step *= std::max<int64_t>(shape.size[perm[k]], 1);
  }
  return true;
}

bool dense(const Tensor& t) {  // each address of its range belongs to exactly one element
  if (t.contiguous()) return true;
  int64_t sizes[kMaxDims], strides[kMaxDims];
  int n = 0;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.sizes[d] == 1) continue;
    int at = n++;
    for (; at > 0 && strides[at - 1] > t.strides[d]; --at) sizes[at] = sizes[at - 1], strides[at] = strides[at - 1];
    sizes[at] = t.sizes[d];
    strides[at] = t.strides[d];
  }
  int64_t expected = 1;
  for (int d = 0; d < n; ++d) {
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}
std::pair<const char*, const char*> address_range(const Tensor& t) {
  const char *low = t.data, *high = t.data;
  for (int d = 0; d < t.ndim; ++d) {
    int64_t reach = (t.sizes[d] - 1) * t.strides[d] * t.itemsize();
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + t.itemsize()};
}
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || !same_sizes(a, b)) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Reading what has just been written would make the result depend on the order of the loop: two dense tensors that
// overlap partly are refused as PyTorch refuses them, an overlap through strides reads from a copy.
void check_overlap(Tensor& out, Plan& p, std::vector<TensorRef>& copies) {
  if (out.numel == 0) return;
  if (may_overlap(out))
    runtime_error("elements of the tensor written to share memory (it is expanded), so they cannot be written one by "
                  "one; clone() it first");
  auto [low, high] = address_range(out);
  for (int k = 1; k < p.count; ++k) {
    const Tensor* t = p.operand[k].tensor;
    if (!t || t->numel == 0 || t->storage != out.storage || same_layout(out, *t)) continue;
    auto [first, last] = address_range(*t);
    if (last <= low || high <= first) continue;
    if (dense(out) && dense(*t))
      runtime_error("the tensor written to shares memory with an input, at other places; clone() the input first");
    TensorRef copy = empty(t->shape(), t->dtype, t->device);
    copy_into(*copy, *t);
    p.operand[k].tensor = copy.get();
    p.operand[k].data = copy->data;
    copies.push_back(std::move(copy));
  }
}

Tensor& take_given(Call& c, const Shape& shape, DType result, Device device) {
  Tensor& out = *c.given;
  if (!can_cast(result, out.dtype))
    runtime_error(c.name(), ": the result is ", dtype_name(result), ", which a tensor of ", dtype_name(out.dtype),
                  " cannot hold");
  if (out.device.type != device.type)
    runtime_error(c.name(), ": expected the result on ", device_name(device), " but out is on ",
                  device_name(out.device));
  if (!std::ranges::equal(out.shape(), shape.dims())) {
    if (c.inplace)
      runtime_error(c.name(), ": the tensor written to has shape ", shape_text(out.shape()), " and cannot grow to ",
                    shape_text(shape.dims()));
    resize_for_out(out, shape.dims(), c.name());
  }
  c.push(TensorRef::borrow(&out));
  return out;
}

void bind_operands(const Call& c, const ElementwiseRow& row, Promote promote, Plan& p, Promotion& types, Shape& shape,
                   Device& device) {
  p.count = row.operands + 1;
  p.broadcasts = row.operands == 2 || row.any_stride;
  bool placed = false;
  for (int k = 0; k < row.operands; ++k) {
    const Value& v = c.args[k];
    Operand& o = p.operand[k + 1];
    bool mask = row.bool_operands >> k & 1;
    if (v.tag == Tag::Tensor) {
      const Tensor& t = *v.tensor;
      o.tensor = &t;
      o.data = t.data;
      o.dtype = t.dtype;
      if (mask && t.dtype != DType::Bool)
        runtime_error(c.name(), ": expected a boolean tensor as argument ", k, " but got ", dtype_name(t.dtype));
      shape.broadcast(t, c.name());
      const bool elsewhere = t.device.type != DeviceType::CPU;  // a 0-d tensor there is no mere number
      if (t.ndim > 0 || !placed || elsewhere) {
        if (placed && t.device.type != device.type && (t.ndim > 0 || elsewhere) && device.type != DeviceType::CPU)
          runtime_error(c.name(), ": tensors of two devices, ", device_name(device), " and ", device_name(t.device),
                        "; move one with .to()");
        device = t.device;
      }
      placed = true;
    } else {
      o.absent = v.none();
    }
    if (!mask && (promote != Promote::FirstOnly || k == 0)) types.add(v);
  }
  for (int k = 0; k < row.operands; ++k)
    if (const Tensor* t = p.operand[k + 1].tensor; t && t->ndim > 0 && t->device.type != device.type)
      runtime_error(c.name(), ": tensors of two devices, ", device_name(t->device), " and ", device_name(device),
                    "; move one with .to()");
}

// Beside a half a number keeps its float32 value: it is not rounded to the half first.
bool has_number(const Call& c) { return c.args[0].is_number() || c.args[1].is_number(); }

// An integer of 2**63 or more fits uint64, floating point and complex numbers; among others it would change its sign.
void check_huge(const Call& c, const ElementwiseRow& row, DType compute) {
  if (is_differentiable(compute) || compute == DType::UInt64) return;
  auto has_integers = [](const Value& v) { return v.tag == Tag::Tensor && is_integral(v.tensor->dtype); };
  if (row.modular && std::any_of(c.args, c.args + row.operands, has_integers)) return;
  for (int k = 0; k < c.nargs; ++k)
    if (c.args[k].tag == Tag::Int && c.args[k].huge)
      runtime_error(c.name(), ": ", uint64_t(c.args[k].i), " does not fit in ",
                    dtype_name(compute == DType::Bool ? DType::Int64 : compute),
                    "; use a float, or tensors of dtype uint64");
}

// The dtype of the loop's output and of the result.
DType decide_types(const Call& c, const ElementwiseRow& row, Promote promote, DType promoted, Plan& p, DType& compute) {
  compute = promoted;
  if (compute == DType::Undefined) runtime_error(c.name(), ": expected at least one tensor or number");
  if (promote == Promote::Logical) compute = DType::Bool;
  // a division with a rounding mode stays whole: only then has it loops for integers
  bool whole =
      is_integral(compute) && row.loop[int(compute)] && c.nargs > row.operands && c.args[row.operands].tag == Tag::Str;
  if (promote == Promote::IntToFloat && !is_differentiable(compute) && !whole) compute = default_dtype();
  if (promote == Promote::ComplexToReal && !is_differentiable(compute) && !row.loop[int(DType::Int64)])
    compute = default_dtype();
  DType result = promote == Promote::Compare || promote == Promote::Logical ? DType::Bool
                 : promote == Promote::ComplexToReal                       ? real_of(compute)
                                                                           : compute;
  if (row.adapt) row.adapt(c, compute, result);
  check_huge(c, row, compute);
  DType asked = compute;
  if (is_half(compute) && row.operands == 2 && has_number(c) && row.loop[int(DType::Float32)]) compute = DType::Float32;
  p.loop = pick_loop(row, compute);
  if (!p.loop) not_implemented("\"", c.name(), "\" not implemented for '", type_name(asked), "'");
  return result;
}

void prepare_space(Plan& p, const Shape& shape) {
  Space& s = p.space;
  s.operands = p.count;
  for (int d = shape.ndim - 1; d >= 0; --d) {
    if (shape.size[d] == 1) continue;
    for (int k = 0; k < p.count; ++k)
      s.stride[k][s.ndim] =
          p.operand[k].tensor ? broadcast_stride(*p.operand[k].tensor, shape, d) * p.operand[k].item : 0;
    s.add_dim(shape.size[d]);
  }
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    for (int k = 0; k < p.count; ++k) s.stride[k][0] = k == 0 ? p.operand[0].item : 0;
    s.add_dim(1);
  }
}

// An operand that runs along another dimension than the result touches a cache line per element: beyond the cache it is
// cheaper to lay it out like the result first (tile by tile).
bool worth_copying(const Plan& p, int k) {
  const Space& s = p.space;
  const Operand& o = p.operand[k];
  if (!o.tensor || s.ndim < 2 || s.stride[k][0] == o.item || s.stride[k][0] == 0) return false;
  if (s.size[0] < 32 || s.numel() < 16384) return false;
  for (int d = 1; d < s.ndim; ++d)
    if (s.stride[k][d] == o.item && s.size[d] >= 16) return true;
  return false;
}
void lay_out(Plan& p, const Shape& shape, std::vector<TensorRef>& copies) {
  bool any = false;
  for (int k = 1; k < p.count; ++k) {
    if (!worth_copying(p, k)) continue;
    const Tensor& t = *p.operand[k].tensor;
    const Tensor& out = *p.operand[0].tensor;
    if (t.numel != out.numel || !dense(out)) continue;
    TensorRef copy = empty_strided(out.shape(), out.stride(), t.dtype, t.device);
    copy_into(*copy, t);
    p.operand[k].tensor = copy.get();
    p.operand[k].data = copy->data;
    copies.push_back(std::move(copy));
    any = true;
  }
  if (!any) return;
  p.space.ndim = 0;
  prepare_space(p, shape);
}

// Converts what does not change over the whole space once.
void prepare_operands(const Call& c, const ElementwiseRow& row, Plan& p, DType compute) {
  for (int k = 1; k < p.count; ++k) {
    Operand& o = p.operand[k];
    o.loop_dtype = row.bool_operands >> (k - 1) & 1 ? DType::Bool : compute;
    o.loop_item = item_size(o.loop_dtype);
    if (o.absent) continue;
    if (!o.tensor) {
      store_scalar(o.number, c.args[k - 1].scalar(), o.loop_dtype);
      o.constant = true;
    } else {
      if (o.dtype != o.loop_dtype) o.cast = make_cast(o.dtype, o.loop_dtype);
      o.constant = p.space.constant(k);
      if (o.constant) {
        if (o.cast.steps) o.cast.apply(o.number, o.data, 1);
        else std::memcpy(o.number, o.data, o.item);
      }
    }
  }
}

void fill_block(char* buffer, const char* value, int64_t item, int64_t n) {
  visit_size(item,
             [&]<class U>() { std::fill_n(reinterpret_cast<U*>(buffer), n, *reinterpret_cast<const U*>(value)); });
}

// After how many elements operand k repeats itself: a vector along the inner dimensions has a short period.
int64_t period(const Space& s, int k) {
  int64_t elements = 1, repeats = 1;
  for (int d = 0; d < s.ndim; ++d) {
    elements *= s.size[d];
    if (s.stride[k][d]) repeats = elements;
  }
  return repeats;
}

// Whether every operand is one run, repeats itself within a block, or is a number: then short rows are joined.
bool joins_rows(const Plan& p) {
  for (int k = 0; k < p.count; ++k) {
    const Operand& o = p.operand[k];
    if (!o.absent && !o.constant && !p.space.linear(k, o.item) && (k == 0 || period(p.space, k) > kBlock / 2))
      return false;
  }
  return true;
}

// One thread's share: elements [begin, end) in iteration order.
struct Worker {
  const Plan& p;
  bool linear[kMaxOperands];    // one contiguous run in iteration order
  bool repeated[kMaxOperands];  // the same in each block: packed once
  bool direct[kMaxOperands];    // read or written in place: contiguous and of the loop's dtype
  bool broadcasts;              // the loop takes operands of stride 0
  int64_t block = kBlock;
  alignas(64) char buffer[kMaxOperands][kBlock * 16];
  alignas(64) char raw[kBlock * 16];

  explicit Worker(const Plan& plan) : p(plan), broadcasts(plan.broadcasts) {
    for (int k = 0; k < p.count; ++k) linear[k] = p.operand[k].tensor && p.space.linear(k, p.operand[k].item);
  }

  // Packs what repeats itself, and makes blocks a multiple of all periods (each divides the longer ones).
  void load_repeated(int64_t begin, int64_t end) {
    int64_t longest = 1;
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      const int64_t every = k == 0 || o.absent || o.constant || linear[k] ? kBlock : period(p.space, k);
      repeated[k] = every <= kBlock / 2;
      if (repeated[k]) longest = std::max(longest, every);
    }
    block = kBlock / longest * longest;
    for (int k = 1; k < p.count; ++k)
      if (repeated[k]) load(k, begin, std::min(block, end - begin));
  }

  void fill_constants() {
    if (broadcasts) return;
    for (int k = 1; k < p.count; ++k)
      if (p.operand[k].constant) fill_block(buffer[k], p.operand[k].number, p.operand[k].loop_item, kBlock);
  }
  void load(int k, int64_t start, int64_t n) {  // operand k packed and converted into its buffer
    const Operand& o = p.operand[k];
    if (o.cast.steps && linear[k]) return o.cast.apply(buffer[k], o.data + start * o.item, n);
    char* target = o.cast.steps ? raw : buffer[k];
    visit_size(o.item, [&]<class U>() { block_move<true, U>(p.space, k, o.data, start, n, target); });
    if (o.cast.steps) o.cast.apply(buffer[k], raw, n);
  }
  void store(int64_t start, int64_t n) {
    const Operand& o = p.operand[0];
    char* source = buffer[0];
    if (o.cast.steps && linear[0]) return o.cast.apply(o.data + start * o.item, buffer[0], n);
    if (o.cast.steps) {
      o.cast.apply(raw, buffer[0], n);
      source = raw;
    }
    visit_size(o.item, [&]<class U>() { block_move<false, U>(p.space, 0, o.data, start, n, source); });
  }

  // Blocks over the whole space: operands that are not one run are packed across rows.
  void run_blocks(int64_t begin, int64_t end) {
    bool whole = true;
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      direct[k] = linear[k] && !o.cast.steps;
      whole &= direct[k] || o.absent || (o.constant && broadcasts);
    }
    fill_constants();
    load_repeated(begin, end);
    char* ptr[kMaxOperands];
    int64_t stride[kMaxOperands];
    const int64_t step = whole ? end - begin : block;
    for (int64_t at = begin; at < end; at += step) {
      const int64_t n = std::min(step, end - at);
      for (int k = 0; k < p.count; ++k) {
        const Operand& o = p.operand[k];
        stride[k] = o.loop_item;
        if (o.absent) ptr[k] = nullptr, stride[k] = 0;
        else if (direct[k]) ptr[k] = o.data + at * o.item;
        else if (o.constant && broadcasts) ptr[k] = const_cast<char*>(o.number), stride[k] = 0;
        else {
          if (k > 0 && !o.constant && !repeated[k]) load(k, at, n);
          ptr[k] = buffer[k];
        }
      }
      p.loop(ptr, stride, n, p.scalars);
      if (!direct[0]) store(at, n);
    }
  }

  // Row by row along the inner dimension: contiguous rows are read and written where they are.
  // long because: one loop, whose pointers and scratch blocks all its steps share
  void run_rows(int64_t begin, int64_t end) {
    const Space& s = p.space;
    bool packs = false, inner_constant[kMaxOperands] = {};
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      direct[k] = o.tensor && !o.cast.steps && s.stride[k][0] == o.item;
      inner_constant[k] = k > 0 && !o.constant && !o.absent && s.stride[k][0] == 0;
      packs |= !direct[k] && !o.absent && !((o.constant || inner_constant[k]) && broadcasts);
    }
    fill_constants();
    int64_t index[kMaxDims], offset[kMaxOperands] = {}, rest = begin;
    for (int d = 0; d < s.ndim; ++d) {
      index[d] = rest % s.size[d];
      rest /= s.size[d];
      for (int k = 0; k < p.count; ++k) offset[k] += index[d] * s.stride[k][d];
    }
    char* ptr[kMaxOperands];
    int64_t stride[kMaxOperands];
    for (int64_t at = begin; at < end;) {
      int64_t n = std::min(end - at, s.size[0] - index[0]);
      if (packs) n = std::min(n, block);
      for (int k = 0; k < p.count; ++k) {
        const Operand& o = p.operand[k];
        stride[k] = o.loop_item;
        if (o.absent) ptr[k] = nullptr, stride[k] = 0;
        else if (direct[k]) ptr[k] = o.data + offset[k];
        else if (o.constant && broadcasts) ptr[k] = const_cast<char*>(o.number), stride[k] = 0;
        else if (inner_constant[k]) {
          ptr[k] = buffer[k];
          if (o.cast.steps) o.cast.apply(buffer[k], o.data + offset[k], 1);
          else std::memcpy(buffer[k], o.data + offset[k], o.item);
          if (broadcasts) {
            stride[k] = 0;
          } else {
            alignas(16) char value[16];
            std::memcpy(value, buffer[k], o.loop_item);
            fill_block(buffer[k], value, o.loop_item, n);
          }
        } else {
          if (k > 0 && !o.constant) load(k, at, n);
          ptr[k] = buffer[k];
        }
      }
      p.loop(ptr, stride, n, p.scalars);
      if (!direct[0]) store(at, n);
      at += n;
      index[0] += n;
      for (int k = 0; k < p.count; ++k) offset[k] += n * s.stride[k][0];
      for (int d = 0; d + 1 < s.ndim && index[d] == s.size[d]; ++d) {
        for (int k = 0; k < p.count; ++k) offset[k] += s.stride[k][d + 1] - index[d] * s.stride[k][d];
        index[d] = 0;
        ++index[d + 1];
      }
    }
  }
};

void execute(const Plan& p, int64_t numel, int weight) {
  const int64_t row = p.space.ndim > 1 ? p.space.size[0] : 0;
  const bool rows = row >= kLongRow || (row >= kShortRow && !joins_rows(p));
  parallel_for(numel, std::max<int64_t>(kGrain / weight, 1024), [&](int64_t begin, int64_t end) {
    Worker worker(p);
    if (rows) worker.run_rows(begin, end);
    else worker.run_blocks(begin, end);
  });
}

}  // namespace

// What is known of a call before its loop runs: `infer` of pointwise operators fills it, a device's kernel reads it.
struct Pointwise {
  const ElementwiseRow& row;
  Plan plan;
  Shape shape;
  DType compute = DType::Undefined, loop_out = DType::Undefined;
  Device device;
  Tensor* out = nullptr;
  std::vector<TensorRef> copies;  // operands that are read from elsewhere than where they stand
  explicit Pointwise(const ElementwiseRow& row) : row(row) {}
};

namespace {

void infer_pointwise(Call& c, Promote promote, Pointwise& w) {
  Plan& p = w.plan;
  Promotion types;
  bind_operands(c, w.row, promote, p, types, w.shape, w.device);
  DType result = decide_types(c, w.row, promote, types.result(), p, w.compute);
  w.loop_out = is_half(result) ? DType::Float32 : result;
  if (is_half(result) && w.row.loop[int(result)] && w.compute == result) w.loop_out = result;
  Dims dims = w.shape.dims();
  if (c.given) {
    if (!std::ranges::equal(c.given->shape(), dims)) {  // out= is resized: as an operand it stays what it was
      w.copies.push_back(alias(*c.given));
      for (int k = 1; k < p.count; ++k)
        if (p.operand[k].tensor == c.given) p.operand[k].tensor = w.copies.back().get();
    }
    w.out = &take_given(c, w.shape, result, w.device);
  } else {
    int64_t strides[kMaxDims];
    w.out = result_strides(p, w.shape, strides) ? &c.output(dims, result, w.device, Dims{strides, dims.size()})
                                                : &c.output(dims, result, w.device);
  }
}

void compute_pointwise(Call& c, Pointwise& w) {
  Plan& p = w.plan;
  Tensor& out = *w.out;
  if (out.numel == 0) return;
  if (c.given) check_overlap(out, p, w.copies);
  Operand& o = p.operand[0];
  o.tensor = &out;
  o.data = out.data;
  o.dtype = out.dtype;
  o.loop_dtype = w.loop_out;
  o.loop_item = item_size(w.loop_out);
  if (o.dtype != w.loop_out) o.cast = make_cast(w.loop_out, o.dtype);
  for (int k = 0; k < p.count; ++k)
    if (p.operand[k].tensor) p.operand[k].item = item_size(p.operand[k].dtype);
  prepare_space(p, w.shape);
  lay_out(p, w.shape, w.copies);
  prepare_operands(c, w.row, p, w.compute);
  read_scalars(c, w.row, p.scalars);
  LockRelease lock(out.numel * (w.row.weight == kByValue ? 1 << 20 : w.row.weight));
  execute(p, out.numel, w.row.weight);
}
const bool computes = (devices[int(DeviceType::CPU)].pointwise = compute_pointwise, true);

void check_tensors(const Call& c, const ElementwiseRow& row) {
  if (row.operands == 1) return;
  for (int k = 0; k < row.operands; ++k)
    if (c.args[k].tag == Tag::Tensor) return;
  type_error(c.name(), "(): expected a Tensor among the first ", int(row.operands), " arguments, got numbers only");
}

}  // namespace

void run_elementwise(Call& c, const ElementwiseRow& row, Promote promote) {
  if (run_short(c, row, promote)) return;
  check_tensors(c, row);
  Calling calling(c);
  Pointwise w(row);
  infer_pointwise(c, promote, w);
  table_of(w.out->device).pointwise(c, w);
}

void describe_elementwise(Call& c, const ElementwiseRow& row, Promote promote) {
  check_tensors(c, row);
  Pointwise w(row);
  infer_pointwise(c, promote, w);
}

// --- registration -------------------------------------------------------------------------------------------------

// Files register in any order: a loop of the better instruction set replaces one of the baseline, never the reverse.
// Exported, so that rows may stand in a library of their own (examples/add_an_operator).
__attribute__((visibility("default"))) ElementwiseRows::ElementwiseRows(int level, void (*make)(ElementwiseRows&))
    : level(level) {
  if (level <= cpu_level()) make(*this);
}

__attribute__((visibility("default"))) void ElementwiseRows::add(std::initializer_list<ElementwiseRow> rows) {
  static std::unordered_map<std::string_view, std::array<int8_t, kDTypes>> levels;
  for (const ElementwiseRow& row : rows) {
    auto [at, fresh] = table().try_emplace(row.name, ElementwiseRow{row.name});
    ElementwiseRow& merged = at->second;
    auto [seen, first] = levels.try_emplace(row.name);
    if (first) seen->second.fill(-1);
    for (int d = 0; d < kDTypes; ++d) {
      if (!row.loop[d] || level <= seen->second[d]) continue;
      merged.loop[d] = row.loop[d];
      seen->second[d] = int8_t(level);
    }
    if (row.operands) {
      merged.operands = row.operands;
      merged.bool_operands = row.bool_operands;
      merged.any_stride = row.any_stride;
      merged.weight = std::max(merged.weight, row.weight);
    }
    merged.modular |= row.modular;
    if (row.adapt) merged.adapt = row.adapt;
  }
}

const ElementwiseRow* find_elementwise(std::string_view name) {
  auto at = table().find(name);
  return at == table().end() ? nullptr : &at->second;
}

}  // namespace flambeau
