"""One stage: a part of the model, where it stands in the pipeline, and what it computes for one microbatch."""

import contextlib

import flambeau

from ..._shown import shown
from ...nn.parallel import DistributedDataParallel
from .. import _groups as groups
from ._split_backward import SplitBackward
from ._transfer import as_tuple


class PipelineStage:
    """The part `submodule` of a model, as stage `stage_index` of `num_stages`; stage k is on rank k, or k modulo the
    number of ranks where a rank has several.

    The first stage is given the arguments of the schedule's step, each other one what the stage before it returns: a
    tensor, or a tuple of tensors, whose sizes may differ from one microbatch to the next. Examples of them
    (`input_args`, `output_args`) are not needed.

    >>> import flambeau
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> stage = PipelineStage(flambeau.nn.Linear(2, 1), 0, 1, "cpu")
    >>> ScheduleGPipe(stage, n_microbatches=2).step(flambeau.ones(4, 2)).shape
    torch.Size([4, 1])
    """

    def __init__(self, submodule, stage_index, num_stages, device, input_args=None, output_args=None, output_grads=None,
                 input_grads=None, group=None, dw_builder=None, get_mesh=None):
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"PipelineStage: stage_index must be from 0 to {num_stages - 1}, got {shown(stage_index)}")
        if flambeau.device(device).type != "cpu":
            raise RuntimeError(f"PipelineStage: device {shown(str(device))} is not here; stages are on the CPU")
        if dw_builder is not None or get_mesh is not None:
            raise NotImplementedError("PipelineStage: dw_builder (schedules split backward by themselves) and get_mesh "
                                      "(stages pass plain tensors on) are not available; leave them out")
        self.submod, self.stage_index, self.num_stages, self.device = submodule, stage_index, num_stages, device
        self.group = group
        alone = group is None and not groups.is_initialized()
        self.group_size = 1 if alone else groups.get_world_size(group)
        self.group_rank = 0 if alone else groups.get_rank(group)
        if self.group_size > num_stages:
            raise ValueError(f"PipelineStage: {num_stages} stages are too few for the {self.group_size} ranks of the "
                             "group; give a smaller group")
        self.stage_index_to_group_rank = {k: k % self.group_size for k in range(num_stages)}
        self.has_backward = False
        self._kept = {}  # microbatch -> (inputs, what forward has returned)
        self._halves = {}  # microbatch -> its backward, of which the half for the parameters is left

    @property
    def is_first(self):
        """Whether it is the first stage."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether it is the last stage."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self):
        """Forgets the microbatches that were not finished."""
        self._kept.clear()
        self._halves.clear()

    def _copies(self):
        """The stage's copies on other ranks, where it is data parallel: they exchange gradients in the last backward
        of a step alone.
        """
        return self.submod if isinstance(self.submod, DistributedDataParallel) else None

    def forward_one_chunk(self, k, args, kwargs):
        """What the stage returns for microbatch k."""
        copies = self._copies()
        with contextlib.nullcontext() if copies is None else copies.no_sync():
            result = self.submod(*args, **kwargs)
        if self.has_backward:
            self._kept[k] = args, as_tuple(result)
        return result

    def backward_one_chunk(self, k, loss=None, grads=(), scale=1.0, last=True):
        """The gradients of the inputs of microbatch k, None for those that have none. `grads` are those of its results,
        or `loss` is what they have become, whose gradient is `scale`.
        """
        args, results, grads = self._taken(k, loss, grads, scale)
        pairs = [(result, grad) for result, grad in zip(results, grads, strict=True)
                 if grad is not None and result.requires_grad]
        copies = self._copies()
        if last and copies is not None and copies.require_backward_grad_sync:
            copies.reducer.prepare(results)
        if pairs:
            flambeau.autograd.backward([result for result, _ in pairs], [grad for _, grad in pairs])
        found = []
        for value in args if not self.is_first else ():
            is_tensor = isinstance(value, flambeau.Tensor)
            found.append(value.grad if is_tensor else None)
            if is_tensor:
                value.grad = None
        return tuple(found)

    def backward_input(self, k, loss=None, grads=(), scale=1.0, last=True):
        """`backward_one_chunk` as far as the inputs need it; `backward_weight` does the rest. A stage with copies on
        other ranks, whose gradients are exchanged in one pass, does all at once.
        """
        if self._copies() is not None:
            return self.backward_one_chunk(k, loss, grads, scale, last)
        args, results, grads = self._taken(k, loss, grads, scale)
        self._halves[k] = SplitBackward(results, grads, () if self.is_first else args)
        return tuple(self._halves[k].inputs())

    def backward_weight(self, k):
        """Adds microbatch k to the gradients of the parameters."""
        half = self._halves.pop(k, None)
        if half is not None:
            half.weights()

    def _taken(self, k, loss, grads, scale):
        """(the arguments of microbatch k, what was computed of them, the gradients of that)"""
        args, results = self._kept.pop(k)
        return (args, results, grads) if loss is None else (args, [loss], [flambeau.full_like(loss, scale)])


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """The PipelineStage of a module that `pipeline` has made; `pipe_info` is `pipe.info()`."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
