"""Attention by a cuDNN that is a fake: it knows the operations of a graph one by one, and computes them so."""

import ctypes
import math

import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, sdpa_kernel

from . import FakeLibrary, numbers

DNN = FakeLibrary("cudnn")
DNN.library.fake_last_operations.restype = ctypes.c_char_p
DNN.library.fake_version.argtypes = [ctypes.c_size_t]
SWITCHES, BACKEND = fb.backends.cudnn, fb.backends.cuda
HALVES = (fb.float16, fb.bfloat16)
CUDNN = SDPBackend.CUDNN_ATTENTION

pytestmark = pytest.mark.usefixtures("own_kernels")


def operations():
    return DNN.library.fake_last_operations().decode()


def counted(f):
    """(result, runs of cuDNN)"""
    before = DNN.calls("execute")
    return f(), DNN.calls("execute") - before


def made(dtype=fb.float16, heads=4, queries=5, keys=7, width=16, values=8, own_heads=None):
    own = own_heads or heads
    return [fb.randn(2, h, n, w).to(dtype) for h, n, w in ((heads, queries, width), (own, keys, width),
                                                           (own, keys, values))]


def both(tensors, call):
    """Results and gradients on the device and on the CPU, in pairs."""
    def on(device):
        leaves = [t.to(device).detach().requires_grad_() for t in tensors]
        out = call(*leaves)
        (out.float() * fb.linspace(0.5, 1.5, out.numel(), device="cpu").to(device).view(out.shape)).sum().backward()
        return [out.detach(), *(t.grad for t in leaves)]
    return zip(on("cuda"), on("cpu"), strict=True)


def agree(pairs):
    return all(numbers.same(a, b, 1e-2 if b.dtype == fb.float16 else 6e-2) for a, b in pairs)


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_and_the_order_of_operations(dtype, causal):
    seen = []

    def call(*tensors):
        out = F.scaled_dot_product_attention(*tensors, is_causal=causal, scale=0.3)
        seen.append(operations())
        return out
    pairs, runs = counted(lambda: both(made(dtype), call))
    assert agree(pairs) and runs == 2
    mask = "index index ge select " if causal else ""
    assert seen[0] == f"matmul mul {mask}max sub exp sum log add div matmul"
    assert operations() == (f"mul sum mul matmul mul sub {mask}exp view matmul matmul sub mul mul view matmul view "
                            "matmul same")


def test_op_table():
    """The samples whose heads the library takes go there, all others to our own kernels."""
    for dtype in HALVES:
        agreed, wrong = numbers.compare("scaled_dot_product_attention", dtype, 2e-2)
        assert not wrong and agreed > 3, wrong[:1]


MASKS = {
    "bool of all heads": lambda: fb.rand(5, 7) > 0.3,
    "bool of each head": lambda: fb.rand(2, 4, 5, 7) > 0.3,
    "bool of keys": lambda: fb.rand(2, 1, 1, 7) > 0.3,
    "numbers": lambda: fb.randn(2, 1, 5, 7).half(),
    "numbers of each head": lambda: fb.randn(4, 5, 7).half(),
    "numbers of keys": lambda: fb.randn(7).half(),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    mask = MASKS[name]()
    mask[..., 0] = True if mask.dtype == fb.bool else 0.5
    there = {"cpu": mask, "cuda": mask.cuda()}
    pairs, runs = counted(lambda: both(made(), lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, there[q.device.type])))
    assert agree(pairs) and runs == 2 and " add " in operations()


def test_a_mask_in_the_right_form_is_read_where_it_lies():
    q, k, v = (t.cuda() for t in made(keys=8))
    for mask in (fb.randn(2, 4, 5, 8).half().cuda(), fb.randn(5, 8).half().cuda()):
        F.scaled_dot_product_attention(q, k, v, mask)
        used = fb.cuda.memory_allocated()
        fb.cuda.reset_peak_memory_stats()
        out = F.scaled_dot_product_attention(q, k, v, mask)
        assert fb.cuda.max_memory_allocated() - used <= 4 * 512 + out.nbytes  # what rows show, and the library's room


@pytest.mark.parametrize("kind", (fb.bool, fb.float16), ids=str)
def test_a_query_that_sees_nothing_gets_zeros_and_gives_none(kind):
    seen = fb.ones(5, 7, dtype=fb.bool)
    seen[2] = False
    mask = seen if kind == fb.bool else fb.zeros(5, 7, dtype=kind).masked_fill(~seen, -math.inf)
    there = {"cpu": mask, "cuda": mask.cuda()}
    pairs, runs = counted(lambda: list(both(made(), lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, there[q.device.type]))))
    assert agree(pairs) and runs == 2
    assert not pairs[0][0][:, :, 2].any() and not pairs[1][0][:, :, 2].any() and pairs[2][0].isfinite().all()


def test_numbers_that_are_none_stay():
    q, k, v = made()
    q[0, 0, 1] = math.nan
    mask = fb.ones(5, 7, dtype=fb.bool).cuda()
    out = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), mask)
    assert out[0, 0, 1].isnan().all() and out.isnan().sum() == 8


def test_layouts():
    """Heads that lie beside each other in a row, as projections give them, are passed as they lie."""
    def split(x):
        return x.view(2, 6, 4, 8).transpose(1, 2)
    rows = [fb.randn(2, 6, 32).half() for _ in range(3)]
    pairs, runs = counted(lambda: both(rows, lambda *r: F.scaled_dot_product_attention(*map(split, r), is_causal=True)))
    assert agree(pairs) and runs == 2
    q, k, v = (split(r.cuda()) for r in rows)
    F.scaled_dot_product_attention(q, k, v)
    before = _C._cuda.plan_counts()["launches"]
    F.scaled_dot_product_attention(q, k, v)
    assert _C._cuda.plan_counts()["launches"] == before
    for odd in (lambda t: t[..., ::2], lambda t: t.flatten()[1:-7].view(-1)[:2 * 4 * 5 * 8].view(2, 4, 5, 8)):
        odd_ones = [odd(fb.randn(2, 4, 6, 16).half()) for _ in range(3)]
        assert agree(both(odd_ones, F.scaled_dot_product_attention))


@pytest.mark.parametrize("shape", ((5, 8), (3, 5, 8), (2, 3, 4, 5, 8)), ids=str)
def test_any_rank(shape):
    pairs, runs = counted(lambda: both([fb.randn(shape).half() for _ in range(3)], F.scaled_dot_product_attention))
    assert agree(pairs) and runs == 2


@pytest.mark.parametrize("own", (1, 2))
def test_heads_that_share_keys(own):
    tensors = made(own_heads=own)
    pairs, runs = counted(lambda: both(tensors, lambda *t: F.scaled_dot_product_attention(*t, enable_gqa=True)))
    assert agree(pairs) and runs == 2 and DNN.library.fake_last_heads() == 4
    there = [t.cuda() for t in tensors]
    F.scaled_dot_product_attention(*there, enable_gqa=True)
    assert DNN.library.fake_last_heads() == own  # nothing is copied on the way there


def test_batches_that_share_keys_are_copied():
    q, k, v = made()
    expected = F.scaled_dot_product_attention(q, k[:1], v[:1])
    found, runs = counted(lambda: F.scaled_dot_product_attention(q.cuda(), k[:1].cuda(), v[:1].cuda()))
    assert numbers.same(found, expected, 1e-2) and runs == 1


def test_switches_decide():
    q, k, v = (t.cuda() for t in made())

    def runs():
        return counted(lambda: F.scaled_dot_product_attention(q, k, v))[1]
    assert runs() == 1
    for way, expected in ((CUDNN, 1), (SDPBackend.FLASH_ATTENTION, 0), (SDPBackend.MATH, 0)):
        with sdpa_kernel(way):
            assert runs() == expected
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, CUDNN]):
        assert runs() == 1
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, CUDNN], set_priority=True):
        assert runs() == 0
    BACKEND.enable_cudnn_sdp(False)
    assert runs() == 0
    BACKEND.enable_cudnn_sdp(True)
    assert runs() == 1
    with SWITCHES.flags(enabled=False):
        assert runs() == 0
        with sdpa_kernel(CUDNN), pytest.raises(RuntimeError, match="No viable backend"):
            runs()
    with sdpa_kernel(CUDNN):
        for odd in ((q.float(), k.float(), v.float()), (q, k, v[..., :5]), (q, k, v, fb.zeros(5, 7).cuda())):
            with pytest.raises(RuntimeError, match="No viable backend"):
                F.scaled_dot_product_attention(*odd)
        with pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)


def test_the_way_back_follows_the_way_there():
    tensors = [t.cuda().requires_grad_() for t in made()]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = F.scaled_dot_product_attention(*tensors)
    assert counted(out.sum().backward)[1] == 0
    with sdpa_kernel(CUDNN):
        out = F.scaled_dot_product_attention(*tensors)
    BACKEND.enable_cudnn_sdp(False)
    try:
        assert counted(out.sum().backward)[1] == 1
    finally:
        BACKEND.enable_cudnn_sdp(True)


def test_what_can_be_asked():
    q, k, v = (t.cuda() for t in made())
    assert BACKEND.can_use_cudnn_attention(BACKEND.SDPAParams(q, k, v, None, 0.0, True, False))
    assert BACKEND.can_use_flash_attention(BACKEND.SDPAParams(q, k, v))
    assert not BACKEND.can_use_cudnn_attention(BACKEND.SDPAParams(q, k, v, None, 0.5))
    with pytest.warns(UserWarning, match="can_use_cudnn_attention: not on cuda:0 with .*float32"):
        assert not BACKEND.can_use_cudnn_attention(BACKEND.SDPAParams(q.float(), k.float(), v.float()), debug=True)


def test_what_the_library_refuses_is_computed_by_our_own_kernel():
    """Wide heads in this one; releases of which it is known that they compute wrong numbers; and where only
    deterministic algorithms may be used, the way back."""
    pairs, runs = counted(lambda: both(made(width=136, values=136), F.scaled_dot_product_attention))
    assert agree(pairs) and runs == 0
    for version, expected in ((91000, 0), (91400, 1), (91600, 2)):
        _C._cuda.forget_plans()
        DNN.library.fake_version(version)
        pairs, runs = counted(lambda: both(made(), F.scaled_dot_product_attention))
        assert agree(pairs) and runs == expected
    with SWITCHES.flags(enabled=True, deterministic=True):
        pairs, runs = counted(lambda: both(made(), F.scaled_dot_product_attention))
        assert agree(pairs) and runs == 1


def test_an_old_release_begins_its_sums_with_zeros():
    DNN.library.fake_version(90300)
    pairs, runs = counted(lambda: both(made(keys=128), F.scaled_dot_product_attention))
    assert agree(pairs) and runs == 2


def test_second_derivatives_compile_and_vmap():
    q, k, v = (t.cuda() for t in made(fb.float16))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    compiled = fb.compile(lambda *t: F.scaled_dot_product_attention(*t, is_causal=True) * 2)
    assert numbers.same(compiled(q, k, v), out.cpu() * 2, 1e-2)
    mapped = fb.vmap(lambda *t: F.scaled_dot_product_attention(*t, is_causal=True))
    assert numbers.same(mapped(q, k, v), out.cpu(), 1e-2)

    def second(device):
        x = q.to(device).detach().requires_grad_()
        y = F.scaled_dot_product_attention(x, k.to(device), v.to(device))
        g, = fb.autograd.grad((y.float() ** 2).sum(), x, create_graph=True)
        return fb.autograd.grad(g.float().sum(), x)[0]
    assert numbers.same(second("cuda"), second("cpu"), 5e-2)


def test_recorded_in_a_graph():
    q, k, v = (t.cuda() for t in made())
    F.scaled_dot_product_attention(q, k, v)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        out = F.scaled_dot_product_attention(q, k, v)
    v.mul_(2)
    graph.replay()
    assert numbers.same(out, F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu()), 1e-2)


def test_every_status_in_turn_leaves_everything_usable():
    tensors = [t.cuda().requires_grad_() for t in made()]
    _C._cuda.forget_plans()
    alive = DNN.alive()
    for n in range(1, 2000, 7):
        DNN.fail(n, status=5000)
        try:
            F.scaled_dot_product_attention(*tensors).sum().backward()
        except RuntimeError as error:
            assert "fused_attention" in str(error)
            assert "cuDNN: CUDNN_STATUS_EXECUTION_FAILED (5000) in cudnn" in str(error)
        left = DNN.left()
        DNN.fail(0)
        _C._cuda.forget_plans()
        assert DNN.alive() == alive
        if left:
            break
    assert 400 < n < 1999
    assert counted(lambda: F.scaled_dot_product_attention(*tensors))[1] == 1


def test_results_lie_as_heads_that_are_inside_of_rows():
    """Cutting rows into heads and joining them again copies nothing, there and back."""
    x = fb.randn(2, 24, 4 * 16, device="cuda", dtype=fb.bfloat16, requires_grad=True)

    def step():
        heads = x.view(2, 24, 4, 16).transpose(1, 2)
        out = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
        assert out.is_contiguous() and out.reshape(2, 24, 64).data_ptr() == out.data_ptr()
        return fb.autograd.grad(out, x, out.detach())
    step()
    before = _C._cuda.plan_counts()
    step()
    after = _C._cuda.plan_counts()
    assert after["libraries"] - before["libraries"] == 2
    assert after["launches"] - before["launches"] == 2  # the three gradients are added
