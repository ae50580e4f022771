"""The type stubs that the build makes: they are Python, they are complete, and type checkers accept programs."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
from flambeau.ops.kinds import OPS

GENERATOR = Path(__file__).parent.parent / "cmake" / "make_stubs.py"
PROGRAMS = sorted((Path(__file__).parent / "typed").glob("*.py"))


def generator():
    spec = importlib.util.spec_from_file_location("make_stubs", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """The folder with the stubs: made once, for all workers of a run."""
    shared = tmp_path_factory.getbasetemp()
    shared = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "stubs"
    if not shared.exists():
        made = tmp_path_factory.mktemp("made")
        generator().write(flambeau, made / "flambeau")
        (made / "flambeau" / "py.typed").touch()
        try:
            made.rename(shared)
        except OSError:  # another worker was faster
            assert shared.exists()
    return shared


@pytest.fixture(scope="module")
def root(stubs):
    return ast.parse((stubs / "flambeau" / "__init__.pyi").read_text(encoding="utf-8"))


def functions(body):
    """{name: its definitions (several where it has overloads)}."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def names(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):  # another name of a class
            yield from (target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names)


def test_every_public_name_is_typed(root):
    missing = {name for name in dir(flambeau) if not name.startswith("_")} - set(names(root.body)) - {"cli"}
    assert not missing


def test_every_tensor_method_is_typed(root):
    tensor = next(node for node in root.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    missing = {name for name in vars(flambeau.Tensor) if not name.startswith("_")} - set(names(tensor.body))
    assert not missing


def test_operators_have_the_arguments_of_their_records(root):
    for name, definitions in functions(root.body).items():
        op = getattr(flambeau, name)
        if type(op).__name__ != "Op" or op.alternatives:
            continue
        expected = {argument[0] for argument in op.arguments} | ({"out"} if op.takes_out else set())
        args = definitions[0].args
        given = {a.arg.rstrip("_") for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        assert {"self" if a == "input" and "self" in expected else a for a in given} == expected, name


def test_the_installed_stubs_are_the_generated_ones(stubs):
    installed = Path(flambeau.__file__).parent
    assert (installed / "py.typed").exists()
    if (installed / "__init__.pyi").exists():
        for path in stubs.glob("flambeau/**/*.pyi"):
            there = installed / path.relative_to(stubs / "flambeau")
            assert there.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), there


def test_public_lists_are_literal():
    """Type checkers and editors read `__all__`; they do not compute it."""
    for path in Path(flambeau.__file__).parent.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                assert all(isinstance(e, (ast.Constant, ast.Starred)) for e in node.value.elts), path
    layers = importlib.import_module("flambeau.nn.modules")
    assert sorted(layers.__all__) == sorted(name for name in dir(layers) if name[0].isupper())


# --- programs ---------------------------------------------------------------------------------------------------------

def spaces():
    """The public modules."""
    yield flambeau
    for found in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        if any(part.startswith("_") for part in found.name.split(".")) or found.name.startswith("flambeau.cli"):
            continue
        module, (above, _, last) = importlib.import_module(found.name), found.name.rpartition(".")
        if getattr(sys.modules[above], last) is module:  # a function of that name may hide it
            yield module


def public(module):
    """The names a user may write after the module's name."""
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name)
        if (inspect.ismodule(value) and value.__name__.rpartition(".")[2] != name) or name == "cli":
            continue  # a module under another name is the importing module's own affair
        place = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or "flambeau"
        if not name.startswith("_") and str(place).startswith("flambeau"):
            yield name


def all_names():
    """A program that names every public name of every namespace, and every method of Tensor."""
    lines = []
    for module in spaces():
        lines.append(f"import {module.__name__}")
        lines += [f"{module.__name__}.{name}" for name in sorted(set(public(module)))]
    lines.append("x: flambeau.Tensor = flambeau.ones(1)")
    lines += [f"x.{name}" for name in dir(flambeau.Tensor) if not name.startswith("_")]
    return "\n".join(lines) + "\n"


def examples():
    """A program of the examples in the docstrings, one function each; they need no annotations of their own."""
    parser, finder = doctest.DocTestParser(), doctest.DocTestFinder(exclude_empty=True)
    found = [(test.name, test.examples) for module in spaces() for test in finder.find(module, module=module)]
    found += [(name, parser.get_examples(op.__doc__ or "")) for name, op in OPS.items()]
    lines = ['# mypy: disable-error-code="union-attr,empty-body,no-untyped-def,no-untyped-call,type-arg"',
             "import flambeau", "from flambeau.distributions import *",  # which their examples name without the module
             "from flambeau.distributions.transforms import *", "from flambeau.distributions import constraints",
             "from flambeau.distributions.constraint_registry import ConstraintRegistry",
             "from flambeau.distributions.relaxed import ExpRelaxedCategorical, LogitRelaxedBernoulli"]
    for k, (name, given) in enumerate(each for each in found if each[1]):
        body = "".join(example.source for example in given)
        lines += [f"def example{k}() -> None:  # {name}", *("    " + line for line in body.splitlines())]
    return "\n".join(lines) + "\n"


def run(command, **environment):
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def test_mypy_knows_every_name_and_accepts_typed_programs(stubs, tmp_path):
    """Strictly, without an error in the stubs themselves; the examples of the docstrings are programs too."""
    pytest.importorskip("mypy")
    (tmp_path / "all_names.py").write_text(all_names(), encoding="utf-8")
    (tmp_path / "examples.py").write_text(examples(), encoding="utf-8")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import flambeau\nflambeau.nn.Linaer(1, 2)\nflambeau.zeros('a')\nx: int = flambeau.ones(1)\n"
                     "flambeau.nn.Linear('a', 2)\nflambeau.ones(1).vieww(1)\n", encoding="utf-8")
    done = run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull,
                *map(str, PROGRAMS), str(tmp_path / "all_names.py"), str(tmp_path / "examples.py"), str(wrong)],
               MYPYPATH=str(stubs))
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert not [line for line in errors if "wrong.py" not in line]
    assert {int(line.partition("wrong.py:")[2].split(":")[0]) for line in errors} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("named", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["programs", "names"])
def test_pyright_accepts_typed_programs(stubs, tmp_path, named):
    """Where pyright is installed, with a node of its own; every public name in the long sweeps."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    pyright = shutil.which("pyright", path=path)
    if pyright is None or shutil.which("node") is None:
        pytest.skip("pyright and node are not installed")
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    if named:
        (tmp_path / "all_names.py").write_text(all_names(), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{stubs}"], "typeCheckingMode": "standard", "reportUnusedExpression": false}}',
        encoding="utf-8")
    done = run([pyright, "-p", str(tmp_path), "--pythonpath", sys.executable])
    assert not [line for line in done.stdout.splitlines() if " error: " in line or " - error" in line], done.stdout
    assert re.search(r"^0 errors", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_typed_programs_run(program):
    done = run([sys.executable, "-W", "error", str(program)])
    assert done.returncode == 0, done.stderr


WITHOUT_OTHERS = """
import importlib.util, sys
from pathlib import Path


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "scipy", "tqdm", "matplotlib", "PIL", "safetensors", "tensorboard"):
            raise ModuleNotFoundError(f"No module named {name!r}")


sys.meta_path.insert(0, Absent())
import flambeau
spec = importlib.util.spec_from_file_location("make_stubs", sys.argv[1])
generator = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generator)
generator.write(flambeau, Path(sys.argv[2]))
"""


def test_stubs_are_made_where_nothing_else_is_installed(stubs, tmp_path):
    """The package is imported while it is built, in an environment with the tools of the build alone."""
    if not GENERATOR.exists():
        pytest.skip("the sources are not here")
    run = subprocess.run([sys.executable, "-c", WITHOUT_OTHERS, str(GENERATOR), str(tmp_path)], capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.pyi")}
    expected = {path.relative_to(stubs / "flambeau"): path.read_text() for path in (stubs / "flambeau").rglob("*.pyi")}
    assert made == expected
