"""Operators of one's own: schemas, autograd, fake implementations, modes, and what is refused."""

import copy

import numpy as np
import pytest

import flambeau
from flambeau import Tensor, library
from flambeau._subclasses import DynamicOutputShapeException, FakeTensorMode
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
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


@pytest.mark.parametrize("text, arguments, returns", [
    ("aten::foo.out(Tensor(a!) self, int[2] x=[1,2], *, float? y=None, str z=\"a\") -> (Tensor(a!), int n)",
     [("self", "Tensor", None, False, None, True), ("x", "List[int]", [1, 2], False, 2, False),
      ("y", "Optional[float]", None, True, None, False), ("z", "str", "a", True, None, False)],
     [("", "Tensor"), ("n", "int")]),
    ("f(Tensor?[] xs, Scalar s, SymInt[]? n, MemoryFormat m=contiguous_format) -> Tensor[]",
     [("xs", "List[Optional[Tensor]]", None, False, None, False), ("s", "number", None, False, None, False),
      ("n", "Optional[List[int]]", None, False, None, False),
      ("m", "int", "contiguous_format", False, None, False)], [("", "List[Tensor]")]),
    ("g(Tensor(a|b) x) -> ()", [("x", "Tensor", None, False, None, False)], []),
])
def test_what_programs_ask_of_a_schema(text, arguments, returns):
    schema = flambeau.parse_schema(text)
    assert [(a.name, a.type, a.default_value, a.kwarg_only, a.N, a.is_write) for a in schema.arguments] == arguments
    assert [(r.name, r.type) for r in schema.returns] == returns
    assert schema.is_mutable is any(a[-1] for a in arguments) and str(schema) == text
    assert schema == flambeau.parse_schema(text) and hash(schema) == hash(flambeau.parse_schema(text))
    shared = schema.arguments[0].alias_info
    assert (shared is None) == ("(a" not in text) and (shared is None or "a" in shared.before_set)


def test_the_schema_of_an_overload():
    library.define("testlib::asked", "(Tensor(a!) x, int n=3) -> ()")
    schema = flambeau.ops.testlib.asked.default._schema
    assert schema.name == "testlib::asked" and schema.is_mutable and not schema.returns
    assert [a.has_default_value() for a in schema.arguments] == [False, True]
    with pytest.raises(RuntimeError, match="expected"):
        flambeau.parse_schema("f(x)")


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
                                         "test_faketensor": "SUCCESS", "test_aot_dispatch_dynamic": "SUCCESS"}
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


def test_autocast_converts_what_is_registered_for_it():
    seen = []

    def product(x: Tensor, ys: list[Tensor], k: Tensor | None = None) -> Tensor:
        seen.append((x.dtype, [y.dtype for y in ys], flambeau.is_autocast_enabled("cpu")))
        return x @ ys[0]
    op = library.custom_op("testlib::product", mutates_args=())(product)
    op.register_autocast("cpu", flambeau.bfloat16)
    op.register_autograd(lambda ctx, g: (g, [g, None], None))
    x, n = flambeau.ones(2, 2, requires_grad=True), flambeau.ones(2, dtype=flambeau.int64)
    op(x, [x, n])
    with flambeau.autocast("cpu", dtype=flambeau.float16):
        op(x, [x, n]).sum().backward()
        op(x.double(), [x.double()])
    half, double = flambeau.bfloat16, flambeau.float64
    assert seen == [(flambeau.float32, [flambeau.float32, n.dtype], False), (half, [half, n.dtype], False),
                    (double, [double], False)]
    assert x.grad.dtype is flambeau.float32
    for device, dtype, error in ((1, half, ValueError), ("meta", half, ValueError), ("cpu", 3, TypeError)):
        with pytest.raises(error):
            op.register_autocast(device, dtype)
    with pytest.raises(ValueError, match="an operator is expected"):
        library.register_autocast(3, "cpu", half)


def test_kernels_of_autocast_and_autograd_by_dispatch_key():
    lib = library.Library("testlib3", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x.clone(), "CPU")

    def cast(x):
        with flambeau.autocast("cpu", enabled=False):
            return flambeau.ops.testlib3.f(x.bfloat16())
    lib.impl("f", cast, "AutocastCPU")
    with flambeau.autocast("cpu"):
        assert flambeau.ops.testlib3.f(flambeau.ones(2)).dtype is flambeau.bfloat16
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", lambda x: x * 3, "AutogradCPU")
    assert flambeau.ops.testlib3.g(flambeau.ones(1)).item() == 3


def test_a_kernel_is_switched_off_for_a_while():
    op = make("switched")
    op.register_kernel("cpu", lambda x: x * 7)
    with op.set_kernel_enabled("cpu", enabled=False):
        assert op(flambeau.ones(1)).item() == 2
    assert op(flambeau.ones(1)).item() == 7
    with pytest.warns(UserWarning, match="no implementation for 'cuda'"), op.set_kernel_enabled("cuda"):
        pass


def places(name, **bounds):
    """An operator whose result has as many rows as its argument has numbers other than 0."""
    def found(x: Tensor) -> Tensor:
        return flambeau.nonzero(x)
    op = library.custom_op(f"testlib::{name}", found, mutates_args=())
    op.register_fake(lambda x: x.new_empty([library.get_ctx().new_dynamic_size(**bounds), x.dim()],
                                           dtype=flambeau.int64))
    return op


def test_sizes_that_values_decide():
    op, x = places("places"), flambeau.tensor([1.0, 0.0, 2.0])
    assert library.get_ctx() is None
    traced = make_fx(lambda x: op(x) * 2 + op(x).shape[0], tracing_mode="symbolic")(x)
    assert traced(flambeau.tensor([0.0, 1.0, 0.0, 3.0])).tolist() == [[4], [8]]

    class Model(flambeau.nn.Module):
        def forward(self, x):
            return op(x) * 2
    program = flambeau.export.export(Model(), (x,))
    assert str(program.graph_module.graph.find_nodes(
        op="call_function", target=flambeau.ops.testlib.places.default)[0].meta["val"].shape[0]) == "u0"
    assert program.module()(flambeau.tensor([0.0, 0.0, 5.0])).tolist() == [[4]]
    assert flambeau.compile(lambda x: op(x) * 2)(x).tolist() == [[0], [4]]
    assert library.opcheck(op, (x,))["test_faketensor"] == "SUCCESS"


def test_bounds_of_sizes_that_values_decide():
    op = places("bounded", min=2, max=5)
    with FakeTensorMode(shape_env=ShapeEnv()):
        rows = op(flambeau.ones(3)).shape[0]
        assert rows > 1 and rows < 6
    assert library.opcheck(op, (flambeau.ones(3),))["test_faketensor"] == "SUCCESS"
    with pytest.raises(RuntimeError, match="result 0 is"):
        library.opcheck(op, (flambeau.ones(9),))
    with pytest.raises(DynamicOutputShapeException, match="testlib::bounded"), FakeTensorMode():
        op(flambeau.ones(3))
    with pytest.raises(RuntimeError, match="'meta' do not have"):
        op(flambeau.ones(3, device="meta"))
    with pytest.raises(ValueError, match="at least 0"), FakeTensorMode(shape_env=ShapeEnv()):
        places("negative", min=-1)(flambeau.ones(3))


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


def test_operators_of_a_library_may_return_what_they_got():
    lib = library.Library("testlib", "FRAGMENT")
    lib.define("given(Tensor x) -> Tensor")
    lib.impl("given", _same, "CPU")
    x = flambeau.ones(2)
    assert flambeau.ops.testlib.given(x) is x
    library.register_autograd("testlib::given", lambda ctx, g: 3 * g)
    leaf = flambeau.ones(2, requires_grad=True)
    flambeau.ops.testlib.given(leaf).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


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
    with pytest.raises(RuntimeError, match="FRAGMENT"):
        library.Library("testlib2", "DEF")
    with pytest.raises(RuntimeError, match="exists already"):
        lib.define("scale(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="expected a schema"):
        lib.define("Tensor x -> Tensor")
    lib._destroy()
    with pytest.raises(AttributeError, match="has no attribute 'scale'"):
        _ = flambeau.ops.testlib2.scale


def test_overloads_are_chosen_by_their_arguments():
    with library._scoped_library("testlib9", "DEF") as lib:
        for schema, function in (("f(Tensor x) -> Tensor", lambda x: x + 1),
                                 ("f.int(Tensor x, int k) -> Tensor", lambda x, k: x * k),
                                 ("f.two(Tensor x, Tensor y) -> Tensor", lambda x, y: x - y)):
            lib.impl(lib.define(schema), function, "CompositeExplicitAutograd")
        f, x = flambeau.ops.testlib9.f, flambeau.ones(1)
        assert f.overloads() == ["default", "int", "two"] and str(f) == "testlib9.f" and str(f.int) == "testlib9.f.int"
        assert [f(x).item(), f(x, 3).item(), f(x, x).item(), f.int(x, k=4).item()] == [2, 3, 0, 4]
        assert (f.int._opname, f.int._overloadname, f.int.name()) == ("f", "int", "testlib9::f.int")
        with pytest.raises(RuntimeError, match="no overload takes"):
            f(x, "a")


def test_a_library_registers_fake_implementations_by_name():
    with library._scoped_library("testlib4", "FRAGMENT") as lib:
        lib.define("double" + library.infer_schema(_cube, mutates_args=()))
        lib.impl("double", _cube, dispatch_key="CPU")
        lib._register_fake("double", flambeau.empty_like)
        assert flambeau.ops.testlib4.double(flambeau.empty(3, device="meta")).shape == (3,)


def test_operators_of_aten_may_be_replaced():
    x = flambeau.zeros(2, requires_grad=True)
    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl("sin", lambda x: x.cos(), "CPU")
        lib.impl("mul.Tensor", lambda a, b: flambeau.sub(a, b), "CPU")
        lib.impl("cosh", lambda x: x - 7, "AutogradCPU")
        lib.impl("erfinv", lambda x: x.new_empty(7), "Meta")
        y = flambeau.sin(x)
        y.sum().backward()  # the derivative of sin is still that of sin
        assert y.tolist() == [1, 1] and x.cosh().tolist() == [-7, -7] and (y * y).tolist() == [0, 0]
        assert flambeau.empty(2, device="meta").erfinv().shape == (7,) and flambeau.zeros(2).erfinv().shape == (2,)
        for name, key, error in (("nope", "CPU", "no operator"), ("sin", "Nope", "not available"),
                                 ("sin", "", "name a")):
            with pytest.raises(RuntimeError, match=error):
                lib.impl(name, lambda x: x, key)
    assert flambeau.sin(x).tolist() == [0, 0] and flambeau.cosh(x).tolist() == [1, 1]
    assert not _python_dispatch._get_current_dispatch_mode_stack()


def test_rules_for_modes_and_classes():
    op = library.custom_op("testlib::ruled", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @op.register_torch_dispatch(Mode)
    def _(mode, func, types, args, kwargs):
        assert isinstance(mode, Mode)
        return func(*args, **kwargs) * 100

    with Mode():
        assert op(flambeau.ones(1)).item() == 200
    assert op(flambeau.ones(1)).item() == 2


def test_what_writes_reads_arrays_of_tensors_that_require_grad():
    @library.custom_op("testlib::increase_", mutates_args={"x"})
    def increase_(x: Tensor) -> None:
        x.numpy()[:] += 1

    x = flambeau.zeros(2, requires_grad=True) * 1
    increase_(x)
    assert x.tolist() == [1, 1]


def test_opcheck_of_operators_that_have_records():
    found = library.opcheck(flambeau.ops.aten.sin.default, (flambeau.ones(2),))
    assert set(found.values()) == {"SUCCESS"} and len(found) == 4
    for op, tests in ((flambeau.ops.aten.sin.default, "nope"), (3, "test_schema")):
        with pytest.raises(ValueError, match="opcheck"):
            library.opcheck(op, (flambeau.ones(2),), test_utils=tests)


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


def test_what_wrappers_return_of_operators_that_write():
    correct, x, out = _python_dispatch.return_and_correct_aliasing, flambeau.ones(2), flambeau.zeros(2)
    aten = flambeau.ops.aten
    assert correct(aten.mul.Tensor, (x, x), {}, out) is out
    assert correct(aten.mul_.Tensor, (x, x), None, out) is x
    assert correct(aten.mul.Tensor, (x, x), {"out": x}, out) is x
    library.define("testlib::both", "(Tensor(a!) x, Tensor y, *, Tensor(b!) z) -> (Tensor(b!), Tensor, Tensor(a!))")
    func, z = flambeau.ops.testlib.both.default, flambeau.ones(1)
    assert correct(func, (x, out), {"z": z}, (1, 2, 3)) == (z, 2, x)
    library.define("testlib::first", "(Tensor(a!) x) -> Tensor(a!)")
    assert correct(flambeau.ops.testlib.first.default, (x,), {}, out) is x
    assert correct(make("fresh"), (x,), {}, out) is out


def test_wrappers_are_made_again_of_their_parts():
    class Pair(Tensor):
        @staticmethod
        def __new__(cls, a, b, size=None):
            made = Tensor._make_wrapper_subclass(cls, a.shape if size is None else size, dtype=a.dtype)
            made.a, made.b = a, b
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

        def __tensor_flatten__(self):
            return ["a", "b"], "context"

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            assert context == "context"
            return Pair(inner["a"], inner["b"], size)

    pair = Pair(flambeau.ones(2), flambeau.zeros(2))
    made = _python_dispatch.transform_subclass(pair, lambda name, t: t + (1 if name == "a" else 5))
    assert type(made) is Pair and made.a.tolist() == [2, 2] and made.b.tolist() == [5, 5] and made.shape == (2,)
    assert _python_dispatch.transform_subclass(pair, lambda _, t: t, (7,), (1,)).shape == (7,)


def test_which_modes_there_are():
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    d = _python_dispatch
    assert d._get_current_dispatch_mode() is None and not d.is_in_torch_dispatch_mode()
    with FakeTensorMode() as fake:
        assert d.is_in_torch_dispatch_mode() and not d.is_in_torch_dispatch_mode(include_infra_modes=False)
        with Own() as own:
            assert d._get_current_dispatch_mode() is own and d.is_in_torch_dispatch_mode(False)
            with d._disable_current_modes() as modes:
                assert modes == [fake, own] and d._get_current_dispatch_mode_stack() == []
                assert type(flambeau.ones(1)) is Tensor
            assert d._get_current_dispatch_mode_stack() == [fake, own]


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


def test_copies_are_the_operator_itself():
    op = library.custom_op("testlib::copied", mutates_args=())(_cube)
    for each in (flambeau.ops.testlib.copied, flambeau.ops.testlib.copied.default, flambeau.ops.aten.add):
        assert copy.deepcopy(each) is each
    assert copy.deepcopy(op)(flambeau.tensor([2.0])).item() == 8
    traced = make_fx(lambda x: op(x) + 1)(flambeau.ones(1))
    assert copy.deepcopy(traced)(flambeau.tensor([2.0])).item() == 9


def test_dtypes_are_defaults():
    def shared(x: Tensor, dtype: flambeau.dtype = flambeau.float64, *, of: flambeau.dtype = flambeau.int8) -> Tensor:
        return flambeau.zeros(x.shape, dtype=of) + x.to(dtype)
    op = library.custom_op("testlib::dtype_defaults", shared, mutates_args=())
    x = flambeau.ones(2, dtype=flambeau.int32)
    assert "ScalarType dtype=float64, *, ScalarType of=int8" in str(flambeau.ops.testlib.dtype_defaults.default._schema)
    assert op(x).dtype is flambeau.float64
    assert op(x, flambeau.int16).dtype is flambeau.int16 and op(x, dtype=flambeau.int16).dtype is flambeau.int16
    assert op(x, flambeau.int16, of=flambeau.float32).dtype is flambeau.float32


def test_an_implementation_may_come_before_the_operator():
    @library.impl("testlib::late", ["CPU"])
    def late(x):
        return x + 1

    @library.register_fake("testlib::late")
    def fake(x):
        return flambeau.empty_like(x)
    library.define("testlib::late", "(Tensor x) -> Tensor")
    assert flambeau.ops.testlib.late(flambeau.ones(1)).item() == 2
    assert flambeau.ops.testlib.late(flambeau.ones(1, device="meta")).shape == (1,)
