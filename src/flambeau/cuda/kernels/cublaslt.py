"""Matrix products by cuBLASLt: what it is told about the operands, and which go another way.

cuBLAS knows matrices by columns. A matrix of rows is its own transpose there, so C = A B is asked for as C' = B' A'.
"""

from typing import NamedTuple

from ...backends import _switches
from .channels import channel_sums
from .launches import Build, begin_aligned, collapse, contiguous, numel, refuse, row_major, tensor
from .libraries import on_the_way, present, run
from .plans import Pointer
from .products import (
    accumulated,
    batched,
    conjugated,
    expanded,
    finish,
    finish_scaled,
    layer_matrices,
    matrices,
    tail_matrices,
)

#: dtype -> (what it is computed in, bytes of an element)
_TYPES = {"float32": ("float32", 4), "float64": ("float64", 8), "float16": ("float32", 2), "bfloat16": ("float32", 2),
          "complex64": ("complex64", 8), "complex128": ("complex128", 16), "int8": ("int32", 1)}
#: dtypes that are multiplied with scales, and of the results
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
_SCALED_RESULTS = (*_EIGHT_BITS, "float16", "bfloat16", "float32")
_WITH_BIAS = ("float32", "float16", "bfloat16")
#: what the library can do with a product on the way out
_ACTIVATIONS = ("none", "relu", "gelu_tanh")
_MOST_WORKSPACE = 32 << 20


class Matrix(NamedTuple):
    """Matrices in memory: where, of which dtype, sizes and strides (batch, rows, columns), and alignment in bytes."""
    value: object
    dtype: str
    shape: tuple
    strides: tuple
    alignment: int


def usable(call, *infos):
    """Whether the library is there and multiplies these tensors."""
    return present(call, "cublaslt") and all(x.dtype in _TYPES and x.dtype == infos[0].dtype for x in infos)


def _computes(dtype):
    if dtype in ("float32", "complex64") and _switches.get("matmul_tf32"):
        return "tf32" if dtype == "float32" else "complex64_tf32"
    if dtype == "float16" and _switches.get("float16_accumulation"):
        return "float16"
    return _TYPES[dtype][0]


def _alignment(info):
    return 16 if info.aligned or info.dtype in _EIGHT_BITS else _TYPES[info.dtype][1]


def step_of(shape, strides):
    """(step between rows, whether each row lies in one run), or (step between columns, False); None for neither."""
    (rows, columns), (row, column) = shape, strides
    if columns == 1:
        column = 1
    if rows == 1:
        row = max(columns, 1)
    if column == 1 and row >= max(columns, 1):
        return row, True
    if columns == 1:
        column = max(rows, 1)
    if (row == 1 or rows == 1) and column >= max(rows, 1):
        return column, False
    return None


def _operand(build, info, batch):
    """A Matrix over `batch`: the tensor itself, or a packed copy where its layout is nothing cuBLAS can be told."""
    strides = batched(info, batch)
    if len(collapse(batch, strides)[0]) <= 1 and step_of(info.shape[-2:], info.strides[-2:]) is not None:
        return Matrix(Pointer(info.k), info.dtype, (*batch, *info.shape[-2:]), (*strides, *info.strides[-2:]),
                      _alignment(info))
    wide = expanded(info, (*batch, *info.shape[-2:]))
    packed = build.packed("a", wide)
    return _packed(packed, wide, 16)


def _packed(parameter, info, alignment):
    return Matrix(parameter.value, info.dtype, tuple(info.shape), tuple(row_major(info.shape)), alignment)


def _folded(a, c):
    """a and c with their batch as more rows, where one matrix serves all of the batch; else as they are."""
    sizes, sa, sc = collapse((*a.shape[:-1],), a.strides[:-1], c.strides[:-1])
    if len(sizes) != 1 or a.strides[-1] != 1 or c.strides[-1] != 1:
        return None
    return (a._replace(shape=(sizes[0], a.shape[-1]), strides=(sa[0], 1)),
            c._replace(shape=(sizes[0], c.shape[-1]), strides=(sc[0], 1)))


def multiply(build, a, b, c, alpha=1, beta=0, bias=None, activation="none", scales=(), **scaling):
    """The step c = activation(alpha a b + beta c + bias) for Matrix values over one batch; c's rows are runs. scales:
    the addresses of those of b, a and c, which `scaling` describes."""
    batch = c.shape[:-2]
    if batch and not any(b.strides[:-2]) and (folded := _folded(a, c)):
        a, c = folded
        b = b._replace(shape=b.shape[-2:], strides=b.strides[-2:])
        batch = ()
    sizes, *steps = collapse(batch, a.strides[:-2], b.strides[:-2], c.strides[:-2])
    if len(sizes) > 1:
        raise AssertionError("operands are packed before they are multiplied")
    told = {}
    for name, x, step in zip("bac", (a, b, c), steps, strict=True):  # exchanged: cuBLAS multiplies the transposes
        ld, by_rows = step_of(x.shape[-2:], x.strides[-2:])
        rows, columns = x.shape[-2:]
        told[name] = (*((columns, rows) if by_rows else (rows, columns)), ld, step[0] if step else 0)
        if name != "c":
            told[f"{name}_transposed"] = not by_rows
    compute = "float32" if scales else _computes(a.dtype)
    added = "bfloat16" if scales and c.dtype in _EIGHT_BITS else c.dtype  # what nothing is added in
    run(build, "cublaslt.matmul", (b.value, a.value, None, c.value, bias, *scales), **told, d=told["c"],
        a_type=b.dtype, b_type=a.dtype, c_type=added, d_type=c.dtype, compute=compute, **scaling,
        batch=sizes[0] if sizes else 1, bias=bias is not None, activation=activation, alpha=complex(alpha).real,
        alpha_imaginary=complex(alpha).imag, beta=complex(beta).real, beta_imaginary=complex(beta).imag,
        alignment=(b.alignment, a.alignment, c.alignment, c.alignment), most_workspace=_MOST_WORKSPACE,
        whole_sums=a.dtype in ("float16", "bfloat16") and not _switches.get(f"{a.dtype}_reduced"))


def product(build, a, b, out, alpha=1, beta=0, add=None, bias=None, activation="none"):
    """out = activation(alpha a b + beta add + bias) for tensors with matrices in their last two dimensions."""
    batch = out.shape[:-2]
    if a.dtype == "int8":
        return _whole(build, a, b, out, batch)
    target, step = None, step_of(out.shape[-2:], out.strides[-2:])
    if step and step[1] and len(collapse(batch, out.strides[:-2])[0]) <= 1:
        strides = (*out.strides[:-2], step[0], 1)
        target = Matrix(Pointer(out.k), out.dtype, tuple(out.shape), strides, _alignment(out))
        place, places = tensor("out", out, build.call.name, True), out.strides
    else:
        place, places = build.output("c", out), row_major(out.shape)
        target = _packed(place, out, 16)
    a, b = _operand(build, a, batch), _operand(build, b, batch)
    if add is not None:
        build.spread(place, places, expanded(add, out.shape))
    multiply(build, a, b, target, alpha, beta if add is not None else 0, bias, activation)
    return None


def _runs_of_bytes(build, info, batch):
    """A Matrix of bytes whose rows are runs of memory, all multiples of 4 apart: the tensor itself or a copy."""
    m = _operand(build, info, batch)
    step = step_of(m.shape[-2:], m.strides[-2:])
    if step[1] and m.alignment == 16 and not any(s % 4 for s in (*m.strides[:-2], step[0])):
        return m
    wide = info if len(info.shape) == 2 else expanded(info, m.shape)
    packed = _packed(build.packed("a", wide), wide, 16)
    return packed._replace(shape=m.shape, strides=(*(len(m.shape) - len(wide.shape)) * (0,), *packed.strides))


def _multiply_bytes(build, a, b, c, batch):
    """The only form of which GPUs have tensor cores for bytes: both matrices lie in runs of what is summed over."""
    right = _runs_of_bytes(build, _transpose(b), batch)
    multiply(build, _runs_of_bytes(build, a, batch), _transpose(right), c)


def _transpose(m):
    return m._replace(shape=(*m.shape[:-2], m.shape[-1], m.shape[-2]),
                      strides=(*m.strides[:-2], m.strides[-1], m.strides[-2]))


def _whole(build, a, b, out, batch):
    """int8: products are summed in 32 bits, and the lowest 8 are the result."""
    room = build.room("sums", "int32_t", numel(out), 4)
    _multiply_bytes(build, a, b, _packed(room, out._replace(dtype="int32"), 16), batch)
    build.copy(build.output("out", out).value, room.value, numel(out), "int8_t", "int32_t")


def _nothing_to_multiply(out, depth):
    return numel(out) == 0 or depth == 0


# --- rules: None where the library is not there or cannot be told -----------------------------------------------------

def matmul(call):
    a, b, out = matrices(*call.args[:2], call.results[0])
    if not usable(call, a, b, out) or _nothing_to_multiply(out, a.shape[-1]):
        return None
    build = Build(call)
    product(build, a, b, out)
    return build.plan()


def _int_mm(call):
    a, b = call.args
    out = call.results[0]
    if a.dtype != "int8" or not usable(call, a, b) or _nothing_to_multiply(out, a.shape[-1]):
        return None
    build = Build(call)
    _multiply_bytes(build, a, b, _packed(build.output("c", out), out, 16), ())
    return build.plan()


def _row_of(info, columns):
    """Whether it is one row for all rows of a result, in one run."""
    return (info.shape[-1:] == (columns,) and numel(info) == columns and (columns == 1 or info.strides[-1] == 1))


def _sum(build, a, b, out, self, beta=1, alpha=1, activation="none"):
    """A product and `self`, as the epilogue's bias where that is one row."""
    if self is None:
        return product(build, a, b, out, alpha, activation=activation)
    if beta == 1 and _row_of(self, out.shape[-1]) and out.dtype in _WITH_BIAS and self.dtype == out.dtype:
        bias = Pointer(self.k) if self.aligned else build.packed("bias", self).value
        return product(build, a, b, out, alpha, bias=bias, activation=activation)
    return product(build, a, b, out, alpha, beta, self, activation=activation)


def _added(call):
    self, a, b, beta, alpha = call.args
    out = call.results[0]
    if not usable(call, a, b, out, self) or a.dtype == "int8" or _nothing_to_multiply(out, a.shape[-1]):
        return None
    build = Build(call)
    _sum(build, a, b, out, self if beta != 0 else None, beta, alpha)
    return build.plan()


def _linear(call):
    x, weight, bias = call.args[:3]
    given = (x, weight, bias) if bias else (x, weight)
    x, w, out = layer_matrices(x, weight, call.results[0])
    if not usable(call, *given, out) or x.dtype == "int8" or _nothing_to_multiply(out, x.shape[-1]):
        return None
    build = Build(call)
    _sum(build, x, w, out, bias)
    return build.plan()


def _linear_tail(call):
    weight, bias, other, activation = call.args[1:5]
    x, w, out = tail_matrices(call)
    if not usable(call, x, weight, out) or _nothing_to_multiply(out, x.shape[-1]):
        return None
    build, row = Build(call), other is not None and _row_of(other, out.shape[-1])
    if on_the_way(call) and activation in _ACTIVATIONS and (other is None or (row and not bias)):
        _sum(build, x, w, out, bias or other, activation=activation)
    else:
        _sum(build, x, w, out, bias)
        finish(build, call.results[0], other, activation)
    return build.plan()


def _flat(place, info, rows):
    """A tensor as one matrix of that many rows."""
    columns = numel(info) // rows
    return Matrix(place.value, info.dtype, (rows, columns), (columns, 1), _alignment(info) if contiguous(info) else 16)


def _linear_backward(call):
    grad, x, weight, mask = call.args
    to_x, to_w, to_b = call.results
    if not usable(call, grad, x, weight) or grad.dtype == "int8" or not numel(grad) or not numel(x):
        return None
    n = weight.shape[0] if len(weight.shape) == 2 else 1
    rows, build = numel(grad) // n, Build(call)
    place = build.input("grad", grad)
    g = _flat(place, grad, rows)
    if mask & 1:
        w = _flat(conjugated(build, "w", weight), weight, n)
        multiply(build, g, w, _flat(build.output("c", to_x), to_x, rows))
    summed = mask & 6 == 6 and on_the_way(call) and grad.dtype in _WITH_BIAS and to_b.aligned and contiguous(to_b)
    if mask & 2:
        data = _flat(conjugated(build, "x", x), x, rows)
        multiply(build, _transpose(g), data, _flat(build.output("c", to_w), to_w, n),
                 **({"bias": Pointer(to_b.k), "activation": "bias_gradient"} if summed else {}))
    if mask & 4 and not summed:
        channel_sums(build, place, build.output("out", to_b), to_b, rows, n, 1, accumulated(build, grad),
                     begin_aligned(grad))
    return build.plan()


# --- 8-bit floats with scales -----------------------------------------------------------------------------------------

def _scaled_mm(call):
    """In 8 bits where the library takes these dtypes and sizes; else widened to bfloat16, which loses nothing."""
    a, b, _, _, bias = call.args[:5]
    out = call.results[0]
    if not present(call, "cublaslt") or _nothing_to_multiply(out, a.shape[-1]):
        return None
    build = Build(call)
    if on_the_way(call) and _fits_scaled(a, b, out, bias):
        _in_eight_bits(build, *call.args, out)
        return build.plan()
    sums = build.room("sums", "float", numel(out), 4)
    multiply(build, _widened(build, a), _widened(build, b), _packed(sums, out._replace(dtype="float32"), 16))
    finish_scaled(build, sums, *call.args[2:6], out)
    return build.plan()


def _widened(build, info):
    """A copy in bfloat16, by columns if the matrix lies so."""
    by_columns = not contiguous(info) and contiguous(_transpose(info))
    x = _transpose(info) if by_columns else info
    wide = _packed(build.room("wide", "bfloat16", numel(x), 2), x._replace(dtype="bfloat16"), 16)
    build.copy(wide.value, build.input("x", x).value, numel(x), "bfloat16", build.type(x))
    return _transpose(wide) if by_columns else wide


def _fits_scaled(a, b, out, bias):
    """As the library's documentation lists it: one is e4m3, sizes are multiples of 16, and a bias is a half."""
    kinds = (a.dtype, b.dtype, out.dtype)
    return ("float8_e4m3fn" in kinds[:2] and out.dtype in _SCALED_RESULTS and a.shape[1] % 16 == b.shape[1] % 16 == 0
            and (out.dtype != "float8_e5m2" or "float8_e5m2" in kinds[:2])
            and (bias is None or bias.dtype == ("float16" if out.dtype == "float16" else "bfloat16")))


def _in_eight_bits(build, a, b, scale_a, scale_b, bias, scale_result, _, fast, out):
    """The second matrix lies by columns: of its first operand the library takes only the transpose."""
    right = _transpose(b)
    b = _transpose(_operand(build, right, ())) if _by_rows(right) else \
        _transpose(_packed(build.packed("b", right), right, 16))
    a = _operand(build, a, ()) if _by_rows(a) else _packed(build.packed("a", a), a, 16)
    target = _packed(build.output("c", out), out, 16)
    if bias is not None:
        bias = Pointer(bias.k) if bias.aligned and contiguous(bias) else build.packed("bias", bias).value
    given = scale_result is not None
    scales = (Pointer(scale_b.k), Pointer(scale_a.k), Pointer(scale_result.k) if given else None)
    by_row = len(scale_a.shape) == len(scale_b.shape) == 2 and numel(scale_a) * numel(scale_b) > 1
    way = "row" if by_row else "one"
    multiply(build, a, b, target, bias=bias, scales=scales, a_scales=way, b_scales=way, scaled_result=given,
             fast_sums=fast, bias_type="float16" if out.dtype == "float16" else "bfloat16")


#: scales of blocks, by nn.functional.ScalingType
_BLOCKS = {2: "by_16", 3: "by_32", 4: "by_128", 5: "square"}


def _block_scaled_mm(call):
    """Only by the library: whoever asks for it can widen the matrices instead."""
    a, b, scale_a, scale_b, recipe_a, recipe_b, _, fast = call.args
    out, right = call.results[0], _transpose(b)
    if not (on_the_way(call) and present(call, "cublaslt") and numel(out) and a.shape[1] % 16 == b.shape[1] % 16 == 0
            and _by_rows(a) and _by_rows(right) and scale_a.aligned and scale_b.aligned):
        refuse(call, "for these layouts and sizes")
    build = Build(call)
    multiply(build, _in_numbers(a), _transpose(_in_numbers(right)), _packed(build.output("c", out), out, 16),
             scales=(Pointer(scale_b.k), Pointer(scale_a.k), None), a_scales=_BLOCKS[recipe_b],
             b_scales=_BLOCKS[recipe_a], scaled_result=False, fast_sums=fast, bias_type="bfloat16")
    return build.plan()


def _in_numbers(info):
    """Rows as they lie; a byte of float4 has two numbers."""
    many = 2 if info.dtype == "float4_e2m1fn_x2" else 1
    return Matrix(Pointer(info.k), info.dtype, (info.shape[0], many * info.shape[1]), (many * info.strides[0], 1), 16)


def _by_rows(info):
    """Whether it can be passed as rows, 16 bytes apart."""
    step = step_of(info.shape, info.strides)
    return info.aligned and step is not None and step[1] and step[0] % 16 == 0


RULES = {
    "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "matmul": matmul, "addmm": _added,
    "baddbmm": _added, "linear": _linear, "_linear_tail": _linear_tail, "_scaled_mm": _scaled_mm, "_int_mm": _int_mm,
    "_block_scaled_mm": _block_scaled_mm,
    "linear_backward": _linear_backward,
}
