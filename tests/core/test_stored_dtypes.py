"""Dtypes that are stored and moved, and computed with in wider ones: 8-bit floats, pairs of halves, float4."""

import base64
import copy
import io
import json
import pickle
import struct
from itertools import pairwise
from pathlib import Path

import pytest

import flambeau

#: float8.json holds PyTorch's: the float32 bits of each of the 256 codes (NaN: all ones), and the codes of `patterns()`
GOLDEN = {name: {what: base64.b85decode(text) for what, text in entry.items()}
          for name, entry in json.loads(Path(__file__).with_name("float8.json").read_text()).items()}
STORED = [*GOLDEN, "complex32", "float4_e2m1fn_x2"]


def values(name):
    bits = struct.unpack("<256I", GOLDEN[name]["values"])
    return [float("nan") if b == 0xffffffff else struct.unpack("<f", struct.pack("<I", b))[0] for b in bits]


def patterns():
    """float32 patterns that decide rounding: every value of any of these dtypes, what lies halfway to the next one,
    both with their neighbours; infinities, NaNs, subnormal and largest numbers; both signs."""
    points = set()
    for name in GOLDEN:
        known = sorted({abs(x) for x in values(name) if x == x and abs(x) != float("inf")})
        for a, b in pairwise([*known, known[-1] * 2]):
            points |= {a, b, (a + b) / 2}
    points = sorted(p for p in points if p < 3.5e38)
    exact = flambeau.tensor(points, dtype=flambeau.float64).float().view(flambeau.int32)
    near = flambeau.cat([exact - 1, exact, exact + 1])
    more = [0x7f800000, 0x7fc00000, 0x7f800001, 0x7fffffff, 1, 2, 0x7fffff, 0x800000, 0x400000, 0x400001, 0x3fffff,
            0x7f7fffff]
    bits = flambeau.cat([near[near >= 0], flambeau.tensor(more, dtype=flambeau.int32)]).unique()
    return flambeau.cat([bits, bits | -2**31]).view(flambeau.float32)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_code_has_pytorchs_value(name):
    codes = flambeau.arange(256).to(flambeau.uint8).view(getattr(flambeau, name))
    for wide in (flambeau.float32, flambeau.float64):
        found, expected = codes.to(wide).tolist(), values(name)
        assert [x for x in found if x == x] == [x for x in expected if x == x]
        assert [x != x for x in found] == [x != x for x in expected]
        signs = [struct.pack("<f", x)[3] >> 7 for x in found if x == 0]
        assert signs == [struct.pack("<f", x)[3] >> 7 for x in expected if x == 0]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_number_gets_pytorchs_code(name):
    """Rounding to even, saturation or NaN of what is too large, NaN, subnormal numbers, signs."""
    assert bytes(patterns().to(getattr(flambeau, name)).view(flambeau.uint8).tolist()) == GOLDEN[name]["codes"]


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("source", [flambeau.float16, flambeau.bfloat16, flambeau.float64, flambeau.int32])
def test_other_dtypes_go_through_float32(name, source):
    kind, x = getattr(flambeau, name), flambeau.linspace(0, 300, 61).to(source)
    assert x.to(kind).view(flambeau.uint8).equal(x.float().to(kind).view(flambeau.uint8))
    flambeau.testing.assert_close(x.to(kind).to(source), x.to(kind).float().to(source), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "expected"), [
    ("float8_e4m3fn", (448.0, -448.0, 0.125, 2.0**-6)), ("float8_e5m2", (57344.0, -57344.0, 0.25, 2.0**-14)),
    ("float8_e4m3fnuz", (240.0, -240.0, 0.125, 2.0**-7)), ("float8_e5m2fnuz", (57344.0, -57344.0, 0.125, 2.0**-15)),
    ("float8_e8m0fnu", (2.0**127, 2.0**-127, 1.0, 2.0**-127)), ("complex32", (65504.0, -65504.0, 2.0**-10, 2.0**-14)),
])
def test_limits(name, expected):
    info = flambeau.finfo(getattr(flambeau, name))
    assert (info.max, info.min, info.eps, info.smallest_normal) == expected


@pytest.mark.parametrize("name", STORED)
def test_moved_copied_saved(name, tmp_path):
    kind = getattr(flambeau, name)
    assert str(kind) == f"torch.{name}" and pickle.loads(pickle.dumps(kind)) is kind
    raw = flambeau.arange(24 * kind.itemsize).to(flambeau.uint8)
    x = raw.view(kind).reshape(4, 6)
    flambeau.save([x, x[1:, ::2]], tmp_path / "a.pt")
    whole, part = flambeau.load(tmp_path / "a.pt")
    for a, b in ((x, whole), (x[1:, ::2], part), (x, copy.deepcopy(x)), (x, pickle.loads(pickle.dumps(x))),
                 (x, x.clone()), (x.t().contiguous().t(), x), (flambeau.cat([x[:2], x[2:]]), x),
                 (flambeau.stack([x, x])[1], x), (x[flambeau.tensor([3, 0])][1], x[0])):
        assert a.dtype is kind and a.shape == b.shape
        assert a.contiguous().view(flambeau.uint8).equal(b.contiguous().view(flambeau.uint8))
    assert flambeau.zeros(3, dtype=kind).view(flambeau.uint8).tolist() == [0] * 3 * kind.itemsize
    assert flambeau.empty(2, dtype=kind, device="meta").dtype is kind


def test_files_of_pytorch():
    """torch.save of complex32 [1+2j, -3j], float8_e4m3fnuz [1, -2], float4 bytes [1, 18]: the names in the file."""
    for name in ("complex32", "float8_e4m3fnuz", "float4_e2m1fn_x2"):
        stream = io.BytesIO()
        flambeau.save(flambeau.zeros(2, dtype=getattr(flambeau, name)), stream)
        text = stream.getvalue()
        assert b"_rebuild_tensor_v3" in text and f"torch\n{name}\n".encode() in text and b"UntypedStorage" in text


def test_float4_is_bytes():
    x = flambeau.tensor([1, 18], dtype=flambeau.uint8).view(flambeau.float4_e2m1fn_x2)
    assert repr(x) == "tensor([ 1., 18.], dtype=torch.float4_e2m1fn_x2)"
    for run in (lambda: x.float(), lambda: x.fill_(1), lambda: x[0].item(), lambda: flambeau.ones(2).to(x.dtype),
                lambda: x + x):
        with pytest.raises(NotImplementedError, match=r"float4|Float4"):
            run()


# --- complex32 --------------------------------------------------------------------------------------------------------

Z = [1 + 2j, 3 - 4j, 0.5j, -2.0]


def test_complex32_parts_and_conversions():
    z = flambeau.tensor(Z, dtype=flambeau.complex32)
    assert z.dtype is flambeau.chalf and z.element_size() == 4 and z.tolist() == [complex(v) for v in Z]
    assert z.real.dtype is flambeau.float16 and z.imag.tolist() == [2.0, -4.0, 0.5, 0.0]
    assert flambeau.view_as_real(z).tolist() == [[complex(v).real, complex(v).imag] for v in Z]
    assert flambeau.view_as_complex(flambeau.ones(2, 2).half()).dtype is flambeau.complex32
    assert flambeau.complex(flambeau.ones(1).half(), flambeau.ones(1).half()).tolist() == [1 + 1j]
    for kind in (flambeau.complex64, flambeau.complex128):
        assert z.to(kind).tolist() == z.tolist() and z.to(kind).to(flambeau.complex32).equal(z)
    assert z.half().tolist() == [1.0, 3.0, 0.0, -2.0] and z.bool().tolist() == [True] * 4 and z.int()[1].item() == 3
    assert flambeau.tensor([2.5]).chalf().tolist() == [2.5] and z.cfloat().chalf().equal(z)
    assert flambeau.tensor([70000.0]).chalf().real.item() == float("inf")
    assert z.conj().tolist() == [complex(v).conjugate() for v in Z]
    assert repr(z[:2]) == "tensor([1.+2.j, 3.-4.j], dtype=torch.complex32)"
    with pytest.raises(RuntimeError, match="range of complex32"):
        flambeau.full((1,), 1e6, dtype=flambeau.complex32)


@pytest.mark.parametrize("run", [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x + 1,
    lambda x, y: x * 2.5, lambda x, y: x * (1 + 1j), lambda x, y: -x, lambda x, y: x.abs(), lambda x, y: x.sgn(),
    lambda x, y: x == y, lambda x, y: x != y, lambda x, y: x.addcmul(x, y), lambda x, y: x.exp(),
    lambda x, y: flambeau.where(x == y, x, y), lambda x, y: x.clone().add_(y), lambda x, y: x.sqrt(),
    lambda x, y: flambeau.isclose(x, y), lambda x, y: x.masked_fill(x == y, 0),
])
def test_complex32_is_computed_in_complex64(run):
    x, y = (flambeau.tensor(v, dtype=flambeau.complex32) for v in (Z, [2.0, 1j, 0.5j, 1 - 1j]))
    found, wide = run(x, y), run(x.cfloat(), y.cfloat())
    narrow = {flambeau.complex64: flambeau.complex32, flambeau.float32: flambeau.float16}.get(wide.dtype, wide.dtype)
    assert found.dtype is narrow and found.equal(wide.to(narrow))


def test_complex32_promotion():
    c = flambeau.complex32
    for other, result in ((flambeau.float16, c), (flambeau.bfloat16, flambeau.complex64), (flambeau.int64, c),
                          (flambeau.float32, flambeau.complex64), (flambeau.float64, flambeau.complex128),
                          (flambeau.complex64, flambeau.complex64), (flambeau.complex128, flambeau.complex128),
                          (flambeau.bool, c)):
        assert flambeau.promote_types(c, other) is result and flambeau.promote_types(other, c) is result
    assert (flambeau.ones(2).half() * 1j).dtype is c and (flambeau.ones(2).bfloat16() * 1j).dtype is flambeau.complex64
    assert c.to_real() is flambeau.float16 and flambeau.float16.to_complex() is c
    assert flambeau.bfloat16.to_complex() is flambeau.complex64


def test_complex32_gradients():
    z = flambeau.tensor(Z, dtype=flambeau.complex32, requires_grad=True)
    (z * 2).abs().backward(flambeau.ones(4).half())
    wide = flambeau.tensor(Z, requires_grad=True)
    (wide * 2).abs().sum().backward()
    assert z.grad.dtype is flambeau.complex32
    assert (z.grad.cfloat() - wide.grad).abs().max().item() < 2e-3


@pytest.mark.parametrize("run", [lambda z: z.sum(), lambda z: z @ z, lambda z: z.cumsum(0), lambda z: z.prod(),
                                 lambda z: flambeau.fft.fft(z)])
def test_what_complex32_has_no_kernel_for(run):
    """As in PyTorch on a CPU."""
    with pytest.raises((NotImplementedError, RuntimeError), match="complex32"):
        run(flambeau.tensor(Z, dtype=flambeau.complex32))
