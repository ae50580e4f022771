"""Floating-point errors: which results raise, warn or print: division by zero, overflow, underflow, invalid values.

A dispatch mode looks at the result of every operator that runs inside the scope, forward and backward; outside of it
nothing is looked at.
"""

import sys
import warnings

from .. import _C
from .._shown import shown
from .._tensor.dtypes import finfo
from .._tensor.overriding import TorchDispatchMode
from ..autograd._notes import describe, module_path
from ..ops.kinds import OPS

_CHOICES = ("ignore", "warn", "raise", "print")
#: operators with a pole at a finite input: an infinity there is a division by zero, elsewhere an overflow
_POLES = {"div", "_div_conj", "reciprocal", "rsqrt", "log", "log2", "log10", "log1p", "pow", "atanh", "lgamma",
          "digamma", "logit", "true_divide", "float_power", "xlogy", "erfinv", "log_sigmoid"}
#: operators whose result is never exactly zero for finite inputs that are not zero
_NEVER_ZERO = {"mul", "div", "exp", "exp2", "pow", "reciprocal", "square", "sigmoid", "softmax", "true_divide"}
#: operators that move numbers without computing any
_NOT_COMPUTED = {"empty", "empty_like", "empty_strided", "new_empty", "full", "full_like", "fill", "fill_", "copy_",
                 "clone", "detach", "masked_fill", "where", "isnan", "isinf", "isfinite", "as_strided"}


def _floating(x):
    return isinstance(x, _C.Tensor) and x.is_floating_point() and not x.is_meta


def _tensors(values):
    for v in values:
        if isinstance(v, (tuple, list)):
            yield from _tensors(v)
        elif _floating(v):
            yield v


def _where_all(inputs, shape, test):
    """Where every input passes the test, as a tensor of `shape`; None when shapes say nothing about elements."""
    result = None
    for x in inputs:
        ok = test(x)
        if _broadcast(x.shape, shape) is None:
            ok = ok.all()
        result = ok if result is None else result & ok
    return result


def _broadcast(shape, target):
    if len(shape) > len(target):
        return None
    fits = all(a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False))
    return target if fits else None


def _fresh(bad, inputs, shape, test):
    """The bad elements whose inputs all passed `test`: those that this very operator made."""
    if not bool(bad.any()):
        return None
    ok = _where_all(inputs, shape, test)
    if ok is not None:
        bad = bad & ok
        if not bool(bad.any()):
            return None
    return bad


def _find(name, result, inputs):
    """(kind of error, where) of one result, or None."""
    shape = result.shape
    found = _fresh(result.isnan(), inputs, shape, lambda x: ~x.isnan())
    if found is not None:
        return "invalid", found
    found = _fresh(result.isinf(), inputs, shape, lambda x: ~x.isinf())
    if found is not None:
        return "divide" if name in _POLES else "over", found
    return None


def _find_under(name, result, inputs):
    tiny = finfo(result.dtype).tiny
    small = (result.abs() < tiny) & (result != 0)
    if name in _NEVER_ZERO:
        zero = (result == 0) & ~result.isnan()
        kept = _fresh(zero, inputs, result.shape, lambda x: x.isfinite() & ((x != 0) | (name in ("exp", "softmax"))))
        if kept is not None:
            small = small | kept
    return small if bool(small.any()) else None


_WHAT = {"invalid": "invalid value", "divide": "divide by zero", "over": "overflow", "under": "underflow"}


def _first_index(bad):
    return tuple(int(k) for k in OPS["nonzero"](bad)[0]) if bad.ndim else ()


def _range_text(x):
    if x.numel() == 0:
        return f"{list(x.shape)}, empty"
    if x.is_complex():
        return f"{list(x.shape)} {x.dtype}"
    text = f"{list(x.shape)}"
    if x.dtype == _C.bool:
        return text
    good = x[x.isfinite()] if x.is_floating_point() else x
    if good.numel():
        text += f" from {good.min().item():.6g} to {good.max().item():.6g}"
    odd = [f"{n} {what}" for what, n in (("nan", int(x.isnan().sum())), ("inf", int(x.isinf().sum()))) if n]
    return text + (f", {' and '.join(odd)}" if odd else "")


def _at(x, index, shape):
    """The input's element that a result's element came from, where shapes say so."""
    if _broadcast(x.shape, shape) is None:
        return None
    own = index[len(shape) - x.ndim:]
    return x[tuple(0 if n == 1 else k for k, n in zip(own, x.shape, strict=True))].item()


def _message(kind, name, result, bad, named):
    index = _first_index(bad)
    values = [(n, _at(x, index, result.shape)) for n, x in named if isinstance(x, _C.Tensor)]
    values += [(n, x) for n, x in named if isinstance(x, (int, float)) and not isinstance(x, bool)]
    operands = ", ".join(f"{n} = {v:.6g}" for n, v in values if v is not None)
    count = int(bad.sum())
    text = (f"{name}: {_WHAT[kind]} in {count} of {result.numel()} elements, first at index {list(index)}"
            f"{f' ({operands})' if operands else ''}")
    lines = [text] + [f"  {n}: {_range_text(x)}" for n, x in named if isinstance(x, _C.Tensor)]
    return "\n".join(lines)


def _place():
    """Where this is: the modules being called, or the node whose rule runs."""
    node = _C.running_node()
    if node is not None:
        return describe(node)
    path = module_path(_C.module_stack())
    return [f"  in: {path}"] if path else []


class errstate(TorchDispatchMode):
    """Scope in which floating-point errors are noticed: invalid (NaN), divide, over, under; forward and backward.

    Each may be "raise" (FloatingPointError), "warn", "print" or "ignore"; `all` sets those that are not given. The
    message names the operator, the first bad index with the inputs there, the inputs' ranges, and the module. Only
    what an operator makes out of good inputs counts, not what it passes on.

    >>> import flambeau
    >>> try:
    ...     with flambeau.errstate(divide="raise"):
    ...         flambeau.tensor([1., 2.]) / flambeau.tensor([1., 0.])
    ... except FloatingPointError as error:
    ...     print(error)
    div: divide by zero in 1 of 2 elements, first at index [1] (self = 2, other = 0)
      self: [2] from 1 to 2
      other: [2] from 0 to 1
    """

    def __init__(self, *, all=None, divide=None, over=None, under=None, invalid=None):
        given = {"divide": divide, "over": over, "under": under, "invalid": invalid}
        for name, value in {**given, "all": all}.items():
            if value is not None and value not in _CHOICES:
                raise ValueError(f"errstate: {name}={shown(value)} is not one of {', '.join(_CHOICES)}")
        self.actions = {name: value or all or "ignore" for name, value in given.items()}

    def __call__(self, func):
        def scoped(*args, **kwargs):
            with errstate(**self.actions):
                return func(*args, **kwargs)
        return scoped

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.name.split(".")[0].rstrip("_")
        named = list(zip((a[0] for a in func.arguments or ()), args, strict=False)) + list(kwargs.items())
        if func.is_inplace:
            named = [(n, x.clone() if isinstance(x, _C.Tensor) else x) for n, x in named]
        result = func(*args, **kwargs)
        if name not in _NOT_COMPUTED and func.kind != "view":
            for r in result if isinstance(result, (tuple, list)) else (result,):
                if _floating(r) and r.numel():
                    self._look(name, r, named)
        return result

    def _look(self, name, result, named):
        inputs = list(_tensors(x for _, x in named))
        if not inputs:
            return  # made of nothing: random numbers, constants
        found = _find(name, result, inputs)
        if found is None and self.actions["under"] != "ignore":
            bad = _find_under(name, result, inputs)
            found = None if bad is None else ("under", bad)
        if found is None or self.actions[found[0]] == "ignore":
            return
        text = _message(found[0], name, result, found[1], [(n, x) for n, x in named
                                                          if isinstance(x, (_C.Tensor, int, float))])
        self._act(self.actions[found[0]], text)

    def _act(self, action, text):
        if action == "raise":
            raise FloatingPointError(text)
        text = "\n".join([text, *_place()])
        if action == "warn":
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            print(text, file=sys.stderr)
