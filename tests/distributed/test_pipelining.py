"""Law: a model in stages, however they are scheduled, has the losses, results and gradients of the whole model."""

import copy
from itertools import product

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipe_split,
    pipeline,
)
from flambeau.distributed.pipelining._split_backward import SplitBackward
from flambeau.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    _Replicate,
    merge_chunks,
    split_args_kwargs_into_chunks,
    sum_reducer,
)
from flambeau.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    _ComputationType,
    dual_v,
    get_schedule_class,
    interleaved,
    looped_bfs,
    one_forward_one_backward,
    zero_bubble,
)
from flambeau.utils.flop_counter import FlopCounterMode


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.scale = nn.Linear(width, width), nn.Parameter(flambeau.rand(width))

    def forward(self, x):
        if x.shape[-1] < 2:
            raise ValueError("too narrow")
        return x + flambeau.tanh(self.inner(x)) * self.scale


class Tied(nn.Module):
    """The first weight is the last one's; a mask of the first stage is used in every block."""

    def __init__(self, blocks=4, width=6):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, *, mask=None):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x) if mask is None else block(x) * mask
        return {"logits": self.head(x), "hidden": x}


def blocks(count, seed=0):
    flambeau.manual_seed(seed)
    return nn.Sequential(*(Block(4) for _ in range(count))).double()


def batch(rows=12):
    flambeau.manual_seed(1)
    return flambeau.randn(rows, 4, dtype=flambeau.float64), flambeau.randn(rows, 4, dtype=flambeau.float64)


def close(one, other, tolerance=1e-12):
    return all((one[key] - other[key]).abs().max() <= tolerance * (1 + other[key].abs().max()) for key in other)


def whole(stages, count, scale=True):
    """Results, losses and gradients of the model in one piece."""
    model, (x, target) = blocks(stages), batch()
    losses = [nn.functional.mse_loss(model(a), b) for a, b in zip(x.tensor_split(count), target.tensor_split(count))]
    total = sum(losses)
    (total / count if scale else total).backward()
    return model(x).detach(), [float(loss) for loss in losses], {n: p.grad for n, p in model.named_parameters()}


# --- orders -----------------------------------------------------------------------------------------------------------

def simulated(orders, stages):
    """The most microbatches that a rank has kept at a time; AssertionError where the ranks would wait forever."""
    done, at, most = set(), [0] * len(orders), 0
    forward, inputs, weights, backward = _ComputationType
    kept = [0] * len(orders)
    while any(place < len(order) for place, order in zip(at, orders)):
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                stage, kind, k = order[at[rank]]
                if kind is forward:
                    needs = [(stage - 1, forward, k)] if stage else []
                elif kind is weights:
                    needs = [(stage, inputs, k)]
                else:
                    needs = [(stage, forward, k)] + ([(stage + 1, kind, k)] if stage < stages - 1 else [])
                if not done.issuperset(needs):
                    break
                done.add((stage, kind, k))
                kept[rank] += {forward: 1, inputs: 0, weights: -1, backward: -1}[kind]
                most, at[rank], moved = max(most, kept[rank]), at[rank] + 1, True
        assert moved, "every rank waits"
    return most


@pytest.mark.parametrize(("ranks", "each", "rounds"), [*product((1, 2, 3, 4, 8), (1, 2, 3), (1, 2, 5))])
def test_orders_are_complete_and_never_stuck(ranks, each, rounds):
    count, stages = ranks * rounds, ranks * each
    local = [list(range(rank, stages, ranks)) for rank in range(ranks)]
    for orders in ([looped_bfs(own, count) for own in local],
                   [interleaved(own, ranks, rank, count) for rank, own in enumerate(local)]):
        assert all(len(order) == len(set(order)) == 2 * count * each for order in orders)
        simulated(orders, stages)
    orders = [one_forward_one_backward(rank, ranks, count) for rank in range(ranks)]
    assert simulated(orders, ranks) == min(count, ranks)


def span(orders, stages):
    """How long a step takes where a forward pass takes one tick, and backward two, or one for each of its halves."""
    ends, free = {}, [0] * len(orders)
    todo = [list(order) for order in orders]
    while any(todo):
        for rank, order in enumerate(todo):
            while order:
                stage, kind, k = order[0]
                needs = {"F": [(stage - 1, "F", k)] if stage else [], "W": [(stage, "I", k)]}.get(
                    kind.value, [(stage, "F", k)] + ([(stage + 1, kind.value, k)] if stage < stages - 1 else []))
                if not all(need in ends for need in needs):
                    break
                free[rank] = ends[stage, kind.value, k] = max(
                    [free[rank], *(ends[need] for need in needs)]) + (2 if kind.value == "B" else 1)
                order.pop(0)
    return max(free)


@pytest.mark.parametrize(("ranks", "rounds"), [*product((1, 2, 3, 4, 8), (1, 2, 5))])
def test_split_backward_fills_what_would_be_waiting(ranks, rounds):
    count, v = ranks * rounds, [*range(ranks), *reversed(range(ranks))]
    for owners, most in ([*range(ranks)], ranks), ([*range(ranks)] * 2, ranks + ranks // 2), (v, ranks):
        orders = zero_bubble(owners, ranks, count, most)
        assert all(len(order) == len(set(order)) == 3 * count * len(owners) // ranks for order in orders)
        assert simulated(orders, len(owners)) <= most * len(owners) // ranks
    assert span(zero_bubble(v, ranks, count, ranks), 2 * ranks) == 6 * count + ranks - 1  # the way to the last rank
    alone = [one_forward_one_backward(rank, ranks, count) for rank in range(ranks)]
    assert span(alone, ranks) == 3 * count + 3 * (ranks - 1)
    assert span(zero_bubble([*range(ranks)], ranks, count, ranks), ranks) <= 3 * count + ranks + 1


@pytest.mark.parametrize(("ranks", "more"), [*product((1, 2, 3, 4, 5, 8), (0, 1, 6))])
def test_the_order_in_both_directions_is_complete_and_never_stuck(ranks, more):
    count, stages = 2 * ranks + more, 2 * ranks
    orders = [dual_v([rank, stages - 1 - rank], ranks, count) for rank in range(ranks)]
    ends, free, todo = {}, [0] * ranks, [list(order) for order in orders]  # a pass takes a tick, all of backward two
    while any(todo):
        before = len(ends)
        for rank, order in enumerate(todo):
            while order:
                stage, kind, k = order[0]
                needs = {"F": [(stage - 1, "F", k)] if stage else [], "W": [(stage, "back", k)]}.get(
                    kind.value, [(stage, "F", k)] + ([(stage + 1, "back", k)] if stage < stages - 1 else []))
                if not all(need in ends for need in needs):
                    break
                free[rank] = ends[stage, "back" if kind.value in "IB" else kind.value, k] = max(
                    [free[rank], *(ends[need] for need in needs)]) + (2 if kind.value == "B" else 1)
                order.pop(0)
        assert len(ends) > before, "every rank waits"
    assert {(stage, way, k) for stage in range(stages) for way in ("F", "back") for k in range(count)} <= ends.keys()
    assert max(free) == 6 * count + ranks - 1
    for order in orders:
        halves = {kind: [action[::2] for action in order if action.computation_type.value == kind] for kind in "IW"}
        assert len(set(order)) == len(order) and halves["I"] == halves["W"]


def test_the_interleaved_order_keeps_few_microbatches():
    orders = [interleaved([rank, rank + 4], 4, rank, 32) for rank in range(4)]
    assert simulated(orders, 8) <= 4 + 2 * 3 + 1


# --- one process ------------------------------------------------------------------------------------------------------

def test_one_process_runs_all_stages():
    results, losses, grads = whole(3, 4)
    model, (x, target), found = blocks(3), batch(), []
    stages = [PipelineStage(model[k], k, 3, "cpu") for k in range(3)]
    out = ScheduleInterleaved1F1B(stages, 4, nn.functional.mse_loss).step(x, target=target, losses=found)
    assert flambeau.allclose(out, results) and [float(loss) for loss in found] == pytest.approx(losses, rel=1e-12)
    assert close({n: p.grad for n, p in model.named_parameters()}, grads)


class Mixed(nn.Module):
    """A weight used twice, one that is computed from others, one that an input goes into as well, and one unused."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.scale, self.unused = nn.Parameter(flambeau.rand(4)), nn.Parameter(flambeau.rand(4))

    def forward(self, x, y):
        x = self.first(flambeau.tanh(self.second(x))) * (self.scale + y)
        return self.first(self.normed(x).relu()), (x * self.scale).sum(1)


def test_both_halves_of_backward_are_the_whole():
    flambeau.manual_seed(0)
    model, given = Mixed().double(), [flambeau.randn(3, 4, dtype=flambeau.float64, requires_grad=True) for _ in "xy"]
    grads = [flambeau.randn(3, 4, dtype=flambeau.float64), flambeau.randn(3, dtype=flambeau.float64)]
    flambeau.autograd.backward(model(*given), grads)
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    half = SplitBackward(model(*given), grads, given)
    for x, found in zip(given, half.inputs(), strict=True):
        assert flambeau.allclose(found, x.grad, rtol=1e-12)
    early = {name for name, p in model.named_parameters() if p.grad is not None}
    assert early <= {"scale", "first.weight", "first.bias"}  # what is used on both sides of another layer
    half.weights()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys() and close(found, expected)


def test_nothing_is_computed_twice():
    model, x = blocks(3), flambeau.randn(5, 4, dtype=flambeau.float64, requires_grad=True)

    def flops(function):
        with FlopCounterMode(display=False) as counter:
            function()
        return counter.get_total_flops()

    y = model(x)
    full = flops(lambda: y.backward(flambeau.ones_like(y)))
    z = model(x)
    half = SplitBackward([z], [flambeau.ones_like(z)], [x])
    assert [flops(half.inputs), flops(half.weights)] == [full / 2, full / 2]


def test_evaluation_leaves_no_gradients():
    model, (x, target), found = blocks(1), batch(), []
    schedule = ScheduleGPipe(PipelineStage(model, 0, 1, "cpu"), 3, nn.functional.mse_loss)
    out = schedule.eval(x, target=target, losses=found)
    assert not out.requires_grad and len(found) == 3 and next(model.parameters()).grad is None
    assert schedule.step(x, target=target, return_outputs=False) is None and next(model.parameters()).grad is not None


def test_a_captured_model_is_cut_where_it_is_told():
    model = Tied()
    tokens = flambeau.randint(10, (2, 3))
    mask = flambeau.rand(6)
    spec = {"blocks.1": SplitPoint.BEGINNING, "blocks.2": SplitPoint.END, "head": SplitPoint.BEGINNING}
    pipe = pipeline(model, (tokens,), {"mask": mask}, split_spec=spec)
    assert pipe.num_stages == 4
    assert list(pipe.get_stage_module(1).state_dict()) == ["blocks.1.scale", "blocks.1.inner.weight",
                                                           "blocks.1.inner.bias", "blocks.2.scale",
                                                           "blocks.2.inner.weight", "blocks.2.inner.bias"]
    other = copy.deepcopy(model)
    for network in (pipe, other):
        network(tokens, mask=mask)["logits"].square().sum().backward()
    assert flambeau.allclose(pipe(tokens, mask=mask)["hidden"], model(tokens, mask=mask)["hidden"])
    grads, others = ({n: p.grad for n, p in one.named_parameters()} for one in (model, other))
    assert close(grads, others, 1e-5)


def test_a_model_says_where_it_is_cut():
    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(2, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            x = self.one(x)
            pipe_split()
            return self.two(x)

    model = Marked()
    x = flambeau.randn(4, 2)
    pipe = pipeline(model, (x,))
    assert pipe.num_stages == 2 and flambeau.allclose(pipe(x), copy.deepcopy(model)(x), atol=1e-6)
    assert model(x).shape == (4, 3)  # outside of pipeline the mark does nothing


@pytest.mark.parametrize(("call", "message"), [
    (lambda: pipeline(blocks(1), (batch()[0],), split_spec={"x": SplitPoint.END}), "names 'x', which the model"),
    (lambda: pipeline(blocks(1), (batch()[0],), split_spec={"0": "END"}), r"expected SplitPoint\.BEGINNING"),
    (lambda: PipelineStage(blocks(1), 2, 2, "cpu"), "from 0 to 1, got 2"),
    (lambda: ScheduleGPipe(PipelineStage(blocks(1), 0, 1, "cpu"), 0), "positive int, got 0"),
    (lambda: Schedule1F1B(PipelineStage(blocks(1), 0, 1, "cpu"), 3).step(flambeau.ones(2, 4)), "into 3 microbatches"),
    (lambda: ScheduleGPipe(PipelineStage(blocks(1), 0, 1, "cpu"), 2, nn.MSELoss()).step(batch()[0]), "give target"),
    (lambda: ScheduleGPipe(PipelineStage(blocks(1), 0, 2, "cpu"), 2), r"has stages \[0, 1\] of 2, got \[0\]"),
    (lambda: get_schedule_class("1f2b"), "no schedule is called '1f2b'; there are 1F1B"),
    (lambda: ScheduleInterleavedZeroBubble([], 2), "got none"),
    (lambda: ScheduleZBVZeroBubble([PipelineStage(blocks(1), 0, 1, "cpu")], 2), "1 ranks have 2, got 1"),
    (lambda: ScheduleDualPipeV([PipelineStage(blocks(1), k, 2, "cpu") for k in range(2)], 1), "of stages, 2, got 1"),
])
def test_mistakes_are_named(call, message):
    with pytest.raises((ValueError, AttributeError, NotImplementedError), match=message):
        call()


def test_microbatches():
    x, y = flambeau.arange(6).reshape(3, 2), flambeau.arange(4)
    specs = (*TensorChunkSpec.from_tuple((1,)), _Replicate())
    args, kwargs = split_args_kwargs_into_chunks((x, 5), {"y": y}, 2, specs)
    assert args[1][0].tolist() == [[1], [3], [5]] and args[0][1] == 5 and kwargs[1]["y"].tolist() == [2, 3]
    assert flambeau.equal(merge_chunks([a[0] for a in args], TensorChunkSpec(1)), x)
    assert merge_chunks([flambeau.tensor(1.0), flambeau.tensor(2.0)], sum_reducer) == 3
    with pytest.raises(ValueError, match="1 results and 2 chunk specs"):
        merge_chunks([x, x], (TensorChunkSpec(0), TensorChunkSpec(0)))


# --- several ranks ----------------------------------------------------------------------------------------------------

V = ScheduleZBVZeroBubble, ScheduleDualPipeV


def train(kind, per_rank, count, scale):
    """One step; each rank has its own stages of the same model."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    model, (x, target), losses = blocks(ranks * per_rank), batch(), []
    own = [rank, 2 * ranks - 1 - rank] if kind in V else range(rank, ranks * per_rank, ranks)
    stages = [PipelineStage(model[k], k, ranks * per_rank, "cpu") for k in own]
    several = issubclass(kind, PipelineScheduleMulti)
    schedule = kind(stages if several else stages[0], count, nn.functional.mse_loss, scale_grads=scale)
    for _ in range(2):
        model.zero_grad()
        out = schedule.step(*[x] * (rank == 0), target=target if own[-1] == ranks * per_rank - 1 else None,
                            losses=losses)
    return out, [float(loss) for loss in losses], {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("kind", "per_rank", "count", "scale"), [
    (ScheduleGPipe, 1, 5, True), (Schedule1F1B, 1, 6, False), (Schedule1F1B, 1, 4, True),
    (ScheduleInterleaved1F1B, 2, 8, True), (ScheduleLoopedBFS, 3, 3, True),
    (ScheduleInterleavedZeroBubble, 1, 6, True), (ScheduleInterleavedZeroBubble, 2, 5, False),
    (ScheduleZBVZeroBubble, 2, 6, True), (ScheduleDualPipeV, 2, 9, True), (ScheduleDualPipeV, 2, 8, False)])
def test_ranks_train_as_one_process_does(ranks, kind, per_rank, count, scale):
    results, losses, grads = whole(4 * per_rank, count, scale)
    found = ranks.run(train, kind, per_rank, count, scale)
    last = 0 if kind in V else 3
    assert [rank for rank, (out, _, _) in enumerate(found) if out is not None] == [last]
    assert flambeau.allclose(found[last][0], results)
    assert found[last][1] == pytest.approx(losses, rel=1e-12) and found[3 - last][1] == []
    together = {name: grad for _, _, own in found for name, grad in own.items()}
    assert together.keys() == grads.keys() and close(together, grads)


def train_captured():
    flambeau.manual_seed(0)
    model, rank = Tied(), dist.get_rank()
    tokens = flambeau.arange(24).reshape(8, 3) % 10
    spec = {f"blocks.{k}": SplitPoint.BEGINNING for k in (1, 2, 3)}
    pipe = pipeline(model, (tokens[:2],), split_spec=spec)
    stage, losses = pipe.build_stage(rank, "cpu"), []
    optimizer = flambeau.optim.SGD(stage.submod.parameters(), lr=0.1)
    schedule = Schedule1F1B(stage, 4, lambda out, target: nn.functional.cross_entropy(out["logits"].flatten(0, 1),
                                                                                      target.flatten()))
    for _ in range(3):
        optimizer.zero_grad()
        schedule.step(*[tokens] * (rank == 0), target=tokens.flip(0) if rank == 3 else None, losses=losses)
        optimizer.step()
    return sum(map(float, losses)), dict(stage.submod.state_dict())


def test_a_captured_model_with_a_tied_weight_trains_as_one_process_does(ranks):
    flambeau.manual_seed(0)
    model, tokens = Tied(), flambeau.arange(24).reshape(8, 3) % 10
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens)["logits"].flatten(0, 1), tokens.flip(0).flatten())
        loss.backward()
        optimizer.step()
    found = ranks.run(train_captured)
    assert found[3][0] / 4 == pytest.approx(float(loss), rel=1e-5)
    assert close({name: value for _, own in found for name, value in own.items()},
                 dict(model.named_parameters()), 1e-6)


def pass_on_what_differs():
    """Stages that return several tensors, of sizes that differ, some without gradients."""
    class First(nn.Module):
        def forward(self, x):
            return x * 2, flambeau.arange(len(x)), x.detach(), flambeau.zeros(0)

    class Second(nn.Module):
        def forward(self, x, order, y, nothing):
            return (x * order[:, None]).sum(1) + y.sum() + nothing.sum()

    rank, group = dist.get_rank(), dist.new_group([0, 1])
    if rank > 1:
        return None
    stage = PipelineStage((First, Second)[rank](), rank, 2, "cpu", group=group)
    x = flambeau.ones(5, 2, requires_grad=True)
    out = ScheduleGPipe(stage, 2, nn.functional.l1_loss).step(*[x] * (rank == 0), target=flambeau.zeros(5))
    return out if rank else x.grad


def test_tensors_of_any_kind_go_between_stages(ranks):
    grad, out, *_ = ranks.run(pass_on_what_differs)
    assert out.tolist() == [6, 10, 14, 4, 8]
    assert flambeau.allclose(grad, flambeau.tensor([0, 1 / 3, 2 / 3, 0, 0.5])[:, None].expand(5, 2))


def train_both_ways(kind):
    """Two pipelines of two stages; each stage is data parallel."""
    rank = dist.get_rank()
    along = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    model, (x, target) = blocks(2), batch()
    part = nn.parallel.DistributedDataParallel(model[rank % 2], process_group=across)
    stage = PipelineStage(part, rank % 2, 2, "cpu", group=along)
    schedule = kind(stage if kind is Schedule1F1B else [stage], 3, nn.functional.mse_loss)
    half = slice(6 * (rank // 2), 6 * (rank // 2) + 6)
    schedule.step(*[x[half]] * (rank % 2 == 0), target=target[half])
    return {f"{rank % 2}.{name}": p.grad for name, p in part.module.named_parameters()}


@pytest.mark.parametrize("kind", [Schedule1F1B, ScheduleInterleavedZeroBubble])
def test_data_parallel_stages(ranks, kind):
    found = ranks.run(train_both_ways, kind)
    grads = whole(2, 6)[2]
    for k in (0, 2):
        assert close(found[k] | found[k + 1], grads)
