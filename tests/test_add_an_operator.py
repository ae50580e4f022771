"""The worked chapter of CONTRIBUTING.md: what it shows is what stands in examples/, and that builds and runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau import _C

TOP = Path(__file__).parent.parent
EXAMPLE = TOP / "examples" / "add_an_operator"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def blocks():
    """{file name: text} of the chapter's code blocks that name a file of the example."""
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return dict(re.findall(r"`examples/add_an_operator/([\w.]+)`:?\n+```\w+\n(.*?)```", text, re.DOTALL))


def test_the_chapter_shows_the_files():
    shown = blocks()
    assert set(shown) >= {"smoothstep.cpp", "records.py"}
    for name, text in shown.items():
        assert text in (EXAMPLE / name).read_text(encoding="utf-8"), name


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_the_example_builds_and_runs(tmp_path):
    library = tmp_path / "smoothstep.so"
    flags = "-std=c++20 -O2 -fPIC -shared -fvisibility=hidden -DFLAMBEAU_SIMD=baseline -DFLAMBEAU_LEVEL=0".split()
    if os.uname().machine == "x86_64":
        flags += ["-mavx2", "-mfma", "-mf16c"]
    build = subprocess.run([COMPILER, *flags, f"-I{TOP}/native/kernels/simd", str(EXAMPLE / "smoothstep.cpp"),
                            _C.__file__, "-o", str(library)], capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    trial = subprocess.run([sys.executable, str(EXAMPLE / "try_it.py"), str(library)], capture_output=True, text=True)
    assert trial.returncode == 0, trial.stderr
    assert trial.stdout == "smoothstep and rescale work\n"
