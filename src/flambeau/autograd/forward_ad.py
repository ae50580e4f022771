"""Forward mode by hand: dual numbers, made and taken apart inside a dual level.

>>> import flambeau
>>> import flambeau.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     x = fwAD.make_dual(flambeau.tensor(3.), flambeau.tensor(1.))
...     fwAD.unpack_dual(x * x).tangent
tensor(6.)
"""

import threading
from collections import namedtuple

from .. import _C
from .._shown import shown
from .._transforms.dual import Dual, DualFrame
from .._transforms.forward import check_tangent
from .._transforms.levels import innermost
from .function import Function

UnpackedDualTensor = namedtuple("UnpackedDualTensor", "primal tangent")
UnpackedDualTensor.__doc__ = "The two parts of a dual tensor; `tangent` is None where there is none."



class _Entered(threading.local):
    """The dual level that this thread is in: at most one frame."""

    def __init__(self):
        self.levels = []


_entered = _Entered()


def __getattr__(name):
    if name == "_current_level":  # programs read it to learn whether a level is open
        return len(_entered.levels) - 1
    raise AttributeError(f"module {__name__} has no attribute {shown(name)}")


def enter_dual_level():
    """Opens the level that dual tensors belong to; returns its number."""
    if _entered.levels:
        raise RuntimeError("forward_ad: a dual level is open already, and levels do not nest; leave it first, or use "
                           "flambeau.func.jvp, which nests")
    _entered.levels.append(DualFrame(by_hand=True).__enter__())
    return len(_entered.levels) - 1


def exit_dual_level(*, level=None):
    """Closes the current dual level; its dual tensors become unusable."""
    if not _entered.levels:
        raise RuntimeError("exit_dual_level: no dual level is open")
    current = len(_entered.levels) - 1
    if level is not None and level != current:
        raise RuntimeError(f"exit_dual_level: level {level} is not the current one, which is {current}")
    _entered.levels.pop().__exit__(None, None, None)


class dual_level:
    """A dual level as a context: `with dual_level():`."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *_):
        exit_dual_level()


def _frame(level, what):
    if not _entered.levels:
        raise RuntimeError(f"{what}: no dual level is open; wrap the computation in `with forward_ad.dual_level():`")
    if level not in (None, 0, len(_entered.levels) - 1):
        raise RuntimeError(f"{what}: there is no dual level {level}")
    return _entered.levels[-1]


class _MakeDual(Function):
    """Ties a dual tensor to the history of its primal."""

    @staticmethod
    def forward(ctx, primal, hold):
        return hold[0]  # in a list: an input that is returned would lose its tangent

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def make_dual(tensor, tangent, *, level=None):
    """A dual tensor: `tensor` with the direction `tangent` (same shape and dtype) in which to differentiate."""
    frame = _frame(level, "make_dual")
    check_tangent("make_dual", tensor, tangent)
    if type(tensor) is Dual and tensor.frame is frame:
        if tensor.tangent is not None:
            raise RuntimeError("make_dual: the tensor has a tangent at this level already")
        tensor = tensor.value
    if type(tangent) is Dual and tangent.frame is frame:  # made inside the level
        if tangent.tangent is not None:
            raise RuntimeError("make_dual: the tangent has a tangent at this level itself")
        tangent = tangent.value
    dual = frame.wrap(tensor, tangent)
    if tensor.requires_grad and _C.is_grad_enabled():
        return _MakeDual.apply(tensor, [dual])
    return dual


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor; the tangent is None where the tensor has none at this level."""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"unpack_dual: expected a Tensor, got {type(tensor).__name__}")
    if level is None:
        frame = _entered.levels[-1] if _entered.levels else innermost()
    else:
        frame = _entered.levels[level] if 0 <= level < len(_entered.levels) else None
    if type(tensor) is Dual and tensor.frame is frame:
        return UnpackedDualTensor(tensor.value, tensor.tangent)
    return UnpackedDualTensor(tensor, None)
