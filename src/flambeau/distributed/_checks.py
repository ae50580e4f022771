"""What collectives ask of their arguments, and how any tensor becomes dense memory and back."""

from .. import _C
from .._shown import shown
from ._values import RedOpType

_NAMES = [op.name for op in RedOpType]


def tensor(value, name, what="tensor"):
    """A dense tensor; TypeError names the function."""
    if not isinstance(value, _C.Tensor):
        raise TypeError(f"{name}: {what} must be a Tensor, got {type(value).__name__}")
    if hasattr(value, "_own_part"):
        raise TypeError(f"{name}: {what} is a DTensor; use its redistribute(), or exchange its to_local()")
    if value.layout is not _C.strided:
        raise NotImplementedError(f"{name}: {what} has layout {value.layout}; make it dense with to_dense(), or "
                                  "send its indices and values")
    return value


def tensors(values, name, what, count=None, like=None):
    """A list of dense tensors: as many as `count`, of the dtype and number of elements of `like`."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name}: {what} must be a list of tensors, got {type(values).__name__}")
    if count is not None and len(values) != count:
        raise ValueError(f"{name}: {what} must have a tensor for each of the {count} ranks, got {len(values)}")
    for k, value in enumerate(values):
        tensor(value, name, f"{what}[{k}]")
        if like is not None:
            same(value, like, name, f"{what}[{k}]")
    return list(values)


def same(value, like, name, what):
    """ValueError unless both have one dtype and as many elements."""
    if value.dtype is not like.dtype or value.numel() != like.numel():
        raise ValueError(f"{name}: {what} is {list(value.shape)} {value.dtype}, expected the size and dtype of "
                         f"{list(like.shape)} {like.dtype}")


def rank(group, number, place, name, what):
    """The rank in the group, from a rank in the group of all or one in the group: one of them must be given."""
    if (number is None) == (place is None):
        raise ValueError(f"{name}: give either {what} or group_{what}, got "
                         f"{'neither' if number is None else 'both'}")
    if place is None:
        return group.place_of(number, name)
    if not 0 <= place < group.size():
        raise ValueError(f"{name}: group_{what} must be from 0 to {group.size() - 1}, got {shown(place)}")
    return place


def reduction(op, name):
    """(number of the reduction, factor or None)."""
    kind = getattr(op, "op", op)
    if not isinstance(kind, RedOpType):
        raise TypeError(f"{name}: op must be one of distributed.ReduceOp ({', '.join(_NAMES)}), got {shown(op)}")
    if kind is RedOpType.PREMUL_SUM:
        factor = getattr(op, "factor", None)
        if factor is None:
            raise ValueError(f"{name}: PREMUL_SUM needs a factor: distributed._make_nccl_premul_sum(factor)")
        return int(RedOpType.SUM), factor
    return int(kind), None


def named(kind):
    """" MAX", as a description of a collective names a reduction; nothing for a sum."""
    return "" if kind == 0 else f" {_NAMES[kind]}"


class Dense:
    """A tensor's elements in dense memory: its own where it is dense already, else a copy that `back` writes home."""

    __slots__ = ("home", "memory")

    def __init__(self, home, read=True):
        self.home = self.memory = home.detach() if home.requires_grad else home
        if not home.is_contiguous():
            self.memory = self.home.contiguous() if read else self.home.new_empty(self.home.shape)

    def back(self, result=None):
        """After a result has come into the memory, or into `result`: saved uses of the tensor are noticed."""
        if result is not None and result is not self.memory:
            self.memory.copy_(result)
        if self.memory is not self.home:
            self.home.copy_(self.memory)
        else:
            self.home._bump_version()


def reducible(memory, op, engine, name):
    """The dtype to reduce in: the tensor's own, or a wider one for what is only stored; TypeError where there is none.
    """
    dtype = memory.dtype
    if engine.reduces(dtype, op):
        return dtype
    wide = _C.complex64 if dtype.is_complex else _C.float32
    stored = dtype is _C.complex32 or (dtype.is_floating_point and dtype.itemsize == 1)
    if stored and engine.reduces(wide, op):
        return wide
    raise TypeError(f"{name}: {_NAMES[op]} is not defined for tensors of {dtype}")
