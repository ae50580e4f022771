"""What moves tensors between devices with derivatives, in the call forms of packages that wrap modules on their own."""

from functools import cache

from ... import device as device_of
from ...autograd import Function
from ...cuda import Stream, comm


class Scatter(Function):
    """A tensor in pieces along `dim`, one for each device; their gradients are joined.

    >>> import flambeau
    >>> from flambeau.nn.parallel._functions import Scatter
    >>> Scatter.apply(["cpu", "cpu"], None, 0, flambeau.arange(3))
    (tensor([0, 1]), tensor([2]))
    """

    @staticmethod
    def forward(ctx, target_gpus, chunk_sizes, dim, input):
        """(pieces,)"""
        ctx.dim, ctx.place = dim, input.device
        return tuple(piece.clone() if piece.device == input.device else piece
                     for piece in comm.scatter(input, target_gpus, chunk_sizes, dim))

    @staticmethod
    def backward(ctx, *grads):
        """The gradients of the pieces in one."""
        return None, None, None, comm.gather(grads, ctx.dim, ctx.place)


class Gather(Function):
    """Tensors joined along `dim` on one device; each gets its part of the gradient. Numbers become a vector.

    >>> import flambeau
    >>> from flambeau.nn.parallel._functions import Gather
    >>> Gather.apply("cpu", 0, flambeau.ones(1), flambeau.zeros(2))
    tensor([1., 0., 0.])
    """

    @staticmethod
    def forward(ctx, target_device, dim, *inputs):
        """The tensors in one."""
        ctx.numbers = dim == 0 and all(t.dim() == 0 for t in inputs)
        inputs = [t.unsqueeze(0) for t in inputs] if ctx.numbers else inputs
        ctx.dim, ctx.places, ctx.sizes = dim, [t.device for t in inputs], [t.shape[dim] for t in inputs]
        return comm.gather(inputs, dim, target_device)

    @staticmethod
    def backward(ctx, grad):
        """Each tensor's part."""
        parts = comm.scatter(grad, ctx.places, ctx.sizes, ctx.dim)
        return None, None, *(part[0] if ctx.numbers else part for part in parts)


class Broadcast(Function):
    """Copies of tensors: all for the first device, then all for the second; gradients of the copies are summed.

    >>> import flambeau
    >>> from flambeau.nn.parallel._functions import Broadcast
    >>> Broadcast.apply(["cpu", "cpu"], flambeau.ones(1), flambeau.zeros(1))
    (tensor([1.]), tensor([0.]), tensor([1.]), tensor([0.]))
    """

    @staticmethod
    def forward(ctx, target_gpus, *inputs):
        """The copies."""
        if not inputs:
            return ()
        ctx.count, ctx.place = len(inputs), inputs[0].device
        copies = [copy.clone() if copy is t else copy for own in comm.broadcast_coalesced(inputs, target_gpus)
                  for copy, t in zip(own, inputs, strict=True)]
        ctx.mark_non_differentiable(*(copy for k, copy in enumerate(copies)
                                      if not ctx.needs_input_grad[1 + k % len(inputs)]))
        return tuple(copies)

    @staticmethod
    def backward(ctx, *grads):
        """The sum of the gradients of each tensor's copies."""
        return None, *ReduceAddCoalesced.apply(ctx.place, ctx.count, *grads)


class ReduceAddCoalesced(Function):
    """Sums over devices: of the first of `num_inputs` tensors of each, of the second, and so on.

    >>> import flambeau
    >>> from flambeau.nn.parallel._functions import ReduceAddCoalesced
    >>> ReduceAddCoalesced.apply("cpu", 2, *map(flambeau.tensor, ([1.0], [2.0], [3.0], [4.0])))
    (tensor([4.]), tensor([6.]))
    """

    @staticmethod
    def forward(ctx, destination, num_inputs, *grads):
        """The sums."""
        ctx.places = [t.device for t in grads[::num_inputs]]
        rows = [grads[k:k + num_inputs] for k in range(0, len(grads), num_inputs)]
        return tuple(sums if len(rows) > 1 else sums.clone()
                     for sums in comm.reduce_add_coalesced(rows, destination))

    @staticmethod
    def backward(ctx, *grads):
        """The gradient of a sum for each that went into it."""
        return None, None, *Broadcast.apply(ctx.places, *grads)


def _get_stream(device):
    """The stream on which copies to a GPU can run beside other work; None for the CPU, whose copies wait.

    >>> import flambeau
    >>> from flambeau.nn.parallel._functions import _get_stream
    >>> _get_stream(flambeau.device("cpu"))
    """
    place = device_of(device)
    return None if place.type == "cpu" else _stream(place)


@cache
def _stream(place):
    return Stream(place)
