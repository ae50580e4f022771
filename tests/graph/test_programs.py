"""Programs under `compile` give what they give without: values to the bit, shapes, strides, errors, gradients."""

import random

import pytest

import flambeau
from flambeau import _C

from . import random_programs

SEEDS = 240


def strides(x):
    """Those that say something: one element has no next."""
    return [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size != 1]


def outcome(run):
    """What came of it, in a form that can be compared."""
    try:
        return [(x.shape, x.dtype, strides(x), x.requires_grad, str(x.double().tolist())) for x in run()]
    except Exception as error:
        return type(error).__name__, str(error)


def both(program, seed, *sizes):
    """The outcome of a program as it is, and captured; each with its inputs, which it may have changed. Every third
    program makes them itself."""
    def run(start):
        start = random_programs.inputs(seed, *sizes) if seed % 3 == 0 else start
        return program(random.Random(seed), start) + start

    def outcome_of(run):
        start = random_programs.inputs(seed, *sizes)
        return outcome(lambda: run(start))
    return outcome_of(run), outcome_of(flambeau.compile(run))


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


@pytest.mark.parametrize("program", [random_programs.run, random_programs.learns])
def test_random_programs_of_several_sizes(program):
    made = _C.graph_counts()
    for seed in range(30):
        for sizes in ((3, 4), (5, 4), (2, 9), (3, 4), (1, 4), (3, 3)):
            expected, found = both(program, seed, *sizes)
            assert found == expected, (seed, sizes)
    now = _C.graph_counts()
    assert now["made"] - made["made"] < 0.8 * (now["programs"] - made["programs"])  # some were shared


@pytest.mark.exhaustive
def test_many_random_programs():
    for seed in range(SEEDS, 20_000):
        for program in (random_programs.run, random_programs.learns):
            for sizes in ((3, 4), (5, 4), (2, 9), (1, 4)):
                expected, found = both(program, seed, *sizes)
                assert found == expected, (seed, sizes)
