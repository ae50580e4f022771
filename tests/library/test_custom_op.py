"""Operators of one's own: schemas, autograd, fake implementations, modes, and what is refused."""

import numpy as np
import pytest

import flambeau
from flambeau import Tensor, library
from flambeau.overrides import TorchDispatchMode, TorchFunctionMode
from flambeau.utils import _python_dispatch


def make(name, mutates=(), body=None):
    def double(x: Tensor) -> Tensor:
        return flambeau.from_numpy(2 * x.numpy())
    return library.custom_op(f"testlib::{name}", body or double, mutates_args=mutates)


@pytest.mark.parametrize("text, arguments", [
    ("(Tensor x, SymInt n=3, *, float s=1.5) -> Tensor", [("x", "Tensor"), ("n", "SymInt"), ("s", "float")]),
    ("a::b(Tensor(a!) x, int[2] size=[1, 2], str s=\"a,b\") -> ()", [("x", "Tensor"), ("size", "int[]"), ("s", "str")]),
    ("(Tensor?[] xs, ScalarType? d=None) -> (Tensor, Tensor[])", [("xs", "Tensor?[]"), ("d", "ScalarType?")]),
])
def test_schema_text(text, arguments):
    schema = library._schema.parse(text)
    assert [(a.name, a.type) for a in schema.arguments] == arguments


def test_schema_of_annotations():
    def f(x: Tensor, xs: list[Tensor], y: Tensor | None = None, n: int = 3, *, k: int | float | bool = 1,
          name: str = "a") -> tuple[Tensor, Tensor]: ...
    assert library.infer_schema(f, mutates_args={"x"}) == (
        "(Tensor(a0!) x, Tensor[] xs, Tensor? y=None, SymInt n=3, *, Scalar k=1, str name=\"a\") -> (Tensor, Tensor)")


def test_refused_annotations():
    def untyped(x, y: Tensor) -> Tensor: ...
    def unknown(x: dict) -> Tensor: ...
    def silent(x: Tensor): ...
    for f in (untyped, unknown, silent):
        with pytest.raises(ValueError, match="infer_schema"):
            library.infer_schema(f, mutates_args=())


def test_autograd_formula():
    op = library.custom_op("testlib::cube", mutates_args=())(_cube)
    op.register_autograd(lambda ctx, g: 3 * ctx.x ** 2 * g,
                         setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    op.register_fake(lambda x: flambeau.empty_like(x))
    x = flambeau.rand(3, dtype=flambeau.float64, requires_grad=True)
    y = op(x)
    assert y.grad_fn.name() == "GeneratedBackwardFor_testlib_cube_defaultBackward"
    assert library.opcheck(op, (x,)) == {"test_schema": "SUCCESS", "test_autograd_registration": "SUCCESS",
                                         "test_faketensor": "SUCCESS"}
    assert flambeau.autograd.gradgradcheck(op, (x,))  # the formula is made of operators


def _cube(x: Tensor) -> Tensor:
    return flambeau.from_numpy(x.detach().numpy() ** 3)


def test_lists_and_several_results():
    def total(xs: list[Tensor], scale: float = 1.0) -> tuple[Tensor, Tensor]:
        return sum(xs) * scale, xs[0] * xs[1]
    op = library.custom_op("testlib::total", total, mutates_args=())

    def setup(ctx, inputs, output):
        ctx.xs, ctx.scale = inputs
    op.register_autograd(lambda ctx, g, h: ([g * ctx.scale + h * ctx.xs[1], g * ctx.scale + h * ctx.xs[0]], None),
                         setup_context=setup)
    a, b = (flambeau.rand(2, dtype=flambeau.float64, requires_grad=True) for _ in range(2))
    assert flambeau.autograd.gradcheck(lambda a, b: op([a, b], scale=3.0), (a, b))


def test_without_formula():
    y = make("plain")(flambeau.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="testlib::plain: this operator has no"):
        y.sum().backward()


def test_fake():
    op = make("faked")
    with pytest.raises(RuntimeError, match="testlib::faked: nothing says which shape and"):
        op(flambeau.empty(3, device="meta"))
    op.register_fake(lambda x: flambeau.empty_like(x))
    assert op(flambeau.empty(3, device="meta")).shape == (3,)


def test_mutation():
    def halve(x: Tensor) -> None:
        np.divide(x.numpy(), 2, out=x.numpy())
    op = make("halve", {"x"}, halve)
    x = flambeau.ones(2)
    version = x._version
    op(x)
    assert x.tolist() == [0.5, 0.5] and x._version == version + 1
    with pytest.raises(RuntimeError, match="testlib::halve: it writes into a leaf that"):
        op(flambeau.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="testlib::halve writes into its arguments and"):
        op.register_autograd(lambda ctx, g: g)


def test_aliasing_is_refused():
    with pytest.raises(RuntimeError, match="testlib::same: it returns an input, or one"):
        make("same", body=_same)(flambeau.ones(2))


def _same(x: Tensor) -> Tensor:
    return x


def test_library_objects():
    lib = library.Library("testlib2", "DEF")
    lib.define("scale(Tensor x, int k=2) -> Tensor")
    with pytest.raises(NotImplementedError, match="no implementation"):
        flambeau.ops.testlib2.scale(flambeau.ones(1))
    lib.impl("scale", lambda x, k=2: x * k, "CPU")
    assert flambeau.ops.testlib2.scale(flambeau.ones(1), k=5).item() == 5
    assert str(flambeau.ops.testlib2.scale.default._schema) == "testlib2::scale(Tensor x, int k=2) -> Tensor"
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = flambeau.ops.testlib2.nope
    with pytest.raises(NotImplementedError, match="TorchDispatchMode"):
        library.Library("aten", "IMPL")


def test_modes_see_one_call():
    op = make("seen")
    calls = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    with Log():
        op(flambeau.ones(2))
        flambeau.ones(2) * 2
    assert calls[0] is not None and flambeau.ops.testlib.seen.default in calls
    assert flambeau.ops.aten.mul.Tensor in calls
    assert flambeau.ops.aten.add.Tensor(flambeau.ones(1), 1).item() == 2


def test_an_operator_may_be_replaced():
    first = make("again")
    y = first(flambeau.ones(1))
    second = library.custom_op("testlib::again", mutates_args=())(_cube)
    assert y.item() == 2 and second(flambeau.tensor([2.0])).item() == 8
    assert first(flambeau.ones(1)).item() == 2


def test_under_transforms():
    op = library.custom_op("testlib::cubed", mutates_args=())(_cube)
    op.register_autograd(lambda ctx, g: 3 * ctx.x ** 2 * g,
                         setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    x = flambeau.rand(4, 3)
    assert flambeau.allclose(flambeau.vmap(op)(x), x ** 3)  # once per element
    assert flambeau.allclose(flambeau.vmap(flambeau.func.grad(lambda v: op(v).sum()))(x), 3 * x ** 2)
    assert flambeau.allclose(flambeau.func.grad(lambda v: flambeau.vmap(op)(v).sum())(x), 3 * x ** 2)
    assert flambeau.allclose(flambeau.func.jacrev(op)(x[0]), flambeau.diag(3 * x[0] ** 2))
    calls = []

    @op.register_vmap
    def _(info, in_dims, x):
        calls.append((info.batch_size, in_dims))
        return op(x), in_dims[0]

    assert flambeau.allclose(flambeau.vmap(op, in_dims=1)(x), x.t() ** 3)
    assert calls and calls[0][0] == 3


class Declines(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return NotImplemented


class DeclinesFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.parametrize("mode", [Declines, DeclinesFunctions])
def test_a_mode_that_declines_is_named_and_a_subclass_may_answer_for_it(mode):
    class Answers(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "answered"

    x = flambeau.ones(2)
    with mode(), pytest.raises(TypeError, match=f"mode {mode.__name__} returned NotImplemented for 'add'"):
        x + x
    if mode is DeclinesFunctions:
        with mode():
            assert flambeau.add(x.as_subclass(Answers), x) == "answered"
    assert _python_dispatch.TorchDispatchMode is TorchDispatchMode


def test_reentrant_dispatch_records_as_around_the_call():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with flambeau.overrides.enable_reentrant_dispatch():
                seen.append(flambeau.is_grad_enabled())
            seen.append(flambeau.is_grad_enabled())
            return func(*args, **(kwargs or {}))

    with Mode():
        x = flambeau.ones(2)
        with flambeau.no_grad():
            x.exp()
    assert seen == [True, False, False, False]


def test_super_dispatch_runs_the_operator_on_the_values():
    seen = []

    class Watched(Tensor):
        __torch_function__ = flambeau._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name)
            return super().__torch_dispatch__(func, types, args, kwargs)

    class Plain(Tensor):
        pass

    x = flambeau.ones(2)
    result = Tensor._make_subclass(Watched, x) + Tensor._make_subclass(Watched, x)
    assert type(result) is Tensor and result.tolist() == [2, 2] and seen == ["add"]
    assert type(x.as_subclass(Plain) + 1) is Plain
    assert flambeau.nn.Linear(2, 2)(x).requires_grad
