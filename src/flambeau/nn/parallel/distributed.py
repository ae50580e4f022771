"""DistributedDataParallel: every rank trains a copy of the module on its own batches, and gradients are averaged."""

import contextlib
from enum import Enum
from warnings import warn

import flambeau

from ..._shown import shown
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from ._delayed import Delayed
from ._precision import _MixedPrecision as _MixedPrecision
from ._precision import called, cast_buffers
from ._reducer import _MEGABYTE, Reducer

_FIRST, _CAP = 1, 25  # megabytes of the first bucket, which is there last, and of the others


def _group(process_group, device_mesh):
    """The group of the ranks that train together: that of a mesh of one dimension, or the one that is given."""
    if device_mesh is None:
        return flambeau.distributed._groups.member(process_group, "DistributedDataParallel")
    if process_group is not None or device_mesh.ndim != 1:
        raise RuntimeError("DistributedDataParallel: give a process_group or a device_mesh of one dimension, got "
                           f"{shown(process_group)} and {shown(device_mesh)}")
    return device_mesh.get_group(0)


class _BufferCommHookLocation(Enum):
    """When a hook for buffers is called."""

    PRE_FORWARD = 1
    POST_FORWARD = 2


class DistributedDataParallel(Module):
    """A module whose gradients are the mean over all ranks of a process group; batches differ from rank to rank.

    The ranks begin with rank 0's parameters and buffers. Gradients are exchanged in buckets of `bucket_cap_mb`, while
    backward goes on. forward_sync_buffers (broadcast_buffers): rank 0's buffers go to all before each forward.
    find_unused_parameters: some parameters may have no part in the outputs. static_graph: which these are, and in what
    order gradients come, never changes; skip_all_reduce_unused_params: they are the same on all ranks.
    gradient_as_bucket_view: `grad` is a part of the bucket, which saves a copy. mixed_precision: dtypes to compute and
    to exchange gradients in. delay_all_reduce_named_params: parameters whose gradients are exchanged together when
    backward has come to param_to_hook_all_reduce.

    >>> import flambeau.distributed as dist
    >>> from flambeau import nn, ones
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.bias.grad
    tensor([3.])
    >>> dist.destroy_process_group()
    """

    _active_ddp_module = None

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
                 skip_all_reduce_unused_params=False, bucket_cap_mb_list=None, batched_grad_copy=False,
                 forward_sync_buffers=None):
        super().__init__()
        if not isinstance(mixed_precision, _MixedPrecision | None):
            raise TypeError("DistributedDataParallel: mixed_precision must be a _MixedPrecision of this module, "
                            f"got {shown(mixed_precision)}")
        self.device = next((p.device for p in module.parameters()), flambeau.device("cpu"))
        self.device_type = self.device.type
        self.device_ids = self._own_device(device_ids, output_device, dim)
        self.process_group = _group(process_group, device_mesh)
        self.module, self.output_device, self.dim = module, None, dim
        self.broadcast_buffers = _synchronized(broadcast_buffers, forward_sync_buffers)
        self.find_unused_parameters, self.mixed_precision = find_unused_parameters, mixed_precision
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync, self._join = True, None
        self._buffer_hook, self._buffer_futures = None, []
        self._delayed = self._delay(delay_all_reduce_named_params, param_to_hook_all_reduce)
        named = [(name, p) for name, p in module.named_parameters()
                 if p.requires_grad and name not in self.parameters_to_ignore]
        if not named and self._delayed is None:
            raise RuntimeError("DistributedDataParallel: no parameter of the module requires a gradient, so there is "
                               "nothing to exchange; use the module itself")
        spread = next((name for name, p in named if hasattr(p, "_own_part")), None)
        if spread is not None:
            raise RuntimeError(f"DistributedDataParallel: the parameter {spread} is a DTensor; spread the module with "
                               "distributed.fsdp.fully_shard(module, mesh=mesh[\"dp\"]) instead")
        if init_sync:
            self._check_same(named)
            self._broadcast([*(p for name, p in module.named_parameters() if name not in self.parameters_to_ignore),
                             *self._buffers_to_send()])
        if mixed_precision is not None:
            cast_buffers(module, mixed_precision.buffer_dtype, self.parameters_to_ignore)
        cap = _CAP if bucket_cap_mb is None else bucket_cap_mb
        caps = bucket_cap_mb_list or ([_FIRST, cap] if bucket_cap_mb is None else [cap])
        self.__dict__["reducer"] = None if not named else Reducer(
            named, self.process_group, [x * _MEGABYTE for x in caps], static=static_graph,
            find_unused=find_unused_parameters, views=gradient_as_bucket_view, sparse=_sparse(module),
            dtype=None if mixed_precision is None else mixed_precision.exchanged,
            skip_unused=skip_all_reduce_unused_params)
        if named:
            self._call_after_exchange([p for _, p in named])

    def _call_after_exchange(self, parameters):
        """What waits until the gradients of a backward are exchanged, optimizers of single parameters among it."""
        self.reducer.after.append(self._finish_buffers)
        if self._delayed is not None:
            self._delayed.reducer = self.reducer
            self.reducer.after.append(self._delayed.exchange)
        for p in parameters:
            for handle in getattr(p, "_optimizer_hook_handles", ()):
                handle.remove()
            self.reducer.after += [each.step for each in getattr(p, "_in_backward_optimizers", ())]

    def _delay(self, named, trigger):
        """What exchanges the gradients of parameters that are left out of the buckets; None where there are none."""
        if (named is None) != (trigger is None):
            raise ValueError("DistributedDataParallel: delay_all_reduce_named_params and param_to_hook_all_reduce are "
                             "given together, or not at all")
        if named is None:
            return None
        delayed = [p for _, p in named]
        self.parameters_to_ignore |= {name for name, p in self.module.named_parameters()
                                      if any(p is each for each in delayed)}
        return Delayed(delayed, trigger, self.process_group, lambda: self.require_backward_grad_sync)

    def _own_device(self, device_ids, output_device, dim):
        """The list that was given: it may only repeat where the module is."""
        if not device_ids and output_device is None and dim == 0:
            return None
        named = [*(device_ids or []), *([] if output_device is None else [output_device])]
        places = [flambeau.device(self.device_type, x) if isinstance(x, int) else flambeau.device(x) for x in named]
        if self.device_type == "cpu" or dim != 0 or any(place != self.device for place in places):
            raise ValueError(f"DistributedDataParallel: the module is on {self.device}, and device_ids, output_device "
                             f"and dim ask for {shown(device_ids)}, {shown(output_device)} and {shown(dim)}; leave "
                             "device_ids, output_device and dim out, or name the device of the module's parameters")
        return device_ids

    # --- beginning ----------------------------------------------------------------------------------------------------

    def _check_same(self, named):
        """All ranks have the same parameters."""
        mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in named]
        every = [None] * self.process_group.size()
        flambeau.distributed.all_gather_object(every, mine, self.process_group)
        for rank, theirs in enumerate(every):
            if theirs == mine:
                continue
            here, there = next(((a, b) for a, b in zip(mine, theirs) if a != b), (len(mine), len(theirs)))
            raise RuntimeError(f"DistributedDataParallel: rank {rank} has other parameters than this one: "
                               f"{shown(there)} in place of {shown(here)}; build the same module on all ranks")

    def _buffers_to_send(self):
        return [b for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _broadcast(self, tensors, root=0):
        """The root's values go to all, those of one dtype together."""
        kinds, buckets = {}, flambeau.distributed._buckets
        for x in tensors:
            kinds.setdefault(x.dtype, []).append(x.detach())
        with flambeau.no_grad():
            for parts in kinds.values():
                flat = buckets.joined(parts)
                flambeau.distributed.broadcast(flat, group=self.process_group, group_src=root)
                if self.process_group.rank() != root:
                    for x, part in zip(parts, buckets.cut(flat, parts)):
                        x.copy_(part)

    # --- steps --------------------------------------------------------------------------------------------------------

    def forward(self, *inputs, **kwargs):
        """The module's outputs."""
        root = self._begin_joined_step() if self._join is not None else 0
        sends, hook = self.will_sync_module_buffers(), self._buffer_hook
        if sends and hook is None:
            self._broadcast(self._buffers_to_send(), root)
        self._call_buffer_hook(sends, _BufferCommHookLocation.PRE_FORWARD)
        outputs = self._outputs(inputs, kwargs)
        self._call_buffer_hook(sends, _BufferCommHookLocation.POST_FORWARD)
        if self.reducer is None:
            return outputs
        if flambeau.is_grad_enabled() and self.require_backward_grad_sync:
            self.reducer.prepare(outputs)
        else:
            self.reducer._active = False
        return outputs

    def _outputs(self, inputs, kwargs):
        dtype = None if self.mixed_precision is None else self.mixed_precision.param_dtype
        if dtype is None:
            return self.module(*inputs, **kwargs)
        return called(self.module, dtype, self.parameters_to_ignore, inputs, kwargs)

    @property
    def forward_sync_buffers(self):
        """Whether rank 0's buffers go to all before each forward: the newer name of `broadcast_buffers`."""
        return self.broadcast_buffers

    @forward_sync_buffers.setter
    def forward_sync_buffers(self, value):
        self.broadcast_buffers = value

    def _call_buffer_hook(self, sends, place):
        self._finish_buffers()
        if sends and self._buffer_hook is not None and self._buffer_hook[2] is place:
            state, hook, _ = self._buffer_hook
            named = {name: b for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore}
            self._buffer_futures = list(hook(state, named) or ())

    def _finish_buffers(self):
        """Waits for what a hook for buffers has begun."""
        futures, self._buffer_futures = self._buffer_futures, []
        for each in futures:
            each.wait()

    def will_sync_module_buffers(self):
        """Whether the next forward begins with rank 0's buffers."""
        return self.broadcast_buffers and self.require_backward_grad_sync and bool(self._buffers_to_send())

    @contextlib.contextmanager
    def no_sync(self):
        """Within it, forward and backward add to this rank's own gradients, which the next step outside averages."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state, hook):
        """`hook(state, bucket)` exchanges gradients from now on: it returns a Future of the averaged buffer."""
        if not callable(hook):
            raise TypeError(f"register_comm_hook: hook must be a function, got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already; a model has one for good")
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _register_builtin_comm_hook(self, comm_hook_type):
        """The hook of that name: ALLREDUCE or FP16_COMPRESS."""
        hooks = flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks
        found = {"ALLREDUCE": hooks.allreduce_hook, "FP16_COMPRESS": hooks.fp16_compress_hook}
        self.register_comm_hook(self.process_group, found[comm_hook_type.name])

    def _register_buffer_comm_hook(self, state, hook, comm_hook_location=_BufferCommHookLocation.POST_FORWARD):
        """`hook(state, {name: buffer})` takes the place of rank 0's broadcast; Futures that it returns are waited for
        when the gradients are there."""
        if not callable(hook):
            raise TypeError(f"_register_buffer_comm_hook: hook must be a function, got {type(hook).__name__}")
        self._buffer_hook = state, hook, comm_hook_location

    def _register_fused_optim(self, optim, *args, optim_params=None, **kwargs):
        """An optimizer, made of the class and these arguments, steps as soon as the gradients of a backward are there.
        """
        parameters = self.reducer.parameters if optim_params is None else list(optim_params)
        self.__dict__["_fused_optimizer"] = optim(parameters, *args, **kwargs)
        self.reducer.after.append(self._fused_optimizer.step)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        """Names of what DistributedDataParallel leaves alone in a module that it is given later."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def _get_ddp_logging_data(self):
        """What it was made with, as packages that log trainings ask for: text and numbers. Nothing is timed."""
        parameters = [p for name, p in self.module.named_parameters()
                      if p.requires_grad and name not in self.parameters_to_ignore]
        sizes = [p.numel() * p.element_size() for p in parameters]
        dist, buckets = flambeau.distributed, self.reducer.buckets if self.reducer is not None else ()
        return {
            "module_name": type(self.module).__name__, "backend_name": dist.get_backend(self.process_group),
            "world_size": dist.get_world_size(self.process_group), "rank": dist.get_rank(self.process_group),
            "device_ids": "" if self.device_ids is None else ", ".join(map(str, self.device_ids)), "output_device": -1,
            "dtypes": ", ".join(sorted({str(p.dtype).partition(".")[2] for p in parameters})),
            "num_parameter_tensors": len(parameters), "total_parameter_size_bytes": sum(sizes),
            "bucket_sizes": ", ".join(str(sum(p.numel() * p.element_size() for p in b.parameters())) for b in buckets),
            "broadcast_buffers": int(self.broadcast_buffers), "is_multi_device_module": 0,
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view), "static_graph": int(self.static_graph),
            "has_sync_bn": int(any(isinstance(m, flambeau.nn.SyncBatchNorm) for m in self.module.modules())),
        }

    def _set_static_graph(self):
        self.static_graph = self.reducer.static = True

    # --- ranks with unequal numbers of batches ------------------------------------------------------------------------

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Context in which each rank may have its own number of batches: `distributed.algorithms.join.Join`.

        The gradients' sum is divided by the number of all ranks, or of those that have batches left.
        """
        return flambeau.distributed.algorithms.join.Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs):
        """What a rank without batches does."""
        self._divide_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _JoinHook(self)

    @property
    def join_device(self):
        """Where its collectives are made."""
        return self.device

    @property
    def join_process_group(self):
        """The group of its collectives."""
        return self.process_group

    def _begin_joined_step(self):
        """Tells ranks without batches what comes; the rank whose buffers count."""
        active = flambeau.distributed.algorithms.join.Join.notify_join_context(self)
        self.reducer.divisor = None if self._divide_by_all else active
        return self._tell_of_step()[2]

    def _tell_of_step(self, goes_on=True):
        """(whether ranks with batches exchange gradients in this step, whether they send buffers, one of these ranks).
        """
        sync = self.require_backward_grad_sync and flambeau.is_grad_enabled()
        said = [sync, self.will_sync_module_buffers(), self.process_group.rank()] if goes_on else [0, 0, -1]
        told = flambeau.tensor([int(x) for x in said], device=self.device)
        flambeau.distributed.all_reduce(told, flambeau.distributed.ReduceOp.MAX, self.process_group)
        return told.tolist()


class _JoinHook:
    def __init__(self, model):
        self.model = model

    def main_hook(self):
        """The collectives of one step."""
        model = self.model
        exchange, buffers, root = model._tell_of_step(goes_on=False)
        if buffers and model._buffer_hook is None:
            model._broadcast(model._buffers_to_send(), root)
        if exchange:
            model.reducer.divisor = None if model._divide_by_all else 1
            model.reducer.mimic()

    def post_hook(self, is_last_joiner):
        """All ranks get the parameters of one that was among the last."""
        model = self.model
        last = flambeau.tensor([model.process_group.rank() if is_last_joiner else -1], device=model.device)
        flambeau.distributed.all_reduce(last, flambeau.distributed.ReduceOp.MAX, model.process_group)
        model._broadcast([*model.module.parameters(), *model._buffers_to_send()], int(last.item()))
        model.reducer.divisor = None


def _synchronized(broadcast, synchronized):
    """Whether buffers are sent before forward, by the older and the newer argument."""
    if broadcast is not None and synchronized is not None:
        warn("DistributedDataParallel: forward_sync_buffers is the newer name of broadcast_buffers, which is ignored",
             stacklevel=4)
    chosen = broadcast if synchronized is None else synchronized
    return True if chosen is None else chosen


def _sparse(module):
    """ids of the weights whose gradients are sparse tensors."""
    return {id(m.weight) for m in module.modules() if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse}
