"""Copies: of the same dtype or another, into each other, without values; and the number that a tensor holds."""

from .. import _C
from ..ops.kinds import OPS
from .construct import empty, zeros_in
from .convert import converted
from .rules import refuse, replace, rule
from .tensor import COO, coalesced, is_sparse, make, values_of, wrap


def _check_options(name, self, device=None, pin_memory=False, memory_format=None):
    """Refuses what a sparse tensor cannot honour."""
    if memory_format not in (None, _C.preserve_format):
        raise RuntimeError(f"{name}: a sparse tensor has no memory format, got {memory_format}")
    if pin_memory:
        raise RuntimeError(f"{name}: pin_memory=True needs a CUDA device; pinned memory is not available here")
    if device is not None and _C.device(device).type != self.device.type:
        refuse(name, (self,), why=f" on device {device}")


@rule("clone")
def _clone(self, *, memory_format=None):
    _check_options("clone", self, memory_format=memory_format)
    pattern = self._pattern
    plain = pattern.plain
    return make(pattern.changed(indices=pattern.indices.clone(), plain=plain if plain is None else plain.clone()),
                values_of(self).clone())


@rule("_to_copy")
def _to_copy(self, *, dtype=None, device=None):
    pattern, device = self._pattern, self.device if device is None else _C.device(device)
    if device.type == "meta":
        refuse("to", (self,), why=" on device meta")
    if device != self.device:
        plain = None if pattern.plain is None else pattern.plain.to(device)
        pattern = pattern.changed(indices=pattern.indices.to(device), plain=plain)
    return make(pattern, OPS["_to_copy"](values_of(self), dtype=dtype, device=device))


@rule("contiguous")
def _contiguous(self, memory_format=None):
    """The tensor itself, whose parts are contiguous."""
    _check_options("contiguous", self, memory_format=None if memory_format is _C.contiguous_format else memory_format)
    return self


@rule("alias", "view_as", "positive_")
def _same(self, *_):
    return self


@rule("copy_")
def _copy(self, src, non_blocking=False):
    """Between sparse tensors: places and values."""
    if not is_sparse(self) or not is_sparse(src):
        raise RuntimeError("copy_: between a dense and a sparse tensor: use to_dense() or to_sparse() first")
    if self.shape != src.shape:
        raise RuntimeError(f"copy_: expected shape {list(self.shape)}, got {list(src.shape)}")
    src = src.to(self.device, self.dtype)
    return replace(self, _clone(src if src.layout is self.layout else converted(src, self._pattern)))


@rule("zero_")
def _zero(self):
    return replace(self, _zeros_like(self))


@rule("zeros_like")
def _zeros_like(self, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
                memory_format=None):
    """Without values, in the layout of self unless another is given."""
    _check_options("zeros_like", self, device, pin_memory, memory_format)
    pattern, dtype = self._pattern, dtype or self.dtype
    if layout is _C.strided:
        return OPS["zeros"](self.shape, dtype=dtype, requires_grad=requires_grad, device=self.device)
    if layout not in (None, self.layout):
        x = empty(self.shape, layout, dtype, self.device) if self.layout is COO else zeros_in(self, layout, dtype)
        return x.requires_grad_() if requires_grad else x
    shape = (0, *self._held.shape[1:]) if self.layout is COO else (
        *self._held.shape[:pattern.batch_dim], 0, *self._held.shape[pattern.batch_dim + 1:])
    if self.layout is COO:
        found = pattern.changed(indices=pattern.indices[:, :0], coalesced=True)
    else:
        found = pattern.changed(indices=OPS["zeros_like"](pattern.indices), plain=pattern.plain[..., :0])
    x = wrap(found, OPS["zeros"](shape, dtype=dtype, device=self.device))
    return x.requires_grad_() if requires_grad else x


@rule("empty_like")
def _empty_like(self, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
                memory_format=None):
    """In coordinates without values; in compressed layouts with the places of self, as PyTorch."""
    _check_options("empty_like", self, device, pin_memory, memory_format)
    if self.layout is COO or layout not in (None, self.layout):
        return _zeros_like(self, dtype=dtype, layout=layout, requires_grad=requires_grad)
    x = wrap(self._pattern, OPS["empty_like"](self._held, dtype=dtype or self.dtype))
    return x.requires_grad_() if requires_grad else x


def _like(name):
    def compute(self, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
                memory_format=None):
        _check_options(name, self, device, pin_memory, memory_format)
        if layout is _C.strided:
            return OPS[name](_zeros_like(self, layout=layout, dtype=dtype), requires_grad=requires_grad)
        if self.layout is COO or layout not in (None, self.layout):
            return refuse(name, (self,))
        x = wrap(self._pattern, OPS[name](self._held, dtype=dtype or self.dtype))
        return x.requires_grad_() if requires_grad else x
    compute.__doc__ = f"{name} at the places of self; everywhere, where layout=strided asks for it."
    return compute


for _name in ("randn_like", "rand_like", "ones_like"):
    rule(_name)(_like(_name))


@rule("new_zeros", "new_empty")
def _new(self, *size, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Without values, in the layout of self unless another is given."""
    _check_options("new_zeros", self, pin_memory=pin_memory)
    size = size if size and isinstance(size[0], int) else tuple(*size)
    dtype, device = dtype or self.dtype, self.device if device is None else device
    if layout is _C.strided:
        return OPS["zeros"](size, dtype=dtype, device=device, requires_grad=requires_grad)
    return empty(size, layout or self.layout, dtype, device, requires_grad)


@rule("_local_scalar_dense")
def _number(self):
    return values_of(coalesced(self)).sum().item()


@rule("is_nonzero")
def _is_nonzero(self):
    return bool(_number(self))
