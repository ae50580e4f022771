"""Passes: what they write into graphs, how they split and fuse them, and that results stay."""

import operator
import xml.etree.ElementTree as ElementTree

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.experimental.const_fold import split_const_subgraphs
from flambeau.fx.experimental.normalize import NormalizeOperators
from flambeau.fx.experimental.optimization import fuse, optimize_for_inference
from flambeau.fx.operator_schemas import create_type_hint, normalize_function, type_matches
from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from flambeau.fx.passes.dialect.common.cse_pass import CSEPass
from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
from flambeau.fx.passes.graph_drawer import FxGraphDrawer, svg
from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper, this_before_that_pass_constraint
from flambeau.fx.passes.net_min_base import FxNetMinimizerResultMismatchError, _MinimizerBase, _MinimizerSettingBase
from flambeau.fx.passes.operator_support import OpSupports, chain, create_op_support
from flambeau.fx.passes.shape_prop import ShapeProp, TensorMetadata
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.passes.split_utils import split_by_tags
from flambeau.fx.passes.tools_common import FxNetAccFusionsFinder, legalize_graph, stable_topological_sort
from flambeau.fx.passes.utils.common import compare_graphs
from flambeau.fx.passes.utils.fuser_utils import fuse_by_partitions
from flambeau.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions

from .programs import Root, random_graph, runs, same

SEEDS = range(25)


@pytest.fixture(scope="module")
def root():
    flambeau.manual_seed(0)
    return Root()


@pytest.fixture(scope="module")
def args():
    flambeau.manual_seed(1)
    return flambeau.randn(4, 4), flambeau.randn(4, 4)


def working(root, args, seed):
    """A random module that runs, and its result."""
    for attempt in range(seed * 100, seed * 100 + 100):
        gm = fx.GraphModule(root, random_graph(attempt, 16))
        gm.graph.eliminate_dead_code()
        gm.recompile()
        result = runs(gm, args)
        if not isinstance(result, type) and len(gm.graph.nodes) > 7:
            return gm, result
    raise AssertionError("no program in a hundred runs")


@pytest.mark.parametrize("seed", SEEDS)
def test_split_modules_compute_the_same(root, args, seed):
    gm, expected = working(root, args, seed)
    calls = [n for n in gm.graph.nodes if n.op.startswith("call")]
    half = {n: int(k >= len(calls) // 2) for k, n in enumerate(calls)}
    for options in ({}, {"tuple_return": True, "keep_original_order": True}, {"keep_original_input_name": False,
                                                                           "keep_original_node_name": True}):
        parts = split_module(gm, gm, half.__getitem__, **options)
        parts.graph.lint()
        assert same(runs(parts, args), expected)


def test_split_modules_name_what_they_hold():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    names = {}
    parts = split_module(gm, gm, lambda n: 0 if n.target in ("0", "1") else 1, names, partition_affix="p")
    assert names == {"submod_p_0.0": "0", "submod_p_0.1": "1", "submod_p_1.2": "2"}
    assert [n.target for n in parts.graph.find_nodes(op="call_module")] == ["submod_p_0", "submod_p_1"]
    with pytest.raises(RuntimeError, match="they use it"):
        split_module(gm, gm, lambda n: int(n.target == "1"))


@pytest.mark.parametrize("seed", SEEDS)
def test_tags_split_too(root, args, seed):
    gm, expected = working(root, args, seed)
    calls = [n for n in gm.graph.nodes if n.op.startswith("call")]
    for k, node in enumerate(calls):
        node.tag = ["a", "b", "c"][3 * k // len(calls)]
    tags = list(dict.fromkeys(n.tag for n in calls))
    for each in (False, True):
        parts, names = split_by_tags(gm, tags, return_tuple=each, return_fqn_mapping=True)
        assert same(runs(parts, args), expected)
        placed = {n.target: {f"{m.tag}.{n.target}" for m in calls if m.target == n.target} for n in calls
                  if n.op == "call_module"}  # a module that two parts call is in both
        assert names.keys() >= placed.keys() and all(names[n] in places for n, places in placed.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_partitions_are_sound_and_compute_the_same(root, args, seed):
    gm, expected = working(root, args, seed)
    chosen = create_op_support(lambda modules, node: (sum(map(ord, node.name)) + seed) % 3 > 0)
    partitioner = CapabilityBasedPartitioner(gm, chosen, allows_single_node_partition=True)
    groups = partitioner.propose_partitions()
    supported = [n for n in gm.graph.nodes if partitioner._is_node_supported(n)]
    assert sorted(n for g in groups for n in g.nodes) == supported
    fused = partitioner.fuse_partitions(groups)
    fused.graph.lint()
    assert same(runs(fused, args), expected)
    assert len(fused.graph.find_nodes(op="call_module")) >= len(groups)


def test_a_path_through_others_parts_a_group():
    gm = fx.symbolic_trace(lambda x: flambeau.add(flambeau.exp(x), flambeau.sin(flambeau.exp(x))))
    gm = CSEPass()(gm).graph_module
    support = create_op_support(lambda modules, n: n.target in (flambeau.exp, flambeau.add))
    groups = CapabilityBasedPartitioner(gm, support, True).propose_partitions()
    assert [[n.name for n in g.nodes] for g in groups] == [["exp"], ["add"]]
    with pytest.raises(AssertionError, match="lies between"):
        fuse_by_partitions(gm, [[n for n in gm.graph.nodes if n.name in ("exp", "add")]])


def test_support_predicates():
    gm = fx.symbolic_trace(lambda x: x.exp() + 1)
    ShapeProp(gm).propagate(flambeau.ones(2))
    exp = gm.graph.find_nodes(op="call_method", target="exp")[0]
    half = OpSupports.decline_if_input_dtype(flambeau.float32)
    assert not half.is_node_supported({}, exp)
    assert chain(OpSupports.decline_if_node_in_names({"add"})).is_node_supported({}, exp)


def test_shapes():
    gm = fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()))
    ShapeProp(gm).propagate(flambeau.ones(1, 1, 4, 4).to(memory_format=flambeau.channels_last))
    conv = gm.graph.find_nodes(op="call_module", target="0")[0]
    meta = conv.meta["tensor_meta"]
    assert isinstance(meta, TensorMetadata) and meta.shape == (1, 2, 2, 2) and meta.requires_grad
    FakeTensorProp(gm).propagate(flambeau.ones(7, 1, 4, 4))
    assert conv.meta["val"].shape == (7, 2, 2, 2) and conv.meta["type"].__name__ == "FakeTensor"
    with pytest.raises(RuntimeError, match=r"ShapeProp: %_0 .* failed"):
        ShapeProp(gm).propagate(flambeau.ones(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_common_subexpressions(root, args, seed):
    gm, expected = working(root, args, seed)
    result = CSEPass()(gm)
    result.graph_module.graph.lint()
    assert same(runs(result.graph_module, args), expected)
    assert not CSEPass()(result.graph_module).modified


def test_what_writes_or_draws_is_computed_twice():
    def f(x):
        a = flambeau.sin(x)
        x.add_(1)
        return a + flambeau.sin(x) + flambeau.rand(2) + flambeau.rand(2)

    gm = fx.symbolic_trace(f)
    assert not CSEPass()(gm).modified
    gm = fx.symbolic_trace(lambda x: flambeau.add(x, 1) + flambeau.add(x, 1.0))
    assert not CSEPass()(gm).modified


def test_pass_managers_order_and_repeat():
    order = []

    def named(name):
        def one(gm):
            order.append(name)

        one.__name__ = name
        return pass_result_wrapper(one)

    a, b = named("a"), named("b")
    manager = PassManager([b, a], [this_before_that_pass_constraint(a, b)], steps=2)
    manager.add_checks(lambda gm: gm.graph.lint())
    manager(fx.symbolic_trace(lambda x: x))
    assert order == ["a", "b", "a", "b"]
    with pytest.raises(RuntimeError, match="may not come before"):
        PassManager([b, a], [this_before_that_pass_constraint(a, b)]).validate_constraints()
    with pytest.raises(RuntimeError, match="contradict"):
        PassManager([a, b], [this_before_that_pass_constraint(a, b), this_before_that_pass_constraint(b, a)])(
            fx.symbolic_trace(lambda x: x))
    with pytest.raises(TypeError, match="pass_result_wrapper"):
        PassManager([lambda gm: 3])(fx.symbolic_trace(lambda x: x))


class Halves(_MinimizerBase):
    """The second way computes `sin` wrongly."""

    def run_a(self, mod, inputs, report_idx=-1):
        return mod(*inputs)

    def run_b(self, mod, inputs, report_idx=-1):
        class Wrong(fx.Interpreter):
            def call_function(self, target, args, kwargs):
                return super().call_function(target, args, kwargs) + (target is flambeau.sin)

        return Wrong(mod).run(*inputs)


def differs(a, b, names):
    return (a - b).abs().max().item(), flambeau.equal(a, b)


@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "block", "skip", "defined"])
def test_the_minimizer_finds_the_step(method):
    gm = fx.symbolic_trace(lambda x: flambeau.exp(flambeau.cos(flambeau.sin(flambeau.neg(x)))) * 2)
    found = Halves(gm, [flambeau.ones(2)], differs, _MinimizerSettingBase(traverse_method=method)).minimize(
        skip_nodes=["mul"] if method == "skip" else None)
    names = {n.name for n in found}
    assert names == {"sin"} if method in ("sequential", "binary", "accumulate", "block") else "sin" in names
    with pytest.raises(FxNetMinimizerResultMismatchError):
        Halves(gm, [flambeau.ones(2)], differs, _MinimizerSettingBase()).run_nodes("sin", "sin")


def test_pictures_are_svg():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    ShapeProp(gm).propagate(flambeau.ones(1, 2))
    text = svg(gm)
    tree = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f".//{space}rect")) == len(gm.graph.nodes)
    assert "f32[1, 2]" in text and "Linear" in text and "http" not in text.replace("http://www.w3.org", "")
    drawer = FxGraphDrawer(gm, "net", ignore_getattr=True, normalize_args=True, skip_node_names_in_args=False)
    assert "input=" in drawer.get_svg()


def test_graphs_are_compared_and_sorted(root, args):
    gm, expected = working(root, args, 3)
    assert compare_graphs(gm.graph, fx.GraphModule(gm, gm.graph.__deepcopy__()).graph)
    assert not compare_graphs(gm.graph, fx.symbolic_trace(lambda x, y: x).graph)
    assert same(runs(legalize_graph(gm), args), expected)
    nodes = [n for n in gm.graph.nodes if n.op.startswith("call")]
    nodes[-1].append(nodes[0]) if not nodes[0].users else nodes[0].prepend(nodes[-1])
    stable_topological_sort(gm).recompile()
    gm.graph.lint()
    assert same(runs(gm, args), expected)


def test_constants_are_folded():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            return x * (self.w.exp() + 1) + self.w

    module = M()
    folded = split_const_subgraphs(module)
    x = flambeau.randn(2)
    assert flambeau.allclose(folded(x), module(x))
    assert [n.name for n in folded.graph.nodes if n.op.startswith("call")] == ["mul", "add_1"]


def test_batch_norm_is_folded_and_dropout_goes():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(8, 3),
                        nn.BatchNorm1d(3))
    net(flambeau.randn(5, 1, 4, 4))
    net.eval()
    x = flambeau.randn(2, 1, 4, 4)
    for fused in (fuse(net), optimize_for_inference(net)):
        assert flambeau.allclose(fused(x), net(x), atol=1e-5)
        assert not any(isinstance(m, nn.BatchNorm2d) for m in fused.modules())
    assert len(list(optimize_for_inference(net).graph.find_nodes(op="call_module"))) == 4
    assert any(isinstance(m, nn.BatchNorm2d) for m in fuse(net.train()).modules())


def test_normal_forms():
    gm = NormalizeOperators(fx.symbolic_trace(lambda x: x + 1 - 2)).transform()
    assert [n.target for n in gm.graph.nodes if n.op == "call_function"] == [flambeau.add, flambeau.sub]
    found = normalize_function(flambeau.sum, (1,), {"dim": 2}, normalize_to_only_use_kwargs=True)
    assert found.kwargs["dim"] == 2 and found.kwargs["keepdim"] is False and not found.args
    assert normalize_function(lambda a, b=3: a, (1,), {}).kwargs == {"b": 3} and normalize_function(len, (1,)) is None
    assert create_type_hint([int, int]) == list[int] and type_matches(list[int], tuple[int, int])
    assert type_matches(flambeau.Tensor, nn.Parameter) and not type_matches(int, str)


def test_types_of_items():
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=tuple[int, flambeau.Tensor])
    item = graph.call_function(operator.getitem, (x, 1))
    graph.output(item)
    annotate_getitem_nodes(graph)
    assert item.type is flambeau.Tensor


def test_groups_that_must_stay_together():
    gm = fx.symbolic_trace(lambda x: flambeau.split(x, 1)[0] + flambeau.exp(x))
    ShapeProp(gm).propagate(flambeau.ones(2))
    split = gm.graph.find_nodes(op="call_function", target=flambeau.split)[0]
    split.meta.pop("tensor_meta", None)
    acc = {n for n in gm.graph.nodes if n.op.startswith("call")}
    groups = FxNetAccFusionsFinder(gm, acc)()
    assert {n.name for n in groups[split]} == {"split", "getitem"}


def test_parts_by_source():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    parts = get_source_partitions(gm.graph, [nn.Linear, nn.ReLU])
    assert len(parts[nn.Linear]) == 2 and len(parts[nn.ReLU]) == 1
    assert check_subgraphs_connected(parts[nn.Linear][0], parts[nn.ReLU][0])
    assert not check_subgraphs_connected(parts[nn.Linear][0], parts[nn.Linear][1])


def test_parts_by_source_of_an_exported_program():
    """Programs know the names of classes, and each call of a module by itself."""
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.relu = nn.Linear(2, 2), nn.ReLU()

        def forward(self, x):
            return self.relu(self.linear(self.linear(x)))

    program = flambeau.export.export(Twice(), (flambeau.ones(1, 2),))
    parts = get_source_partitions(program.graph, [nn.Linear, nn.ReLU, nn.Conv2d])
    assert {kind: len(each) for kind, each in parts.items()} == {nn.Linear: 2, nn.ReLU: 1}
    assert check_subgraphs_connected(parts[nn.Linear][1], parts[nn.ReLU][0])


def test_a_pass_that_gives_nothing_is_refused():
    gm = fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(TypeError, match="gave a NoneType; a pass gives a PassResult"):
        PassManager(passes=[lambda module: None])(gm)
