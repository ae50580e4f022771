"""ZeroRedundancyOptimizer: each rank keeps the optimizer's state for its own share of the parameters only."""

import flambeau

from .._absent import refusals
from ..optim.optimizer import Optimizer
from . import _collectives as collectives
from . import _groups, _objects
from ._buckets import cut, joined
from .algorithms.join import Join, JoinHook

_REASON = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed.optim", _REASON, """
    DistributedOptimizer(optimizer_class, params_rref, *args, **kwargs)
"""))


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook=True):
    """Each parameter gets an optimizer of its own, which steps as soon as backward has its gradient and then drops it.

    DistributedDataParallel lets them step when the gradients are exchanged. register_hook=False: somebody else does.
    """
    for p in params:
        if not hasattr(p, "_in_backward_optimizers"):
            p._in_backward_optimizers, p._optimizer_hook_handles = [], []
        p._in_backward_optimizers.append(optimizer_class([p], **optimizer_kwargs))
        if register_hook and not p._optimizer_hook_handles:
            p._optimizer_hook_handles.append(p.register_post_accumulate_grad_hook(_step_of_its_own))


def _step_of_its_own(p):
    for optimizer in p._in_backward_optimizers:
        optimizer.step()
    p.grad = None


def _get_in_backward_optimizers(module):
    """The optimizers that the module's parameters have of their own."""
    return [each for p in module.parameters() for each in getattr(p, "_in_backward_optimizers", ())]


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer whose steps an averager of `algorithms.model_averaging` follows; its step is saved, too."""

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups, self.state = optim.param_groups, optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The optimizer's, with the averager's "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Takes it; without "step", the averager begins anew."""
        self.averager.step = state_dict.get("step", 0)
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        self.param_groups, self.state = self.optim.param_groups, self.optim.state

    def step(self, closure=None):
        """The optimizer's, then the averager's."""
        result = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return result

    def zero_grad(self, set_to_none=True):
        """The optimizer's."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group):
        """The optimizer's."""
        self.optim.add_param_group(param_group)


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is shared out: every rank updates its parameters and sends them to the others.

    All ranks have all parameters and, from DistributedDataParallel, the same gradients. parameters_as_bucket_view: the
    parameters of a rank lie in one piece of memory, which saves copies   (Rajbhandari et al. 2020, stage 1).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> w = flambeau.nn.Parameter(flambeau.ones(2))
    >>> optimizer = ZeroRedundancyOptimizer([w], flambeau.optim.SGD, lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    >>> dist.destroy_process_group()
    """

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
                 overlap_with_ddp=False, **defaults):
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not available; call step() after "
                                      "backward()")
        self.process_group = _groups.member(process_group, "ZeroRedundancyOptimizer")
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.parameters_as_bucket_view, self._join = parameters_as_bucket_view, None
        self._optimizer_class, self._settings, self.optim = optimizer_class, defaults, None
        self._owner, self._load, self._shards, self._consolidated = {}, [0] * self.world_size, [], None
        super().__init__(params, defaults)
        local = [self._local_group(group) for group in self.param_groups]
        self.optim = optimizer_class(local, **defaults)
        self._complete_groups()

    # --- who has what -------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group):
        """Another group of parameters, which are shared out, too."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: -p.numel()):  # the largest first, to who has least
            rank = self._load.index(min(self._load))
            self._owner[p], self._load[rank] = rank, self._load[rank] + p.numel()
        self._shards.extend(self._shard(rank, dtype, group) for rank in range(self.world_size)
                            for dtype in dict.fromkeys(p.dtype for p in group["params"] if self._owner[p] == rank))
        if self.optim is not None:
            self.optim.add_param_group(self._local_group(group))
            self._complete_groups()

    def _shard(self, rank, dtype, group):
        """(rank, its parameters of a dtype, the memory they lie in or None)."""
        parts = [p for p in group["params"] if self._owner[p] == rank and p.dtype is dtype]
        if not self.parameters_as_bucket_view:
            return rank, parts, None
        with flambeau.no_grad():
            flat = joined(parts)
            for p, part in zip(parts, cut(flat, parts)):
                p.data = part
        return rank, parts, flat

    def _local_group(self, group):
        mine = [p for p in group["params"] if self._owner[p] == self.rank]
        return {**{key: value for key, value in group.items() if key != "params"}, "params": mine}

    def _complete_groups(self):
        """What the class sets where nothing is said is visible in the groups of all parameters, too."""
        for group, local in zip(self.param_groups, self.optim.param_groups):
            for key, value in local.items():
                group.setdefault(key, value)

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(self, closure=None):
        """Updates this rank's parameters, and gets those of the others; returns the closure's loss."""
        Join.notify_join_context(self)
        self._consolidated = None
        for group, local in zip(self.param_groups, self.optim.param_groups):  # a scheduler changes the first
            local.update((key, value) for key, value in group.items() if key != "params")
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self._exchange()
        return loss

    def _exchange(self):
        with flambeau.no_grad():
            for rank, parts, flat in self._shards:
                whole = joined(parts) if flat is None else flat
                collectives.broadcast(whole, group=self.process_group, group_src=rank)
                if flat is None and rank != self.rank:
                    for p, part in zip(parts, cut(whole, parts)):
                        p.copy_(part)

    # --- states -------------------------------------------------------------------------------------------------------

    def _numbers(self):
        """{parameter: its number in a state dict}."""
        return {p: k for k, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def consolidate_state_dict(self, to=0):
        """Rank `to` gets the state of all parameters, for `state_dict()`; all ranks call this."""
        numbers = self._numbers()
        mine = {numbers[p]: value for p, value in self.optim.state.items()}
        every = [None] * self.world_size if self.rank == to else None
        _objects.gather_object(mine, every, group=self.process_group, group_dst=to)
        self._consolidated = {} if every is None else {key: value for part in every for key, value in part.items()}
        self._holder = to

    def state_dict(self):
        """The state of all parameters, as an optimizer in one process has it; after `consolidate_state_dict`."""
        if self._consolidated is None:
            raise RuntimeError("ZeroRedundancyOptimizer.state_dict: each rank has a part of the state; call "
                               "consolidate_state_dict(to=rank) on all ranks first, after the last step()")
        if self._holder != self.rank:
            raise RuntimeError(f"ZeroRedundancyOptimizer.state_dict: rank {self._holder} has the whole state, this is "
                               f"rank {self.rank}")
        numbers = self._numbers()
        groups = [{**{key: value for key, value in group.items() if key != "params"},
                   "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        return {"state": {key: self._consolidated[key] for key in sorted(self._consolidated)}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes the state of all parameters, of which this rank keeps its share."""
        numbers = self._numbers()
        groups, local = [], []
        for group, given in zip(self.param_groups, state_dict["param_groups"], strict=True):
            if len(given["params"]) != len(group["params"]):
                raise ValueError(f"ZeroRedundancyOptimizer.load_state_dict: a group has {len(given['params'])} "
                                 f"parameters, expected {len(group['params'])}")
            groups.append({**given, "params": group["params"]})
            mine = [numbers[p] for p in group["params"] if self._owner[p] == self.rank]
            local.append({**given, "params": mine})
        order = [number for group in local for number in group["params"]]
        place = {number: k for k, number in enumerate(order)}
        self.optim.load_state_dict({
            "state": {place[k]: value for k, value in state_dict["state"].items() if k in place},
            "param_groups": [{**group, "params": [place[k] for k in group["params"]]} for group in local]})
        self.param_groups[:] = groups
        self._consolidated = None

    # --- ranks with unequal numbers of batches ------------------------------------------------------------------------

    def join_hook(self, **kwargs):
        """What a rank without batches does: its share of each step."""
        if kwargs.get("optimizer_only"):
            raise NotImplementedError("ZeroRedundancyOptimizer.join_hook: optimizer_only is not available")
        return _JoinHook(self)

    @property
    def join_device(self):
        """Where its collectives are made."""
        return flambeau.device("cpu")

    @property
    def join_process_group(self):
        """The group of its collectives."""
        return self.process_group


class _JoinHook(JoinHook):
    def __init__(self, optimizer):
        self._optimizer = optimizer

    def main_hook(self):
        """A step on this rank's share."""
        self._optimizer.step()
