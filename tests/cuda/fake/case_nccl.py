"""The engine for NCCL on flambeau.cuda's own streams, events and memory; the library is the tests' (distributed/)."""

import os
import subprocess
import sys
from pathlib import Path

import flambeau

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import flambeau as fb
import flambeau.distributed as dist
from flambeau import cuda
from flambeau.cuda import _plans
from flambeau.distributed import _nccl
from tests.cuda.fake import Kernels, driver
from tests.distributed.test_nccl import Cuda, Immediate

library, meet, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
kernels = Kernels()
_plans.kernels = lambda: kernels
Immediate.cuda = Cuda(library)  # it alone knows when the fake library is done with a stream
_nccl.Communicator, _nccl.find = Immediate, lambda: library
driver().expose(1)
cuda.set_device(rank)
dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{meet}/meet", rank=rank, world_size=2)
engine = dist.group.WORLD.engines["cuda"]
assert engine.cuda is cuda and engine.device() == fb.device("cuda", rank)

def mine(*values):
    return fb.tensor(values).cuda()

x = mine(1.0 + rank, 2.0)
assert x.device == fb.device("cuda", rank)
dist.all_reduce(x)
assert x.cpu().tolist() == [3, 4]
assert isinstance(engine._side, cuda.Stream) and engine._side != cuda.current_stream()
work = dist.broadcast(x, 1, async_op=True)
assert isinstance(work.event, cuda.Event) and work.event.cuda_event and work.event.device == x.device
work.wait()
work.synchronize()
assert work.is_completed() and work.event.query() and cuda.current_stream() == cuda.default_stream()
other = cuda.Stream()
with cuda.stream(other):  # a program's own stream, which the engine's waits for
    y = mine(float(rank), 5.0)
    whole = fb.empty(4, device=y.device)
    dist.all_gather_into_tensor(whole, y)
    assert cuda.current_stream() == other
assert whole.cpu().tolist() == [0, 5, 1, 5]
a, b, part = mine(1.0), mine(2.0 * rank), fb.empty(2, device=x.device)
with dist._coalescing_manager(async_ops=True, device=x.device) as manager:
    dist.all_reduce(a)
    dist.all_reduce(b)
    dist.reduce_scatter_tensor(part, whole)
manager.wait()
assert a.item() == 2 and b.item() == 2 and part.cpu().tolist() == ([0, 10], [2, 10])[rank]
got = fb.empty(2, device=x.device)
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, y, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)])
for each in works:
    each.wait()
assert got.cpu().tolist() == [1 - rank, 5]
dist.barrier()
z = fb.ones(3)  # of the CPU: the other engine
dist.all_reduce(z)
assert z.tolist() == [2, 2, 2]
cuda.synchronize()
dist.destroy_process_group()
print("fine")
"""


def test_collectives_on_streams(tmp_path):
    library = tmp_path / "libnccl.so.2"
    subprocess.run(["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-pthread", "-o", library,
                    ROOT / "tests/distributed/fake_nccl.cpp"], check=True)
    places = os.pathsep.join([str(Path(flambeau.__file__).parents[1]), str(ROOT)])
    ranks = [subprocess.Popen([sys.executable, "-c", PROGRAM, library, tmp_path, str(rank)], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": places, "TMPDIR": str(tmp_path)}) for rank in (0, 1)]
    for process in ranks:
        out, err = process.communicate(timeout=60)
        assert out == "fine\n", err[-3000:]
