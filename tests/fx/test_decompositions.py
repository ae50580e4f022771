"""Decompositions of exported programs: laws over a table of programs, then named cases."""

import pytest

import flambeau
from flambeau import nn
from flambeau.export import CustomDecompTable, Dim, default_decompositions, export
from flambeau.export._trace import Export
from flambeau.ops import aten

from ..parity.exported_programs import programs
from .test_export import written
from .test_unflatten import copied, same

PROGRAMS = programs(flambeau)


def steps(program):
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def names(program):
    return [node.name for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_left_is_what_runs(name, monkeypatch):
    """After all decompositions a program has the steps of a trace that takes everything apart, and gives the same."""
    make, args, shapes = PROGRAMS[name]
    module = make()
    program = export(module, args, dynamic_shapes=shapes)
    found = program.run_decompositions()
    with monkeypatch.context() as patch:
        patch.setattr(Export, "whole", False)
        flat = export(module, args, dynamic_shapes=shapes)
    assert steps(found) == steps(flat)
    assert found.range_constraints == program.range_constraints and found.call_spec == program.call_spec
    assert [n.name for n in found.graph.nodes if n.op == "placeholder"] == [
        n.name for n in program.graph.nodes if n.op == "placeholder"]
    expected = export(make_as(make, module), args, dynamic_shapes=shapes).module()(*copied(args))
    assert same(found.module()(*copied(args)), expected)
    assert found.dialect == "ATEN" or found is program
    found.validate()
    written(found)


def make_as(make, module):
    made = make()
    made.load_state_dict(module.state_dict())
    return made


def test_open_sizes_stay_open():
    net = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    sizes = ({0: Dim("batch"), 1: Dim("length", max=32)},)
    found = export(net, (flambeau.randn(2, 5, 8),), dynamic_shapes=sizes).run_decompositions()
    for shape in ((1, 1, 8), (3, 7, 8), (2, 32, 8)):
        x = flambeau.randn(shape)
        assert flambeau.allclose(found.module()(x), net(x), atol=1e-6)
    with pytest.raises(AssertionError, match="must be in"):
        found.module()(flambeau.randn(1, 33, 8))


def test_steps_know_their_modules():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    found = export(net, (flambeau.ones(2, 3),)).run_decompositions()
    stacks = {node.name: [path for path, _ in node.meta["nn_module_stack"].values()] for node in found.graph.nodes
              if node.op == "call_function"}
    assert stacks == {"linear": ["", "0"], "native_batch_norm": ["", "1"], "getitem": ["", "1"]}
    x = flambeau.randn(5, 3)
    assert flambeau.allclose(flambeau.export.unflatten(found)(x[:2]), net(x[:2]))


def test_tables():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    program = export(net, (flambeau.ones(2, 3),))
    table = default_decompositions()
    assert aten.batch_norm.default in table and nn.functional.batch_norm in table and aten.relu.default not in table
    del table[aten.batch_norm.default]
    assert names(program.run_decompositions(table)) == ["linear", "batch_norm", "relu"]
    assert names(program.run_decompositions({})) == names(program)
    table[aten.relu.default] = lambda x: x.clamp(min=0)
    changed = program.run_decompositions(table)
    assert names(changed) == ["linear", "batch_norm", "clamp"]
    x = flambeau.randn(2, 3)
    assert flambeau.allclose(changed.module()(x), net(x))
    only = program.run_decompositions({aten.linear.default: lambda x, w, b=None: x @ w.t() + b})
    assert names(only) == ["t", "matmul", "add", "batch_norm", "relu"]
    copy = table.copy()
    copy.pop(aten.relu.default)
    assert aten.relu.default in table and aten.relu.default not in copy and isinstance(copy, CustomDecompTable)
    assert copy.pop(aten.relu.default, None) is None and type(table.materialize()) is dict
    with pytest.raises(TypeError, match="expected a function"):
        table[aten.relu.default] = 3
    with pytest.raises(NotImplementedError, match="Triton"):
        program.run_decompositions(decompose_custom_triton_ops=True)


def test_what_is_primitive_stays_as_it_is():
    class Adds(nn.Module):
        def forward(self, x):
            return x + 1

    program = export(Adds(), (flambeau.ones(2),))
    assert program.run_decompositions() is program
