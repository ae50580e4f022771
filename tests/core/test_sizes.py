"""Arithmetic on sizes: what no int64 holds is an error, never a small number."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F

HUGE = 2**62


def expanded(*shape):
    return fb.ones([1] * len(shape)).expand(*shape)


CASES = {
    "cat": lambda: fb.cat([expanded(HUGE)] * 4),
    "cat of three": lambda: fb.cat([expanded(HUGE)] * 3),
    "stack": lambda: fb.stack([expanded(HUGE)] * 4),
    "repeat": lambda: expanded(HUGE).repeat(4),
    "repeat of new dimensions": lambda: fb.ones(1).repeat(HUGE, 4),
    "tile": lambda: fb.tile(expanded(HUGE), (4,)),
    "Size.numel": lambda: fb.Size([HUGE, 4]).numel(),
    "expand": lambda: fb.ones(1).expand(HUGE, 4),
    "empty": lambda: fb.empty(HUGE, 4, device="meta"),
    "empty of bytes": lambda: fb.empty(HUGE, dtype=fb.float64, device="meta"),
    "empty_strided": lambda: fb.empty_strided((3,), (HUGE,), device="meta"),
    "kron": lambda: fb.kron(expanded(HUGE), fb.ones(4)),
    "outer": lambda: fb.outer(expanded(2**40), expanded(2**40)),
    "meshgrid": lambda: fb.meshgrid(expanded(2**40), expanded(2**40), indexing="ij"),
    "cartesian_prod": lambda: fb.cartesian_prod(expanded(2**40), expanded(2**40)),
    "matmul": lambda: expanded(2**40, 1) @ expanded(1, 2**40),
    "dot": lambda: fb.dot(expanded(HUGE), expanded(HUGE).flip(0)),
    "cdist": lambda: fb.cdist(expanded(2**40, 1), expanded(2**40, 1)),
    "pdist": lambda: F.pdist(expanded(2**33, 1)),
    "eigvals": lambda: fb.linalg.eigvals(expanded(2**32, 2**32)),
    "det": lambda: fb.linalg.det(expanded(2**32, 2**32)),
    "half product": lambda: expanded(2**32, 2**32).to(fb.bfloat16),
    "pad": lambda: F.pad(fb.ones(4), (HUGE, HUGE)),
    "pad of the border": lambda: F.pad(fb.ones(1, 1, 4), (HUGE, HUGE), mode="replicate"),
    "unfold": lambda: F.unfold(fb.ones(1, 1, 4, 4), 2**31, padding=2**31),
    "convolution": lambda: F.conv1d(fb.ones(1, 1, 4), fb.ones(1, 1, 1), padding=HUGE),
    "transposed convolution": lambda: F.conv_transpose1d(fb.ones(1, 1, 4), fb.ones(1, 1, 1), stride=HUGE),
    "repeat_interleave": lambda: fb.repeat_interleave(fb.ones(4), fb.full((4,), HUGE)),
    "block_diag": lambda: fb.block_diag(expanded(2**40, 2**40), expanded(2**40, 2**40)),
    "as_strided": lambda: fb.ones(4).as_strided((3,), (HUGE,)),
    "new_empty": lambda: fb.ones(1).new_empty((HUGE, 4)),
    "resize_": lambda: fb.ones(1).resize_(HUGE, 4),
    "one_hot": lambda: F.one_hot(fb.zeros(1, dtype=fb.int64).expand(2**40), 2**40),
    "tril_indices": lambda: fb.tril_indices(3, 4, -2**63),
    "triu_indices": lambda: fb.triu_indices(3, 4, -2**63),
    "linspace": lambda: fb.linspace(0, 1, HUGE),
    "eye": lambda: fb.eye(HUGE, 4),
    "upsampling": lambda: F.interpolate(fb.ones(1, 1, 2), size=HUGE),
    "adaptive pooling": lambda: F.adaptive_avg_pool2d(fb.ones(1, 1, 2, 2), 2**40),
    "pixel_shuffle": lambda: F.pixel_shuffle(expanded(1, 1, 2**33, 2**33), 2**33),
    "nbytes": lambda: expanded(HUGE).nbytes,
    "a buffer": lambda: memoryview(expanded(HUGE)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_size_that_overflows_is_an_error(name):
    with pytest.raises((RuntimeError, ValueError, TypeError, MemoryError, OverflowError, IndexError, BufferError,
                        fb.OutOfMemoryError)):
        CASES[name]()


def test_an_overflow_names_the_operator_and_the_sizes():
    with pytest.raises(RuntimeError, match=rf"cat: {HUGE} \+ {HUGE} is more than an int64 holds"):
        fb.cat([expanded(HUGE)] * 2)
    with pytest.raises(RuntimeError, match=rf"Size.numel: {HUGE} \* 4 is more than an int64 holds"):
        fb.Size([HUGE, 4]).numel()


def test_a_size_of_zero_makes_any_others_harmless():
    assert fb.Size([HUGE, 4, 0]).numel() == 0
    assert fb.empty(0, 2**40, 2**40).numel() == 0
    assert fb.cat([fb.empty(0, 2**40, 2**40)] * 3).shape == (0, 2**40, 2**40)


def test_pooling_does_not_visit_padding():
    """Windows of 2^30 places over 9: any loop over the places would take seconds for each output."""
    x = fb.rand(1, 1, 9, 9)
    for size in (1, 2**10, 2**20, 2**29):
        pooled = F.max_pool2d(x, 2**30, stride=size, padding=2**29)
        assert pooled.max() == x.max()
    pooled = F.max_pool1d(x[0], 2**30, stride=2**26, padding=2**29)
    assert pooled.shape[-1] > 8 or pooled.max() == x.max()
    assert F.avg_pool1d(fb.ones(1, 1, 64), 2**30, stride=1, padding=2**29, count_include_pad=False).eq(1).all()


def test_strides_of_nothing_may_be_any_numbers():
    huge = fb.empty(0, 3).as_strided((0, 3), (HUGE, 2**63 - 1))
    assert fb.empty(0, 3).copy_(huge).shape == huge.clone().shape == (0, 3)


def test_the_step_of_a_single_window_may_be_any_number():
    assert fb.unfold_copy(fb.ones(3, 1, 4), -1, 2, 2**62).shape == (3, 1, 1, 2)
