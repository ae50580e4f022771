"""Plans that call NVIDIA's libraries: matrix products by a cuBLASLt that is a fake, and what all libraries share."""

import itertools

import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn import functional as F

from . import FakeLibrary, numbers

LT = FakeLibrary("cublaslt")
pytestmark = pytest.mark.usefixtures("own_kernels")


def calls(f):
    """How many products the library computed meanwhile."""
    before = LT.calls("matmul")
    f()
    return LT.calls("matmul") - before


def ramp(*shape, dtype=fb.float32):
    n = fb.Size(shape).numel()
    return (fb.arange(n) % 13 - 6).to(dtype).view(shape) / 4 if dtype.is_floating_point else \
        (fb.arange(n) % 13 - 6).to(dtype).view(shape)


PRODUCTS = ("mm", "bmm", "mv", "dot", "matmul", "addmm", "baddbmm", "linear", "addmm_", "baddbmm_", "addbmm",
            "chain_matmul", "einsum", "bilinear")


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16, fb.complex64, fb.complex128),
                         ids=str)
def test_products_of_the_op_table(dtype):
    total, before = 0, LT.calls("matmul")
    for name in PRODUCTS:
        if name not in numbers.battery.OPS:
            continue
        agreed, wrong = numbers.compare(name, dtype)
        assert not wrong, wrong[0]
        total += agreed
    assert total > 20 and LT.calls("matmul") - before > total


@pytest.mark.parametrize("dtype", (fb.int64, fb.int8, fb.uint8), ids=str)
def test_whole_numbers(dtype):
    a, b = ramp(4, 8, dtype=dtype), ramp(8, 4, dtype=dtype)
    assert fb.equal((a.cuda() @ b.cuda()).cpu(), a @ b)


def test_int8_goes_through_the_library():
    a, b = ramp(4, 8, dtype=fb.int8).cuda(), ramp(8, 4, dtype=fb.int8).cuda()
    assert calls(lambda: a @ b) == 1
    assert calls(lambda: a[:, :7] @ b[:7]) == 0  # runs of 7 bytes, which the library does not take
    assert calls(lambda: a @ b[:, :3]) == 0  # nor rows of 3 numbers in the result


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "padded": lambda x: fb.cat([x, x], -1)[..., :x.shape[-1]],
    "every other": lambda x: fb.stack([x, x], -1).flatten(-2)[..., ::2],
    "shifted": lambda x: fb.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].view(x.shape),
    "batch last": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "expanded": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_layouts(left, right):
    a, b = ramp(3, 4, 5), ramp(3, 5, 6) * 2
    def one(device):
        x, y = LAYOUTS[left](a.to(device)), LAYOUTS[right](b.to(device))
        return x @ y, fb.baddbmm(x[:, :, :1].expand(3, 4, 6), x, y, beta=0.5, alpha=2)
    for found, expected in zip(one("cuda"), one("cpu"), strict=True):
        assert numbers.same(found, expected)


def test_one_matrix_for_a_batch_is_one_product():
    x, w = ramp(2, 3, 4, 5).cuda(), ramp(6, 5).cuda()
    b = ramp(6).cuda()
    assert calls(lambda: x @ w.t()) == calls(lambda: F.linear(x, w, b)) == 1
    assert numbers.same(F.linear(x, w, b), F.linear(x.cpu(), w.cpu(), b.cpu()))
    assert numbers.same(x.transpose(1, 2) @ w.t(), x.cpu().transpose(1, 2) @ w.cpu().t())


def test_a_result_given_in_any_layout():
    a, b = ramp(4, 5), ramp(5, 6)
    for out in (fb.empty(6, 4).t(), fb.empty(4, 12)[:, ::2], fb.empty(4, 7)[:, :6]):
        there = out.cuda()
        there = fb.empty_strided(out.shape, out.stride(), device="cuda") if out.stride() != there.stride() else there
        fb.mm(a.cuda(), b.cuda(), out=there)
        assert numbers.same(there, a @ b)


def test_nothing_to_multiply():
    for m, k, n in ((0, 3, 2), (2, 0, 3), (2, 3, 0)):
        a, b = fb.ones(m, k), fb.ones(k, n)
        assert fb.equal((a.cuda() @ b.cuda()).cpu(), a @ b)
        assert fb.equal(fb.addmm(fb.ones(n).cuda(), a.cuda(), b.cuda()).cpu(), fb.addmm(fb.ones(n), a, b))


# --- what follows a product -------------------------------------------------------------------------------------------

TAILS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")


@pytest.mark.parametrize("library", (True, False))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float16, fb.bfloat16), ids=str)
def test_tails(dtype, library, monkeypatch):
    if not library:
        without_libraries(monkeypatch)
    tail = fb.ops.aten._linear_tail.default
    x, w, b, whole = (ramp(*shape).cuda() for shape in ((2, 3, 5), (4, 5), (4,), (2, 3, 4)))
    for bias, other, name in itertools.product((None, b), (None, b * 2, whole), TAILS):
        expected = F.linear(x.cpu(), w.cpu(), None if bias is None else bias.cpu())
        expected = expected if other is None else expected + other.cpu()
        expected = ACTIVATIONS[name](expected).to(dtype)
        args = [None if t is None else t.to(dtype) for t in (x, w, bias, other)]
        for columns in (False, True):
            args[1] = w.to(dtype).t().contiguous() if columns else w.to(dtype)
            found = []
            assert calls(lambda: found.append(tail(*args, name, columns))) == library  # noqa: B023
            assert numbers.same(found[0], expected)


ACTIVATIONS = {"none": lambda y: y, "relu": fb.relu, "gelu": F.gelu, "silu": F.silu, "tanh": fb.tanh,
               "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"), "sigmoid": fb.sigmoid}


def launches(fake, f):
    before = fake.calls("cuLaunchKernel")
    f()
    return fake.calls("cuLaunchKernel") - before


def test_activations_on_the_way_need_no_kernel(fake):
    tail, x, w, b = fb.ops.aten._linear_tail.default, ramp(3, 4).cuda(), ramp(8, 4).cuda(), ramp(8).cuda()
    for name in ("relu", "gelu_tanh"):
        tail(x, w, b, None, name, False)
        assert launches(fake, lambda name=name: tail(x, w, b, None, name, False)) == 0
        assert launches(fake, lambda name=name: tail(x, w, None, b, name, False)) == 0
    assert launches(fake, lambda: tail(x, w, b, None, "silu", False)) == 1


def test_a_compiled_layer_is_one_call_with_its_activation(fake):
    x, w, b = ramp(3, 4).cuda(), ramp(8, 4).cuda(), ramp(8).cuda()
    forms = {"relu": lambda x, w, b: F.relu(F.linear(x, w, b)), "a row": lambda x, w, b: (x @ w.t() + b).relu(),
             "halves": lambda x, w, b: F.linear(x.half(), w.half(), b.half()).relu()}
    for name, f in forms.items():
        compiled, expected = fb.compile(f), f(x.cpu(), w.cpu(), b.cpu())
        assert numbers.same(compiled(x, w, b), expected)
        assert calls(lambda compiled=compiled: compiled(x, w, b)) == 1
        assert "_linear_tail" in str(compiled.report(x, w, b)), name
    rough = {"fast_math": True}

    def gelu(x, w, b):
        return F.gelu(F.linear(x, w, b), approximate="tanh")
    assert "_linear_tail" not in str(fb.compile(gelu).report(x, w, b))
    compiled = fb.compile(gelu, options=rough)
    assert numbers.same(compiled(x, w, b), gelu(x.cpu(), w.cpu(), b.cpu()))
    assert launches(fake, lambda: compiled(x, w, b)) == 0


def test_halves_on_the_cpu_keep_their_calls_beside_a_device():
    x, w = ramp(3, 4), ramp(8, 4)
    compiled = fb.compile(lambda x, w, there: (F.relu(F.linear(x.half(), w.half())), there * 2))
    assert numbers.same(compiled(x, w, x.cuda())[0], F.relu(F.linear(x.half(), w.half())))


@pytest.mark.parametrize("dtype", (fb.float32, fb.float16, fb.bfloat16, fb.float64, fb.complex64), ids=str)
def test_a_bias_s_gradient_comes_with_the_weight_s(dtype, fake):
    def gradients(device):
        x, w, b = (ramp(*shape).to(device, dtype).requires_grad_() for shape in ((2, 3, 5), (8, 5), (8,)))
        out = F.linear(x, w, b)
        found = fb.autograd.grad(out, (x, w, b), fb.ones_like(out), retain_graph=True)
        return found, lambda: fb.autograd.grad(out, (w, b), fb.ones_like(out))
    there, again = gradients("cuda")
    assert all(map(numbers.same, there, gradients("cpu")[0]))
    one = fb.ones(1, device="cuda").to(dtype)
    if dtype in (fb.float32, fb.float16, fb.bfloat16):
        assert launches(fake, again) == launches(fake, lambda: fb.ones_like(one))


def test_what_cannot_be_done_on_the_way_is_done_after():
    _C._cuda.forget_plans()
    x, w, b = ramp(6, 5).cuda(), ramp(8, 5).cuda().requires_grad_(), ramp(8).cuda().requires_grad_()
    loss = F.linear(x, w, b).sum()
    LT.fail(1, "heuristic", 15)
    assert calls(lambda: loss.backward()) == 1 and numbers.same(b.grad, fb.full((8,), 6.0))
    assert numbers.same(w.grad, fb.ones(8, 6) @ x.cpu())
    _C._cuda.forget_plans()
    LT.fail(1, "heuristic", 15)
    with fb.no_grad():
        tail = fb.ops.aten._linear_tail.default
        assert calls(lambda: tail(x, w, b, None, "relu", False)) == 1
        assert numbers.same(tail(x, w, b, None, "relu", False), F.relu(F.linear(x.cpu(), w.cpu(), b.cpu())))


# --- 8-bit floats with scales -----------------------------------------------------------------------------------------

E4, E5 = fb.float8_e4m3fn, fb.float8_e5m2


@pytest.mark.parametrize("library", (True, False))
@pytest.mark.parametrize("shape", ((3, 32, 16), (5, 7, 3)), ids=("as the library takes it", "any"))
@pytest.mark.parametrize("kinds", ((E4, E4), (E5, E4), (E4, E5), (E5, E5)), ids=str)
def test_products_of_8_bit_floats(kinds, shape, library, monkeypatch):
    if not library:
        without_libraries(monkeypatch)
    m, k, n = shape
    a, b = ramp(m, k).to(kinds[0]), ramp(n, k).to(kinds[1])
    scales = {"one": (fb.tensor(0.5), fb.tensor([2.0])), "rows": (1 + fb.arange(m).view(m, 1) / 8,
                                                                  2 - fb.arange(n).view(1, n) / 32)}
    for of_a, of_b in scales.values():
        for bias, to in ((None, None), (None, fb.float32), (fb.bfloat16, fb.bfloat16), (fb.float16, fb.float16),
                         (fb.float32, fb.float32), (fb.bfloat16, E4)):
            row = None if bias is None else ramp(n, dtype=fb.float32).to(bias)
            for right in (b.t(), b.t().contiguous()):
                expected = fb._scaled_mm(a, right, of_a, of_b, row, None, to)
                args = [None if t is None else t.cuda() for t in (a, b, of_a, of_b, row)]
                args[1] = args[1].t() if right.stride(0) == 1 else args[1].t().contiguous()
                found = []
                assert calls(lambda: found.append(fb._scaled_mm(*args, None, to))) == library  # noqa: B023
                assert found[0].dtype == expected.dtype and numbers.same(found[0].float(), expected.float(), 1e-2)
    scale = fb.tensor(0.25)
    found = fb._scaled_mm(a.cuda(), b.cuda().t(), *(s.cuda() for s in scales["one"]), None, scale.cuda())
    assert numbers.same(found.float(), fb._scaled_mm(a, b.t(), *scales["one"], None, scale).float(), 0.1)


def test_a_library_without_scales_by_row_multiplies_in_bfloat16():
    a, b = ramp(4, 32).to(E4), ramp(16, 32).to(E4)
    of_a, of_b = fb.full((4, 1), 0.5), fb.full((1, 16), 2.0)
    expected = fb._scaled_mm(a, b.t(), of_a, of_b, out_dtype=fb.bfloat16)
    _C._cuda.forget_plans()
    LT.fail(4, "desc_set", 7)  # the attribute that an old one does not know
    found = []
    there = [t.cuda() for t in (a, b, of_a, of_b)]
    assert calls(lambda: found.append(fb._scaled_mm(there[0], there[1].t(), *there[2:], out_dtype=fb.bfloat16))) == 1
    assert numbers.same(found[0], expected)


def test_what_the_library_calls_an_invalid_value_is_multiplied_in_bfloat16():
    """A result of 8 bits with scales by row. Of one scale for each matrix the same answer is an error."""
    a, b = ramp(4, 32).to(E4), ramp(16, 32).to(E4)
    there, launches = (a.cuda(), b.cuda().t()), []
    for scales in ((fb.tensor(0.5), fb.tensor(2.0)), (fb.full((4, 1), 0.5), fb.full((1, 16), 2.0))):
        args = (*there, *(s.cuda() for s in scales))
        found = fb._scaled_mm(*args, out_dtype=E4)
        assert numbers.same(found.float(), fb._scaled_mm(a, b.t(), *scales, out_dtype=E4).float(), 0.1)
        before = _C._cuda.plan_counts()["launches"]
        assert calls(lambda: fb._scaled_mm(*args, out_dtype=E4)) == 1  # noqa: B023
        launches.append(_C._cuda.plan_counts()["launches"] - before)
    assert launches == [0, 3]  # both matrices are widened, and what comes out is scaled
    _C._cuda.forget_plans()
    LT.fail(1, "heuristic", 7)
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        fb._scaled_mm(*there, fb.tensor(0.5).cuda(), fb.tensor(2.0).cuda(), out_dtype=E4)


BYTES = {"rows": lambda x: x, "columns": lambda x: x.mT.contiguous().mT, "expanded": lambda x: x[:1].expand(x.shape),
         "shifted": lambda x: fb.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
         "apart": lambda x: fb.cat([x, x[..., :1]], -1)[..., :-1]}


@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("left", BYTES)
def test_bytes_of_any_layout_go_through_the_library(left, right):
    """Which takes one form: both in runs of what is summed over."""
    a, b = ramp(2, 3, 8, dtype=fb.int8), ramp(2, 8, 4, dtype=fb.int8)
    x, y = BYTES[left](a.cuda()), BYTES[right](b.cuda())
    for f in (lambda x, y: x @ y, lambda x, y: x @ y[0], lambda x, y: x[0] @ y[1], lambda x, y: x[0] @ y,
              lambda x, y: x.unsqueeze(0) @ y.unsqueeze(1), lambda x, y: fb._int_mm(x[1], y[1])):
        found = []
        assert calls(lambda: found.append(f(x, y))) == 1  # noqa: B023
        assert fb.equal(found[0].cpu(), f(BYTES[left](a), BYTES[right](b)))


def test_8_bit_floats_are_converted_on_the_device():
    x = fb.cat([fb.linspace(-600, 600, 4001), fb.linspace(-0.02, 0.02, 999), fb.linspace(-7e4, 7e4, 999),
                fb.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])])
    for dtype in (E4, E5):
        there = x.cuda().to(dtype)
        assert fb.equal(there.cpu().view(fb.uint8), x.to(dtype).view(fb.uint8))
        every = fb.arange(256).to(fb.uint8).view(dtype)
        for to in (fb.float32, fb.float16, fb.bfloat16, E4, E5):
            found, expected = every.cuda().to(to).cpu().float(), every.to(to).float()
            assert fb.equal(found.isnan(), expected.isnan())
            assert fb.equal(found.nan_to_num(9e9), expected.nan_to_num(9e9))


# --- switches ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def switches():
    before = fb.get_float32_matmul_precision()
    yield fb.backends.cuda.matmul
    fb.set_float32_matmul_precision(before)


def test_tf32_is_for_those_who_ask(switches):
    a = fb.tensor([[1 + 2.0**-12]])
    there = a.cuda()

    def found():
        return (there @ there).item()
    exact = (a @ a).item()
    assert found() == exact
    switches.allow_tf32 = True
    assert found() == 1 and fb.get_float32_matmul_precision() == "high"
    switches.allow_tf32 = False
    assert found() == exact
    fb.set_float32_matmul_precision("medium")
    assert found() == 1 and switches.fp32_precision == "tf32"
    fb.set_float32_matmul_precision("highest")
    assert found() == exact
    switches.fp32_precision = "tf32"
    assert found() == 1
    switches.fp32_precision = "none"
    fb.backends.fp32_precision = "tf32"
    try:
        assert found() == 1
    finally:
        fb.backends.fp32_precision = "none"
    assert found() == exact


def test_switches_back_and_forth_make_no_new_plans(switches):
    a = ramp(4, 4).cuda()

    def both():
        for on in (True, False):
            switches.allow_tf32 = on
            a @ a
    both()
    before = _C._cuda.plan_counts()["made"]
    both()
    assert _C._cuda.plan_counts()["made"] == before


# --- what all libraries share -----------------------------------------------------------------------------------------

def test_repeated_calls_describe_nothing():
    w, x = ramp(8, 8).cuda(), ramp(2, 8).cuda()
    F.linear(x, w)
    before = {f: LT.calls(f) for f in ("desc_create", "layout_create", "heuristic")}
    plans = _C._cuda.plan_counts()
    for _ in range(5):
        F.linear(x, w)
    assert before == {f: LT.calls(f) for f in before}
    after = _C._cuda.plan_counts()
    assert after["libraries"] == plans["libraries"] + 5 and after["made"] == plans["made"]


def test_descriptors_die_with_their_plans():
    _C._cuda.forget_plans()
    before = LT.alive()
    ramp(4, 4).cuda() @ ramp(4, 4).cuda()
    assert LT.alive() == before + 5  # one of the product, four of the operands
    _C._cuda.forget_plans()
    assert LT.alive() == before


def test_every_status_in_turn_leaves_everything_usable():
    a, b = ramp(3, 4), ramp(4, 5)
    expected = a @ b
    _C._cuda.forget_plans()
    alive = LT.alive()
    for n in range(1, 40):
        x, y = a.cuda(), b.cuda()
        LT.fail(n)
        try:
            found = x @ y
        except RuntimeError as error:
            assert "matmul: cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED (13) in cublasLt" in str(error) or \
                "mm: cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED (13) in cublasLt" in str(error)
        else:
            if LT.left():
                break
        LT.fail(0)
        assert numbers.same(x @ y, expected)
        _C._cuda.forget_plans()
        assert LT.alive() == alive
    assert n > 10
    assert numbers.same(found, expected)


def test_what_the_library_does_not_support_is_computed_by_our_own_kernel():
    a, b = ramp(3, 4), ramp(4, 5)
    x, y = a.cuda(), b.cuda()
    _C._cuda.forget_plans()
    LT.fail(1, "heuristic", 15)
    assert calls(lambda: numbers.same(x @ y, a @ b)) == 0 and numbers.same(x @ y, a @ b)


def test_what_the_library_refuses_when_it_runs_is_computed_by_our_own_kernel():
    a, b = ramp(3, 4), ramp(4, 5)
    x, y = a.cuda(), b.cuda()
    for ready in (False, True):  # a plan that is new, and one that has served before
        _C._cuda.forget_plans()
        if ready:
            assert calls(lambda: x @ y) == 1
        LT.fail(1, "matmul", 15)
        assert numbers.same(x @ y, a @ b)
        assert calls(lambda: x @ y) == 0  # what has been found stays


def test_a_workspace_that_cannot_be_had(fake):
    x, y = ramp(3, 4).cuda(), ramp(4, 5).cuda()
    expected = (x @ y).cpu()
    fb.cuda.empty_cache()
    fake.limit(fake.used())
    held = []
    try:
        while True:
            held.append(fb.empty(128, device="cuda"))
    except fb.cuda.OutOfMemoryError:
        pass
    out = held.pop().view(-1)[:15].view(3, 5)
    with pytest.raises(fb.cuda.OutOfMemoryError, match="mm"):
        fb.mm(x, y, out=out)
    del held
    fake.limit()
    assert numbers.same(fb.mm(x, y, out=out), expected)


def test_products_are_recorded_in_graphs():
    a, w, bias = ramp(3, 4), ramp(5, 4).cuda(), ramp(5).cuda()
    x = a.cuda()
    F.linear(x, w, bias)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        y = F.linear(x, w, bias)
    for k in (1, 2):
        x.copy_(a * k)
        graph.replay()
        assert numbers.same(y, F.linear(a * k, w.cpu(), bias.cpu()))


def test_products_go_to_the_current_stream(fake):
    x = ramp(4, 4).cuda()
    x @ x
    fb.cuda.synchronize()
    stream = fb.cuda.Stream()
    fake.delay(True)
    with fb.cuda.stream(stream):
        y = x @ x
    assert fake.waiting(stream) == 1
    stream.synchronize()
    fake.delay(False)
    assert numbers.same(y, x.cpu() @ x.cpu())


def without_libraries(monkeypatch):
    from flambeau.cuda.kernels import libraries
    monkeypatch.setattr(libraries, "path_of", lambda name: None)
    _C._cuda.forget_plans()


def test_without_the_library_our_own_kernel_multiplies(monkeypatch):
    without_libraries(monkeypatch)
    x = ramp(4, 4).cuda()
    assert calls(lambda: x @ x) == 0 and numbers.same(x @ x, x.cpu() @ x.cpu())
    _C._cuda.forget_plans()
