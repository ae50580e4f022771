"""save in a process that is killed at, or fails in, any of its system calls: the old file or the new one, no others."""

import re
import shutil
import subprocess
import sys

import pytest

from .conftest import HERE
from .sandbox import ROOT

if shutil.which("gcc") is None or sys.platform != "linux":
    pytest.skip("gcc and Linux are needed", allow_module_level=True)


@pytest.fixture(scope="module")
def injector(tmp_path_factory):
    library = tmp_path_factory.mktemp("injector") / "injector.so"
    made = subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "injector.c")],
                          text=True, capture_output=True, check=False)
    if made.returncode and "the registers of this processor" in made.stderr:
        pytest.skip("the injector does not know this processor")
    assert made.returncode == 0, made.stderr
    return library


def injected(library, folder, step):
    """(injections, kinds of system calls, how many left the old file, and the new one)."""
    found = subprocess.run([sys.executable, "-m", "tests.serialization.crash", str(library), str(folder), str(step)],
                           cwd=ROOT, text=True, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    print(found.stdout)
    return map(int, re.match(r"(\d+) injections into (\d+) kinds .*: (\d+) left .* (\d+) the", found.stdout).groups())


def test_every_system_call_may_fail_or_be_the_last(injector, tmp_path):
    """One injection in 97, so that every case, call and way of failing is met somewhere."""
    count, kinds, old, new = injected(injector, tmp_path, 97)
    assert count > 70 and kinds > 8 and old > 30 and new > 20, "the injections have lost their aim"


@pytest.mark.exhaustive
def test_ten_thousand_injections(injector, tmp_path):
    count, *_ = injected(injector, tmp_path, 1)
    assert count >= 10_000
