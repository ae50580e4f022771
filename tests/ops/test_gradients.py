"""Derivatives against finite differences, twice over; rules save what they name and nothing else."""

import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck

from . import battery, refusals
from .battery import OPS, samples, tensors

#: finite differences cost (inputs) x (outputs): larger samples are for the other laws
LARGEST = 200
#: up to here the whole Jacobian, above it a random projection
WHOLE = 36


def size(leaves):
    return sum(t.numel() for t in leaves)


def cases(name, dtype=flambeau.float64):
    """(function of the tensors alone, the tensors) for every sample that has an input to differentiate by."""
    for k, sample in enumerate(samples(name, dtype, requires_grad=True)):
        if refusals.refuses(name, dtype, k):
            continue
        leaves = []
        battery.map_tensors(lambda t, leaves=leaves: leaves.append(t) if t.requires_grad else None, sample)
        if not leaves or size(leaves) > LARGEST:
            continue

        def function(*values, sample=sample):
            given = iter(values)
            replaced = battery.map_tensors(lambda t: next(given) if t.requires_grad else t, sample)
            flambeau.manual_seed(0)
            if name.endswith("_"):  # a leaf is not written in place
                replaced = battery.map_tensors(lambda t: t.clone(), replaced)
            return tuple(tensors(OPS[name](*replaced.args, **replaced.kwargs)))
        result = function(*leaves)
        # views of an input: differences write into the input's memory, so the result must be a copy
        yield sample, lambda *v, f=function: tuple(t * 1 if t.requires_grad else t for t in f(*v)), leaves, result


@pytest.mark.parametrize("name", battery.with_samples("gradcheck"))
def test_gradcheck(name):
    checked = 0
    for _, function, leaves, result in cases(name):
        if any(t.is_floating_point() or t.is_complex() for t in result):
            gradcheck(function, leaves, fast_mode=size(leaves) > WHOLE)
            checked += 1
    battery.compared(checked, "nothing to differentiate")


def differentiated(law):
    """The operators of a law, less those that leave `gradcheck` out."""
    return [n for n in battery.with_samples(law) if battery.skip_reason(n, "gradcheck") is None]


@pytest.mark.parametrize("name", differentiated("gradgradcheck"))
def test_gradgradcheck(name):
    checked = 0
    for _, function, leaves, result in cases(name):
        if any(t.requires_grad for t in result) and size(leaves) <= LARGEST:
            gradgradcheck(function, leaves, atol=1e-4, fast_mode=size(leaves) > WHOLE // 3)
            checked += 1
    battery.compared(checked, "nothing to differentiate, or samples too large")


@pytest.mark.parametrize("name", differentiated("complex_gradcheck"))
def test_complex_gradcheck(name):
    checked = 0
    for _, function, leaves, result in cases(name, flambeau.complex128):
        if any(t.requires_grad for t in result) and any(t.numel() for t in leaves):
            gradcheck(function, leaves, fast_mode=size(leaves) > WHOLE // 2)
            checked += 1
        if checked == 2:
            break
    battery.compared(checked, "not for complex numbers")


@pytest.mark.parametrize("name", battery.with_samples("float32_gradient"))
def test_gradient_has_its_inputs_dtype_and_shape(name):
    checked = 0
    for dtype in (flambeau.float32, flambeau.float16):
        for _, _, leaves, result in cases(name, dtype):
            wanted = [t for t in result if t.requires_grad]
            if not wanted:
                continue
            grads = flambeau.autograd.grad(wanted, leaves, [flambeau.ones_like(t) for t in wanted], allow_unused=True)
            for leaf, grad in zip(leaves, grads, strict=True):
                if grad is not None:
                    assert grad.dtype == leaf.dtype
                    assert grad.shape == leaf.shape
                    checked += 1
    battery.compared(checked, "nothing to differentiate")
