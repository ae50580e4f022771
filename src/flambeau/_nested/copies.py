"""Copies: in other dtypes, devices and layouts, of the same form with other values, and into a nested tensor."""

from .. import _C
from ..ops.kinds import OPS
from .rules import is_strided, refuse, refuse_leaf, rule, write
from .sequences import Jagged, Windows, sequences_of
from .tensor import as_jagged, as_strided, is_nested, joined, make, packed, parts_of, values_like, values_of, wrap


@rule("clone")
def _clone(self, *, memory_format=None):
    """With its holes and its order of dimensions, unless memory_format=contiguous_format asks for neither."""
    if memory_format not in (None, _C.contiguous_format, _C.preserve_format):
        raise RuntimeError(f"clone: a nested tensor has no memory format {memory_format}")
    if memory_format is _C.contiguous_format and not self._form.contiguous(self._held):
        return compact(self)
    return make(self._form, values_of(self).clone())


def compact(x):
    """The parts in order, without holes or gaps, copied together."""
    form = x._form
    if isinstance(form, Windows):
        return joined(parts_of(x), _C.strided) if form.sizes else x
    form, values = packed(x)
    return make(form, values.contiguous())


@rule("contiguous")
def _contiguous(self, memory_format=None):
    """The tensor itself where its parts are in order without holes, else such a copy."""
    if memory_format not in (None, _C.contiguous_format, _C.preserve_format):
        raise RuntimeError(f"contiguous: a nested tensor has no memory format {memory_format}")
    return self if self._form.contiguous(self._held) else compact(self)


@rule("_to_copy")
def _to_copy(self, *, dtype=None, device=None, non_blocking=False):
    form, values = self._form, values_of(self)
    device = None if device is None else _C.device(device)
    if device is not None and device != self.device:
        form = on_device(form, device)
    return make(form, OPS["_to_copy"](values, dtype=dtype, device=device, non_blocking=non_blocking))


def on_device(form, device):
    """The form on another device."""
    if isinstance(form, Windows):
        return form
    known = form.sequences._padded
    if ("on", device) not in known:
        s = form.sequences
        lengths = None if s.lengths is None else s.lengths.to(device)
        known["on", device] = sequences_of(s.offsets.to(device), lengths, s.told_least, s.told_most)
    return Jagged(known["on", device], form.ragged)


def in_layout(x, layout):
    """The nested tensor in another layout of nested tensors."""
    if layout is x.layout:
        return x
    if layout is _C.strided:
        return as_strided(x)
    if layout is not _C.jagged:
        return refuse("to", f" of layout {layout}", RuntimeError)
    found = as_jagged(x)
    if found is None:
        raise RuntimeError(f"to: the jagged layout needs parts that differ in one dimension; these are "
                           f"{[list(s) for s in x._form.sizes[:4]]}")
    return found


@rule("copy_")
def _copy(self, src, non_blocking=False):
    """The values of another nested tensor of the same sizes."""
    if not is_nested(self) or not is_nested(src):
        raise RuntimeError("copy_: between a dense and a nested tensor; use nested.as_nested_tensor or "
                           "to_padded_tensor first")
    refuse_leaf(self, "copy_")
    if is_strided(self) != is_strided(src):
        src = in_layout(src, self.layout)
    values = values_like(src, self._form, "copy_")
    found = make(self._form, values.to(self.device, self.dtype)) if src.requires_grad else None
    self._held.copy_(values.detach())
    self._bump_version()
    if found is not None and found.grad_fn is not None:
        _C.set_history(self, found.grad_fn, found.output_nr)
    return self


@rule("zero_")
def _zero(self):
    return self.fill_(0)


@rule("fill_")
def _fill(self, value):
    """Every element of every part."""
    refuse_leaf(self, "fill_")
    if _C.is_grad_enabled() and self.requires_grad:
        return write(self, OPS["fill"](self, value), "fill_")
    self._held.fill_(value)
    self._bump_version()
    return self


def _like(name):
    op = OPS[name]

    def compute(self, *args, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
                memory_format=None, **named):
        form = self._form
        if pin_memory:
            raise RuntimeError(f"{name}: pin_memory=True needs a CUDA device, and dense tensors")
        given = {"dtype": dtype, **named}
        if device is not None:
            form, given["device"] = on_device(form, _C.device(device)), device
        if not isinstance(form, Windows) and form.sequences.lengths is None:
            given["memory_format"] = memory_format
        found = wrap(form, op(self._held.detach(), *args, **given))
        if layout not in (None, self.layout):
            found = in_layout(found, layout)
        return found.requires_grad_() if requires_grad else found

    compute.__doc__ = f"{name}: a nested tensor of the same sizes."
    return compute


for _name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
    rule(_name)(_like(_name))


def _new(name):
    def compute(self, size, *args, **kwargs):
        return getattr(self._held.detach(), name)(size, *args, **kwargs)

    compute.__doc__ = f"{name}: a dense tensor of this size."
    return compute


for _name in ("new_empty", "new_zeros", "new_ones", "new_full"):
    rule(_name)(_new(_name))
_random = {name: OPS[name] for name in ("normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_",
                                        "log_normal_", "bernoulli_")}


def _filled(name):
    op = OPS[name]

    def compute(self, *args, **kwargs):
        refuse_leaf(self, name)
        op(self._held, *[a._held if is_nested(a) else a for a in args],
           **{k: a._held if is_nested(a) else a for k, a in kwargs.items()})
        self._bump_version()
        return self

    compute.__doc__ = f"{name} on the values."
    return compute


for _name in _random:
    rule(_name)(_filled(_name))


@rule("_local_scalar_dense")
def _number(self):
    if self.numel() != 1:
        raise RuntimeError(f"item(): only a tensor of one element is a number, got {self.numel()} elements")
    return next(p for p in parts_of(self.detach()) if p.numel()).item()


@rule("is_nonzero")
def _is_nonzero(self):
    if self.numel() != 1:
        raise RuntimeError(f"a nested tensor of {self.numel()} elements is neither true nor false; use any() or all()")
    return bool(_number(self))


@rule("equal")
def _equal(self, other):
    """Whether both are nested tensors of the same sizes and elements."""
    if not (is_nested(self) and is_nested(other)):
        return False
    a, b = parts_of(self.detach()), parts_of(other.detach())
    return len(a) == len(b) and all(map(OPS["equal"], a, b))


@rule("allclose")
def _allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    if not (is_nested(self) and is_nested(other)) or self._form.batch != other._form.batch:
        raise RuntimeError("allclose: expected two nested tensors of equally many parts")
    return all(OPS["allclose"](a, b, rtol, atol, equal_nan)
               for a, b in zip(parts_of(self.detach()), parts_of(other.detach()), strict=True))


@rule("is_same_size", "is_same_size.flat")
def _is_same_size(self, other):
    if not (is_nested(self) and is_nested(other)) or self._form.batch != other._form.batch:
        return False
    if not is_strided(self) and not is_strided(other):
        return self.shape == other.shape
    return [p.shape for p in parts_of(self.detach())] == [p.shape for p in parts_of(other.detach())]
