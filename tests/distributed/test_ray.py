"""On a cluster of several nodes of this host: results, reports, and that a run goes on when a node is killed."""

import builtins
import os
import time

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.ray as cluster
from flambeau import nn

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")


_PRESTART = "RAY_enable_worker_prestart"


@pytest.fixture
def nodes():
    """The program's own node and another, with room for one worker each."""
    own_print = builtins.print  # Ray replaces it in the whole process
    os.environ[_PRESTART] = "0"  # read when a node begins: no workers before they are wanted
    few = {"num_cpus": 1, "include_dashboard": False, "include_log_monitor": False}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=few)
    found = [made.add_node(**few)]
    ray.init(address=made.address, log_to_driver=False, include_dashboard=False)
    yield made, found
    ray.shutdown()
    made.shutdown()
    del os.environ[_PRESTART]
    builtins.print = own_print


STEPS = 12


def train(steps, nap=0.0):
    """A model in double precision: (its weights, the world's size at each step, where it began)."""
    if not dist.is_initialized():
        dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    flambeau.manual_seed(0)
    model = nn.Linear(4, 2).double()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = cluster.restore() or {"step": 0, "sizes": []}
    if state["step"]:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    wrapped = nn.parallel.DistributedDataParallel(model)
    begin = state["step"]
    for step in range(begin, steps):
        flambeau.manual_seed(step)
        batch = flambeau.randn(12, 4, dtype=flambeau.float64).chunk(size)[rank]
        optimizer.zero_grad()
        loss = wrapped(batch).square().mean()
        loss.backward()
        optimizer.step()
        state["sizes"] = [*state["sizes"], size]
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1,
                      "sizes": state["sizes"]} if rank == 0 else None
        cluster.report({"step": step, "loss": loss.item(), "pid": os.getpid()}, checkpoint=checkpoint)
        time.sleep(nap * (size - 1))
    return model.weight.detach(), state["sizes"], begin


def fail():
    weight, _, began = train(STEPS)
    raise ValueError(f"no step was left at {began}: {weight.tolist()}")


def collectives():
    """Everything that goes between ranks, through Ray's object store."""
    dist.init_process_group()
    r, n = dist.get_rank(), dist.get_world_size()
    group = dist.new_group([0, 1])
    x = flambeau.arange(5.0) + r
    dist.all_reduce(x, group=group)
    half = flambeau.full((3, 2), 0.1 + r, dtype=flambeau.bfloat16).t()
    dist.all_reduce(half, dist.ReduceOp.AVG)
    truth = flambeau.tensor([r == 0, False])
    dist.all_reduce(truth)
    gathered = [None] * n
    dist.all_gather_object(gathered, {"rank": r})
    shared = flambeau.tensor([r, 7])
    dist.broadcast(shared, 1)
    part, empty = flambeau.zeros(2), flambeau.zeros(0)
    dist.reduce_scatter_tensor(part, flambeau.arange(4.0) * (r + 1))
    dist.all_reduce(empty)
    received = flambeau.zeros(2)
    if r:
        dist.send(flambeau.tensor([1.0, 2.0]), 0, tag=5)
    else:
        dist.recv(received, tag=5)
    root = flambeau.ones(2) * (r + 1)
    dist.reduce(root, 0)
    dist.barrier()
    found = [train(STEPS)[0], x, half, truth, gathered, shared, part, received, root]
    try:
        dist.broadcast(flambeau.ones(1), 0) if r else dist.all_reduce(flambeau.ones(1))
    except dist.DistBackendError as error:
        found.append(str(error))
    return found[0], *(value.tolist() if isinstance(value, flambeau.Tensor) else value for value in found[1:])


def ranks_of_several_hosts(tmp_path):
    """Exchanges and training through Ray, what is reported, and what another program finds."""
    seen = []
    (weight, *zero), (_, *one) = cluster.run(
        collectives, 2, engine="ray", storage=tmp_path,
        on_report=lambda rank, metrics: seen.append((rank, metrics["step"])))
    half = flambeau.tensor(0.6).bfloat16().item()
    assert zero[:5] == one[:5] == [[1, 3, 5, 7, 9], [[half] * 3] * 2, [True, False], [{"rank": 0}, {"rank": 1}], [1, 7]]
    assert zero[5:8] == [[0, 3], [1, 2], [3, 3]] and one[5] == [6, 9]
    assert "different collectives" in zero[8] and "rank 1 is in broadcast" in one[8]
    assert flambeau.allclose(weight, alone(), rtol=1e-12)
    assert sorted(seen) == [(r, k) for r in (0, 1) for k in range(STEPS)]
    with pytest.raises(ValueError, match="no step was left") as error:  # a program that is started again has it all
        cluster.run(fail, storage=tmp_path)
    assert f"no step was left at {STEPS}: {weight.tolist()}" in str(error.value)


def alone():
    """The weights of one process."""
    flambeau.manual_seed(0)
    model = nn.Linear(4, 2).double()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        flambeau.manual_seed(step)
        optimizer.zero_grad()
        model(flambeau.randn(12, 4, dtype=flambeau.float64)).square().mean().backward()
        optimizer.step()
    return model.weight.detach()


def a_run_goes_on_when_a_node_dies(made, found, capfd):
    """Over shared memory, then with one worker, since there is room for no more; no step that was reported is lost or
    done twice.
    """
    killed = []

    def watch(rank, metrics):
        if rank == 0 and metrics["step"] == 4 and not killed:
            killed.append(made.remove_node(found.pop(), allow_graceful=False))

    begin = time.monotonic()
    while ray.available_resources().get("CPU", 0) < 2:  # workers of the run before go by and by
        assert time.monotonic() - begin < 30
        time.sleep(0.1)
    (weight, sizes, began), = cluster.run(train, 2, args=(STEPS, 0.3), on_report=watch, wait=1.0)
    assert flambeau.allclose(weight, alone(), rtol=1e-12) and killed
    assert sizes == [2] * began + [1] * (STEPS - began) and 5 <= began < STEPS
    assert "a worker has died" in capfd.readouterr().err and time.monotonic() - begin < 90


def too_few_nodes():
    with pytest.raises(cluster.RunFailed, match="no place for 3 workers"):
        cluster.run(train, 3, min_workers=3, args=(1,), wait=0.5)
    with pytest.raises(RuntimeError, match="no worker of"):
        cluster.restore()
    with pytest.raises(ValueError, match="min_workers <= workers"):
        cluster.run(train, 1, min_workers=2)


def test_on_a_cluster(nodes, tmp_path, capfd):
    """One cluster for all: it takes seconds to begin."""
    ranks_of_several_hosts(tmp_path)
    a_run_goes_on_when_a_node_dies(*nodes, capfd)
    too_few_nodes()
