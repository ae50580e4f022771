"""A processor without AVX2 is refused in words, by the loader's check of what the library is marked to need."""

import platform
import shutil
import subprocess
import sys

import pytest

import flambeau
from flambeau import _C, _processor

HASWELL = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave sse4_2"
NEHALEM = "sse4_2 popcnt xsave"
LOADER = "/usr/lib/flambeau/_C.so: CPU ISA level is lower than required"


def cpuinfo(tmp_path, flags):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: {flags}\n\n"
                    "processor\t: 1\nflags\t\t: x\n")
    return path


def test_says_what_is_missing(tmp_path):
    found = _processor.refusal(ImportError(LOADER), cpuinfo(tmp_path, NEHALEM))
    assert "Some CPU @ 2 GHz lacks AVX, AVX2, BMI1, BMI2, F16C, FMA, ABM, MOVBE." in str(found)
    one = _processor.refusal(ImportError(LOADER), cpuinfo(tmp_path, HASWELL.replace(" f16c", "")))
    assert "lacks F16C." in str(one)


def test_without_facts(tmp_path):
    found = _processor.refusal(ImportError(LOADER), tmp_path / "none")
    assert "this processor lacks some of AVX2" in str(found)


def test_other_failures_stay():
    error = ImportError("libgomp.so.1: cannot open shared object file")
    assert _processor.refusal(error) is error


PROGRAM = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "flambeau._C":
            raise ImportError({LOADER!r})
sys.meta_path.insert(0, Refuse())
import flambeau
"""


def test_import_is_refused():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: flambeau needs a processor with AVX2" in done.stderr


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 alone has these levels")
def test_library_is_marked():
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed")
    notes = subprocess.run(["readelf", "-n", _C.__file__], capture_output=True, text=True, check=True).stdout
    assert "x86 ISA needed: x86-64-v3" in notes.replace("x86-64-baseline, x86-64-v2, x86-64-v3", "x86-64-v3"), notes


def test_capability_is_known():
    assert flambeau.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
