"""Parameters whose gradients are exchanged once backward has come to another parameter, and not in buckets."""

import flambeau

from ... import _C


class Delayed:
    """The mean of these parameters' gradients over all ranks, after each backward that reaches `trigger`."""

    def __init__(self, parameters, trigger, group, wanted):
        self.parameters, self.group, self.wanted = parameters, group, wanted
        self.due, self.reducer = False, None  # the reducer that calls `exchange` in the end; None: nothing else does
        self._handle = trigger.register_post_accumulate_grad_hook(self._reached)

    def _reached(self, _):
        if not self.wanted() or self.due:
            return
        self.due = True
        if self.reducer is None:
            _C.queue_callback(self.exchange)

    def exchange(self):
        """At the end of backward, when all gradients are there."""
        if not self.due:
            return
        self.due, dist = False, flambeau.distributed
        with flambeau.no_grad():
            for p in self.parameters:
                p.grad = flambeau.zeros_like(p) if p.grad is None else p.grad
            for dtype in dict.fromkeys(p.grad.dtype for p in self.parameters):
                grads = [p.grad for p in self.parameters if p.grad.dtype is dtype]
                flat = dist._buckets.joined(grads)
                dist.all_reduce(flat, dist.ReduceOp.AVG, self.group)
                flambeau._foreach_copy_(grads, dist._buckets.cut(flat, grads))
