"""Control flow: eager, differentiable, and captured as steps that hold graphs."""

import pytest

import flambeau
from flambeau import fx
from flambeau._higher_order_ops import cond, map, scan, while_loop
from flambeau.fx.experimental.proxy_tensor import make_fx

MODES = ("real", "fake")


class Calls(flambeau.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def branching(x, y):
    z = y * 2
    return cond(x.sum() > 0, lambda a: a * z, lambda a: a - z * z, (x,)) + 1


@pytest.mark.parametrize("mode", MODES)
def test_cond_is_one_step_for_both_branches(mode):
    gm = make_fx(branching, tracing_mode=mode)(flambeau.ones(2), flambeau.ones(2))
    nodes = gm.graph.find_nodes(op="call_function", target=flambeau.ops.higher_order.cond)
    assert len(nodes) == 1 and isinstance(gm.true_graph_0, fx.GraphModule)
    assert 'mul: "f32[2]"' in gm.print_readable(print_output=False)
    for x in (flambeau.tensor([1.0, 2.0]), flambeau.tensor([-1.0, -2.0])):
        y = flambeau.tensor([3.0, 4.0])
        assert flambeau.equal(gm(x, y), branching(x, y))


@pytest.mark.parametrize("mode", MODES)
def test_cond_has_a_derivative_in_graphs(mode):
    def slopes(x, y):
        return flambeau.autograd.grad(branching(x, y).sum(), (x, y))

    def inputs(sign):
        return (sign * flambeau.tensor([1.0, 2.0])).requires_grad_(), flambeau.tensor([3.0, 4.0]).requires_grad_()

    gm = make_fx(slopes, tracing_mode=mode)(*inputs(1))
    assert len(gm.graph.find_nodes(op="call_function", target=flambeau.cond)) == 2
    for sign in (1, -1):
        assert all(map_equal(gm(*inputs(sign)), slopes(*inputs(sign))))


def map_equal(a, b):
    return [flambeau.equal(x, y) for x, y in zip(a, b, strict=True)]


def test_branches_must_be_alike():
    with pytest.raises(RuntimeError, match="same shapes and dtypes"):
        make_fx(lambda x: cond(x.sum() > 0, lambda a: a, lambda a: a[:1], (x,)))(flambeau.ones(2))
    with pytest.raises(RuntimeError, match="same structure"):
        make_fx(lambda x: cond(x.sum() > 0, lambda a: a, lambda a: (a, a), (x,)))(flambeau.ones(2))


@pytest.mark.parametrize("mode", MODES)
def test_while_loop(mode):
    w = flambeau.tensor([2.0])

    def f(i, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * w), (i, x))

    gm = make_fx(f, tracing_mode=mode)(flambeau.tensor(0), flambeau.ones(2))
    assert gm(flambeau.tensor(3), flambeau.ones(2))[1].tolist() == [4, 4] and len(gm.graph.nodes) == 8
    with pytest.raises(NotImplementedError, match="no derivative"):
        make_fx(f, tracing_mode=mode)(flambeau.tensor(0), flambeau.ones(2, requires_grad=True))


def counting(x):
    steps, y = while_loop(lambda k, x: k + 1 < x.shape[0], lambda k, x: (k + 1, x.sin() * k), (0, x))
    return y + steps, steps


def test_integers_that_a_loop_carries_are_open():
    x = flambeau.randn(5, 3)
    for program in (make_fx(counting, tracing_mode="symbolic")(x),
                    flambeau.export.export(Calls(counting), (x,)).module()):
        result, steps = program(x)
        assert steps == 4 and flambeau.equal(result, counting(x)[0])
    with pytest.raises(RuntimeError, match="carried value 0 is 0 and becomes 1"):
        make_fx(counting)(x)


@pytest.mark.parametrize("mode", (*MODES, "symbolic"))
def test_a_loop_carries_trees(mode):
    def f(k, tree):
        return while_loop(lambda k, tree: k > 0, lambda k, tree: (k - 1, {"x": tree["y"].sin(), "y": tree["x"] + 1}),
                          (k, tree))

    tree = {"x": flambeau.zeros(2), "y": flambeau.ones(2)}
    gm = make_fx(f, tracing_mode=mode)(flambeau.tensor(2), tree)
    k, found = gm(flambeau.tensor(3), tree)
    assert k == 0 and flambeau.equal(found["y"], f(flambeau.tensor(3), tree)[1]["y"])


def nested(x):
    def body(k, x):
        return k + 1, while_loop(lambda j, x: j < 2, lambda j, x: (j + 1, x * 2), (k * 0, x))[1]

    return while_loop(lambda k, x: k < 3, body, (flambeau.tensor(0), x))[1]


@pytest.mark.parametrize("program", [
    nested, lambda x: map(lambda row: while_loop(lambda r: r.sum() < 5, lambda r: (r + 1,), (row,))[0], x),
    lambda x: cond(x.sum() > 0, lambda x: while_loop(lambda r: r.sum() < 5, lambda r: (r + 1,), (x,))[0],
                   lambda x: x - 1, (x,))])
def test_loops_inside_others(program):
    x = flambeau.randn(3, 2)
    for mode in ("fake", "symbolic"):
        gm = make_fx(program, tracing_mode=mode)(x)
        assert all(flambeau.equal(gm(y), program(y)) for y in (x, -x, x + 1))
    exported = flambeau.export.export(Calls(program), (x,)).module()
    assert flambeau.equal(exported(-x), program(-x))


def test_places_that_a_loop_carries():
    def body(k, x):
        flambeau._check(k >= 0)
        flambeau._check(k < x.shape[0])
        x = x.clone()
        x.select(0, k).add_(k)
        return k + 1, x

    def program(x):
        return while_loop(lambda k, x: k < x.shape[0], body, (0, x))[1]

    x = flambeau.randn(4, 2)
    assert flambeau.equal(flambeau.export.export(Calls(program), (x,)).module()(x), program(x))


def summed(x):
    total, steps = scan(lambda total, row: (total + row, total * row), flambeau.zeros(2), x)
    return total, map(lambda row: row * 2, steps), flambeau.ones(steps.shape[0])


def slopes(x, w):
    with flambeau.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return flambeau.autograd.grad(map(lambda row, w: (row * w).sin(), x, w).sum(), [x, w])


def test_lengths_of_maps_and_scans_are_open():
    w, longer = flambeau.randn(2), flambeau.randn(5, 2)
    gm = make_fx(summed, tracing_mode="symbolic")(flambeau.randn(3, 2))
    assert all(flambeau.equal(a, b) for a, b in zip(gm(longer), summed(longer), strict=True))
    gm = make_fx(slopes, tracing_mode="symbolic")(flambeau.randn(3, 2), w)
    assert len(gm.graph.find_nodes(op="call_function", target=map)) == 2
    assert all(flambeau.allclose(a, b) for a, b in zip(gm(longer, w), slopes(longer, w), strict=True))
    with pytest.raises(NotImplementedError, match="length that is not open"):
        make_fx(lambda x: summed(x.requires_grad_()), tracing_mode="symbolic")(flambeau.randn(3, 2))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_scan(mode, reverse):
    def f(start, xs):
        return scan(lambda a, x: (a + x["v"], {"s": a * x["v"]}), start, {"v": xs}, dim=1, reverse=reverse)

    gm = make_fx(f, tracing_mode=mode)(flambeau.zeros(2), flambeau.ones(2, 3))
    assert len(gm.graph.find_nodes(op="call_function", target=scan)) == 1
    start, xs = flambeau.randn(2), flambeau.randn(2, 3)
    (total, ys), (total2, ys2) = f(start, xs), gm(start, xs)
    assert flambeau.equal(total, total2) and flambeau.equal(ys["s"], ys2["s"]) and ys["s"].shape == (3, 2)


def test_scan_is_a_loop():
    xs = flambeau.randn(4, 2, dtype=flambeau.float64, requires_grad=True)

    def f(xs):
        return scan(lambda a, x: (a * x.sin(), a + x), flambeau.ones(2, dtype=flambeau.float64), xs)[1]

    assert flambeau.autograd.gradcheck(f, (xs,))
    gm = make_fx(lambda x: flambeau.autograd.grad(f(x).sum(), x)[0])(xs)
    other = flambeau.randn(4, 2, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.allclose(gm(other), flambeau.autograd.grad(f(other).sum(), other)[0])
    with pytest.raises(RuntimeError, match="at least one element"):
        f(xs[:0])
    with pytest.raises(RuntimeError, match=r"\(carry, y\)"):
        scan(lambda a, x: a, xs[0], xs)


@pytest.mark.parametrize("mode", MODES)
def test_map(mode):
    def f(xs, y):
        return map(lambda x, b: (x * b, x.sum()), xs, y)

    gm = make_fx(f, tracing_mode=mode)(flambeau.ones(3, 2), flambeau.ones(2))
    assert len(gm.graph.find_nodes(op="call_function", target=map)) == 1
    xs, y = flambeau.randn(3, 2), flambeau.randn(2)
    assert all(map_equal(gm(xs, y), f(xs, y))) and flambeau.equal(f(xs, y)[0], xs * y)


def test_symbolic_traces_hold_graphs_too():
    gm = fx.symbolic_trace(lambda x: cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)))
    assert isinstance(gm.body_graph_0, fx.GraphModule)
    for x in (flambeau.ones(2), -flambeau.ones(2)):
        assert flambeau.equal(gm(x), x.sin() if x.sum() > 0 else x.cos())


@pytest.mark.parametrize("bad", [
    lambda: cond(True, 3, lambda: 1), lambda: cond("x", lambda: 1, lambda: 2), lambda: cond(True, len, len, 3),
    lambda: cond(flambeau.ones(2), lambda: 1, lambda: 2), lambda: while_loop(3, len, ()),
    lambda: map(lambda x: x, flambeau.tensor(1.0)),
    lambda: map(lambda x: x, (flambeau.ones(2), flambeau.ones(3)))])
def test_refusals(bad):
    with pytest.raises(RuntimeError):
        bad()


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_cond_in_a_branch_of_a_cond(mode):
    def first(x, inner):
        return x + flambeau.cond(inner, lambda y: y * y, lambda y: y + y, (x,))

    def f(x, outer, inner):
        return flambeau.cond(outer, first, lambda x, _: x.cos(), (x, inner))

    x, no, yes = flambeau.rand(4), flambeau.tensor(False), flambeau.tensor(True)
    gm = make_fx(f, tracing_mode=mode)(x, no.clone(), no.clone())
    for outer in (no, yes):
        for inner in (no, yes):
            assert flambeau.equal(gm(x, outer, inner), f(x, outer, inner))
