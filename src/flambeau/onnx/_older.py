"""How operators are written with versions of ONNX before 18, where their inputs were others or they were not there."""

import math

from .. import _C
from .._tensor.creation import tensor


def _ints_of(value):
    """The numbers of a constant, or None."""
    return None if value is None or value.data is None else value.data.tolist()


def _as_attribute(name, place=1):
    """An input that was an attribute: only constants can be."""
    def rewrite(g, kind, inputs, given, outputs):
        value = inputs[place] if len(inputs) > place else None
        if value is not None:
            numbers = _ints_of(value)
            if numbers is None:
                return None
            given = given | {name: numbers}
        return g.node(kind, inputs[:place], given, outputs)
    return rewrite


def _shape(g, kind, inputs, given, outputs):
    whole = g.node("Shape", inputs, {}, 1)[0]
    if "start" not in given:
        return [whole]
    return [g.op("Slice", whole, [given["start"]], [given["end"]], [0])]


def _layer_norm(g, kind, inputs, given, outputs):
    x, weight, bias = (*inputs, None)[:3]
    dims = list(range(given["axis"], 0))
    rest = g.op("Sub", x, g.op("ReduceMean", x, dims, keepdims=1))
    var = g.op("ReduceMean", g.op("Mul", rest, rest), dims, keepdims=1)
    found = g.op("Div", rest, g.op("Sqrt", g.op("Add", var, g.scalar(given["epsilon"], x.dtype))))
    found = g.op("Mul", found, weight)
    return [found if bias is None else g.op("Add", found, bias)]


def _softmax(g, kind, inputs, given, outputs):
    """Before 13 everything from the axis on was one: the same along the last dimension alone."""
    x = inputs[0]
    if given["axis"] == -1:
        return g.node(kind, inputs, given, 1)
    axis, last = given["axis"] % x.rank, x.rank - 1
    if axis == last:
        return g.node(kind, inputs, {"axis": last}, 1)
    order = [d for d in range(x.rank) if d != axis] + [axis]
    made = g.node(kind, [g.op("Transpose", x, perm=order)], {"axis": last}, 1)[0]
    return [g.op("Transpose", made, perm=[order.index(d) for d in range(x.rank)])]


def _trilu(g, kind, inputs, given, outputs):
    x, k = inputs
    rows, columns = x.shape[-2:] if x.shape is not None else (None, None)
    shift = _ints_of(k)
    if shift is None or not isinstance(rows, int) or not isinstance(columns, int):
        return None
    keep = [[j - i >= shift if given["upper"] else j - i <= shift for j in range(columns)] for i in range(rows)]
    return [g.op("Where", g.const(tensor(keep, dtype=_C.bool)), x, g.scalar(0, x.dtype))]


def _resize(g, kind, inputs, given, outputs):
    """The region of interest had to be there, if empty."""
    empty = g.const(tensor([], dtype=_C.float32))
    return g.node(kind, [inputs[0], empty, inputs[2] or empty, *inputs[3:]], given, 1)


def _hardswish(g, kind, inputs, given, outputs):
    return [g.op("Mul", inputs[0], g.op("HardSigmoid", inputs[0], alpha_f=1 / 6, beta_f=0.5))]


def _mish(g, kind, inputs, given, outputs):
    return [g.op("Mul", inputs[0], g.op("Tanh", g.op("Softplus", inputs[0])))]


def _gelu(g, kind, inputs, given, outputs):
    x = inputs[0]
    half, one = g.scalar(0.5, x.dtype), g.scalar(1.0, x.dtype)
    if given["approximate"] == "none":
        inner = g.op("Erf", g.op("Mul", x, g.scalar(math.sqrt(0.5), x.dtype)))
    else:
        cube = g.op("Mul", g.op("Mul", x, x), x)
        inner = g.op("Add", x, g.op("Mul", cube, g.scalar(0.044715, x.dtype)))
        inner = g.op("Tanh", g.op("Mul", inner, g.scalar(math.sqrt(2 / math.pi), x.dtype)))
    return [g.op("Mul", g.op("Mul", x, half), g.op("Add", inner, one))]


_REDUCTIONS = "ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2".split()
#: {operator: (the first version that has it as it is written, how it is written before)}; None for a form that is not
TABLE = {
    **{kind: (18, _as_attribute("axes")) for kind in _REDUCTIONS},
    "ReduceSum": (13, _as_attribute("axes")), "Squeeze": (13, _as_attribute("axes")),
    "Unsqueeze": (13, _as_attribute("axes")), "Split": (13, _as_attribute("split")), "Shape": (15, _shape),
    "LayerNormalization": (17, _layer_norm), "Softmax": (13, _softmax), "LogSoftmax": (13, _softmax),
    "Trilu": (14, _trilu), "Resize": (13, _resize), "HardSwish": (14, _hardswish), "Mish": (18, _mish),
    "Gelu": (20, _gelu),
}
