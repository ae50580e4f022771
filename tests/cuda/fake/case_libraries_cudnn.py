"""Convolutions and batch normalisation by a cuDNN that is a fake."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn import functional as F

from . import FakeLibrary, driver, numbers

DNN = FakeLibrary("cudnn")
SWITCHES = fb.backends.cudnn

pytestmark = pytest.mark.usefixtures("own_kernels")


@pytest.fixture(autouse=True)
def exact():
    """float32 is not rounded to TF32, unless a test asks for it."""
    with SWITCHES.flags(enabled=True, fp32_precision="ieee"):
        yield


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution")


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16), ids=str)
def test_convolutions_of_the_op_table(dtype):
    total, before = 0, DNN.calls("execute")
    for name in CONVOLUTIONS:
        if name in numbers.battery.OPS:
            agreed, wrong = numbers.compare(name, dtype)
            assert not wrong, wrong[0]
            total += agreed
    assert total > 10 and DNN.calls("execute") - before > 2 * total


@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("transposed", (False, True))
def test_forms(transposed, last):
    """Strides, paddings, dilations, groups; gradients; the channels first and last."""
    layout = fb.channels_last if last else fb.contiguous_format
    f = F.conv_transpose2d if transposed else F.conv2d
    for stride, padding, dilation, groups in ((1, 0, 1, 1), ((2, 1), (1, 0), 1, 2), (2, 1, (2, 1), 4)):
        x = fb.linspace(-1, 1, 2 * 4 * 7 * 6).view(2, 4, 7, 6).sin().contiguous(memory_format=layout)
        w = fb.linspace(-1, 1, 4 * 4 // groups * 3 * 2).view(4, 4 // groups, 3, 2).cos()
        results = []
        for device in ("cpu", "cuda"):
            a, b, c = (t.to(device).detach().requires_grad_() for t in (x, w, fb.linspace(0, 1, 4)))
            before = DNN.calls("execute")
            y = f(a, b, c, stride=stride, padding=padding, dilation=dilation, groups=groups)
            (y * y.detach().cos()).sum().backward()
            assert DNN.calls("execute") - before == (3 if device == "cuda" else 0)
            results.append((y.detach(), a.grad, b.grad, c.grad))
        assert all(numbers.same(p, q) for p, q in zip(results[1], results[0], strict=True))
        assert results[1][0].is_contiguous(memory_format=layout)


def test_what_cudnn_cannot_say_is_computed_by_our_own_kernel():
    x, w = fb.ones(1, 1, 3), fb.ones(1, 1, 2)
    before = DNN.calls("execute")
    options = {"stride": 1, "dilation": 3, "output_padding": 2}
    assert numbers.same(F.conv_transpose1d(x.cuda(), w.cuda(), **options), F.conv_transpose1d(x, w, **options))
    assert numbers.same(F.conv1d(x.cuda().long(), w.cuda().long()), F.conv1d(x.long(), w.long()))
    assert DNN.calls("execute") == before


def found(x, w):
    y = F.conv1d(x, w)
    return y, DNN.library.fake_last_engine()


def test_switches_choose_engines():
    x, w = fb.full((1, 1, 4), 1 + 2.0**-12).cuda(), fb.ones(1, 1, 2).cuda()
    assert found(x, w)[1] == 1  # the first that does not round to TF32
    with SWITCHES.flags(enabled=True, allow_tf32=True):
        assert SWITCHES.conv.fp32_precision == "tf32"
        y, engine = found(x, w)
        assert engine == 0 and y.cpu()[0, 0, 0] == 2
    with SWITCHES.flags(enabled=True, fp32_precision="ieee", deterministic=True):
        assert found(x, w)[1] == 2
    before = DNN.calls("execute")
    with SWITCHES.flags(enabled=False):
        F.conv1d(x, w)
    assert DNN.calls("execute") == before
    fb.use_deterministic_algorithms(True)
    try:
        assert found(x, w)[1] == 2
    finally:
        fb.use_deterministic_algorithms(False)
    assert found(x.half(), w.half())[1] == 0 and found(x, w)[1] == 1


def test_benchmark_times_engines_once():
    x, w = fb.ones(1, 1, 9).cuda(), fb.ones(1, 1, 2).cuda()
    with SWITCHES.flags(enabled=True, benchmark=True, fp32_precision="ieee"):
        before = DNN.calls("execute")
        F.conv1d(x, w)
        first = DNN.calls("execute") - before
        F.conv1d(x, w)
        assert first > 2 and DNN.calls("execute") - before == first + 1
        assert numbers.same(F.conv1d(x, w), F.conv1d(x.cpu(), w.cpu()))


def test_threads_that_benchmark_the_same_convolution(fake, frequent_switches):
    x, w = fb.ones(1, 1, 5000).cuda(), fb.ones(1, 1, 2).cuda()
    fake.delay(True)
    expected = F.conv1d(x.cpu(), w.cpu())

    def call():
        together.wait()
        with fb.cuda.stream(fb.cuda.Stream()):
            return F.conv1d(x, w).cpu()

    def rounds(threads):
        _C._cuda.forget_plans()
        before = DNN.calls("execute")
        found = [pool.submit(call) for _ in range(threads)]
        assert all(numbers.same(f.result(), expected) for f in found)
        return DNN.calls("execute") - before

    with SWITCHES.flags(enabled=True, benchmark=True, fp32_precision="ieee"), ThreadPoolExecutor(4) as pool:
        together = threading.Barrier(1)
        alone = rounds(1)
        together = threading.Barrier(4)
        assert {rounds(4) for _ in range(30)} == {alone + 3}


def test_an_engine_that_fails_while_it_is_timed_leaves_the_others():
    x, w = fb.ones(1, 1, 9).cuda(), fb.ones(1, 1, 2).cuda()
    with SWITCHES.flags(enabled=True, benchmark=True, fp32_precision="ieee"):
        _C._cuda.forget_plans()
        events = driver().calls("cuEventCreate") - driver().calls("cuEventDestroy")
        DNN.fail(2, "execute", status=5000)
        with pytest.raises(RuntimeError, match="conv"):
            F.conv1d(x, w)
        assert driver().calls("cuEventCreate") - driver().calls("cuEventDestroy") == events
        assert numbers.same(F.conv1d(x, w), F.conv1d(x.cpu(), w.cpu()))


def test_recorded_in_a_graph():
    x, w = fb.linspace(0, 1, 9).view(1, 1, 9).cuda(), fb.ones(1, 1, 2).cuda()
    F.conv1d(x, w)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        y = F.conv1d(x, w)
    x.mul_(3)
    graph.replay()
    assert numbers.same(y, F.conv1d(x.cpu(), w.cpu()))


@pytest.mark.parametrize("status", (2000, 3000, 5000))
def test_every_status_in_turn_leaves_everything_usable(status):
    x, w = fb.linspace(0, 1, 8).view(1, 2, 4), fb.linspace(1, 2, 12).view(3, 2, 2)
    expected = F.conv1d(x, w)
    a, b = x.cuda(), w.cuda()
    _C._cuda.forget_plans()
    alive = DNN.alive()
    for n in range(1, 400):
        DNN.fail(n, status=status)
        try:
            assert numbers.same(F.conv1d(a, b), expected)
        except RuntimeError as error:
            assert "convolution: cuDNN: CUDNN_STATUS_" in str(error) and " in cudnn" in str(error)
            assert status != 3000  # not supported: our own kernel computes
        left = DNN.left()
        DNN.fail(0)
        assert numbers.same(F.conv1d(a, b), expected)
        _C._cuda.forget_plans()
        assert DNN.alive() == alive
        if left:
            break
    assert 50 < n < 399
