"""The same laws under mpiexec, over MPI and over shared memory; needs mpi4py and mpiexec beside this Python."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

#: a Python that has mpi4py, and mpiexec beside it
PYTHON = os.environ.get("FLAMBEAU_MPI_PYTHON", sys.executable)
ROOT = Path(__file__).parents[2]
PROGRAM = """
import flambeau, flambeau.distributed as dist
from tests.distributed import test_collectives as calls, test_messages as messages, test_meshes as meshes

flambeau.set_num_threads(1)
ENGINES = {"mpi": "MPIEngine", "gloo": "SharedMemoryEngine"}

def laws(backend, names):
    dist.init_process_group(backend)
    assert dist.get_backend() == backend and dist.get_world_size() == 4
    assert type(dist.group.WORLD.engine).__name__ == ENGINES[backend]
    calls.group.cache_clear()
    for name in names:
        calls.check_moves(name)
        assert calls.check_uneven(name)
        for op in (*calls.OPS, "AVG") if backend == "mpi" else ["SUM"]:
            calls.check_reductions(name, op)
    calls.check_reductions("3", "SUM")  # no power of two, as MPI's ways to add like it
    x = flambeau.randn(2_049)
    dist.all_reduce(x)
    every = dist._functional_collectives.all_gather_tensor(x, 0, dist.group.WORLD)
    assert all((each == x).all() for each in every.chunk(4))
    assert calls.check_halves() and calls.check_premul() == [5.0] * 3
    assert calls.check_async()[1:4] == ([True] * 3, [[6.0]] * 3, 6000.0)
    assert calls.check_managed()
    calls.check_objects()
    assert all(messages.ring()) and messages.batch(300_000) and messages.strides_and_dtypes() and messages.meanwhile()
    assert messages.tags() == ([3.0, 1.0, 4.0, 2.0] if dist.get_rank() == 1 else None)
    assert messages.anyone() == ([1, 2, 3] if dist.get_rank() == 0 else None)
    assert all(meshes.new_tensors().values())
    dist.monitored_barrier()
    dist.destroy_process_group()
    print(f"{backend}: fine", flush=True)

laws("mpi", ["odd", "4"])
laws("gloo", ["odd"])  # shared memory as always: what differs is how the ranks meet
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise SystemError("of rank 1")
dist.barrier()
"""


@functools.cache
def mpiexec():
    beside = Path(PYTHON).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    known = subprocess.run([PYTHON, "-c", "import mpi4py"], capture_output=True, check=False).returncode == 0
    if found is None or not known:
        pytest.skip("mpi4py and mpiexec are not installed")
    return found


def under_mpiexec(count, program):
    places = [str(Path(flambeau.__file__).parents[1]), str(ROOT), str(Path(pytest.__file__).parents[1])]
    return subprocess.run([mpiexec(), "-n", str(count), PYTHON, "-c", program], capture_output=True, text=True,
                          timeout=120, check=False, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"})


def test_laws_under_mpiexec():
    """With both engines in one launch, which ends with an exception."""
    done = under_mpiexec(4, PROGRAM)
    assert [done.stdout.count(f"{name}: fine") for name in ("mpi", "gloo")] == [4, 4], done.stderr[-3000:]
    assert done.returncode != 0 and "SystemError: of rank 1" in done.stderr


def test_an_exception_ends_all():
    done = under_mpiexec(2, """
import flambeau.distributed as dist
dist.init_process_group("mpi")
if dist.get_rank() == 1:
    raise SystemError("of rank 1")
dist.barrier()
""")
    assert done.returncode != 0 and "SystemError: of rank 1" in done.stderr
