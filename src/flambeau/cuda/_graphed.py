"""Functions and modules whose work on the device is recorded, forward and backward, and replayed at each call."""

from .. import _C
from ..autograd import Function, grad
from ..ops.kinds import OPS
from ._devices import need
from ._graphs import CUDAGraph, graph, graph_pool_handle
from .streams import Stream, current_stream, stream


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Functions that replay the recorded work of `callables` for inputs like `sample_args`, and its derivatives.

    callables: a function or module of tensors that returns a tensor or a tuple of them; or a tuple of these, with a
    tuple of sample_args each. A module is returned itself; its `forward` replays while it is in the mode (`training`)
    it was recorded in. sample_args: tensors that require gradients where calls will. allow_unused_input: inputs and
    parameters that the results do not depend on have no gradient instead of raising an error. All share one `pool` of
    memory, so replay them in the order they were given in.
    """
    need("make_graphed_callables")
    pool = graph_pool_handle() if pool is None else pool
    if not isinstance(callables, tuple):
        return _graphed(callables, tuple(sample_args), num_warmup_iters, allow_unused_input, pool)
    if len(callables) != len(sample_args):
        raise ValueError(f"make_graphed_callables: expected sample_args for each of {len(callables)} callables, got "
                         f"{len(sample_args)}")
    return tuple(_graphed(f, tuple(args), num_warmup_iters, allow_unused_input, pool)
                 for f, args in zip(callables, sample_args, strict=True))


def _graphed(function, args, times, allow_unused, pool):
    if not all(isinstance(a, _C.Tensor) and a.is_cuda for a in args):
        raise TypeError("make_graphed_callables: sample_args must be CUDA tensors; bind other arguments with a "
                        "function of your own")
    module = hasattr(function, "forward") and hasattr(function, "parameters")
    if module and any(b.requires_grad for b in function.buffers()):
        raise RuntimeError("make_graphed_callables: buffers that require gradients cannot be recorded; make them "
                           "parameters")
    recorded = _Recorded(function, args, tuple(function.parameters()) if module else (), times, allow_unused, pool)
    if not module:
        return recorded
    eager, training = function.forward, function.training

    def forward(*given):
        return recorded(*given) if function.training == training else eager(*given)
    function.forward = forward
    return function


class _Recorded:
    """What was recorded of one function: places that inputs are copied to, results, gradients."""

    def __init__(self, function, args, parameters, times, allow_unused, pool):
        self.args = tuple(a.detach().clone().requires_grad_(a.requires_grad) for a in args)
        self.parameters = parameters
        self.wanted = [t for t in (*self.args, *parameters) if t.requires_grad]
        self.allow_unused = allow_unused
        self._warm_up(function, times)
        self.forward, self.backward = CUDAGraph(), None
        with graph(self.forward, pool):
            results = function(*self.args)
        self.single = not isinstance(results, tuple)
        self.results = (results,) if self.single else results
        self._record_backward(pool)

    def _gradients(self, results, upstream):
        return grad(results, self.wanted, upstream, allow_unused=self.allow_unused)

    def _warm_up(self, function, times):
        """Kernels are made, and memory is found, before anything is recorded."""
        side = Stream()
        side.wait_stream(current_stream())
        with stream(side):
            for _ in range(max(times, 1)):
                results = function(*self.args)
                results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
                if results and self.wanted:
                    self._gradients(results, [OPS["ones_like"](r) for r in results])
        current_stream().wait_stream(side)

    def _record_backward(self, pool):
        self.rooted = [r for r in self.results if r.requires_grad]
        self.upstream = [OPS["zeros_like"](r) for r in self.rooted]
        self.gradients = {}
        if not self.rooted or not self.wanted:
            return
        self.backward = CUDAGraph()
        with graph(self.backward, pool):
            found = self._gradients(self.rooted, self.upstream)
        self.gradients = {id(t): g for t, g in zip(self.wanted, found, strict=True)}

    def __call__(self, *args):
        if len(args) != len(self.args):
            raise TypeError(f"a recorded function takes as many tensors as it was recorded with, {len(self.args)}, got "
                            f"{len(args)}")
        results = _Replay.apply(self, *args, *self.parameters)
        return results[0] if self.single else results

    def copy_inputs(self, args):
        for own, given in zip(self.args, args, strict=False):
            if tuple(own.shape) != tuple(given.shape):
                raise RuntimeError(f"a recorded function was recorded with an input of shape {list(own.shape)}, got "
                                   f"{list(given.shape)}")
            if own.data_ptr() != given.data_ptr():
                own.detach().copy_(given.detach())


class _Replay(Function):
    """Forward and backward as replays; what is handed out are copies, since the next replay writes over the results."""

    @staticmethod
    def forward(ctx, recorded, *tensors):
        recorded.copy_inputs(tensors)
        recorded.forward.replay()
        ctx.recorded = recorded
        results = tuple(r.detach().clone() for r in recorded.results)
        ctx.mark_non_differentiable(*(own for own, r in zip(results, recorded.results, strict=True)
                                      if not r.requires_grad))
        return results

    @staticmethod
    def backward(ctx, *grads):
        recorded = ctx.recorded
        if recorded.backward is None:
            return (None,) * (1 + len(recorded.args) + len(recorded.parameters))
        given = [g for g, r in zip(grads, recorded.results, strict=True) if r.requires_grad]
        for own, g in zip(recorded.upstream, given, strict=True):
            if g is None:
                own.zero_()
            else:
                own.copy_(g)
        recorded.backward.replay()
        found = (recorded.gradients.get(id(t)) for t in (*recorded.args, *recorded.parameters))
        return (None, *(None if g is None else g.detach().clone() for g in found))
