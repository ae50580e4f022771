# ruff: noqa: UP006, UP045, UP035 (as programs for PyTorch write types)
"""Graphs of scripted and traced programs: nodes with kinds, inputs, outputs and blocks, under PyTorch's names."""

import io
from typing import Dict, List, NamedTuple, Optional, Tuple

import pytest

import flambeau
from flambeau import Tensor, nn
from flambeau.jit import script


def kinds(block):
    """The kinds of a block's nodes but constants."""
    return [node.kind() for node in block.nodes() if node.kind() != "prim::Constant"]


def test_a_function_as_a_graph():
    @script
    def f(x, y):
        return flambeau.relu(x + y) * 2
    graph = f.graph
    assert [n.kind() for n in graph.nodes()] == ["prim::Constant"] * 2 + ["aten::add", "aten::relu", "aten::mul"]
    add = graph.findNode("aten::add")
    assert [v.debugName() for v in graph.inputs()] == ["x.1", "y.1"] and add.inputsAt(2).toIValue() == 1
    assert add.output().uses()[0].user.kind() == "aten::relu" and add.output().node() is add
    assert str(add.output().type()) == "Tensor" and add.output().type().kind() == "TensorType"
    assert next(graph.outputs()).node().kind() == "aten::mul" and graph.return_node().inputsSize() == 1
    constant = graph.findAllNodes("prim::Constant")[1]
    assert constant.i("value") == 2 and constant.kindOf("value") == "i" and constant.attributeNames() == ["value"]
    with pytest.raises(RuntimeError, match="no attribute 'name'"):
        constant.s("name")
    with pytest.raises(RuntimeError, match="3 of them"):
        add.input()
    assert str(graph).startswith("graph(%x.1 : Tensor,\n      %y.1 : Tensor):\n") and "return (%" in str(graph)


def test_branches_and_loops_are_blocks():
    @script
    def f(x, n: int):
        if n > 2:
            y = x + 1
        else:
            y = x - 1
        for k in range(n):
            if k % 2 == 0:
                continue
            if k > 6:
                break
            y = y + k
        while bool(y.sum() < 10):
            y = y * 2
        return y
    graph = f.graph
    branch, loop, other = graph.findNode("prim::If", False), *graph.findAllNodes("prim::Loop")
    assert [kinds(block) for block in branch.blocks()] == [["aten::add"], ["aten::sub"]] and branch.outputsSize() == 1
    assert loop.inputsAt(0).debugName() == "n.1" and loop.inputsAt(2).toIValue() is True  # whether it goes on
    assert other.inputsAt(1).type().kind() == "BoolType" and next(other.blocks()).findNode("aten::mul")
    assert next(graph.outputs()) is other.output()


def test_a_return_inside_is_an_output_of_its_block():
    @script
    def f(x: List[int], wanted: int) -> Optional[int]:
        for k in x:
            if k == wanted:
                return k
        if wanted < 0:
            raise ValueError("negative")
        return None
    graph = f.graph
    last = list(graph.nodes())[-1]
    assert last.kind() == "prim::If" and next(graph.outputs()) is last.output()
    assert graph.findNode("prim::RaiseException") and graph.findNode("aten::__getitem__").owningBlock() is not graph


def test_modules_are_attributes_and_calls_or_written_out():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Tanh()))
    file = io.BytesIO()
    flambeau.jit.save(script(net), file)
    file.seek(0)
    for program in (script(net), flambeau.jit.trace(net, flambeau.ones(1, 2)), flambeau.jit.load(file)):
        assert kinds(program.graph) == ["prim::GetAttr", "prim::CallMethod"] * 3
        assert next(program.graph.nodes()).s("name") == "0"
        inside = kinds(program.inlined_graph)
        assert [k for k in inside if k.startswith("aten")] == ["aten::linear", "aten::relu", "aten::tanh"]
        assert str(next(program.graph.inputs()).type()).endswith(".Sequential")
        linear = program.graph_for(flambeau.ones(1, 2)).findNode("aten::linear")
        assert [v.node().kind() for v in linear.inputs()] == ["prim::Param", "prim::GetAttr", "prim::GetAttr"]


class Pair(NamedTuple):
    left: Tensor
    right: int


def test_containers_texts_and_objects():
    @script
    def f(x, d: Dict[str, int]) -> Tuple[str, List[int], Pair, Tensor]:
        found = [v * 2 for v in d.values()]
        d["a"] = 3
        largest, places = x.max(0)
        x[0, :2] = 1
        return f"{found[0]} {len(d)}", found, Pair(largest[places], 1), x[x > 0]
    graph = f.graph
    names = kinds(graph)
    for kind in ("aten::values", "aten::_set_item", "aten::fill_", "aten::format",
                 "aten::index", "prim::TupleConstruct"):
        assert kind in names, kind
    assert graph.findNode("aten::max").outputsSize() == 2
    assert str(next(graph.outputs()).type()).startswith("Tuple[str, List[int]")


def test_the_schema_of_a_function():
    @script
    def f(x: Tensor, y: int = 3, z: Optional[float] = None) -> List[Tensor]:
        return [x * y]
    schema = f.schema
    assert schema.name == "f" and [a.name for a in schema.arguments] == ["x", "y", "z"]
    assert [str(a.type) for a in schema.arguments] == ["Tensor", "int", "Optional[float]"]
    assert schema.arguments[1].default_value == 3 and str(schema.returns[0].type) == "List[Tensor]"
    assert str(schema) == "f(Tensor x, int y=3, float? z=None) -> Tensor[]"


def test_types_of_values():
    from flambeau.jit._graph_types import Type
    pair = Type("Tuple[int, Optional[Tensor]]")
    assert [str(t) for t in pair.elements()] == ["int", "Optional[Tensor]"] and pair.shown() == "(int, Tensor?)"
    assert Type("int").isSubtypeOf(Type("Optional[int]")) and not Type("int").isSubtypeOf(Type("str"))
    assert Type("Dict[str, int]").getKeyType() == Type("str") and Type("List[int]").getElementType().kind() == "IntType"


def test_a_list_of_one_is_taken_apart():
    @flambeau.jit.script
    def f(x):
        (y,) = flambeau.split(x, 2)
        return y

    assert [node.kind() for node in f.graph.nodes()][-1] == "prim::ListUnpack"


class Outer(flambeau.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = flambeau.nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x).relu()

    @flambeau.jit.export
    def twice(self, x, n: int = 2):
        return self.inner(x) * n


def test_methods_and_modules_inside_show_their_programs():
    module = flambeau.jit.script(Outer())
    assert "relu" in module.forward.code and "relu" not in module.twice.code
    assert module.twice.graph.findNode("aten::mul") is not None
    assert str(module.twice.schema).endswith("Tensor x, int n=2) -> Tensor")
    assert module.forward.owner is module and module.forward.qualified_name.endswith(".forward")
    assert module.inner.original_name == "Linear" and "torch.linear" in module.inner.code
    assert [n.kind() for n in module.inner.graph.nodes()][-1] == "aten::linear"
    assert flambeau.equal(module.forward(flambeau.ones(1, 2)), module(flambeau.ones(1, 2)))


class Counted(flambeau.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = flambeau.nn.Sequential(flambeau.nn.Conv2d(3, 4, 3, padding=1), flambeau.nn.ReLU())
        self.up = flambeau.nn.ConvTranspose2d(4, 4, 2, 2)
        self.fc = flambeau.nn.Linear(4, 6)

    def forward(self, x):
        a, b = self.fc(self.up(self.body(x)).mean((2, 3))).chunk(2, -1)
        return a + 2 * b


def test_the_graph_of_one_run_has_sizes_and_modules():
    module, x = Counted().eval(), flambeau.ones(2, 3, 8, 8)
    graph, out = flambeau.jit._get_trace_graph(module, (x,))
    assert flambeau.equal(out, module(x))
    found = {n.scopeName(): n for n in graph.nodes() if n.kind() in ("aten::_convolution", "aten::linear")}
    assert list(found) == ["/body/body.0", "/up", "/fc"]
    conv, up, linear = found.values()
    assert [v.type().sizes() for v in list(conv.inputs())[:3]] == [[2, 3, 8, 8], [4, 3, 3, 3], [4]]
    assert conv.output().type().sizes() == [2, 4, 8, 8] and up.output().type().sizes() == [2, 4, 16, 16]
    assert [n.inputsAt(6).toIValue() for n in (conv, up)] == [False, True] and conv.inputsSize() == 13
    assert linear.output().isCompleteTensor() and linear.output().type().scalarType() == "Float"
    assert linear.inputsAt(1).requires_grad() and linear.inputsAt(0).isCompleteTensor()
    unpack = graph.findNode("prim::ListUnpack")
    assert [v.type().sizes() for v in unpack.outputs()] == [[2, 3], [2, 3]]
    assert graph.findNode("aten::__getitem__") is None and graph.findNode("prim::GetAttr") is None
    assert [v.debugName() for v in graph.inputs()][1:] == [
        "body.0.weight", "body.0.bias", "up.weight", "up.bias", "fc.weight", "fc.bias"]
    assert "Float(2, 3, strides=" in str(graph)


def test_a_run_for_its_graph_changes_nothing():
    norm = flambeau.nn.BatchNorm1d(3)
    graph, _, given = flambeau.jit._get_trace_graph(norm, flambeau.rand(4, 3), return_inputs=True)
    assert norm.num_batches_tracked == 1 and given[0].shape == (4, 3)
    assert graph.findNode("aten::batch_norm") is not None
    graph, out = flambeau.jit._get_trace_graph(lambda x, n=1: x * n, (flambeau.ones(2),))
    assert out.tolist() == [1, 1] and [n.kind() for n in graph.nodes()][-1] == "aten::mul"


def test_what_was_traced_read_or_frozen_shows_its_methods_too():
    traced = flambeau.jit.trace(Outer(), flambeau.ones(1, 2))
    read = flambeau.jit.load(io.BytesIO(traced.save_to_buffer()))
    for module in (traced, read, flambeau.jit.freeze(traced.eval())):
        assert "relu" in module.forward.code and module.forward.graph.findNode("aten::relu") is not None
        assert module.forward(flambeau.ones(3, 2)).shape == (3, 2)


def test_constants_are_attributes():
    code, constants = flambeau.jit.freeze(flambeau.jit.script(Outer()).eval()).code_with_constants
    assert "CONSTANTS.c0" in code and constants.c0 is constants["c0"] and constants.c1.shape == (2, 2)
