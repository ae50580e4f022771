"""Imports point downwards: each part of the package uses only parts below it, and at module level."""

import ast
from pathlib import Path

import pytest

import flambeau

ROOT = Path(flambeau.__file__).resolve().parent
#: lowest first; a part may import its own and lower layers
LAYERS = [
    {"_C", "version", "_libraries", "_shown"},
    {"ops"},
    {"_tensor", "_absent", "memory", "random", "autograd", "func", "backends", "return_types", "special",
     "linalg", "fft", "signal", "functional", "overrides", "utils", "cuda", "accelerator", "compiler", "cpu",
     "_settings", "futures", "nested", "sparse", "__config__", "control_flow"},
    # loaded when first used, when the package is complete
    {"nn", "optim", "data", "amp", "distributions", "hub", "testing", "serialization", "_files", "profiler", "debug",
     "masked", "storage", "multiprocessing", "types", "library", "__future__"},
    {"graph", "fx", "jit", "compile", "export"},
    {"vision", "text", "distributed", "cli", "__main__", "as_torch"},
]
LEVEL = {part: k for k, layer in enumerate(LAYERS) for part in layer}
FILES = sorted(ROOT.rglob("*.py"))


def part_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "utils" and len(parts) > 2 else parts[0]  # hooks are used far below data


def package_of(path):
    """The dotted package that relative imports in this file start from."""
    parts = ["flambeau", *path.relative_to(ROOT).with_suffix("").parts]
    return parts[:-1]


def targets(path, node):
    """The parts of Flambeau an import statement names; "" for the package itself (names it defines)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            parts = alias.name.split(".")
            if parts[0] == "flambeau":
                yield parts[1] if len(parts) > 1 else ""
        return
    base = package_of(path)[:len(package_of(path)) - node.level + 1] if node.level else []
    parts = base + (node.module.split(".") if node.module else [])
    if not parts or parts[0] != "flambeau":
        return
    if len(parts) > 1:
        yield parts[1]
    else:
        for alias in node.names:
            yield alias.name if (ROOT / alias.name).is_dir() or (ROOT / f"{alias.name}.py").exists() \
                or alias.name == "_C" else ""


def imports(tree):
    """(import statement, is it inside a function) of a module."""
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
              for n in ast.walk(f) if n is not f}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, id(node) in inside


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports(path):
    tree = ast.parse(path.read_text())
    part = part_of(path)
    for node, local in imports(tree):
        for target in targets(path, node):
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            assert not local, f"{where}: import of flambeau.{target} inside a function"
            if part == "__init__" or target in ("", part):
                continue
            assert part in LEVEL, f"{where}: {part} has no layer; give it one in tests/test_layers.py"
            assert target in LEVEL, f"{where}: {target} has no layer; give it one in tests/test_layers.py"
            assert LEVEL[target] <= LEVEL[part], f"{where}: {part} imports {target}, which lies above it"


def test_lower_layers_do_not_use_the_whole_package():
    """`import flambeau` from inside is for the upper layers, whose imports run when the package is complete."""
    for path in FILES:
        if LEVEL.get(part_of(path), 9) < LEVEL["nn"]:
            for node, _ in imports(ast.parse(path.read_text())):
                assert "" not in targets(path, node) or path == ROOT / "__init__.py", \
                    f"{path.relative_to(ROOT)}:{node.lineno} imports the package it is part of"


def native_includes():
    native = Path(__file__).resolve().parents[1] / "native"
    if not native.is_dir():
        pytest.skip("the native sources are not here")
    for path in sorted([*native.rglob("*.h"), *native.rglob("*.cpp")]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#include"):
                yield path.relative_to(native), number, line.split()[1].strip('<>"')


def test_native_layers():
    order = {"core": 0, "kernels": 1, "autograd": 2, "runtime": 3, "bind": 4}
    for path, number, name in native_includes():
        part = path.parts[0]
        if part not in order:
            continue
        if part != "bind":
            assert name != "Python.h" and "nanobind" not in name, f"{path}:{number}: Python in {part}"
        for other in order:
            if f"{other}/" in name:
                allowed = order[other] <= order[part] or (part, other, name.split("/")[-1]) in CONTRACT
                assert allowed, f"{path}:{number}: {part} includes {name}"


#: core/op.h holds the kernels' table rows by pointer
CONTRACT = {("core", "kernels", "elementwise.h")}
