"""One operator call on DTensors: its tensors, its other arguments by name, and the shapes of its results."""

import contextlib
import threading

import flambeau

from ... import _C
from ..._shown import listed, shown
from ..._tensor.overriding import disable_torch_dispatch
from ._dtensor_spec import DTensorSpec, TensorMeta
from .placement_types import Replicate


class _State(threading.local):
    implicit = False  #: inside implicit_replication()
    loss_parallel = False  #: inside loss_parallel()


_state = _State()


@contextlib.contextmanager
def implicit_replication():
    """A context in which plain tensors beside DTensors count as replicated: the same on every rank.

    >>> from flambeau.distributed.tensor.experimental import implicit_replication
    >>> with implicit_replication():
    ...     pass
    """
    before, _state.implicit = _state.implicit, True
    try:
        yield
    finally:
        _state.implicit = before


def leaves(value, found):
    """Appends the tensors in nested tuples and lists."""
    if isinstance(value, _C.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for each in value:
            leaves(each, found)
    return found


def exchanged(value, tensors):
    """The same nest with each tensor replaced by the next of an iterator."""
    if isinstance(value, _C.Tensor):
        return next(tensors)
    if isinstance(value, (tuple, list)):
        return tuple(exchanged(each, tensors) for each in value)
    return value


_TAKE_PLAIN = {"cross_entropy", "nll_loss"}  # labels, inside loss_parallel()


def check_mixed(kind, func, args, kwargs):
    """Refuses a program's own plain tensors beside DTensors: they may differ from rank to rank.

    Numbers as tensors without dimensions, and all inside implicit_replication(), count as replicated.
    """
    if _state.implicit or _C.current_pass():
        return
    found = leaves(list(kwargs.values()), leaves(args, []))
    plain = next((x for x in found if not isinstance(x, kind) and (x.ndim or x.numel() != 1)), None)
    if plain is None or (_state.loss_parallel and func.name in _TAKE_PLAIN):
        return
    first = next((x for x in found if isinstance(x, kind)), None)
    if first is not None:
        raise RuntimeError(f"{getattr(func, 'name', func)}: got a plain tensor {list(plain.shape)} beside a DTensor "
                           f"{list(first.shape)} {listed(first.placements)}; make it one with distribute_tensor or "
                           "DTensor.from_local, or call inside tensor.experimental.implicit_replication()")


class Call:
    """func(*args, **kwargs), of which `tensors` are the DTensors in order; `outs` are meta tensors of the results."""

    def __init__(self, kind, func, args, kwargs):
        self.func, self.name, self.args, self.kwargs = func, func.name, args, kwargs
        found = leaves(list(kwargs.values()), leaves(args, []))
        first = next(x for x in found if isinstance(x, kind))
        self.mesh = first.device_mesh
        self.tensors = [x if isinstance(x, kind) else self._lifted(x, kind) for x in found]
        for x in self.tensors:
            if x.device_mesh is not self.mesh and x.device_mesh != self.mesh:
                raise RuntimeError(f"{self.name}: DTensors of two meshes, {shown(self.mesh)} and "
                                   f"{shown(x.device_mesh)}; redistribute one to the mesh of the other")
        self._outs, self.structure = None, None

    def _lifted(self, x, kind):
        """A plain tensor, which an operator or a derivative made for itself, is the same on every rank."""
        meta = TensorMeta(x.shape, x.stride(), x.dtype)
        return kind(x, DTensorSpec(self.mesh, (Replicate(),) * self.mesh.ndim, meta), requires_grad=False)

    @property
    def key(self):
        """What its decision depends on; TypeError where something in it has no hash."""
        static = exchanged((self.args, tuple(self.kwargs.items())), iter([None] * len(self.tensors)))
        key = self.func, tuple(x._spec.key for x in self.tensors), static
        hash(key)
        return key, _typed(static)

    def value(self, name, *default):
        """The argument of that name, with PyTorch's default where the call leaves it out."""
        at = 0
        for known, keyword_only, _, usual in self.func.arguments:
            if known == name:
                if keyword_only:
                    return self.kwargs.get(name, usual)
                return self.args[at] if at < len(self.args) else usual
            at += not keyword_only
        if default:
            return default[0]
        raise KeyError(name)

    @property
    def outs(self):
        """The results as tensors of the meta device; none where their shapes depend on values."""
        if self._outs is None:
            self._outs = self._inferred()
        return self._outs

    @property
    def results(self):
        """How many results there are."""
        return 1 if self.func.is_inplace else len(self.outs)

    def _inferred(self):
        if self.func.is_inplace:
            return [self.tensors[0]]
        metas = iter([flambeau.empty_strided(x.shape, x._spec.stride, dtype=x.dtype, device="meta")
                      for x in self.tensors])
        args = exchanged(self.args, metas)
        kwargs = {name: exchanged(value, metas) for name, value in self.kwargs.items() if name != "device"}
        with disable_torch_dispatch():
            found = self.func(*args, **kwargs)
        self.structure = type(found)
        return leaves(found, [])


def _typed(value):
    """The types of a nest: 1, 1.0 and True are equal, and make different results."""
    return tuple(map(_typed, value)) if isinstance(value, tuple) else type(value)
