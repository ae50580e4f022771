"""One stage: a part of the model, where it stands in the pipeline, and what it computes for one microbatch."""

import contextlib

import flambeau

from ..._shown import shown
from ...nn.parallel import DistributedDataParallel
from .. import _groups as groups
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
            raise NotImplementedError("PipelineStage: dw_builder and get_mesh are for schedules and tensors that are "
                                      "not available; leave them out")
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
        args, results = self._kept.pop(k)
        if loss is not None:
            results, grads = [loss], [flambeau.full_like(loss, scale)]
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


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """The PipelineStage of a module that `pipeline` has made; `pipe_info` is `pipe.info()`."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
