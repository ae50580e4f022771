"""Trees: what is a container, specs, maps, paths, registered classes, and JSON."""

import dataclasses
import enum
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import flambeau
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


TREES = {
    "leaf": 1, "none": None, "tuple": (1, 2), "empty": [], "dict": {"b": 1, "a": [2, (3, None)]},
    "ordered": OrderedDict(z=1, y=2), "default": defaultdict(list, {"k": 1, "l": [2]}), "deque": deque([1, [2]], 5),
    "namedtuple": Point(1, [2]), "size": flambeau.Size([2, 3]), "nested": [{"a": ({}, [()])}, Point((), {1: 2})],
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_taken_apart_and_put_together(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert spec.num_leaves == len(leaves) == len(pytree.tree_leaves(tree))
    assert spec.num_nodes == 1 + sum(c.num_nodes for c in spec.children())
    assert [leaf for _, leaf in pytree.tree_leaves_with_path(tree)] == leaves
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pytree.tree_leaves_with_path(tree))
    assert spec == pytree.tree_structure(tree) and hash(spec) == hash(pytree.tree_structure(tree))
    assert spec.flatten_up_to(tree) == leaves
    assert pytree.broadcast_prefix(7, spec) == [7] * len(leaves)


def test_results_of_operators_are_containers():
    found = flambeau.max(flambeau.tensor([[1., 2.]]), 1)
    leaves, spec = pytree.tree_flatten(found)
    assert len(leaves) == 2 and type(spec.unflatten(leaves)) is type(found)
    assert pytree.is_structseq(found) and not pytree.is_namedtuple(found)
    assert pytree.tree_leaves(time.gmtime(0)) == [time.gmtime(0)]  # made by native code elsewhere: a leaf


def test_subclasses_of_containers_are_leaves():
    class Words(list):
        pass

    assert pytree.tree_leaves([Words(["a"])]) == [["a"]]


def test_specs_print_in_lines():
    assert repr(pytree.tree_structure({"a": [1, 2]})) == ("TreeSpec(dict, ['a'], [TreeSpec(list, None, [*,\n    *])])")
    assert pytree.treespec_pprint(pytree.tree_structure((1, Point(1, [2])))) == "(*, Point(x=*, y=[*]))"


@pytest.mark.parametrize("rest", [(1, 2), [1], [1, 2, 3], {"a": 1, "b": 2}, 5])
def test_trees_that_differ_are_refused(rest):
    with pytest.raises(ValueError, match="differ"):
        pytree.tree_map(lambda *x: x, [1, 2], rest)


def test_keys_and_classes_that_differ_are_refused():
    other = namedtuple("Other", "x y")
    with pytest.raises(ValueError, match="keys"):
        pytree.tree_map(max, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match="context"):
        pytree.tree_map(max, Point(1, 2), other(1, 2))
    with pytest.raises(ValueError, match="1 leaves, got 2"):
        pytree.tree_unflatten([1, 2], pytree.tree_structure([0]))
    with pytest.raises(TypeError, match="TreeSpec"):
        pytree.tree_unflatten([1], [0])


def test_dictionaries_of_any_kind_and_order_go_together():
    assert pytree.tree_map(lambda *x: x, {"a": 1, "b": 2}, OrderedDict(b=3, a=4)) == {"a": (1, 4), "b": (2, 3)}


def test_leaves_of_some_types():
    tree = [1, "a", 2.5]
    assert pytree.tree_map_only((int, float), lambda x: -x, tree) == [-1, "a", -2.5]
    assert pytree.tree_map_only(int | float, lambda x: -x, tree) == [-1, "a", -2.5]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: -x, tree) == [-1, "a", 2.5]
    with pytest.raises(TypeError, match="several types"):
        pytree.tree_map_only("int", lambda x: x, tree)
    assert pytree.tree_any_only(str, str.islower, tree) and not pytree.tree_all_only(int, lambda x: x > 1, tree)


def test_what_is_leaf_says_is_a_leaf():
    assert pytree.tree_flatten([1, [2]], is_leaf=lambda x: x == [2]) == ([1, [2]], pytree.tree_structure([1, 2]))
    assert pytree.tree_map(len, {"a": [1, 2]}, is_leaf=lambda x: isinstance(x, list)) == {"a": 2}


@pytest.fixture
def registered():
    """Classes registered in a test are forgotten after it."""
    before = dict(pytree.SUPPORTED_NODES)
    yield
    for cls in set(pytree.SUPPORTED_NODES) - set(before):
        del pytree.SUPPORTED_NODES[cls]


def test_dataclasses(registered):
    @dataclasses.dataclass
    class Layer:
        weight: int
        bias: object = None
        name: str = "layer"

    pytree.register_dataclass(Layer, field_names=["weight", "bias"], drop_field_names=["name"],
                              serialized_type_name="tests.Layer")
    assert pytree.tree_leaves(Layer(1, [2, 3], "x")) == [1, 2, 3]
    assert pytree.tree_map(lambda x: x + 1, Layer(1, None, "x")) == Layer(2, None, "layer")
    assert pytree.keystr(pytree.tree_leaves_with_path(Layer(1, [2]))[1][0]) == ".bias[0]"
    spec = pytree.tree_structure(Layer(1, 2))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(ValueError, match="before"):
        pytree.register_dataclass(Layer)


@pytest.mark.parametrize("names", [["weight"], ["weight", "bias", "other"]])
def test_dataclasses_whose_fields_do_not_fit(registered, names):
    @dataclasses.dataclass
    class Layer:
        weight: int
        bias: int

    with pytest.raises(ValueError, match="drop_field_names"):
        pytree.register_dataclass(Layer, field_names=names)
    with pytest.raises(ValueError, match="no dataclass"):
        pytree.register_dataclass(int)


def test_registered_classes(registered):
    class Pair:
        def __init__(self, *parts):
            self.parts = parts

    pytree.register_pytree_node(Pair, lambda p: (p.parts, "context"), lambda c, _: Pair(*c))
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path([Pair(1)])
    with pytest.raises(NotImplementedError, match="serialized_type_name"):
        pytree.treespec_dumps(pytree.tree_structure(Pair(1)))
    with pytest.raises(ValueError, match="both"):
        pytree.register_pytree_node(type("Q", (), {}), None, None, to_dumpable_context=str)
    with pytest.raises(TypeError, match="class"):
        pytree.register_pytree_node(3, None, None)
    with pytest.warns(FutureWarning, match="older name"):
        pytree._register_pytree_node(type("R", (), {}), None, None)


def test_constants_need_a_comparison_of_their_own(registered):
    with pytest.raises(TypeError, match="__eq__"):
        pytree.register_constant(type("Plain", (), {}))


def test_vmap_takes_dataclasses(registered):
    @dataclasses.dataclass
    class Both:
        x: flambeau.Tensor
        y: flambeau.Tensor

    pytree.register_dataclass(Both)
    out = flambeau.vmap(lambda both: both.x.sum() * both.y)(Both(flambeau.ones(3, 2), flambeau.arange(3.)))
    assert out.tolist() == [0., 2., 4.]


def test_json_names_nothing_that_is_not_imported():
    text = pytree.treespec_dumps(pytree.tree_structure({Colour.RED: 1}))
    assert pytree.treespec_loads(text).context == [Colour.RED]
    with pytest.raises(NotImplementedError, match="import it first"):
        pytree.treespec_loads(text.replace(__name__, "antigravity"))
    with pytest.raises(ValueError, match="no enumeration"):
        pytree.treespec_loads(text.replace(f"{__name__}:Colour", "os:system"))
    with pytest.raises(NotImplementedError, match="registered as 'other'"):
        pytree.treespec_loads('[1, {"type": "other", "context": "null", "children_spec": []}]')
    with pytest.raises(ValueError, match="got 2"):
        pytree.treespec_loads("[2, {}]")
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    with pytest.raises(TypeError, match="JSON"):
        pytree.treespec_dumps(pytree.tree_structure({flambeau.float32: 1}))
