"""A process of PyTorch's: what `import torch` gives there, in its children too, however it was started."""

import os
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import flambeau
from flambeau import as_torch

SOURCE = str(Path(flambeau.__file__).resolve().parent.parent)


def python(*arguments, text=None, folder=None, check=True, **environment):
    """What `python ARGUMENTS` prints; only this library's own folder is on its path."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True, cwd=folder,
                          env={**variables, "PYTHONPATH": SOURCE, **environment}, timeout=100)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if check else done


def served(code, *arguments):
    return python("-m", "flambeau.as_torch", "-c", code, *arguments)


WHICH = "import torch; print(torch.nn.Linear is __import__('flambeau').nn.Linear)"


@pytest.mark.parametrize("start", [["-m", "flambeau.as_torch"], ["-m", "flambeau", "run"]], ids=["module", "command"])
def test_scripts_modules_code_and_prompts(start, tmp_path):
    (tmp_path / "program.py").write_text(WHICH + "; import sys; print(__name__, sys.argv[1:])")
    assert python(*start, "program.py", "-x", "--help", folder=tmp_path) == "True\n__main__ ['-x', '--help']"
    assert python(*start, "-m", "program", "1", folder=tmp_path) == "True\n__main__ ['1']"
    assert python(*start, "-c", WHICH) == "True"
    assert python("-m", "flambeau.as_torch", text=WHICH) == "True"


def test_a_failing_program_fails_as_itself(tmp_path):
    (tmp_path / "program.py").write_text("import torch\nraise SystemExit(7)")
    assert python("-m", "flambeau", "run", "program.py", folder=tmp_path, check=False).returncode == 7
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(2) + torch.ones(3)")
    done = python("-m", "flambeau.as_torch", "program.py", folder=tmp_path, check=False)
    assert done.returncode == 1 and "as_torch" not in done.stderr.partition("torch.ones(2)")[0]


def test_a_folder_on_the_path_serves_torch():
    path = python("-m", "flambeau.as_torch", "--path")
    assert path == as_torch.PATH
    assert python("-c", WHICH, PYTHONPATH=os.pathsep.join([SOURCE, path])) == "True"


def test_install_serves_what_is_imported_later():
    code = f"import flambeau; from flambeau import as_torch; {{}}; as_torch.install(); as_torch.install(); {WHICH}"
    assert python("-c", code.format("assert not as_torch.installed()")) == "True"


def test_install_does_not_replace_a_torch_that_is_there(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = "import torch; from flambeau.as_torch import install; install()"
    done = python("-c", code, folder=tmp_path, check=False)
    assert f"torch has been imported already, from {tmp_path}" in done.stderr


def test_another_torch_is_not_seen(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('the other')")
    assert python("-m", "flambeau.as_torch", "-c", WHICH, PYTHONPATH=os.pathsep.join([SOURCE, str(tmp_path)])) == "True"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_are_served_too(method, tmp_path):
    (tmp_path / "program.py").write_text(f"""
import subprocess, sys
import torch.multiprocessing as mp
def work(queue):
    import torch
    queue.put((type(torch).__name__, torch.ones(2)))
if __name__ == "__main__":
    context = mp.get_context({method!r})
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(subprocess.run([sys.executable, "-c", {WHICH!r}], capture_output=True, text=True).stdout)
""")
    assert python("-m", "flambeau.as_torch", "program.py", folder=tmp_path) == "('Torch', tensor([1., 1.]))\nTrue"


def test_modules_are_ours_wherever_pytorch_keeps_them():
    code = """
import torch.nn as nn
from torch.nn.modules import instancenorm
from torch.nn.modules.instancenorm import InstanceNorm2d
from torch.nn.modules.activation import MultiheadAttention
import torch.optim.adamw, torch.functional, torch.utils.data.dataloader, torch.distributions.normal
print(InstanceNorm2d is nn.InstanceNorm2d is instancenorm.InstanceNorm2d, MultiheadAttention is nn.MultiheadAttention,
      torch.optim.adamw.AdamW is torch.optim.AdamW, torch.functional.einsum is torch.einsum,
      torch.utils.data.dataloader.DataLoader is torch.utils.data.DataLoader)
"""
    assert served(code) == "True True True True True"


def test_modules_below_a_module_are_there_without_their_import():
    code = """
import torch
print(torch.nn.quantized.FloatFunctional is torch.ao.nn.quantized.FloatFunctional, torch.functional.norm is torch.norm,
      torch.cuda.random.seed is torch.cuda.seed, torch._C.Graph.__name__, hasattr(torch.nn, "nonsense"))
import torch.nn
print(torch.nn.modules.instancenorm.InstanceNorm1d.__module__, torch.nn.common_types._size_2_t.__args__[0])
"""
    assert served(code).splitlines() == [
        "True True True Graph False", "torch.nn.modules.instancenorm <class 'int'>"]


def test_every_moved_name_is_found_both_ways():
    code = """
import importlib
from flambeau._places import OURS
for (theirs, name), ours in OURS.items():
    there, here = getattr(importlib.import_module(theirs), name), getattr(importlib.import_module(ours), name)
    assert there is here, (theirs, name)
    if isinstance(here, type) and here.__qualname__ == name and here.__module__.startswith("torch."):
        assert getattr(importlib.import_module(here.__module__), name) is here
print(len(OURS))
"""
    assert int(served(code)) > 150


def test_versions_are_accepted():
    code = """
import importlib.metadata, torch
assert torch.__version__ >= "1.10" and torch.__version__ >= (2, 0) and not torch.__version__ < "2.9.1"
assert tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 0)
assert importlib.metadata.version("torch") == torch.__version__ == torch.version.__version__
assert (torch.version.cuda or "12.8") >= "12" and torch.torch_version.TorchVersion is type(torch.__version__)
print(torch.__version__)
"""
    version = served(code)
    assert version.endswith(f"+flambeau.{flambeau.__version__}")
    found, = Path(as_torch.PATH).glob("torch-*.egg-info")
    assert PathDistribution(found).version == version


@pytest.mark.parametrize(("left", "right"), [
    ("1.9", "1.10"), ("2.0.0.dev20", "2.0.0a1"), ("2.0.0a1", "2.0.0rc1"), ("2.0rc1", "2.0.0"), ("2.0.0", "2.0.0+cpu"),
    ("2.0.0+cpu", "2.0.1"), ("2.0", (2, 0, 1)), ("2.0", [2, 1]),
])
def test_versions_are_ordered(left, right):
    left = as_torch.TorchVersion(left)
    assert left < right and left <= right and left != right and not left > right and not left >= right
    other = as_torch.TorchVersion(".".join(map(str, right)) if not isinstance(right, str) else right)
    assert other > left and other >= left and not other <= left


def test_equal_versions():
    version = as_torch.TorchVersion("2.0.0")
    assert version == "2" and version == (2, 0) and version <= "2.0" and version >= "2.0"
    assert version == "2.0.0" and hash(version) == hash("2.0.0") and version != "nightly"


def test_classes_are_pickled_under_pytorchs_names():
    code = """
import io, pickle, pickletools, torch
model = torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.InstanceNorm1d(3))
optimizer = torch.optim.AdamW([torch.ones(1)])
data = pickle.dumps((type(model[0]), type(model[1]), type(optimizer), torch.nn.functional.relu))
print([word for _, word, _ in pickletools.genops(data) if isinstance(word, str)])
assert pickle.loads(data)[2] is torch.optim.AdamW
file = io.BytesIO()
torch.save(torch.nn.Linear(2, 3), file)
file.seek(0)
print(torch.load(file, weights_only=False))
"""
    words, model = served(code).splitlines()
    assert words == str(["torch.nn.modules.linear", "LazyLinear", "torch.nn.modules.instancenorm", "InstanceNorm1d",
                         "torch.optim.adamw", "AdamW", "torch.nn.functional", "relu"])
    assert model == "Linear(in_features=2, out_features=3, bias=True)"


def test_what_is_missing_says_so():
    code = """
import importlib.util, torch
for statement in ("import torch.nonsense", "torch.nonsense", "from torch.nn import nonsense", "import torch.nn.x.y"):
    try:
        exec(statement)
    except (ImportError, AttributeError) as error:
        print(type(error).__name__, error)
print(importlib.util.find_spec("torch.nonsense"))
"""
    lines = served(code).splitlines()
    assert lines[0] == "ModuleNotFoundError No module named 'torch.nonsense'"
    assert lines[1].startswith("AttributeError module 'torch' (Flambeau") and "'nonsense'" in lines[1]
    assert lines[2].startswith("ImportError cannot import name 'nonsense'")
    assert lines[3].startswith("ModuleNotFoundError No module named 'torch.nn.x'")
    assert lines[4] == "None"


def test_what_a_program_sets_is_seen_on_both_sides():
    assert served("import torch, flambeau; torch.answer = 42; print(flambeau.answer)") == "42"


def test_tests_written_for_pytorch(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import torch\ndef test_it(): assert torch.nn.Linear(2, 3)(torch.ones(2)).shape == (3,)")
    out = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "flambeau.as_torch.plugin", folder=tmp_path)
    assert "1 passed" in out
    out = python("-m", "pytest", "-p", "no:cacheprovider", "-p", "flambeau.as_torch.plugin", folder=tmp_path)
    assert f"torch: {as_torch.__version__}, served by Flambeau" in out
