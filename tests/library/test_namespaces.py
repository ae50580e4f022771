"""`flambeau.ops.<library>`: namespaces of operators."""

import pytest

import flambeau
from flambeau.library import Library, define, impl
from flambeau.ops import OPS
from flambeau.utils import _python_dispatch


def test_a_library_may_be_asked_for_before_it_is_made():
    space = flambeau.ops.later_library
    assert not hasattr(space, "double") and "later_library" in repr(space)
    with pytest.raises(AttributeError, match="'later_library' object has no attribute 'double'"):
        space.double(1)
    library = Library("later_library", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: 2 * x, "CPU")
    assert space.double(flambeau.ones(1)).item() == 2 and flambeau.ops.later_library is space


def test_names_of_python_are_no_libraries():
    assert not hasattr(flambeau.ops, "__wrapped__")


def test_decorators_with_a_library():
    library = Library("decorated_library", "DEF")

    @define(library, "triple(Tensor x) -> Tensor")
    def triple(x):
        return 3 * x

    library.define("half(Tensor x) -> Tensor")

    @impl(library, "half", "CPU")
    def half(x):
        return x / 2

    space, x = flambeau.ops.decorated_library, flambeau.ones(1)
    assert space.triple(x).item() == 3 and triple(x).item() == 3 and space.half(x).item() == half(x).item() == 0.5
    more = Library("decorated_library", "IMPL")
    impl(more, space.half.default, "Meta")(lambda x: x)
    assert space.half(x.to("meta")).shape == (1,)
    del more  # what it registered ends with it
    with pytest.raises(RuntimeError, match="register_fake"):
        space.half(x.to("meta"))


def test_what_a_library_refuses():
    library = Library("refusing_library", "DEF")
    library.define("once(Tensor x) -> Tensor")
    with pytest.raises(TypeError, match="must be a function, got 3"):
        library.impl("once", 3, "CPU")
    with pytest.raises(ValueError, match="belongs to scripts"):
        Library("prim", "DEF")


def test_the_packet_of_an_operator():
    aten = flambeau.ops.aten
    for name in ("add", "mm", "add_", "max", "linear"):
        packet = getattr(aten, name)
        assert packet.default.overloadpacket is packet
    seen = []

    class Mode(flambeau.overrides.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.overloadpacket)
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(2, 2)
    with Mode():
        assert _python_dispatch._get_current_dispatch_mode_stack()[-1] is _python_dispatch._get_current_dispatch_mode()
        (x @ x).max(0)
    assert seen == [aten.mm, aten.max] and _python_dispatch._get_current_dispatch_mode() is None


def test_further_names_of_an_operator_are_the_operator():
    aten = flambeau.ops.aten
    assert aten.absolute.default is aten.abs.default and aten.special_erf.default is aten.erf.default
    assert aten.multiply_.Tensor is aten.mul_.Tensor
    assert aten.clip(flambeau.tensor([-1.0, 2.0]), 0, 1).tolist() == [0, 1]


def test_ways_to_compute_are_names_for_tables():
    way = flambeau.ops.aten._scaled_dot_product_flash_attention
    assert len({way: 1, way.default: 2}) == 1 and repr(way) == "aten._scaled_dot_product_flash_attention"
    with pytest.raises(NotImplementedError, match="call scaled_dot_product_attention"):
        way.default(flambeau.ones(1, 1, 1, 1))


def test_a_convolution_as_traces_name_it():
    x, w = flambeau.randn(1, 2, 5, 5), flambeau.randn(2, 3, 3, 3)
    form = [2, 2], [1, 1], [1, 1], True, [1, 1], 1
    given = flambeau.ops.aten._convolution(x, w, None, *form, False, False, True, True)
    assert given.equal(flambeau.convolution(x, w, None, *form))


@pytest.mark.parametrize("op, writes, shares", [
    (lambda aten: aten.add.Tensor, False, False), (lambda aten: aten.add_.Tensor, True, True),
    (lambda aten: aten.copy_.default, True, True), (lambda aten: aten.fill_.Scalar, True, True),
    (lambda aten: aten.slice.Tensor, False, True), (lambda aten: aten.view.default, False, True),
    (lambda aten: aten.mm.default, False, False),
])
def test_operators_of_records_have_schemas(op, writes, shares):
    op = op(flambeau.ops.aten)
    schema = op._schema
    assert schema.name == f"aten::{op.name.partition('.')[0]}" and schema.overload_name == op._overloadname.replace(
        "default", "")
    assert str(op) == f"aten.{op.name.partition('.')[0]}.{op._overloadname}"
    assert schema.is_mutable is writes and (schema.returns[0].alias_info is not None) is shares
    assert schema.arguments[0].is_write is writes


def test_every_operator_has_a_schema_and_tags():
    for op in OPS.values():
        for each in (op, op.inplace_form):
            assert each is None or (each._schema.name.startswith("aten::") and isinstance(each.tags, list))
    assert flambeau.Tag.pointwise in OPS["exp"].tags and flambeau.Tag.nondeterministic_seeded in OPS["rand"].tags


def test_methods_have_the_names_of_operators():
    aten, x = flambeau.ops.aten, flambeau.ones(2, 3)
    assert aten.dim(x) == 2 and aten.to.dtype(x, flambeau.int8).dtype is flambeau.int8
    assert {aten.is_pinned.default: 1}[aten.is_pinned.default] == 1 and repr(aten.is_pinned) == "aten.is_pinned"
    for name in ("no_such_method", "__array__", "shape"):
        with pytest.raises(AttributeError):
            getattr(aten, name)
