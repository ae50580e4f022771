"""ShapeEnv: the open sizes of a trace, the conditions that its decisions put on them, and numbers to try them with."""

import itertools
import struct
import weakref

from .. import _C
from .._shown import shown
from .._tensor.overriding import _modes
from ..ops import OPS
from .expressions import Call, Poly, Symbol, atom, constant, free_symbols, substitute, told
from .numbers import SymBool, SymFloat, SymInt, SymNode, token_of
from .ragged import RaggedSize
from .statements import INFINITE, Logic, Relation, certain
from .supposing import stand_in
from .trials import REACHES, trials

_INT_TOKENS, _FLOAT_BITS = 1 << 61, 0x7FE0000000000000  # native/bind/symbols.h
_PER_ENV = 1 << 20
_KINDS = {int: SymInt, float: SymFloat, bool: SymBool}
_environments = weakref.WeakValueDictionary()
_numbers = itertools.count()


class GuardOnDataDependentSymNode(RuntimeError):
    """Python asks for a size that only values decide."""

    def __init__(self, cond, *args):
        super().__init__(*args)
        self.cond = cond


class UserError(RuntimeError):
    """What a program says of its own trace does not fit it; `msg` is its text."""

    @property
    def msg(self):
        return self.args[0]


class ConstraintViolationError(UserError):
    """Sizes that were to stay open cannot, or arguments do not have the sizes that a program is for."""


class Retrace(BaseException):
    """Something learnt of the sizes shows that the trace must begin anew, with what is known by now."""


class ShapeGuard:
    """A condition on sizes, which the trace relies on."""

    __slots__ = ("expr", "stack")

    def __init__(self, expr, stack=None):
        self.expr, self.stack = expr, stack

    def __repr__(self):
        return repr(self.expr)


def meaning_of(number):
    """The SymInt or SymFloat whose token a number is; the number itself where it is none."""
    code = number - _INT_TOKENS if isinstance(number, int) else struct.unpack("<q", struct.pack("<d", number))[0] \
        - _FLOAT_BITS - 1
    env = _environments.get(code // _PER_ENV)
    place = code % _PER_ENV
    return number if env is None or place >= len(env._tokens) else env._tokens[place]


def _tensor_of(symbol):
    """An open number as a 0-d tensor, of the dtype that a saved number has in a derivative's rule."""
    return OPS["scalar_tensor"](symbol, dtype=_C.int64 if isinstance(symbol, SymInt) else _C.float64)


_SMALLEST_KNOWN = 256  #: native sizes below are too common to be taken for those of a tensor


def recognised(sizes):
    """Sizes that native code read from tensors of a trace, as SymInts: nested tuples of ints."""
    env = next((env for mode in reversed(_modes.dispatch) if (env := getattr(mode, "shape_env", None))), None)

    def named(n):
        if isinstance(n, tuple):
            items = tuple(map(named, n))
            return _C.Size(items) if isinstance(n, _C.Size) else items
        return env.create_symintnode(env.replace(env.sizes[n])) if env.is_size(n) else n

    return sizes if env is None else named(sizes)


#: relation -> those that say more
_STRONGER = {"Le": ("Lt", "Eq"), "Ge": ("Gt", "Eq"), "Ne": ("Lt", "Gt")}


class ShapeEnv:
    """The open sizes of one trace.

    duck_shape: example sizes that are equal are one symbol. specialize_zero_one: sizes 0 and 1 are no symbols (an
    operator does other things with them).

    * guards: the conditions under which the trace is right, in the order in which they came up
    * replacements: {Symbol: expression}, for symbols that conditions have settled
    * var_to_val: {Symbol: size of the example}; var_to_range: {Symbol: (least, largest)}

    >>> import flambeau
    >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
    >>> env = ShapeEnv()
    >>> n = env.create_symintnode(env.create_symbol(8, "n"), hint=8)
    >>> "even" if n % 2 == 0 else "odd"
    'even'
    >>> env.guards, env.evaluate_guards_expression(env.produce_guards_expression([n]), [9])
    ([Eq(Mod(s0, 2), 0)], False)
    """

    def __init__(self, *, duck_shape=True, specialize_zero_one=True, allow_scalar_outputs=True,
                 allow_dynamic_output_shape_ops=True):
        self.duck_shape, self.specialize_zero_one = duck_shape, specialize_zero_one
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.guards, self.replacements, self.deferred_runtime_asserts = [], {}, {}
        self.var_to_val, self.var_to_range, self.var_to_sources = {}, {}, {}
        self.moduli, self.sizes = set(), {}
        self.assertions = []  #: SymNodes of what was taken for true of values, for the graph to check
        self.declared, self.assumed = {}, []  #: ranges that were promised; answers that rely on sizes of 2 and more
        self.supposed, self.reaches = {}, {}  #: of symbols of values: what trials keep to (supposing.py)
        self.restarts = False  #: whether what contradicts the numbers in use begins the trace anew (make_fx)
        self.frozen = False
        self._known, self._tokens, self._token_places = {}, [], {}
        self._lessons, self._taught = [], []  #: conditions that began the trace anew: of all runs, of this one
        self._duck, self._names, self._unbacked = {}, itertools.count(), itertools.count()
        self._stand_in, self._trials, self._base, self._bounded, self.reach = {}, None, {}, set(), REACHES[0]
        self._chosen = {}  # numbers in the place of values, of earlier runs
        self._number = next(_numbers)
        _environments[self._number] = self

    # ---- symbols ----

    def create_symbol(self, val, source=None, *, range=None, duck=None):
        """A Symbol (or the number: 0 and 1) for an example size; equal sizes share one where duck shaping is on."""
        if not isinstance(val, int) or isinstance(val, bool):
            raise TypeError(f"create_symbol: val must be an int, got {shown(val)}")
        if val in (0, 1) and self.specialize_zero_one and range is None:
            return constant(val)
        duck = self.duck_shape if duck is None else duck
        if duck and val in self._duck:
            return self._duck[val]
        least = 2 if self.specialize_zero_one and val > 1 else 0 if val >= 0 else -INFINITE
        symbol = self.new_symbol(val, source, range or (least, INFINITE))
        found = substitute(symbol, self.replacements)
        if duck:
            self._duck[val] = found
        return found

    def new_symbol(self, val, source, range):
        """A Symbol for an example size, with its range."""
        symbol = Symbol(f"s{next(self._names)}")
        self.adopt(symbol, range, val, source)
        self._remember()
        return symbol

    def _remember(self):
        """Adds the conditions of earlier runs whose symbols are all there."""
        known = {*self.var_to_val, *self._stand_in}
        for statement in [s for s in self._lessons if s not in self._taught and free_symbols(s) <= known]:
            self._taught.append(statement)
            if not isinstance(statement, bool) and self._certain(statement) is None:
                self.guards.append(ShapeGuard(statement))
                self._learn(statement)

    def create_symintnode(self, sym, *, hint=None):
        """The SymInt of a Symbol or an expression; an int where nothing is open in it.

        ValueError where `hint` is not what it is for the example.
        """
        expr = atom(sym) if isinstance(sym, (Symbol, Call)) else sym
        if hint is not None and self.hint_of(expr) not in (None, hint):
            raise ValueError(f"create_symintnode: {told(expr)} is {self.hint_of(expr)} in the example, not "
                             f"{shown(hint)}")
        if isinstance(expr, int) or expr.is_number:
            return int(expr)
        return SymInt(SymNode(expr, self, int))

    def create_unbacked_symint(self, source=None):
        """A SymInt of which nothing is known but its range."""
        symbol = Symbol(f"u{next(self._unbacked)}")
        self.adopt(symbol, (-INFINITE, INFINITE), source=source)
        self._remember()
        return SymInt(SymNode(atom(symbol), self, int))

    def adopt(self, symbol, range, example=None, source=None):
        """Makes a Symbol known, with the size of the example; without one where only values decide it."""
        self.var_to_range[symbol], self.var_to_sources[symbol], self._trials = range, [source], None
        if example is None:
            self._stand_in[symbol] = self._chosen.get(symbol, 4099 + 1237 * len(self._stand_in))
        else:
            self.var_to_val[symbol] = example

    def is_unbacked_symint(self, symbol):
        """Whether a Symbol came from values, and has no example."""
        return symbol in self._stand_in

    def restarted(self):
        """Forgets the symbols and conditions of a run that was given up, and keeps what it has taught."""
        self._lessons = [*self._lessons, *(s for s in self._taught if s not in self._lessons)]
        self._known = dict.fromkeys(self.facts())
        self.guards, self.replacements, self._duck, self._taught = [], {}, {}, []
        self.var_to_val, self.var_to_range, self.var_to_sources, self._stand_in = {}, {}, {}, {}
        self._trials, self._base = None, {}
        self._names, self._unbacked = itertools.count(), itertools.count()
        self._tokens, self._token_places, self.sizes = [], {}, {}
        self.deferred_runtime_asserts, self.declared, self.assumed, self.assertions = {}, {}, [], []

    def facts(self):
        """The conditions of all runs so far."""
        return [*self._known, *(g.expr for g in self.guards)]

    # ---- what is known ----

    def replace(self, expr):
        """An expression without symbols that are settled."""
        return substitute(expr, self.replacements) if self.replacements else expr

    simplify = replace

    def hint_of(self, expr):
        """The value of an expression for the example, or None."""
        expr = self.replace(expr)
        if any(s in self._stand_in for s in free_symbols(expr)):
            return None
        return expr if isinstance(expr, (bool, int, float)) else expr.evaluate(self.var_to_val)

    size_hint = hint_of

    def certain(self, statement):
        """True or False where a statement follows from the ranges, or does not; None where it depends."""
        statement = self.replace(statement)
        found = self._certain(statement)
        if found is not None and self.declared and certain(statement, self.var_to_range | self.declared) is None:
            self.assumed.append(statement if found else statement.contrary())
        return found

    def _certain(self, statement):
        found = certain(statement, self.var_to_range)
        if found is None and free_symbols(statement) & self._stand_in.keys():
            facts = [self.replace(f) for f in self.deferred_runtime_asserts]
            found = True if _follows(statement, facts) else False if _follows(statement.contrary(), facts) else None
        return found

    def evaluate_expr(self, statement):
        """The truth of a statement for the example; where others could make it false, a guard is added."""
        if isinstance(statement, bool):
            return statement
        found = self.certain(statement)
        if found is not None:
            return found
        statement = self.replace(statement)
        found = self.hint_of(statement)
        if found is None:
            unknown = _listed(free_symbols(statement) & self._stand_in.keys())
            raise GuardOnDataDependentSymNode(
                statement, f"a decision needs to know whether {told(statement)}, but {unknown} comes from values, "
                "which the trace does not have; state it with flambeau._check, or decide with guard_or_false or "
                "guard_or_true")
        statement = statement if found else statement.contrary()
        if all(g.expr != statement for g in self.guards):
            self._guard(statement)
        return found

    def decided(self, node):
        """The plain value of a SymNode: that of the example, under a guard."""
        if node.pytype is bool:
            return self.evaluate_expr(node._expr)
        expr = self.replace(node._expr)
        if isinstance(expr, Poly) and expr.is_number:
            return expr.number
        value = self.hint_of(expr)
        if value is None:
            raise GuardOnDataDependentSymNode(expr, f"a plain number is needed for {told(expr)}, which comes from "
                                              "values that the trace does not have")
        if node.pytype is int and len(free_symbols(expr)) == 1:
            self.evaluate_expr(Relation("Eq", expr, constant(value)))
        else:  # one number says little of several sizes, a float of any
            self.specialize(free_symbols(expr))
        return value

    def specialize(self, symbols):
        """Settles symbols to the sizes of the example."""
        for s in sorted(symbols, key=repr):
            if s not in self.replacements:
                if s in self._stand_in:
                    raise GuardOnDataDependentSymNode(s, f"an operator needs the value of {s}, which the trace does "
                                                      "not have")
                self.evaluate_expr(Relation("Eq", atom(s), constant(self.var_to_val[s])))

    def assume(self, statement, node=None):
        """Takes a statement for true where it is about values; with its SymNode the graph asserts it."""
        found = self.certain(statement)
        if found is None and free_symbols(self.replace(statement)) & self._stand_in.keys():
            self.deferred_runtime_asserts[self.replace(statement)] = None
            self.assertions += [node] if node is not None else []
            self._agree(statement)
            self._learn(self.replace(statement))
            return True
        return self.evaluate_expr(statement) if found is None else found

    def _agree(self, statement):
        """Begins anew with other numbers in the place of values where a statement does not hold for the present."""
        values = self._stand_in | self.var_to_val
        if not self.restarts or _holds(statement, values):
            return
        for s in sorted(free_symbols(statement) & self._stand_in.keys(), key=lambda s: int(s.name[1:]), reverse=True):
            number = stand_in(self, s, values)
            if number is not None:
                self.begin_with(s, number)
                raise Retrace

    def begin_with(self, symbol, number):
        """Says which number stands for what only values decide, in the runs to come."""
        self._chosen[symbol] = number

    defer_runtime_assert = assume

    def _guard(self, statement):
        if self.frozen:
            return
        known = statement in self._known
        statement = self._learn(statement) or statement
        self.guards.append(ShapeGuard(statement))
        if self.restarts and not known and self._trials and not _holds(statement, self._trials[0]):
            self._taught.append(statement)
            raise Retrace
        if self._trials and not known:
            if _holds(statement, self._trials[0]):
                self._trials = [t for t in self._trials if _holds(statement, t)]
            else:
                self._trials, self._base = None, {}

    def _learn(self, statement):
        """What a condition says of one symbol: its value, a bound, a divisor; returns the value as a statement."""
        if isinstance(statement, Logic):
            if statement.name == "And":
                for part in statement.args:
                    self._learn(part)
            return None
        if not isinstance(statement.left, Poly) or not isinstance(statement.right, Poly):
            return None
        difference = statement.left - statement.right
        if statement.name == "Eq":
            self._note_modulus(difference)
            return self._settle(difference)
        self._bound(statement.name, difference)
        return None

    def _note_modulus(self, p):
        for monomial in p.terms:
            for one, _ in monomial:
                if isinstance(one, Call) and one.name in ("Mod", "FloorDiv") and one.args[1].is_number:
                    self.moduli.add(abs(one.args[1].number))

    def _settle(self, p):
        """Of a symbol that occurs once, alone and with factor 1: p == 0 says what it is."""
        for symbol in sorted(p.free_symbols, key=lambda s: (s.name[0] != "u", int(s.name[1:])), reverse=True):
            factor = p.terms.get(((symbol, 1),), 0)
            if not factor or sum(symbol in free_symbols(one) for m in p.terms for one, _ in m) != 1:
                continue
            rest = p - Poly({((symbol, 1),): factor})
            if any(c % factor for c in rest.terms.values()):
                continue
            value = Poly({m: -c // factor for m, c in rest.terms.items()})
            self.replacements = {s: substitute(e, {symbol: value}) for s, e in self.replacements.items()}
            self.replacements[symbol] = value
            return Relation("Eq", atom(symbol), value)
        return None

    def _bound(self, name, p):
        """p `name` 0 for p = factor * symbol + offset."""
        symbols = p.free_symbols
        if len(symbols) != 1:
            return
        symbol, = symbols
        factor, offset = p.terms.get(((symbol, 1),), 0), p.terms.get((), 0)
        if len(p.terms) != (2 if offset else 1) or not factor or name == "Ne":
            return
        if factor < 0:
            factor, offset = -factor, -offset
            name = {"Lt": "Gt", "Gt": "Lt", "Le": "Ge", "Ge": "Le"}[name]
        low, high = self.var_to_range[symbol]
        if name in ("Lt", "Le"):
            high = min(high, (-offset - (name == "Lt")) // factor)
        else:
            low = max(low, -((offset - (name == "Gt")) // factor))
        self.var_to_range[symbol] = low, high

    def constrain_range(self, symbol, least, most):
        """Narrows the range of a Symbol."""
        low, high = self.var_to_range[symbol]
        low, high = max(low, least), min(high, most)
        if low > high:
            raise ConstraintViolationError(f"no size is left for {symbol}: at least {low} and at most {high}")
        self.var_to_range[symbol] = low, high
        self._trials = None

    # ---- numbers to try ----

    def trials(self):
        """Assignments {Symbol: number} that the conditions allow. The first is what tensors of the trace have as native
        sizes; the last is the example."""
        if self._trials is None:
            self._trials = trials(self)
            self._base = self._trials[0]
            self._bounded = {n for s, n in self._base.items()
                             if s not in self.replacements and n > 1 and self.var_to_range[s][1] < _SMALLEST_KNOWN}
        return self._trials

    def is_size(self, n):
        """Whether a number is the native size of a tensor of the trace that is open."""
        return type(n) is int and n in self.sizes and (n >= _SMALLEST_KNOWN or n in self._bounded)

    def smaller(self):
        """Chooses smaller numbers from now on; False where they are small already."""
        if self.reach is REACHES[-1]:
            return False
        self.reach, self._trials, self._base = REACHES[-1], None, {}
        if self.restarts:
            raise Retrace
        return True

    def at(self, expr, values):
        """The number of an expression under an assignment."""
        expr = self.replace(expr)
        return expr if isinstance(expr, (int, float)) else expr.evaluate(values)

    def holds(self, values):
        """Whether all conditions hold under an assignment."""
        return all(_holds(statement, values) for statement in (*self.facts(), *self.deferred_runtime_asserts)) and \
            all(low <= values[s] <= high for s in self.replacements if s in values
                for low, high in [self.var_to_range.get(s, (-INFINITE, INFINITE))])

    # ---- tokens ----

    def token_of(self, symbol):
        """The number that stands for a SymInt or SymFloat in native code."""
        key = symbol.node.pytype, symbol.node._expr
        place = self._token_places.get(key)
        if place is None:
            place = self._token_places[key] = len(self._tokens)
            self._tokens.append(symbol)
        code = self._number * _PER_ENV + place
        if symbol.node.pytype is int:
            return _INT_TOKENS + code
        return struct.unpack("<d", struct.pack("<q", _FLOAT_BITS + 1 + code))[0]

    # ---- checking other arguments ----

    def bind_symbols(self, placeholders, args):
        """{Symbol: number} for arguments in the place of placeholders (tensors with open sizes, SymInts, others)."""
        found = {}
        for placeholder, arg in zip(placeholders, args, strict=True):
            for expr, number in _sizes(placeholder, arg):
                expr = self.replace(expr)
                if len(expr.free_symbols) == 1 and expr.terms == {((next(iter(expr.free_symbols)), 1),): 1}:
                    found.setdefault(next(iter(expr.free_symbols)), number)
        return found

    def evaluate_guards_for_args(self, placeholders, args):
        """Whether arguments satisfy the conditions of the trace."""
        values = self.bind_symbols(placeholders, args)
        sizes = [(self.replace(e), n) for p, a in zip(placeholders, args, strict=True) for e, n in _sizes(p, a)]
        try:
            return all(e.evaluate(values) == n for e, n in sizes) and \
                all(low <= values[s] <= high for s, (low, high) in self.var_to_range.items() if s in values) and \
                all(_holds(self.replace(g.expr), values) for g in self.guards)
        except KeyError as e:
            raise ConstraintViolationError(f"no argument says what {e.args[0]} is") from None

    def produce_guards_expression(self, placeholders):
        """The conditions as one statement, for evaluate_guards_expression."""
        symbols = [p.node.expr if isinstance(p, SymInt) else p for p in placeholders]
        return symbols, [self.replace(g.expr) for g in self.guards]

    def evaluate_guards_expression(self, code, args):
        """Whether numbers in the place of the placeholders satisfy what produce_guards_expression gave."""
        symbols, statements = code
        values = {s: n for p, n in zip(symbols, args, strict=True) if isinstance(p, Poly) for s in p.free_symbols}
        return all(_holds(s, values) for s in statements)

    def get_nontrivial_guards(self):
        """The conditions that are still about something."""
        return [g for g in (self.replace(g.expr) for g in self.guards) if self._certain(g) is None]

    def format_guards(self):
        """The conditions, one per line."""
        return "\n".join(f" - {g.expr!r}" for g in self.guards)

    def freeze(self):
        """No more conditions are added."""
        self.frozen = True


def _listed(symbols):
    return ", ".join(sorted(map(repr, symbols)))


def _follows(statement, facts):
    """Whether a statement is one of the facts, or less than one of them says."""
    stronger = _STRONGER.get(getattr(statement, "name", None), ())
    return statement in facts or any(Relation(name, statement.left, statement.right) in facts for name in stronger)


def _holds(statement, values):
    try:
        return bool(statement.evaluate(values))
    except KeyError:  # of a symbol that this assignment does not know
        return True
    except (ZeroDivisionError, ValueError, OverflowError):
        return False


def _sizes(placeholder, arg):
    """(expression, number) pairs of the sizes of a placeholder and the argument in its place."""
    if isinstance(placeholder, SymInt):
        return [(placeholder.node.expr, int(arg))]
    shape = getattr(placeholder, "symbolic_sizes", None)
    return [] if shape is None else list(zip(shape, arg.shape, strict=True))


_C.set_symbols((SymInt, SymFloat, SymBool, RaggedSize), token_of, meaning_of, recognised, _tensor_of)
