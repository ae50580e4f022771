// Plans a pointwise call: promotes dtypes, broadcasts shapes, orders and merges dimensions, and chooses the layout of
// the result and the loop.
#include <algorithm>
#include <string>
#include <string_view>

#include "../core/hooks.h"
#include "pointwise.h"

namespace flambeau::pointwise {

namespace {

// PyTorch's names of dtypes in its messages about casting.
const char* type_name(DType t) {
  static constexpr const char* names[] = {"Bool",          "Byte",        "Char",     "Short",        "UInt16",
                                          "Int",           "UInt32",      "Long",     "UInt64",       "Half",
                                          "BFloat16",      "Float",       "Double",   "ComplexFloat", "ComplexDouble",
                                          "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz",
                                          "Float8_e5m2fnuz", "Float8_e8m0fnu", "Float4_e2m1fn_x2", "ComplexHalf",
                                          "QInt8", "QUInt8", "QInt32", "Undefined"};
  return names[int(t)];
}

bool can_cast(DType from, DType to) {
  return category(from) <= category(to) || (is_differentiable(from) && category(from) == category(to));
}

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

// The few operators that 8-bit floats have, as in PyTorch: comparing for equality, choosing, and what scales are for.
bool offered_for_float8(std::string_view name, DType t) {
  static constexpr std::string_view names[] = {"eq", "ne", "mul", "isnan", "isinf", "isfinite", "where"};
  if (!is_float8(t) || t == DType::Float4_e2m1fn_x2) return false;
  return std::ranges::find(names, name) != std::end(names) || (name == "abs" && t != DType::Float8_e8m0fnu);
}

// A row's loop at a dtype; halves and 8-bit floats compute in float32, pairs of halves in complex64. `compute` becomes
// the loop's dtype.
LoopFn pick_loop(const ElementwiseRow& row, DType& compute) {
  if (compute == DType::Undefined) return nullptr;
  if (LoopFn f = row.loop[int(compute)]) return f;
  const DType wide = offered_for_float8(row.name, compute) ? DType::Float32 : wide_of(compute);
  if (wide == compute) return nullptr;
  compute = wide;
  return row.loop[int(compute)];
}

int64_t broadcast_stride(const Tensor& t, const Shape& shape, int d) {  // in elements; d counts from the front of shape
  int own = d - (shape.ndim - t.ndim);
  return own < 0 || (t.sizes[own] == 1 && shape.size[d] != 1) ? 0 : t.strides[own];
}

// Whether all operands are numbers or contiguous tensors: none wants another order of dimensions. Dimensions of size 1
// may have any stride there, and say nothing of it.
bool all_contiguous(const Plan& p) {
  return std::all_of(p.operand + 1, p.operand + p.count,
                     [](const Operand& o) { return !o.tensor || o.tensor->contiguous(); });
}

// Strides of a fresh result: dense, its dimensions ordered as the operands' memory orders them (the first operand that
// can tell decides; equal strides by size), so that channels_last stays channels_last.
bool result_strides(const Plan& p, const Shape& shape, int64_t* strides) {
  if (all_contiguous(p)) return false;
  return ordered_strides(shape.dims(), [&](int a, int b) {
    for (int k = 1; k < p.count; ++k) {
      const Tensor* t = p.operand[k].tensor;
      if (!t) continue;
      const int64_t x = broadcast_stride(*t, shape, a), y = broadcast_stride(*t, shape, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (shape.size[a] > shape.size[b]) return 1;
    }
    return 0;
  }, strides);
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
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || !same_sizes(a, b)) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
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

// Masks were bytes once: `where` still takes them.
void check_mask(const Call& c, int k, DType dtype) {
  if (dtype != DType::UInt8 || std::string_view(c.name()) != "where")
    runtime_error(c.name(), ": expected a boolean tensor as argument ", k, " but got ", dtype_name(dtype));
  hooks.warn("where: a condition of dtype uint8 is out of date; convert it with condition.bool()");
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
      if (mask && t.dtype != DType::Bool) check_mask(c, k, t.dtype);
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

// Beside a half a number keeps its float32 value: it is not rounded to the half first. So does a factor or divisor
// without dimensions that comes second; what is compared is rounded.
bool has_number(const Call& c, const ElementwiseRow& row) {
  if (c.args[0].is_number() || c.args[1].is_number()) return true;
  const Value& v = c.args[1];
  return v.tag == Tag::Tensor && v.tensor->ndim == 0 && is_floating(v.tensor->dtype) &&
         (std::string_view(row.name) == "mul" || std::string_view(row.name) == "div");
}

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
  if (is_half(compute) && row.operands == 2 && promote != Promote::Compare && has_number(c, row) &&
      row.loop[int(DType::Float32)])
    compute = DType::Float32;
  p.loop = pick_loop(row, compute);
  if (!p.loop) not_implemented("\"", c.name(), "\" not implemented for '", type_name(asked), "'");
  return result;
}

}  // namespace

// Reading what has just been written would make the result depend on the order of the loop: two dense tensors that
// overlap partly are refused as PyTorch refuses them, an overlap through strides reads from a copy.
void check_overlap(Tensor& out, Plan& p, std::vector<TensorRef>& copies) {
  if (out.numel == 0) return;
  if (may_overlap(out))
    runtime_error("elements of the tensor written to share memory (it is expanded), so they cannot be written one by "
                  "one; clone() it first");
  for (int k = 1; k < p.count; ++k) {
    const Tensor* t = p.operand[k].tensor;
    if (!t || !ranges_meet(out, *t) || same_layout(out, *t)) continue;
    if (dense(out) && dense(*t))
      runtime_error("the tensor written to shares memory with an input, at other places; clone() the input first");
    TensorRef copy = empty(t->shape(), t->dtype, t->device);
    copy_into(*copy, *t);
    p.operand[k].tensor = copy.get();
    p.operand[k].data = copy->data;
    copies.push_back(std::move(copy));
  }
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

namespace {

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
void prepare_operands(const Call& c, const Pointwise& w, Plan& p) {
  const DType compared = w.compared;
  for (int k = 1; k < p.count; ++k) {
    Operand& o = p.operand[k];
    o.loop_dtype = w.row.bool_operands >> (k - 1) & 1 ? DType::Bool : w.compute;
    o.loop_item = item_size(o.loop_dtype);
    if (o.absent) continue;
    if (!o.tensor) {
      const bool rounds = is_half(compared) && o.loop_dtype != compared;
      alignas(16) char half[16];
      store_scalar(rounds ? half : o.number, c.args[k - 1].scalar(), rounds ? compared : o.loop_dtype);
      if (rounds) make_cast(compared, o.loop_dtype).apply(o.number, half, 1);
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

}  // namespace

void infer(Call& c, Promote promote, Pointwise& w) {
  Plan& p = w.plan;
  Promotion types;
  bind_operands(c, w.row, promote, p, types, w.shape, w.device);
  if (promote == Promote::Compare) w.compared = types.result();
  DType result = decide_types(c, w.row, promote, types.result(), p, w.compute);
  w.loop_out = is_float8(result) ? DType::Float32 : wide_of(result);
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
    const bool ordered = !w.row.in_order && result_strides(p, w.shape, strides);
    w.out = ordered ? &c.output(dims, result, w.device, Dims{strides, dims.size()}) : &c.output(dims, result, w.device);
  }
}

void prepare(Call& c, Pointwise& w) {
  Plan& p = w.plan;
  Tensor& out = *w.out;
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
  prepare_operands(c, w, p);
  read_scalars(c, w.row, p.scalars);
}

}  // namespace flambeau::pointwise
