"""Blocks of images as columns and back (im2col, col2im): a thread for each element of the result."""

from .launches import Build, nothing, numel, sizes

#: of the image, the kernel, its dilation, padding and stride, and how many blocks there are
_SHAPE = ("height", "width", "kh", "kw", "dh", "dw", "ph", "pw", "sh", "sw", "oh", "ow")


def _two(given):
    return (given[0], given[-1])


def _numbers(image, kernel, dilation, padding, stride):
    """What both kernels are given, by the names of _SHAPE."""
    inside, sides = image[-2:], [_two(v) for v in (kernel, dilation, padding, stride)]
    out = [(inside[d] + 2 * sides[2][d] - sides[1][d] * (sides[0][d] - 1) - 1) // sides[3][d] + 1 for d in (0, 1)]
    return sizes(**dict(zip(_SHAPE, (*inside, *(v for side in sides for v in side), *out), strict=True)))


def _im2col(call):
    x, kernel, dilation, padding, stride = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    build.each(numel(out), f"""  const int64_t place = i_ % (oh * ow), r = i_ / (oh * ow), k = r % (kh * kw);
  const int64_t row = place / ow * sh + k / kw * dh - ph, column = place % ow * sw + k % kw * dw - pw;
  const bool inside = row >= 0 && row < height && column >= 0 && column < width;
  out[i_] = inside ? x[(r / (kh * kw) * height + row) * width + column] : cast<{build.type(out)}>(0);
""", [build.input("x", x), build.output("out", out), *_numbers(x.shape, kernel, dilation, padding, stride)],
               index="int64_t")
    return build.plan()


def _col2im(call):
    """Each pixel gathers what lies in the columns for it, always in one order."""
    x, _, kernel, dilation, padding, stride = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    wide = build.wide(out)
    wide = "int64_t" if wide.endswith("_t") else wide
    build.each(numel(out), f"""  const int64_t column = i_ % width, row = i_ / width % height;
  const int64_t plane = i_ / (width * height);
  {wide} sum = cast<{wide}>(0);
  for (int64_t a = 0; a < kh; ++a) {{
    const int64_t y = row + ph - a * dh;
    if (y < 0 || y % sh || y / sh >= oh) continue;
    for (int64_t b = 0; b < kw; ++b) {{
      const int64_t c = column + pw - b * dw;
      if (c < 0 || c % sw || c / sw >= ow) continue;
      sum = sum + cast<{wide}>(x[(((plane * kh + a) * kw + b) * oh + y / sh) * ow + c / sw]);
    }}
  }}
  out[i_] = cast<{build.type(out)}>(sum);
""", [build.input("x", x), build.output("out", out), *_numbers(out.shape, kernel, dilation, padding, stride)],
               index="int64_t")
    return build.plan()


RULES = {"im2col": _im2col, "col2im": _col2im}
