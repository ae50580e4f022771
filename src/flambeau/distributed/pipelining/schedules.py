"""Schedules: in which order a rank runs the forward and backward passes of its stages' microbatches."""

from collections import Counter
from enum import Enum
from typing import NamedTuple

import flambeau

from ..._shown import shown
from . import _transfer
from .microbatch import merge_chunks, split_args_kwargs_into_chunks


class _ComputationType(Enum):
    FORWARD = "F"
    FULL_BACKWARD = "B"


class _Action(NamedTuple):
    """One pass of one microbatch through one stage, as in "2F0": stage, kind, microbatch."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int

    def __repr__(self):
        return f"{self.stage_index}{self.computation_type.value}{self.microbatch_index}"


def _forward(stage, k):
    return _Action(stage, _ComputationType.FORWARD, k)


def _backward(stage, k):
    return _Action(stage, _ComputationType.FULL_BACKWARD, k)


# --- the orders -------------------------------------------------------------------------------------------------------

def gpipe(stage, count):
    """All forward passes, then all backward passes.

    >>> from flambeau.distributed.pipelining.schedules import gpipe
    >>> gpipe(0, 2)
    [0F0, 0F1, 0B0, 0B1]
    """
    return [_forward(stage, k) for k in range(count)] + [_backward(stage, k) for k in range(count)]


def one_forward_one_backward(stage, stages, count):
    """As many forward passes as there are stages from here on, then one backward and one forward in turn: at most so
    many microbatches are kept.

    >>> from flambeau.distributed.pipelining.schedules import one_forward_one_backward
    >>> one_forward_one_backward(0, 2, 3)
    [0F0, 0F1, 0B0, 0F2, 0B1, 0B2]
    """
    ahead = min(count, stages - stage)
    order = [_forward(stage, k) for k in range(ahead)]
    for k in range(count):
        order.append(_backward(stage, k))
        if k + ahead < count:
            order.append(_forward(stage, k + ahead))
    return order


def looped_bfs(local, count):
    """Stage after stage, each with all microbatches; backward from the last on."""
    return ([_forward(stage, k) for stage in local for k in range(count)]
            + [_backward(stage, k) for stage in reversed(local) for k in reversed(range(count))])


def interleaved(local, ranks, rank, count):
    """Microbatches go through a rank's stages in groups, as many in each as there are ranks (or more, where that fits);
    otherwise one backward and one forward in turn (Narayanan et al. 2021, section 2.2).
    """
    rounds = max(1, count // ranks)
    if count % rounds:
        raise ValueError(f"ScheduleInterleaved1F1B: n_microbatches must be a multiple of {rounds} for {ranks} ranks, "
                         f"got {count}")
    each, total = count // rounds, len(local) * count
    ahead = min(total, (len(local) - 1) * each + 2 * (ranks - 1 - rank))

    def place(step):
        return step // each % len(local), step // (each * len(local)) * each + step % each

    forward = [_forward(local[stage], k) for stage, k in map(place, range(total))]
    backward = [_backward(local[-1 - stage], k) for stage, k in map(place, range(total))]
    order = forward[:ahead]
    for k in range(total):
        order += forward[ahead + k:ahead + k + 1] + backward[k:k + 1]
    return order


# --- running ----------------------------------------------------------------------------------------------------------

class _PipelineSchedule:
    """Runs the stages of this rank in the order that a subclass gives."""

    def __init__(self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                 scale_grads, backward_requires_autograd=True):
        name = type(self).__name__
        if type(n_microbatches) is not int or n_microbatches < 1:
            raise ValueError(f"{name}: n_microbatches must be a positive int, got {shown(n_microbatches)}")
        if not backward_requires_autograd:
            raise NotImplementedError(f"{name}: backward_requires_autograd=False is not available; leave it out")
        self._stages = {stage.stage_index: stage for stage in stages}
        first = stages[0]
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
        self.left = Counter(action[:2] for action in schedule._actions)  # (stage, kind) -> passes still to come

    def perform(self, action):
        """One pass, with what it needs from the stage before it and gives to the next."""
        stage, kind, k = self.schedule._stages[action.stage_index], action.computation_type, action.microbatch_index
        self.left[action[:2]] -= 1
        if kind is _ComputationType.FORWARD:
            self.forward(stage, k)
        elif self.schedule._has_backward:
            self.backward(stage, k, last=self.left[action[:2]] == 0)

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

    def backward(self, stage, k, last):
        at, schedule = stage.stage_index, self.schedule
        scale = 1.0 / schedule._n_microbatches if schedule.scale_grads else 1.0
        if stage.is_last:
            grads = stage.backward_one_chunk(k, self.losses[k], scale=scale, last=last)
            self.losses[k] = self.losses[k].detach()
        else:
            grads = self.take(_ComputationType.FULL_BACKWARD, at + 1, k)
            grads = stage.backward_one_chunk(k, grads=grads, last=last)
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
            raise NotImplementedError(f"{type(self).__name__}: use_full_backward=False, gradients of inputs and "
                                      "weights apart, is not available; leave it out")
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


def get_schedule_class(schedule_name):
    """The schedule of this name, in any case. ValueError: there is none."""
    known = {"1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
             "LoopedBFS": ScheduleLoopedBFS, "PipelineScheduleSingle": PipelineScheduleSingle,
             "PipelineScheduleMulti": PipelineScheduleMulti}
    found = next((kind for name, kind in known.items() if name.lower() == schedule_name.lower()), None)
    if found is None:
        raise ValueError(f"get_schedule_class: no schedule is called {shown(schedule_name)}; there are "
                         f"{', '.join(known)}")
    return found
