"""Programs under `compile` give what they give without: values to the bit, shapes, strides, errors, gradients."""

import random

import pytest

import flambeau

from . import random_programs

SEEDS = 400


def outcome(run):
    """What came of it, in a form that can be compared."""
    try:
        return [(x.shape, x.dtype, x.stride(), x.requires_grad, str(x.double().tolist())) for x in run()]
    except Exception as error:
        return type(error).__name__, str(error)


def both(program, seed):
    """The outcome of a program as it is, and captured; each with its inputs, which it may have changed."""
    def plain():
        start = random_programs.inputs(seed)
        return program(random.Random(seed), start) + start
    return outcome(plain), outcome(flambeau.compile(plain))


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part):
    for seed in range(part, SEEDS, 4):
        expected, found = both(random_programs.run, seed)
        assert found == expected, seed


@pytest.mark.parametrize("part", range(4))
def test_random_programs_with_a_backward_pass(part):
    failures = 0
    for seed in range(part, SEEDS, 4):
        expected, found = both(random_programs.learns, seed)
        assert found == expected, seed
        failures += isinstance(expected, tuple)
    assert failures < SEEDS / 8  # some end in an error (a value that the backward pass needs was written to)


@pytest.mark.exhaustive
def test_many_random_programs():
    for seed in range(SEEDS, 20_000):
        for program in (random_programs.run, random_programs.learns):
            expected, found = both(program, seed)
            assert found == expected, seed
