"""Every argument of every optimizer by itself, steps that autograd differentiates, and gradients that turn dense."""

import inspect
import json
import multiprocessing

import pytest

import flambeau

from .scenarios import (
    ARGUMENTS,
    DIFFERENTIABLE,
    GOLDEN,
    MUON,
    differentiable_run,
    muon_run,
    optimizer_run,
    single_arguments,
    unrolled,
)

EXPECTED = json.loads(GOLDEN.read_text())
SINGLE = single_arguments(flambeau)
OPTIMIZERS = [getattr(flambeau.optim, name) for name in [*ARGUMENTS, "Muon", "LBFGS", "SparseAdam"]]


def flat(nested):
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [nested]


def label(case):
    return f"{case[0]}-" + "-".join(f"{k}={v}" for k, v in case[1].items())


@pytest.mark.parametrize(("case", "expected"), list(zip(SINGLE, EXPECTED["arguments"])), ids=map(label, SINGLE))
def test_each_argument_alone(case, expected):
    name, options = case
    found = flat(optimizer_run(flambeau, name, options, steps=5))
    # a rate that is a float32 tensor makes PyTorch compute what depends on it in float32
    rounds = isinstance(options.get("lr"), flambeau.Tensor) or case == ("ASGD", {"foreach": True})
    tolerance = 1e-6 if rounds else 1e-12
    assert found == pytest.approx(flat(expected), rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("case", "expected"), list(zip(single_arguments(flambeau, {"Muon": MUON}), EXPECTED["muon"])),
                         ids=map(label, single_arguments(flambeau, {"Muon": MUON})))
def test_muon(case, expected):
    found = muon_run(flambeau)[[label(c) for c in single_arguments(flambeau, {"Muon": MUON})].index(label(case))]
    assert flat(found) == pytest.approx(flat(expected), rel=2e-2, abs=2e-2)  # the factor is rounded to bfloat16


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.__name__)
def test_the_table_names_every_argument(optimizer):
    """What is not in it is covered by a test of its own; Nesterov's momentum and dampening need others set."""
    known = {**ARGUMENTS, "Muon": MUON}.get(optimizer.__name__)
    if known is not None:
        apart = {"self", "params", "capturable", "differentiable", "nesterov", "dampening"} - set(known)
        assert set(inspect.signature(optimizer.__init__).parameters) - apart == set(known)


def capturable():
    return [o for o in OPTIMIZERS if "capturable" in inspect.signature(o.__init__).parameters]


@pytest.mark.parametrize("optimizer", capturable(), ids=lambda o: o.__name__)
def test_capturable_steps_alike_on_a_cpu(optimizer):
    """PyTorch refuses the step here, so a state saved from a GPU program cannot go on on a CPU."""
    name = optimizer.__name__
    assert optimizer_run(flambeau, name, {"capturable": True}) == optimizer_run(flambeau, name, {})


def differentiable():
    return [o for o in OPTIMIZERS if "differentiable" in inspect.signature(o.__init__).parameters]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=label)
def test_differentiable_steps_take_the_same_way(case):
    name, options, *_ = case
    start, gain = flambeau.randn(2, 3, dtype=flambeau.float64), flambeau.tensor(0.3, dtype=flambeau.float64)
    p = start.clone()
    plain = getattr(flambeau.optim, name)([p], **options)
    for t in range(4):
        p.grad = p.clone() * gain * 0.5 + (start * gain).sin() * (1 + t)
        plain.step()
    assert flat(unrolled(flambeau, name, options, start, gain).tolist()) == pytest.approx(flat(p.tolist()), rel=1e-7)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=label)
def test_gradients_through_steps(case):
    """Start, gain of the gradients, and the learning rate: first and second derivatives by differences."""
    name, options, *_ = case
    flambeau.manual_seed(3)
    start = flambeau.randn(3, dtype=flambeau.float64, requires_grad=True)
    gain = flambeau.tensor(0.7, dtype=flambeau.float64, requires_grad=True)
    lr = flambeau.tensor(options.get("lr", 0.05), dtype=flambeau.float64, requires_grad=True)

    def run(start, gain, lr):
        return unrolled(flambeau, name, {**options, "lr": lr}, start, gain, steps=3)

    inputs = (start, gain, lr)
    assert flambeau.autograd.gradcheck(run, inputs, atol=1e-4, rtol=1e-3)
    assert flambeau.autograd.gradgradcheck(run, inputs, atol=1e-3, rtol=1e-2)


def test_momentum_of_the_first_step_keeps_its_gradient():
    """PyTorch cuts it off: a step with momentum 0.9 has there no gradient with respect to p.grad at all."""
    g = flambeau.tensor([2.0], requires_grad=True)
    p = flambeau.tensor([1.0])
    opt = flambeau.optim.SGD([p], lr=0.5, momentum=0.9, differentiable=True)
    p.grad = g
    opt.step()
    assert flambeau.autograd.grad(p.sum(), g)[0].tolist() == [-0.5]


@pytest.mark.parametrize(("case", "expected"), list(zip([c for c in DIFFERENTIABLE if c[2]],
                                                        EXPECTED["differentiable"])),
                         ids=[label(c) for c in DIFFERENTIABLE if c[2]])
def test_gradients_of_pytorch(case, expected):
    name, options, _, rate = case
    # PyTorch counts the steps of Adam in float32 here, powers of the decay rates included
    assert flat(differentiable_run(flambeau, name, options, rate)) == pytest.approx(flat(expected), rel=3e-4)


@pytest.mark.parametrize("optimizer", [flambeau.optim.Adam, flambeau.optim.AdamW])
def test_decay_rates_are_learned(optimizer):
    b1, b2 = (flambeau.tensor(v, dtype=flambeau.float64, requires_grad=True) for v in (0.7, 0.8))
    start = flambeau.tensor([0.3, -2.0], dtype=flambeau.float64, requires_grad=True)

    def run(b1, b2, start):
        p = start.clone()
        opt = optimizer([p], lr=0.1, betas=(b1, b2), differentiable=True)
        for t in range(3):
            p.grad = start * (t + 1)
            opt.step()
        return p

    assert flambeau.autograd.gradcheck(run, (b1, b2, start), atol=1e-4)


def test_weight_decay_is_learned():
    decay = flambeau.tensor(0.1, dtype=flambeau.float64, requires_grad=True)

    def run(decay):
        p = flambeau.tensor([0.3, -2.0], dtype=flambeau.float64)
        opt = flambeau.optim.SGD([p], lr=0.1, weight_decay=decay, differentiable=True)
        for t in range(3):
            p.grad = flambeau.tensor([1.0, t], dtype=flambeau.float64)
            opt.step()
        return p

    assert flambeau.autograd.gradcheck(run, (decay,))
    assert flambeau.autograd.gradgradcheck(run, (decay,))


@pytest.mark.parametrize("optimizer", differentiable(), ids=lambda o: o.__name__)
def test_differentiable_complex_parameters(optimizer):
    def run(start):
        p = start.clone()
        opt = optimizer([p], lr=0.1, differentiable=True)
        for _ in range(2):
            p.grad = start * (0.8 + 0.5j)
            opt.step()
        return flambeau.view_as_real(p)

    start = flambeau.tensor([1 + 2j, -3j + 0.4], dtype=flambeau.complex128, requires_grad=True)
    assert flambeau.autograd.gradcheck(run, (start,), atol=1e-4)
    parts = flambeau.view_as_real(start.detach()).clone()
    p = parts.clone()
    opt = optimizer([p], lr=0.1)
    for _ in range(2):
        p.grad = flambeau.view_as_real(start.detach() * (0.8 + 0.5j))
        opt.step()
    assert flat(run(start).tolist()) == pytest.approx(flat(p.tolist()), rel=1e-7)


@pytest.mark.parametrize("optimizer", differentiable(), ids=lambda o: o.__name__)
def test_differentiable_needs_parameters_with_history(optimizer):
    leaf = flambeau.ones(2, requires_grad=True)
    opt = optimizer([leaf], differentiable=True)
    leaf.grad = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="leaf"):
        opt.step()
    assert leaf.tolist() == [1.0, 1.0]


def test_modes_that_exclude_each_other():
    p = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="differentiable=True and fused=True"):
        flambeau.optim.Adam([p], fused=True, differentiable=True)
    with pytest.raises(ValueError, match=r"one element, got shape \[2\]"):
        flambeau.optim.Adam([p], lr=flambeau.tensor([0.1, 0.2]))


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"dampening": 0.3, "weight_decay": 0.0, "maximize": True}],
                         ids=str)
@pytest.mark.parametrize("order", ["sparse dense sparse", "dense sparse dense", "sparse sparse dense"])
def test_momentum_where_gradients_turn_dense(order, options):
    """The steps are those of the same gradients held densely."""
    options = {"lr": 0.1, "momentum": 0.9, "nesterov": False, "dampening": 0, **options}
    grads = [flambeau.tensor([[0.0, 0.0], [1.0 + t, 2.0], [0.0, 0.0]]) for t in range(3)]
    mixed, dense = (flambeau.arange(6.0).reshape(3, 2).requires_grad_() for _ in range(2))
    first, second = flambeau.optim.SGD([mixed], **options), flambeau.optim.SGD([dense], **options)
    for kind, grad in zip(order.split(), grads):
        mixed.grad = grad.to_sparse(1) if kind == "sparse" else grad.clone()
        dense.grad = grad.clone()
        first.step()
        second.step()
        assert flat(mixed.tolist()) == pytest.approx(flat(dense.tolist()), rel=1e-6)


def _double(sums):
    sums.mul_(2)


def test_adagrad_shares_its_sums():
    p = flambeau.ones(3, requires_grad=True)
    opt = flambeau.optim.Adagrad([p], initial_accumulator_value=0.5)
    opt.share_memory()
    process = multiprocessing.get_context("fork").Process(target=_double, args=(opt.state[p]["sum"],))
    process.start()
    process.join()
    assert opt.state[p]["sum"].tolist() == [1.0, 1.0, 1.0]


def test_a_differentiable_step_of_nadam_depends_on_the_product_of_its_rates():
    start, grad, mean, square = (flambeau.rand(3, dtype=flambeau.float64) for _ in range(4))

    def stepped(product):
        p = start.clone()
        p.grad = grad
        optimizer = flambeau.optim.NAdam([p], lr=0.9, differentiable=True)
        optimizer.state[p].update(step=flambeau.tensor(10.0), exp_avg=mean.clone(), exp_avg_sq=square.clone(),
                                  mu_product=product.clone())
        optimizer.step()
        return p

    assert flambeau.autograd.gradcheck(stepped, flambeau.tensor(0.7, dtype=flambeau.float64, requires_grad=True))
