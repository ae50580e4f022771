"""What an operator makes of open sizes: its own rules are asked at several sizes, and the expressions are read off.

There is no second set of shape rules. The operator runs on the `meta` device for each assignment that the conditions of
the trace allow (`ShapeEnv.trials`), and each size of its results is the expression that gives all the numbers found
(`solving.find`). Where it refuses sizes that the example has not, the condition behind it is looked for: two sizes must
be equal, a size must be divisible or has a bound, or it is what the example says.
"""

import math

from .. import _C
from ..ops import OPS
from ..utils._pytree import tree_flatten, tree_unflatten
from .expressions import Poly, atom, constant, free_symbols
from .numbers import SymBool, SymFloat, SymInt
from .shape_env import Retrace
from .solving import Row, find
from .statements import Relation
from .supposing import suppose
from .trials import STEP, fresh

_ATTEMPTS = 24
_COUNT_FROM_THE_END = {"select", "narrow"}
#: what an operator may say to sizes that it does not take
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, OverflowError, MemoryError)


class Described:
    """A result: its dtype, its sizes, strides and offset as expressions, and a `meta` tensor of the example's sizes."""

    __slots__ = ("dtype", "example", "offset", "sizes", "strides")

    def __init__(self, example, sizes, strides, offset):
        self.example, self.sizes, self.strides, self.offset = example, sizes, strides, offset
        self.dtype = example.dtype


def is_open(x):
    """Whether a value has sizes that are open, or is an open number."""
    return isinstance(x, (SymInt, SymFloat, SymBool)) or getattr(x, "symbolic_sizes", None) is not None


class Question:
    """One call of an operator, to be run at any sizes."""

    def __init__(self, env, function, args, kwargs, plain):
        self.env, self.function, self.plain = env, function, plain
        self.leaves, self.spec = tree_flatten((args, kwargs))

    def expressions(self):
        """Those of the arguments: sizes, strides, numbers."""
        for leaf in self.leaves:
            if isinstance(leaf, SymInt):
                yield leaf.node.expr
            elif is_open(leaf) and isinstance(leaf, _C.Tensor):
                yield from (self.env.replace(e) for e in (*leaf.symbolic_sizes, *leaf.symbolic_strides))

    def symbols(self):
        """The open symbols that the call depends on."""
        found = set().union(*(free_symbols(e) for e in self.expressions()),
                            *(free_symbols(x.node.expr) for x in self.leaves if isinstance(x, SymFloat)))
        return sorted(found - self.env.replacements.keys() - self.env.supposed.keys(), key=repr)

    def dims(self):
        """The sizes of all tensors, as expressions."""
        for leaf in self.leaves:
            if isinstance(leaf, _C.Tensor):
                yield from (self.env.replace(e) for e in leaf.symbolic_sizes) if is_open(leaf) else \
                    map(constant, leaf.shape)

    def numbers(self):
        """The plain integers among the arguments and sizes."""
        found = {abs(x) for x in self.leaves if isinstance(x, int) and not isinstance(x, bool)}
        return sorted(found | {e.number for e in self.dims() if e.is_number})

    def inputs(self, values, example):
        """The leaves at an assignment."""
        def at(leaf):
            if not is_open(leaf):
                return self.plain(leaf)
            if not isinstance(leaf, _C.Tensor):
                return self.env.at(leaf.node._expr, values)
            if example:
                return leaf.meta
            sizes = [self.env.at(e, values) for e in leaf.symbolic_sizes]
            strides = [self.env.at(e, values) for e in leaf.symbolic_strides]
            made = _empty(sizes, strides, leaf.dtype)
            made = made.conj() if leaf.meta.is_conj() else made
            return made._neg_view() if leaf.meta.is_neg() else made

        return [at(leaf) for leaf in self.leaves]

    def run(self, values, example=False):
        """(inputs, result) at an assignment."""
        inputs = self.inputs(values, example)
        args, kwargs = tree_unflatten(inputs, self.spec)
        return inputs, self.function(*args, **kwargs)

    def too_large(self, values):
        """Whether a result would have more elements than can be counted."""
        try:
            self.run(values)
        except REFUSALS as error:
            return "int64" in str(error) or "overflow" in str(error)
        return False

    def works(self, values):
        """Whether the operator takes these sizes."""
        try:
            self.run(values)
        except REFUSALS:
            return False
        return True


def _empty(sizes, strides, dtype):
    return OPS["empty_strided"](sizes, strides, dtype=dtype, device="meta")


def _settle_signs(question):
    """Places that are counted from the end where they are negative: they stay on the side where the example's are."""
    if getattr(question.function, "name", "") in _COUNT_FROM_THE_END:
        for leaf in question.leaves:
            if isinstance(leaf, SymInt) and question.env.hint_of(leaf.node.expr) is not None:
                bool(leaf >= 0)


def infer(question):
    """(inputs of the example, leaves of its result, Described for each that is a new tensor or else None, spec)."""
    env = question.env
    _settle_signs(question)
    try:  # what the user's sizes do comes first, errors too
        inputs, result = question.run(env.trials()[-1], example=True)
    except REFUSALS:
        _suppose(question)
        raise
    leaves, spec = tree_flatten(result)
    given = {id(x) for x in inputs}
    more = []  # assignments that an answer did not hold for
    for attempt in range(_ATTEMPTS):
        trials = [env.trials()[0], *more, *env.trials()[1:]] if len(env.trials()) > 1 else env.trials()
        rows = _rows(question, trials, spec)
        if rows is None:
            more = []
            continue
        found = [None if id(leaf) in given else _described(question, leaf, [r and r[k] for r in rows], trials)
                 for k, leaf in enumerate(leaves)]
        if any(f is False for f in found):
            _settle_what_changes(question)
            continue
        wrong = [values for values in fresh(env, attempt) if not _agrees(question, values, found, spec)]
        if not wrong:
            return inputs, leaves, found, spec
        more = [*more, *wrong]
    name = getattr(question.function, "name", question.function)
    raise NotImplementedError(f"{name}: no expression is known for the sizes of its result; trace it with fixed sizes")


def _agrees(question, values, found, spec):
    """Whether an operator does at an assignment what was found, or refuses it."""
    try:
        leaves, its = tree_flatten(question.run(values)[1])
    except REFUSALS:
        return True
    at = question.env.at
    return its == spec and all(
        d is None or (leaf.dim() == len(d.sizes)
                      and tuple(leaf.shape) == tuple(at(e, values) for e in d.sizes)
                      and (leaf.numel() < 2 or tuple(leaf.stride()) == tuple(at(e, values) for e in d.strides)))
        for d, leaf in zip(found, leaves, strict=True))


def _rows(question, trials, spec):
    """The leaves of the result at each assignment, None where the operator refuses; None where that taught something.

    What the sizes of tensors in the trace are (the first assignment) must work."""
    rows, env = [], question.env
    for k, values in enumerate(trials[:-1] if len(trials) > 1 else trials):
        if not k and not question.works(values):
            if question.too_large(values) and env.smaller():
                return None
            _suppose(question)
            _teach(question, values, trials[-1])
            return None
        try:
            found, its = tree_flatten(question.run(values)[1])
        except REFUSALS:
            rows.append(None)
            continue
        if its != spec:
            _settle_what_changes(question)
            return None
        rows.append(found)
    if len(trials) > 1:
        rows.append(tree_flatten(question.run(trials[-1])[1])[0])
    return rows


def _described(question, leaf, row, trials):
    """Described for a tensor; None for a plain value; False where no expression was found."""
    if not isinstance(leaf, _C.Tensor):
        same = all(r is None or r == leaf for r in row)
        return None if same else False
    if len(trials) == 1 and question.symbols():  # nothing else could be tried
        return False
    env = question.env
    parts = list(question.expressions())
    symbols = question.symbols()

    def expression_of(number, more=()):
        return find(Row([None if r is None else number(r) for r in row], trials, [*more, *parts], symbols))

    if any(r is not None and r.dim() != leaf.dim() for r in row):
        return False
    dims = range(leaf.dim())
    sizes = [expression_of(lambda r, d=d: r.shape[d]) for d in dims]
    if None in sizes:
        return False
    strides = _strides(row, trials, sizes, env) or \
        [expression_of(lambda r, d=d: r.stride(d), _products(sizes)) for d in dims]
    offset = expression_of(lambda r: r.storage_offset(), _products(sizes))
    if None in strides or offset is None:
        return False
    return Described(leaf, tuple(sizes), tuple(strides), offset)


def _products(sizes):
    """The products of the last sizes, of two, three and so on."""
    found = [constant(1)]
    for size in reversed(sizes):
        found.append(found[-1] * size)
    return found[1:]


def _strides(row, trials, sizes, env):
    """The strides of a dense result, in whichever order its dimensions lie; None where it is not dense."""
    first = next(r for r in row if r is not None)
    steps = first.stride()
    order = sorted(range(len(sizes)), key=lambda d: (steps[d], first.shape[d] != 1, d), reverse=True)
    for dims in (list(range(len(sizes))), order):
        strides, step = [None] * len(sizes), constant(1)
        for d in reversed(dims):
            strides[d] = step
            step = step * sizes[d]
        if all(r is None or all(env.at(s, values) == n for s, n in zip(strides, r.stride(), strict=True))
               for r, values in zip(row, trials, strict=True)):
            return strides
    return None


def _suppose(question):
    """Begins anew where an operator refuses only what stands for numbers of values."""
    if question.env.restarts and suppose(question, REFUSALS):
        raise Retrace


# ---- what a refusal teaches ------------------------------------------------------------------------------------------

def _teach(question, large, example):
    """Finds the condition under which an operator takes large sizes, or settles those that it does not take."""
    symbols = question.symbols()
    moved = {s: {**example, s: large[s]} for s in symbols}
    wrong = [s for s in symbols if not question.works(_consistent(question.env, moved[s]))] or symbols
    for lesson in (_equal, _divisible, _bounded):
        if lesson(question, wrong, large, example):
            return
    question.env.specialize(wrong)


def _consistent(env, values):
    """With settled symbols computed from the others."""
    return {**values, **{s: e.evaluate(values) for s, e in env.replacements.items()}}


def _equal(question, wrong, large, example):
    """Two sizes that are equal in the example and must be everywhere."""
    env, dims = question.env, list(dict.fromkeys(question.dims()))
    pairs = [(a, b) for k, a in enumerate(dims) for b in dims[k + 1:]
             if env.at(a, example) == env.at(b, example)]
    for a, b in sorted(pairs, key=lambda pair: pair[0].is_number or pair[1].is_number):
        solved = _solution(a - b, wrong)
        if solved is None:
            continue
        symbol, value = solved
        values = {**example, **{s: large[s] for s in free_symbols(a - b)}}
        values[symbol] = value.evaluate(values)
        if question.works(_consistent(env, values)):
            env.evaluate_expr(Relation("Eq", a, b))
            return True
    return False


def _solution(p, symbols):
    """(Symbol, expression) of p == 0 for one of the symbols, or None."""
    for s in sorted(symbols, key=lambda s: s.name, reverse=True):
        factor = p.terms.get(((s, 1),), 0)
        rest = p - Poly({((s, 1),): factor})
        if abs(factor) == 1 and s not in rest.free_symbols:
            return s, Poly({m: -c * factor for m, c in rest.terms.items()})
    return None


def _divisible(question, wrong, _, example):
    """A number among the arguments that must divide what it divides in the example."""
    env = question.env
    for n in question.numbers():
        if 2 <= n <= 4096 and n not in env.moduli and STEP % n:
            step = math.lcm(STEP, n)
            if question.works(_consistent(env, {**example, **{s: example[s] + 3 * step for s in wrong}})):
                env.moduli.add(n)
                env._trials = None
                if env.restarts:
                    raise Retrace
                return True
    return False


def _bounded(question, wrong, large, example):
    """The largest number of a symbol that works, where smaller ones do."""
    env = question.env
    for s in wrong:
        def works(n, s=s):
            return question.works(_consistent(env, {**example, s: n}))

        least, most = example[s], large[s]
        if most < least or works(most) or not (works(least + 1) or works(least - 1)):
            continue
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if works(middle) else (least, middle)
        env.evaluate_expr(Relation("Le", atom(s), constant(least)))
        return True
    return False


def _settle_what_changes(question):
    """Settles the symbols on which the form of the result depends: the number of tensors, their dimensions."""
    env = question.env
    trials = env.trials()
    example, large = trials[-1], trials[0]
    symbols = question.symbols()

    def form(values):
        try:
            leaves, spec = tree_flatten(question.run(_consistent(env, values))[1])
        except REFUSALS:
            return None
        return spec, [leaf.dim() if isinstance(leaf, _C.Tensor) else leaf for leaf in leaves]

    usual = form(example)
    env.specialize([s for s in symbols if form({**example, s: large[s]}) != usual] or symbols)
