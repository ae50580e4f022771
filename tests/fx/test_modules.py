"""GraphModules: what they take from their root, copies and files, submodules, interpreters and transformers."""

import copy
import gc
import importlib
import linecache
import operator
import pickle
import sys
import traceback

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.passes.shape_prop import ShapeProp

from .test_tracer import Block


def test_attributes_come_from_a_module_or_a_dict():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(flambeau.add, (graph.call_module("a.lin", (x,)), graph.get_attr("a.b.w"))))
    attributes = {"a.lin": nn.Linear(2, 2), "a.b.w": nn.Parameter(flambeau.ones(2))}
    gm = fx.GraphModule(attributes, graph, "Made")
    assert type(gm).__name__ == "Made" and gm.a.lin is attributes["a.lin"]
    assert [name for name, _ in gm.named_parameters()] == ["a.lin.weight", "a.lin.bias", "a.b.w"]
    with pytest.raises(RuntimeError, match="has no such attribute"):
        fx.GraphModule(nn.Module(), graph)
    with pytest.raises(RuntimeError, match="the dict of attributes has"):
        fx.GraphModule({}, graph)
    with pytest.raises(RuntimeError, match="root must be a Module or a dict"):
        fx.GraphModule([], graph)


def test_buffers_stay_as_persistent_as_they_were():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", flambeau.ones(1))
            self.register_buffer("lost", flambeau.ones(1), persistent=False)

        def forward(self, x):
            return x + self.kept + self.lost

    assert list(fx.symbolic_trace(M()).state_dict()) == ["kept"]


def test_every_module_has_code_of_its_own():
    a, b = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x + 2)
    assert a(1) == 2 and b(1) == 3 and type(a) is not type(b) and isinstance(a, fx.GraphModule)


def test_files_keep_names_types_and_stack_traces():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    block = Block()
    gm = fx.GraphModule(block, tracer.trace(block), "Block")
    again = pickle.loads(pickle.dumps(gm))
    assert again.code == gm.code and str(again.graph) == str(gm.graph) and type(again).__name__ == "Block"
    assert [n.stack_trace for n in again.graph.nodes] == [n.stack_trace for n in gm.graph.nodes]
    x = flambeau.randn(2, 3)
    assert flambeau.equal(again(x), block(x))
    again.graph.lint()
    assert again.graph.owning_module is again


def test_flambeau_files(tmp_path):
    gm = fx.symbolic_trace(Block())
    flambeau.save(gm, tmp_path / "m.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"safe_globals\(\[mul\]\)"):
        flambeau.load(tmp_path / "m.pt", weights_only=False)
    with flambeau.serialization.safe_globals([operator.mul, operator.add]):  # what is not ours the user names
        again = flambeau.load(tmp_path / "m.pt", weights_only=False)
    x = flambeau.randn(2, 3)
    assert flambeau.equal(again(x), gm(x))


def test_nodes_are_not_copied_alone():
    gm = fx.symbolic_trace(lambda x: x + 1)
    node = gm.graph.output_node()
    with pytest.raises(NotImplementedError, match="node_copy"):
        copy.deepcopy(node)
    assert pickle.loads(pickle.dumps((gm.graph, node)))[1].op == "output"


def test_copies_are_apart():
    gm = fx.symbolic_trace(Block())
    deep = copy.deepcopy(gm)
    deep.scale.data.fill_(5.0)
    assert gm.scale.tolist() == [1, 1, 1] and deep.graph is not gm.graph
    assert all(n.graph is deep.graph for n in deep.graph.nodes)
    deep.custom = 3
    assert copy.deepcopy(deep).custom == 3


def test_folders_are_programs(tmp_path):
    block = Block()
    gm = fx.symbolic_trace(block)
    gm.to_folder(tmp_path / "made_by_fx", "Made")
    sys.path.insert(0, str(tmp_path))
    try:
        made = importlib.import_module("made_by_fx").Made()
    finally:
        sys.path.remove(str(tmp_path))
    x = flambeau.randn(2, 3)
    assert flambeau.equal(made(x), block(x)) and not isinstance(made, fx.GraphModule)


def test_submodules_come_and_go():
    gm = fx.symbolic_trace(Block())
    assert gm.add_submodule("new.deep.lin", nn.Linear(1, 1)) and gm.new.deep.lin.in_features == 1
    assert not gm.add_submodule("scale.x", nn.ReLU())
    assert gm.delete_submodule("new.deep.lin") and not gm.delete_submodule("new.deep.lin")
    gm.delete_all_unused_submodules()
    assert not hasattr(gm, "new") and isinstance(gm.get_submodule("layers.1.1"), nn.Linear)


def test_readable_code_shows_what_is_known():
    gm = fx.symbolic_trace(lambda x: flambeau.relu(x) + 1)
    ShapeProp(gm).propagate(flambeau.ones(2, 3))
    text = gm.print_readable(print_output=False, include_stride=True, include_device=False)
    assert 'relu: "f32[2, 3][3, 1]" = flambeau.relu(x)' in text and text.startswith("class <lambda>(") is not None
    assert "expanded" not in text
    lines = gm.graph.python_code("self", expanded_def=True).src
    assert "    x,\n" in lines


def test_tracebacks_quote_generated_code():
    gm = fx.symbolic_trace(lambda x: x.reshape(7, 7))
    with pytest.raises(RuntimeError) as caught:
        gm(flambeau.ones(2))
    text = "".join(traceback.format_exception(caught.value))
    assert "reshape = x.reshape(7, 7)" in text


def test_an_interpreter_says_which_step_failed():
    gm = fx.symbolic_trace(lambda x: x.reshape(7, 7) + 1)
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(gm).run(flambeau.ones(2))
    assert any("while running: %reshape" in note for note in caught.value.__notes__)


def test_interpreters_start_from_known_values():
    gm = fx.symbolic_trace(lambda x, y=3: x.exp() * y)
    x, exp = next(iter(gm.graph.nodes)), gm.graph.find_nodes(op="call_method", target="exp")[0]
    runner = fx.Interpreter(gm, garbage_collect_values=False)
    assert runner.run(flambeau.zeros(1)).item() == 3 and exp in runner.env
    assert runner.run(initial_env={x: None, exp: 2}) == 6
    values = [flambeau.zeros(1), 4]
    assert fx.Interpreter(gm).boxed_run(values).item() == 4 and values == []
    with pytest.raises(RuntimeError, match="no value for the argument x"):
        fx.Interpreter(gm).run()


def test_a_transformer_changes_kinds_of_steps():
    class Doubled(fx.Transformer):
        def call_module(self, target, args, kwargs):
            return super().call_module(target, args, kwargs) * 2

        def get_attr(self, target, args, kwargs):
            return super().get_attr(target, args, kwargs) + 1

    net = nn.Sequential(nn.Linear(2, 2))
    gm = fx.symbolic_trace(net)
    new = Doubled(gm).transform()
    x = flambeau.ones(1, 2)
    assert flambeau.equal(new(x), net(x) * 2)


def test_meta_is_handed_on():
    gm = fx.symbolic_trace(lambda x: x.exp() + 1)
    for node in gm.graph.nodes:
        node.meta["mark"] = node.name
    new = fx.Transformer(gm).transform()
    assert [n.meta.get("mark") for n in new.graph.nodes if n.op.startswith("call")] == ["exp", "add"]


def test_hooks_of_changes():
    gm = fx.symbolic_trace(lambda x: x + 1)
    made, erased, replaced = [], [], []
    gm._register_create_node_hook(made.append)
    gm._register_erase_node_hook(erased.append)
    gm._register_replace_node_hook(lambda old, new, user: replaced.append((old.name, new, user.name)))
    add = gm.graph.find_nodes(op="call_function", target=operator.add)[0]
    with gm.graph.inserting_after(add):
        new = gm.graph.call_function(flambeau.neg, (add,))
    add.replace_all_uses_with(new, lambda user: user is not new)
    gm.graph.erase_node(gm.graph.call_function(flambeau.abs, (add,)))
    assert [n.name for n in made] == ["neg", "abs_1"] and [n.name for n in erased] == ["abs_1"]
    assert replaced == [("add", "neg", "output")]


def test_source_of_a_dead_graph_stays_until_the_next_is_made():
    """A finalizer must not change `linecache.cache`: somebody may be in the middle of a loop over it."""
    graph = fx.symbolic_trace(nn.Linear(2, 3))
    name = graph.forward.__func__.__code__.co_filename
    del graph
    gc.collect()
    assert name in linecache.cache
    fx.symbolic_trace(nn.Linear(2, 3))
    assert name not in linecache.cache
