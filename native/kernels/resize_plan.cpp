// What interpolate and its gradient are asked for: sizes and scales as one number for each dimension, and the mode.
#include <cmath>
#include <string>

#include "resize.h"

namespace flambeau::resizing {
namespace {

struct Named {
  std::string_view name;
  Mode mode;
  int least, most;  // dimensions it is for
};
constexpr Named kModes[] = {{"nearest", Mode::Nearest, 1, 3},  {"nearest-exact", Mode::NearestExact, 1, 3},
                            {"linear", Mode::Linear, 1, 1},    {"bilinear", Mode::Linear, 2, 2},
                            {"trilinear", Mode::Linear, 3, 3}, {"bicubic", Mode::Cubic, 2, 2},
                            {"lanczos", Mode::Lanczos, 2, 2},  {"area", Mode::Area, 1, 3}};

Mode mode_of(const Call& c, std::string_view name, int nd) {
  std::string all;
  for (const Named& m : kModes) {
    if (m.name == name && m.least <= nd && nd <= m.most) return m.mode;
    all += (all.empty() ? "" : ", ") + std::string(m.name);
  }
  not_implemented(c.name(), ": mode '", name, "' is not available for a ", nd + 2, "D input; the modes are ", all);
}
bool mixes(std::string_view mode) { return mode != "nearest" && mode != "area" && mode != "nearest-exact"; }

// A list of one number for each dimension, or kOneForAll times the number that was given alone: what the schema's
// [4] makes of it, so that it differs from every list that fits.
constexpr size_t kOneForAll = 4;
template <class T>
void spread(const Call& c, const char* what, const T* given, size_t count, int nd, T* to) {
  if (count != kOneForAll && int(count) != nd)
    value_error(c.name(), ": ", what, " must hold one number per spatial dimension of input, ", nd, ", got ", count);
  std::copy_n(given, nd, to);
}
void scaled(const Call& c, Dims in, const double* factors, int64_t* size) {
  for (size_t d = 0; d < in.size(); ++d) {
    const double n = std::floor(double(in[d]) * factors[d]);
    if (!(std::fabs(n) < 1e15)) runtime_error(c.name(), ": scale_factor=", factors[d], " makes no size of ", in[d]);
    size[d] = int64_t(n);
  }
}
void check_options(const Call& c, std::string_view mode, int nd) {
  if (c.has(4) && !mixes(mode))
    value_error(c.name(), ": align_corners means nothing for mode='", mode, "'; leave it out, or use linear, bilinear, "
                "bicubic or trilinear");
  if (c.has(1) && c.has(2))
    value_error(c.name(), ": size and scale_factor both set the size of the result; pass one of them");
  if (!c.has(1) && !c.has(2))
    value_error(c.name(), ": the size of the result is missing; pass size or scale_factor");
  if (c.has(1) && c.has(5) && c.boolean(5))
    value_error(c.name(), ": recompute_scale_factor belongs to scale_factor; leave it out with size");
  if (c.boolean(6) && (nd != 2 || (mode != "bilinear" && mode != "bicubic" && mode != "lanczos")))
    value_error(c.name(), ": antialias needs 4-d input and mode 'bilinear', 'bicubic' or 'lanczos', got ", nd + 2,
                " dimensions and '", mode, "'");
}

}  // namespace

// interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
Plan plan_of(const Call& c) {
  const Tensor& x = c.tensor(0);
  const std::string_view mode = c.str(3);
  const int nd = x.ndim - 2;
  check_options(c, mode, nd);
  Plan p{mode_of(c, mode, nd), c.has(4) && c.boolean(4), c.boolean(6), nd, {}, {}};
  const Dims in = x.shape().subspan(2);
  if (c.has(1)) {
    spread(c, "size", c.ints(1).data(), c.ints(1).size(), nd, p.size);
  } else {
    spread(c, "scale_factor", c.args[2].floats.data, size_t(c.args[2].floats.size), nd, p.factors);
    scaled(c, in, p.factors, p.size);
    if (c.has(5) && c.boolean(5)) std::fill_n(p.factors, nd, 0.);
  }
  if (p.mode == Mode::Lanczos && p.align)
    value_error(c.name(), ": mode='lanczos' works with align_corners=False only");
  if (p.mode == Mode::Lanczos && !p.antialias) value_error(c.name(), ": mode lanczos requires antialias=True");
  return p;
}

// resize_backward(grad, input_size, scale_factor, mode, align_corners, antialias)
Plan plan_of_backward(const Call& c) {
  const Tensor& g = c.tensor(0);
  const Dims in = c.ints(1);
  const int nd = g.ndim - 2;
  Plan p{mode_of(c, c.str(3), nd), c.boolean(4), c.boolean(5), nd, {}, {}};
  if (p.mode == Mode::Area || int(in.size()) != nd)
    runtime_error(c.name(), ": a gradient of shape ", shape_text(g.shape()), " does not fit the input size ",
                  shape_text(in), " and mode '", c.str(3), "'");
  std::ranges::copy(g.shape().subspan(2), p.size);
  if (c.has(2)) spread(c, "scale_factor", c.args[2].floats.data, size_t(c.args[2].floats.size), nd, p.factors);
  return p;
}

void check_sizes(const Call& c, DType dtype, Dims in, Dims out) {
  bool good = true;
  for (int64_t n : in) good = good && n > 0;
  for (int64_t n : out) good = good && n > 0 && n < (int64_t(1) << 31);
  if (!good)
    runtime_error(c.name(), ": input ", shape_text(in), " and output ", shape_text(out), " must both have positive "
                  "sizes");
  if (is_complex(dtype) || dtype == DType::Bool)
    runtime_error(c.name(), ": not implemented for dtype ", dtype_name(dtype));
}

}  // namespace flambeau::resizing
