"""The forms of pointwise kernels: which one layouts ask for, and that each computes what the CPU does."""

import ctypes
import itertools

import pytest

import flambeau
from flambeau.cuda.kernels import arranging, pointwise

from .. import emulate
from .fences import Fences
from .harness import Batch, PointwiseCall, number, same, walk

DTYPES = (flambeau.bool, flambeau.int16, flambeau.float32, flambeau.int64, flambeau.complex128)


def filled(shape, dtype, shift=0):
    """Numbers at a distance from the beginning of their memory."""
    shape = tuple(shape)
    x = flambeau.arange(shift + flambeau.empty(shape).numel()).remainder(11).sub(4).to(dtype)
    return x[shift:].view(shape)


class Form(PointwiseCall):
    """A call as it is arranged for `out`, then launched into it."""

    def __init__(self, name, args, kwargs=None, out=None):
        super().__init__(name, args, kwargs or {})
        self.out = flambeau.empty_like(self.result) if out is None else out
        self.given = [self.out, *(v.expand(self.out.shape) for v in self.values[:self.operands]
                                  if isinstance(v, flambeau.Tensor))]
        self.arranged = arranging.arrange(self.out.shape, [t.stride() for t in self.given],
                                          [t.element_size() for t in self.given], [t.data_ptr() for t in self.given])

    def add_to(self, batch, index=None):
        signature = self.signature(self.arranged.form, index or self.arranged.index, False)
        kinds = iter(self.arranged.kinds)
        operands = tuple(o._replace(kind=next(kinds)) if o.kind == "tensor" else o for o in signature.operands)
        self.kernel = batch.add(signature._replace(operands=operands, vector=self.arranged.vector))
        return self

    def launched(self, image, address=flambeau.Tensor.data_ptr):
        function, vector = self.kernel
        made = self.arranged
        params = [ctypes.c_void_p(address(t)) for t in self.given]
        if made.form != "flat":
            params.append(walk(made.sizes, made.strides))
        params.append(ctypes.c_int64(self.out.numel()))
        for operand, v in zip(self.signature(made.form, 32, False).operands, self.values, strict=False):
            if operand.kind == "number":
                params.append(number(v, operand.loop_dtype))
        params += [number(v, "int64") for v in self.values[self.operands:] if type(v) is int]
        blocks = made.blocks(vector, pointwise.THREADS)
        emulate.launch(image, function, (blocks, 1, 1), (pointwise.THREADS, 1, 1), params)
        return self.out


def check(forms, index=None, fenced=()):
    """Runs all from one image; `fenced`: between closed pages, too."""
    batch = Batch()
    forms = [f.add_to(batch, index) for f in forms]
    image = batch.image()
    wrong = [(f.name, f.arranged, f.values) for f in forms if not same(f.launched(image), f.result)]
    for at_end in fenced:
        for f in forms:
            ctypes.memset(f.out.data_ptr(), 77, f.out.untyped_storage().nbytes())
            with Fences(at_end) as places:
                f.launched(image, places.tensor)
            if not same(f.out, f.result):
                wrong.append((f.name, f.arranged, f.values))
    assert not wrong, wrong[:3]
    return {f.arranged.form for f in forms}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_packs_of_any_width(dtype):
    """Rows and columns that repeat; steps and addresses that allow fewer neighbours; results of a byte."""
    forms, widths = [], set()
    for n in (2, 4, 6, 8, 16, 24, 31, 32, 33, 48, 64, 65):
        for rows, shift in itertools.product((1, 5), (0, 1, 2, 4, 8)):
            x = filled((rows, 2 * n), dtype, shift)[:, :n]
            row, column = filled((n,), dtype, shift), filled((rows, 1), dtype)
            for other in (row, column, x):
                forms += [Form("mul", (x, other)), Form("eq", (x, other))]
            forms.append(Form("add", (x, 3)))
    widths = {f.arranged.vector for f in forms}
    check(forms)
    item = dtype.itemsize
    assert widths >= {v for v in (2, 4, 8, 16) if v * item <= 16}


def test_packs_of_operands_of_several_dtypes():
    """The largest decides; one that repeats does not count."""
    x, wide = filled((6, 32), flambeau.float16), filled((32,), flambeau.float32)
    column = filled((6, 1), flambeau.float64)
    forms = [Form("add", (x, wide)), Form("lt", (x, column)), Form("where", (x > 0, x, x[0])), Form("mul", (x, x[0])),
             Form("where", (x > 0, 1.5, x[0])), Form("mul", (filled((6, 32), flambeau.uint8), x[0]))]
    assert [f.arranged.vector for f in forms] == [4, 8, 8, 8, 8, 8]
    assert check(forms) == {"packed"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tiles(dtype):
    """Sizes around the edges of tiles, more dimensions outside, operands that repeat or lie in either order."""
    forms = []
    for rows, columns in itertools.product((32, 33, 63, 64, 65, 130), (32, 65)):
        x, y = filled((rows, columns), dtype), filled((columns, rows), dtype, 1).t()
        forms += [Form("mul", (x, y)), Form("mul", (y, x)), Form("eq", (x, y)), Form("eq", (y, x[:, :1]))]
        forms += [Form("add", (x, y), out=flambeau.empty_like(x))]
    n, c, h, w = 3, 33, 5, 8
    images = filled((n, c, h, w), dtype)
    last = filled((n, h, w, c), dtype).permute(0, 3, 1, 2)
    forms += [Form("mul", (images, last)), Form("mul", (last, images)), Form("eq", (last, images[:, :, :1, :1]))]
    spread = filled((2, 40, 36), dtype)
    forms.append(Form("mul", (spread.permute(2, 0, 1).contiguous().permute(1, 2, 0), spread)))
    forms.append(Form("mul", (filled((40, 80), dtype)[:, ::2], filled((40, 40), dtype).t()),
                      out=flambeau.empty((40, 40), dtype=dtype)))
    assert "tiled" in check(forms, fenced=(True, False))


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.int16, flambeau.uint8], ids=str)
def test_tiles_of_pairs(dtype):
    """Elements of two bytes at most, two at a time where sizes, strides and addresses are even."""
    pairs, single = [], []
    for rows, columns in itertools.product((32, 34, 64, 66, 130), (32, 66)):
        x, y = filled((rows, columns), dtype), filled((columns, rows), dtype, 2).t()
        pairs += [Form("mul", (x, y)), Form("mul", (y, x)), Form("eq", (x, y)), Form("eq", (y, x[:, :1])),
                  Form("where", (y > 0, x, y[:1])), Form("mul", (y, filled((columns, rows), dtype).t()), out=x.clone())]
        odd = filled((columns, rows), dtype, 1).t()
        wide = filled((rows, columns + 1), dtype)[:, :columns]
        single += [Form("mul", (x, odd)), Form("mul", (wide, y)), Form("add", (x, y.float())),
                   Form("mul", (x[:, 1:], y[:, 1:]))] if columns > 32 else []
    spread = filled((4, 40, 36), dtype)
    pairs.append(Form("mul", (spread.permute(2, 0, 1).contiguous().permute(1, 2, 0), spread)))
    check([*pairs, *single], fenced=(True, False))
    pairs, single = ([f.arranged for f in forms if f.arranged.form == "tiled"] for forms in (pairs, single))
    assert len(pairs) >= 50 and {a.vector for a in pairs} == {2}
    assert len(single) >= 15 and {a.vector for a in single} == {0}


def test_rows_of_any_length_between_gaps():
    """Places are found again where a row ends: in every step, in some, or in none."""
    forms = []
    for n in (1, 2, 3, 31, 255, 257, 1023, 1025, 2300, 5001):
        for dtype in (flambeau.uint8, flambeau.bfloat16, flambeau.float32):
            x = filled((max(3, 3000 // n), n + 1), dtype)[:, 1:]
            forms += [Form("mul", (x, x)), Form("eq", (x, x[:, :1]))]
    assert check(forms, fenced=(True, False)) >= {"strided"}


def test_tiles_of_operands_of_several_dtypes_and_absent_ones():
    a, b = filled((40, 70), flambeau.float16), filled((70, 40), flambeau.float32).t()
    mask = filled((70, 40), flambeau.bool)
    forms = [Form("add", (a, b)), Form("where", (mask.t(), a, b)), Form("where", (mask.t(), a, 2.0)),
             Form("sub", (a, b)), Form("add", (b, a), {"alpha": 2})]
    assert check(forms) == {"tiled"}


def test_what_is_written_in_place():
    """Operands where the result is, in its order; what the others are read by does not matter."""
    x, y = filled((64, 48), flambeau.float32), filled((48, 64), flambeau.float32).t()
    for other in (y, x[0].clone(), x[:, :1].clone()):
        place = x.clone()
        assert check([Form("mul", (place, other), out=place)]) <= {"tiled", "packed"}


def test_expanded_and_overlapping_operands():
    base = filled((200,), flambeau.float32)
    windows = base.as_strided((40, 36), (1, 3))  # overlaps itself, runs along its first dimension
    x = filled((40, 36), flambeau.float32)
    forms = [Form("add", (x, windows)), Form("add", (x, base.as_strided((40, 36), (2, 1)))),
             Form("add", (x, base[:1].expand(40, 36))), Form("add", (x, base.as_strided((40, 36), (0, 2))))]
    check(forms)
    assert [f.arranged.form for f in forms] == ["tiled", "packed", "packed", "strided"]


def test_64_bits():
    x, y = filled((65, 40), flambeau.float32), filled((40, 65), flambeau.float32).t()
    forms = [Form("mul", (x, y)), Form("mul", (x, x[0])), Form("mul", (x[:, ::2], y[:, ::2])),
             Form("mul", (filled((3, 4, 5, 6), flambeau.int8).permute(3, 0, 2, 1),
                          filled((6, 3, 5, 4), flambeau.int8)))]
    assert check(forms, index=64) == {"tiled", "packed", "strided"}


def test_eight_dimensions():
    x = filled((2, 3, 2, 2, 3, 2, 2, 4), flambeau.int16)
    y = filled((4, 2, 2, 3, 2, 2, 3, 2), flambeau.int16)
    forms = [Form("mul", (x, y.permute(7, 6, 5, 4, 3, 2, 1, 0))), Form("mul", (x, x[:1, :, :1, :, :1, :, :1]))]
    check(forms)
    assert len(forms[1].arranged.sizes) == 8


TEXT = """
extern "C" __global__ void divide(Geometry g, const uint32_t* n, uint32_t* out, int count) {
  for (int k = 0; k < count; ++k) out[k] = quotient_by(g, 0, n[k]);
}
"""


def test_places_are_divided_exactly():
    """Whatever a size is, places around its multiples, and the largest."""
    sizes = {*range(1, 70), *(2**k + d for k in range(2, 31) for d in (-1, 0, 1)), 641, 6700417, 10**9 + 7, 2**31 - 1}
    image = emulate.build(pointwise.text("prelude.cuh") + TEXT)
    generator = flambeau.Generator().manual_seed(0)
    drawn = flambeau.randint(0, 2**31, (500,), generator=generator).tolist()
    for size in sorted(s for s in sizes if s < 2**31):
        most = (2**31 - 1) // size
        places = {q * size + d for q in (0, 1, 2, most // 2, most - 1, most) for d in (-1, 0, 1)}
        places = [p for p in (*places, *drawn, 2**31 - 1, 2**31 - 2) if 0 <= p < 2**31]
        given, out = (ctypes.c_uint32 * len(places))(*places), (ctypes.c_uint32 * len(places))()
        emulate.launch(image, "divide", (1, 1, 1), (1, 1, 1),
                       [walk([size], [[1]]), ctypes.c_void_p(ctypes.addressof(given)),
                        ctypes.c_void_p(ctypes.addressof(out)), ctypes.c_int(len(places))])
        assert list(out) == [p // size for p in places], size
