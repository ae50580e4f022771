"""Sizes that stay open: what is true of one example's graph must be true of all sizes that its guards allow."""

import math
import operator
import random

import pytest

import flambeau
from flambeau import fx
from flambeau._subclasses import FakeTensorMode
from flambeau._symbolic.expressions import Poly, constant, floordiv, largest, mod, smallest
from flambeau._symbolic.shape_env import ShapeEnv
from flambeau.fx.experimental import symbolic_shapes
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.nn import functional as F
from flambeau.utils._pytree import tree_leaves

from ..ops import battery


def tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, flambeau.Tensor)]


def other_sizes(env, seed):
    """Small sizes, drawn at random, that the conditions of a trace allow."""
    rng = random.Random(seed)
    for _ in range(200):
        values = {}
        for s in env.var_to_val:
            low, high = env.var_to_range[s]
            values[s] = rng.randint(max(low, 2), int(min(high, max(low, 2) + 9)))
        for s, expr in env.replacements.items():
            values[s] = expr.evaluate(values)
        if env.holds(values):
            return values
    return None


def at(env, mode, x, values):
    """A tensor of a trace as a tensor without values of these sizes."""
    if getattr(x, "symbolic_sizes", None) is None:
        return mode.from_tensor(flambeau.empty_strided(x.shape, x.stride(), dtype=x.dtype))
    sizes, strides = ([env.at(e, values) for e in row] for row in (x.symbolic_sizes, x.symbolic_strides))
    return mode.from_tensor(flambeau.empty_strided(sizes, strides, dtype=x.dtype))


def shapes(results):
    return [(tuple(t.shape), t.dtype) for t in tensors(results)]


#: operators whose samples no trace without values takes; the reason
UNTRACED = {"matrix_exp": "it looks at the norm of its input", "linalg_matrix_exp": "it looks at the norm of its input"}


@pytest.mark.parametrize("name", battery.with_samples("meta"))
def test_every_operator(name):
    """A graph of open sizes does at other sizes what the operator does there; with values, what it does to the example.
    """
    for sample in battery.samples(name)[:2]:
        leaves = tensors((sample.args, sample.kwargs))
        if not any(n > 1 for t in leaves for n in t.shape) or any(t.layout is not flambeau.strided for t in leaves):
            continue
        try:
            battery.run(name, battery.map_tensors(lambda t: t.to("meta"), sample))
        except battery.REFUSALS:
            continue  # its result depends on values

        def call(*given, sample=sample, leaves=leaves):
            places = {id(t): x for t, x in zip(leaves, given, strict=True)}
            return battery.run(name, battery.map_tensors(lambda t: places[id(t)], sample))

        if name in UNTRACED:
            with pytest.raises(battery.REFUSALS):
                make_fx(call, tracing_mode="symbolic")(*leaves)
            continue
        gm = make_fx(call, tracing_mode="symbolic")(*leaves)
        env, placeholders = gm.shape_env, symbolic_shapes.fx_placeholder_vals(gm)
        for seed in range(3):
            values = other_sizes(env, seed)
            if values is None:
                continue
            with FakeTensorMode() as mode:
                moved = [at(env, mode, p, values) for p in placeholders]
                try:
                    expected = call(*moved)
                except battery.REFUSALS:
                    continue
                assert shapes(gm(*moved)) == shapes(expected), (sample, values, env.guards, gm.code)
            assert env.evaluate_guards_for_args(placeholders, moved)


# ---- expressions -----------------------------------------------------------------------------------------------------

def open_sizes(*sizes):
    env = ShapeEnv()
    return env, [env.create_symintnode(env.create_symbol(n)) for n in sizes]


def grown(rng, numbers, depth):
    """A random program of two ints."""
    if not depth:
        return rng.choice([lambda a, b: a, lambda a, b: b, lambda a, b, n=rng.randint(-3, 5): n])
    left, right = grown(rng, numbers, depth - 1), grown(rng, numbers, depth - 1)
    divisor = rng.randint(1, 6)
    kind = rng.choice([operator.add, operator.sub, operator.mul, flambeau.sym_max, flambeau.sym_min, "//", "%", "neg"])
    if kind == "//":
        return lambda a, b: left(a, b) // divisor
    if kind == "%":
        return lambda a, b: left(a, b) % divisor
    if kind == "neg":
        return lambda a, b: -left(a, b)
    return lambda a, b: kind(left(a, b), right(a, b))


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_means_the_same_for_other_numbers(seed):
    rng = random.Random(seed)
    program = grown(rng, (5, 7), 4)
    env, (a, b) = open_sizes(5, 7)
    result = program(a, b)
    assert not env.guards
    for x, y in ((5, 7), (2, 3), (9, 4), (16, 30), (2, 2)):
        values = dict(zip(env.var_to_val, (x, y), strict=True))
        expected = program(x, y)
        assert (result if isinstance(result, int) else result.node.expr.evaluate(values)) == expected
        for threshold in (-3, 0, 4, 40):
            statement = result < threshold
            truth = statement if isinstance(statement, bool) else statement.node.expr.evaluate(values)
            known = statement if isinstance(statement, bool) else env.certain(statement.node.expr)
            assert truth == (expected < threshold) and known in (None, truth)


def test_normal_form():
    _, (a, b) = open_sizes(5, 7)
    x, y = a.node.expr, b.node.expr
    two = constant(2)
    assert repr(a * b + 2 * b - 1) == "s0*s1 + 2*s1 - 1" and repr(a // 2) == "(s0//2)" and repr(a % 2) == "Mod(s0, 2)"
    assert floordiv(x * y * two, x) == y * two and mod(x * y + x, x).number == 0 and floordiv(x + x, two) == x
    assert largest(x, smallest(x, y), constant(3), constant(4)) == largest(constant(4), smallest(y, x), x)
    assert isinstance(a - a, int) and a - a == 0 and (a * 0) == 0 and repr((a + 1) // 2) == "((s0 + 1)//2)"
    with pytest.raises(ZeroDivisionError):
        a // (b - b)


def test_numbers_of_the_example_come_with_a_guard():
    env, (a, b) = open_sizes(5, 7)
    assert [*range(a - 3)] == [0, 1] and env.replacements and repr(env.guards) == "[Eq(s0, 5)]"
    assert a == 5 and isinstance(a * b, flambeau.SymInt) and repr(a * b) == "5*s1"
    assert float(b / 2) == 3.5 and repr(env.guards) == "[Eq(s0, 5), Eq(s1, 7)]"
    env, (a, b) = open_sizes(5, 7)
    assert {a: 1}[5] == 1 and "abcdefghij"[b] == "h" and len(env.guards) == 2
    assert a.__deepcopy__({}) is a


def test_ints_and_floats_and_truths():
    env, (a, b) = open_sizes(8, 4)
    half = a * 0.5
    assert isinstance(half, flambeau.SymFloat) and half.node.hint == 4.0 and repr(a / b) == "(s0/s1)"
    assert flambeau.sym_int(half).node.hint == 4 and math.floor(half).node.hint == 4 and round(half).node.hint == 4
    assert math.ceil(a / 3).node.hint == 3 and math.trunc(-half).node.hint == -4
    assert flambeau.sym_sqrt(a * 2).node.hint == 4.0 and flambeau.sym_max(a, b).node.hint == 8
    assert flambeau.sym_min(a, 2.5).node.hint == 2.5 and flambeau.sym_sum([a, b, 1]).node.hint == 13
    assert flambeau.sym_ite(a > b, a, b).node.hint == 8 and flambeau.sym_not(a > b).node.hint is False
    assert (a ** 2).node.hint == 64 and (a ** -1).node.hint == 1 / 8 and (2 ** a).node.hint == 256
    assert (a << 1).node.hint == 16 and abs(a) is a and divmod(a, 3)[1].node.hint == 2 and a is +a
    assert ((a > 3) & (b > 3)).node.hint is True and ((a > 3) | (b > 9)).node.hint is True
    assert not env.guards
    assert (a > 3) + 1 == 2 and repr(env.guards) == "[s0 > 3]"
    with pytest.raises(TypeError):
        a + "x"
    assert a != "x"


def test_what_is_certain_needs_no_guard():
    env, (a, b) = open_sizes(8, 4)
    assert a > 0 and a >= 2 and a + b > 3 and a * b >= 4 and a != 1 and a // 2 >= 1 and a % 4 < 4 and 2 * a > a
    assert not env.guards
    assert a > 5 and a > 4 and not a < 6 and repr(env.guards) == "[s0 > 5]"
    env.constrain_range(next(iter(b.node.expr.free_symbols)), 2, 16)
    assert b <= 16 and len(env.guards) == 1
    assert a == 2 * b and a - b == b and len(env.guards) == 2


# ---- make_fx ---------------------------------------------------------------------------------------------------------

def symbolic(f, *args):
    return make_fx(f, tracing_mode="symbolic")(*args)


def ones(*shape):
    return flambeau.ones(*shape)


def names(gm):
    return [n.name for n in gm.graph.nodes]


#: (program, example shapes, the names of its nodes as PyTorch has them where its operators are the same, guards)
PROGRAMS = [
    (lambda x: x.view(x.shape[0] * x.shape[1]), [(3, 4)], "x_1 sym_size_int sym_size_int_1 mul view output", ""),
    (lambda x, y: x.expand(y.shape[0], x.shape[1]) + y, [(1, 4), (3, 4)],
     "x_1 y_1 sym_size_int sym_size_int_1 expand add output", ""),
    (lambda x: flambeau.ones(x.shape[0] + 5), [(3,)], "x_1 sym_size_int add ones output", ""),
    (lambda x: x.sum() if x.shape[0] > 2 else x, [(3, 3)], "x_1 sum_1 output", "s0 > 2"),
    (lambda x: x * flambeau.cat([x, x]).shape[0], [(3, 3)], "x_1 cat sym_size_int mul output", ""),
    (lambda x: x * x.shape[0] ** -0.5, [(3, 3)], "x_1 sym_size_int sym_float pow_1 mul output", ""),
    (lambda x: x.mean() + x.numel(), [(3, 4)], "x_1 mean sym_numel_default add output", ""),
    (lambda x: flambeau.arange(x.shape[0]), [(3, 4)], "x_1 sym_size_int arange output", ""),
    (lambda x: x.shape[0], [(3, 4)], "x_1 sym_size_int output", ""),
    (lambda x: (x, x.shape[0] * 2, x.shape), [(3, 4)], "x_1 sym_size_int mul sym_size_int_1 output", ""),
    (lambda x: x.view(x.size(0), -1), [(2, 3, 8)], "x_1 sym_size_int view output", ""),
    (lambda x: x + flambeau.sym_max(x.shape[0], x.shape[1]), [(2, 3)],
     "x_1 sym_size_int sym_size_int_1 sym_max add output", ""),
    (lambda x: x + max(x.shape[0], 5), [(2, 3)], "x_1 add output", "s0 < 5"),
    (lambda x, y: x + y[:x.shape[0]], [(3, 4), (5, 4)], "x_1 y_1 sym_size_int slice_1 add output", "s0 <= s2"),
    (lambda x: x[:8], [(4, 4)], "x_1 slice_1 output", "s0 < 8"),
    (lambda x: x.split(2), [(4, 4)], "x_1 split getitem getitem_1 output", "Eq(s0, 4)"),
    (lambda x: [x * i for i in range(x.shape[0])], [(2, 3)], "x_1 mul mul_1 output", "Eq(s0, 2)"),
    (lambda x: x / math.sqrt(x.shape[1]), [(2, 3)], "x_1 div output", "Eq(s1, 3)"),
    (lambda x: x[-1] * x.shape[0], [(3, 4)], "x_1 select sym_size_int mul output", ""),
    (lambda x: x.new_zeros(x.shape[1]), [(3, 4)], "x_1 sym_size_int new_zeros output", ""),
]


@pytest.mark.parametrize("program, shapes, expected, guards", PROGRAMS)
def test_nodes_and_guards(program, shapes, expected, guards):
    args = [flambeau.rand(s) for s in shapes]
    gm = symbolic(program, *args)
    assert " ".join(names(gm)) == expected
    assert ", ".join(map(repr, gm.shape_env.guards)) == guards
    for seed in range(4):
        values = other_sizes(gm.shape_env, seed)
        given = [flambeau.rand([gm.shape_env.at(e, values) for e in p.symbolic_sizes]) if hasattr(p, "symbolic_sizes")
                 else flambeau.rand(p.shape) for p in symbolic_shapes.fx_placeholder_vals(gm)]
        for found, wanted in zip(tree_leaves(gm(*given)), tree_leaves(program(*given)), strict=True):
            assert flambeau.equal(found, wanted) if isinstance(found, flambeau.Tensor) else found == wanted


def test_sizes_of_the_example_that_are_0_or_1_stay_and_equal_ones_stay_equal():
    gm = symbolic(lambda x, y: x + y, ones(1, 3, 0), ones(3, 3, 1))
    x, y = symbolic_shapes.fx_placeholder_vals(gm)
    assert repr(x.shape) == "torch.Size([1, s0, 0])" and repr(y.shape) == "torch.Size([s0, s0, 1])"


def test_int_arguments_are_open_too():
    gm = symbolic(lambda x, n: x.expand(n, -1) * n, ones(1, 3), 5)
    assert gm(ones(1, 2), 7).shape == (7, 2) and gm(ones(1, 2), 7)[0, 0] == 7


def test_values_in_the_graph_say_their_sizes():
    gm = symbolic(lambda x: flambeau.cat([x, x]).reshape(-1, 2), ones(3, 4))
    *_, reshape, _ = gm.graph.nodes
    assert repr(reshape.meta["val"].shape) == "torch.Size([s0*s1, 2])"
    assert symbolic_shapes.free_symbols(reshape.meta["val"]) == gm.shape_env.var_to_val.keys()


def test_layers_fix_what_their_weights_fix():
    net = flambeau.nn.Sequential(flambeau.nn.Linear(4, 6), flambeau.nn.ReLU(), flambeau.nn.LayerNorm(6))
    gm = symbolic(net, ones(3, 4))
    assert repr(gm.shape_env.guards) == "[Eq(s1, 4)]" and repr(gm.shape_env.replacements) == "{s1: 4}"
    x = flambeau.randn(7, 4)
    assert flambeau.equal(gm(x), net(x)) and symbolic_shapes.eval_guards(gm, x)
    assert not symbolic_shapes.eval_guards(gm, ones(7, 5))


def test_a_convolutional_network_for_all_image_sizes():
    net = flambeau.nn.Sequential(flambeau.nn.Conv2d(3, 4, 3, 2, 1), flambeau.nn.BatchNorm2d(4), flambeau.nn.ReLU(),
                                 flambeau.nn.MaxPool2d(2), flambeau.nn.AdaptiveAvgPool2d(1), flambeau.nn.Flatten(),
                                 flambeau.nn.Linear(4, 5)).eval()
    gm = symbolic(net, flambeau.rand(2, 3, 20, 24))
    for shape in ((2, 3, 20, 24), (5, 3, 17, 9), (3, 3, 8, 31)):
        x = flambeau.rand(shape)
        assert flambeau.equal(gm(x), net(x))
    assert repr(gm.graph.find_nodes(op="call_function", target=flambeau.nn.functional.linear)[0].meta["val"].shape) \
        == "torch.Size([s0, 5])"


def attention(x, w):
    b, t, c = x.shape
    q, k, v = (x @ w).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-2, -1)) / (c // 2) ** 0.5
    mask = flambeau.ones(t, t, dtype=flambeau.bool).tril()
    scores = scores.masked_fill(~mask, -1e9)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)


def test_attention_for_all_lengths():
    gm = symbolic(attention, flambeau.randn(2, 5, 8), flambeau.randn(8, 24))
    x, w = flambeau.randn(3, 11, 8), flambeau.randn(8, 24)
    assert flambeau.allclose(gm(x, w), attention(x, w))


def test_gradients():
    def loss(x, w):
        y = flambeau.tanh(x @ w)
        z = (y.expand(2, -1, -1) * y[:1]).mean() + y.flatten().sum() / y.shape[0]
        return flambeau.autograd.grad(z, [x, w])

    def given(n, m, k):
        return flambeau.randn(n, m, requires_grad=True), flambeau.randn(m, k, requires_grad=True)

    gm = symbolic(loss, *given(3, 4, 5))
    for sizes in ((3, 4, 5), (6, 2, 7), (2, 8, 3)):
        args = given(*sizes)
        assert all(flambeau.allclose(a, b, atol=1e-6) for a, b in zip(gm(*args), loss(*args), strict=True)), sizes


def test_a_bound_that_an_operator_sets():
    table = flambeau.randn(16, 3)
    gm = symbolic(lambda x: x + table.narrow(0, 0, x.shape[0]), ones(5, 3))
    assert "s0 <= 16" in map(repr, gm.shape_env.guards)
    assert gm(ones(16, 3)).shape == (16, 3) and not symbolic_shapes.eval_guards(gm, ones(17, 3))


def test_sizes_that_must_be_equal_become_one():
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env)
    x, y = mode.from_tensor(ones(3, 4)), mode.from_tensor(ones(3, 4))
    with mode:
        total = x + y
    assert repr(total.shape) == "torch.Size([s0, s1])" and repr(env.guards) == "[Eq(s2, s0), Eq(s3, s1)]"


def test_a_program_of_open_sizes_reads_no_values():
    with pytest.raises(RuntimeError, match=r"no values|depends on"):
        symbolic(lambda x: x * 2 if x.sum() > 0 else x, ones(3))


def test_numbers_that_values_decide():
    def f(x, flag):
        rows, = flambeau.where(x[:, 0] > 0)
        return x[rows] * x.max().item(), rows.shape[0] + x.shape[0], flambeau.sym_ite(flag.item(), 1, 2) * x

    gm = symbolic(f, flambeau.randn(3, 4), flambeau.tensor(True))
    for flag in (True, False):
        args = flambeau.randn(7, 2), flambeau.tensor(flag)
        for found, expected in zip(gm(*args), f(*args), strict=True):
            assert flambeau.equal(found, expected) if isinstance(found, flambeau.Tensor) else found == expected
    assert not gm.shape_env.guards
    with pytest.raises(symbolic_shapes.GuardOnDataDependentSymNode, match="u0 comes from values"):
        symbolic(lambda x: x * 2 if x.sum().item() > 0 else x, flambeau.ones(3))


@pytest.mark.parametrize("options", [{"scale_factor": 1.5}, {"scale_factor": 2, "mode": "bilinear"}, {"size": (7, 9)}])
def test_images_of_all_sizes_are_resized(options):
    gm = symbolic(lambda x: F.interpolate(x, **options), flambeau.rand(2, 3, 8, 10))
    x = flambeau.rand(4, 3, 11, 6)
    assert flambeau.equal(gm(x), F.interpolate(x, **options)) and not gm.shape_env.guards


def test_operators_of_libraries():
    @flambeau.library.custom_op("sizes_test::tiled", mutates_args=())
    def tiled(x: flambeau.Tensor, n: int) -> flambeau.Tensor:
        return x.repeat(n, 1)

    @tiled.register_fake
    def _(x, n):
        return x.new_empty(x.shape[0] * n, x.shape[1])

    def f(x):
        return tiled(x, x.shape[1]) * x.shape[0]

    gm = symbolic(f, flambeau.rand(3, 4))
    x = flambeau.rand(5, 3)
    assert flambeau.equal(gm(x), f(x)) and repr(gm.graph.output_node().args[0].meta["val"].shape) \
        == "torch.Size([s0*s1, s1])"


def test_checks_become_guards():
    def f(x):
        flambeau._check(x.shape[0] % 4 == 0, lambda: "rows come in fours")
        flambeau._check_is_size(x.shape[1], max=100)
        return x.view(-1, 4)

    gm = symbolic(f, ones(8, 5))
    assert sorted(map(repr, gm.shape_env.guards)) == ["Eq(Mod(s0, 4), 0)", "s1 <= 100"]
    with pytest.raises(RuntimeError, match="fours"):
        symbolic(f, ones(6, 5))


def test_the_graph_travels_as_others_do():
    gm = symbolic(lambda x: x.view(x.shape[0] * x.shape[1]), ones(3, 4))
    again = fx.symbolic_trace(gm)
    assert again(ones(5, 2)).shape == (10,) and fx.Interpreter(gm).run(ones(2, 2)).shape == (4,)
    assert "sym_size.int(x_1, 0)" in gm.code


def test_questions_about_sizes():
    env, (a, b) = open_sizes(5, 7)
    s = symbolic_shapes
    assert s.is_concrete_int(3) and not s.is_concrete_int(a) and s.hint_int(a) == 5 and s.has_hint(a)
    assert s.statically_known_true(a + b > 3) and not s.statically_known_true(a > 3) and s.guard_or_false(a > 3)
    assert s.has_free_symbols(a) and not s.has_free_symbols(3) and len(s.free_symbols((a, b * a))) == 2
    assert s.is_symbolic(a) and not s.is_symbolic(4) and s.guard_int(b) == 7 and s.is_concrete_int(b)
    assert s.sym_and(a > 2, True).node.hint and s.sym_eq((a, 7), (a, b)) is True
    s.constrain_range(a, min=3, max=9)
    assert s.statically_known_true(a <= 9)
    with pytest.raises(ValueError, match="is not between"):
        s.constrain_range(a, min=6)
    u = env.create_unbacked_symint()
    with pytest.raises(s.GuardOnDataDependentSymNode, match="comes from values"):
        bool(u > 3)
    assert s.guard_or_false(u > 3) is False and s.guard_or_true(u > 3) is True and not s.has_hint(u)
    flambeau._check(u >= 2)
    assert s.statically_known_true(u > 1) and s.hint_int(u, fallback=9) == 9
    assert isinstance(a.node.expr, Poly)


def test_symbols_outside_a_trace_are_the_numbers_of_the_example():
    _, (a, _) = open_sizes(5, 7)
    assert flambeau.ones(a).shape == (5,) and flambeau.full((2,), a).tolist() == [5, 5]
    assert F.pad(flambeau.ones(2), (0, a)).shape == (7,)


def test_what_reads_sizes_has_its_plain_name():
    aten, x = flambeau.ops.aten, flambeau.ones(2, 3)
    assert (aten.size.int(x, 1), aten.stride.int(x, 0), aten.item.default(x[0, 0])) == (3, 3, 1.0)
    traced = make_fx(lambda x: x.new_zeros(aten.size.int(x, 0)), tracing_mode="symbolic")(x)
    assert traced(flambeau.ones(5, 3)).shape == (5,)
