"""The same laws under mpiexec, over MPI and over shared memory; needs mpi4py and mpiexec beside this Python."""

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
import sys
import flambeau, flambeau.distributed as dist
from tests.distributed import test_collectives as calls, test_messages as messages, test_meshes as meshes
flambeau.set_num_threads(1)
dist.init_process_group(sys.argv[1])
assert dist.get_backend() == sys.argv[2] and dist.get_world_size() == 4
assert type(dist.group.WORLD.engine).__name__ == {"mpi": "MPIEngine", "gloo": "SharedMemoryEngine"}[sys.argv[2]]
for name in ("odd", "3", "4"):
    calls.check_moves(name)
    assert calls.check_uneven(name)
    for op in (*calls.OPS, "AVG"):
        calls.check_reductions(name, op)
x = flambeau.randn(2_049)
dist.all_reduce(x)
every = dist._functional_collectives.all_gather_tensor(x, 0, dist.group.WORLD)
assert all((each == x).all() for each in every.chunk(4))
assert calls.check_halves() and calls.check_premul() == [5.0] * 3
assert calls.check_async()[1:4] == ([True] * 3, [[6.0]] * 3, 6000.0)
calls.check_objects()
assert all(messages.ring()) and messages.batch(300_000) and messages.strides_and_dtypes() and messages.meanwhile()
assert messages.tags() == ([3.0, 1.0, 4.0, 2.0] if dist.get_rank() == 1 else None)
assert messages.anyone() == ([1, 2, 3] if dist.get_rank() == 0 else None)
assert all(meshes.new_tensors().values())
dist.monitored_barrier()
dist.destroy_process_group()
print("fine", flush=True)
"""


def mpiexec():
    beside = Path(PYTHON).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    known = subprocess.run([PYTHON, "-c", "import mpi4py"], capture_output=True, check=False).returncode == 0
    if found is None or not known:
        pytest.skip("mpi4py and mpiexec are not installed")
    return found


def under_mpiexec(count, program, *arguments):
    places = [str(Path(flambeau.__file__).parents[1]), str(ROOT), str(Path(pytest.__file__).parents[1])]
    return subprocess.run([mpiexec(), "-n", str(count), PYTHON, "-c", program, *arguments], capture_output=True,
                          text=True, timeout=120, check=False, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"})


@pytest.mark.parametrize("backend", ["mpi", "gloo"])
def test_laws_under_mpiexec(backend):
    done = under_mpiexec(4, PROGRAM, backend, backend)
    assert done.stdout.count("fine") == 4 and done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("backend", ["mpi", "gloo"])
def test_an_exception_ends_all(backend):
    done = under_mpiexec(2, """
import sys, flambeau, flambeau.distributed as dist
dist.init_process_group(sys.argv[1])
if dist.get_rank() == 1:
    raise SystemError("of rank 1")
dist.barrier()
""", backend)
    assert done.returncode != 0 and "SystemError: of rank 1" in done.stderr
