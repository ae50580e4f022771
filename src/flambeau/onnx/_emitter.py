"""What a translation writes with: operators of ONNX, constants, casts, sizes.

A translation is a function `translation(g, *arguments)` with the arguments of the operator; g is an Emitter. Tensors
arrive as Values, numbers as numbers, sizes that are open as Values of one element.
"""

import math
import re

from .. import _C
from .._tensor.creation import tensor
from ._dtypes import NUMBERS, REAL_PARTS, number_of
from ._graph import Graph, Value
from ._older import TABLE as OLDER
from ._schemas import Unavailable as Unavailable
from ._schemas import check_attributes, widened

#: letters that tell of what kind an attribute is, as programs for PyTorch's exporter write them: alpha_f=1.0
_SUFFIXED = re.compile(r"^(\w+)_([isfgt])$")


def sizes(tensor):
    """The sizes of a tensor of the trace: ints, and expressions where they are open."""
    if not isinstance(tensor, _C.Tensor):
        return ()
    symbolic = getattr(tensor, "symbolic_sizes", None)
    if symbolic is None:
        return tuple(tensor.shape)
    return tuple(e.number if e.is_number else e for e in symbolic)


class Emitter:
    """Adds nodes to a graph.

    opset  the version of ONNX's operators that is written
    fold   whether constants may be computed beforehand
    kind   the name of the operator that is being translated
    out    what the trace knows of its result: a tensor without values, or several
    last_users, contiguous  how many steps read its first argument, and whether that lies in memory row by row
    """

    def __init__(self, graph, opset, fold):
        self.graph, self.opset, self.fold = graph, opset, fold
        self.out, self.wish, self.kind = None, "value", None
        self.last_users, self.contiguous = 2, False

    # ---- the result that the trace expects ---------------------------------------------------------------------------

    @property
    def dtype(self):
        """The dtype of the (first) result; of a complex one that of its parts."""
        out = self.out[0] if isinstance(self.out, (tuple, list)) else self.out
        return REAL_PARTS.get(out.dtype, out.dtype)

    @property
    def complex(self):
        """Whether the (first) result is complex."""
        return (self.out[0] if isinstance(self.out, (tuple, list)) else self.out).dtype.is_complex

    @property
    def shape(self):
        """The sizes of the (first) result."""
        return sizes(self.out[0] if isinstance(self.out, (tuple, list)) else self.out)

    @property
    def rank(self):
        """The number of dimensions of the (first) result."""
        return len(self.shape)

    # ---- operators ---------------------------------------------------------------------------------------------------

    def op(self, kind, *inputs, outputs=1, dtype=None, version=1, **attributes):
        """The result of an operator of ONNX (a list where `outputs` is more than one). Inputs: Values, None, a list of
        ints (a constant of one dimension), an int (a constant without dimensions). "domain::Name" names an operator of
        another domain. Attributes are named as ONNX names them, with `_i`, `_f`, `_s`, `_t`, `_g` or without."""
        domain, _, kind = kind.rpartition("::")
        inputs = [self.ints(v) if isinstance(v, (int, list, tuple)) else v for v in inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        given = {}
        for name, value in attributes.items():
            found = _SUFFIXED.match(name)
            if value is not None:
                given[found[1] if found else name] = _attribute(value, found[2] if found else None)
        made = self._applied(kind, inputs, given, outputs, domain, version)
        if dtype is not None:
            for value in made:
                value.dtype = dtype
        return made if outputs > 1 else made[0]

    def _applied(self, kind, inputs, given, outputs, domain, version):
        """The results of an operator, as this version of ONNX writes it."""
        if domain:
            return self.graph.add(kind, inputs, given, [f"{self.wish}_{kind.lower()}"] * outputs, domain, version)
        since, rewrite = OLDER.get(kind, (0, None))
        if self.opset >= since:
            return self.node(kind, inputs, given, outputs)
        made = rewrite(self, kind, inputs, given, outputs)
        if made is None:
            raise Unavailable(f"this use of {kind} needs opset {since}; give a newer opset_version")
        return made

    def node(self, kind, inputs, given, outputs):
        """The results of a node; of inputs in a wider dtype where the operator does not take theirs."""
        wishes = [f"{self.wish}_{kind.lower()}"] * outputs
        check_attributes(kind, self.opset, given.keys())
        wider, back = widened(kind, self.opset, [None if v is None else v.dtype for v in inputs], outputs)
        inputs = [self.cast(v, wider[k]) if k in wider else v for k, v in enumerate(inputs)]
        made = self.graph.add(kind, inputs, given, wishes)
        return [self.cast(v, back[k]) if k in back else v for k, v in enumerate(made)]

    # ---- constants ---------------------------------------------------------------------------------------------------

    def const(self, tensor, wish="const"):
        """A tensor as a constant."""
        return self.graph.constant(tensor, wish)

    def ints(self, numbers):
        """Ints as a constant of int64: of one dimension for a list, without dimensions for an int."""
        return self.const(tensor(list(numbers) if isinstance(numbers, tuple) else numbers, dtype=_C.int64))

    def scalar(self, number, dtype):
        """A number as a constant without dimensions; without a dtype in that of Python's numbers."""
        if dtype is None and isinstance(number, float):
            dtype = _C.float64
        return self.const(tensor(number, dtype=dtype))

    def of(self, x, dtype):
        """A tensor or number as a Value of this dtype; numbers have no dimensions."""
        if not isinstance(x, Value):
            return self.scalar(x, dtype)
        if x.number:
            x = self.op("Squeeze", x, [0]) if x.shape == (1,) else x
        return self.cast(x, dtype)

    def cast(self, value, dtype):
        """The value in another dtype."""
        if value.dtype is dtype or dtype is None:
            return value
        if value.data is not None and self.fold:
            return self.const(value.data.to(dtype), value.name)
        if value.dtype is not None and value.dtype.is_floating_point and not dtype.is_floating_point and \
                dtype is not _C.bool and dtype not in (_C.int64, _C.int32):
            value = self.op("Cast", value, to=number_of(_C.int64), dtype=_C.int64)  # wraps, as conversions here do
        return self.shaped(self.op("Cast", value, to=number_of(dtype), dtype=dtype), value.shape)

    @staticmethod
    def shaped(value, shape):
        """The value, of which these sizes are known."""
        if value.shape is None:
            value.shape = shape
        return value

    # ---- sizes -------------------------------------------------------------------------------------------------------

    def size(self, value, dim):
        """The size of a dimension: an int, or a number of the program, which is the same one for equal sizes."""
        known = value.shape[dim]
        if isinstance(known, int):
            return known
        found = self.graph.size_of(known)
        if found is None:
            dim %= value.rank
            found = self.number(self.op("Shape", value, start=dim, end=dim + 1))
            if known is not None:
                self.graph.sizes[known] = found
        return found

    @staticmethod
    def number(value):
        """Marks a Value of one element in one dimension as a number."""
        value.shape, value.number = (1,), True
        return value

    def arithmetic(self, kind, *numbers):
        """Add, Sub, Mul … of sizes."""
        return self.number(self.op(kind, *(self.listed([n]) for n in numbers)))

    def times(self, *numbers):
        """The product of sizes: an int where all are."""
        product = 1
        for n in numbers:
            if isinstance(n, int):
                product = n * product if isinstance(product, int) else self.arithmetic("Mul", product, n)
            else:
                product = n if product == 1 else self.arithmetic("Mul", product, n)
        return product

    def listed(self, numbers):
        """Sizes as one tensor of int64 of one dimension."""
        if not any(isinstance(n, Value) for n in numbers):
            return self.ints([int(n) for n in numbers])
        parts = [self.cast(n, _C.int64) if isinstance(n, Value) else self.ints([n]) for n in numbers]
        parts = [self.op("Reshape", p, [1]) if p.shape == () else p for p in parts]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def full_shape(self, value):
        """All sizes of a value as a tensor of one dimension."""
        if all(isinstance(n, int) for n in value.shape):
            return self.ints(list(value.shape))
        return self.op("Shape", value)

    def reshape(self, value, wanted):
        """The value in other sizes: ints and numbers of the program."""
        wanted = list(wanted)
        if value.shape is not None and tuple(wanted) == value.shape:
            return value
        if sum(isinstance(n, Value) for n in wanted) == 1 and 0 not in wanted and -1 not in wanted:
            wanted = [-1 if isinstance(n, Value) else n for n in wanted]  # Reshape finds one size by itself
        zero = {"allowzero": 1} if 0 in wanted else {}
        made = self.op("Reshape", value, self.listed(wanted), **zero)
        if any(isinstance(n, Value) for n in wanted):
            return made
        if -1 in wanted and value.shape is not None and all(isinstance(n, int) for n in value.shape):
            rest = -math.prod(wanted)
            wanted[wanted.index(-1)] = math.prod(value.shape) // rest if rest else 0
        return self.shaped(made, tuple(None if n == -1 else n for n in wanted))

    def permute(self, value, order):
        """The value with its dimensions in another order."""
        order = list(order)
        before = value.node
        if before is not None and before.kind == "Transpose" and before.inputs[0].shape is not None:
            value, order = before.inputs[0], [before.attributes["perm"][k] for k in order]
        if order == sorted(order):
            return value
        if value.data is not None and self.fold:
            return self.const(value.data.permute(*order), value.name)
        made = self.op("Transpose", value, perm=order)
        return self.shaped(made, tuple(value.shape[k] for k in order) if value.shape is not None else None)

    def unsqueeze(self, value, *dims):
        """The value with dimensions of size 1 at these places of the result."""
        return self.op("Unsqueeze", value, list(dims)) if dims else value

    def squeeze(self, value, *dims):
        """The value without these dimensions."""
        return self.op("Squeeze", value, list(dims)) if dims else value

    def slice(self, value, start, end, dim, step=1):
        """A part of the value along one dimension: start and end may be numbers of the program."""
        return self.op("Slice", value, self.listed([start]), self.listed([end]), [dim], [step])

    def expand(self, value, shape):
        """The value repeated along dimensions of size 1, and along new ones in front."""
        return self.op("Expand", value, self.listed(shape))

    # ---- graphs inside graphs ----------------------------------------------------------------------------------------

    def inside(self):
        """An Emitter for the graph of a branch or a body."""
        return Emitter(Graph(self.graph), self.opset, self.fold)

    def input(self, wish, dtype, shape):
        """An input of the graph that is being written."""
        value = Value(self.graph.name(wish), dtype, shape)
        self.graph.inputs.append(value)
        return value


def _attribute(value, letter):
    """An attribute as the graph keeps it: letters say which kind a list or a number is of."""
    if letter == "f":
        return [float(v) for v in value] if isinstance(value, (list, tuple)) else float(value)
    if letter == "i":
        return [int(v) for v in value] if isinstance(value, (list, tuple)) else int(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, _C.dtype):
        return NUMBERS[value]
    if isinstance(value, (tuple, list)):
        return [int(v) if isinstance(v, bool) else v for v in value]
    return value

