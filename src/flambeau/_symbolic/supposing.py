"""Numbers for what only values decide, where an operator does not take any number: one that it must be, or a range.

No condition comes of it. The operator gets the number itself when the program runs, and refuses it then if it must.
Only the trials of the trace have to be such that it works.
"""

import itertools
import math

from .expressions import atom, constant, floordiv

_TRIED = range(33)


def suppose(question, refusals):
    """Where an operator refuses what stands for numbers of values: learns what it takes, for a trace that begins anew.

    True if something was learnt.
    """
    env = question.env
    example, large = env.trials()[-1], env.trials()[0]
    unknown = sorted((s for s in question.symbols() if env.is_unbacked_symint(s)), key=lambda s: int(s.name[1:]))

    def works(values):
        try:
            question.run(values)
        except refusals:
            return False
        return True

    for s in reversed(unknown):
        numbers = sorted({n for e in _parts(question) for n in (e.evaluate(example),) if s not in e.free_symbols}
                         | {*_TRIED, *question.numbers()})
        taken = [n for n in numbers if works(_completed(env, {**example, s: n}))]
        if len(taken) > 2 and taken == [n for n in numbers if taken[0] <= n <= taken[-1]] and _narrowed(env, s, taken):
            return True
        for value in _equal(question, s, example, taken):
            if all(works(_completed(env, {**values, s: value.evaluate(values)})) for values in (example, large)):
                env.supposed[s] = value
                return True
    return _sum(question, unknown, example, works)


def _narrowed(env, symbol, taken):
    """Whether the range of numbers to try is smaller from now on."""
    low, high = within(env, symbol)
    narrowed = max(low, taken[0]), min(high, taken[-1])
    if narrowed == (low, high) or narrowed[0] > narrowed[1]:
        return False
    env.reaches[symbol] = narrowed
    inside = [n for n in taken if narrowed[0] <= n <= narrowed[1]]
    env.begin_with(symbol, inside[len(inside) // 2])
    return True


def _completed(env, values):
    for s, e in itertools.chain(env.replacements.items(), env.supposed.items()):
        if s in values:
            values = {**values, s: e.evaluate(values)}
    return values


def _parts(question):
    """What an open number may have to be: sizes, and how many elements a tensor has."""
    dims = list(dict.fromkeys(question.dims()))
    whole = []
    for leaf in question.leaves:
        shape = getattr(leaf, "symbolic_sizes", None) or (map(constant, leaf.shape) if hasattr(leaf, "dim") else None)
        if shape is not None:
            whole.append(math.prod(map(question.env.replace, shape), start=constant(1)))
    return [*dims, *whole]


def _equal(question, s, example, taken):
    """Expressions that give one of the numbers that work."""
    numbers = [n for n in taken if n not in (0, 1)] or taken
    for part in _parts(question):
        if s in part.free_symbols:
            continue
        at = part.evaluate(example)
        if at in numbers:
            yield part
        for n in numbers:
            if n > 1 and at % n == 0 and at > n:
                yield floordiv(part, constant(at // n))
    yield from (constant(n) for n in numbers if len(taken) <= 2)


def _sum(question, unknown, example, works):
    """The last of several numbers is what the others leave of a size."""
    env = question.env
    if len(unknown) < 2:
        return False
    *others, last = unknown
    for part in question.dims():
        if unknown[0] in part.free_symbols:
            continue
        value = part
        for s in others:
            value = value - atom(s)
        few = dict.fromkeys(others, 1)
        values = {**example, **few}
        if works(_completed(env, {**values, last: value.evaluate(values)})):
            env.supposed[last] = value
            most = max(1, part.evaluate(example) // len(unknown))
            for s in others:
                env.reaches[s] = 0, most
                env.begin_with(s, 1)
            return True
    return False


def within(env, symbol):
    """The range of a symbol that trials keep to."""
    low, high = env.var_to_range[symbol]
    least, most = env.reaches.get(symbol, (low, high))
    return max(low, least), min(high, most)


def stand_in(env, symbol, values):
    """A number for what only values decide that agrees with what is known of it, or None; the one in `values` if it
    does."""
    low, high = within(env, symbol)
    facts = [f for f in env.deferred_runtime_asserts if symbol in f.free_symbols and f.free_symbols <= values.keys()]

    def good(n):
        try:
            return all(f.evaluate({**values, symbol: n}) for f in facts)
        except (ZeroDivisionError, ValueError, OverflowError):
            return False

    number = values[symbol]
    above = range(max(low, number), min(number + 720, high) + 1)
    below = range(min(high, number), max(low, min(number, 4098) - 4999) - 1, -1)
    return next((n for n in itertools.chain(above, below) if good(n)), None)
