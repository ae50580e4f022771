"""The type stub that the build makes of the records: it is Python, it is complete, and it says what the records say."""

import ast
import importlib.util
from pathlib import Path

import flambeau

GENERATOR = Path(__file__).parent.parent / "cmake" / "make_stubs.py"


def generator():
    spec = importlib.util.spec_from_file_location("make_stubs", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXT = generator().stub(flambeau)
TREE = ast.parse(TEXT)


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
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names)


def test_every_public_name_is_typed():
    missing = {name for name in dir(flambeau) if not name.startswith("_")} - set(names(TREE.body)) - {"cli"}
    assert not missing


def test_every_tensor_method_is_typed():
    tensor = next(node for node in TREE.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    missing = {name for name in vars(flambeau.Tensor) if not name.startswith("_")} - set(names(tensor.body))
    assert not missing


def test_operators_have_the_arguments_of_their_records():
    typed = functions(TREE.body)
    for name, definitions in typed.items():
        op = getattr(flambeau, name)
        if type(op).__name__ != "Op" or op.alternatives:
            continue
        expected = {argument[0] for argument in op.arguments} | ({"out"} if op.takes_out else set())
        args = definitions[0].args
        given = {a.arg.rstrip("_") for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        assert {"self" if a == "input" and "self" in expected else a for a in given} == expected, name


def test_the_installed_stub_is_the_generated_one():
    installed = Path(flambeau.__file__).with_name("__init__.pyi")
    if installed.exists():
        assert installed.read_text(encoding="utf-8") == TEXT
