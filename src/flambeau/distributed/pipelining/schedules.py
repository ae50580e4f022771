"""Schedules: they run the passes of a rank's stages in their order, and pass on what comes of them."""

from collections import Counter

import flambeau

from ..._shown import shown
from . import _transfer
from ._orders import _Action as _Action
from ._orders import _ComputationType as _ComputationType
from ._orders import dual_v, zero_bubble
from ._orders import gpipe as gpipe
from ._orders import interleaved as interleaved
from ._orders import looped_bfs as looped_bfs
from ._orders import one_forward_one_backward as one_forward_one_backward
from .microbatch import merge_chunks, split_args_kwargs_into_chunks

# --- running ----------------------------------------------------------------------------------------------------------

class _PipelineSchedule:
    """Runs the stages of this rank in the order that a subclass gives.

    `_owners(stages, ranks)` are the ranks of the stages where stage k is not on rank k modulo their number.
    """

    _owners = None

    def __init__(self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                 scale_grads, backward_requires_autograd=True):
        name = type(self).__name__
        if type(n_microbatches) is not int or n_microbatches < 1:
            raise ValueError(f"{name}: n_microbatches must be a positive int, got {shown(n_microbatches)}")
        if not backward_requires_autograd:
            raise NotImplementedError(f"{name}: backward_requires_autograd=False is not available; leave it out")
        self._stages = {stage.stage_index: stage for stage in stages}
        if not stages:
            raise ValueError(f"{name}: expected the stages of this rank, got none")
        first = stages[0]
        if self._owners is not None:
            for stage in stages:
                stage.stage_index_to_group_rank = dict(enumerate(self._owners(stage.num_stages, stage.group_size)))
        local = [k for k in range(first.num_stages) if first.stage_index_to_group_rank[k] == first.group_rank]
        if sorted(self._stages) != local:
            raise ValueError(f"{name}: rank {first.group_rank} of {first.group_size} has stages {local} of "
                             f"{first.num_stages}, got {sorted(self._stages)}")
        self._num_stages, self._ranks, self._rank = first.num_stages, first.group_size, first.group_rank
        self._group, self._to_rank = first.group, first.stage_index_to_group_rank
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self._has_backward = output_merge_spec, loss_fn is not None
        self._actions = self._order(local)

    def _order(self, local):
        """The _Actions of this rank."""
        raise NotImplementedError(f"{type(self).__name__}: this is the base of schedules; use one of them")

    def step(self, *args, target=None, losses=None, return_outputs=True, loss_kwargs=None, **kwargs):
        """Takes a batch through the pipeline, in microbatches; all ranks call it.

        The first stage's rank gives the arguments, the last one's `target`, and `losses`, a list for the loss of each
        microbatch. Where there is a loss function, the parameters have gradients then: with `scale_grads` those of the
        mean of the losses, otherwise of their sum. Returns the results, on the last stage's rank; None on others.
        """
        count, last = self._n_microbatches, self._num_stages - 1
        args_of, kwargs_of = split_args_kwargs_into_chunks(args, kwargs, count, self._args_chunk_spec or None,
                                                           self._kwargs_chunk_spec or None)
        needs_target = self._loss_fn is not None and last in self._stages and target is not None
        targets = split_args_kwargs_into_chunks((target,), {}, count)[0] if needs_target else None
        run = _Run(self, args_of, kwargs_of, targets, loss_kwargs or {})
        for stage in self._stages.values():
            stage.has_backward = self._has_backward
            stage.clear_runtime_states()
        with flambeau.set_grad_enabled(self._has_backward and flambeau.is_grad_enabled()):
            for action in self._actions:
                run.perform(action)
        for work in run.works:
            work.wait()
        if losses is not None and last in self._stages:
            losses[:] = [run.losses[k] for k in sorted(run.losses)]
        if last not in self._stages or not return_outputs:
            return None
        return merge_chunks([run.outputs[k] for k in range(count)], self._output_merge_spec)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """`step` without gradients."""
        before, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before


class _Run:
    """One step: what is on its way."""

    def __init__(self, schedule, args_of, kwargs_of, targets, loss_kwargs):
        self.schedule, self.args_of, self.kwargs_of = schedule, args_of, kwargs_of
        self.targets, self.loss_kwargs = targets, loss_kwargs
        self.here = {}     # (kind, stage, microbatch) -> what a stage of this rank has for another one of it
        self.works, self.outputs, self.losses = [], {}, {}
        self.left = Counter(map(_way, schedule._actions))  # (stage, way) -> passes still to come

    def perform(self, action):
        """One pass, with what it needs from the stage before it and gives to the next."""
        stage, kind, k = self.schedule._stages[action.stage_index], action.computation_type, action.microbatch_index
        self.left[_way(action)] -= 1
        if kind is _ComputationType.FORWARD:
            self.forward(stage, k)
        elif not self.schedule._has_backward:
            return
        elif kind is _ComputationType.BACKWARD_WEIGHT:
            stage.backward_weight(k)
        else:
            run = stage.backward_input if kind is _ComputationType.BACKWARD_INPUT else stage.backward_one_chunk
            self.backward(run, stage, k, last=self.left[_way(action)] == 0)

    def forward(self, stage, k):
        at, schedule = stage.stage_index, self.schedule
        args = self.args_of[k] if stage.is_first else self.take(_ComputationType.FORWARD, at - 1, k)
        result = stage.forward_one_chunk(k, args, self.kwargs_of[k])
        if not stage.is_last:
            return self.give(_ComputationType.FORWARD, at, at + 1, k, _transfer.as_tuple(result))
        self.outputs[k] = flambeau.utils._pytree.tree_map(_detached, result)
        if schedule._loss_fn is not None and self.targets is not None:
            self.losses[k] = schedule._loss_fn(result, self.targets[k][0], **self.loss_kwargs)
        elif schedule._has_backward:
            raise ValueError(f"{type(schedule).__name__}.step: the rank of the last stage must give target")

    def backward(self, run, stage, k, last):
        at, schedule = stage.stage_index, self.schedule
        scale = 1.0 / schedule._n_microbatches if schedule.scale_grads else 1.0
        if stage.is_last:
            grads = run(k, self.losses[k], scale=scale, last=last)
            self.losses[k] = self.losses[k].detach()
        else:
            grads = self.take(_ComputationType.FULL_BACKWARD, at + 1, k)
            grads = run(k, grads=grads, last=last)
        if not stage.is_first:
            self.give(_ComputationType.FULL_BACKWARD, at, at - 1, k, grads)

    def tag(self, kind, sender, k):
        """Names a message between two ranks."""
        forward = kind is _ComputationType.FORWARD
        return (sender * 2 + forward) * self.schedule._n_microbatches + k + 1

    def give(self, kind, sender, receiver, k, values):
        to = self.schedule._to_rank[receiver]
        if to == self.schedule._rank:
            self.here[kind, sender, k] = tuple(
                value if value is None else value.detach().requires_grad_(value.requires_grad) for value in values)
            return
        place = f"stage {sender}, microbatch {k}"
        self.works += _transfer.send(values, to, self.schedule._group, self.tag(kind, sender, k), place)

    def take(self, kind, sender, k):
        source = self.schedule._to_rank[sender]
        if source == self.schedule._rank:
            return self.here.pop((kind, sender, k))
        return _transfer.receive(source, self.schedule._group, self.tag(kind, sender, k))


def _way(action):
    """(stage, kind), where the inputs' gradients alone are backward as well."""
    kind = action.computation_type
    inputs = kind is _ComputationType.BACKWARD_INPUT
    return action.stage_index, _ComputationType.FULL_BACKWARD if inputs else kind


def _detached(value):
    return value.detach() if isinstance(value, flambeau.Tensor) else value


# --- schedules --------------------------------------------------------------------------------------------------------

class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule of one stage on each rank."""

    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads=True):
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule of several stages on each rank: stages r, r + ranks, r + 2 ranks … on rank r."""

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, use_full_backward=None, scale_grads=True, backward_requires_autograd=True):
        if use_full_backward is False:
            raise NotImplementedError(f"{type(self).__name__}: use_full_backward=False is not available: "
                                      "ScheduleInterleavedZeroBubble splits backward; leave it out")
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads, backward_requires_autograd)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes, then all backward passes (Huang et al. 2018)."""

    def _order(self, local):
        return gpipe(local[0], self._n_microbatches)


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forward passes alone."""

    def _order(self, local):
        if self._has_backward:
            raise ValueError("_ScheduleForwardOnly: it computes no loss; leave loss_fn out")
        return gpipe(local[0], self._n_microbatches)[:self._n_microbatches]


class Schedule1F1B(PipelineScheduleSingle):
    """One forward and one backward in turn, so that few microbatches are kept (Narayanan et al. 2019)."""

    def _order(self, local):
        if self._n_microbatches < self._num_stages:
            raise ValueError(f"Schedule1F1B: n_microbatches must be at least the number of stages, {self._num_stages}, "
                             f"got {self._n_microbatches}")
        return one_forward_one_backward(local[0], self._num_stages, self._n_microbatches)


class _Looped(PipelineScheduleMulti):
    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads=True, backward_requires_autograd=True, defer_pp_recv=False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, None,
                         scale_grads, backward_requires_autograd)


class ScheduleLoopedBFS(_Looped):
    """Each stage takes all microbatches before the rank's next one (Lamy-Poirier 2022)."""

    def __init__(self, stages, n_microbatches, loss_fn=None, output_merge_spec=None, scale_grads=True,
                 backward_requires_autograd=True, defer_pp_recv=False):
        super().__init__(stages, n_microbatches, loss_fn, None, None, output_merge_spec, scale_grads,
                         backward_requires_autograd, defer_pp_recv)

    def _order(self, local):
        return looped_bfs(local, self._n_microbatches)


class ScheduleInterleaved1F1B(_Looped):
    """1F1B with several stages on each rank, which makes the waiting at the ends shorter (Narayanan et al. 2021)."""

    def _order(self, local):
        return interleaved(local, self._ranks, self._rank, self._n_microbatches)


class ScheduleInterleavedZeroBubble(_Looped):
    """Backward split, with any number of stages on each rank: parameters' gradients are computed where a rank would
    wait (Qi et al. 2023).
    """

    def _order(self, local):
        most = self._ranks if len(local) == 1 or self._owners else self._ranks + self._ranks // 2
        return zero_bubble(list(self._to_rank.values()), self._ranks, self._n_microbatches, most)[self._rank]


def _in_a_v(schedule, stages, ranks):
    """The owners of the stages where rank r has stages r and 2 p - 1 - r of 2 p."""
    if stages != 2 * ranks:
        raise ValueError(f"{type(schedule).__name__}: a rank has two stages, so {ranks} ranks have {2 * ranks}, got "
                         f"{stages}")
    return [*range(ranks), *reversed(range(ranks))]


class ScheduleZBVZeroBubble(ScheduleInterleavedZeroBubble):
    """Backward split, with two stages on each rank in the form of a V: rank r has stages r and 2 p - 1 - r of 2 p. The
    last stage is on the first rank, whose gradients begin their way back without delay (Qi et al. 2024).
    """

    _owners = _in_a_v


class ScheduleDualPipeV(_Looped):
    """Two stages on each rank in the form of a V; in the middle, a forward pass of one and a backward pass of the other
    in turn, whose messages are on their way meanwhile (DeepSeek-AI 2024). It needs 2 p microbatches at least.
    """

    _owners = _in_a_v

    def _order(self, local):
        if self._n_microbatches < self._num_stages:
            raise ValueError(f"ScheduleDualPipeV: n_microbatches must be at least the number of stages, "
                             f"{self._num_stages}, got {self._n_microbatches}")
        return dual_v(local, self._ranks, self._n_microbatches)


def get_schedule_class(schedule_name):
    """The schedule of this name, in any case. ValueError: there is none."""
    known = {"1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
             "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
             "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
             "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti}
    found = next((kind for name, kind in known.items() if name.lower() == schedule_name.lower()), None)
    if found is None:
        raise ValueError(f"get_schedule_class: no schedule is called {shown(schedule_name)}; there are "
                         f"{', '.join(known)}")
    return found
