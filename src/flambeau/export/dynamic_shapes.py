"""Which sizes of a program's arguments may differ from the example's: Dim, and what is said of the arguments by it."""

import inspect
import re

from .. import _C
from .._shown import shown
from .._symbolic.expressions import constant, expression
from .._symbolic.shape_env import ConstraintViolationError, UserError
from .._symbolic.statements import INFINITE
from ..utils._pytree import tree_leaves, tree_map


class ShapesError(UserError, ValueError):
    """What is said of sizes does not fit the arguments."""


class OpenSizeError(ConstraintViolationError, ValueError):
    """A size that was to stay open cannot."""


class DimHint:
    """A size that may differ, without a name: Dim.AUTO (as far as the program allows), Dim.DYNAMIC (it must), or that
    stays: Dim.STATIC. `Dim.AUTO(min=2, max=64)` bounds it."""

    def __init__(self, name, min=None, max=None):
        self._name, self.min, self.max = name, min, max

    def __call__(self, min=None, max=None):
        """The same with bounds."""
        if self._name == "STATIC":
            raise TypeError("Dim.STATIC: a size that stays has no bounds")
        return DimHint(self._name, min, max)

    def __repr__(self):
        bounds = "".join(f", {n}={v}" for n, v in (("min", self.min), ("max", self.max)) if v is not None)
        return f"DimHint({self._name}{bounds})"


class Dim:
    """A size that may differ between calls, with a name: sizes of one name are equal.

    2 * Dim("half") + 1 is a size that depends on another.

    >>> from flambeau.export import Dim
    >>> Dim("batch", min=1, max=64), 2 * Dim("pairs")
    (Dim('batch', min=1, max=64), 2*pairs)
    """

    AUTO, DYNAMIC, STATIC = DimHint("AUTO"), DimHint("DYNAMIC"), DimHint("STATIC")
    factor, offset = 1, 0

    def __init__(self, name, *, min=None, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim: the name must be an identifier, got {shown(name)}")
        self.min, self.max = 0 if min is None else min, INFINITE if max is None else max
        if self.min >= self.max:
            raise ValueError(f"Dim {name}: min must be less than max, got {shown(min)} and {shown(max)}")
        self.__name__, self.root = name, self

    def _derived(self, factor, offset):
        if not isinstance(factor, int) or not isinstance(offset, int) or factor <= 0:
            raise NotImplementedError(f"Dim {self.__name__}: only integers are added, and only positive ones multiply")
        return DerivedDim(self.root, factor, offset)

    def __add__(self, other):
        return self._derived(self.factor, self.offset + other)

    def __sub__(self, other):
        return self._derived(self.factor, self.offset - other)

    def __mul__(self, other):
        return self._derived(self.factor * other, self.offset * other)

    def __rmul__(self, other):
        return self * other

    def __repr__(self):
        most = "" if self.max == INFINITE else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{most})"


class DerivedDim(Dim):
    """factor * root + offset."""

    def __init__(self, root, factor, offset):
        self.root, self.factor, self.offset = root, factor, offset
        self.min, self.max = factor * root.min + offset, factor * root.max + offset
        product = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = product + (f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else "")

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    """A Dim for each name, with the same bounds.

    >>> from flambeau.export import dims
    >>> dims("height", "width", min=8)
    (Dim('height', min=8), Dim('width', min=8))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """What is said of sizes, by tensor: shapes[x] = {0: Dim("batch")}.

    >>> import flambeau
    >>> from flambeau.export import Dim, ShapesCollection
    >>> shapes, x = ShapesCollection(), flambeau.ones(4, 2)
    >>> shapes[x] = {0: Dim("batch")}
    >>> shapes.dynamic_shapes(flambeau.nn.Linear(2, 2), (x,))
    {'input': {0: Dim('batch', min=0)}}
    """

    def __init__(self):
        self._said = []

    def __setitem__(self, t, shape):
        self._said.append((t, shape))

    def __getitem__(self, t):
        """What is said of a tensor, for more to be added: shapes[x][0] = Dim("batch")."""
        found = next((shape for known, shape in self._said if known is t), None)
        if found is None:
            found = {}
            self._said.append((t, found))
        return found

    def __len__(self):
        return len(self._said)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The `dynamic_shapes` of export for these arguments.

        ValueError where something is said of a tensor that is not among them.
        """
        names = dict(bound(m, args, kwargs or {}))
        leaves = tree_leaves(list(names.values()))
        if any(all(known is not leaf for leaf in leaves) for known, _ in self._said):
            raise ValueError("ShapesCollection: a tensor that something is said of is not among the arguments")

        def said(leaf):
            return next((shape for known, shape in self._said if known is leaf), None)

        return {name: tree_map(said, value) for name, value in names.items()}


class AdditionalInputs:
    """More examples of a program's arguments: sizes that differ among the examples are those that may differ.

    >>> import flambeau
    >>> from flambeau.export import AdditionalInputs
    >>> more = AdditionalInputs()
    >>> more.add((flambeau.ones(7, 2),))
    >>> more.dynamic_shapes(flambeau.nn.Linear(2, 2), (flambeau.ones(4, 2),))
    {'input': {0: DimHint(DYNAMIC), 1: None}}
    """

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        """Adds an example."""
        if not isinstance(args, tuple):
            raise TypeError(f"AdditionalInputs.add: args must be a tuple, got {type(args).__name__}")
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The `dynamic_shapes` of export for the first example and those that were added."""
        first, *others = [dict(bound(m, a, k)) for a, k in ((args, kwargs or {}), *self._examples)]

        def differs(x, *rest):
            if not isinstance(x, _C.Tensor):
                if all(x == y for y in rest):
                    return None
                if type(x) is int and all(type(y) is int for y in rest):
                    return Dim.DYNAMIC
                raise ValueError("AdditionalInputs: an argument that is neither a tensor nor an int differs; export it "
                                 "as a tensor")
            return {d: Dim.DYNAMIC if any(y.shape[d] != x.shape[d] for y in rest) else None for d in range(x.dim())}

        return {name: tree_map(differs, value, *(o[name] for o in others)) for name, value in first.items()}

    def verify(self, ep):
        """Calls the program on every example that was added; its errors say which it does not take."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **kwargs)


# ---- arguments -------------------------------------------------------------------------------------------------------

def bound(mod, args, kwargs):
    """(name, value) of each argument as the signature of forward names it: *args and **kwargs are one each."""
    signature = inspect.signature(mod.forward)
    return list(signature.bind(*args, **kwargs).arguments.items())


def specs(value, said, where):
    """What is said of each leaf of an argument, in the order of its leaves."""
    if isinstance(value, (tuple, list)):
        said = [None] * len(value) if said is None else said
        if not isinstance(said, (tuple, list)) or len(said) != len(value):
            raise ShapesError(f"dynamic_shapes: {where} is a {type(value).__name__} of {len(value)}, so what is said "
                              f"of it must be one of as many, got {shown(said)}")
        return [s for k, (v, d) in enumerate(zip(value, said, strict=True)) for s in specs(v, d, f"{where}[{k}]")]
    if isinstance(value, dict):
        said = {} if said is None else said
        if not isinstance(said, dict) or said.keys() - value.keys():
            raise ShapesError(f"dynamic_shapes: {where} is a dict with the keys {shown(list(value))}, got "
                              f"{shown(said)}")
        return [s for k, v in value.items() for s in specs(v, said.get(k), f"{where}[{k!r}]")]
    leaves = tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return [_of_leaf(value, said, where)]
    parts, said = _children(value), _children(said) if type(said) is type(value) else said
    if said is None:
        said = [None] * len(parts)
    if isinstance(said, dict):
        said = list(said.values())
    if not isinstance(said, (tuple, list)) or len(said) != len(parts):
        raise ShapesError(f"dynamic_shapes: {where} is a {type(value).__name__} of {len(parts)} parts, so what is "
                          f"said of it must be one of as many, got {shown(said)}")
    return [s for k, (v, d) in enumerate(zip(parts, said, strict=True)) for s in specs(v, d, f"{where}[{k}]")]


def _children(value):
    """The parts of a container of a registered class."""
    return tree_leaves(value, is_leaf=lambda x: x is not value)


def _of_leaf(value, said, where):
    """None, a DimHint for an int, or {dim: Dim, DimHint or None} for a tensor."""
    if not isinstance(value, _C.Tensor):
        if said is None or (isinstance(said, DimHint) and isinstance(value, int)):
            return said
        raise ShapesError(f"dynamic_shapes: {where} is a {type(value).__name__}, of which only a hint for an int can "
                          f"be said, got {shown(said)}")
    if said is None:
        return {}
    if isinstance(said, (tuple, list)):
        if len(said) != value.dim():
            raise ShapesError(f"dynamic_shapes: {where} has {value.dim()} dimensions, got {len(said)} entries")
        said = dict(enumerate(said))
    if not isinstance(said, dict):
        raise ShapesError(f"dynamic_shapes: of {where}, a tensor, {{dim: Dim}} or a list is said, got {shown(said)}")
    for dim, one in said.items():
        if not isinstance(dim, int) or not 0 <= dim < value.dim():
            raise ShapesError(f"dynamic_shapes: {where} has {value.dim()} dimensions, and {shown(dim)} is none of them")
        if not (one is None or isinstance(one, (Dim, DimHint)) or one == value.shape[dim]):
            raise ShapesError(f"dynamic_shapes: {where}, dimension {dim}: expected a Dim, a hint or None, got "
                            f"{shown(one)}")
    return {d: one for d, one in said.items() if isinstance(one, (Dim, DimHint)) and one is not Dim.STATIC}


# ---- what an error suggests --------------------------------------------------------------------------------------

_FIX = re.compile(r"\s*(\w+)\s*=\s*(.+?)\s*$")
_BOUND = re.compile(r"(min|max)\s*=\s*(\d+)")
_SUM = re.compile(r"(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)(?:\s*([+-])\s*(\d+))?$")


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """`dynamic_shapes` with what an error of export suggests for its Dims: a number, bounds, or another Dim.

    msg     the text of the error, with lines such as "n = 4" or "m = Dim('m', max=8)" after "Suggested fixes:"

    >>> from flambeau.export import Dim
    >>> from flambeau.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
    >>> text = "Suggested fixes: \\n  n = 4\\n  m = Dim('m', max=8)"
    >>> refine_dynamic_shapes_from_suggested_fixes(text, {"x": {0: Dim("n"), 1: Dim("m")}})
    {'x': {0: 4, 1: Dim('m', min=0, max=8)}}
    """
    where = "refine_dynamic_shapes_from_suggested_fixes"
    _, found, lines = msg.partition("Suggested fixes:")
    if not found:
        raise UserError(f"{where}: the text suggests nothing; give it that of an error of export, got {shown(msg)}")
    said = dict(fix.groups() for fix in map(_FIX.match, lines.strip().splitlines()) if fix)
    roots = {dim.root.__name__: dim.root for dim in tree_leaves(dynamic_shapes) if isinstance(dim, Dim)}
    if said.keys() - roots.keys():
        raise UserError(f"{where}: dynamic_shapes has the Dims {shown(sorted(roots))}, and the text also names "
                        f"{shown(sorted(said.keys() - roots.keys()))}")
    made = {}

    def fixed(name):
        if name not in made:
            made[name] = _suggested(name, said[name], fixed) if name in said else roots.get(name) or Dim(name)
        return made[name]

    def refined(dim):
        return dim.factor * fixed(dim.root.__name__) + dim.offset if isinstance(dim, Dim) else dim

    return tree_map(lambda x: fixed(x.__name__) if type(x) is Dim else refined(x), dynamic_shapes)


def _suggested(name, text, known):
    """What one line says: a number, a Dim, or a sum of one."""
    if text.isdigit():
        return int(text)
    if text.startswith("Dim("):
        return Dim(name, **{key: int(value) for key, value in _BOUND.findall(text)})
    found = _SUM.match(text)
    if found is None:
        raise UserError(f"refine_dynamic_shapes_from_suggested_fixes: {name} = {text} is not understood")
    factor, other, sign, offset = found.groups()
    product = int(factor) * known(other) if factor else known(other)
    return product + int(f"{sign}{offset}") if offset else product


class Symbols:
    """The symbols of one trace: by the name of their Dim, and those without a name."""

    def __init__(self, env):
        self.env, self.named, self.names = env, {}, {}
        self.must, self.whole = set(), set()  # those that may not be fixed; those with names
        self.numbers = set()  # those that are arguments themselves, and no sizes

    def of_int(self, said, number, where):
        """The expression of an argument that is an int: any int, unless the example is not negative."""
        least = said.min if said.min is not None else 0 if number >= 0 else -INFINITE
        most = INFINITE if said.max is None else said.max
        if not least <= number <= most:
            raise OpenSizeError(f"export: {where} is {number} in the example, outside of {least} to {most}")
        symbol = self._open(number, where, (least, most), said, where)
        self.numbers.add(symbol)
        return self.env.replace(expression(symbol))

    def of(self, said, size, where):
        """The expression of a size, or None for one that stays."""
        if isinstance(said, DimHint):
            if size < 2 and said._name != "DYNAMIC":
                return None
            least = 2 if said.min is None else max(2, said.min)
            symbol = self._new(size, where, least, INFINITE if said.max is None else said.max, said, where)
            return self.env.replace(expression(symbol))
        root, name = said.root, said.root.__name__
        inner, rest = divmod(size - said.offset, said.factor)
        if rest:
            raise OpenSizeError(f"export: {where} is {size} in the example, which is not {said.__name__} of "
                                           "an integer")
        if name not in self.named:
            self.named[name] = self._new(inner, where, root.min, root.max, root, name), inner
        symbol, known = self.named[name]
        if known != inner:
            raise OpenSizeError(f"export: {name} is {known} and, at {where}, {inner} in the example")
        return constant(said.factor) * self.env.replace(expression(symbol)) + constant(said.offset)

    def _new(self, size, where, least, most, said, name):
        if size < 2:
            raise OpenSizeError(f"export: {where} is {size} in the example; a size that is to stay open "
                                           "must be 2 or more there")
        if not least <= size <= most:
            raise OpenSizeError(f"export: {where} is {size} in the example, outside of {least} to {most}")
        symbol = self._open(size, where, (max(least, 2), most), said, name)
        if symbol in self.must:
            self.env.declared[symbol] = least, most
        return symbol

    def _open(self, size, where, span, said, name):
        symbol = self.env.new_symbol(size, where, span)
        self.names[symbol] = name
        if isinstance(said, Dim) or said._name == "DYNAMIC":
            self.must.add(symbol)
            self.env.declared[symbol] = span
        if isinstance(said, Dim):
            self.whole.add(symbol)
        return symbol
