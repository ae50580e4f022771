"""What the library keeps for reuse: it is bounded, shown by memory.stats(), and given back by empty_cache()."""

import gc
import subprocess
import sys

import flambeau

MOST = 1 << 14  # objects of each kind


def kept():
    return flambeau.memory.stats()["free_objects"]


def test_kinds_are_shown():
    assert {"tensors", "nodes", "storages", "scopes"} <= kept().keys()
    stats = flambeau.memory.stats()
    assert stats["free_object_bytes"] > 0 and all(count >= 0 for count in stats["free_objects"].values())


def test_objects_are_kept_and_given_back():
    flambeau.memory.empty_cache()
    assert not any(kept().values()) and flambeau.memory.stats()["free_object_bytes"] == 0
    x = [flambeau.ones(2, requires_grad=True) * 2 for _ in range(100)]
    del x
    found = kept()
    assert found["tensors"] >= 200 and found["nodes"] >= 100 and found["storages"] >= 200
    assert flambeau.memory.stats()["free_object_bytes"] >= 200 * 200
    flambeau.memory.empty_cache()
    assert not any(kept().values())
    assert (flambeau.ones(3, requires_grad=True) * 2).sum().item() == 6  # and the library goes on


def test_free_lists_are_bounded():
    x = flambeau.ones(1, requires_grad=True)
    y = x
    for _ in range(2 * MOST):
        y = y * 1
    del y
    many = [flambeau.ones(1) for _ in range(2 * MOST)]
    del many
    gc.collect()
    assert all(count <= MOST for count in kept().values())
    assert kept()["nodes"] == kept()["tensors"] == kept()["storages"] == MOST


def test_objects_are_used_again():
    flambeau.memory.empty_cache()
    x = flambeau.ones(2)
    del x
    before = kept()["tensors"]
    x = flambeau.ones(2)
    assert kept()["tensors"] < before
    del x


def test_scopes_are_kept():
    flambeau.memory.empty_cache()
    m = flambeau.nn.Linear(2, 2)
    y = m(flambeau.ones(2))
    del y
    assert kept()["scopes"] >= 1


MILLION = """
import flambeau, os
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
flambeau.ones(2) + 1
before = resident()
many = [flambeau.ones(1) for _ in range(400_000)]
top = resident()
del many
flambeau.memory.empty_cache()
print(before, top, resident())
"""


def test_memory_goes_back_to_the_system():
    """After a peak of many small tensors, most of their memory is the system's again."""
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True, check=True)
    before, top, after = map(int, done.stdout.split())
    assert after - before < (top - before) / 3, (before, top, after)
