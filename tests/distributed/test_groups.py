"""Groups: how they begin, what they answer, and what is refused."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.multiprocessing as mp
from flambeau.utils.data import DistributedSampler

from .pool import free_port

SOURCES = str(Path(flambeau.__file__).resolve().parents[1])


@pytest.fixture
def alone():
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def answers():
    pair, every = dist.new_subgroups(2)
    local = dist.new_group([dist.get_rank(), (dist.get_rank() + 2) % 4], use_local_synchronization=True)
    back = dist.new_group([2, 0], sort_ranks=False)
    x = flambeau.ones(1)
    dist.all_reduce(x, group=pair)
    dist.all_reduce(x, group=local)
    outside = dist.get_rank(every[1 - dist.get_rank() // 2])
    ordered = dist.get_process_group_ranks(back) if dist.get_rank() in (0, 2) else None
    dist.monitored_barrier()
    return (dist.get_rank(), dist.get_world_size(), dist.get_rank(pair), dist.get_process_group_ranks(pair),
            dist.get_global_rank(pair, 1), outside, x.item(), dist.get_backend(), ordered)


def outside_of_a_group():
    group = dist.new_group([1])
    x = flambeau.ones(1)
    if dist.get_rank() == 1:
        dist.all_reduce(x, group=group)
        return True
    with pytest.warns(UserWarning, match=f"all_reduce: rank {dist.get_rank()} is not in this group"):
        return dist.all_reduce(x, group=group) is None and dist.get_world_size(group) == -1


def sampled():
    return list(DistributedSampler(range(10), shuffle=False))


def again():
    """A group may be ended and made anew in the same processes, at the same address."""
    rank, found = dist.get_rank(), []
    dist.destroy_process_group()
    for _ in range(3):
        dist.init_process_group("gloo", init_method=f"tcp://localhost:{os.environ['AGAIN']}", rank=rank, world_size=4)
        x = flambeau.ones(1)
        dist.all_reduce(x)
        found.append(x.item())
        dist.destroy_process_group()
    return found


def test_what_groups_answer(ranks):
    for me, found in enumerate(ranks.run(answers)):
        first = me // 2 * 2
        assert found == (me, 4, me % 2, [first, first + 1], first + 1, -1, 4.0, "gloo",
                         [2, 0] if me in (0, 2) else None)
    assert ranks.run(outside_of_a_group) == [True] * 4


def anew_by_themselves():
    """A group that its ranks alone make, end, and make again."""
    found = []
    for _ in range(3):
        group = dist.new_group([dist.get_rank() // 2 * 2, dist.get_rank() // 2 * 2 + 1], use_local_synchronization=True)
        x = flambeau.ones(1)
        dist.all_reduce(x, group=group)
        dist.barrier(group)
        dist.destroy_process_group(group)
        found.append(x.item())
    return found


def test_a_group_of_a_few_may_be_made_anew(ranks):
    assert ranks.run(anew_by_themselves) == [[2.0] * 3] * 4


def test_sampler_asks_the_group(ranks):
    assert ranks.run(sampled) == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]


def test_groups_may_be_made_anew(few, monkeypatch):
    monkeypatch.setenv("AGAIN", str(free_port()))
    assert few(4).run(again) == [[4.0] * 3] * 4


def _in_file(rank, path):
    dist.init_process_group(init_method=f"file://{path}", rank=rank, world_size=2, timeout=timedelta(seconds=20))
    x = flambeau.full((3,), rank + 1.0)
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 3
    dist.destroy_process_group()


def test_by_a_file_which_is_gone_afterwards(tmp_path):
    mp.spawn(_in_file, (str(tmp_path / "meet"),), 2, start_method="fork")
    assert not list(tmp_path.iterdir())


def _in_environment(rank, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("cpu:gloo,cuda:nccl")
    x = flambeau.full((3,), rank + 1.0)
    dist.broadcast(x, 1)
    assert x.tolist() == [2.0] * 3 and dist.get_backend() == "gloo"


def test_by_the_environment():
    mp.spawn(_in_environment, (free_port(),), 2, start_method="fork")


def test_mp_spawn_as_programs_do_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""
import os
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "{free_port()}"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    x = torch.tensor([rank + 1.0])
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    assert x.item() == 3 and type(dist.group.WORLD) is dist.ProcessGroup
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2, join=True)
    print("fine")
""")
    done = subprocess.run([sys.executable, "-m", "flambeau.as_torch", str(program)], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": SOURCES}, check=False)
    assert done.stdout == "fine\n", done.stderr[-2000:]


# --- refusals ---------------------------------------------------------------------------------------------------------

def test_beginning_is_checked(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"RANK is expected.*flambeau launch"):
        dist.init_process_group()
    monkeypatch.setenv("RANK", "x")
    with pytest.raises(ValueError, match=r"RANK is 'x'"):
        dist.init_process_group()
    with pytest.raises(ValueError, match=r"abacus://.*env://, file://, tcp://"):
        dist.init_process_group(init_method="abacus://x")
    with pytest.raises(ValueError, match=r"needs rank"):
        dist.init_process_group(init_method="tcp://localhost:1")
    with pytest.raises(ValueError, match=r"'abacus'.*gloo"):
        dist.init_process_group("abacus")
    with pytest.raises(RuntimeError, match=r'"nccl" needs.*pip install.*"gloo"'):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match=r"rank 2 and world_size 2"):
        dist.init_process_group(store=dist.HashStore(), rank=2, world_size=2)
    assert not dist.is_initialized()


def test_arguments_are_checked(alone):
    x = flambeau.ones(3)
    for call, error, text in [
        (lambda: dist.all_reduce([x]), TypeError, "all_reduce: tensor must be a Tensor, got list"),
        (lambda: dist.all_reduce(x, "sum"), TypeError, "all_reduce: op must be one of distributed.ReduceOp.*'sum'"),
        (lambda: dist.all_reduce(x, dist.ReduceOp.BAND), TypeError, "all_reduce: BAND is not defined.*float32"),
        (lambda: dist.all_reduce(x, dist.ReduceOp.PREMUL_SUM), ValueError, "PREMUL_SUM needs a factor"),
        (lambda: dist.all_reduce(x.to("meta")), RuntimeError, "device meta"),
        (lambda: dist.broadcast(x.to_sparse(), 0), NotImplementedError, "to_dense"),
        (lambda: dist.broadcast(x, 3), ValueError, r"broadcast: rank 3 is not in the group of ranks 0"),
        (lambda: dist.broadcast(x), ValueError, "give either src or group_src, got neither"),
        (lambda: dist.all_gather([], x), ValueError, "tensor for each of the 1 ranks, got 0"),
        (lambda: dist.all_gather([x.double()], x), ValueError, "expected the size and dtype"),
        (lambda: dist.all_gather_into_tensor(x, flambeau.ones(2)), ValueError, "needs 2 elements"),
        (lambda: dist.all_to_all_single(x, x, [2], [3]), ValueError, "output_split_sizes"),
        (lambda: dist.send(x, 0), ValueError, "this rank itself"),
        (lambda: dist.batch_isend_irecv([]), ValueError, "at least one"),
        (lambda: dist.new_group([0, 5]), RuntimeError, "there are ranks 0 to 0, got 5"),
        (lambda: dist.new_group([0, 0]), RuntimeError, "different ranks"),
        (lambda: dist.new_subgroups(3), ValueError, "groups of 3"),
        (lambda: dist.init_process_group(), ValueError, "there is a group already"),
        (lambda: dist.all_reduce(x, group="all"), TypeError, "expected a ProcessGroup or None, got str"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_a_destroyed_group_is_refused(alone):
    group = dist.new_group([0])
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match=r"has been destroyed"):
        dist.barrier(group)
    dist.destroy_process_group()
    for name in ("get_rank", "get_world_size", "get_backend", "barrier"):
        with pytest.raises(ValueError, match=f"{name}: there is no group.*init_process_group"):
            getattr(dist, name)()
    with pytest.raises(ValueError, match=r"DistributedSampler: there is no process group.*num_replicas"):
        DistributedSampler(range(3))
