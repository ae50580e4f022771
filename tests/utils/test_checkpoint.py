"""Checkpointing: the same gradients from less memory, in every form."""

import functools
import gc
import warnings

import pytest

import flambeau
from flambeau.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

nn = flambeau.nn
BOTH = pytest.mark.parametrize("reentrant", [True, False])


def block(width=16):
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.3), nn.Linear(width, width), nn.GELU())


def gradients(model, x):
    result = [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
    x.grad = None
    model.zero_grad()
    return result


@BOTH
def test_same_gradients_dropout_included(reentrant):
    flambeau.manual_seed(0)
    model, x = block(), flambeau.rand(4, 16, requires_grad=True)
    flambeau.manual_seed(1)
    model(x).sum().backward()
    wanted = gradients(model, x)
    flambeau.manual_seed(1)
    y = checkpoint(model, x, use_reentrant=reentrant)
    flambeau.rand(7)  # draws in between do not matter
    state = flambeau.get_rng_state()
    y.sum().backward()
    assert flambeau.equal(state, flambeau.get_rng_state())
    for a, b in zip(wanted, gradients(model, x), strict=True):
        assert flambeau.equal(a, b)


@BOTH
def test_memory_is_saved(reentrant):
    flambeau.manual_seed(0)
    layers = nn.Sequential(*(nn.Sequential(*(nn.Tanh() for _ in range(8))) for _ in range(8)))
    x = flambeau.rand(1 << 16, requires_grad=True)
    one = x.nbytes

    def kept(run):
        gc.collect()
        before = flambeau.memory.stats()["allocated"]
        y = run()
        forward = flambeau.memory.stats()["allocated"] - before
        flambeau.memory.reset_peak()
        y.sum().backward()
        peak = flambeau.memory.stats()["peak"] - before
        x.grad = None
        return forward / one, peak / one
    plain, plain_peak = kept(lambda: layers(x))
    saved, peak = kept(lambda: checkpoint_sequential(layers, 8, x, use_reentrant=reentrant))
    assert plain >= 64
    assert saved <= 17 and peak <= 26 and plain_peak >= 64, (saved, peak)


def test_keyword_arguments_and_several_results():
    x = flambeau.rand(3, requires_grad=True)

    def f(x, scale=1.0, *, shift):
        return x.exp() * scale, [x.sin() + shift]
    y, (z,) = checkpoint(f, x, scale=2.0, shift=x, use_reentrant=False)
    (y.sum() + z.sum()).backward()
    assert flambeau.allclose(x.grad, (2 * x.exp() + x.cos() + 1).detach())


def test_second_derivatives_and_two_passes():
    x = flambeau.tensor(0.7, dtype=flambeau.float64, requires_grad=True)
    y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    (g,) = flambeau.autograd.grad(y, x, create_graph=True)
    (g2,) = flambeau.autograd.grad(y, x, retain_graph=True)
    (h,) = flambeau.autograd.grad(g, x)
    e = x.detach().exp()
    assert g.item() == pytest.approx((e * e.cos()).item()) and g2.item() == g.item()
    assert h.item() == pytest.approx((e * e.cos() - e * e * e.sin()).item())


def test_nested():
    calls = []

    def inner(x):
        calls.append("inner")
        return x.exp().sin()

    def outer(x):
        calls.append("outer")
        return checkpoint(inner, x.tanh(), use_reentrant=False).cos().tanh()
    x = flambeau.rand(5, dtype=flambeau.float64, requires_grad=True)
    checkpoint(outer, x, use_reentrant=False).sum().backward()
    y = x.detach().requires_grad_()
    y.tanh().exp().sin().cos().tanh().sum().backward()
    assert flambeau.allclose(x.grad, y.grad)
    assert calls.count("outer") == 2


def test_early_stop():
    calls = []

    def f(x):
        y = x.exp()
        calls.append("end")
        return y
    x = flambeau.rand(3, requires_grad=True)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert calls == ["end"]
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert calls == ["end"] * 3


class Changing:
    """Does `first` when it is called first, `later` afterwards."""

    def __init__(self, first, later):
        self.forms = [first, later]

    def __call__(self, x):
        return (self.forms.pop(0) if len(self.forms) > 1 else self.forms[0])(x)


def test_a_different_recomputation_is_noticed():
    x = flambeau.rand(2, requires_grad=True)
    y = checkpoint(Changing(lambda x: x.exp().sin().cos(), lambda x: x.exp().cos()), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="saved 3 tensors for backward in its first run and 2 in"):
        y.sum().backward()
    changing = Changing(lambda x: x.exp()[:1].cos(), lambda x: x.exp().cos())
    y = checkpoint(changing, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match=r"in its second run:\n  tensor 1: first .*\[1\]"):
        y.sum().backward()
    y = checkpoint(Changing(lambda x: x.exp()[:1].cos(), lambda x: x.exp().cos()), x, use_reentrant=False,
                   determinism_check="none")
    y.sum().backward()
    with set_checkpoint_debug_enabled(True):
        y = checkpoint(Changing(lambda x: x.exp().sin().cos(), lambda x: x.exp().cos()), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match=r"sin.*cos.*differs from here"):
        y.sum().backward()


def test_an_argument_written_to_is_noticed():
    x, w = flambeau.rand(2, requires_grad=True), flambeau.ones(2)
    y = checkpoint(lambda x, w: (x * w).exp(), x, w, use_reentrant=False)
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"an argument of the function, .* at version 0 and has been changed"):
        y.sum().backward()


def test_reentrant_limits():
    x = flambeau.rand(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="with use_reentrant=True neither grad"):
        flambeau.autograd.grad(checkpoint(flambeau.exp, x, use_reentrant=True).sum(), x)
    with pytest.warns(UserWarning, match="no input requires grad"):
        checkpoint(flambeau.exp, flambeau.ones(2), use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(flambeau.exp, x)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(flambeau.exp, x, use_reentrant=True, scale=3)


@BOTH
def test_autocast_is_the_same_again(reentrant):
    layer, x = nn.Linear(4, 4), flambeau.rand(2, 4, requires_grad=True)
    seen = []

    def f(x):
        y = layer(x)
        seen.append(y.dtype)
        return y.float().tanh()
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        y = checkpoint(f, x, use_reentrant=reentrant)
    y.sum().backward()
    assert seen == [flambeau.bfloat16] * 2 and x.grad is not None


def test_without_gradients_it_is_a_plain_call():
    with flambeau.no_grad():
        assert checkpoint(flambeau.exp, flambeau.zeros(2), use_reentrant=False).tolist() == [1.0, 1.0]


def test_saved_tensors_may_be_read_once():
    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors  # noqa: B018
            (x,) = ctx.saved_tensors
            return g * x.exp()
    x = flambeau.rand(2, requires_grad=True)
    with pytest.raises(CheckpointError, match="a saved tensor was asked for twice"):
        checkpoint(Twice.apply, x, use_reentrant=False).sum().backward()


def test_selective_keeps_what_the_policy_says():
    counts = {"mm": 0}
    w = flambeau.rand(32, 32, requires_grad=True)
    x = flambeau.rand(8, 32)

    class Count(flambeau.overrides.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            counts["mm"] += func is flambeau.mm
            return func(*args, **(kwargs or {}))

    def f(x):
        return ((x @ w).tanh() @ w).exp()

    def run(context):
        w.grad = None
        with warnings.catch_warnings():
            y = checkpoint(f, x, use_reentrant=False, **({"context_fn": context} if context else {}))
        counts["mm"] = 0
        with Count():
            y.sum().backward()
        return w.grad.clone(), counts["mm"]

    plain, with_products = run(None)
    kept, without = run(functools.partial(create_selective_checkpoint_contexts, [flambeau.mm]))
    assert flambeau.equal(plain, kept)

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is flambeau.tanh else CheckpointPolicy.PREFER_RECOMPUTE
    again, _ = run(functools.partial(create_selective_checkpoint_contexts, policy))
    assert flambeau.equal(plain, again)
    assert without == with_products - 2


def test_gradients_inside_the_function_are_computed_again_to_the_end():
    def slope(x):
        with flambeau.enable_grad():
            return flambeau.autograd.grad(x.sin().exp(), x, create_graph=True)[0]

    def inner(x):
        return checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)

    def slope_of_inner(x):
        with flambeau.enable_grad():
            return flambeau.autograd.grad(inner(x), x, create_graph=True)[0]

    x = flambeau.tensor(0.3, requires_grad=True)
    expected, = flambeau.autograd.grad(slope(x), x)
    for stops in (True, False):
        with set_checkpoint_early_stop(stops):
            for function in (slope, slope_of_inner):
                found, = flambeau.autograd.grad(checkpoint(function, x, use_reentrant=False), x)
                assert flambeau.allclose(found, expected)


def test_selective_keeps_operators_of_ones_own():
    ran = []

    @flambeau.library.custom_op("selective_checkpoint::counted_sin", mutates_args=())
    def counted_sin(x: flambeau.Tensor) -> flambeau.Tensor:
        ran.append(1)
        return x.sin()

    counted_sin.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(),
                                  setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    keep = functools.partial(create_selective_checkpoint_contexts,
                             [flambeau.ops.selective_checkpoint.counted_sin.default])
    x = flambeau.ones(3, requires_grad=True)
    checkpoint(lambda x: (counted_sin(x) * x).exp(), x, use_reentrant=False, context_fn=keep).sum().backward()
    assert len(ran) == 1
    y = flambeau.ones(3, requires_grad=True)
    (y.sin() * y).exp().sum().backward()
    assert flambeau.allclose(x.grad, y.grad)


def test_policies_are_asked_about_pytorchs_products():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(str(op))
        return CheckpointPolicy.PREFER_RECOMPUTE

    layer, bare = flambeau.nn.Linear(2, 2), flambeau.nn.Linear(2, 2, bias=False)
    w, v = flambeau.ones(2, 2), flambeau.ones(2)

    def run(x):
        return layer(x), bare(x), x @ w, x[None] @ w, x[None] @ w[None], x @ v, v @ v

    x = flambeau.ones(3, 2, requires_grad=True)
    checkpoint(run, x, use_reentrant=False,
               context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
    products = [name.split(".")[1] for name in asked if name.split(".")[1].endswith(("mm", "mv", "dot", "matmul"))]
    assert products == ["addmm", "mm", "mm", "mm", "bmm", "mv", "dot"]
