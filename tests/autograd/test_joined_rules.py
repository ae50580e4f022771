"""Derivative rules over many numbers, whose pointwise calls run as one walk: the same numbers as call by call."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import flambeau
from flambeau.autograd import grad

from ..ops import battery
from ..ops.battery import OPS, samples, tensors

SHAPE = (48, 700)  # more numbers than a rule needs for it
F = flambeau.nn.functional


def large(t):
    """Values of `t`, again and again, in a shape that is worth it."""
    flat = t.detach().reshape(-1)
    numel = SHAPE[0] * SHAPE[1]
    return flat.repeat(numel // len(flat) + 1)[:numel].reshape(SHAPE).clone().requires_grad_(t.requires_grad)


def both_ways(function, inputs):
    """The gradients of what `function` computes: as ever, and call by call, as where they are differentiated again."""
    found = []
    for again in (False, True):
        flambeau.manual_seed(0)
        result = next(t for t in tensors(function(*inputs)) if t.requires_grad)
        g = flambeau.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
        found.append(grad(result, inputs, g, create_graph=again, allow_unused=True))
    return found


def same(a, b):
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.stride() == b.stride() and flambeau.equal(a.nan_to_num(), b.nan_to_num())


def pointwise():
    return [name for name in battery.with_samples("gradcheck")
            if OPS[name].kind == "elementwise" and not name.endswith("_")]


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16, flambeau.complex64], ids=str)
def test_pointwise_operators(dtype):
    checked = 0
    for name in pointwise():
        try:
            sample = next(iter(samples(name, dtype, requires_grad=True)))
            wanted = []

            def enlarged(t, wanted=wanted):
                t = large(t) if t.numel() else t
                if t.requires_grad:
                    wanted.append(t)
                return t
            sample = battery.map_tensors(enlarged, sample)
            result = OPS[name](*sample.args, **sample.kwargs)
        except (NotImplementedError, RuntimeError, StopIteration):
            continue  # not of that dtype
        if not wanted or not any(t.requires_grad for t in tensors(result)):
            continue
        once, again = both_ways(lambda *_, name=name, s=sample: OPS[name](*s.args, **s.kwargs), wanted)
        assert all(map(same, once, again)), name
        checked += 1
    assert checked > 20


def leaf(*shape, dtype=flambeau.float32):
    return (flambeau.rand(*shape, dtype=dtype) * 0.9 + 0.05).requires_grad_()


LOSSES = {
    "mse_loss": {}, "l1_loss": {}, "smooth_l1_loss": {"beta": 0.3}, "huber_loss": {"delta": 0.2}, "kl_div": {},
    "binary_cross_entropy": {}, "binary_cross_entropy_with_logits": {}, "poisson_nll_loss": {}, "soft_margin_loss": {},
}


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, dtype):
    x, t = leaf(*SHAPE, dtype=dtype), leaf(*SHAPE, dtype=dtype)
    for reduction in ("mean", "sum", "none"):
        keys = LOSSES[name] | {"reduction": reduction}
        once, again = both_ways(lambda x, t, keys=keys: getattr(F, name)(x, t, **keys), (x, t))
        assert all(map(same, once, again)), reduction


def test_weights_broadcast():
    x, t = leaf(*SHAPE), leaf(*SHAPE).detach()
    for keys in ({"weight": leaf(700).detach()}, {"pos_weight": leaf(700)}, {"pos_weight": leaf(48, 1)}):
        wanted = [x, *(w for w in keys.values() if w.requires_grad)]
        once, again = both_ways(lambda *_, keys=keys: F.binary_cross_entropy_with_logits(x, t, **keys), wanted)
        assert all(map(same, once, again))


def test_layouts_stay():
    x = leaf(4, 16, 24, 24).detach().to(memory_format=flambeau.channels_last).requires_grad_()
    t = flambeau.rand(4, 16, 24, 24).to(memory_format=flambeau.channels_last)
    once, again = both_ways(lambda x: F.smooth_l1_loss(x, t, beta=0.5), (x,))
    assert same(once[0], again[0]) and once[0].is_contiguous(memory_format=flambeau.channels_last)
    y = leaf(700, 48)
    once, again = both_ways(lambda y: F.huber_loss(y.t(), flambeau.ones(SHAPE), reduction="none"), (y,))
    assert same(once[0], again[0])


def test_what_is_seen_otherwise_than_it_was_made():
    z = flambeau.complex(leaf(*SHAPE), leaf(*SHAPE)).detach().requires_grad_()
    once, again = both_ways(lambda z: z.sgn(), (z,))  # its rule reads the real part of a product
    assert same(flambeau.view_as_real(once[0]), flambeau.view_as_real(again[0]))


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.complex128])
@pytest.mark.parametrize("shape", [SHAPE, (200, 12), (3, 2500), (2, 150, 70)])
@pytest.mark.parametrize("f", [lambda x: x.cumprod(0), lambda x: x.cumprod(1), lambda x: x.prod(0), lambda x: x.prod(1),
                               lambda x: x.prod()])
def test_products_with_zeros(f, shape, dtype):
    flambeau.manual_seed(0)
    x = flambeau.rand(shape, dtype=dtype) * 0.2 + 0.9
    x[0, 5] = x[1, 9] = x[1, 5] = x[0, 0] = x[-1, -1] = 0
    once, again = both_ways(f, (x.requires_grad_(),))
    assert flambeau.allclose(once[0], again[0])
    one = x.detach().clone()
    one[one == 0] = 1
    one[1, 3] = 0  # alone: only its own gradient is left in a product of all
    once, again = both_ways(f, (one.requires_grad_(),))
    assert flambeau.allclose(once[0], again[0])


def test_any_number_of_threads():
    x, t = leaf(300, 700), leaf(300, 700).detach()
    threads, found = flambeau.get_num_threads(), []
    try:
        for n in (1, 2):
            flambeau.set_num_threads(n)
            found.append(grad(F.smooth_l1_loss(x, t, beta=0.3), x)[0])
    finally:
        flambeau.set_num_threads(threads)
    assert flambeau.equal(*found)


def test_hooks_see_values():
    x, seen = leaf(*SHAPE), []
    y = (x * 3).sigmoid()
    y.register_hook(lambda g: seen.append(g.sum().item()))
    loss = F.mse_loss(y, flambeau.zeros(SHAPE))
    loss.backward()
    assert seen[0] == pytest.approx((2 * y / y.numel()).sum().item())
    assert flambeau.allclose(x.grad, 2 * y / y.numel() * y * (1 - y) * 3)


def test_saved_values_that_were_packed():
    x, t = leaf(*SHAPE), leaf(*SHAPE).detach()
    plain = grad(F.huber_loss(x, t), x)[0]
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1):
        loss = F.huber_loss(x, t)
    assert flambeau.equal(grad(loss, x)[0], plain)


def test_a_rule_that_fails_leaves_nothing_behind():
    x, y = leaf(*SHAPE), leaf(*SHAPE)
    loss = (x * y).atan2(y).sum()
    with flambeau.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError):
        loss.backward()
    assert not flambeau._C.graph_capturing()
    assert flambeau.ones(SHAPE).add(1).sum() == 2 * SHAPE[0] * SHAPE[1]


def test_inside_compile_and_vmap():
    x, t = leaf(*SHAPE), leaf(*SHAPE).detach()

    def step(x):
        return grad(F.smooth_l1_loss(x, t, beta=0.5), x)[0]
    assert flambeau.equal(flambeau.compile(step)(x), step(x))
    rows = flambeau.func.vmap(flambeau.func.grad(lambda x, t: F.huber_loss(x, t, reduction="sum")))(x.detach(), t)
    assert flambeau.equal(rows, grad(F.huber_loss(x, t, reduction="sum"), x)[0])


def test_several_threads_share_a_plan():
    pairs = [(leaf(*SHAPE), leaf(*SHAPE).detach()) for _ in range(4)]
    expected = [grad(F.smooth_l1_loss(x, t, beta=0.4), x)[0] for x, t in pairs]

    def work(k):
        x, t = pairs[k]
        return all(flambeau.equal(grad(F.smooth_l1_loss(x, t, beta=0.4), x)[0], expected[k]) for _ in range(50))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
