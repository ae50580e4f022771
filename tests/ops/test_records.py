"""The promise of the op table: a composite is one record; a primitive is one record and one kernel row per device."""

import re
from pathlib import Path

import pytest

import flambeau
from flambeau import _C

from . import battery
from .battery import FACTS, OPS, fact

ROOT = Path(flambeau.__file__).resolve().parent
NATIVE = Path(__file__).resolve().parents[2] / "native" / "kernels"
#: parameters of a derivative rule that are not arguments
SPECIAL = re.compile(r"(g|g\d+|result|result\d+|needs|\w+_shape|\w+_dtype)$")


def record_texts():
    return {p: p.read_text() for p in sorted((ROOT / "ops").glob("*.py"))
            if p.name != "kinds.py"}


def native_texts():
    if not NATIVE.is_dir():
        pytest.skip("the native sources are not here")
    return {p: p.read_text() for p in sorted(NATIVE.rglob("*.cpp"))}


def rows_of(texts, opening):
    """Names of the rows `{"name", …}` in blocks that begin with `opening`, with their files."""
    found = {}
    for path, text in texts.items():
        for block in re.finditer(opening + r"[^;{]*\{(.*?)\};", text, re.S):
            for name in re.findall(r'\{\s*"([\w.]+)"', block.group(1)):
                found.setdefault(name, []).append(path)
    return found


def test_each_operator_has_one_record():
    seen = {}
    for path, text in record_texts().items():
        for name in re.findall(r'(?:elementwise|reduction|view|primitive|composite)\(\s*[rf]?"([\w.]+)\(', text):
            assert name not in seen, f"{name} has records in {seen[name].name} and {path.name}"
            seen[name] = path
    assert len(seen) > 100


def test_each_primitive_has_one_row_per_device():
    rows = rows_of(native_texts(), r"Primitives\s+\w+")
    twice = {n: [p.name for p in paths] for n, paths in rows.items() if len(paths) > 1}
    assert not twice, f"rows written twice: {twice}"
    kinds = {n: fact(n, "kind") for n in FACTS}
    composites = [n for n in rows if kinds.get(n) == "composite"]
    assert not composites, f"composites with a kernel row: {composites}"


def test_every_row_has_a_record():
    texts = native_texts()
    names = set(rows_of(texts, r"Primitives\s+\w+")) | set(rows_of(texts, r"ElementwiseRows\s+\w+"))
    assert not sorted(n for n in names if n not in OPS)


@pytest.mark.parametrize("name", battery.NAMES)
def test_record_is_complete(name):
    op = OPS[name]
    assert op.name == name
    doc = op.__doc__
    if battery.is_public(name) and "." not in name:  # the alternatives of an overloaded name share its docstring
        assert doc, "no docstring"
    if name in FACTS and battery.is_public(name):
        assert battery.generator_of(name) is not None or fact(name, "skip"), "neither samples nor a reason for none"


@pytest.mark.parametrize("name", battery.with_samples("samples"))
def test_samples_run(name):
    found = battery.samples(name)
    assert found
    for sample in found:
        battery.run(name, sample)


def test_bad_schema_is_refused():
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        _C.define("composite", "definitely not a schema", "default", None, None, "", None, False, False, "")


def test_public_names_are_the_ops():
    for name in ("add", "exp", "sum", "matmul", "cat"):
        assert getattr(flambeau, name) is OPS[name] or getattr(flambeau, name).name.split(".")[0] == name


def test_operators_are_methods_of_tensors_alone():
    """A class that holds an operator as an attribute (an activation, say) calls it without itself."""
    class Settings:
        act, join = flambeau.relu, flambeau.Tensor.add

    x = flambeau.tensor([-1.0, 2.0])
    assert Settings().act(x).tolist() == [0.0, 2.0] and Settings().join(x, x).tolist() == [-2.0, 4.0]
    assert Settings.act is flambeau.relu is flambeau.Tensor.relu and x.relu.__func__ is flambeau.relu


def test_a_method_of_tensor_is_replaced_and_put_back(monkeypatch):
    kept, x = flambeau.Tensor.add, flambeau.ones(2)
    monkeypatch.setattr(flambeau.Tensor, "add", lambda self, other: "replaced")
    assert x.add(x) == "replaced"
    flambeau.Tensor.add = kept
    assert x.add(x).tolist() == [2.0, 2.0] and flambeau.Tensor.add(x, x).tolist() == [2.0, 2.0]

    class Named(flambeau.Tensor):
        plus = flambeau.Tensor.add

    assert x.as_subclass(Named).plus(x).tolist() == [2.0, 2.0]
