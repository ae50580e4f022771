"""Laws of graphs on random programs: code, interpreter, copies, files and passes all mean the same."""

import copy
import itertools
import pickle
import random

import pytest

import flambeau
from flambeau import fx

from .programs import Root, random_graph, runs, same

SEEDS = range(40)


@pytest.fixture(scope="module")
def root():
    flambeau.manual_seed(0)
    return Root()


@pytest.fixture(scope="module")
def args():
    flambeau.manual_seed(1)
    return flambeau.randn(4, 4), flambeau.randn(4, 4)


def modules(root, seed):
    graph = random_graph(seed)
    return fx.GraphModule(root, graph)


@pytest.mark.parametrize("seed", SEEDS)
def test_code_does_what_the_interpreter_does(root, args, seed):
    gm = modules(root, seed)
    gm.graph.lint()
    interpreter = fx.Interpreter(gm)
    assert same(runs(gm, args), runs(interpreter.run, args))


@pytest.mark.parametrize("seed", SEEDS)
def test_code_is_a_program_of_its_own(root, args, seed):
    gm = modules(root, seed)
    code = gm.graph.python_code("self")
    space = dict(code.globals)
    exec(code.src, space)
    assert same(runs(lambda *a: space["forward"](gm, *a), args), runs(gm, args))


@pytest.mark.parametrize("seed", SEEDS)
def test_round_trips(root, args, seed):
    gm = modules(root, seed)
    expected = runs(gm, args)
    for copied in (pickle.loads(pickle.dumps(gm)), copy.deepcopy(gm), copy.copy(gm)):
        assert copied.code == gm.code and str(copied.graph) == str(gm.graph)
        assert same(runs(copied, args), expected)
    new = fx.Graph()
    new.output(new.graph_copy(gm.graph, {}))
    assert same(runs(fx.GraphModule(gm, new), args), expected)
    assert fx.GraphModule(root, pickle.loads(pickle.dumps(gm.graph))).code == gm.code


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trace_of_a_graph_is_the_graph(root, args, seed):
    gm = modules(root, seed)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    again = fx.symbolic_trace(gm)
    assert same(runs(again, args), runs(gm, args))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_transformer_that_changes_nothing(root, args, seed):
    gm = modules(root, seed)
    new = fx.Transformer(gm).transform()
    new.graph.lint()
    assert same(runs(new, args), runs(gm, args))


@pytest.mark.parametrize("seed", SEEDS)
def test_dead_code_changes_no_result(root, args, seed):
    gm = modules(root, seed)
    expected = runs(gm, args)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    assert isinstance(expected, type) or same(runs(gm, args), expected)
    assert all(n.users or n.op in ("placeholder", "output") for n in gm.graph.nodes)


def check_list(graph):
    """What holds of the list of Nodes after whatever was done to it."""
    nodes = list(graph.nodes)
    assert len(graph.nodes) == len(nodes) and list(reversed(graph.nodes)) == nodes[::-1]
    assert all(a.next is b and b.prev is a and a < b for a, b in itertools.pairwise(nodes))
    for node in nodes:
        assert not node._erased
        assert all(node in used.users for used in node.all_input_nodes)
        assert all(node in user.all_input_nodes for user in node.users)
        assert node in graph.find_nodes(op=node.op, target=node.target)
    names = [n.name for n in nodes]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("seed", range(20))
def test_random_edits_keep_the_list_whole(seed):
    rng = random.Random(seed)
    graph = random_graph(seed, 8)
    for _ in range(60):
        nodes = [n for n in graph.nodes if n.op not in ("output", "placeholder")]
        node = rng.choice(nodes) if nodes else None
        kind = rng.randrange(7)
        if kind == 0 or node is None:
            with rng.choice([graph.inserting_before, graph.inserting_after])(rng.choice(list(graph.nodes))):
                graph.call_function(flambeau.sin, (next(iter(graph.nodes)),))
        elif kind == 1:
            rng.choice(list(graph.nodes)).append(node)
        elif kind == 2:
            rng.choice(list(graph.nodes)).prepend(node)
        elif kind == 3 and not node.users:
            graph.erase_node(node)
        elif kind == 4:
            node.replace_all_uses_with(next(iter(graph.nodes)))
        elif kind == 5:
            node.args = (next(iter(graph.nodes)), *node.args[1:])
        else:
            node.target = rng.choice([flambeau.cos, flambeau.sin]) if node.op == "call_function" else node.target
        check_list(graph)


def test_order_survives_many_insertions_at_one_place():
    graph = fx.Graph()
    x = graph.placeholder("x")
    last = graph.call_function(flambeau.sin, (x,))
    with graph.inserting_before(last):
        made = [graph.call_function(flambeau.cos, (x,)) for _ in range(200)]
    assert list(graph.nodes) == [x, *made, last]
    anchor = x
    for _ in range(200):  # always directly behind x: the numbers between run out
        with graph.inserting_after(anchor):
            graph.call_function(flambeau.exp, (x,))
    check_list(graph)
