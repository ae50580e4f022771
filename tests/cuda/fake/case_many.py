"""Norms of many tensors and their product with one number: a few launches for all, and the CPU's numbers."""

import math

import numpy
import pytest

import flambeau as fb
from flambeau.nn import utils
from flambeau.ops.kinds import OPS

pytestmark = pytest.mark.usefixtures("own_kernels")

DTYPES = (fb.float32, fb.float64, fb.float16, fb.bfloat16)
ORDERS = (2.0, 1.0, 0.0, math.inf, -math.inf, 3.0, 0.5, 2.5, -1.0)


def some(dtype, empty=True):
    """Tensors of the CPU: short, long, whole blocks, without elements, without dimensions."""
    shapes = [(5,), (), (3, 7), (16384,), (2, 16384), (40001,), (1,), (17, 33)] + [(0, 4), (0,)] * empty
    return [(fb.rand(s) + 0.1).mul(fb.where(fb.rand(s) > 0.5, 1.0, -1.0)).to(dtype) for s in shapes]


def laid_out(x):
    """On the device in every way of lying there: as it is, transposed, with gaps, at an odd address, expanded."""
    y = x.cuda()
    return [y, y.t(), fb.stack([y, y], -1)[..., 0], fb.cat([y.reshape(-1)[:1], y.reshape(-1)])[1:].view(y.shape),
            y[:1].expand(4, y.shape[1])]


def reference(x, ord):
    return numpy.linalg.norm(x.double().cpu().reshape(-1).numpy(), ord)


def check(found, tensors, ord, dtype):
    near = {fb.float64: 1e-12, fb.float32: 1e-5, fb.float16: 2e-3, fb.bfloat16: 1e-2}[dtype]
    assert found.dtype == dtype and found.is_cuda and found.shape == (len(tensors),)
    expected = fb.tensor([reference(x, ord) for x in tensors], dtype=fb.float64).to(dtype)
    fb.testing.assert_close(found.cpu(), expected, rtol=near, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ord", ORDERS)
def test_norms_are_numpys(ord, dtype):
    tensors = some(dtype, empty=0 <= ord < math.inf)
    if dtype == fb.float16 and ord == 0.5:  # larger than halves are
        tensors = [x for x in tensors if x.numel() < 100]
    check(OPS["_norms"]([x.cuda() for x in tensors], ord), tensors, ord, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norms_of_every_layout(dtype):
    tensors = laid_out(fb.randn(6, 9).to(dtype))
    check(OPS["_norms"](tensors, 2.0), tensors, 2, dtype)


def test_sums_do_not_depend_on_addresses():
    """The same numbers at a multiple of 16 bytes and beside one, alone and among others: the same bits."""
    x = fb.randn(50000, device="cuda")
    odd = fb.cat([x[:1], x])[1:]
    assert odd.data_ptr() % 16 and odd.is_contiguous()
    found = OPS["_norms"]([x, *[x[:k] for k in range(1, 200)], odd], 2.0)
    assert found[0].item() == found[200].item() == OPS["_norms"]([odd], 2.0).item()
    assert found[0].item() == pytest.approx(x.cpu().norm().item(), rel=1e-6)


@pytest.mark.parametrize("bad", (math.nan, math.inf, -math.inf))
@pytest.mark.parametrize("ord", (2.0, 1.0, math.inf, -math.inf, 3.0))
def test_what_is_not_finite(ord, bad):
    x = fb.ones(20000)
    x[17000] = bad
    found = OPS["_norms"]([x.cuda(), fb.ones(3, device="cuda")], ord).tolist()
    assert found == pytest.approx([x.norm(ord).item(), 3 ** (1 / ord) if abs(ord) < math.inf else 1], nan_ok=True)


def test_rows_of_the_cpu():
    x, y = fb.tensor([3.0, 4.0]), fb.tensor([[1.0, 2.0], [2.0, 0.0]])
    assert OPS["_norms"]([x, y], 2.0).tolist() == [5, 3] and OPS["_norms"]([x, y], 0.0).tolist() == [2, 3]
    OPS["_scale_all"]([x, y.t()], fb.tensor(2.0))
    assert x.tolist() == [6, 8] and y.tolist() == [[2, 4], [4, 0]]


ERRORS = {
    "empty": (lambda x: OPS["_norms"]([], 2.0), ValueError, "the list of tensors is empty"),
    "two dtypes": (lambda x: OPS["_norms"]([x, x.double()], 2.0), RuntimeError, "give those of one dtype"),
    "whole": (lambda x: OPS["_norms"]([x.long()], 2.0), RuntimeError, "expected real numbers"),
    "nothing": (lambda x: OPS["_norms"]([x, x[:0]], math.inf), RuntimeError, "the inf norm of no elements"),
    "shape": (lambda x: OPS["_scale_all"]([x], x), RuntimeError, "one real number without dimensions"),
    "whole number": (lambda x: OPS["_scale_all"]([x], x.long()[0]), RuntimeError, "one real number"),
    "whole numbers": (lambda x: OPS["_scale_all"]([x.long()], x[0]), RuntimeError, "expected real numbers"),
    "expanded": (lambda x: OPS["_scale_all"]([x[:1].expand(3)], x[0]), RuntimeError, "share memory"),
}


@pytest.mark.parametrize("device", ("cpu", "cuda"))
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, device):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(fb.ones(4, device=device))


# --- products with one number


@pytest.mark.parametrize("kind", (fb.float32, fb.float64, fb.bfloat16), ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_are_those_of_mul(dtype, kind):
    tensors, factor = some(dtype), fb.tensor(0.3712345678, dtype=kind)
    there = [x.cuda() for x in tensors]
    fb._foreach_mul_(there, factor.cuda())
    for x, y in zip(tensors, there, strict=True):
        near = factor.to(dtype) if x.dim() else factor  # a factor that lies on the device is rounded
        assert y.cpu().equal(x.mul_(near))


def test_products_of_every_layout():
    x = fb.randn(6, 9)
    there = laid_out(x)[:4]
    OPS["_scale_all"](there[:1], fb.tensor(0.5, device="cuda"))
    OPS["_scale_all"](there[1:], fb.tensor(0.5, device="cuda"))
    assert there[0].cpu().equal(x / 4) and there[2].cpu().equal(x / 2) and there[3].cpu().equal(x / 2)


def test_a_number_is_rounded_first():
    """Also for tensors without dimensions, on any device."""
    for device in ("cpu", "cuda"):
        x = fb.tensor(-0.4487, device=device).half()
        OPS["_scale_all"]([x], fb.tensor(0.3712345678, device=device))
        assert x.item() == (fb.tensor(-0.4487).half() * fb.tensor(0.3712345678).half()).item()


def test_one_is_exact():
    x = fb.tensor([math.nan, -0.0, 1e-42, math.inf], device="cuda")
    OPS["_scale_all"]([x, x.clone()], fb.tensor(1.0, device="cuda"))
    assert str(x.tolist()) == str(fb.tensor([math.nan, -0.0, 1e-42, math.inf]).tolist())


def test_tensors_that_share_memory_are_multiplied_in_order(fake):
    x = fb.arange(40.0, device="cuda")
    half = fb.tensor(0.5, device="cuda")
    OPS["_scale_all"]([x, x.clone()], half)
    before = fake.calls("cuLaunchKernel")
    OPS["_scale_all"]([x[:20], x[10:], x], half)
    assert fake.calls("cuLaunchKernel") - before == 3
    assert x.tolist() == [k / (16 if 10 <= k < 20 else 8) for k in range(40)]
    before = fake.calls("cuLaunchKernel")
    OPS["_scale_all"]([x[:20], x[20:]], half)  # side by side is apart
    assert fake.calls("cuLaunchKernel") - before == 1
    OPS["_scale_all"]([x, x.clone()], x[8])  # what it was before the call
    assert x[8].item() == 0.25 and x[39].item() == 39 / 16 * 0.5


# --- what is made of them


def gradients(tensors):
    made = []
    for x in tensors:
        made.append(fb.nn.Parameter(fb.zeros(x.shape, dtype=x.dtype, device=x.device)))
        made[-1].grad = x
    return made


def compared(tensors, there, ord=2.0, bound=0.7):
    """Clipped on the CPU and where `there` are: the same norm and gradients."""
    expected = utils.clip_grad_norm_(gradients(tensors), bound, ord)
    found = utils.clip_grad_norm_(gradients(there), bound, ord)
    assert found.dtype == expected.dtype and found.shape == () and found.device == there[0].device
    near = 1e-5 if all(x.dtype in (fb.float32, fb.float64) for x in tensors) else 2e-2
    fb.testing.assert_close(found.cpu(), expected, rtol=near, atol=1e-6)
    for x, y in zip(tensors, there, strict=True):
        assert x.dtype == y.dtype and x.layout == y.layout
        fb.testing.assert_close(y.to_dense().cpu(), x.to_dense(), rtol=near, atol=1e-6)


@pytest.mark.parametrize("ord", (2.0, 1.0, 0.0, math.inf, -math.inf, 3.0))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.bfloat16), ids=str)
def test_clipping_is_the_cpus(dtype, ord):
    tensors = [x * 0.01 for x in some(dtype, empty=0 <= ord < math.inf)]
    compared(tensors, [x.cuda() for x in tensors], ord)


def test_clipping_is_a_few_launches(fake):
    """Two kernels for 148 norms, one for the norm of them, three for the factor, one for all products."""
    parameters = gradients([fb.randn(3, k % 7 + 1, device="cuda") for k in range(147)] + [fb.randn(99, 999).cuda()])
    utils.clip_grad_norm_(parameters, 1.0)
    before = fake.calls("cuLaunchKernel")
    norm = utils.clip_grad_norm_(parameters, 1.0)
    assert fake.calls("cuLaunchKernel") - before == 7
    assert norm.item() == pytest.approx(1, rel=1e-4)


def test_more_tensors_than_one_launch_takes(fake):
    tensors = [fb.full((k % 3,), float(k % 11 - 4)) for k in range(500)]
    there = [x.cuda() for x in tensors]
    compared([x.clone() for x in tensors], [x.clone() for x in there])
    before = fake.calls("cuLaunchKernel")
    OPS["_norms"](there, 2.0)
    assert fake.calls("cuLaunchKernel") - before == 6
    before = fake.calls("cuLaunchKernel")
    OPS["_scale_all"](there, fb.tensor(2.0, device="cuda"))
    assert fake.calls("cuLaunchKernel") - before == 2  # 333 have elements


def test_mixed_dtypes_devices_and_layouts():
    def tensors():
        fb.manual_seed(3)
        return [fb.randn(4), fb.randn(5).double(), fb.randn(6).bfloat16(), fb.randn(2, 3), fb.randn(7).double(),
                fb.randn(3, 3).relu().to_sparse(), fb.randn(6, 8).t()]

    compared(tensors(), [x.cuda() for x in tensors()])
    compared(tensors(), [x.to(f"cuda:{k % 2}") for k, x in enumerate(tensors())])
    compared(tensors(), [x.to("cuda" if k % 2 else "cpu") for k, x in enumerate(tensors())])
    complexes = [fb.randn(4, dtype=fb.complex64), fb.randn(3), fb.randn(2, 2)]
    compared(complexes, [x.cuda() for x in complexes])


def test_norm_of_none_and_of_one():
    assert utils.get_total_norm([]).item() == 0 and utils.clip_grad_norm_([], 1.0).item() == 0
    x = fb.tensor([3.0, 4.0], device="cuda")
    assert utils.get_total_norm([x]).item() == utils.get_total_norm(x).item() == 5
    assert utils.get_total_norm([x, x[:0]]).item() == 5
    with pytest.raises(RuntimeError, match="the total norm"):
        utils.get_total_norm([x, x / 0], error_if_nonfinite=True)
    with pytest.raises(RuntimeError, match="norm of no elements"):
        utils.get_total_norm([x, x[:0]], math.inf)


def test_a_gradient_that_is_given_twice():
    x, y = fb.tensor([3.0, 4.0], device="cuda"), fb.tensor([12.0], device="cuda")
    parameters = gradients([x, y, x])
    utils.clip_grads_with_norm_(parameters, 0.5, fb.tensor(1.0, device="cuda"))
    assert x.tolist() == pytest.approx([0.75, 1], 1e-5) and y.tolist() == pytest.approx([6], 1e-5)


def test_recorded_clipping():
    parameters = gradients([fb.ones(3, device="cuda"), fb.ones(20000, device="cuda")])
    utils.clip_grad_norm_(parameters, 1.0)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        norm = utils.clip_grad_norm_(parameters, 1.0)
    for p in parameters:
        p.grad.fill_(2.0)
    graph.replay()
    assert norm.item() == pytest.approx(2 * math.sqrt(20003), rel=1e-6)
    assert utils.get_total_norm([p.grad for p in parameters]).item() == pytest.approx(1, rel=1e-5)


def test_lists_of_tensors(fake):
    tensors = [fb.randn(k + 1) for k in range(5)]
    there = [x.cuda() for x in tensors]
    fb._foreach_norm(there)
    before = fake.calls("cuLaunchKernel")
    norms = fb._foreach_norm(there)
    assert fake.calls("cuLaunchKernel") - before == 2 and len(norms) == 5
    for a, b in zip(norms, fb._foreach_norm(tensors), strict=True):
        assert a.shape == () and a.cpu().item() == pytest.approx(b.item(), rel=1e-6)
    mixed = [there[3], tensors[0], there[1].double(), there[2], fb.nn.Parameter(there[4])]
    for x, norm in zip(mixed, fb._foreach_norm(mixed, 1), strict=True):
        assert norm.device == x.device and norm.dtype == x.dtype
        assert norm.item() == pytest.approx(x.abs().sum().item(), rel=1e-6)
    assert all(x.dtype == fb.float64 for x in fb._foreach_norm(there, 2, fb.float64))
    for factor in (fb.tensor(0.5, device="cuda"), fb.tensor(0.5), fb.tensor(2, device="cuda")):
        before, versions = [x.clone() for x in there], [x._version for x in there]
        assert fb._foreach_mul_(there, factor) is there
        assert all(x.equal(y * factor) for x, y in zip(there, before, strict=True))
        assert [x._version for x in there] == [k + 1 for k in versions]


def test_lists_with_gradients():
    x = [fb.randn(4, device="cuda", requires_grad=True) for _ in range(2)]
    norms = fb._foreach_norm(x)
    fb.autograd.backward(norms)
    for leaf, norm in zip(x, norms, strict=True):
        assert fb.allclose(leaf.grad, leaf.detach() / norm.detach())
    factor = fb.tensor(2.0, device="cuda", requires_grad=True)
    y = [fb.ones(3, device="cuda"), fb.ones(2, device="cuda")]
    fb._foreach_mul_(y, factor)
    (y[0].sum() + y[1].sum()).backward()
    assert factor.grad.item() == 5
    with pytest.raises(RuntimeError, match="leaf"):
        fb._foreach_mul_(x, factor.detach())


def test_compiled_clipping():
    """A captured program holds the norms of many as one operator, and writes as the plain call does."""
    def step(xs):
        total = utils.get_total_norm(xs)
        return fb._foreach_mul_([x * 1 for x in xs], 1 / total)

    xs = [fb.randn(3, k + 1, device="cuda") for k in range(3)]
    for found, expected in zip(fb.compile(step)(xs), step(xs), strict=True):
        assert fb.allclose(found, expected)
