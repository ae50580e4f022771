"""A graph of operators as TorchScript's text."""

import math
import operator

from .. import _C
from .._aten.numbers import NUMBERS
from .._aten.spelling import Raw, Size, leaf_type, spelled
from .._shown import class_name, shown
from .._symbolic import numbers
from ..fx import Node
from ..ops import OPS
from ..ops.namespaces import READINGS, Overload, Packet, Reading
from ..utils import _pytree
from ._classes import attribute_path, is_name

#: functions of sizes, and the operators that TorchScript has for them
OF_NUMBERS = {
    operator.add: "torch.add", operator.sub: "torch.sub", operator.mul: "torch.mul", operator.neg: "torch.neg",
    operator.floordiv: "torch.floordiv", operator.mod: "torch.remainder", operator.truediv: "torch.div",
    operator.pow: "torch.pow", operator.eq: "torch.eq", operator.ne: "torch.ne", operator.lt: "torch.lt",
    operator.le: "torch.le", operator.gt: "torch.gt", operator.ge: "torch.ge", operator.and_: "torch.__and__",
    operator.or_: "torch.__or__", operator.abs: "ops.prim.abs", math.ceil: "torch.ceil", math.floor: "torch.floor",
    math.sqrt: "torch.sqrt", math.trunc: "int", round: "torch.round", numbers.sym_int: "int",
    numbers.sym_float: "float", numbers.sym_max: "ops.prim.max", numbers.sym_min: "ops.prim.min",
    numbers.sym_not: "torch.__not__", numbers.sym_sqrt: "torch.sqrt",
}
_RESERVED = {"torch", "ops", "CONSTANTS", "self", "inf", "nan", "annotate", "getattr", "isinstance", "fork",
             "unchecked_cast", "uninitialized", "int", "float", "bool", "str", "len", "range", "print", "list",
             "complex", "min", "max", "abs", "device"}


# ---- values ----------------------------------------------------------------------------------------------------------

def quoted(text):
    """A text as archives write it: bytes of UTF-8 that are no ASCII as octal numbers."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if c.isascii() and c.isprintable() else "".join(
        f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))) for c in text) + '"'


def number(x):
    """A number as TorchScript writes it."""
    if isinstance(x, complex):
        return f"{number(x.real)}+{number(x.imag)}j" if x.imag >= 0 else f"{number(x.real)}-{number(-x.imag)}j"
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "-inf"
    return repr(x)


class Writer:
    """The text of one function: a statement for each node."""

    def __init__(self, graph, places, constants):
        self.graph, self.constants = graph, constants
        self.names = dict(places)  # Node: expression
        self.used = set(_RESERVED)
        self.lines = []

    def local(self, node, wanted=None):
        """A new name for a node."""
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted or node.name)
        while name in self.used or not is_name(name):
            name = f"{name}_" if is_name(name) else f"_{name}"
        self.used.add(name)
        self.names[node] = name
        return name

    def write(self):
        """The lines of all nodes but the last, which is the output."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                return
            made = self.call(node)
            if made is not None:
                self.lines.append(f"{self.local(node)} = {made}")

    def call(self, node):
        """An expression for a call, or None for one that leaves nothing."""
        target = node.target
        if node.op == "get_attr":
            return attribute_path(node.target)
        if node.op == "call_method":
            return self.method(node)
        if node.op != "call_function":
            raise NotImplementedError(f"jit: the step {node.name} ({node.op}) has no form in TorchScript")
        if isinstance(target, Reading):
            return self.reading(node)
        if target is operator.getitem:
            return f"{self.value(node.args[0])}[{self.value(node.args[1])}]"
        if target in OF_NUMBERS:
            return f"{OF_NUMBERS[target]}({', '.join(map(self.value, node.args))})"
        if not isinstance(target, (_C.Op, Overload, Packet)):
            raise NotImplementedError(f"jit.trace: the program calls {shown(getattr(target, '__name__', target))}, "
                                      "which has no form in TorchScript")
        return self.operator(node, target)

    def reading(self, node):
        target, args = node.target, list(map(self.value, node.args))
        if target is READINGS["assert"]:
            return None
        name = {"size": "torch.size", "stride": "torch.stride", "numel": "torch.numel", "item": "torch.item",
                "storage_offset": "torch.storage_offset"}[next(k for k, v in READINGS.items() if v is target)]
        return f"{name}({', '.join(args)})"

    def method(self, node):
        """`x.name(…)`: the operator of that name."""
        op = OPS.get(node.target) or getattr(OPS.get(node.target.removesuffix("_")), "inplace_form", None)
        if op is None:
            raise NotImplementedError(f"jit: the method {node.target} has no form in TorchScript")
        return self.operator(node, op)

    def operator(self, node, target):
        name, args, kwargs, item = spelled(target, node.args, dict(node.kwargs))
        parts = [self.value(a) for a in args]
        parts += [f"{key}={self.value(value)}" for key, value in kwargs.items()]
        return f"{name}({', '.join(parts)}){item}"

    def value(self, x):
        """An argument."""
        if isinstance(x, Node):
            return self.names[x]
        if isinstance(x, Raw):
            return x.text
        if isinstance(x, Size):
            return f"torch.size({self.value(x.of)}, {x.dim})"
        if isinstance(x, str):
            return quoted(x)
        if x is None or isinstance(x, (bool, int, float, complex)):
            return number(x)
        if isinstance(x, (tuple, list)):
            items = f"[{', '.join(map(self.value, x))}]"
            if any(item is None for item in x):
                return f"annotate(List[Optional[Tensor]], {items})"
            return items if x else "annotate(List[int], [])"
        if isinstance(x, _C.device):
            return f"torch.device({quoted(str(x))})"
        if x in NUMBERS:
            return str(NUMBERS[x])
        if isinstance(x, _C.Tensor):
            return self.constants.of(x)
        raise NotImplementedError(f"jit.trace: an argument is a {class_name(type(x))}, which TorchScript has not got")

    def returned(self, nodes, spec):
        """(the expression of the result, its type)."""
        leaves = [(self.value(x), leaf_type(x)) for x in nodes]
        return assembled(spec, leaves)


def assembled(spec, leaves):
    """(expression, type) of a tree of expressions: tuples, lists and dicts of those of the leaves."""
    made = _pytree.tree_unflatten(list(map(_Leaf, leaves)), spec)
    return _tree(made)


class _Leaf:
    def __init__(self, pair):
        self.pair = pair


def _tree(x):
    if isinstance(x, _Leaf):
        return x.pair
    if isinstance(x, dict):
        parts = {key: _tree(value) for key, value in x.items()}
        kinds = sorted({kind for _, kind in parts.values()}) or ["Tensor"]
        keys = sorted({type(key).__name__ for key in parts}) or ["str"]
        if len(kinds) > 1 or len(keys) > 1 or keys[0] not in ("str", "int"):
            raise NotImplementedError("jit.trace: a dict of TorchScript has keys of one type (str or int) and values "
                                      "of one; return a tuple")
        items = [f"{quoted(key) if isinstance(key, str) else key}: {text}" for key, (text, _) in parts.items()]
        return "{" + ", ".join(items) + "}", f"Dict[{keys[0]}, {kinds[0]}]"
    if isinstance(x, (tuple, list)):
        parts = [_tree(value) for value in x]
        texts, kinds = [t for t, _ in parts], [k for _, k in parts]
        if isinstance(x, list) and len(set(kinds)) <= 1:
            kind = kinds[0] if kinds else "Tensor"
            return f"annotate(List[{kind}], [{', '.join(texts)}])", f"List[{kind}]"
        return f"({', '.join(texts)}{',' * (len(texts) == 1)})", f"Tuple[{', '.join(kinds) or '()'}]"
    raise NotImplementedError(f"jit.trace: a {class_name(type(x))} among the arguments or results; use tensors, "
                              "tuples, lists and dicts")


