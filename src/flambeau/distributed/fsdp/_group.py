"""The parameters of one fully_shard call: gathered together before they are used, reduced together afterwards."""

import flambeau

from ...autograd import Function
from .. import _collectives as collectives
from .._values import ReduceOp

#: what makes gathered tensors a part of the graph
_anchor = flambeau.zeros((), requires_grad=True)


class _Gathered(Function):
    """Gathered parameters as tensors with history: its backward comes when all gradients by them are there."""

    @staticmethod
    def forward(ctx, owner, params, *tensors):
        """tensors: the anchor, which wants a gradient and gets none, and the gathered parameters."""
        ctx.owner, ctx.params = owner, params
        ctx.set_materialize_grads(False)
        return tuple(full.detach() for full in tensors[1:])

    @staticmethod
    def backward(ctx, *grads):
        ctx.owner.gradients([(p, g) for p, g in zip(ctx.params, grads) if g is not None])
        return None, None, None, *[None] * len(grads)


class ParameterGroup:
    """Gathers (`unshard`), forgets (`reshard`) and reduces (`reduce`, `finish`) its parameters.

    Exchanges run in the thread of the process group, in the order of the calls; `wait` waits for a gather.
    """

    def __init__(self, params, mesh, policy):
        self.params, self.mesh, self.policy = params, mesh, policy
        self.shard_group = mesh.get_group(mesh.ndim - 1)
        self.replicate_group = mesh.get_group(0) if mesh.ndim > 1 else None
        self.whole = False
        self.sync = self.all_reduce = True
        self.divisor, self.sum_only, self.reduced_hook, self.comm_hook = None, False, None, None
        self._gathering, self._reducing, self._partial = None, [], {}
        self.few, self._kept = None, None  # the group that keeps whole parameters after forward, and this rank's part

    # --- parameters ---------------------------------------------------------------------------------------------------

    @property
    def gathering(self):
        """Whether a gather is under way."""
        return self._gathering is not None

    def unshard(self, anew=True):
        """Starts to gather the parameters, unless they are whole or on their way; with anew=False, from the few ranks
        that have kept them since forward, if they have.
        """
        if self.whole or self._gathering is not None or not self.params:
            return
        for p in self.params:
            p.refresh()
        kept, self._kept = None if anew else self._kept, None
        group = self.shard_group if kept is None else self.few
        with flambeau.no_grad():
            sent = flambeau.cat([p.sent(self.policy.param_dtype) for p in self.params]) if kept is None else kept
            rows = flambeau.empty(group.size(), sent.numel(), dtype=flambeau.uint8)
            work = collectives.all_gather_into_tensor(rows, sent, group, async_op=True)
        self._gathering = work, rows

    def wait(self):
        """The parameters are whole when it returns."""
        if self._gathering is None:
            return
        work, rows = self._gathering
        self._gathering = None
        work.wait()
        at = 0
        with flambeau.no_grad():
            for p in self.params:
                count = p.sent_bytes(self.policy.param_dtype, len(rows))
                p.received(rows[:, at:at + count], self.policy.param_dtype)
                at += count
        self.whole = True

    def give(self, owner):
        """The modules compute with the whole parameters; owner.gradients(list) is called with gradients by them."""
        wanted = [p for p in self.params if p.sharded.requires_grad and flambeau.is_grad_enabled()]
        made = dict(zip(map(id, wanted), _Gathered.apply(owner, wanted, _anchor, *(p.full for p in wanted)))) \
            if wanted else {}
        for p in self.params:
            p.give(made[id(p)] if id(p) in made else p.full.detach())

    def reshard_to_few(self):
        """Forgets the whole parameters but for a part: those of the ranks of `few` together are all of them."""
        self.wait()
        if not self.whole or self.few is None:
            return self.reshard()
        with flambeau.no_grad():
            kept = flambeau.cat([p.kept(self.few.rank(), self.few.size()) for p in self.params])
        self.reshard()
        self._kept = kept

    def reshard(self):
        """Forgets the whole parameters."""
        self._kept = None
        if self._gathering is not None:
            self._gathering[0].wait()
            self._gathering = None
        for p in self.params:
            p.release()
        self.whole = False

    # --- gradients ----------------------------------------------------------------------------------------------------

    def keep(self, grads):
        """Adds up gradients of whole parameters, [(parameter, gradient)], until they are reduced."""
        for p, grad in grads:
            p.keep_gradient(grad, self.policy.reduce_dtype)

    def reduce(self):
        """Starts to reduce the gradients that were kept."""
        there = [p for p in self.params if p.accumulated is not None]
        by_dtype = {}
        for p in there:
            by_dtype.setdefault(p.accumulated.dtype, []).append(p)
        for dtype, params in by_dtype.items():
            rows = flambeau.cat([p.split(p.accumulated) for p in params], 1)
            for p in params:
                p.accumulated = None
            result = flambeau.empty(rows.shape[1], dtype=dtype)
            if self.comm_hook is not None:
                result, work = self._hooked(rows, result), None
            else:
                work = collectives.reduce_scatter_tensor(result, rows, self._op(), self.shard_group, async_op=True)
            self._reducing.append((work, result, params))

    def _hooked(self, rows, result):
        """A program's own reduction."""
        hook, state = self.comm_hook
        if self.shard_group.size() == 1 and self.replicate_group is not None:
            hook(state, rows.view(-1))
            return rows.view(-1)
        hook(state, rows.view(-1), result)
        return result

    def _op(self):
        return ReduceOp.SUM if self.divisor is not None or self.sum_only else ReduceOp.AVG

    def abandon(self):
        """Forgets gradients that are under way, and the whole parameters."""
        for work, _, _ in self._reducing:
            if work is not None:
                work.wait()
        self._reducing = []
        for p in self.params:
            p.accumulated = None
        self.reshard()

    def finish(self):
        """Waits for the reductions, and gives the sharded parameters their gradients."""
        for work, result, params in self._reducing:
            if work is not None:
                work.wait()
            self._finish(result, params)
        self._reducing = []

    def _finish(self, result, params):
        key = tuple(id(p) for p in params)
        if self.replicate_group is not None and (self.comm_hook is None or self.shard_group.size() > 1):
            if key in self._partial:
                result += self._partial.pop(key)
            if not self.all_reduce:
                self._partial[key] = result
                return
            collectives.all_reduce(result, self._op(), self.replicate_group)
        if self.divisor is not None:
            result /= self.divisor
        elif self.sum_only:
            result /= self.mesh.size()
        if self.reduced_hook is not None:
            self.reduced_hook(result)
        at = 0
        for p in params:
            count = p.chunk_numel
            p.add_gradient(result[at:at + count])
            at += count
