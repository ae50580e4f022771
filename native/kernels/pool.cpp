// Pooling in one to three dimensions: which windows the arguments describe, and the shape of the result.
#include "pool.h"

namespace flambeau::pool {

void check_pooled(const Call& c, int64_t nd, int64_t lead) {
  if (nd < 1 || nd > 3 || lead < 0) runtime_error(c.name(), ": expected 1 to 3 pooled dimensions, got ", nd);
}
void check_input(const Call& c, const Tensor& x, int nd, bool empty_channels) {
  check_pooled(c, nd);
  bool good = x.ndim == nd + 1 || x.ndim == nd + 2;
  for (int d = x.ndim - nd - !empty_channels; good && d < x.ndim; ++d) good = x.size(d) > 0;
  if (!good)
    runtime_error(c.name(), ": input must have ", nd + 2, " dimensions, or ", nd + 1, " without a batch, and only the "
                  "batch", empty_channels ? " and the channels" : "", " may be empty, got shape ",
                  shape_text(x.shape()));
}

namespace {

int64_t pick(Dims given, int nd, int d, const Call& c, const char* what, int64_t least) {
  if (given.size() != 1 && int(given.size()) != nd)
    runtime_error(c.name(), ": ", what, " must be an int or ", nd, " ints, got ", shape_text(given));
  int64_t v = given.size() == 1 ? given[0] : given[d];
  if (v < least) runtime_error(c.name(), ": ", what, " should be ", least ? "greater than zero" : "zero or more",
      ", but got ", shape_text(given));
  if (v > (int64_t(1) << 40)) runtime_error(c.name(), ": ", what, "=", shape_text(given), " is too large");
  return v;
}

int64_t pooled(const Axis& a, bool ceil_mode) {
  int64_t room = a.in + 2 * a.pad - a.dilation * (a.kernel - 1) - 1;
  int64_t n = room < 0 && !ceil_mode ? 0 : (room + (ceil_mode ? a.stride - 1 : 0)) / a.stride + 1;
  if (room + (ceil_mode ? a.stride - 1 : 0) < 0) n = 0;
  if (ceil_mode && (n - 1) * a.stride >= a.in + a.pad) --n;
  return n;
}

// What the first `lead` sizes say: so many planes, each pooled on its own.
void lead_planes(const Call& c, Shape& s, Dims sizes, int lead) {
  if (std::ranges::any_of(sizes, [](int64_t n) { return n < 0; }))
    runtime_error(c.name(), ": sizes must not be negative, got ", shape_text(sizes));
  s.planes = size_product(c.name(), sizes.first(size_t(lead)));
  s.result.reserve(sizes.size());
  s.result.assign(sizes.begin(), sizes.begin() + lead);
}

}  // namespace

Shape plain_shape(const Call& c, Dims sizes, int lead, Dims kernel, Dims stride, Dims pad, Dims dilation,
                  bool ceil_mode, bool include_pad) {
  Shape s;
  int nd = int(sizes.size()) - lead;
  check_pooled(c, nd, lead);
  lead_planes(c, s, sizes, lead);
  for (int d = 0; d < nd; ++d) {
    Axis& a = s.axis[3 - nd + d];
    a.in = sizes[lead + d];
    a.kernel = pick(kernel, nd, d, c, "kernel_size", 1);
    a.stride = stride.empty() ? a.kernel : pick(stride, nd, d, c, "stride", 1);
    a.pad = pick(pad, nd, d, c, "padding", 0);
    a.dilation = dilation.empty() ? 1 : pick(dilation, nd, d, c, "dilation", 1);
    int64_t span;
    if (__builtin_mul_overflow(a.kernel - 1, a.dilation, &span) || span > (int64_t(1) << 41))
      runtime_error(c.name(), ": the dilated kernel is too large");
    if (a.pad > (span + 1) / 2)
      runtime_error(c.name(), ": padding ", a.pad, " is more than half of the kernel (kernel_size=", a.kernel,
                    ", dilation=", a.dilation, "), so a window could lie in it entirely");
    a.out = pooled(a, ceil_mode);
    if (a.out < 1)
      runtime_error(c.name(), ": the kernel is larger than the input: of input ", shape_text(sizes), " dimension ",
                    lead + d, " would get size ", a.out);
    s.result.push_back(a.out);
  }
  for (Axis& a : s.axis) {
    a.include_pad = include_pad;
    a.tabulate();
  }
  s.check(c.name());
  return s;
}

Shape adaptive_shape(const Call& c, Dims sizes, int lead, Dims output) {
  Shape s;
  int nd = int(sizes.size()) - lead;
  check_pooled(c, nd, lead);
  lead_planes(c, s, sizes, lead);
  for (int d = 0; d < nd; ++d) {
    Axis& a = s.axis[3 - nd + d];
    a.in = sizes[lead + d];
    a.out = pick(output, nd, d, c, "output_size", 0);
    s.result.push_back(a.out);
  }
  count(s.result);
  for (Axis& a : s.axis) {
    a.even = false;
    a.tabulate();
  }
  s.check(c.name());
  return s;
}

Shape adaptive_of(const Call& c) {
  Tensor& x = c.tensor(0);
  int nd = int(c.integer(2));
  check_input(c, x, nd, true);
  return adaptive_shape(c, x.shape(), lead_of(x, nd), c.ints(1));
}
void need_floating(const Call& c, DType t) {
  if (!is_floating(t) || is_float8(t)) runtime_error(c.name(), ": not implemented for dtype ", dtype_name(t));
}

}  // namespace flambeau::pool
