"""SymInt, SymFloat, SymBool: Python numbers that are not decided yet, and the functions that treat both kinds alike.

Arithmetic makes new ones. Where Python needs a plain number or a truth, the ShapeEnv answers with what holds for the
example, and writes down the condition.
"""

import math
import operator

from .._shown import shown
from .expressions import Call, Poly, atom, constant, expression, floordiv, largest, mod, smallest, told
from .statements import Logic, Relation


class SymNode:
    """What a symbolic number is: expr (an expression, a statement), shape_env, pytype (int, float or bool), and made:
    the function and the arguments that gave it, or None."""

    __slots__ = ("__weakref__", "_expr", "made", "pytype", "shape_env")

    def __init__(self, expr, shape_env, pytype, hint=None, made=None):
        if hint is not None and not isinstance(hint, pytype):
            raise TypeError(f"SymNode: hint must be {pytype.__name__}, got {shown(hint)}")
        self._expr, self.shape_env, self.pytype, self.made = expr, shape_env, pytype, made

    @property
    def expr(self):
        """The expression, with what is known of its symbols by now."""
        return self.shape_env.replace(self._expr)

    @property
    def hint(self):
        """Its value for the example arguments; None where it depends on values that nobody has."""
        return self.shape_env.hint_of(self._expr)

    def has_hint(self):
        """Whether there is one."""
        return self.hint is not None

    def __repr__(self):
        return repr(self.expr)


class _Symbolic:
    """What the three types share."""

    __slots__ = ("__weakref__", "node")
    _pytype = None

    def __init__(self, node):
        if not isinstance(node, SymNode):
            raise TypeError(f"{type(self).__name__}: made from a SymNode, got {shown(node)}; sizes inside a symbolic "
                            "trace are such numbers")
        self.node = node

    def __repr__(self):
        return repr(self.node)

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__}: {told(self)} belongs to a trace and cannot be pickled; int() makes "
                        "it the number that it is for the example")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def _value(self):
        return self.node.shape_env.decided(self.node)

    def __hash__(self):
        return hash(self._value())


def _expr(x):
    """The expression of a number, whatever its type."""
    if isinstance(x, _Symbolic):
        return x.node.expr
    return x if isinstance(x, float) else expression(int(x))


def _env(*args):
    return next(x.node.shape_env for x in args if isinstance(x, _Symbolic))


def _made(pytype, expr, function, *args):
    """The number with this expression: a plain one where nothing is open in it."""
    if isinstance(expr, Poly):
        if expr.is_number:
            return expr.number
    elif isinstance(expr, (bool, int, float)):
        return expr
    kind = {int: SymInt, float: SymFloat, bool: SymBool}[pytype]
    return kind(SymNode(expr, _env(*args), pytype, made=(function, args)))


def _of_int(x):
    return isinstance(x, (int, SymInt))


def _of_float(x):
    return isinstance(x, (float, SymFloat))


def _binary(function, compute, name):
    """The two methods of an operator on SymInts: ints stay ints, floats make floats."""
    def forward(self, other):
        if _of_float(other):
            return function(sym_float(self), other)
        return _made(int, compute(_expr(self), _expr(other)), function, self, other) if _of_int(other) \
            else NotImplemented

    def backward(self, other):
        if _of_float(other):
            return function(other, sym_float(self))
        return _made(int, compute(_expr(other), _expr(self)), function, other, self) if _of_int(other) \
            else NotImplemented

    return _named(forward, f"__{name}__"), _named(backward, f"__r{name}__")


def _float_binary(function, name, call):
    def forward(self, other):
        return _made(float, Call(call, _expr(self), _expr(other)), function, self, other) \
            if _of_float(other) or _of_int(other) else NotImplemented

    def backward(self, other):
        return _made(float, Call(call, _expr(other), _expr(self)), function, other, self) \
            if _of_float(other) or _of_int(other) else NotImplemented

    return _named(forward, f"__{name}__"), _named(backward, f"__r{name}__")


def _comparison(function, name):
    def compare(self, other):
        if not (_of_float(other) or _of_int(other)):
            return NotImplemented
        left, right = _expr(self), _expr(other)
        if isinstance(left, Poly) and isinstance(right, Poly) and (left - right).is_number:
            return function((left - right).number, 0)
        return _made(bool, Relation(name, left, right), function, self, other)

    return _named(compare, f"__{function.__name__}__")


def _named(function, name):
    function.__name__ = name
    function.__qualname__ = name
    return function


def _true_divide(a, b):
    return Call("TrueDiv", a, b)


def _bits(name):
    return lambda a, b: atom(Call(name, a, b))


_COMPARISONS = {"Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le, "Gt": operator.gt,
                "Ge": operator.ge}


class SymInt(_Symbolic):
    """An int that is open: a size inside a symbolic trace, or what is computed from sizes.

    Where a plain int is needed (int(), range(), an index of a list) it becomes that of the example, under a guard.

    >>> import flambeau
    >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
    >>> env = ShapeEnv()
    >>> n = env.create_symintnode(env.create_symbol(5, "n"), hint=5)
    >>> 2 * n + 1, n // 2, n > 2
    (2*s0 + 1, (s0//2), s0 > 2)
    >>> int(n * 2), env.guards
    (10, [Eq(s0, 5)])
    """

    __slots__ = ()
    _pytype = int
    __add__, __radd__ = _binary(operator.add, operator.add, "add")
    __sub__, __rsub__ = _binary(operator.sub, operator.sub, "sub")
    __mul__, __rmul__ = _binary(operator.mul, operator.mul, "mul")
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv, floordiv, "floordiv")
    __mod__, __rmod__ = _binary(operator.mod, mod, "mod")
    __lshift__, __rlshift__ = _binary(operator.lshift, _bits("Lshift"), "lshift")
    __rshift__, __rrshift__ = _binary(operator.rshift, _bits("Rshift"), "rshift")
    __and__, __rand__ = _binary(operator.and_, _bits("BitAnd"), "and")
    __or__, __ror__ = _binary(operator.or_, _bits("BitOr"), "or")
    __xor__, __rxor__ = _binary(operator.xor, _bits("BitXor"), "xor")
    __eq__, __ne__ = _comparison(operator.eq, "Eq"), _comparison(operator.ne, "Ne")
    __lt__, __le__ = _comparison(operator.lt, "Lt"), _comparison(operator.le, "Le")
    __gt__, __ge__ = _comparison(operator.gt, "Gt"), _comparison(operator.ge, "Ge")
    __hash__ = _Symbolic.__hash__

    def __truediv__(self, other):
        if _of_float(other):
            return sym_float(self) / other
        return _made(float, _true_divide(_expr(self), _expr(other)), operator.truediv, self, other) \
            if _of_int(other) else NotImplemented

    def __rtruediv__(self, other):
        if _of_float(other):
            return other / sym_float(self)
        return _made(float, _true_divide(_expr(other), _expr(self)), operator.truediv, other, self) \
            if _of_int(other) else NotImplemented

    def __pow__(self, other):
        if isinstance(other, int) and other >= 0:
            power = constant(1)
            for _ in range(other):
                power = power * _expr(self)
            return _made(int, power, operator.pow, self, other)
        if isinstance(other, SymInt):
            return _made(int, atom(Call("IntPow", _expr(self), _expr(other))), operator.pow, self, other)
        return sym_float(self) ** other if _of_float(other) or _of_int(other) else NotImplemented

    def __rpow__(self, other):
        if _of_float(other):
            return other ** sym_float(self)
        return _made(int, atom(Call("IntPow", _expr(other), _expr(self))), operator.pow, other, self) \
            if _of_int(other) else NotImplemented

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __neg__(self):
        return _made(int, -_expr(self), operator.neg, self)

    def __pos__(self):
        return self

    def __abs__(self):
        env = self.node.shape_env
        if env.certain(Relation("Ge", _expr(self), constant(0))):
            return self
        return _made(int, atom(Call("Abs", _expr(self))), operator.abs, self)

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __round__(self, ndigits=None):
        return self

    def __bool__(self):
        return bool(self != 0)

    def __int__(self):
        return self._value()

    __index__ = __int__

    def __float__(self):
        return float(self._value())

    def is_integer(self):
        """True."""
        return True

    def as_integer_ratio(self):
        """(itself, 1)."""
        return self, 1

    def __sym_max__(self, other):
        return sym_max(self, other)

    def __sym_min__(self, other):
        return sym_min(self, other)

    def __sym_float__(self):
        return sym_float(self)


class SymFloat(_Symbolic):
    """A float that is computed from sizes inside a symbolic trace."""

    __slots__ = ()
    _pytype = float
    __add__, __radd__ = _float_binary(operator.add, "add", "Add")
    __sub__, __rsub__ = _float_binary(operator.sub, "sub", "Sub")
    __mul__, __rmul__ = _float_binary(operator.mul, "mul", "Mul")
    __truediv__, __rtruediv__ = _float_binary(operator.truediv, "truediv", "TrueDiv")
    __floordiv__, __rfloordiv__ = _float_binary(operator.floordiv, "floordiv", "FloatFloorDiv")
    __mod__, __rmod__ = _float_binary(operator.mod, "mod", "FloatMod")
    __pow__, __rpow__ = _float_binary(operator.pow, "pow", "Pow")
    __eq__, __ne__ = _comparison(operator.eq, "Eq"), _comparison(operator.ne, "Ne")
    __lt__, __le__ = _comparison(operator.lt, "Lt"), _comparison(operator.le, "Le")
    __gt__, __ge__ = _comparison(operator.gt, "Gt"), _comparison(operator.ge, "Ge")
    __hash__ = _Symbolic.__hash__

    def __neg__(self):
        return _made(float, Call("Neg", _expr(self)), operator.neg, self)

    def __pos__(self):
        return self

    def __abs__(self):
        return _made(float, Call("Abs", _expr(self)), operator.abs, self)

    def __trunc__(self):
        return _made(int, atom(Call("TruncToInt", _expr(self))), math.trunc, self)

    def __floor__(self):
        return _made(int, atom(Call("FloorToInt", _expr(self))), math.floor, self)

    def __ceil__(self):
        return _made(int, atom(Call("CeilToInt", _expr(self))), math.ceil, self)

    def __round__(self, ndigits=None):
        if ndigits is None:
            return _made(int, atom(Call("RoundToInt", _expr(self))), round, self)
        return _made(float, Call("Round", _expr(self), constant(ndigits)), round, self, ndigits)

    def __bool__(self):
        return bool(self != 0.0)

    def __float__(self):
        return self._value()

    def __int__(self):
        return int(self.__trunc__())

    def is_integer(self):
        """Whether it is a whole number; decided by the example."""
        return self._value().is_integer()


class SymBool(_Symbolic):
    """A truth about sizes that is open; where Python asks for it (if, while, assert), it is decided by the example, and
    a guard says so."""

    __slots__ = ()
    _pytype = bool

    def __bool__(self):
        return self._value()

    def __int__(self):
        return int(self._value())

    __index__ = __int__

    def __and__(self, other):
        return _joined("And", operator.and_, self, other)

    def __or__(self, other):
        return _joined("Or", operator.or_, self, other)

    def __rand__(self, other):
        return _joined("And", operator.and_, other, self)

    def __ror__(self, other):
        return _joined("Or", operator.or_, other, self)

    def __invert__(self):
        return sym_not(self)

    __sym_not__ = __invert__

    def __add__(self, other):
        return int(self) + other

    def __sub__(self, other):
        return int(self) - other

    def __rsub__(self, other):
        return other - int(self)

    def __mul__(self, other):
        return int(self) * other

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other):
        return bool(self) == other if isinstance(other, (bool, int, SymBool)) else NotImplemented

    __hash__ = _Symbolic.__hash__


def _joined(name, function, a, b):
    if not isinstance(a, (bool, SymBool)) or not isinstance(b, (bool, SymBool)):
        return NotImplemented
    return _made(bool, Logic(name, *(x if isinstance(x, bool) else x.node.expr for x in (a, b))), function, a, b)


# ---- functions for numbers of either kind ----------------------------------------------------------------------------

def sym_int(a):
    """The number cut towards zero, as an int.

    >>> import flambeau
    >>> flambeau.sym_int(-3.7), flambeau.sym_float(3), flambeau.sym_max(2, 3.0)
    (-3, 3.0, 3.0)
    """
    return a if isinstance(a, SymInt) else math.trunc(a)


def sym_float(a):
    """The number as a float."""
    if isinstance(a, SymInt):
        return _made(float, Call("ToFloat", _expr(a)), sym_float, a)
    return a if isinstance(a, SymFloat) else float(a)


def sym_not(a):
    """Not a."""
    return _made(bool, a.node.expr.contrary(), sym_not, a) if isinstance(a, SymBool) else not a


def _common(a, b):
    return (sym_float(a), sym_float(b)) if _of_float(a) or _of_float(b) else (a, b)


def _extreme(function, plain, whole, fractional, a, b):
    if not isinstance(a, _Symbolic) and not isinstance(b, _Symbolic):
        return plain(*_common(a, b))
    x, y = _common(a, b)
    if _of_float(x):
        return _made(float, Call(fractional, _expr(x), _expr(y)), function, a, b)
    env = _env(x, y)
    if env.certain(Relation("Ge", _expr(x), _expr(y))):
        return x if plain is max else y
    if env.certain(Relation("Le", _expr(x), _expr(y))):
        return y if plain is max else x
    return _made(int, whole(_expr(x), _expr(y)), function, a, b)


def sym_max(a, b):
    """The larger; a float where either is one."""
    return _extreme(sym_max, max, largest, "FloatMax", a, b)


def sym_min(a, b):
    """The smaller; a float where either is one."""
    return _extreme(sym_min, min, smallest, "FloatMin", a, b)


def sym_ite(b, t, f):
    """t if b else f, of one type."""
    if not isinstance(b, (bool, SymBool)):
        raise AssertionError(f"sym_ite: the condition must be a bool, open or not, not a {type(b).__name__}")
    kinds = [x._pytype if isinstance(x, _Symbolic) else type(x) for x in (t, f)]
    if kinds[0] is not kinds[1]:
        raise AssertionError(f"sym_ite: both values must be of one type, got {kinds[0]} and {kinds[1]}")
    if isinstance(b, bool):
        return t if b else f
    if kinds[0] is bool:
        return t if b else f
    call = Call("Where", b.node.expr, _expr(t), _expr(f))
    return _made(kinds[0], atom(call) if kinds[0] is int else call, sym_ite, b, t, f)


def sym_sum(args):
    """The sum.

    >>> import flambeau
    >>> flambeau.sym_sum([1, 2, 3])
    6
    """
    total = 0
    for x in args:  # a loop that a signal can end: `args` may be without end
        total += x
    return total


def _function(name, call, plain):
    def function(a):
        if isinstance(a, _Symbolic):
            return _made(float, Call(call, _expr(sym_float(a))), function, a)
        return plain(a)

    function.__doc__ = f"{plain.__doc__.strip().splitlines()[0]} Of an open number: an open number."
    return _named(function, name)


sym_sqrt = _function("sym_sqrt", "Sqrt", math.sqrt)
sym_sqrt.__doc__ = """The square root."""


def sym_fresh_size(expr):
    """Not available: sizes come from example arguments and from operators."""
    raise NotImplementedError("sym_fresh_size: sizes come from example arguments and from operators; "
                              "ShapeEnv.create_unbacked_symint makes one of its own")


def token_of(symbol, as_float):
    """The number that stands for a symbolic number on its way through native code."""
    if isinstance(symbol, SymBool):
        return int(symbol)
    symbol = sym_float(symbol) if as_float else symbol
    return symbol.node.shape_env.token_of(symbol) if isinstance(symbol, _Symbolic) else symbol
