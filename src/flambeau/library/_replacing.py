"""Implementations of aten's own operators that a program puts in the place of the library's.

They run where PyTorch would run them: those of a device below autograd, as a dispatch mode under all others, those of
autograd above it, as a function mode under all others. While there is one, every call goes the way of modes; they hold
for the thread that registered them.
"""

from .. import _C
from .._shown import shown
from .._tensor.dispatched import in_form
from .._tensor.overriding import TorchDispatchMode, TorchFunctionMode, below_all_modes
from ..ops.namespaces import operator_of


class _OfDevices(TorchDispatchMode):
    """Asks the implementations of devices."""

    def __init__(self):
        super().__init__()
        self.kernels = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        form, given, named, of_answer = in_form(func, args, kwargs or {})
        kernel = self.kernels.get((getattr(form, "name", ""), _device(given, named)))
        if kernel is None:
            return func(*args, **(kwargs or {}))
        result = kernel(*given, **named)
        return result if of_answer is None else of_answer(result)


class _OfAutograd(TorchFunctionMode):
    """Asks the implementations of autograd."""

    def __init__(self):
        super().__init__()
        self.kernels = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "name", "")
        kernel = self.kernels.get((name, None)) or self.kernels.get((name, _device(args, kwargs)))
        return (func if kernel is None else kernel)(*args, **kwargs)


def _device(args, kwargs):
    values = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, (tuple, list)) else (a,))]
    found = next((x.device for x in values if isinstance(x, _C.Tensor)), kwargs.get("device"))
    return "cpu" if found is None else _C.device(found).type


_MODES = {}  #: {class: its one mode, which is active while it has kernels}


def replace(op_name, slot, function):
    """Puts a function in the place of an aten operator; gives what takes it away again.

    slot    "cpu" and other device types; "autograd", "autograd cpu"; "composite": of operators made of others
    """
    name = op_name.removeprefix("aten::").partition(".")[0]
    packet = operator_of("aten", name)
    if packet is None:
        raise RuntimeError(f"impl: there is no operator aten::{name}")
    op = packet.default
    if (slot == "composite" and op.kind != "composite") or slot is None:
        raise NotImplementedError(f"impl: aten::{name} has implementations of devices, which a composite one would not "
                                  "replace; name a device (CPU, CUDA, Meta …) or Autograd")
    if slot.startswith("autocast"):
        raise NotImplementedError(f"impl: aten::{name} is cast by autocast's own table; name a device or Autograd, got "
                                  f"{shown(slot)}")
    above = slot == "composite" or slot.startswith("autograd")
    kind = _OfAutograd if above else _OfDevices
    mode = _MODES.setdefault(kind, kind())
    key = op.name, (slot.partition(" ")[2] or None if above and slot != "composite" else None if above else slot)
    return _put(mode, key, function)


def put_back(kernels, key, before):
    """An implementation that was there before another took its place; None: there was none."""
    if before is None:
        kernels.pop(key, None)
    else:
        kernels[key] = before


def _put(mode, key, function):
    before = mode.kernels.get(key)
    if not mode.kernels:
        below_all_modes(mode)
    mode.kernels[key] = function

    def undo():
        if mode.kernels.get(key) is not function:
            return
        put_back(mode.kernels, key, before)
        if not mode.kernels:
            below_all_modes(mode, False)

    return undo
