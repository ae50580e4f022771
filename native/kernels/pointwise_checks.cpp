// What pointwise operators refuse beyond promotion, in PyTorch's words; the loops themselves stand in simd/.
#include <string_view>

#include "cast.h"
#include "elementwise.h"

namespace flambeau {

void zero_division() { runtime_error("ZeroDivisionError"); }
void not_probabilities() {
  runtime_error("binary_cross_entropy: all elements of input should be between 0 and 1; apply a sigmoid, or use binary_cross_entropy_with_logits");
}

namespace {

bool number_between(const Value& v, Tag low, Tag high) { return v.tag >= low && v.tag <= high; }

void check_alpha(const Call& c, DType& compute, DType&) {
  const Value& alpha = c.args[2];
  if (alpha.tag == Tag::Int && alpha.i == 1) return;
  if (alpha.tag == Tag::Bool && compute != DType::Bool) runtime_error("Boolean alpha only supported for Boolean results.");
  if (!is_differentiable(compute) && number_between(alpha, Tag::Float, Tag::Complex))
    runtime_error("For integral input tensors, argument alpha must not be a floating point number.");
  if (!is_complex(compute) && alpha.tag == Tag::Complex)
    runtime_error("For non-complex input tensors, argument alpha must not be a complex number.");
}
void check_sub(const Call& c, DType& compute, DType& result) {
  auto is_bool = [](const Value& v) { return v.tag == Tag::Bool || (v.tag == Tag::Tensor && v.tensor->dtype == DType::Bool); };
  bool first = is_bool(c.args[0]), second = is_bool(c.args[1]);
  if (first && second)
    runtime_error("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.");
  if (first || second)
    runtime_error("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
                  "the `~` or `logical_not()` operator instead.");
  check_alpha(c, compute, result);
}
void check_neg(const Call&, DType& compute, DType&) {
  if (compute == DType::Bool)
    runtime_error("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
                  "`~` or `logical_not()` operator instead.");
}
void check_pow(const Call& c, DType& compute, DType&) {
  const Value& exponent = c.args[1];
  if (exponent.tag == Tag::Int && exponent.i < 0 && is_integral(compute))
    runtime_error("Integers to negative integer powers are not allowed.");
}
void check_div(const Call& c, DType& compute, DType&) {
  if (!c.has(2)) return;
  std::string_view mode = c.str(2);
  if (mode != "trunc" && mode != "floor")
    runtime_error("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode, "'");
  if (is_complex(compute)) not_implemented("div with rounding_mode is not implemented for '", dtype_name(compute), "'");
}
void check_clamp(const Call& c, DType& compute, DType&) {
  if (!c.has(1) && !c.has(2)) runtime_error("torch.clamp: At least one of 'min' or 'max' must not be None");
  if (is_complex(compute)) not_implemented("clamp is not supported for complex types");
}
void check_extremum(const Call& c, DType& compute, DType&) {
  if (is_complex(compute)) runtime_error(c.name(), " not implemented for complex tensors.");
}
void check_round(const Call& c, DType& compute, DType&) {
  if (c.nargs > 1 && c.args[1].tag == Tag::Int && c.args[1].i != 0 && !is_floating(compute))
    not_implemented("\"round\" with decimals not implemented for '", dtype_name(compute), "'");
}
void whole_square(const Call&, DType& compute, DType& result) {
  if (compute == DType::Bool) compute = result = DType::Int64;
}
void check_sign(const Call&, DType& compute, DType&) {
  if (is_complex(compute))
    runtime_error("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.");
}
void check_relu(const Call& c, DType& compute, DType&) {
  if (compute == DType::Bool) runtime_error("Boolean inputs not supported for ", c.name());
}
void check_lerp(const Call& c, DType&, DType&) {
  static constexpr const char* names[] = {"self", "end", "weight"};
  for (int k = 1; k < 3; ++k)
    if (c.args[k].tag == Tag::Tensor && c.args[0].tag == Tag::Tensor && c.tensor(k).dtype != c.tensor(0).dtype)
      runtime_error("expected dtype ", dtype_name(c.tensor(0).dtype), " for `", names[k], "` but got dtype ", dtype_name(c.tensor(k).dtype));
}
void check_softshrink(const Call& c, DType&, DType&) {
  if (c.scalar(1).to<double>() < 0) runtime_error("softshrink: lambd must be greater or equal to 0, but found to be ", c.scalar(1).to<double>(), ".");
}
void check_abs(const Call& c, DType& compute, DType&) {
  if (c.inplace && is_complex(compute)) runtime_error("In-place abs is not supported for complex tensors.");
}
void check_addcdiv(const Call&, DType& compute, DType&) {
  if (!is_differentiable(compute))
    runtime_error("Integer division with addcdiv is no longer supported: use addcmul(self, tensor1, 1 / tensor2), or truncate or "
                  "floor the quotient explicitly");
}
void check_heaviside(const Call& c, DType&, DType&) {
  if (c.args[0].tag == Tag::Tensor && c.args[1].tag == Tag::Tensor && c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error("heaviside is not yet implemented for tensors with different dtypes.");
}
void check_masked_fill(const Call& c, DType& compute, DType&) {
  const Value& value = c.args[2];
  if (value.is_number()) return check_fits(value.scalar(), compute);
  if (value.tag != Tag::Tensor) return;
  if (value.tensor->ndim > 0)
    runtime_error("masked_fill only supports a 0-dimensional value tensor, but got tensor with ", int(value.tensor->ndim), " dimension(s).");
  if (category(value.tensor->dtype) == Category::Complex && !is_complex(compute))
    runtime_error("value cannot be converted to type ", dtype_name(compute), " without overflow");
}
void check_gelu(const Call& c, DType&, DType&) {
  std::string_view how = c.str(c.nargs - 1 > 2 ? 2 : c.nargs - 1);
  if (how != "none" && how != "tanh") runtime_error("approximate argument must be either none or tanh.");
}
void check_two_tensors(const Call& c, DType&, DType&) {
  static const char* const names[] = {"self", "other"};
  for (int k = 0; k < 2; ++k)
    if (c.args[k].is_number()) type_error(c.name(), "(): argument '", names[k], "' (position ", k + 1, ") must be Tensor, not a number");
}
ElementwiseRow checked(const char* name, void (*adapt)(const Call&, DType&, DType&)) {
  ElementwiseRow row{name};
  row.operands = 0;  // no loops of its own: added to the row of that name
  row.adapt = adapt;
  return row;
}

const ElementwiseRows rows(kBaseline, [](ElementwiseRows& r) {
  r.add({checked("add", check_alpha), checked("sub", check_sub), checked("rsub", check_sub), checked("neg", check_neg), checked("div", check_div), checked("square", whole_square),
         checked("pow", check_pow), checked("abs", check_abs), checked("softshrink", check_softshrink), checked("clamp", check_clamp), checked("maximum", check_extremum),
         checked("minimum", check_extremum), checked("fmax", check_extremum), checked("fmin", check_extremum),
         checked("round", check_round), checked("sign", check_sign), checked("relu", check_relu), checked("relu6", check_relu),
         checked("hardtanh", check_relu), checked("lerp", check_lerp), checked("addcdiv", check_addcdiv),
         checked("heaviside", check_heaviside), checked("masked_fill", check_masked_fill), checked("gelu", check_gelu),
         checked("gelu_backward", check_gelu), checked("igamma", check_two_tensors),
         checked("igammac", check_two_tensors)});
});

}  // namespace

}  // namespace flambeau
