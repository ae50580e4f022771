"""Imports point downwards: each part of the package uses only parts of lower layers, however it names them.

Counted are import statements, names of modules in strings (`importlib.import_module("flambeau.x")`), and attributes of
the package itself (`import flambeau` … `flambeau.x`), lazy ones included. There are no exceptions.
"""

import ast
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import flambeau

ROOT = Path(flambeau.__file__).resolve().parent
#: lowest first. A part uses its own modules and parts of lower layers; parts of one layer do not know each other.
#: A part is a module or a package of `src/flambeau`, or a module of one that has its own place here.
LAYERS = [
    {"_C", "_processor", "_libraries", "_places", "_ranks", "utils.hooks", "classes", "futures", "package"},
    {"version"},
    {"_shown", "memory", "__config__"},
    {"_attention_ways"},
    {"ops", "random", "backends", "utils", "utils._pytree"},
    {"_transforms", "linalg", "fft", "special", "signal", "return_types"},
    {"autograd", "func"},
    {"_tensor", "amp"},
    {"_symbolic"},
    {"_nested", "_sparse", "_quantized", "_subclasses"},
    {"_absent", "_layouts", "control_flow", "storage", "library", "monitor", "profiler", "testing",
     "utils._mode_utils", "utils._python_dispatch", "utils._selective", "utils.data", "utils.dlpack"},
    {"_graph", "_higher_order_ops", "cpu", "cuda", "masked", "mps", "mtia",
     "nested", "sparse", "types", "utils.checkpoint", "xpu"},
    {"accelerator", "distributed"},
    {"nn", "_settings", "functional"},
    {"_files", "debug", "optim", "multiprocessing", "overrides", "__future__"},
    {"distributed.tensor"},
    {"distributed.fsdp"},
    {"distributed.algorithms._checkpoint", "distributed.optim", "serialization", "safetensors", "distributions",
     "quasirandom", "array_api"},
    {"distributed.checkpoint", "distributed.ray", "fx", "utils.module_tracker"},
    {"_aten"},
    {"export"},
    {"jit"},
    {"distributed.pipelining", "distributed.tensor.debug", "utils.flop_counter"},
    {"compiler", "onnx"},
    {"ao"},
    {"quantization", "nn.quantized", "nn.qat", "nn.intrinsic", "nn.quantizable"},
    {"hub"},
    {"vision"},
    {"as_torch", "_array_standard"},
    {"utils.backend_registration", "utils.collect_env", "utils.cpp_extension", "utils.deterministic", "utils.mkldnn",
     "utils.mobile_optimizer", "utils.model_zoo", "utils.tensorboard",
     "utils.throughput_benchmark", "utils.weak"},
    {"utils.benchmark", "utils.bottleneck"},
    {"cli"},
    {"__main__"},
]
LEVEL = {part: k for k, layer in enumerate(LAYERS) for part in layer}


def dotted(path):
    """The name of a module below the package; "" for the package itself, which may use everything."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {dotted(path): path for path in sorted(ROOT.rglob("*.py"))}
MODULES = {*FILES, "_C"}


def part_of(module):
    """The part that a module belongs to: the longest of its beginnings that has a layer."""
    names = module.split(".")
    found = next((".".join(names[:n]) for n in range(len(names), 0, -1) if ".".join(names[:n]) in LEVEL), None)
    assert found is not None, f"{module} has no layer; give it one in tests/test_layers.py"
    return found


def homes():
    """{public name of the package: the module it comes from}, as __init__.py says; without operators and dtypes."""
    found = {}
    for node in ast.walk(ast.parse(FILES[""].read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}" if node.module else alias.name
                found[alias.asname or alias.name] = inner if inner in MODULES else node.module
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_LAZY_FROM":
            for module, names in ast.literal_eval(node.value).items():
                found |= dict.fromkeys(names.split(), module)
    return found


HOMES = homes()


def home(name):
    """The module behind `flambeau.name`."""
    return name if name in MODULES else HOMES.get(name, "ops")


def docstrings(tree):
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, scopes) and n.body
            and isinstance(n.body[0], ast.Expr)}


def of_statement(node, package):
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name[9:] for alias in node.names if alias.name.startswith("flambeau.")]
    parts = package.split(".") if package else []
    if node.level:
        parts = parts[:len(parts) - node.level + 1]
    elif (node.module or "").partition(".")[0] != "flambeau":
        return []
    else:
        parts = []
    module = (node.module or "") if node.level else node.module[9:]
    base = ".".join(parts + ([module] if module else []))
    inner = [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
    return [name if name in MODULES else base or home(name) for name in inner]


def of_attribute(node, packages):
    """The module behind `flambeau.x.y`; None for attributes of anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in packages:
        return None
    module = home(names[0])
    for name in names[1:]:
        if f"{module}.{name}" not in MODULES:
            break
        module += "." + name
    return module


def uses(text, package):
    """(line, module) of everything of Flambeau that a source uses; `package` is where its relative imports start."""
    tree = ast.parse(text)
    documentation = docstrings(tree)
    packages = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
                for alias in node.names if alias.name == "flambeau"}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, module) for module in of_statement(node, package))
        elif isinstance(node, ast.Attribute):
            module = of_attribute(node, packages)
            if module is not None:
                yield node.lineno, module
        elif isinstance(node, ast.Constant) and id(node) not in documentation and isinstance(node.value, str) \
                and re.fullmatch(r"flambeau\.[\w.]+", node.value) and node.value[9:] in MODULES:
            yield node.lineno, node.value[9:]


def package_of(module):
    return module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]


@pytest.mark.parametrize("module", [m for m in FILES if m])
def test_imports_point_downwards(module):
    part = part_of(module)
    for line, target in uses(FILES[module].read_text(), package_of(module)):
        if part_of(target) != part:
            assert LEVEL[part_of(target)] < LEVEL[part], \
                f"{module}:{line} uses {target}: {part_of(target)} is not below {part}"


@pytest.mark.parametrize("module", list(FILES))
def test_imports_stand_at_the_top(module):
    tree = ast.parse(FILES[module].read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, functions) for n in ast.walk(f) if n is not f}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) in inside:
            named = of_statement(node, package_of(module)) or (
                isinstance(node, ast.Import) and any(a.name == "flambeau" for a in node.names))
            assert not named, f"{module}:{node.lineno}: an import of Flambeau inside a function"


def is_plain(argument):
    """Whether the name of a module can be read: a string, a table of strings, or a module of the importing package."""
    match argument:
        case ast.Constant() | ast.Subscript(value=ast.Name()):
            return True
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id="__name__")), *_]):
            return True
        case ast.BinOp(left=ast.Name(id="__name__"), right=ast.Constant()):
            return True
    return False


@pytest.mark.parametrize("module", list(FILES))
def test_lazy_imports_name_their_module(module):
    """So that the tests above see it; above all libraries stand programs, which import what they are asked for."""
    if module and LEVEL[part_of(module)] >= LEVEL["as_torch"]:
        return
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "__import__"):
                assert is_plain(node.args[0]), f"{module}:{node.lineno}: import_module({ast.unparse(node.args[0])})"


def test_every_kind_of_use_is_seen():
    text = '''
"""flambeau.nn in a docstring is none."""
import flambeau
from ... import Tensor, ones
from ...ops.kinds import OPS
from . import _state
import importlib
def f():
    importlib.import_module("flambeau.serialization")
    return flambeau.nn.functional.relu, flambeau.save, flambeau.set_default_dtype, flambeau.linalg
'''
    found = {module for _, module in uses(text, "nn.modules")}
    assert found == {"_C", "ops", "ops.kinds", "nn.modules._state", "serialization", "nn", "nn.functional", "_settings",
                     "linalg"}


def test_what_import_loads_does_not_import_the_package():
    """`import flambeau` inside the package is for modules that are loaded when it is complete."""
    program = "import flambeau, sys; print(*(m[9:] for m in sys.modules if m.startswith('flambeau.')))"
    loaded = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout.split()
    assert "ops.kinds" in loaded
    for module in loaded:
        if module in FILES:
            assert not re.search(r"^import flambeau\b|^from flambeau\b", FILES[module].read_text(), re.M), module


def test_native_code_names_modules_that_exist():
    for path in native_files():
        for name in re.findall(r'PyImport_ImportModule\("flambeau\.([\w.]+)"\)', path.read_text()):
            assert name in MODULES, f"{path.name} imports flambeau.{name}"


def test_contributing_shows_the_same_layers():
    """Each row of its table is one layer or several, highest first."""
    text = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text()
    table = text[text.index("| `src/flambeau/` |"):text.index("| `native/` |")]
    rows = [re.findall(r"`([\w.]+)`", line.split("|")[1]) for line in table.splitlines()[2:] if line.startswith("|")]
    levels = [[LEVEL[part] for part in row] for row in rows]
    assert {part for row in rows for part in row} == set(LEVEL) - {"_C"}
    assert all(min(upper) > max(lower) for upper, lower in pairwise(levels))


def native_files():
    native = Path(__file__).resolve().parents[1] / "native"
    if not native.is_dir():
        pytest.skip("the native sources are not here")
    return sorted([*native.rglob("*.h"), *native.rglob("*.cpp")])


def native_includes():
    native = Path(__file__).resolve().parents[1] / "native"
    for path in native_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#include"):
                yield path.relative_to(native), number, line.split()[1].strip('<>"')


def test_native_layers():
    order = {"core": 0, "distributed": 1, "kernels": 1, "autograd": 2, "bind": 3}
    for path, number, name in native_includes():
        part = path.parts[0]
        if part not in order:
            continue
        if part != "bind":
            assert name != "Python.h" and "nanobind" not in name, f"{path}:{number}: Python in {part}"
        for other in order:
            if f"{other}/" in name:
                assert order[other] <= order[part], f"{path}:{number}: {part} includes {name}"
