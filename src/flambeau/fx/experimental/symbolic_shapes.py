"""Questions about open sizes: what is known, what is decided by the example, what holds for arguments of a graph."""

import enum
from dataclasses import dataclass, field

from ... import _C
from ..._shown import shown
from ..._symbolic.expressions import Poly, Symbol, expression, told
from ..._symbolic.expressions import free_symbols as _symbols
from ..._symbolic.numbers import SymBool, SymFloat, SymInt
from ..._symbolic.shape_env import ConstraintViolationError as ConstraintViolationError
from ..._symbolic.shape_env import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
from ..._symbolic.shape_env import ShapeEnv as ShapeEnv
from ..._symbolic.shape_env import ShapeGuard as ShapeGuard
from ..._symbolic.statements import Logic, Relation
from ...utils._pytree import tree_leaves

_OPEN = (SymInt, SymFloat, SymBool)


class DimDynamic(enum.Enum):
    """How a size of an example is taken: open (DYNAMIC); open, and one symbol with equal sizes (DUCK); as it is
    (STATIC)."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4


@dataclass(frozen=True)
class StrictMinMaxConstraint:
    """A size must stay open within a range; `vr` is (least, largest)."""

    warn_only: bool = False
    vr: tuple = (0, float("inf"))


@dataclass(frozen=True)
class RelaxedUnspecConstraint:
    """A size must stay open."""

    warn_only: bool = False


@dataclass
class StatelessSymbolicContext:
    """What is asked of the sizes of one tensor: dynamic_sizes, one DimDynamic each, and constraint_sizes, one
    constraint or None each.

    >>> import flambeau
    >>> from flambeau._subclasses import FakeTensorMode
    >>> from flambeau.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
    >>> mode = FakeTensorMode(shape_env=ShapeEnv())
    >>> rows = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    >>> mode.from_tensor(flambeau.ones(4, 4), symbolic_context=rows).shape
    torch.Size([s0, 4])
    """

    dynamic_sizes: list
    constraint_sizes: list = field(default_factory=list)

    def chosen(self, env, source):
        """The function (dim, size) -> whether a size is open, or its expression."""
        constraints = [*self.constraint_sizes, *[None] * (len(self.dynamic_sizes) - len(self.constraint_sizes))]

        def choose(dim, size):
            how, constraint = self.dynamic_sizes[dim], constraints[dim]
            if how is DimDynamic.STATIC:
                return False
            if how is DimDynamic.SIZE_LIKE_UNBACKED:
                raise NotImplementedError("StatelessSymbolicContext: sizes without an example are not available for "
                                          "arguments; use DYNAMIC")
            if constraint is None and how is DimDynamic.DUCK:
                return True
            low, high = getattr(constraint, "vr", (None, None)) if constraint is not None else (None, None)
            span = None if low is None else (max(low, 2) if size > 1 else low, high)
            return env.create_symbol(size, f"{source}.size()[{dim}]", duck=how is DimDynamic.DUCK, range=span)

        return choose


def _node_env(*args):
    return next((a.node.shape_env for a in args if isinstance(a, _OPEN)), None)


def is_symbolic(val):
    """Whether a number is open.

    >>> from flambeau.fx.experimental.symbolic_shapes import is_symbolic
    >>> is_symbolic(3)
    False
    """
    if not isinstance(val, (*_OPEN, int, float, bool)):
        raise AssertionError(f"is_symbolic: expected a number, got {shown(val)}")
    return isinstance(val, _OPEN) and bool(_symbols(val.node.expr))


def is_concrete_int(a):
    """Whether an int or SymInt can have one value only."""
    if not isinstance(a, (int, SymInt)):
        raise AssertionError(f"is_concrete_int: expected an int or a SymInt, got {shown(a)}")
    return isinstance(a, int) or a.node.expr.is_number


def is_concrete_float(a):
    """Whether a float or SymFloat can have one value only."""
    return isinstance(a, float) or not _symbols(a.node.expr)


def is_concrete_bool(a):
    """Whether a bool or SymBool can have one value only."""
    return isinstance(a, bool) or a.node.shape_env.certain(a.node.expr) is not None


def guard_int(a):
    """An int: that of the example where it was open, under a guard."""
    if not isinstance(a, (int, SymInt)):
        raise AssertionError(f"guard_int: expected an int or a SymInt, got {shown(a)}")
    return int(a)


def guard_float(a):
    """A float: that of the example where it was open, under a guard."""
    return float(a)


def guard_bool(a):
    """A bool: that of the example where it was open, under a guard."""
    return bool(a)


def guard_scalar(a):
    """The plain number of the example, under a guard where it was open."""
    return {SymInt: guard_int, SymFloat: guard_float, SymBool: guard_bool}.get(type(a), lambda x: x)(a)


def hint_int(a, fallback=None):
    """The int of the example, without a guard; `fallback` where there is none."""
    if isinstance(a, int):
        return a
    if a.node.hint is None and fallback is None:
        raise GuardOnDataDependentSymNode(a.node.expr, f"hint_int: {told(a)} comes from values that the trace does "
                                          "not have; give a fallback")
    return fallback if a.node.hint is None else a.node.hint


def has_hint(a):
    """Whether the example says what a number is."""
    return not isinstance(a, _OPEN) or a.node.has_hint()


has_guarding_hint = has_hint


def statically_known_true(x):
    """Whether a bool or SymBool is true for all sizes that the conditions allow; adds no guard.

    >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true
    >>> env = ShapeEnv()
    >>> n = env.create_symintnode(env.create_symbol(5))
    >>> statically_known_true(n * 2 > n), statically_known_true(n > 3), env.guards
    (True, False, [])
    """
    if not isinstance(x, (bool, SymBool)):
        raise AssertionError(f"statically_known_true: expected a bool or a SymBool, got {shown(x)}")
    return x if isinstance(x, bool) else x.node.shape_env.certain(x.node.expr) is True


def statically_known_false(x):
    """Whether a bool or SymBool is false for all sizes that the conditions allow; adds no guard."""
    return not x if isinstance(x, bool) else x.node.shape_env.certain(x.node.expr) is False


definitely_true, definitely_false = statically_known_true, statically_known_false


def _guard_or(a, default):
    if isinstance(a, bool):
        return a
    try:
        return bool(a)
    except GuardOnDataDependentSymNode:
        return default


def guard_or_false(a):
    """The truth for the example, under a guard; False where values that nobody has decide."""
    return _guard_or(a, False)


def guard_or_true(a):
    """The truth for the example, under a guard; True where values that nobody has decide."""
    return _guard_or(a, True)


guard_size_oblivious = guard_bool


def expect_true(a):
    """Takes a statement for true: of sizes of the example it is decided, of others it becomes an assertion."""
    return a if isinstance(a, bool) else a.node.shape_env.assume(a.node.expr)


def sym_eq(x, y):
    """Whether two numbers, or tuples and lists of them, are equal: a bool or a SymBool."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return False if len(x) != len(y) else sym_and(*map(sym_eq, x, y))
    if not isinstance(x, (int, SymInt)) or not isinstance(y, (int, SymInt)):
        raise AssertionError(f"sym_eq: cannot compare {type(x).__name__} with {type(y).__name__}")
    return x == y


def _joined(name, usual, x, others):
    parts = [p for p in (x, *others) if p is not usual]
    if any(isinstance(p, bool) for p in parts):
        return not usual
    if not parts:
        return usual
    result = parts[0]
    for part in parts[1:]:
        result = result & part if name == "And" else result | part
    return result


def sym_and(x=True, *others):
    """All of several statements: a bool or a SymBool."""
    return _joined("And", True, x, others)


def sym_or(x=False, *others):
    """Any of several statements: a bool or a SymBool."""
    return _joined("Or", False, x, others)


def constrain_range(a, *, min, max=None):
    """Says that an int lies between min and max, ends included.

    ValueError for an int, or a size of the example, that does not.
    """
    max = float("inf") if max is None else max
    if max < min:
        raise ValueError(f"constrain_range: max must be at least min, got {min} and {max}")
    hint = a if isinstance(a, int) else a.node.hint
    if hint is not None and not min <= hint <= max:
        raise ValueError(f"constrain_range: {hint} is not between {min} and {max}")
    if isinstance(a, SymInt):
        for symbol in a.node.expr.free_symbols:
            if expression(symbol) == a.node.expr:
                a.node.shape_env.constrain_range(symbol, min, max)


def constrain_unify(a, b):
    """Says that two ints are equal."""
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        env = _node_env(a, b)
        env.assume(Relation("Eq", *(expression(x) if isinstance(x, int) else x.node.expr for x in (a, b))))
    elif a != b:
        raise AssertionError(f"constrain_unify: {a} and {b} are different ints")


def _exprs(val):
    for leaf in tree_leaves(val):
        if isinstance(leaf, _OPEN):
            yield leaf.node.expr
        elif isinstance(leaf, (Poly, Symbol, Relation, Logic)):
            yield leaf
        elif isinstance(leaf, _C.Tensor) and getattr(leaf, "symbolic_sizes", None) is not None:
            env = leaf.fake_mode.shape_env
            yield from (env.replace(e) for e in (*leaf.symbolic_sizes, *leaf.symbolic_strides))


def free_symbols(val):
    """The Symbols in a number, an expression, a tensor's sizes, or a container of those."""
    return set().union(*map(_symbols, _exprs(val)))


def has_free_symbols(val):
    """Whether there are any."""
    return bool(free_symbols(val))


def free_unbacked_symbols(x):
    """The Symbols that stand for values which the trace does not have."""
    return {s for s in free_symbols(x) if s.name.startswith("u")}


def has_free_unbacked_symbols(x):
    """Whether there are any."""
    return bool(free_unbacked_symbols(x))


def fx_placeholder_vals(gm):
    """What the placeholders of a graph stood for when it was traced."""
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def fx_placeholder_targets(gm):
    """The names of a graph's placeholders."""
    return [node.target for node in gm.graph.nodes if node.op == "placeholder"]


def eval_guards(gm, *args):
    """Whether arguments satisfy the conditions under which a graph was traced.

    >>> import flambeau
    >>> from flambeau.fx.experimental.proxy_tensor import make_fx
    >>> from flambeau.fx.experimental.symbolic_shapes import eval_guards
    >>> gm = make_fx(lambda x: x + 1 if x.shape[0] > 2 else x, tracing_mode="symbolic")(flambeau.ones(5))
    >>> eval_guards(gm, flambeau.ones(3)), eval_guards(gm, flambeau.ones(2))
    (True, False)
    """
    return gm.shape_env.evaluate_guards_for_args(fx_placeholder_vals(gm), args)


def bind_symbols(gm, *args):
    """{Symbol: number}: what arguments make of the open sizes of a graph."""
    return gm.shape_env.bind_symbols(fx_placeholder_vals(gm), args)


def size_hint(x, *, allow_none=False):
    """The int of the example; None where there is none and allow_none=True."""
    return x if isinstance(x, int) else x.node.hint if allow_none and x.node.hint is None else hint_int(x)
