"""What NVIDIA's libraries are asked for, on a GPU: their numbers beside the CPU's, and that it was they who computed.

`pytest tests/cuda/test_on_gpu_libraries.py -n 0` where there is one; elsewhere all of it is skipped with one line.
"""

import pytest

import flambeau as fb
from flambeau import _C, cuda, linalg, nn
from flambeau.nn import functional as F

if not fb.cuda.is_available():
    pytest.skip("no GPU is here", allow_module_level=True)

HALVES = (fb.float16, fb.bfloat16)
NEAR = {fb.float32: 1e-4, fb.float64: 1e-9, fb.float16: 1e-2, fb.bfloat16: 5e-2, fb.float8_e4m3fn: 0.1}


def counted(f):
    """(result, calls of libraries, kernels of our own) of a call whose plans are made."""
    f()
    before = _C._cuda.plan_counts()
    result, after = f(), _C._cuda.plan_counts()
    return result, after["libraries"] - before["libraries"], after["launches"] - before["launches"]


def close(found, expected, near=None):
    near = near or NEAR[found.dtype]
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    return found.shape == expected.shape and fb.allclose(found, expected, rtol=near, atol=near * expected.abs().max())


@pytest.fixture(autouse=True)
def same_numbers():
    fb.manual_seed(0)


@pytest.mark.parametrize("dtype", (fb.float32, *HALVES), ids=str)
@pytest.mark.parametrize("activation", ("relu", "gelu_tanh"))
def test_an_activation_is_part_of_the_product(activation, dtype):
    x, w, b = fb.randn(64, 128), fb.randn(256, 128), fb.randn(256)
    there = [t.to("cuda", dtype) for t in (x, w, b)]
    tail = fb.ops.aten._linear_tail.default
    found, calls, launches = counted(lambda: tail(*there, None, activation, False))
    near = [t.to(dtype).float() for t in (x, w, b)]
    expected = F.linear(*near)
    expected = F.relu(expected) if activation == "relu" else F.gelu(expected, approximate="tanh")
    assert close(found, expected) and (calls, launches) == (1, 0)


@pytest.mark.parametrize("dtype", (fb.float32, *HALVES), ids=str)
def test_a_bias_s_gradient_is_part_of_the_product(dtype):
    g, x, w = fb.randn(64, 256), fb.randn(64, 128), fb.randn(256, 128)
    there = [t.to("cuda", dtype) for t in (g, x, w)]
    backward = fb.ops.aten.linear_backward.default
    found, calls, launches = counted(lambda: backward(*there, 7))
    expected = backward(*(t.to(dtype).float() for t in (g, x, w)), 7)
    assert all(map(close, found, expected)) and (calls, launches) == (2, 0)


@pytest.mark.parametrize("by_row", (False, True))
@pytest.mark.parametrize("out", (fb.float32, *HALVES, fb.float8_e4m3fn), ids=str)
@pytest.mark.parametrize("kinds", ("44", "45", "54"))
def test_8_bit_floats_are_multiplied_as_they_are(kinds, out, by_row):
    """Fails on GPUs before Ada, and by row before Hopper or CUDA 12.9: there the product is of bfloat16. So it is of
    scales by row and a result of 8 bits, which cuBLASLt does not take: both matrices are widened, and it is scaled."""
    left, right = ({"4": fb.float8_e4m3fn, "5": fb.float8_e5m2}[kind] for kind in kinds)
    a, b = fb.randn(48, 64).to(left), fb.randn(32, 64).to(right)
    scales = (fb.rand(48, 1) + 0.5, fb.rand(1, 32) + 0.5) if by_row else (fb.tensor(0.5), fb.tensor(0.25))
    bias = None if out == fb.float32 else fb.randn(32).to(fb.float16 if out == fb.float16 else fb.bfloat16)
    expected = fb._scaled_mm(a, b.t(), *scales, bias, out_dtype=fb.float32)
    there = [None if t is None else t.cuda() for t in (a, b, *scales, bias)]
    found, calls, launches = counted(lambda: fb._scaled_mm(there[0], there[1].t(), *there[2:], out_dtype=out))
    widened = by_row and out == fb.float8_e4m3fn
    assert found.dtype == out and close(found, expected, NEAR[out]) and (calls, launches) == (1, 3 * widened)


@pytest.mark.parametrize("n", (3, 32, 100))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
def test_decompositions_of_whole_batches_are_one_call(dtype, n):
    a, near = fb.randn(300, n, n, dtype=dtype), 1e-3 if dtype in (fb.float32, fb.complex64) else 1e-9

    def same(found, expected):
        return float((found - expected.cuda()).abs().max() / expected.abs().max()) < near
    hermitian = (a + a.mH) / 2
    there = hermitian.cuda()
    (values, vectors), calls, _ = counted(lambda: linalg.eigh(there))
    assert calls == 1 and same(values, linalg.eigvalsh(hermitian))
    assert same((vectors * values.to(dtype).unsqueeze(-2)) @ vectors.mH, hermitian)
    there = a.cuda()
    (q, r), calls, _ = counted(lambda: linalg.qr(there))
    assert calls == 1 and same(q @ r, a) and same(q.mH @ q, fb.eye(n, dtype=dtype).expand(a.shape))
    positive = a @ a.mH + n * fb.eye(n, dtype=dtype)
    there = positive.cuda()
    lower, calls, _ = counted(lambda: linalg.cholesky(there))
    assert calls == 1 and same(lower, linalg.cholesky(positive))


@pytest.mark.parametrize("shape", ((300, 5, 3), (300, 32, 32), (100, 200, 20), (100, 20, 200), (10, 70, 70)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_singular_values_of_batches(dtype, shape):
    a, near = fb.randn(*shape, dtype=dtype), 1e-3 if dtype == fb.float32 else 1e-9
    there, few = a.cuda(), min(shape[-2:])
    (u, s, v), calls, _ = counted(lambda: linalg.svd(there, full_matrices=False))
    # rotations by cuSOLVER, or of more than 32 columns by our own kernel; before them tall matrices are reduced to R
    assert calls == (few <= 32) + (max(shape[-2:]) > max(few, 32))
    assert float((linalg.svdvals(there) - s).abs().max() / s.max()) < near
    assert float((s - linalg.svdvals(a).cuda()).abs().max() / s.max()) < near
    assert float(((u * s.to(dtype).unsqueeze(-2)) @ v - there).abs().max()) < near * 10
    for q in (u.mH @ u, v @ v.mH):
        assert float((q - fb.eye(few, dtype=dtype, device="cuda")).abs().max()) < near


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
def test_ranks_of_batches(dtype):
    """Singular values without vectors: cuSOLVER works in memory of U and V all the same."""
    for shape in ((2, 2, 3), (2, 32, 32), (300, 7, 5), (5, 100, 20), (3, 4, 4, 4), (2, 40, 40)):
        a = fb.randn(*shape, dtype=dtype)
        a[0] = 0
        assert fb.equal(linalg.matrix_rank(a.cuda()).cpu(), linalg.matrix_rank(a))


@pytest.mark.parametrize("n", (3, 50, 300))
@pytest.mark.parametrize("hermitian", (False, True))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
def test_ldl_of_batches(dtype, n, hermitian):
    a = fb.randn(20, n, n, dtype=dtype)
    a = (a + (a.mH if hermitian else a.mT)) * (1 - fb.eye(n, dtype=dtype))  # no pivots on the diagonal: pairs of rows
    b = fb.randn(20, n, 4, dtype=dtype)
    (factors, pivots), calls, _ = counted(lambda: linalg.ldl_factor(a.cuda(), hermitian=hermitian))
    assert calls == 0 and bool((pivots < 0).any())
    x = linalg.ldl_solve(factors, pivots, b.cuda(), hermitian=hermitian)
    assert float((a.cuda() @ x - b.cuda()).abs().max()) < (0.05 if dtype in (fb.float32, fb.complex64) else 1e-8)


def test_streams_decompose_in_memory_of_their_own():
    a, b = (fb.randn(8, 60, columns, dtype=fb.float64).cuda() for columns in (60, 5))
    a += 60 * fb.eye(60, device="cuda")
    wanted = linalg.solve(a, b)
    cuda.synchronize()
    streams, found = [cuda.Stream() for _ in range(4)], []
    for _ in range(20):
        for s in streams:
            with cuda.stream(s):
                found.append(linalg.solve_ex(a, b, check_errors=False)[0])
    cuda.synchronize()
    assert all(float((x - wanted).abs().max()) < 1e-9 for x in found)


@pytest.mark.parametrize("dtype", (fb.float32, *HALVES), ids=str)
@pytest.mark.parametrize("shapes", (((96, 64), (3, 64, 48)), ((3, 48, 64), (64, 96)), ((64, 96), (96, 48))), ids=str)
def test_products_of_groups(shapes, dtype):
    a, b = (fb.randn(*shape).to(dtype) for shape in shapes)
    offs = fb.tensor([16, 16, 80], dtype=fb.int32)
    expected = F.grouped_mm(a.float(), b.float(), offs=offs)
    there = [t.cuda() for t in (a, b, offs)]
    found, calls, _ = counted(lambda: F.grouped_mm(*there[:2], offs=there[2]))
    assert close(found, expected) and calls == 1
    graph = fb.cuda.CUDAGraph()  # by our own kernel
    with fb.cuda.graph(graph):
        found = F.grouped_mm(*there[:2], offs=there[2])
    graph.replay()
    assert close(found, expected)


def test_products_of_bytes():
    a, b = (fb.randint(-128, 128, shape).to(fb.int8) for shape in ((48, 64), (64, 32)))
    for left, right in ((a, b), (a, b.t().contiguous().t()), (a.t().contiguous().t(), b)):
        there = left.cuda(), right.cuda()
        found, calls, _ = counted(lambda: fb._int_mm(*there))  # noqa: B023
        assert fb.equal(found.cpu(), a.int() @ b.int()) and calls == 1
        assert fb.equal((there[0] @ there[1]).cpu(), a @ b)


@pytest.mark.parametrize("way", ("BlockWise1x32", "BlockWise1x16", "BlockWise1x128"))
def test_scales_of_blocks(way):
    """Right everywhere; in 8 or 4 bits on Blackwell, or (128 numbers) on Hopper with CUDA 12.9."""
    way, size = F.ScalingType[way], int(way.rpartition("x")[2])
    if size == 16:
        a, b = (fb.randint(0, 256, (n, 128)).to(fb.uint8).view(fb.float4_e2m1fn_x2) for n in (256, 128))
    else:
        a, b = (fb.randn(n, 256).to(fb.float8_e4m3fn) for n in (256, 128))
    kind = {16: fb.float8_e4m3fn, 32: fb.float8_e8m0fnu, 128: fb.float32}[size]
    of_a, of_b = (fb.exp2(fb.randint(-3, 3, (n, 256 // size)).float()).to(kind) for n in (256, 128))
    args = (a, of_a, b, of_b)
    found, expected = (F.scaled_mm(x, y.t(), s, way, t.t() if size == 128 else t, way)
                       for x, s, y, t in ([t.cuda() for t in args], args))
    assert close(found, expected)


RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "tanh": nn.RNN,
             "relu": lambda *sizes, **more: nn.RNN(*sizes, nonlinearity="relu", **more)}


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16), ids=str)
@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("both", (False, True))
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, both, packed, dtype):
    def found(device, dtype):
        fb.manual_seed(0)
        layer = RECURRENT[name](16, 32, 2, bidirectional=both).to(device, dtype)
        x = fb.randn(7, 3, 16).to(device, dtype).requires_grad_()
        out, last = layer(nn.utils.rnn.pack_padded_sequence(x, [7, 4, 2]) if packed else x)
        out = out.data if packed else out
        sum((t * t.detach().cos()).sum() for t in (out, *(last if isinstance(last, tuple) else (last,)))).backward()
        return [out, x.grad, *(p.grad for p in layer.parameters())]
    with fb.backends.cudnn.flags(enabled=True, fp32_precision="ieee"):
        mine, calls, _ = counted(lambda: found("cuda", dtype))
    assert calls == 2  # all layers, there and back
    wide = fb.float64 if dtype == fb.float64 else fb.float32
    for a, b in zip(mine, found("cpu", wide), strict=True):
        if dtype == fb.float16:  # a unit of relu near 0 may be on or off
            assert (a.detach().cpu().float() - b).norm() <= 3e-2 * b.norm()
        else:
            assert close(a, b)


MASKS = {"none": lambda: None, "bool": lambda: fb.rand(50, 70) > 0.3, "numbers": lambda: fb.randn(2, 1, 50, 70)}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("mask", (*MASKS, "causal", "shared keys"))
def test_attention(mask, dtype):
    own = 2 if mask == "shared keys" else 8
    given = [fb.randn(2, heads, n, 64) for heads, n in ((8, 50), (own, 70), (own, 70))]
    seen = MASKS[mask]() if mask in MASKS else None
    if seen is not None and seen.dtype == fb.bool:
        seen[3] = False

    def found(device, dtype):
        leaves = [t.to(device, dtype).detach().requires_grad_() for t in given]
        put = None if seen is None else seen.to(device) if seen.dtype == fb.bool else seen.to(device, dtype)
        out = F.scaled_dot_product_attention(*leaves, put, is_causal=mask == "causal", enable_gqa=own < 8)
        (out * out.detach().cos()).sum().backward()
        return [out, *(t.grad for t in leaves)]
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.CUDNN_ATTENTION):
        mine, calls, _ = counted(lambda: found("cuda", dtype))
    assert calls == 2 and all(map(close, mine, found("cpu", fb.float32)))
