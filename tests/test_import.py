"""What `import flambeau` costs: processor time, modules, memory."""

import json
import subprocess
import sys

import pytest

PROGRAM = """\
import json, sys, time
before = set(sys.modules)
start = time.process_time()
import flambeau
seconds = time.process_time() - start
rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(json.dumps({"seconds": seconds, "rss": rss / 1024, "modules": sorted(set(sys.modules) - before)}))
"""


def measure():
    found = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, check=True)
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def imported():
    measure()  # byte code is written, files are in the cache
    return min((measure() for _ in range(5)), key=lambda m: m["seconds"])


@pytest.mark.parametrize("module", ["numpy", "scipy", "matplotlib", "tqdm", "inspect", "dataclasses", "asyncio",
                                    "multiprocessing", "unittest", "typing_extensions", "linecache",
                                    "importlib.metadata", "email", "pathlib", "typing", "ctypes", "zipfile",
                                    "flambeau.debug", "flambeau._settings", "flambeau.cli"])
def test_modules_that_are_not_loaded(imported, module):
    assert module not in imported["modules"]


def test_import_is_short(imported):
    """0.15 s of processor time on a quiet machine; the workers beside this one may double it."""
    assert imported["seconds"] < 0.3


def test_resident_memory(imported):
    assert imported["rss"] < 60, f"{imported['rss']:.1f} MB resident after import"


def test_every_operator_is_defined_at_import():
    program = "import flambeau, sys; from flambeau.ops.kinds import OPS; print(len(OPS))"
    found = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert int(found.stdout) > 300


def test_a_name_that_is_loaded_when_first_used_is_kept():
    program = "import flambeau; assert 'vmap' not in vars(flambeau); flambeau.vmap; assert 'vmap' in vars(flambeau)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
