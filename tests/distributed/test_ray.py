"""On a cluster of several nodes of this host: results, reports, and that a run goes on when a node is killed."""

import os
import time

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.ray as cluster
from flambeau import nn

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture(scope="module")
def nodes():
    """A head without room for workers, and two nodes with room for one each."""
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    found = [made.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False, include_dashboard=False)
    yield made, found
    ray.shutdown()
    made.shutdown()


STEPS = 12


def train(steps, nap=0.0):
    """A model in double precision: (its weights, the world's size at each step, where it began)."""
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
        time.sleep(nap)
    return model.weight.detach(), state["sizes"], begin


def fail():
    raise ValueError("no such number")


def test_what_runs_on_a_cluster(nodes, tmp_path):
    expected = alone()
    seen = []
    found = cluster.run(train, 2, args=(STEPS,), on_report=lambda rank, metrics: seen.append((rank, metrics["step"])),
                        storage=tmp_path)
    assert all(flambeau.allclose(weight, expected, rtol=1e-12) for weight, _, _ in found)
    assert found[0][1] == [2] * STEPS and sorted(seen) == [(r, k) for r in (0, 1) for k in range(STEPS)]
    again = cluster.run(train, 1, args=(STEPS,), storage=tmp_path)[0]  # a program that is started again has it all
    assert again[2] == STEPS and flambeau.equal(again[0], found[0][0])
    with pytest.raises(ValueError, match="no such number"):
        cluster.run(fail, 2)


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


def test_a_run_goes_on_when_a_node_dies(nodes, capfd):
    """With one worker, since there is room for no more; no step that was reported is lost or done twice."""
    made, found = nodes
    killed = []

    def watch(rank, metrics):
        if rank == 0 and metrics["step"] == 4 and not killed:
            killed.append(made.remove_node(found.pop(), allow_graceful=False))

    begin = time.monotonic()
    (weight, sizes, began), = cluster.run(train, 2, args=(STEPS, 0.3), on_report=watch, wait=2.0)
    assert flambeau.allclose(weight, alone(), rtol=1e-12) and killed
    assert sizes == [2] * began + [1] * (STEPS - began) and 5 <= began < STEPS
    assert "a worker has died" in capfd.readouterr().err and time.monotonic() - begin < 90


def test_too_few_nodes(nodes):
    with pytest.raises(cluster.RunFailed, match="no place for 2 workers"):
        cluster.run(train, 2, min_workers=2, args=(1,), wait=0.5)
    with pytest.raises(RuntimeError, match="no worker of"):
        cluster.restore()
    with pytest.raises(ValueError, match="min_workers <= workers"):
        cluster.run(train, 1, min_workers=2)
