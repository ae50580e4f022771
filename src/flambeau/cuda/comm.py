"""Tensors copied, cut, joined and summed between the GPUs of one process."""

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from .streams import StreamContext


def _place(where):
    """A device of a number, a name or a device; -1 is the CPU."""
    return _C.device("cpu") if where == -1 else _C.device("cuda", where) if isinstance(where, int) else _C.device(where)


def _either(name, devices, out):
    if (devices is None) == (out is None):
        raise RuntimeError(f"{name}: expected either devices or out, got {shown(devices)} and {shown(out)}")


def broadcast(tensor, devices=None, *, out=None):
    """A tuple of copies of the tensor, one on each device (the tensor itself where it is there); or written to `out`.

    >>> import flambeau
    >>> flambeau.cuda.comm.broadcast(flambeau.ones(2), ["cpu"])
    (tensor([1., 1.]),)
    """
    _either("broadcast", devices, out)
    if out is None:
        return tuple(tensor.to(_place(place), non_blocking=True) for place in devices)
    for t in out:
        t.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """For each device a tuple of copies of the tensors. `buffer_size`, in bytes, is for machines that copy faster in
    large pieces; copies are made one by one here, and wait for nothing."""
    _whole("broadcast_coalesced", buffer_size)
    return [tuple(t.to(_place(place), non_blocking=True) for t in tensors) for place in devices]


def _whole(name, buffer_size):
    if not isinstance(buffer_size, int) or buffer_size <= 0:
        raise ValueError(f"{name}: buffer_size must be a positive number of bytes, got {shown(buffer_size)}")


def reduce_add(inputs, destination=None):
    """The sum of tensors of one shape, each of which may be on another device, on `destination` (the current GPU)."""
    if not inputs:
        raise RuntimeError("reduce_add: expected one tensor at least, got none")
    if any(t.shape != inputs[0].shape for t in inputs):
        raise ValueError(f"reduce_add: the tensors must be of one shape, got {[list(t.shape) for t in inputs]}")
    place = _C.device("cuda", _C._cuda.current_device()) if destination is None else _place(destination)
    total = inputs[0].to(place, non_blocking=True)
    for t in inputs[1:]:
        total = total + t.to(place, non_blocking=True)
    return total


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """reduce_add of the first tensors of all devices, of the second, and so on: a tuple of sums."""
    _whole("reduce_add_coalesced", buffer_size)
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """The tensor in pieces along `dim`, one on each device, in equal parts or by `chunk_sizes`; or written to `out`.

    `streams`: one for each device, or None, on which it is copied.
    """
    _either("scatter", devices, out)
    if out is not None:
        if chunk_sizes is not None:
            raise RuntimeError("scatter: the pieces have the sizes of out; leave chunk_sizes out")
        chunk_sizes = [t.shape[dim] for t in out]
        for piece, t in zip(tensor.split(chunk_sizes, dim), out, strict=True):
            t.copy_(piece, non_blocking=True)
        return tuple(out)
    pieces = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    streams = [None] * len(devices) if streams is None else streams
    return tuple(_copied(piece, _place(place), stream) for piece, place, stream in zip(pieces, devices, streams,
                                                                                      strict=False))


def _copied(piece, place, stream):
    if stream is None:
        return piece.to(place, non_blocking=True)
    with StreamContext(stream):
        return piece.to(place, non_blocking=True)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Tensors of several devices joined along `dim` on `destination` (the current GPU; -1: the CPU), or in `out`."""
    if out is not None:
        if destination is not None:
            raise RuntimeError("gather: out says where the result is; leave destination out")
        return out.copy_(OPS["cat"]([t.to(out.device) for t in tensors], dim))
    place = _C.device("cuda", _C._cuda.current_device()) if destination is None else _place(destination)
    return OPS["cat"]([t.to(place, non_blocking=place.type == "cuda") for t in tensors], dim)
