"""The memory of workers: they do not copy a dataset of Python objects, and sharing never changes an object."""

import gc
import os
import random
import subprocess
import sys
import traceback

import pytest

import flambeau
from flambeau.utils.data._utils import heap

PROGRAM = """
import os, sys, warnings
warnings.simplefilter("ignore")
import flambeau
from flambeau.utils import data
rows, workers = map(int, sys.argv[1:])

class Rows(data.Dataset):
    def __init__(self):
        self.rows = [{"x": float(i), "y": i, "name": f"sample {i}", "box": [i * 1.5, i * 2.5, 1.0 * i]}
                     for i in range(rows)]
    def __len__(self):
        return rows
    def __getitem__(self, index):
        row = self.rows[index]
        return row["x"], row["y"], row["name"], row["box"]

def kilobytes(pid, field):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

loader = data.DataLoader(Rows(), 256, shuffle=True, num_workers=workers, persistent_workers=True)
seen = 0
for x, y, name, box in loader:
    assert x.tolist() == y.tolist() and name[0] == f"sample {y[0]}" and box[0][1].item() == 1.5 * y[1].item()
    seen += len(y)
assert seen == rows
pids = [worker.process.pid for worker in loader._workers.workers]
print(sum(kilobytes(pid, "Pss:") for pid in pids), sum(kilobytes(pid, "Anonymous:") for pid in pids),
      sum(size for _, size in flambeau._C.heap_arenas()) // 1024)
"""


def measured(rows, workers):
    """(summed PSS of the workers, what they have copied or made, the parent's small objects), in KiB."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(rows), str(workers)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def test_workers_do_not_copy_a_list_of_objects():
    _, copied, objects = measured(80_000, 4)
    assert objects > 36 << 10
    assert copied - 4 * (20 << 10) < objects / 3  # 20 MB each for Python and the libraries; copies would be 4 * objects


DECODER = """
import resource, sys
from flambeau.utils import data

class Images(data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        parts = [bytearray(b"x") * 1_000_000 for _ in range(4)]  # from the C library, as a decoder's
        del parts
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

if __name__ == "__main__":
    loader = data.DataLoader(Images(), None, num_workers=int(sys.argv[1]), worker_method=sys.argv[2],
                             multiprocessing_context=sys.argv[3] if len(sys.argv) > 3 else None)
    print(sum(list(loader)[20:]))
"""


@pytest.mark.parametrize("how", [("0", "multiprocessing"), ("2", "multiprocessing"), ("2", "thread"),
                                 ("1", "multiprocessing", "spawn")], ids=" ".join)
def test_memory_that_samples_free_is_kept_for_the_next(how, tmp_path):
    path = tmp_path / "decoder.py"
    path.write_text(DECODER)
    done = subprocess.run([sys.executable, str(path), *how], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2000  # fresh pages for 20 samples; else 800 for each


@pytest.mark.exhaustive
def test_memory_of_8_workers_is_that_of_one():
    one, *_ = measured(1_200_000, 1)
    eight, *_ = measured(1_200_000, 8)
    assert eight <= 1.1 * one, (one, eight)


def _in_child(function):
    """The exit status of a fork that runs `function`."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _changes(objects, expected, seed):
    """Objects are looked at, changed, freed and made while pages are given back, and stay what they should be."""
    draw = random.Random(seed)
    for turn in range(12):
        for _ in range(300):
            k = draw.randrange(len(objects))
            what = draw.randrange(5)
            if what == 0:
                objects[k]["x"] = expected[k] = draw.random()
            elif what == 1:
                objects[k] = {"x": expected[k], "list": [draw.random()] * 3}
            elif what == 2:
                objects[k]["more"] = [str(draw.random())]
            else:
                assert objects[k]["x"] == expected[k]
        if turn % 7 == 3:  # whole arenas go back to the system and come again
            for k in range(len(objects) // 2):
                objects[k] = None
            gc.collect()
            flambeau._C.heap_restore()
            for k in range(len(objects) // 2):
                objects[k] = {"x": expected[k], "list": []}
        flambeau._C.heap_restore()
        assert all(o["x"] == x for o, x in zip(objects, expected))


@pytest.mark.parametrize("seed", range(2))
def test_giving_pages_back_changes_no_object(seed):
    objects = [{"x": float(k), "name": f"{k} of them", "list": [1.0 * k, str(k)]} for k in range(30_000)]
    expected = [o["x"] for o in objects]
    found = heap.Snapshot(flambeau._C.heap_arenas())
    objects[7]["x"] = expected[7] = -1.0  # after the snapshot
    added = [{"late": k} for k in range(1000)]

    def child():
        gc.freeze()
        assert flambeau._C.heap_adopt(found.fd, found.ranges) > 2 << 20
        assert objects[7]["x"] == -1.0 and added[5] == {"late": 5}
        looked = sum(o["x"] for o in objects)
        assert flambeau._C.heap_restore() > 300  # pages that have only been looked at
        assert sum(o["x"] for o in objects) == looked
        _changes(objects, expected, seed)

    assert _in_child(child) == 0
    found.close()
    assert objects[7]["x"] == -1.0 and sum(o["x"] for o in objects) == sum(expected)


def test_memory_that_is_given_back_before_the_fork_is_left_alone():
    """Its addresses are nobody's any more: looking at them would end the worker."""
    program = """
import gc, os
from flambeau import _C
from flambeau.utils.data._utils import heap
objects = [(k,) for k in range(600_000)]
found = heap.Snapshot(_C.heap_arenas())
del objects
gc.collect()
if os.fork() == 0:
    os._exit(0 if _C.heap_adopt(found.fd, found.ranges) > 0 else 1)
print(os.waitstatus_to_exitcode(os.wait()[1]))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0", done.stderr


STRINGS = "[str(k) for k in range(100_000)]"


@pytest.mark.parametrize("dataset, shared", {
    "range(100_000)": False,
    "np.arange(100_000)": False,
    "data.TensorDataset(flambeau.arange(100_000))": False,
    STRINGS: True,
    f"data.Subset({STRINGS}, [1])": True,
    f"np.array({STRINGS}, dtype=object)": True,
    f"data.StackDataset(data.Subset(Mine(1), [0])); others = {STRINGS}": True,  # as methods may read global variables
    "Mine(1).__class__(flambeau.ones(3))": False,
}.items())
def test_objects_are_shared_where_workers_look_at_many(dataset, shared, monkeypatch):
    """Otherwise each loader that starts workers would copy all objects of its program."""
    monkeypatch.setattr(heap, "_LEAST", 1)
    names = {}
    exec("import flambeau, numpy as np\nfrom flambeau.utils import data\nclass Mine(data.Dataset):\n"
         "    def __init__(self, x): self.x = x\n    def __len__(self): return 1\n"
         f"    def __getitem__(self, k): return self.x\ndataset = {dataset}", names)
    for collate in (None, lambda batch: names["dataset"]):
        found = heap.snapshot("fork", *((None, collate) if collate else (names["dataset"], None)))
        assert (found is not None) == shared
        if found:
            found.close()


def test_objects_that_refuse_to_be_looked_at_do_not_stop_a_loader():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("outside of a context")

    assert not heap._many(Proxy(), {1: Proxy()})


def test_no_snapshot_of_a_small_program():
    assert heap.snapshot("spawn") is None
    program = "from flambeau.utils.data._utils import heap; print(heap.snapshot('fork'))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "None\n"
