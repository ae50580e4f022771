"""Writes: ONNX has values alone, so what is written into a tensor becomes a new value of it, of the tensors that it is
a part of, and of the other views of the same memory, which are read anew when somebody asks."""

import math
import operator

from .. import _C
from ..ops import OPS
from ..ops.kinds import writes_by_name
from ._schemas import Unavailable

#: a result of these may be a view of the input or a copy, as its layout wants
_PERHAPS = frozenset("reshape contiguous flatten ravel reshape_as unflatten view_as".split())
_VIEWS = frozenset("""view reshape contiguous flatten ravel reshape_as unflatten view_as permute transpose t mT numpy_T
    movedim squeeze unsqueeze expand expand_as slice select narrow unfold as_strided alias diagonal detach real imag
    view_as_real view_as_complex""".split())
_LISTS = frozenset("split split_with_sizes chunk unbind".split())
_ORDERS = {
    "permute": lambda rank, dims: [d % rank for d in dims],
    "transpose": lambda rank, a, b: [b % rank if d == a % rank else a % rank if d == b % rank else d
                                     for d in range(rank)],
    "t": lambda rank: list(range(rank))[::-1],
    "numpy_T": lambda rank: list(range(rank))[::-1],
    "mT": lambda rank: [*range(rank - 2), rank - 1, rank - 2],
}
_SHAPES = frozenset("""view reshape flatten ravel unflatten unsqueeze squeeze alias contiguous view_as reshape_as
    detach""".split())


def name_of(target):
    """The name of an operator of the table; None for other functions."""
    return target.name.partition(".")[0] if isinstance(target, _C.Op) else None


def writes(node):
    """Whether a step writes into an argument."""
    name = name_of(node.target) if node.op == "call_function" else None
    return name is not None and ("out" in node.kwargs or writes_by_name(name))


class Memory:
    """Which Node is a view of which, and how new each one's value is."""

    def __init__(self, run):
        self.run = run
        self.written = any(map(writes, run.module.graph.nodes))
        self.values, self.same, self.base = {}, {}, {}
        self.stamp, self.version = {}, {}

    def first(self, node):
        """The Node whose tensor this one is."""
        while node in self.same:
            node = self.same[node]
        return node

    def root(self, node):
        """The Node whose memory this one shows."""
        node = self.first(node)
        while node in self.base:
            node = self.first(self.base[node])
        return node

    def keep(self, node, value):
        """The value of a new Node."""
        self.values[node] = value
        if not self.written:
            return
        base = self._base_of(node)
        if base is not None:
            self.base[node] = base
        self.stamp[node] = self.version.get(self.root(node), 0)

    def _base_of(self, node):
        """The Node that this one is a view of."""
        if node.op != "call_function" or not node.args:
            return None
        if node.target is operator.getitem:
            inner = node.args[0]
            return inner.args[0] if name_of(inner.target) in _LISTS else None
        name, base = name_of(node.target), node.args[0]
        if name not in _VIEWS or isinstance(node.meta["val"], (tuple, list)):
            return None
        if name in _PERHAPS and not _stays(node, base):
            return None
        return base

    def read(self, node):
        """The value as it is after all writes."""
        if not self.written:
            return self.values[node]
        node = self.first(node)
        if node in self.base:
            version = self.version.get(self.root(node), 0)
            if self.stamp[node] < version:
                self.values[node] = self._seen(node, self.read(self.base[node]))
                self.stamp[node] = version
        return self.values[node]

    def _seen(self, node, value):
        """A view Node's value of another value of its base, whose dtype may be another one too."""
        step = node.args[0] if node.target is operator.getitem else node
        made = self.run.translated(step, {step.args[0]: value}, value.dtype)
        return made[node.args[1]] if step is not node else made

    def write(self, node, value):
        """Makes `value` what the tensor of a Node holds."""
        node = self.first(node)
        root = self.root(node)
        self.version[root] = version = self.version.get(root, 0) + 1
        self.values[node], self.stamp[node] = value, version
        while node in self.base:
            base = self.first(self.base[node])
            before = self.read_at(base, version)
            value = self._put_back(node, before, value)
            self.values[base], self.stamp[base] = value, version
            node = base

    def read_at(self, node, version):
        """The value before the write that is under way."""
        if self.stamp[node] < version - 1:
            self.values[node] = self._seen(node, self.read_at(self.first(self.base[node]), version))
        return self.values[node]

    def _put_back(self, node, base, value):
        """The base with a view's new value in it. Wherever the view has an element, its place in the base is found by
        looking at numbered places through the same view."""
        g, name = self.run.g, name_of(node.target)
        if base.dtype.is_complex:
            raise Unavailable("what is written into a part of a complex tensor is not written; write real parts")
        if name in _SHAPES:
            return _reshaped(g, value, base)
        if name in _ORDERS:
            order = _ORDERS[name](base.rank, *node.args[1:])
            return g.permute(value, [order.index(d) for d in range(base.rank)])
        if name == "slice" and self._seen(node, base) is base:
            return value
        if not all(isinstance(n, int) for n in base.shape):
            numbered = g.op("Range", g.scalar(0, _C.int64), g.op("Size", base), g.scalar(1, _C.int64))
            numbered = g.op("Reshape", numbered, g.op("Shape", base))
        else:
            numbered = g.const(OPS["arange"](math.prod(base.shape)).reshape(base.shape), "places")
        numbered.shape = base.shape
        places = self._seen(node, numbered)
        places = g.op("Reshape", places, [-1, 1])
        flat = g.op("ScatterND", g.op("Reshape", base, [-1]), places, g.op("Reshape", value, [-1]))
        return _reshaped(g, flat, base)


def _reshaped(g, value, base):
    known = [n if isinstance(n, int) else -1 for n in base.shape]
    made = g.op("Reshape", value, known if known.count(-1) <= 1 and 0 not in known else g.op("Shape", base))
    made.shape = base.shape
    return made


def native(tensor):
    """A tensor of a trace as a tensor without values of plain sizes."""
    return getattr(tensor, "meta", tensor)


def _stays(node, base):
    """Whether the result of a step that may copy shows the memory of its input."""
    before, after = native(base.meta["val"]), native(node.meta["val"])
    if before.is_contiguous():
        return True
    if name_of(node.target) == "contiguous":
        return False
    try:
        before.view(tuple(after.shape))
    except RuntimeError:
        return False
    return True
