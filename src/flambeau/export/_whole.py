"""Which calls are one step of a trace although they are made of others: those that PyTorch has an operator for."""

import flambeau

from .. import _C
from .._aten.spelling import REDUCTIONS, named, stays_whole
from .._subclasses.fake import leaves
from .._subclasses.fake_tensor import FakeTensor
from .._tensor.overriding import TorchFunctionMode
from ..fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_innermost_proxy_mode

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class Whole(TorchFunctionMode):
    """Inside a trace, calls that PyTorch's programs have an operator for are one step, whatever they are made of.

    table       a table of decompositions: its operators are taken apart (decomp_utils.py)
    """

    def __init__(self, table=None):
        super().__init__()
        self.table = table

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        mode = get_innermost_proxy_mode()
        if mode is None:  # it runs what it has recorded
            return func(*args, **kwargs)
        if self.table is not None and func in self.table:
            own = self.table.own(func)
            return (func if own is None or not mode.enable_tracing else own)(*args, **kwargs)
        if not (isinstance(func, _C.Op) and mode.enable_tracing and stays_whole(func) and _told(func, args, kwargs)
                and not _inside_a_transform(args, kwargs)):
            return func(*args, **kwargs)
        tracer = mode.tracer
        node = tracer.create_node("call_function", func, tracer.of_value(tuple(args)), tracer.of_value(dict(kwargs)))
        with disable_proxy_modes_tracing():
            recurrent = func.name in _RECURRENT and isinstance(args[0], FakeTensor)
            result = _recurrent(*args) if recurrent else func(*args, **kwargs)
        return mode.track(result, node)


def _inside_a_transform(args, kwargs):
    """Whether `vmap`, `grad` and their kind have wrapped the arguments: what they make of the call is recorded."""
    return any(isinstance(x, _C.Tensor) and _C.level_of(x) for x in leaves(args, kwargs))


def _recurrent(x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    """Results without values of a recurrent network, whose layers would settle the length of a sequence."""
    states = hx if isinstance(hx, (tuple, list)) else [hx]
    out = x.new_empty((*x.shape[:-1], states[0].shape[-1] * (2 if bidirectional else 1)))
    return out, *map(flambeau.empty_like, states)


def _told(func, args, kwargs):
    """Whether this call has a form there: packed sequences, old ways to say things and the like have none."""
    if func.name in _RECURRENT:
        return len(args) == 9 and not kwargs and isinstance(args[3], bool)
    if kwargs.get("out") is not None:
        return False
    try:
        given = named(func, args, kwargs)
    except (TypeError, ValueError):
        return False
    if "reduction" in given and given["reduction"] not in (*REDUCTIONS, *REDUCTIONS.values()):
        return False
    if func.name.endswith("_cell") and args[0].dim() != 2:
        return False
    sizes = given.get("output_size")
    if isinstance(sizes, (tuple, list)) and None in sizes:
        return False
    return all(given.get(name) is None for name in ("size_average", "reduce", "max_norm", "generator", "out"))
