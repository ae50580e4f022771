"""`flambeau doctor`: what is said of a program, a folder, an installed package; and that nothing of it runs."""

import json

import pytest

import flambeau
from flambeau.as_torch._differences import METHODS, _rows, difference, instead

PROGRAM = """
raise SystemExit("this program was run")
import torch
from torch import nn
import torchtext
torch.set_float32_matmul_precision("high")
model = nn.Linear(2, 3)
torch.distributed.get_backend_impl(torch.ones(2))
torch.no_such_function(model)
torch.no_such_function(model)
try:
    from torch import no_such_name
except ImportError:
    pass
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_a_report_says_the_worst_first(run, program):
    code, out, err = run("doctor", program)
    assert code == 1 and not err
    lines = out.splitlines()
    assert lines[0] == f"{program}: 9 names of PyTorch, used 10 times in 1 file"
    assert lines[1] == "  2 missing, 1 refuse, 1 missing (expected), 1 differ, 4 as in PyTorch"
    assert [line for line in lines if line and not line.startswith(" ")][1:] == [
        "missing: the program stops where it uses one", "refuse: calling one raises an error", "differ",
        "--all lists every name, --json all of it as data"]
    assert f"    torch.no_such_function  {program}:9 and 1 time more" in lines
    assert "torch.nn.Linear" not in out and "no_such_name" not in out
    assert "is computed" not in out and "large products take 16 bits" in out
    code, out, _ = run("doctor", program, "--all")
    assert code == 1 and "torch.nn.Linear" in out and "no_such_name" in out


def test_data(run, program):
    code, out, _ = run("doctor", program, "--json")
    data = json.loads(out)
    assert code == 1 and data["files"] == 1 and data["unread"] == {}
    assert data["counts"] == {"missing": 2, "refuses": 1, "expected": 1, "differs": 1, "here": 4}
    states = {each["name"]: each["state"] for each in data["names"]}
    assert states["torch.distributed.get_backend_impl"] == "refuses" and states["torchtext"] == "missing"
    found, = (each for each in data["names"] if each["name"] == "torch.no_such_function")
    assert found["uses"] == [{"file": str(program), "line": 9}, {"file": str(program), "line": 10}]


def test_a_program_without_difficulties(run, tmp_path):
    file = tmp_path / "good.py"
    file.write_text("import torch\nx = torch.ones(2)\nx.a_name_of_its_own = x.sum()")
    code, out, _ = run("doctor", file)
    assert code == 0 and "3 as in PyTorch: nothing stands in its way" in out


def test_a_folder_and_a_file_that_is_no_python(run, program, tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "a.py").write_text("import torch.nn.functional as F\nF.relu")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "b.py").write_text("import torch\ntorch.not_seen")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    code, out, _ = run("doctor", tmp_path)
    assert code == 1 and "in 3 files" in out and "not_seen" not in out
    assert f"not read: {tmp_path / 'wrong.py'}: line 1: " in out and "program.py:9" in out


def test_an_installed_package_is_found_and_not_imported(run, tmp_path, monkeypatch):
    package = tmp_path / "package_for_doctor" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "__init__.py").write_text("import torch\ntorch.ones")
    (package / "one.py").write_text("import torch\ntorch.zeros")
    monkeypatch.syspath_prepend(tmp_path)
    for name, files in (("package_for_doctor", "3 files"), ("package_for_doctor.inner", "2 files"),
                        ("package_for_doctor.inner.one", "1 file")):
        code, out, _ = run("doctor", name)
        assert code == 0 and f"in {files}\n" in out


@pytest.mark.parametrize("target", ["no_such_package", "no/such/folder", "json.no_such_module", "a-b.c"])
def test_what_is_not_there(refused, target):
    assert target in refused("doctor", target)


def test_a_script_that_is_no_python(refused, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text("x = = 3")
    assert "cannot be read: line 1: " in refused("doctor", file)
    (tmp_path / "empty").mkdir()
    assert "no Python files" in refused("doctor", tmp_path / "empty")


def test_every_difference_is_of_a_name_that_is_here(run, tmp_path):
    """And refuses none: a name that refuses carries its own reason."""
    names = [name for name, _ in _rows() if not name.endswith(".*")]
    file = tmp_path / "all.py"
    file.write_text("import torch\n" + "\n".join(names))
    _, out, _ = run("doctor", file, "--json")
    wrong = [each for each in json.loads(out)["names"] if each["state"] != "differs" and each["name"] != "torch"]
    assert wrong == []


def test_advice():
    assert difference("torch.ones") is None
    assert difference("torch.backends.cudnn.benchmark") == difference("torch.backends.cudnn.deterministic") is not None
    assert "torchvision" in instead("torchvision.models") and instead("torch._x") != instead("torch.x")
    assert all(hasattr(flambeau.Tensor, name) for name in METHODS)
