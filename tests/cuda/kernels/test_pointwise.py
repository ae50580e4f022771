"""Every pointwise operator's formula, compiled for the CPU from the CUDA text, against the CPU's own operator."""

import ctypes
import math

import pytest

import flambeau
from flambeau.cuda.kernels import lower, pointwise
from flambeau.ops.kinds import FACTS, FORMULAS, OPS

from ...ops import battery
from .. import emulate
from .harness import Batch, Call, Operand, PointwiseCall, geometry, number, same

NAMES = [n for n, fact in FACTS.items() if fact[0] == "elementwise"]
DTYPES = (flambeau.float32, flambeau.int64, flambeau.bfloat16, flambeau.complex64)
MORE = (flambeau.float64, flambeau.float16, flambeau.complex128, flambeau.bool, flambeau.uint8, flambeau.int8,
        flambeau.int16, flambeau.int32)
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, 1e-30, 1e30, -2.5, 7.5, 88.0)
#: at an infinity the CPU's exponential stops above zero and gives a limit, where formulas give 0 times infinity
LIMITS = ("mish", "gelu", "gelu_backward")


def calls_of(dtype):
    """The operators' samples as calls; what the CPU refuses is not asked of a kernel either."""
    for name in NAMES:
        try:
            samples = battery.samples(name, dtype)
        except battery.REFUSALS:
            continue
        for sample in samples:
            try:
                call = PointwiseCall(name, sample.args, sample.kwargs)
            except (*battery.REFUSALS, ZeroDivisionError):
                continue
            yield call


def is_flat(call):
    return all(v.is_contiguous() and v.shape == call.result.shape for v in call.tensors)


def check(*groups):
    """Runs groups (calls, form, and what else a signature says) from one image, against what the CPU computed."""
    batch, runs, wrong = Batch(), [], []
    for calls, form, index, aligned in groups:
        runs += [(call, form, batch.add(call.signature(form, index, aligned))) for call in calls]
    image = batch.image()
    for call, form, (function, vector) in runs:
        out = call.launch(image, function, vector, form, flambeau.empty_like(call.result))
        if not same(out, call.result):
            wrong.append((call.name, form, call.values, out, call.result))
    assert not wrong, wrong


def test_every_pointwise_record_has_a_formula():
    assert set(NAMES) == set(FORMULAS)


@pytest.mark.parametrize("dtype", [*DTYPES, *(pytest.param(d, marks=pytest.mark.exhaustive) for d in MORE)], ids=str)
def test_strided_kernels_compute_what_the_cpu_does(dtype):
    calls = list(calls_of(dtype))
    assert len({c.name for c in calls}) > 50
    check((calls, "strided", 32, False))


@pytest.mark.parametrize("dtype", [flambeau.float32, *(pytest.param(d, marks=pytest.mark.exhaustive)
                                                       for d in (*DTYPES[1:], *MORE))], ids=str)
def test_flat_kernels_compute_what_the_cpu_does(dtype):
    """Whole vectors; single elements, the form for other addresses, are test_odd_sizes_and_tails'."""
    check(([call for call in calls_of(dtype) if is_flat(call)], "flat", 32, True))


@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.float64), ids=str)
def test_special_values(dtype):
    """NaN, infinities, signed zeros and large numbers in every operand."""
    column, row = flambeau.tensor(SPECIAL, dtype=dtype), flambeau.tensor(SPECIAL, dtype=dtype)[:, None]
    calls = []
    for name in NAMES:
        skip = battery.skip_reason(name, "special_values")
        operands = sum(kind.startswith("Tensor") for _, kind in battery.parameters(name))
        if skip or operands > 2 or "polynomial" in name or name in ("_standard_gamma_grad", "_bce", *LIMITS):
            continue
        try:
            calls.append(PointwiseCall(name, (column, row)[:operands], {}))
        except (*battery.REFUSALS, ZeroDivisionError):
            continue
    assert len(calls) > 70
    check((calls, "strided", 32, False))


def test_odd_sizes_and_tails():
    calls = []
    for n in (0, 1, 3, 4, 5, 255, 256, 1023, 1024, 1025, 4099):
        x, y = flambeau.randn(n), flambeau.randn(n)
        for args in ((x, y), (x.half(), y.half()), (x.half(), y), (x.byte(), y.byte())):
            calls += [PointwiseCall("add", args, {}), PointwiseCall("lt", args, {})]
    check((calls, "flat", 32, True), (calls, "flat", 64, True), (calls, "flat", 32, False),
          (calls, "strided", 64, False))


def test_layouts():
    base = flambeau.randn(7, 8, 9)
    views = (base, base.transpose(0, 2).contiguous().transpose(0, 2), base.flip(1), base[:, :1], base[:1, :, :1],
             flambeau.randn(9), base.expand(7, 8, 9), flambeau.randn(14, 16, 18)[::2, ::2, ::2])
    check(([PointwiseCall("sub", (a, b), {"alpha": 3}) for a in views for b in views], "strided", 32, False))


def test_results_of_another_dtype():
    """out= may be wider than the result; mixed operands are promoted."""
    x, y = flambeau.arange(-6, 6).to(flambeau.int8), flambeau.randn(12).half()
    check(([PointwiseCall("mul", (x, y), {}), PointwiseCall("mul", (x, x), {"out": flambeau.empty(12)}),
           PointwiseCall("gt", (x, y), {"out": flambeau.empty(12)}),
           PointwiseCall("add", (x, flambeau.tensor(200)), {"out": flambeau.empty(12, dtype=flambeau.int64)})],
           "strided", 32, False))


def test_a_whole_division_by_zero_is_answered():
    """The CPU raises; a GPU has no way to, and must not trap."""
    x, zero = flambeau.tensor([7, -7]), flambeau.tensor([1, 1])
    for name, wanted in (("floor_divide", [-1, -1]), ("remainder", [7, -7]), ("fmod", [7, -7])):
        call = PointwiseCall(name, (x, zero), {})
        call.values[1] = flambeau.tensor([0, 0])
        batch = Batch()
        function, vector = batch.add(call.signature("flat", 32, False))
        out = call.launch(batch.image(), function, vector, "flat", flambeau.empty_like(x))
        assert out.tolist() == wanted


def test_offsets_beyond_32_bits():
    """The 64-bit kernel's arithmetic: a tensor whose elements lie 2**31 elements apart, in reserved address space."""
    import mmap
    step = 2**31 + 3
    room = mmap.mmap(-1, 2 * step + 2, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    far = flambeau.frombuffer(room, dtype=flambeau.uint8).as_strided((3,), (step,))
    far.copy_(flambeau.tensor([5, 6, 7], dtype=flambeau.uint8))
    check(([PointwiseCall("neg", (far,), {})], "strided", 64, False))


def test_what_has_no_kernel_says_so():
    x = flambeau.zeros(2)
    call = PointwiseCall("add", (x, x), {}).signature("flat", 32, True)
    with pytest.raises(NotImplementedError, match="add has no CUDA kernel yet for dtype float4_e2m1fn_x2"):
        lower(call._replace(compute="float4_e2m1fn_x2"))
    with pytest.raises(NotImplementedError, match="svd has no CUDA kernel yet"):
        lower(call._replace(name="svd"))


@pytest.mark.parametrize("source", ("float32", "float16", "bool", "int64", "complex64", "bfloat16"))
def test_copies_between_dtypes_and_layouts(source):
    """`copy` converts as Tensor.to does; `fill` writes one number."""
    x = (flambeau.randn(5, 7, dtype=flambeau.float64) * 3).to(getattr(flambeau, source)).t()
    batch, runs = Batch(), []
    for result in pointwise.TYPES:
        call = Call("copy", "strided", (Operand("tensor", source, source),), source, result, (), 32, False)
        runs.append((batch.add(call), x, flambeau.empty(7, 5, dtype=getattr(flambeau, result))))
    image = batch.image()
    for (function, _), x, out in runs:
        params = [ctypes.c_void_p(out.data_ptr()), ctypes.c_void_p(x.data_ptr()), geometry([out, x]),
                  ctypes.c_int64(35)]
        emulate.launch(image, function, (1, 1, 1), (pointwise.THREADS, 1, 1), params)
        wanted = x.to(out.dtype)
        if str(out.dtype).startswith("torch.float8"):
            out, wanted = out.float(), wanted.float()
        if out.dtype.is_signed or source not in ("float32", "float16", "bfloat16", "complex64"):  # else out of range
            assert same(out, wanted), (source, out, wanted)


def test_fill():
    calls = {d: Call("fill", "flat", (Operand("number", d, d),), d, d, (), 32, True) for d in pointwise.TYPES}
    batch = Batch()
    kernels = {d: batch.add(call) for d, call in calls.items()}
    image = batch.image()
    for d, (function, _) in kernels.items():
        out = flambeau.zeros(21, dtype=getattr(flambeau, d))
        params = [ctypes.c_void_p(out.data_ptr()), ctypes.c_int64(21), number(3, d)]
        emulate.launch(image, function, (2, 1, 1), (pointwise.THREADS, 1, 1), params)
        assert same(out, flambeau.full((21,), 3, dtype=out.dtype)), d


def test_names_of_arguments():
    assert pointwise.names_of("nan_to_num") == ["self", "nan", "posinf", "neginf"]
    for name in NAMES:
        assert pointwise.names_of(name) == [p for p, _ in battery.parameters(name)], OPS[name]
