"""A processor without AVX2 is refused in words, by the loader's check of what the library is marked to need."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
from pathlib import Path
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


x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 alone has these levels")


def said(*command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@x86
def test_library_is_marked():
    notes = said("readelf", "-n", _C.__file__)
    assert "x86 ISA needed: x86-64-v3" in notes.replace("x86-64-baseline, x86-64-v2, x86-64-v3", "x86-64-v3"), notes


def test_capability_is_known():
    assert flambeau.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def capability(asked):
    """What the library takes under this variable, and what it says on standard error."""
    program = "import flambeau; print(flambeau.backends.cpu.get_cpu_capability())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env=os.environ | {"ATEN_CPU_CAPABILITY": asked})
    return done.stdout.strip(), done.stderr


@x86
def test_the_environment_keeps_to_avx2():
    assert capability("avx2") == capability("default") == ("AVX2", "")


@pytest.mark.skipif(flambeau.backends.cpu.get_cpu_capability() != "AVX512", reason="the processor decides")
def test_the_environment_asks_for_what_there_is():
    assert capability("avx512") == ("AVX512", "")
    found, message = capability("avx9")
    assert found == "AVX512" and 'ATEN_CPU_CAPABILITY is "avx9"' in message


@x86
def test_no_wider_instruction_runs_while_the_library_is_loaded():
    """What registers loops of AVX-512 is compiled like them, and runs on every processor: of its instructions none may
    begin with the byte that theirs begin with."""
    sections = said("readelf", "-SW", _C.__file__)
    first, size = (int(n, 16) for n in re.search(r"\.init_array +INIT_ARRAY +(\w+) \w+ (\w+)", sections).groups())
    moved = re.findall(r"^([0-9a-f]+) .*R_X86_64_RELATIV\w* +([0-9a-f]+)$", said("readelf", "-rW", _C.__file__), re.M)
    begin = sorted(int(to, 16) for at, to in moved if first <= int(at, 16) < first + size)
    assert len(begin) > 100
    listed = said("objdump", "-d", f"--start-address={begin[0]}", f"--stop-address={begin[-1] + 4096}", _C.__file__)
    lines = re.findall(r"^ +([0-9a-f]+):\t([0-9a-f ]+)\t(.*)$", listed, re.M)
    end = next(int(at, 16) for at, _, text in lines if int(at, 16) > begin[-1] and text.startswith(("ret", "jmp")))
    assert [text for at, code, text in lines if int(at, 16) <= end and code.startswith("62 ")] == []


@x86
def test_a_processor_without_wider_instructions():
    """Valgrind is one: its processor has AVX2 and stops at what it does not have."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    program = ("import flambeau as torch; x = torch.randn(9, 40, requires_grad=True); "
               "y = torch.nn.functional.layer_norm((x @ x.T).softmax(1).exp(), (9,)); y.square().sum().backward(); "
               "print(torch.backends.cpu.get_cpu_capability(), bool(x.grad.isfinite().all()))")
    done = subprocess.run(["valgrind", "--tool=none", "-q", sys.executable, "-c", program], capture_output=True,
                          text=True, check=False)
    assert done.stdout == "AVX2 True\n", done.stderr


@x86
@pytest.mark.exhaustive
@pytest.mark.skipif(flambeau.backends.cpu.get_cpu_capability() != "AVX512", reason="the other tests say it")
def test_operators_with_avx2():
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", folder / "ops", folder / "nn"], capture_output=True,
                          text=True, check=False,
                          env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"})
    assert done.returncode == 0, done.stdout[-4000:]
