"""Matrix products and convolutions by kernels of our own, right everywhere, slow: see products.cuh.

NVIDIA's libraries are many times faster (cublaslt.py, cudnn.py); these are for machines where they are missing, for
whole numbers, and for what the libraries do not take.
"""

import math
import struct
from typing import NamedTuple

from .channels import channel_sums
from .launches import Build, Parameter, blocks, flag, layout, numel, scalar, sizes, tensor
from .plans import Number
from .pointwise import formula_of

_FILES = ("products.cuh",)


def accumulated(build, info):
    wide = build.wide(info)
    return "int64_t" if wide in ("uint8_t", "int8_t", "int16_t", "int32_t", "bool") else wide


def _steps(name, row, column):
    return Parameter(f"Steps {name}", Number(struct.pack("<2q", row, column)))


def batched(info, batch):
    """Strides of an operand's leading dimensions, expanded to `batch`."""
    own, strides = info.shape[:-2], info.strides[:-2]
    lead = len(batch) - len(own)
    return [0] * lead + [0 if s == 1 and batch[lead + d] != 1 else t
                         for d, (s, t) in enumerate(zip(own, strides, strict=True))]


def _grid(columns, rows, count=1):
    """A block for each tile of 64 x 64; along others than the first a grid ends at 65,535, and blocks go on."""
    return blocks(columns, 64), min(blocks(rows, 64), 65535), min(count, 32768)


def product(build, a, b, c, batch, alpha=1, beta=0, d=None):
    """The launch of c = alpha a b + beta d for matrices (last two dimensions) over `batch`."""
    m, depth, n = a.shape[-2], a.shape[-1], b.shape[-1]
    count = math.prod(batch)
    if count * m * n == 0:
        return
    wide = accumulated(build, c)
    layouts = [layout(f"batch_{k}", batch, batched(x, batch) if x else [0] * len(batch))
               for k, x in zip("abcd", (a, b, c, d), strict=True)]
    steps = [_steps(f"s{k}", *(x.strides[-2:] if x else (0, 0))) for k, x in zip("abcd", (a, b, c, d), strict=True)]
    added = tensor("d", d, build.call.name) if d else Parameter(f"const {build.type(c)}* d", Number(bytes(8)))
    numbers = [scalar("alpha", alpha), scalar("beta", beta)]
    build.run(f"  matmul<{wide}>(a, b, d, c, batch_a, batch_b, batch_c, batch_d, sa, sb, sc, sd, count, m, n, depth, "
              f"cast<{wide}>(alpha), cast<{wide}>(beta));\n",
              [tensor("a", a, build.call.name), tensor("b", b, build.call.name), added,
               tensor("c", c, build.call.name, True), *layouts, *steps,
               *sizes(count=count, m=m, n=n, depth=depth), *numbers],
              _grid(n, m, count), 256, _FILES)


def _with_dimension(info, at):
    """The operand with one more dimension of size 1 at position `at`."""
    return info._replace(shape=(*info.shape[:at], 1, *info.shape[at:]),
                         strides=(*info.strides[:at], 0, *info.strides[at:]))


def matrices(a, b, out):
    """Operands and result of a product where vectors have become matrices of one row or column."""
    if len(a.shape) == 1:
        a = a._replace(shape=(1, *a.shape), strides=(0, *a.strides))
        out = _with_dimension(out, len(out.shape) - (len(b.shape) > 1))
    if len(b.shape) == 1:
        b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, 0))
        out = _with_dimension(out, len(out.shape))
    return a, b, out


def _matmul(call):
    a, b, out = matrices(*call.args[:2], call.results[0])
    build = Build(call)
    product(build, a, b, out, out.shape[:-2])
    return build.plan()


def _added(call):
    """addmm and baddbmm: beta self + alpha product; with beta 0 what self holds does not count."""
    self, a, b, beta, alpha = call.args
    build, out = Build(call), call.results[0]
    d = expanded(self, out.shape) if beta != 0 else None
    product(build, a, b, out, out.shape[:-2], alpha, beta, d)
    return build.plan()


def expanded(info, shape):
    """The operand broadcast to a shape."""
    lead = len(shape) - len(info.shape)
    strides = [0] * lead + [0 if s == 1 and shape[lead + d] != 1 else t
                            for d, (s, t) in enumerate(zip(info.shape, info.strides, strict=True))]
    return info._replace(shape=tuple(shape), strides=tuple(strides))


def layer_matrices(x, weight, out):
    """Operands and result of a layer as those of a product: the weight transposed, vectors as matrices."""
    one = len(weight.shape) == 1  # a row of weights: no dimension of results
    w = weight._replace(shape=weight.shape[::-1], strides=weight.strides[::-1])
    if one:
        w = w._replace(shape=(*w.shape, 1), strides=(*w.strides, 0))
        out = out._replace(shape=(*out.shape, 1), strides=(*out.strides, 0))
    if len(x.shape) == 1:
        x = x._replace(shape=(1, *x.shape), strides=(0, *x.strides))
        out = out._replace(shape=(1, *out.shape), strides=(0, *out.strides))
    return x, w, out


def tail_matrices(call):
    """Those of _linear_tail, whose weight may lie as that of a product does."""
    x, weight, *_, columns = call.args
    if columns:
        weight = weight._replace(shape=weight.shape[::-1], strides=weight.strides[::-1])
    return layer_matrices(x, weight, call.results[0])


class Groups(NamedTuple):
    """How groups follow each other in a, b and the result: each begins `group` elements further for each group before
    it, and `start` for each row or column of these. What is -1 of m, n and depth is the size of a group."""
    a: tuple
    b: tuple
    c: tuple
    count: int
    length: int
    m: int
    n: int
    depth: int


def groups_of(a, b, out, offs):
    m, depth, n = a.shape[-2], a.shape[-1], b.shape[-1]
    of_a = (a.strides[0], 0) if len(a.shape) == 3 else (0, a.strides[1 if len(b.shape) == 2 else 0])
    of_b = (b.strides[0], 0) if len(b.shape) == 3 else (0, b.strides[0 if len(a.shape) == 2 else 1])
    count = offs.shape[0]
    if len(out.shape) == 3:
        return Groups(of_a, of_b, (m * n, 0), count, depth, m, n, -1)
    if len(a.shape) == 2:
        return Groups(of_a, of_b, (0, n), count, m, -1, n, depth)
    return Groups(of_a, of_b, (0, 1), count, n, m, -1, depth)


def _grouped_mm(call):
    """A tile of each group by a block, which reads where the group lies."""
    a, b, offs = call.args[:3]
    build, out = Build(call), call.results[0]
    if offs is None:
        product(build, a, b, out, out.shape[:-2])
        return build.plan()
    if not numel(out):
        return build.plan()
    groups, (m, n), wide = groups_of(a, b, out, offs), out.shape[-2:], accumulated(build, out)
    place = build.output("c", out)
    build.zeros(place, numel(out) * build.size(out))
    if not groups.count:
        return build.plan()
    moves = "m" if groups.m < 0 else "n" if groups.n < 0 else "depth"
    flat = [layout(f"batch_{c}", (), ()) for c in "abcd"]
    build.run(f"""  int64_t begin = 0, end = 0;
  const int64_t group = blockIdx.z;
  for (int64_t k = 0; k <= group; ++k) {{
    begin = end;
    end = offs[k] < begin ? begin : offs[k] > length ? length : offs[k];
  }}
  {moves} = end - begin;
  if ({moves} == 0 || int64_t(blockIdx.y) * 64 >= m || int64_t(blockIdx.x) * 64 >= n) return;
  matmul<{wide}>(a + group * group_a + begin * start_a, b + group * group_b + begin * start_b, d,
                 c + group * group_c + begin * start_c, batch_a, batch_b, batch_c, batch_d, sa, sb, sc, sd, group + 1,
                 m, n, depth, {wide}(1), {wide}(0));
""", [tensor("a", a, call.name), tensor("b", b, call.name), Parameter(f"const {build.type(out)}* d", Number(bytes(8))),
      _renamed("c", place), build.input("offs", offs), *flat, _steps("sa", *a.strides[-2:]),
      _steps("sb", *b.strides[-2:]), _steps("sc", n, 1), _steps("sd", 0, 0),
      *sizes(length=groups.length, m=groups.m, n=groups.n, depth=groups.depth, group_a=groups.a[0], start_a=groups.a[1],
             group_b=groups.b[0], start_b=groups.b[1], group_c=groups.c[0], start_c=groups.c[1])],
              _grid(n, m)[:2] + (groups.count,), 256, _FILES)
    return build.plan()


def _int_mm(call):
    """Bytes, widened."""
    a, b = call.args
    build, out = Build(call), call.results[0]
    wide = []
    for name, x in (("a", a), ("b", b)):
        wide.append(build.room(name, "int32_t", numel(x), 4))
        build.copy(wide[-1].value, build.input("x", x).value, numel(x), "int32_t", build.type(x))
    (m, depth), n = a.shape, b.shape[1]
    _matrix_product(build, *wide, build.output("c", out), m, depth, n, (depth, 1), (n, 1), "int32_t", "int32_t")
    return build.plan()


def _linear(call):
    x, w, out = layer_matrices(*call.args[:2], call.results[0])
    build, bias = Build(call), call.args[2]
    d = expanded(bias, out.shape) if bias else None
    product(build, x, w, out, out.shape[:-2], 1, 1, d)
    return build.plan()


def _linear_tail(call):
    bias, other, activation = call.args[2:5]
    x, w, out = tail_matrices(call)
    build = Build(call)
    product(build, x, w, out, out.shape[:-2], 1, 1, expanded(bias, out.shape) if bias else None)
    finish(build, call.results[0], other, activation)
    return build.plan()


def finish(build, out, other, activation):
    """What follows a product whose rows lie in a run, by a kernel of its own: out = activation(out + other)."""
    if other is None and activation == "none":
        return
    kind, wide, (name, _, option) = build.type(out), build.wide(out), activation.partition("_")
    formula = "self" if name == "none" else formula_of(name)
    value, more = "cast<T>(out[i_])", []
    if other is not None:
        value = f"cast<T>(cast<{kind}>({value} + cast<T>(other[offset_of<int64_t>(i_, places)])))"
        wide_other = expanded(other, out.shape)
        more = [tensor("other", other, build.call.name), layout("places", wide_other.shape, wide_other.strides)]
    build.each(numel(out), f"""  typedef {wide} T;
  constexpr char approximate = '{option[:1] or "n"}';
  (void)approximate;
  const T self = {value};
  out[i_] = cast<{kind}>({formula});
""", [tensor("out", out, build.call.name, True), *more])


def _scaled_mm(call):
    """Widened to float32."""
    a, b = call.args[:2]
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return build.plan()
    wide = []
    for name, x in (("a", a), ("b", b)):
        wide.append(build.room(name, "float", numel(x), 4))
        build.copy(wide[-1].value, build.input("x", x).value, numel(x), "float", build.type(x))
    (m, depth), n = a.shape, b.shape[1]
    sums = build.room("sums", "float", m * n, 4)
    _matrix_product(build, *wide, sums, m, depth, n, (depth, 1), (n, 1), "float", "float")
    finish_scaled(build, sums, *call.args[2:6], out)
    return build.plan()


def finish_scaled(build, sums, scale_a, scale_b, bias, scale_result, out):
    """What follows sums of products of scaled operands, in float32: scales, bias, the result's scale."""
    more, plus, by = [], "", ""
    if bias is not None:
        more.append(build.input("bias", bias))
        plus = " + cast<float>(bias[j])"
    if scale_result is not None:
        more.append(build.input("scale_result", scale_result))
        by = " * scale_result[0]"
    build.each(numel(out), f"""  const int64_t i = i_ / columns, j = i_ % columns;
  const float v = sums[i_] * (scale_a[i * row] * scale_b[j * column]){plus};
  out[i_] = cast<{build.type(out)}>((v){by});
""", [Parameter("const float* sums", sums.value), build.input("scale_a", scale_a), build.input("scale_b", scale_b),
      *more, build.output("out", out), *sizes(columns=out.shape[1], row=numel(scale_a) > 1, column=numel(scale_b) > 1)],
               index="int64_t")


def conjugated(build, name, info):
    """A pointer to the operand's elements in row-major order, conjugated where they are complex."""
    given = build.input(name, info)
    if not info.dtype.startswith("complex"):
        return given
    kind = build.type(info)
    room = build.room("out", kind, numel(info), build.size(info))
    build.each(numel(info), "  out[i_] = conjugate(x[i_]);\n", [room, _renamed("x", given)])
    return Parameter(f"const {kind}* {name}", room.value)


def _linear_backward(call):
    grad, x, weight, mask = call.args
    build, (to_x, to_w, to_b) = Build(call), call.results
    n, k = (weight.shape[0], weight.shape[-1]) if len(weight.shape) == 2 else (1, weight.shape[0])
    rows = math.prod(x.shape[:-1])
    g, data, w = build.input("grad", grad), conjugated(build, "x", x), conjugated(build, "w", weight)
    wide = accumulated(build, grad)

    def run(*given):
        _matrix_product(build, *given, wide, build.type(grad))
    if mask & 1:
        run(g, w, build.output("c", to_x), rows, n, k, (n, 1), (k, 1))
    if mask & 2:
        run(g, data, build.output("c", to_w), n, rows, k, (1, n), (k, 1))
    if mask & 4 and n:
        channel_sums(build, g, build.output("out", to_b), to_b, rows, n, 1, wide)
    return build.plan()


def _matrix_product(build, a, b, out, m, depth, columns, sa, sb, wide, kind):
    """out [m, columns] = a b, of parameters and the steps of a's and b's rows and columns."""
    if m * columns == 0:
        return
    none = Parameter(f"const {kind}* d", Number(bytes(8)))
    flat = [layout(f"batch_{c}", (), ()) for c in "abcd"]
    build.run(f"  matmul<{wide}>(a, b, d, c, batch_a, batch_b, batch_c, batch_d, sa, sb, sc, sd, 1, m, n, depth, "
              f"{wide}(1), {wide}(0));\n",
              [_renamed("a", a), _renamed("b", b), none, _renamed("c", out), *flat, _steps("sa", *sa),
               _steps("sb", *sb), _steps("sc", columns, 1), _steps("sd", 0, 0),
               *sizes(m=m, n=columns, depth=depth)], _grid(columns, m), 256, _FILES)


def _renamed(name, parameter):
    return Parameter(f"{parameter.declaration.rpartition(' ')[0]} {name}", parameter.value)


# --- convolution ------------------------------------------------------------------------------------------------------

def _three(values, default):
    values = list(values)
    return [default] * (3 - len(values)) + values


def _described(batch, small, big, groups, p, q, taps, stride, padding, dilation):
    """The struct Convolution; fewer spatial dimensions are filled up in front."""
    rank = len(p)
    fill = [_three(p, 1), _three(q, 1), _three(taps, 1), _three((stride * rank)[:rank], 1),
            _three((padding * rank)[:rank], 0), _three((dilation * rank)[:rank], 1)]
    data = struct.pack("<22q", batch, small, big, groups, *(v for part in fill for v in part))
    return Parameter("const Convolution conv", Number(data))


def _side(build, way, source, weight, out, conv, info, bias=None, back=False):
    """Every element of one side from the other; `back`: a gradient."""
    wide = accumulated(build, info)
    inner = math.prod(info.shape[2:])
    more, plus = [], ""
    if bias:
        more = [build.input("bias", bias), *sizes(inner=inner, channels=info.shape[1])]
        plus = " + cast<A>(bias[i_ / Index(inner) % Index(channels)])"
    build.each(numel(info), f"  typedef {wide} A;\n"
               f"  out[i_] = cast<{build.type(info)}>({way}<A, {flag(back)}>(x, w, conv, i_){plus});\n",
               [_renamed("x", source), _renamed("w", weight), _renamed("out", out), conv, *more], files=_FILES)


def _convolution(call):
    x, weight, bias, stride, padding, dilation, transposed, _, groups = call.args
    build, out = Build(call), call.results[0]
    small, big = (x, out) if transposed else (out, x)
    conv = _described(x.shape[0], small.shape[1], big.shape[1], groups, small.shape[2:], big.shape[2:],
                      weight.shape[2:], list(stride), list(padding), list(dilation))
    _side(build, "gather_big" if transposed else "gather_small", build.input("x", x), build.input("w", weight),
          build.output("out", out), conv, out, bias)
    return build.plan()


def _convolution_backward(call):
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, mask = call.args
    build, (to_x, to_w, to_b) = Build(call), call.results
    small, big = (x, grad) if transposed else (grad, x)
    conv = _described(x.shape[0], small.shape[1], big.shape[1], groups, small.shape[2:], big.shape[2:],
                      weight.shape[2:], list(stride), list(padding), list(dilation))
    g, data, wide = build.input("grad", grad), build.input("x", x), accumulated(build, grad)
    if mask[0]:
        _side(build, "gather_small" if transposed else "gather_big", g, build.input("w", weight),
              build.output("out", to_x), conv, to_x, back=True)
    if mask[1] and numel(weight):
        sides = (data, g) if transposed else (g, data)
        build.run(f"  const {wide} sum = weight_sum<{wide}, {flag(transposed)}>(small, big, conv, blockIdx.x);\n"
                  f"  if (threadIdx.x == 0) out[blockIdx.x] = cast<{build.type(to_w)}>(sum);\n",
                  [_renamed("small", sides[0]), _renamed("big", sides[1]), build.output("out", to_w), conv],
                  numel(weight), 256, _FILES)
    if mask[2] and grad.shape[1]:
        inner = math.prod(grad.shape[2:])
        channel_sums(build, g, build.output("out", to_b), to_b, grad.shape[0], grad.shape[1], inner, wide)
    return build.plan()


RULES = {
    "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul, "matmul": _matmul, "addmm": _added,
    "baddbmm": _added, "_scaled_mm": _scaled_mm, "_grouped_mm": _grouped_mm, "_int_mm": _int_mm, "linear": _linear,
    "_linear_tail": _linear_tail, "linear_backward": _linear_backward, "convolution": _convolution,
    "convolution_backward": _convolution_backward,
}
