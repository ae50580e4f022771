"""Graphs and Nodes: what may be done to them, and what is refused."""

import operator

import pytest

import flambeau
from flambeau import fx


def small():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y", default_value=3)
    z = graph.call_function(flambeau.add, (x, y), {"alpha": 2})
    graph.output(z)
    return graph, x, y, z


def test_a_graph_by_hand_runs():
    graph, *_ = small()
    gm = fx.GraphModule(flambeau.nn.Module(), graph)
    assert gm(flambeau.tensor(1.0), 2).item() == 5 and gm(flambeau.tensor(1.0)).item() == 7


def test_listing_and_table(capsys):
    graph, *_ = small()
    assert str(graph) == """graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y](default=3)
    %add : [num_users=1] = call_function[target=flambeau.add](args = (%x, %y), kwargs = {alpha: 2})
    return add"""
    graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"] and set(lines[1]) == {"-", " "}
    assert lines[4].split() == ["call_function", "add", "flambeau.add", "(x,", "y)", "{'alpha':", "2}"]


@pytest.mark.parametrize(("candidate", "name"), [
    ("x", "x_1"), ("in", "in_1"), ("self", "self"), ("flambeau", "flambeau_1"), ("a.b c", "a_b_c"), ("1a", "_1a"),
    ("len", "len_1"), ("inf", "inf_1"), ("x_1", "x_1"), ("_", "_"), ("device", "device_1"), ("", "_unnamed")])
def test_names_are_unique_and_valid(candidate, name):
    graph = fx.Graph()
    graph.placeholder("x")
    assert graph.create_node("call_function", flambeau.relu, name=candidate).name == name


def test_names_of_targets():
    graph = fx.Graph()
    x = graph.placeholder("x")
    names = [graph.call_function(f, (x, x)).name for f in (flambeau.add, operator.add, operator.and_, getattr)]
    names += [graph.call_module("layer.1.BatchNorm2d", (x,)).name, graph.call_method("__add__", (x, x)).name]
    assert names == ["add", "add_1", "and_", "getattr_1", "layer_1_batch_norm2d", "add_2"]


def test_users_follow_arguments():
    _, x, y, z = small()
    assert list(x.users) == [z] and z.all_input_nodes == [x, y]
    z.args = (y, y)
    assert not x.users and z.all_input_nodes == [y]
    z.update_arg(0, x)
    z.update_kwarg("alpha", y)
    z.insert_arg(2, [x, {"k": y}])
    assert z.args == (x, y, [x, {"k": y}]) and z.kwargs == {"alpha": y} and list(x.users) == [z]
    z.replace_input_with(y, x)
    assert not y.users


def test_arguments_are_immutable():
    graph, x, _, z = small()
    node = graph.call_function(flambeau.cat, ([x, x],))
    with pytest.raises(TypeError, match="copy the list"):
        node.args[0].append(z)
    with pytest.raises(TypeError, match="update_kwarg"):
        z.kwargs["alpha"] = 3
    assert hash(fx.immutable_collections.immutable_list([1])) == hash(fx.immutable_collections.immutable_list([1]))


def test_erasing_what_is_used_is_refused():
    graph, x, *_ = small()
    with pytest.raises(RuntimeError, match=r"erase_node: x is used by add; .*replace_all_uses_with"):
        graph.erase_node(x)


def test_replace_all_uses_with():
    graph, x, _, z = small()
    with graph.inserting_after(z):
        new = graph.call_function(flambeau.relu, (z,))
    users = z.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new, propagate_meta=True)
    assert [u.op for u in users] == ["output"] and new.args == (z,)
    graph.lint()
    with pytest.raises(AssertionError, match="needs an empty meta"):
        new.meta["k"] = 1
        z.replace_all_uses_with(new, propagate_meta=True)
    assert list(x.users) == [z]


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda g: g.create_node("call", "x"), AssertionError, "op must be one of placeholder"),
    (lambda g: g.create_node("call_function", "x"), ValueError, "target of a call_function is a function"),
    (lambda g: g.create_node("call_method", len), ValueError, "target of a call_method is a string"),
    (lambda g: g.create_node("output", "output", [1]), AssertionError, "args must be a tuple"),
    (lambda g: (g.call_function(len, (fx.Graph().placeholder("z"),)), g.lint()), RuntimeError, "another graph"),
    (lambda g: g.find_nodes(op="call_function"), AssertionError, "needs a target"),
    (lambda g: next(iter(g.nodes)).append(fx.Graph().placeholder("z")), AssertionError, "another graph"),
    (lambda g: fx.Graph().output_node(), AssertionError, "must be the output"),
])
def test_refusals(make, error, words):
    graph, *_ = small()
    with pytest.raises(error, match=words):
        make(graph)


def test_lint_finds_what_is_wrong():
    graph, x, y, z = small()
    z.append(x)
    with pytest.raises(RuntimeError, match="add uses x, which comes after it"):
        graph.lint()
    y.prepend(x)
    graph.lint()
    gm = fx.GraphModule(flambeau.nn.Module(), graph)
    with graph.inserting_before(z), pytest.warns(UserWarning, match="has no 'nothing.there' yet"):
        graph.get_attr("nothing.there")
    with pytest.raises(RuntimeError, match="has no 'nothing'"):
        gm.graph.lint()


def test_insertion_points():
    graph, x, y, z = small()
    with graph.inserting_before(z):
        a = graph.call_function(flambeau.sin, (x,))
        b = graph.call_function(flambeau.cos, (a,))
    with graph.inserting_after(x):
        c = graph.call_function(flambeau.exp, (x,))
        d = graph.call_function(flambeau.log, (c,))
    assert list(graph.nodes)[:-1] == [x, c, d, y, a, b, z]
    end = graph.call_function(flambeau.abs, (x,))
    assert list(graph.nodes)[-1] is end
    with graph.inserting_before():
        first = graph.placeholder("w")
    assert next(iter(graph.nodes)) is first


def test_writes_and_prints_are_not_dead():
    def f(x):
        y = x.clone()
        y.add_(1)
        flambeau.relu_(y)
        flambeau.sin(x)
        flambeau._assert(x.sum() > 0, "positive")
        flambeau.rand(2)
        return y

    gm = fx.symbolic_trace(f)
    assert gm.graph.eliminate_dead_code()
    assert [n.name for n in gm.graph.nodes] == ["x", "clone", "add_", "relu_", "sum_1", "gt", "_assert", "output"]
    assert not gm.graph.eliminate_dead_code()
    assert gm(flambeau.ones(2)).tolist() == [2, 2]


def noted(x):
    noted.seen.append(x)


noted.seen = []


def test_has_side_effect():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(fx.has_side_effect(noted), (x,))
    graph.output(x)
    graph.eliminate_dead_code()
    fx.GraphModule({}, graph)(5)
    assert noted.seen == [5]


def test_graph_copy_with_a_map():
    graph, x, y, z = small()
    new = fx.Graph()
    given = new.placeholder("given")
    result, old = new.graph_copy(graph, {x: given, y: given}, return_output_node=True)
    assert result.args == (given, given) and old is graph.output_node() and len(new.nodes) == 2
    assert z.graph is graph


def test_find_nodes_follows_changes():
    graph, _, _, z = small()
    z.target = flambeau.sub
    assert graph.find_nodes(op="call_function", target=flambeau.sub) == [z]
    assert graph.find_nodes(op="call_function", target=flambeau.add) == []
    assert [n.name for n in graph.find_nodes(op="placeholder")] == ["x", "y"]


def test_generated_code_may_be_changed():
    graph, *_ = small()
    gm = fx.GraphModule({}, graph)
    with graph.on_generate_code(lambda before: lambda body: ["y = y + 10\n", *(before(body) if before else body)]):
        gm.recompile()
        assert gm(flambeau.tensor(1.0), 0).item() == 21
    gm.recompile()
    assert gm(flambeau.tensor(1.0), 0).item() == 1


def test_a_codegen_of_ones_own():
    class Listed(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
            return f"def forward(self, values):\n    {', '.join(v.split('=')[0] for v in free_vars)}, = values"

        def additional_globals(self):
            return [("Any", object)]

        def process_inputs(self, *inputs):
            return inputs[0]

    graph, *_ = small()
    graph.set_codegen(Listed())
    gm = fx.GraphModule({}, graph)
    assert gm([flambeau.tensor(1.0), 2]).item() == 5
    assert fx.Interpreter(gm).run([flambeau.tensor(1.0), 2]).item() == 5


def test_values_are_dropped_after_their_last_use():
    gm = fx.symbolic_trace(lambda x: (x.exp() + 1).log())
    assert "add = exp + 1;  exp = None" in gm.code and "x = None" in gm.code


def test_arguments_of_every_kind_in_code():
    def f(x):
        y = x.reshape(flambeau.Size([2, 2])).contiguous(memory_format=flambeau.contiguous_format)
        z = x.to(flambeau.float64, device=flambeau.device("cpu"))
        return z, x[1:, None, ...], {"a": [1, (2,), float("inf")]}, 2 ** x, (-2) ** x, y

    gm = fx.symbolic_trace(f)
    x = flambeau.ones(2, 2)
    expected, got = f(x), gm(x)
    assert str(expected) == str(got) and "flambeau.float64" in gm.code and "(-2) ** x" in gm.code
