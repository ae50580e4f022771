"""Which calls are one step of a trace although they are made of others: those that PyTorch has an operator for."""

import functools
import re

import flambeau

from .. import _C
from .._aten.spelling import REDUCTIONS, named, stays_whole
from .._subclasses.fake import leaves
from .._subclasses.fake_tensor import FakeTensor
from .._symbolic.numbers import SymBool, SymFloat, SymInt
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
        if mode.enable_tracing and func is flambeau.tensor and any(isinstance(x, _OPEN) for x in leaves(args, kwargs)):
            return _tensor_of(*args, **kwargs)
        if mode.enable_tracing:
            args, kwargs = _with_numbers(func, args, kwargs)
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


_OPEN = (SymInt, SymFloat, SymBool)


def _tensor_of(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """`flambeau.tensor` of nested lists with open numbers."""
    if dtype is None:
        kinds = {type(x) for x in leaves(data)}
        dtype = flambeau.get_default_dtype() if kinds & {float, SymFloat} else \
            flambeau.bool if kinds <= {bool, SymBool} else flambeau.int64

    def made(x):
        if isinstance(x, (tuple, list)):
            return flambeau.stack([made(item) for item in x])
        return flambeau.scalar_tensor(x, dtype=dtype, device=device)

    found = made(data).requires_grad_(requires_grad)
    return found.pin_memory() if pin_memory else found


_PLACES = (_C.Tensor.__getitem__, _C.Tensor.__setitem__)


def _with_numbers(func, args, kwargs):
    """Arguments with open numbers in the place of tensors of one, where a place or a number is asked for."""
    if func in _PLACES:
        return (args[0], _place(args[1]), *args[2:]), kwargs
    if not isinstance(func, _C.Op) or not any(_is_number(x) for x in leaves(args, kwargs)):
        return args, kwargs
    numbers = _numbers(func)
    args = tuple(_number(a) if k in numbers else a for k, a in enumerate(args))
    return args, {name: _number(a) if name in numbers else a for name, a in kwargs.items()}


@functools.cache
def _numbers(func):
    """The places and names of the parameters of an operator of one form that are numbers, or lists of them."""
    if func.schema is None:
        return frozenset()
    kinds = [re.match(r"\s*(int|SymInt|float|Scalar|number)\b(?:\[\d*\])?\??\s+(\w+)", text)
             for text in _parameters(func.schema)]
    return frozenset(x for k, found in enumerate(kinds) if found for x in (k, found[2]))


def _parameters(schema):
    inside = schema[schema.index("(") + 1:schema.rindex("->")].strip().rstrip(")")
    return [text for text in re.split(r",(?![^\[(]*[\])])", inside) if text.strip() != "*"]


def _is_number(x):
    return isinstance(x, FakeTensor) and not x.dim() and x.fake_mode.shape_env is not None and not x.dtype.is_complex


def _number(x):
    if isinstance(x, (tuple, list)):
        return type(x)(map(_number, x)) if type(x) in (tuple, list) else x
    return x.item() if _is_number(x) else x


def _place(index):
    """An index, whose bounds and whose single places are open numbers."""
    if isinstance(index, tuple):
        return tuple(map(_place, index))
    if isinstance(index, slice):
        return slice(*map(_number, (index.start, index.stop, index.step)))
    whole = isinstance(index, FakeTensor) and not (index.dtype.is_floating_point or index.dtype is _C.bool)
    return _number(index) if whole else index


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
