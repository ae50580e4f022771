"""Products of groups by a fake cuBLAS and by our kernel, of bytes, and of blocks with scales by a fake cuBLASLt."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F

from ...ops import test_grouped_mm as groups
from ...ops import test_scaled_mm as scaled
from . import FakeLibrary, numbers

BLAS, LT = FakeLibrary("cublas"), FakeLibrary("cublaslt")
NEAR = {fb.float16: 1e-2, fb.bfloat16: 0.1, fb.float32: 1e-4, fb.float64: 1e-9}

pytestmark = pytest.mark.usefixtures("own_kernels")


def there(t):
    return None if t is None else t.cuda()


def calls(f, name="grouped", library=BLAS):
    before = library.calls(name)
    f()
    return library.calls(name) - before


@pytest.mark.parametrize("refused", (False, True))
@pytest.mark.parametrize("dtype", groups.DTYPES, ids=str)
@pytest.mark.parametrize("way", groups.SHAPES)
def test_groups(way, dtype, refused):
    """`refused`: by the kernel of our own."""
    a, b = groups.matrices(way, dtype)
    expected, offs = F.grouped_mm(a, b, offs=groups.of(way)), there(groups.of(way))
    for left in (a.cuda(), a.mT.contiguous().cuda().mT):
        for right in (b.cuda(), b.mT.contiguous().cuda().mT):
            if refused:
                BLAS.fail(1, "grouped", 15)
            found = []
            made = calls(lambda: found.append(F.grouped_mm(left, right, offs=offs)))  # noqa: B023
            assert made == (way != "batches") and numbers.same(found[0], expected, NEAR[dtype])


@pytest.mark.parametrize("way", groups.SHAPES)
def test_gradients_of_groups(way):
    found = []
    for device in ("cpu", "cuda"):
        a, b = (t.to(device).requires_grad_() for t in groups.matrices(way))
        offs = groups.of(way)
        F.grouped_mm(a, b, offs=None if offs is None else offs.to(device)).square().sum().backward()
        found.append((a.grad, b.grad))
    assert all(numbers.same(mine, cpu, 1e-9) for cpu, mine in zip(*found, strict=True))


def test_offsets_that_do_not_rise_read_nothing_outside():
    a, b = (t.cuda() for t in groups.matrices("rows"))
    offs, held = groups.offsets(5, 3, 40, 2), groups.offsets(5, 5, 12, 12)
    expected = F.grouped_mm(a.cpu(), b.cpu(), offs=held)
    assert numbers.same(F.grouped_mm(a, b, offs=offs.cuda()), expected)
    BLAS.fail(1, "grouped", 15)
    fb._C._cuda.forget_plans()
    assert numbers.same(F.grouped_mm(a, b, offs=offs.cuda()), expected) and BLAS.left() == 0


def test_groups_are_recorded_by_the_kernel_that_reads_their_sizes():
    a, b = (t.cuda() for t in groups.matrices("rows"))
    offs = groups.offsets(2, 2, 7, 10).cuda()
    F.grouped_mm(a, b, offs=offs)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        out = F.grouped_mm(a, b, offs=offs)
    offs.copy_(groups.offsets(1, 4, 6, 12))
    graph.replay()
    assert numbers.same(out, F.grouped_mm(a.cpu(), b.cpu(), offs=offs.cpu()))


@pytest.mark.parametrize("way", groups.SHAPES)
def test_groups_with_scales(way):
    a, b = (t.to(fb.float8_e4m3fn) for t in groups.matrices(way))
    depth, rows = way == "depth", F.ScalingType.RowWise
    of_a = fb.rand(24) if depth else fb.rand(a.shape[:-1])
    of_b = fb.rand(20) if depth else fb.rand(*b.shape[:-2], b.shape[-1])
    found, expected = (F.scaled_grouped_mm(*(move(t) for t in (a, b)), move(of_a), rows, move(of_b), rows,
                                           offs=move(groups.of(way))) for move in (there, lambda t: t))
    assert numbers.same(found, expected, 0.02)


@pytest.mark.parametrize("kinds", ((fb.int8, fb.int8), (fb.uint8, fb.int8)), ids=str)
@pytest.mark.parametrize("shape", ((5, 64, 8), (3, 7, 5)), ids=str)
def test_bytes(shape, kinds):
    m, k, n = shape
    a, b = (fb.randint(-128, 128, s).to(kind) for s, kind in zip(((m, k), (k, n)), kinds, strict=True))
    found = []
    by_library = kinds[0] == fb.int8 and k == 64
    assert calls(lambda: found.append(fb._int_mm(a.cuda(), b.cuda())), "matmul", LT) == by_library
    assert found[0].dtype == fb.int32 and fb.equal(found[0].cpu(), a.int() @ b.int())


def multiplied(library, *args, **more):
    """scaled_mm here and there, and whether cuBLASLt computed it in the narrow dtype."""
    expected, found = F.scaled_mm(*args, **more, output_dtype=fb.float32), []
    args = [[there(t) if isinstance(t, fb.Tensor) else t for t in a] if isinstance(a, list)
            else there(a) if isinstance(a, fb.Tensor) else a for a in args]
    if not library:
        LT.fail(1, "heuristic", 15)
    made = calls(lambda: found.append(F.scaled_mm(*args, **more, output_dtype=fb.float32)), "matmul", LT)
    assert made == 1 and numbers.same(found[0], expected, 1e-3)
    assert LT.left() == 0


@pytest.mark.parametrize("library", (True, False))
@pytest.mark.parametrize("tiles", (True, False))
def test_scales_of_16_and_32_numbers(tiles, library):
    a, b = scaled.matrices(140, 96, 16)
    of_a, of_b = (fb.exp2(fb.randint(-9, 9, (n, 3)).float()).to(fb.float8_e8m0fnu) for n in (140, 16))
    way, swizzle = scaled.WAYS.BlockWise1x32, F.SwizzleType.SWIZZLE_32_4_4 if tiles else None
    lie = scaled.tiled if tiles else lambda t: t
    multiplied(library, a, b, lie(of_a), way, lie(of_b), way, swizzle, swizzle)
    codes = [fb.randint(0, 256, (n, 64)).to(fb.uint8).view(scaled.FLOAT4) for n in (140, 16)]
    of_a, of_b = (fb.rand(n, 8).to(fb.float8_e4m3fn) for n in (140, 16))
    levels = [scaled.WAYS.BlockWise1x16, scaled.TENSOR]
    multiplied(library, codes[0], codes[1].t(), [lie(of_a), fb.tensor(0.5)], levels, [lie(of_b), fb.tensor(3.0)],
               levels, swizzle, swizzle)


@pytest.mark.parametrize("library", (True, False))
@pytest.mark.parametrize("ways", ((4, 4), (4, 5), (5, 4)), ids=str)
def test_scales_of_128_numbers_and_of_squares(ways, library):
    a, b = scaled.matrices(130, 304, 208)
    of_a, of_b = (fb.rand(n if way == 4 else 2, 3) for n, way in zip((130, 208), ways, strict=True))
    multiplied(library, a, b, of_a, scaled.WAYS(ways[0]), of_b.t(), scaled.WAYS(ways[1]))


def test_sizes_that_the_library_does_not_take():
    a, b = scaled.matrices(5, 40, 3)
    of_a, of_b = (fb.ones(n, 2).to(fb.float8_e8m0fnu) for n in (5, 3))
    way = scaled.WAYS.BlockWise1x32
    multiplied(True, a, b, of_a, way, of_b, way)


@pytest.mark.parametrize("way", groups.BLOCKS)
def test_groups_with_scales_of_blocks(way):
    """Tiles of scales are found where the groups' ends lie, on the device."""
    (a, b), plain, tiles, offs = groups.scaled_blocks(way)
    recipe, swizzle = F.ScalingType.BlockWise1x32, F.SwizzleType.SWIZZLE_32_4_4
    expected = F.scaled_grouped_mm(a, b, plain[0], recipe, plain[1], recipe, offs=offs, output_dtype=fb.float32)
    found = F.scaled_grouped_mm(a.cuda(), b.cuda(), there(tiles[0]), recipe, there(tiles[1]), recipe, swizzle, swizzle,
                                offs=there(offs), output_dtype=fb.float32)
    assert found.is_cuda and numbers.same(found, expected, 1e-4)
