"""Every rule that lowers an operator: its plan, run on the CPU, against the CPU's own operator.

The calls are those that the op table's samples and their backward passes make, as they reach a device.
"""

import math
import warnings
from functools import cache

import pytest

import flambeau
from flambeau.cuda.kernels import random
from flambeau.cuda.kernels.lowering import RULES
from flambeau.ops.kinds import OPS

from ...ops import battery
from .harness import same, short
from .programs import PROGRAMS
from .rows import Capture, Lowered

FLOATS = (flambeau.float32, flambeau.bfloat16, flambeau.float64, flambeau.float16)
WHOLE = (flambeau.int64, flambeau.uint8, flambeau.bool)
#: rules whose numbers are drawn: test_random.py
NAMES = sorted(set(RULES) - set(random.RULES))


def backward_of(result):
    loss = next((t for t in battery.tensors(result) if t.requires_grad), None)
    if loss is not None:
        loss.sum().backward()


def _run(name, sample):
    try:
        backward_of(battery.run(name, sample))
    except (*battery.REFUSALS, AssertionError):
        pass  # what the CPU refuses is not asked of a GPU


@cache
def captured(dtype):
    """{operator: its calls}, no two alike in dtypes, ranks and other arguments."""
    calls, seen = {}, set()
    capture = Capture(set(NAMES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in battery.NAMES:
            try:
                samples = battery.samples(name, dtype, requires_grad=dtype.is_floating_point)
            except battery.REFUSALS:
                continue
            for sample in samples:
                with capture:
                    _run(name, sample)
        for program in PROGRAMS.values() if dtype == flambeau.float32 else ():
            with capture:
                backward_of(program())
    for call in capture.calls:
        key = call[0], *((short(a.dtype), a.ndim) if isinstance(a, flambeau.Tensor) else str(a)[:20] for a in call[1])
        if key not in seen:
            seen.add(key)
            calls.setdefault(call[0], []).append(call)
    return calls


def check(call):
    """Whether the plan gives what the CPU gave, in results and in arguments that are written."""
    name, args, kwargs, after, result = call
    expected = [result] if isinstance(result, flambeau.Tensor) else list(result)
    lowered = Lowered(name, args, kwargs, results=expected)
    if any(not same(a, b) for a, b in zip(lowered.run(), expected, strict=True)):
        return False
    return all(same(a, b) for a, b in zip(args, after, strict=True) if isinstance(a, flambeau.Tensor))


def check_all(calls):
    wrong = []
    for call in calls:
        try:
            if not check(call):
                wrong.append(call)
        except NotImplementedError as refusal:
            assert "has no CUDA kernel yet" in str(refusal)
    assert not wrong, wrong


def own(name, *args):
    """A call that no sample makes."""
    return [(name, args, {}, args, OPS[name](*args))]


def _scaled():
    """A product of 8-bit floats."""
    a, b = (flambeau.randn(16, 32).to(flambeau.float8_e4m3fn) for _ in range(2))
    return own("_scaled_mm", a, b.t(), flambeau.tensor(0.5), flambeau.tensor(2.0), None, None, flambeau.float32, False)


OWN = {
    "csr_max": lambda: own("csr_max", flambeau.tensor([0, 2, 2, 5]), flambeau.tensor([1, 3, 0, 1, 3]),
                           flambeau.randn(4, 6)),
    "csr_transpose": lambda: own("csr_transpose", flambeau.tensor([0, 2, 2, 5]), flambeau.tensor([1, 3, 0, 1, 3]), 5),
    "dropout_scale": lambda: own("dropout_scale", flambeau.randn(5, 6), flambeau.randn(5, 6) > 0, 0.25),
    "_linear_tail": lambda: own("_linear_tail", flambeau.randn(3, 5), flambeau.randn(4, 5), flambeau.randn(4), None,
                                "relu", False),
    "_scaled_mm": _scaled,
    "_layer_norm_to": lambda: own("_layer_norm_to", flambeau.randn(5, 48), (48,), flambeau.rand(48), None, 1e-5,
                                  flambeau.bfloat16),
    "_grouped_mm": lambda: own("_grouped_mm", flambeau.randn(70, 9), flambeau.randn(3, 9, 5),
                               flambeau.tensor([2, 2, 68], dtype=flambeau.int32), None, None),
    "_int_mm": lambda: own("_int_mm", flambeau.randint(-9, 9, (5, 7)).to(flambeau.int8),
                           flambeau.randint(-9, 9, (7, 3)).to(flambeau.int8)),
    "index_fill_tensor": lambda: own("index_fill_tensor", flambeau.randn(4, 5), 1, flambeau.tensor([3, 0]),
                                     flambeau.tensor(7.0)),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_computes_what_the_cpu_does(name):
    calls = captured(flambeau.float32).get(name) or captured(flambeau.int64).get(name) or OWN[name]()
    largest = max(calls, key=lambda call: sum(a.numel() for a in call[1] if isinstance(a, flambeau.Tensor)))
    check_all([largest])


@pytest.mark.parametrize("centred", (False, True))
@pytest.mark.parametrize("rows", (0, 7))
def test_the_gradient_of_a_norm_s_input_alone(rows, centred):
    """The sums for the parameters are left at zero."""
    g, x, w = flambeau.randn(rows, 33), flambeau.randn(rows, 33), flambeau.rand(33)
    check_all(own("_layer_norm_backward", g, x, (33,), w, 1e-5, centred, False))


@pytest.mark.parametrize("rows, n, dtype", ((31, 5, flambeau.float32), (670, 264, flambeau.bfloat16),
                                            (335, 33, flambeau.float64), (150, 2056, flambeau.float32)))
def test_the_gradients_of_a_norm_s_weights_over_many_rows(rows, n, dtype):
    """Several blocks, each of which sums over some of the rows, or one more."""
    g, x, w = (flambeau.randn(shape).to(dtype) for shape in ((rows, n), (rows, n), (n,)))
    near = {flambeau.float64: 1e-12, flambeau.float32: 1e-5, flambeau.bfloat16: 1e-2}[dtype]
    for weight, centred in ((w, True), (None, False)):
        lowered = Lowered("_layer_norm_backward", (g, x + 3, (n,), weight, 1e-5, centred, True))
        for found, expected in zip(lowered.run(), lowered.expected, strict=True):
            assert flambeau.allclose(found, expected, rtol=near, atol=near * float(expected.abs().max()))


def rows_and_back(n, dtype):
    """Everything that goes through rows of n elements, there and back."""
    x, w, b = (flambeau.randn(shape, dtype=dtype, requires_grad=True) for shape in ((3, n), (n,), (n,)))
    labels, g = flambeau.tensor([0, n - 1, n // 2]), flambeau.randn(3, n, dtype=dtype)
    F = flambeau.nn.functional
    for y in (F.softmax(x, 1), F.log_softmax(x, 1), F.layer_norm(x, (n,), w, b), F.rms_norm(x, (n,), w)):
        (y * g).sum().backward()
    for smoothing in (0.0, 0.1):
        F.cross_entropy(x, labels, label_smoothing=smoothing).backward()
    if n % 4 == 0:
        F.group_norm(x.view(3, 4, -1), 2, w[:4], b[:4]).sum().backward()


@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.float64), ids=str)
@pytest.mark.parametrize("n", (5, 31, 260, 1030, 4096, 8196, 20001, 40000))
def test_rows_of_any_length(n, dtype):
    """In registers or not, with one, two, four or eight elements read at once."""
    with Capture({name for name in NAMES if any(part in name for part in ("softmax", "norm", "entropy"))}) as capture:
        rows_and_back(n, dtype)
    assert len({call[0] for call in capture.calls}) >= 8 and all(map(check, capture.calls))


def test_gradients_of_halves_come_to_a_norm_of_float32():
    g, x, w = flambeau.randn(7, 40).bfloat16(), flambeau.randn(7, 40), flambeau.rand(40)
    assert check(own("_layer_norm_backward", g, x, (40,), w, 1e-5, True, True)[0])


@pytest.mark.parametrize("training", (True, False))
@pytest.mark.parametrize("last", (True, False))
@pytest.mark.parametrize("shape", ((5, 8), (6, 6, 4, 4), (70, 16, 7, 7), (3, 129, 5), (2, 40, 30, 40),
                                   (9, 24, 4, 4, 4)), ids=str)
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16), ids=str)
def test_batch_norm_in_both_orders(dtype, shape, last, training):
    """Channels last and in planes, in one block for each channel or several, statistics far from 0."""
    x = flambeau.randn(shape) + 10
    if last and len(shape) > 2:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    x, channels = x.to(dtype).requires_grad_(), shape[1]
    weight, bias = (flambeau.randn(channels, requires_grad=True) for _ in range(2))
    mean, var = flambeau.randn(channels), flambeau.rand(channels) + 1
    with Capture({"native_batch_norm", "_batch_norm_backward"}) as capture:
        y = flambeau.nn.functional.batch_norm(x, mean, var, weight, bias, training, 0.2)
        (y * flambeau.randn(shape).to(dtype)).sum().backward()
    assert len(capture.calls) == 2
    near = 1e-2 if dtype == flambeau.bfloat16 else 2e-6
    for name, args, kwargs, after, result in capture.calls:
        expected = [result] if isinstance(result, flambeau.Tensor) else list(result)
        for a, b in zip(Lowered(name, args, kwargs, results=expected).run(), expected, strict=True):
            assert not b.numel() or (a - b).abs().max() <= near * max(1, b.abs().max())
        assert all(same(a, b) for a, b in zip(args, after, strict=True) if isinstance(a, flambeau.Tensor))


@pytest.mark.parametrize("size", ((5, 4), (13, 30), (9, 11)), ids=str)
@pytest.mark.parametrize("antialias", (False, True))
@pytest.mark.parametrize("mode", ("bilinear", "bicubic", "lanczos"))
def test_bytes_are_resized_to_the_cpu_s_bytes(mode, antialias, size):
    """Smaller, larger, and as they are; edges, where taps are cut off, are part of it."""
    if mode == "lanczos" and not antialias:
        return
    image = flambeau.randint(0, 256, (2, 3, 9, 11), dtype=flambeau.uint8)
    with Capture({"interpolate"}) as capture:
        for corners in (False,) if antialias else (False, True):
            flambeau.nn.functional.interpolate(image, size, mode=mode, antialias=antialias, align_corners=corners)
    assert capture.calls
    check_all(capture.calls)
    Lowered(*capture.calls[0][:3])  # it is not refused


@pytest.mark.parametrize("dtype", (flambeau.int16, flambeau.int64, flambeau.uint8, flambeau.float8_e4m3fn), ids=str)
def test_whole_numbers_are_resized_and_rounded(dtype):
    """A sum that ends between two whole numbers may be rounded either way: the order of its terms is another."""
    for shape, mode in (((2, 3, 9), "linear"), ((2, 3, 9, 8), "bicubic"), ((1, 2, 4, 5, 6), "trilinear")):
        x = flambeau.randint(0, 100, shape).to(dtype)
        with Capture({"interpolate"}) as capture:
            flambeau.nn.functional.interpolate(x, scale_factor=1.7, mode=mode)
        (name, args, kwargs, _, result), = capture.calls
        (out,) = Lowered(name, args, kwargs, results=[result]).run()
        apart = (out.double() - result.double()).abs()
        assert apart.max() <= (1 if dtype != flambeau.float8_e4m3fn else 8) and (apart != 0).sum() <= out.numel() / 100


@pytest.mark.parametrize("dtype", (flambeau.complex64, flambeau.complex128), ids=str)
def test_logarithms_of_complex_sums(dtype):
    """Large and infinite parts, over rows and columns; along rows a running sum may be whole turns away."""
    x = 30 * flambeau.randn(5, 300, dtype=dtype)
    x[0, 3] = complex(math.inf, 1)
    x[1] = complex(-math.inf, 1)
    x[2, 200] = complex(math.nan, 1)
    for dim in (0, 1):
        wanted = x.logsumexp(dim)
        assert same(Lowered("logsumexp", (x, [dim])).run()[0], wanted)
        wanted, (out,) = x.logcumsumexp(dim), Lowered("logcumsumexp", (x, dim)).run()
        assert (wanted.isnan() == out.isnan()).all()
        own = ~wanted.isnan() & (wanted.real.abs() < math.inf)
        assert same(wanted.real[own], out.real[own]) and own.sum() > 700
        turns = (wanted.imag[own] - out.imag[own]).double() / (2 * math.pi)
        assert (turns - turns.round()).abs().max() < 1e-4 and (dim == 1 or turns.abs().max() < 0.5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", (*FLOATS, *WHOLE, flambeau.complex64), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_call_of_the_samples(name, dtype):
    check_all(captured(dtype).get(name, []))
