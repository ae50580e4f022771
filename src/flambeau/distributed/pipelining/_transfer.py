"""Values between stages: tensors with a description before them, so that every microbatch may have its own sizes."""

import flambeau

from ..._shown import shown
from .. import _messages as messages

_DTYPES = (flambeau.float32, flambeau.float64, flambeau.float16, flambeau.bfloat16, flambeau.bool, flambeau.int8,
           flambeau.int16, flambeau.int32, flambeau.int64, flambeau.uint8, flambeau.uint16, flambeau.uint32,
           flambeau.uint64, flambeau.complex64, flambeau.complex128)
_HEADER = 256  # numbers of a description: of each tensor its dtype, whether it requires grad, its sizes
_NONE = -1


def as_tuple(value):
    """The tensors that a stage returns."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _described(values, place):
    numbers = [len(values)]
    for value in values:
        if value is None:
            numbers.append(_NONE)
        elif isinstance(value, flambeau.Tensor) and value.dtype in _DTYPES and value.layout is flambeau.strided:
            numbers += [_DTYPES.index(value.dtype), int(value.requires_grad), value.dim(), *value.shape]
        else:
            raise TypeError(f"{place}: stages pass tensors on, or tuples of them, got {shown(value)}")
    if len(numbers) > _HEADER:
        raise ValueError(f"{place}: {len(values)} tensors are too many to be passed on at once; put some together")
    return flambeau.tensor(numbers + [0] * (_HEADER - len(numbers)))


def send(values, to, group, tag, place):
    """Sends tensors, or Nones, to a rank of the group; the Works to wait for before they are written to."""
    messages.send(_described(values, place), group=group, group_dst=to, tag=tag)
    return [messages.isend(value.detach().contiguous(), group=group, group_dst=to, tag=tag)
            for value in values if value is not None and value.numel()]


def receive(source, group, tag):
    """What `send` has sent: a tuple of new tensors, which require grad where the sender's do."""
    header = flambeau.empty(_HEADER, dtype=flambeau.int64)
    messages.recv(header, group=group, group_src=source, tag=tag)
    numbers, values = header.tolist(), []
    at = 1
    for _ in range(numbers[0]):
        if numbers[at] == _NONE:
            values.append(None)
            at += 1
            continue
        dtype, requires_grad, dim = numbers[at:at + 3]
        value = flambeau.empty(numbers[at + 3:at + 3 + dim], dtype=_DTYPES[dtype])
        at += 3 + dim
        if value.numel():
            messages.recv(value, group=group, group_src=source, tag=tag)
        values.append(value.requires_grad_() if requires_grad else value)
    return tuple(values)
