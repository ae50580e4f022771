// What pointwise operators refuse beyond promotion, in PyTorch's words; the loops themselves stand in simd/.
#include <string_view>

#include "cast.h"
#include "../core/machine.h"
#include "elementwise.h"

namespace flambeau {

void zero_division() { runtime_error("ZeroDivisionError"); }
void not_probabilities() {
  runtime_error("binary_cross_entropy: input must hold probabilities, from 0 to 1; apply a sigmoid, or use "
                "binary_cross_entropy_with_logits");
}

namespace {

bool number_between(const Value& v, Tag low, Tag high) { return v.tag >= low && v.tag <= high; }

void check_alpha(const Call& c, DType& compute, DType&) {
  const Value& alpha = c.args[2];
  if (alpha.tag == Tag::Int && alpha.i == 1) return;
  if (alpha.tag == Tag::Bool && compute != DType::Bool) runtime_error("alpha: True and False multiply booleans only; "
                                                                      "pass a number");
  if (!is_differentiable(compute) && number_between(alpha, Tag::Float, Tag::Complex))
    runtime_error("alpha must be an integer for integer tensors");
  if (!is_complex(compute) && alpha.tag == Tag::Complex)
    runtime_error("alpha must be real for real tensors");
}
void check_sub(const Call& c, DType& compute, DType& result) {
  auto is_bool = [](const Value& v) {
    return v.tag == Tag::Bool || (v.tag == Tag::Tensor && v.tensor->dtype == DType::Bool);
  };
  bool first = is_bool(c.args[0]), second = is_bool(c.args[1]);
  if (first && second)
    runtime_error("- is not defined between booleans; ^ (logical_xor) says where they differ");
  if (first || second)
    runtime_error("- is not defined for booleans; ~ (logical_not) inverts a mask");
  check_alpha(c, compute, result);
}
void check_neg(const Call&, DType& compute, DType&) {
  if (compute == DType::Bool)
    runtime_error("- is not defined for booleans; ~ (logical_not) inverts a mask");
}
void check_pow(const Call& c, DType& compute, DType&) {
  const Value& exponent = c.args[1];
  if (exponent.tag == Tag::Int && exponent.i < 0 && !exponent.huge && is_integral(compute))
    runtime_error("an integer to the power of ", exponent.i, " is no integer; convert the base first, x.float()");
}
void check_div(const Call& c, DType& compute, DType&) {
  if (!c.has(2)) return;
  std::string_view mode = c.str(2);
  if (mode != "trunc" && mode != "floor")
    runtime_error("div: rounding_mode must be None, 'trunc' or 'floor', got '", mode, "'");
  if (is_complex(compute)) not_implemented("div with rounding_mode is not implemented for '", dtype_name(compute), "'");
}
void check_clamp(const Call& c, DType& compute, DType&) {
  if (!c.has(1) && !c.has(2)) runtime_error("clamp: neither min nor max is given");
  if (is_complex(compute)) not_implemented("clamp: complex numbers have no order");
}
void check_extremum(const Call& c, DType& compute, DType&) {
  if (is_complex(compute)) runtime_error(c.name(), ": complex numbers have no order");
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
    runtime_error("sign: a complex number has no sign; sgn is its direction x / |x|");
}
void check_relu(const Call& c, DType& compute, DType&) {
  if (compute == DType::Bool) runtime_error(c.name(), ": expected numbers, got bool; use x.int()");
}
void check_lerp(const Call& c, DType&, DType&) {
  static constexpr const char* names[] = {"self", "end", "weight"};
  for (int k = 1; k < 3; ++k)
    if (c.args[k].tag == Tag::Tensor && c.args[0].tag == Tag::Tensor && c.tensor(k).dtype != c.tensor(0).dtype &&
        (k == 1 || c.tensor(2).ndim > 0))  // a weight without dimensions is a number
      runtime_error("expected dtype ", dtype_name(c.tensor(0).dtype), " for `", names[k], "` but got dtype ",
                    dtype_name(c.tensor(k).dtype));
}
void check_softshrink(const Call& c, DType&, DType&) {
  if (c.scalar(1).to<double>() < 0) runtime_error("softshrink: lambd must not be negative, got ",
                                                  c.scalar(1).to<double>());
}
void check_abs(const Call& c, DType& compute, DType&) {
  if (c.inplace && is_complex(compute)) runtime_error("abs_: the result is real and the tensor complex; use x.abs()");
}
void check_addcmul(const Call& c, DType& compute, DType&) {
  if (!is_complex(compute) && c.nargs > 3 && c.args[3].tag == Tag::Complex)
    runtime_error(c.name(), ": value must be real for real tensors");
}
void check_addcdiv(const Call& c, DType& compute, DType& result) {
  if (!is_differentiable(compute))
    runtime_error("addcdiv: a quotient of integers is no integer; convert the tensors first, or use addcmul(self, "
                  "tensor1, 1 / tensor2)");
  check_addcmul(c, compute, result);
}
void check_heaviside(const Call& c, DType&, DType&) {
  if (c.args[0].tag == Tag::Tensor && c.args[1].tag == Tag::Tensor && c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error("heaviside: both tensors must have one dtype, got ", dtype_name(c.tensor(0).dtype), " and ",
                  dtype_name(c.tensor(1).dtype));
}
void check_masked_fill(const Call& c, DType& compute, DType&) {
  const Value& value = c.args[2];
  if (value.is_number()) return check_fits(value.scalar(), compute);
  if (value.tag != Tag::Tensor) return;
  if (value.tensor->ndim > 0)
    runtime_error("masked_fill: the value must be a number or a tensor without dimensions, got ",
                  int(value.tensor->ndim), " dimensions");
  if (category(value.tensor->dtype) == Category::Complex && !is_complex(compute))
    runtime_error("a complex number cannot be written into a tensor of ", dtype_name(compute));
}
void check_gelu(const Call& c, DType&, DType&) {
  std::string_view how = c.str(c.nargs - 1 > 2 ? 2 : c.nargs - 1);
  if (how != "none" && how != "tanh") runtime_error("gelu: approximate must be 'none' or 'tanh', got '", how, "'");
}
void check_two_tensors(const Call& c, DType&, DType&) {
  static const char* const names[] = {"self", "other"};
  for (int k = 0; k < 2; ++k)
    if (c.args[k].is_number())
      type_error(c.name(), "(): argument '", names[k], "' (position ", k + 1, ") must be Tensor, not a number");
}
// What is added to the row of that name, which has the loops.
ElementwiseRow marked(const char* name, bool ElementwiseRow::*fact) {
  ElementwiseRow row{name};
  row.operands = 0;
  row.*fact = true;
  return row;
}
ElementwiseRow checked(const char* name, void (*adapt)(const Call&, DType&, DType&)) {
  ElementwiseRow row{name};
  row.operands = 0;
  row.adapt = adapt;
  return row;
}

const ElementwiseRows rows(kBaseline, [](ElementwiseRows& r) {
  r.add({checked("add", check_alpha),
         checked("sub", check_sub),
         checked("rsub", check_sub),
         checked("neg", check_neg),
         checked("div", check_div),
         checked("square", whole_square),
         checked("pow", check_pow),
         checked("abs", check_abs),
         checked("softshrink", check_softshrink),
         checked("clamp", check_clamp),
         checked("maximum", check_extremum),
         checked("minimum", check_extremum),
         checked("fmax", check_extremum),
         checked("fmin", check_extremum),
         checked("round", check_round),
         checked("sign", check_sign),
         checked("relu", check_relu),
         checked("relu6", check_relu),
         checked("hardtanh", check_relu),
         checked("lerp", check_lerp),
         checked("addcmul", check_addcmul),
         checked("addcdiv", check_addcdiv),
         checked("heaviside", check_heaviside),
         checked("masked_fill", check_masked_fill),
         checked("gelu", check_gelu),
         checked("gelu_backward", check_gelu),
         checked("igamma", check_two_tensors),
         checked("igammac", check_two_tensors)});
  for (const char* name : {"add", "sub", "rsub", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"})
    r.add({marked(name, &ElementwiseRow::modular)});
  for (const char* name : {"masked_fill", "logsigmoid"}) r.add({marked(name, &ElementwiseRow::in_order)});
});

}  // namespace

}  // namespace flambeau
