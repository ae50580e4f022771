"""The op table on a GPU: every sample's results and gradients on the device against the CPU's. Needs a GPU.

`pytest tests/cuda/test_on_gpu.py -n 0` on a machine that has one; elsewhere all of it is skipped with one line.
"""

import pytest

import flambeau

from ..ops import battery
from .fake import numbers
from .kernels.harness import same

if not flambeau.cuda.is_available():
    pytest.skip("no GPU is here", allow_module_level=True)

TOLERANCES = {flambeau.float32: 1e-5, flambeau.complex64: 2e-5, flambeau.bfloat16: 1e-2}
DTYPES = (flambeau.float32, flambeau.bfloat16, flambeau.int64, flambeau.complex64)
NAMES = [n for n in battery.with_samples("device") if not battery.is_random(n) and n not in battery.UNSPECIFIED]


@pytest.fixture(autouse=True)
def exactly():
    """Convolutions and recurrent layers without TF32, which is allowed otherwise."""
    with flambeau.backends.cudnn.flags(enabled=True, fp32_precision="ieee"):
        yield


def on_device(sample, device="cuda"):
    """The sample on the GPU, all that wants a gradient a leaf."""
    def move(t):
        moved = t.detach().to(device)
        return moved.requires_grad_() if t.requires_grad else moved
    return battery.map_tensors(move, sample)


def run(name, sample):
    """(results, gradients of the leaves)."""
    results = numbers.results_of(name, sample)
    losses = [t.abs().sum() if t.is_complex() else t.sum() for t in results if t.requires_grad]
    if losses:
        (sum(losses) if name in numbers.UNIQUE else losses[0]).backward()
    return [t.detach() for t in results], [t.grad for t in numbers.leaves(sample) if t.is_leaf]


def near_of(name, b):
    """Rounding: what is unique of vectors comes by several operators."""
    return None if b is None else 1e-4 if name in numbers.UNIQUE else TOLERANCES.get(b.dtype)


def equal(a, b, near):
    """Whether two results agree: each element, or, of many steps of rounding, in units of the largest one."""
    if a is None or b is None:
        return a is b
    a = a.cpu()
    if a.shape != b.shape or same(a, b):
        return a.shape == b.shape
    return near is not None and bool((a - b).abs().max() <= near * b.abs().max())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name, dtype):
    refused, compared = None, 0
    try:
        samples = numbers.samples_of(name, dtype, dtype.is_floating_point)
    except (*battery.REFUSALS, AssertionError):
        samples = []
    for sample in samples:
        moved, sample = on_device(sample), on_device(sample, "cpu")
        try:
            expected = run(name, sample)
        except (*battery.REFUSALS, AssertionError, ZeroDivisionError):
            continue
        try:
            found = run(name, moved)
        except NotImplementedError as refusal:
            assert "CUDA kernel" in str(refusal)
            refused = refusal
            continue
        for mine, theirs in zip(found, expected, strict=True):
            assert len(mine) == len(theirs)
            assert all(equal(a, b, near_of(name, b)) for a, b in zip(mine, theirs, strict=True)), \
                (name, sample, found, expected)
        compared += 1
    if not compared:
        pytest.skip(str(refused or "no sample of this dtype"))
