"""Traces: what becomes a Node, what stays whole, what a trace cannot know and how it says so."""

import math
import operator
import pickle
from collections.abc import Callable
from typing import NamedTuple

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.experimental.rewriter import RewritingTracer
from flambeau.fx.proxy import TraceError

F = nn.functional


@fx.wrap
def whole(x, n):
    if n > 1:
        return x * n
    return x if x.sum() > 0 else -x


def by_name(x):
    return len(x) + whole(x, 1)


fx.wrap("len")


def names(gm):
    return [n.name for n in gm.graph.nodes]


def test_wrapped_functions_are_one_step():
    gm = fx.symbolic_trace(by_name)
    assert names(gm) == ["x", "len_1", "whole", "add", "output"] and len([1]) == 1
    x = flambeau.tensor([-1.0, 0.5])
    assert flambeau.equal(gm(x), 2 - x)
    again = pickle.loads(pickle.dumps(fx.symbolic_trace(gm)))
    assert names(again) == names(gm) and flambeau.equal(again(x), 2 - x)
    assert whole.__name__ == "whole" and not hasattr(whole, "_fx_original")


def test_wrap_belongs_at_the_top_of_a_module():
    with pytest.raises(NotImplementedError, match="top of the module"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="a function of this module or its name"):
        fx.wrap(3)


def test_math_is_recorded():
    gm = fx.symbolic_trace(lambda x: x * math.sqrt(x.size(0)))
    assert "math_sqrt(size)" in gm.code and gm(flambeau.ones(4)).tolist() == [2] * 4


def test_functions_of_functional_are_one_step():
    gm = fx.symbolic_trace(lambda x: F.softmax(F.relu(x), dim=0))
    assert [n.target for n in gm.graph.nodes][1:3] == [F.relu, F.softmax]


@pytest.mark.parametrize(("program", "error", "words"), [
    (lambda x: 1 if x else 2, TraceError, r"decides by the value of Proxy\(x\).*test_tracer.py"),
    (lambda x: [y + 1 for y in x], TraceError, "iterates over"),
    (lambda x: flambeau.add(*x), TraceError, "iterates over"),
    (lambda x: int(x), TypeError, "int()"),
    (lambda x: list(range(x)), TypeError, "Proxy"),
    (lambda x: whole(object(), x), NotImplementedError, "__fx_create_arg__"),
    (lambda x: whole({x: 1}, x), RuntimeError, "keys of dicts"),
])
def test_what_a_trace_cannot_know(program, error, words):
    with pytest.raises(error, match=words):
        fx.symbolic_trace(program)


def test_unpacking_into_names_works():
    def f(x):
        a, (b, c) = x
        return a + b * c

    assert fx.symbolic_trace(f)((1, (2, 3))) == 7


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3))])
        self.scale = nn.Parameter(flambeau.ones(3))
        self.register_buffer("shift", flambeau.zeros(3))
        self.plain = flambeau.ones(3)

    def forward(self, x: flambeau.Tensor, *, k=2) -> flambeau.Tensor:
        for layer in self.layers:
            x = layer(x) * k
        return x * self.scale + self.shift + self.plain + flambeau.ones(3)


def test_modules_parameters_and_constants():
    block = Block()
    gm = fx.symbolic_trace(block)
    x = flambeau.randn(2, 3)
    assert flambeau.equal(gm(x), block(x)) and flambeau.equal(gm(x, k=3), block(x, k=3))
    targets = [n.target for n in gm.graph.nodes if n.op in ("call_module", "get_attr")]
    assert targets == ["layers.0", "layers.1.0", "layers.1.1", "scale", "shift", "plain", "_tensor_constant0"]
    assert {name for name, _ in gm.named_parameters()} == {name for name, _ in block.named_parameters()}
    assert list(gm.graph.find_nodes(op="call_module", target="layers.1.0")[0].meta["nn_module_stack"]) == [
        "layers.1", "layers.1.0"]
    assert gm.graph.find_nodes(op="placeholder")[0].type is flambeau.Tensor
    # the module works as before, and calls of modules are no longer recorded
    assert block(x).shape == (2, 3) and "__call__" not in vars(nn.Module)


def test_gradients_reach_the_original_parameters():
    block = Block()
    fx.symbolic_trace(block)(flambeau.ones(1, 3)).sum().backward()
    assert block.scale.grad is not None and block.layers[0].weight.grad is not None


def test_an_error_in_the_trace_restores_everything():
    def broken(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fx.symbolic_trace(broken)
    assert "__call__" not in vars(nn.Module) and F.relu is nn.functional.relu and not hasattr(F.relu, "_fx_original")


def test_leaf_modules_are_the_tracers_choice():
    class Deep(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "layers.0"

    block = Block()
    graph = Deep().trace(block)
    graph.lint()
    assert [n.target for n in graph.find_nodes(op="call_module")] == ["layers.0"]
    assert len(graph.find_nodes(op="call_function", target=F.linear)) == 1
    x = flambeau.randn(2, 3)
    assert flambeau.equal(fx.GraphModule(block, graph)(x), block(x))


def test_submodules_must_belong_to_the_root():
    layer = nn.Linear(2, 2)
    with pytest.raises(NameError, match="assign it to an attribute"):
        fx.symbolic_trace(lambda x: layer(x))
    with pytest.raises(NameError, match="a parameter is used"):
        fx.symbolic_trace(lambda x: x + layer.weight)


def test_tracers_decide_about_values():
    class Both(fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter((obj[0], obj[1]))

        def create_arg(self, a):
            return super().create_arg(a.value if isinstance(a, Boxed) else a)

    class Boxed:
        value = 3

    graph = Both().trace(lambda x: [a + whole(x, Boxed()) for a in x] if x > 0 else x)
    assert [n.name for n in graph.nodes] == ["x", "gt", "getitem", "getitem_1", "whole", "add", "whole_1", "add_1",
                                             "output"]


def test_shapes_of_parameters_may_be_constant():
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(flambeau.ones(3, 2))

        def forward(self, x):
            if self.w.shape[0] == 3 and self.w.dim() == 2:
                return x @ self.w
            return x

    module = Sized()
    graph = fx.Tracer(param_shapes_constant=True).trace(module)
    assert fx.GraphModule(module, graph)(flambeau.ones(1, 3)).tolist() == [[3, 3]]


def test_stack_traces_name_the_line():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(lambda x: x.exp() + 1)
    for node in graph.nodes:
        if node.op.startswith("call"):
            assert "test_tracer.py" in node.stack_trace and "x.exp() + 1" in node.stack_trace
            assert "flambeau/fx" not in node.stack_trace
    gm = fx.GraphModule({}, graph)
    with pytest.raises(AttributeError) as caught:
        gm(3)
    assert any("at step exp" in note and "test_tracer.py" in note for note in caught.value.__notes__)
    assert "test_tracer.py" in gm.print_readable(print_output=False)


def test_concrete_values_are_checked():
    def f(x, flag, n=None, scale=2.0):
        return x * scale + 1 if flag and n is None else x

    gm = fx.symbolic_trace(f, concrete_args={"flag": True, "n": None})
    assert gm(1, True) == 3 and gm(1, True, None, 3.0) == 4
    for wrong in [(1, False), (1, True, 5)]:
        with pytest.raises(AssertionError, match="when this graph was traced"):
            gm(*wrong)


def test_concrete_trees():
    def f(x, y):
        return {"sum": x + y["a"] + y["b"][0], "b": y["b"]}

    gm = fx.symbolic_trace(f, concrete_args={"y": {"a": fx.PH, "b": [fx.PH, 3]}})
    assert gm(1, {"a": 2, "b": [3, 3]}) == {"sum": 6, "b": [3, 3]}
    assert fx.Interpreter(gm).run(1, {"a": 2, "b": [3, 3]}) == {"sum": 6, "b": [3, 3]}
    with pytest.raises(AssertionError, match="was 3"):
        gm(1, {"a": 2, "b": [3, 4]})
    again = pickle.loads(pickle.dumps(gm))
    assert again(1, {"a": 2, "b": [3, 3]}) == {"sum": 6, "b": [3, 3]}


def test_placeholders_may_bring_meta():
    class Known(fx.PHWithMeta):
        def __init__(self):
            super().__init__(ph_key="k")
            self.kind = "known"

    gm = fx.symbolic_trace(lambda x: x + 1, concrete_args={"x": Known()})
    node = next(iter(gm.graph.nodes))
    assert node.meta["ph_key"] == "k" and node.kind == "known"


def test_further_arguments():
    def f(a, *rest, b=2, **named):
        return a + rest[0] * b + named["c"]

    gm = fx.symbolic_trace(f)
    assert [n.target for n in gm.graph.find_nodes(op="placeholder")] == ["a", "b", "*rest", "**named"]
    assert gm(1, 2, 3, c=4) == 1 + 3 * 2 + 4


class Point(NamedTuple):
    x: object
    y: object


class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, a, b):
        self.a, self.b = a, b

    def both(self):
        return self.a + self.b


def test_classes_as_values():
    gm = fx.symbolic_trace(lambda p: Point(p.y, p.x))
    assert gm(Point(1, 2)) == Point(2, 1) and isinstance(gm(Point(1, 2)), Point)
    gm = fx.symbolic_trace(lambda a: Pair(a, 1).both())
    assert gm(3) == 4 and names(gm) == ["a", "pair", "both", "output"]


def test_indices_and_sizes_may_be_proxies():
    table = flambeau.arange(10.0)
    gm = fx.symbolic_trace(lambda i, n: table[i] + flambeau.zeros(n, 2) + table[:n, None])
    assert gm(flambeau.tensor([1, 2]), 2).tolist() == [[1, 2], [2, 3]]


def test_asserts_may_be_recorded():
    class Asserting(fx.Tracer):
        trace_asserts = True

    for condition in ("x.sum() > 0", "x.sum() > 0, 'too small'", "x.sum().gt(0)"):
        space = {}
        exec(f"def f(x):\n    assert {condition}\n    return x", space)  # as Python compiles it, not pytest
        gm = fx.GraphModule({}, Asserting().trace(space["f"]))
        assert gm(flambeau.ones(1)).item() == 1
        with pytest.raises(AssertionError):
            gm(-flambeau.ones(1))


def test_in_place_operators_may_be_refused():
    class Pure(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match="changes an argument in place"):
        Pure().trace(lambda x: flambeau.relu_(x))


def test_proxies_alone():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    graph.output((flambeau.sin(x)[0].T @ 3 >> x.shape[0]).node)
    assert [n.name for n in graph.nodes] == ["x", "sin", "getitem", "getattr_1", "matmul", "getattr_2", "getitem_1",
                                             "rshift", "output"]


def test_operators_and_annotations_of_every_kind():
    assert fx.symbolic_trace(F.linear)(flambeau.ones(1, 2), flambeau.ones(3, 2)).tolist() == [[2, 2, 2]]

    def f(x: list[str], y: tuple[()], z: "int", u: int | None, c: Callable[[int], str], n: Point) -> dict[str, int]:
        return x

    gm = fx.symbolic_trace(f)
    assert gm(*range(6)) == 0 and "-> dict[str, int]:" in gm.code


def test_parameters_are_attributes_wherever_they_are_read():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 3)

        def forward(self, x):
            return x @ self.inner.weight.t(), self.inner.weight.view(6)

    gm = fx.symbolic_trace(Outer())
    assert [n.target for n in gm.graph.find_nodes(op="get_attr")] == ["inner.weight"]


def test_asserts_can_be_rewritten():
    def f(x, limit):
        assert x.sum() > limit, "too small"
        y: flambeau.Tensor = x + 1
        return y

    tracer = RewritingTracer()
    gm = fx.GraphModule(tracer.root if hasattr(tracer, "root") else {}, tracer.trace(f))
    assert gm(flambeau.ones(2), 1).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="too small"):
        gm(flambeau.ones(2), 3)
    assert gm.graph.find_nodes(op="call_function", target=operator.add)[0].type is flambeau.Tensor


def test_ranges_of_the_profiler_are_kept():
    def f(x):
        handle = flambeau.ops.profiler._record_function_enter("part")
        y = x + 1
        flambeau.ops.profiler._record_function_exit(handle)
        return y

    class Ranged(fx.Tracer):
        def trace(self, root, concrete_args=None):
            graph = super().trace(root, concrete_args)
            add = graph.find_nodes(op="call_function", target=operator.add)[0]
            with graph.inserting_before(add):
                handle = graph.call_function(flambeau.ops.profiler._record_function_enter, ("part",))
            with graph.inserting_after(add):
                graph.call_function(flambeau.ops.profiler._record_function_exit, (handle,))
            return graph

    graph = Ranged().trace(f)
    graph.eliminate_dead_code()
    gm = fx.GraphModule({}, graph)
    with flambeau.autograd.profiler.profile() as prof:
        assert gm(flambeau.ones(1)).item() == 2
    assert "part" in [e.name for e in prof.function_events]


class Couple(NamedTuple):
    x: flambeau.Tensor
    y: flambeau.Tensor


def test_a_named_tuple_as_a_tree_of_arguments():
    gm = fx.symbolic_trace(lambda pair: pair.x + pair.y, concrete_args={"pair": Couple(fx.PH, fx.PH)})
    assert gm(Couple(flambeau.ones(1), flambeau.ones(1))).item() == 2


def test_rewritten_source_with_a_text_at_the_margin():
    def checked(x):
        text = """
spaces are
  not the code's"""
        assert x > 0, text
        return x

    gm = fx.GraphModule({}, RewritingTracer().trace(checked))
    assert gm(3) == 3
    with pytest.raises(AssertionError, match="not the code's"):
        gm(-3)
    assert flambeau.jit.script(checked).code.count("spaces are") == 1


def test_operands_of_einsum_in_a_list():
    """opt_einsum calls it so."""
    def f(x, y):
        return flambeau.einsum("ij,jk->ik", [x, y])

    gm = fx.symbolic_trace(f)
    x, y = flambeau.ones(2, 3), flambeau.arange(12.0).view(3, 4)
    assert len(gm.graph.nodes) == 4 and flambeau.equal(gm(x, y), f(x, y))


def test_a_scripted_graph_module_is_pickled_as_a_graph_module():
    """e3nn keeps its generated functions so."""
    gm = flambeau.jit.script(fx.symbolic_trace(lambda x: x + 1))
    again = pickle.loads(pickle.dumps(gm))
    assert type(again).__mro__[1] is fx.GraphModule and again(flambeau.ones(1)).tolist() == [2.0]
