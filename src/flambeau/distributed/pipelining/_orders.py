"""In which order a rank runs the forward and backward passes of its stages' microbatches."""

from enum import Enum
from typing import NamedTuple


class _ComputationType(Enum):
    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
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


# --- backward in two halves -------------------------------------------------------------------------------------------

def zero_bubble(owners, ranks, count, most):
    """The orders of all ranks where backward is split: first what other ranks wait for, the inputs' gradients (I); the
    parameters' (W) fill what would be waiting. owners: the rank of each stage. A rank has at most `most` microbatches
    at a time   (Qi et al. 2023; with owners in the form of a V, Qi et al. 2024).

    >>> from flambeau.distributed.pipelining._orders import zero_bubble
    >>> for order in zero_bubble([0, 1], 2, 2, most=2):
    ...     print(order)
    [0F0, 0F1, 0I0, 0W0, 0I1, 0W1]
    [1F0, 1I0, 1F1, 1I1, 1W0, 1W1]
    """
    plan = _Plan(owners, ranks, count, most)
    while plan.left:
        plan.tick()
    return plan.orders


class _Plan:
    """Plays all ranks at once, each pass one tick long: what is ready and most urgent is next."""

    def __init__(self, owners, ranks, count, most):
        self.owners, self.ranks, self.count, self.most = owners, ranks, count, most
        self.own = [[s for s, owner in enumerate(owners) if owner == rank] for rank in range(ranks)]
        self.orders = [[] for _ in range(ranks)]
        self.left = 3 * len(owners) * count
        self.done = set()  # before this tick
        self.next = {(s, kind): 0 for s in range(len(owners)) for kind in _ComputationType}

    def tick(self):
        """One pass on every rank that has something to do."""
        chosen = [action for rank in range(self.ranks) if (action := self.choice(rank))]
        for action in chosen:
            self.orders[self.owners[action.stage_index]].append(action)
            self.next[action[:2]] += 1
        self.done.update(chosen)
        self.left -= len(chosen)

    def choice(self, rank):
        """Inputs' gradients first, then forward passes of late stages, parameters' gradients where nothing else is."""
        order = [(s, kind) for kind in (_ComputationType.BACKWARD_INPUT, _ComputationType.FORWARD,
                                        _ComputationType.BACKWARD_WEIGHT) for s in reversed(self.own[rank])]
        for stage, kind in order:
            action = _Action(stage, kind, self.next[stage, kind])
            if action.microbatch_index < self.count and self.is_ready(action, rank):
                return action
        return None

    def is_ready(self, action, rank):
        stage, kind, k = action
        if kind is _ComputationType.FORWARD:
            finished = min(self.next[s, _ComputationType.BACKWARD_WEIGHT] for s in self.own[rank])
            return k - finished < self.most and (stage == 0 or action._replace(stage_index=stage - 1) in self.done)
        if kind is _ComputationType.BACKWARD_WEIGHT:
            return action._replace(computation_type=_ComputationType.BACKWARD_INPUT) in self.done
        return _forward(stage, k) in self.done and (
            stage == len(self.owners) - 1 or action._replace(stage_index=stage + 1) in self.done)


# --- both directions at once ------------------------------------------------------------------------------------------

def dual_v(local, ranks, count):
    """The order of a rank r with the stages r on the way to the last rank and 2 ranks - 1 - r on the way back: in the
    middle, a forward pass of one and a backward pass of the other in turn   (DeepSeek-AI 2024, DualPipe; cut in half).

    >>> from flambeau.distributed.pipelining._orders import dual_v
    >>> dual_v([0, 1], 1, 2)
    [0F0, 1F0, 0F1, 1B0, 1F1, 0B0, 1B1, 0I1, 0W1]
    """
    there, back = local
    rank = there
    after = ranks - 1 - rank  # ranks between this one and the turn
    plan = _DualPlan()
    plan.repeat(2 * after, (there, "F"))
    plan.repeat(rank + 1, (there, "F"), (back, "F"))
    plan.repeat(after, (back, "I"), (None, "W"), (back, "F"))
    plan.repeat(count - 2 * ranks + rank + 1, (there, "F"), (back, "B"), (back, "F"), (there, "B"))
    plan.repeat(after, (back, "B"), (back, "F"), (there, "B"))
    full = rank // 2 + rank % 2  # pairs before the parameters' gradients are put off
    plan.repeat(full, (back, "B"), (there, "B"))
    if rank % 2 == 0:
        plan.repeat(1, (back, "B"), (there, "I"))
    plan.repeat(rank + 1 - full - (rank % 2 == 0), (back, "I"), (there, "I"))
    plan.repeat(after, (None, "W"), (there, "I"))
    plan.repeat(rank + 1, (None, "W"))
    return plan.order


class _DualPlan:
    """Counts the microbatches of each stage; parameters' gradients (W) are those that were put off first."""

    def __init__(self):
        self.order, self.next, self.later = [], {}, []

    def repeat(self, times, *passes):
        """These passes, each of its stage's next microbatch."""
        for stage, letter in passes * times:
            if letter == "W":
                self.order.append(self.later.pop(0))
                continue
            kind = _ComputationType(letter)
            way = stage, letter == "F"
            k = self.next[way] = self.next.get(way, -1) + 1
            self.order.append(_Action(stage, kind, k))
            if letter == "I":
                self.later.append(_Action(stage, _ComputationType.BACKWARD_WEIGHT, k))
