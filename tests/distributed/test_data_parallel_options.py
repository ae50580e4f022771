"""DistributedDataParallel on 2 ranks with sparse gradients, other dtypes, delayed exchanges and optimizers in backward:
equal to one process."""

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.nn.parallel.distributed import _BufferCommHookLocation, _MixedPrecision

from .pool import Ranks


@pytest.fixture(scope="module")
def two():
    made = Ranks(2)
    yield made
    made.end()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        flambeau.manual_seed(0)
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("k", flambeau.ones(1))
        self.seen = []

    def forward(self, x):
        self.seen.append((x.dtype, self.a.weight.dtype, self.k.dtype))
        return self.b(self.a(x).tanh()) * self.k


def batch(rank):
    return flambeau.arange(6.0).reshape(2, 3) / 5 + rank


def mean_gradients(run=lambda net, x: net(x)):
    """Those of both ranks' batches in one process."""
    found = Net()
    for rank in range(2):
        (run(found, batch(rank)).sum() / 2).backward()
    return [p.grad for p in found.parameters()]


def far(xs, ys):
    return max((x - y).abs().max().item() for x, y in zip(xs, ys, strict=True))


# --- in the ranks -----------------------------------------------------------------------------------------------------

def logged_facts():
    return DistributedDataParallel(Net(), find_unused_parameters=True)._get_ddp_logging_data()


def check_sparse_gradients(kind):
    flambeau.manual_seed(0)
    table = nn.Embedding(6, 2, sparse=True) if kind == "embedding" else nn.EmbeddingBag(6, 2, mode="sum", sparse=True)
    model = DistributedDataParallel(nn.ModuleDict({"table": table, "last": nn.Linear(2, 1)}))
    model.module.forward = lambda i: model.module["last"](model.module["table"](i))
    rows = flambeau.tensor([[0, 2, 2], [2, 5, 0]])[dist.get_rank()].reshape(1, -1)
    for _ in range(2):
        model(rows).sum().backward()
    grad = model.module["table"].weight.grad
    w = model.module["last"].weight.detach()[0]
    counts = flambeau.tensor([2.0, 0, 3, 0, 0, 1])  # of both ranks: halves, in two steps
    return (grad.to_dense() - counts[:, None] * w).abs().max().item(), grad.coalesce().indices().tolist()


def check_dense_gradient_where_sparse_is_expected():
    table = nn.Embedding(4, 2, sparse=True)
    model = DistributedDataParallel(table)
    table.forward = lambda i: table.weight[i]
    with pytest.raises(NotImplementedError, match="weight is dense"):
        model(flambeau.tensor([1])).sum().backward()
    model.reducer._active = False


def check_mixed(reduce_dtype):
    half = flambeau.bfloat16
    model = DistributedDataParallel(Net(), mixed_precision=_MixedPrecision(half, reduce_dtype, flambeau.float16))
    model(batch(dist.get_rank())).sum().backward()
    assert model.module.seen == [(half, half, flambeau.float16)] and model.module.a.weight.dtype is flambeau.float32

    def run(net, x):
        parameters = {name: p.to(half) for name, p in net.named_parameters()}
        net.k = net.k.half()
        return flambeau.func.functional_call(net, parameters, (x.to(half),))
    return far([p.grad for p in model.parameters()], mean_gradients(run))


def check_reduced_only(dtype):
    model = DistributedDataParallel(Net(), mixed_precision=_MixedPrecision(reduce_dtype=dtype))
    model(batch(dist.get_rank())).sum().backward()
    grads = [p.grad for p in model.parameters()]
    return [g.dtype for g in grads], far(grads, mean_gradients())


def check_delayed(everything):
    net = Net()
    named = list(net.named_parameters())[:None if everything else 2]
    model = DistributedDataParallel(net, delay_all_reduce_named_params=named, param_to_hook_all_reduce=net.a.weight)
    with model.no_sync():
        model(batch(dist.get_rank())).sum().backward()
    model(batch(dist.get_rank())).sum().backward()
    return far([p.grad for p in net.parameters()], [2 * g for g in mean_gradients()])


def check_skipped():
    net = Net()
    net.spare = nn.Linear(2, 2)
    model = DistributedDataParallel(net, find_unused_parameters=True, skip_all_reduce_unused_params=True,
                                    bucket_cap_mb=1e-5)
    calls, exchange = [], dist._collectives.all_reduce_list
    dist._collectives.all_reduce_list = lambda *args: (calls.append(1), exchange(*args))[1]
    try:
        model(batch(dist.get_rank())).sum().backward()
    finally:
        dist._collectives.all_reduce_list = exchange
    used = [p.grad for name, p in net.named_parameters() if "spare" not in name]
    return far(used, mean_gradients()), net.spare.weight.grad, len(calls), len(model.reducer.buckets)


def check_optimizers(how):
    net = Net()
    if how == "in backward":
        _apply_optimizer_in_backward(flambeau.optim.SGD, net.parameters(), {"lr": 0.5})
    model = DistributedDataParallel(net)
    if how == "fused":
        model._register_fused_optim(flambeau.optim.SGD, 0.5)
    model(batch(dist.get_rank())).sum().backward()
    expected = [p.detach() - 0.5 * g for p, g in zip(Net().parameters(), mean_gradients())]
    return far([p.detach() for p in net.parameters()], expected)


def check_buffer_hook(place):
    net = Net()
    net.register_buffer("steps", flambeau.tensor([1 + dist.get_rank()]))
    model = DistributedDataParallel(net, init_sync=False)
    seen = []

    def add(state, named):
        seen.append((state, sorted(named)))
        return [dist.all_reduce(named["steps"], async_op=True).get_future()]
    model._register_buffer_comm_hook("state", add, place)
    model(batch(0)).sum().backward()
    return seen, net.steps.item()


def check_builtin_hook():
    model = DistributedDataParallel(Net())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    model(batch(dist.get_rank())).sum().backward()
    return far([p.grad for p in model.parameters()], mean_gradients())


def check_sparse_sum():
    me = dist.get_rank()
    x = flambeau.sparse_coo_tensor([[me, 2, 2]], [[1.0, 2], [2, 2], [3, 3]], (4, 2))
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    y = flambeau.sparse_coo_tensor([[1]] if me else flambeau.empty(1, 0, dtype=flambeau.int64),
                                   [5.0] if me else [], (3,))  # one rank has nothing
    dist.all_reduce(y)
    with pytest.raises(RuntimeError, match="only added"):
        dist.all_reduce(y, dist.ReduceOp.MAX)
    with pytest.raises(NotImplementedError, match="sparse_csr"):
        dist.all_reduce(flambeau.eye(2).to_sparse_csr())
    return x.is_coalesced(), x.to_dense().tolist(), y.to_dense().tolist()


# --- here -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["embedding", "bag"])
def test_sparse_gradients(two, kind):
    for distance, rows in two.run(check_sparse_gradients, kind):
        assert distance < 1e-6 and rows == [[0, 2, 5]]


def test_a_dense_gradient_where_a_sparse_one_is_expected(two):
    two.run(check_dense_gradient_where_sparse_is_expected)


@pytest.mark.parametrize("dtype", [None, flambeau.float32, flambeau.float16])
def test_mixed_precision(two, dtype):
    assert max(two.run(check_mixed, dtype)) < (1e-6 if dtype is flambeau.float32 else 2e-2)


def test_gradients_are_exchanged_in_another_dtype(two):
    for dtypes, distance in two.run(check_reduced_only, flambeau.bfloat16):
        assert set(dtypes) == {flambeau.float32} and 0 < distance < 2e-2


@pytest.mark.parametrize("everything", [False, True])
def test_delayed_exchange(two, everything):
    assert max(two.run(check_delayed, everything)) < 1e-6


def test_unused_parameters_are_not_exchanged(two):
    for distance, grad, calls, buckets in two.run(check_skipped):
        assert distance < 1e-6 and grad is None and calls < buckets


@pytest.mark.parametrize("how", ["fused", "in backward"])
def test_optimizers_step_when_gradients_are_there(two, how):
    assert max(two.run(check_optimizers, how)) < 1e-6


def test_an_optimizer_of_its_own_for_each_parameter():
    net = nn.Linear(2, 1)
    _apply_optimizer_in_backward(flambeau.optim.SGD, net.parameters(), {"lr": 1.0})
    before = net.weight.detach().clone()
    net(flambeau.ones(1, 2)).sum().backward()
    assert flambeau.equal(net.weight, before - 1) and net.weight.grad is None
    assert len(_get_in_backward_optimizers(net)) == 2


@pytest.mark.parametrize("place", _BufferCommHookLocation)
def test_hooks_for_buffers(two, place):
    assert two.run(check_buffer_hook, place) == [([("state", ["k", "steps"])], 3)] * 2


def test_builtin_hook(two):
    assert max(two.run(check_builtin_hook)) < 2e-3


def test_sum_of_sparse_tensors(two):
    assert two.run(check_sparse_sum) == [(True, [[1, 2], [1, 2], [10, 10], [0, 0]], [0, 5, 0])] * 2


def test_facts_for_logs(two):
    """lightning asks for them when a training ends."""
    facts = two.run(logged_facts)
    assert [each["rank"] for each in facts] == [0, 1]
    expected = {"module_name": "Net", "world_size": 2, "num_parameter_tensors": 4, "total_parameter_size_bytes": 104,
                "bucket_sizes": "104", "find_unused_parameters": 1, "dtypes": "float32", "has_sync_bn": 0}
    assert expected.items() <= facts[0].items() and not facts[0].get("can_set_static_graph")
