"""Random kernels: Philox's own known answers, distributions, and numbers that depend on seed and place alone."""

import ctypes
import math

import pytest

import flambeau
from flambeau.cuda.kernels import compile
from flambeau.cuda.kernels.plans import Seed
from flambeau.cuda.kernels.pointwise import text

from .. import emulate
from .rows import Lowered

FILES = ("prelude.cuh", "functions.cuh", "complex.cuh", "blocks.cuh", "random.cuh")


def drawn(name, *args, **kwargs):
    """The results of one lowered draw, and its plan."""
    lowered = Lowered(name, args, kwargs)
    return lowered.run(), lowered.plan


def test_philox_gives_the_published_numbers():
    """Known answers of Random123 for counter and key of zeros and of ones."""
    source = text(*FILES) + """
extern "C" __global__ void words(uint32_t* out) {
  const Four a = philox(0, 0, 0), b = philox(~0ull, ~0ull, ~0ull);
  for (int k = 0; k < 4; ++k) out[k] = a.v[k], out[4 + k] = b.v[k];
}
"""
    out = (ctypes.c_uint32 * 8)()
    emulate.launch(compile(source, "emulate", "words"), "words", (1, 1, 1), (1, 1, 1),
                   [ctypes.c_void_p(ctypes.addressof(out))])
    assert list(out) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
                         0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]


N = 20000


@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.float64), ids=str)
@pytest.mark.parametrize(("name", "mean", "std", "args"), (
    ("uniform_", 3.0, 2 / math.sqrt(12), (2.0, 4.0)), ("normal_", 1.0, 2.0, (1.0, 2.0)),
    ("exponential_", 0.5, 0.5, (2.0,)), ("geometric_", 4.0, math.sqrt(12), (0.25,)),
    ("log_normal_", math.exp(0.125), math.sqrt((math.exp(0.25) - 1) * math.exp(0.25)), (0.0, 0.5)),
    ("bernoulli_float_", 0.3, math.sqrt(0.21), (0.3,))))
def test_distributions(name, mean, std, args, dtype):
    (x,), _ = drawn(name, flambeau.zeros(N, dtype=dtype), *args)
    x = x.double()
    assert abs(x.mean().item() - mean) < 5 * std / math.sqrt(N)
    assert abs(x.std().item() - std) < 0.05 * std


SPREAD = (  # operator, operands, mean and deviation
    ("poisson", (3.5,), 3.5, math.sqrt(3.5)), ("poisson", (250.0,), 250, math.sqrt(250)),
    ("_standard_gamma", (0.3,), 0.3, math.sqrt(0.3)), ("_standard_gamma", (4.0,), 4, 2),
    ("_binomial", (9.0, 0.25), 2.25, math.sqrt(9 * 0.25 * 0.75)),
    ("_binomial", (200.0, 0.7), 140, math.sqrt(42)),
)


@pytest.mark.parametrize(("name", "operands", "mean", "std"), SPREAD)
def test_numbers_that_are_rejected_until_they_fit(name, operands, mean, std):
    (x,), _ = drawn(name, *(flambeau.full((N,), v) for v in operands))
    assert abs(x.mean().item() - mean) < 5 * std / math.sqrt(N)
    assert abs(x.std().item() - std) < 0.05 * std
    assert name == "_standard_gamma" or bool((x == x.round()).all())


def test_rows_of_dirichlet_add_up():
    weights = flambeau.tensor([0.5, 1.0, 2.5]).expand(4000, 3)
    (x,), _ = drawn("_sample_dirichlet", weights)
    assert flambeau.allclose(x.sum(1), flambeau.ones(4000)) and (x > 0).all()
    assert flambeau.allclose(x.mean(0), weights[0] / 4, atol=0.02)


def test_what_has_no_distribution_ends():
    """Parameters that are no number, or negative, give NaN: a thread must not search for ever."""
    bad = flambeau.tensor([math.nan, -1.0, -2.0, math.inf])
    for name, x in (("poisson", bad), ("_standard_gamma", bad[:3] - 1)):
        assert Lowered(name, (x,), results=[x]).run()[0].isnan().all(), name


def test_uniform_numbers_fill_their_range():
    (x,), _ = drawn("rand", (N,))
    assert 0 <= x.min() < 0.001 and 0.999 < x.max() < 1
    assert abs(((x * 16).long().bincount() - N / 16).abs().max().item()) < 5 * math.sqrt(N / 16)


def test_the_offset_moves_by_what_is_drawn():
    """Elements of one call never repeat in the next one: each thread's count of calls, times four."""
    for size, count in ((1, 4), (1000, 4), (270336, 4), (270337, 4), (1081344, 4), (1081345, 8)):
        plan = Lowered("rand", ((size,),)).plan
        assert [p.count for step in plan.steps for p in step.params if isinstance(p, Seed)] == [count], size


def test_large_draws_continue_thread_by_thread():
    """Beyond 270,336 elements a thread takes four: the first ones are those of a smaller draw."""
    (large,), _ = drawn("rand", (300000,))
    (small,), _ = drawn("rand", (270336,))
    assert flambeau.equal(large[:270336], small)
    assert large.unique().numel() > 290000


def test_whole_numbers():
    (x,), _ = drawn("randint.low", -3, 7, (N,))
    counts = (x + 3).bincount(minlength=10)
    assert counts.numel() == 10 and (counts - N / 10).abs().max().item() < 5 * math.sqrt(N / 10)
    (x,), _ = drawn("randint.high", 2**40, (100,))
    assert x.max() > 2**36 and x.min() >= 0


def test_dropout():
    (x, mask), _ = drawn("dropout_forward", flambeau.ones(N), 0.25)
    assert flambeau.equal(x, mask * (1 / 0.75)) and abs(mask.float().mean().item() - 0.75) < 0.02


def test_multinomial():
    weights = flambeau.tensor([[1.0, 0, 3, 4], [2, 2, 2, 0]])
    (x,), _ = drawn("multinomial", weights, 2000, True)
    for row, w in zip(x, weights, strict=True):
        share = row.bincount(minlength=4) / 2000
        assert flambeau.allclose(share, w / w.sum(), atol=0.06) and not (share[w == 0]).any()
    (x,), _ = drawn("multinomial", weights, 3)
    assert sorted(x[0].tolist()) == [0, 2, 3] and sorted(x[1].tolist()) == [0, 1, 2]


def test_randperm():
    for n in (0, 1, 5, 1000):
        (x,), _ = drawn("randperm", n)
        assert flambeau.equal(x.sort()[0], flambeau.arange(n))
    assert not flambeau.equal(x, flambeau.arange(n))


@pytest.mark.parametrize("dtype", (flambeau.complex64, flambeau.complex128, flambeau.complex32), ids=str)
def test_complex_numbers_are_drawn_part_by_part(dtype):
    """Normal ones share the variance; uniform ones are uniform in both parts; the same numbers as of twice as many."""
    real = {flambeau.complex64: flambeau.float32, flambeau.complex128: flambeau.float64,
            flambeau.complex32: flambeau.float16}[dtype]
    for name, args, std in (("normal_", (0.0, 3.0), 3 * math.sqrt(0.5)), ("uniform_", (-1.0, 1.0), 1 / math.sqrt(3))):
        (x,), _ = drawn(name, flambeau.zeros(N, dtype=dtype), *args)
        parts = flambeau.view_as_real(x).double()
        assert (parts.mean(0).abs() < 5 * std / math.sqrt(N)).all() and (parts.std(0) / std - 1).abs().max() < 0.05
        share = (0.0, 3 * math.sqrt(0.5)) if name == "normal_" else args
        (y,), _ = drawn(name, flambeau.zeros(2 * N, dtype=real), *share)
        assert flambeau.equal(parts.reshape(-1), y.double())
