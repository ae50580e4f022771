"""Memory that runs out: whichever allocation of a call fails, the call raises, changes nothing and loses nothing."""

import gc

import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn import functional as F

MOST = 2000  # allocations of one call


def reals(*shape, dtype=fb.float32):
    return fb.rand(*shape, dtype=dtype) + 0.5


def leaf(*shape):
    return reals(*shape).requires_grad_()


def matrix(n, dtype=fb.float64):
    a = fb.rand(n, n, dtype=dtype)
    return a @ a.mT + n * fb.eye(n, dtype=dtype)


def gradients(f, *inputs):
    """A forward and a backward pass."""
    return lambda: fb.autograd.grad(f(*inputs).sum(), inputs)


def lstm():
    layer, x = fb.nn.LSTM(6, 5, num_layers=2), reals(7, 3, 6)
    return [x, *layer.parameters()], lambda: layer(x)[0]


def lstm_of_many():
    layer, x = fb.nn.LSTM(32, 48), reals(5, 64, 32)
    return [x, *layer.parameters()], lambda: layer(x)[0].sum(0)


def lstm_backward():
    layer, x = fb.nn.LSTM(6, 5), leaf(7, 3, 6)
    return [x], lambda: fb.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()])


def of(f, *inputs):
    return list(inputs), lambda: f(*inputs)


def backward_of(f, *inputs):
    return list(inputs), gradients(f, *inputs)


CASES = {
    "add": lambda: of(fb.add, reals(3, 4), reals(4)),
    "add of a transposed": lambda: of(fb.add, reals(40, 30).t(), reals(30, 40)),
    "mixed dtypes": lambda: of(fb.mul, reals(3, 4), fb.arange(4)),
    "half precision": lambda: of(fb.exp, reals(300).to(fb.bfloat16)),
    "in place": lambda: of(lambda x: x.clone().mul_(2), reals(9)),
    "out": lambda: of(lambda x: fb.exp(x, out=fb.empty(0)), reals(9)),
    "to": lambda: of(lambda x: x.to(fb.float64), reals(9)),
    "contiguous": lambda: of(lambda x: x.t().contiguous(), reals(30, 40)),
    "tensor": lambda: of(lambda: fb.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "sum": lambda: of(lambda x: x.sum(1), reals(30, 40)),
    "sum of all, threaded": lambda: of(fb.sum, reals(300_000)),
    "var": lambda: of(fb.var, reals(30, 40)),
    "argmax": lambda: of(lambda x: x.argmax(0), reals(30, 40)),
    "cumsum": lambda: of(lambda x: x.cumsum(0), reals(30, 40)),
    "softmax": lambda: of(lambda x: x.softmax(0), reals(30, 40)),
    "logsumexp": lambda: of(lambda x: x.logsumexp(1), reals(30, 40)),
    "matmul": lambda: of(fb.matmul, reals(130, 140), reals(140, 150)),
    "matmul of a transposed": lambda: of(lambda a, b: a.mT @ b, reals(200, 200), reals(200, 200)),
    "large matmul": lambda: of(lambda a, b: (a @ b).sum(1), reals(410, 410), reals(410, 410)),
    "batched matmul": lambda: of(fb.matmul, reals(8, 30, 40), reals(8, 40, 20)),
    "float64 matmul": lambda: of(fb.matmul, reals(130, 130, dtype=fb.float64), reals(130, 130, dtype=fb.float64)),
    "bfloat16 matmul": lambda: of(fb.matmul, reals(60, 70).to(fb.bfloat16), reals(70, 50).to(fb.bfloat16)),
    "integer matmul": lambda: of(fb.matmul, fb.ones(30, 40, dtype=fb.int64), fb.ones(30, 40, dtype=fb.int64).mT),
    "complex matmul": lambda: of(fb.matmul, reals(30, 40).to(fb.complex64), reals(40, 30).to(fb.complex64)),
    "linear": lambda: of(F.linear, reals(70, 80), reals(90, 80), reals(90)),
    "einsum": lambda: of(lambda a, b: fb.einsum("bij,bjk->bik", a, b), reals(3, 4, 5), reals(3, 5, 6)),
    "conv1d": lambda: of(lambda x, w: F.conv1d(x, w, padding=1), reals(2, 3, 20), reals(4, 3, 3)),
    "conv2d": lambda: of(lambda x, w: F.conv2d(x, w, padding=1), reals(2, 8, 20, 20), reals(16, 8, 3, 3)),
    "conv2d of many channels": lambda:
        of(lambda x, w: F.conv2d(x, w, padding=1), reals(1, 64, 12, 12), reals(64, 64, 3, 3)),
    "conv2d of groups": lambda:
        of(lambda x, w: F.conv2d(x, w, groups=4, stride=2), reals(2, 8, 20, 20), reals(8, 2, 3, 3)),
    "float64 conv2d": lambda: of(F.conv2d, reals(2, 8, 20, 20, dtype=fb.float64), reals(16, 8, 3, 3, dtype=fb.float64)),
    "conv_transpose2d": lambda: of(F.conv_transpose2d, reals(2, 8, 10, 10), reals(8, 4, 3, 3)),
    "max_pool2d": lambda: of(lambda x: F.max_pool2d(x, 2, return_indices=True), reals(2, 3, 20, 20)),
    "avg_pool2d": lambda: of(lambda x: F.avg_pool2d(x, 3, padding=1), reals(2, 3, 20, 20)),
    "interpolate": lambda: of(lambda x: F.interpolate(x, size=(9, 11), mode="bilinear"), reals(2, 3, 20, 20)),
    "unfold": lambda: of(lambda x: F.unfold(x, 3), reals(2, 3, 20, 20)),
    "pad": lambda: of(lambda x: F.pad(x, (1, 2), mode="reflect"), reals(2, 3, 20)),
    "layer_norm": lambda: of(lambda x: F.layer_norm(x, (40,)), reals(30, 40)),
    "batch_norm": lambda: of(lambda x: F.batch_norm(x, None, None, training=True), reals(4, 3, 5, 5)),
    "attention": lambda:
        of(F.scaled_dot_product_attention, reals(2, 4, 30, 16), reals(2, 4, 30, 16), reals(2, 4, 30, 16)),
    "lstm": lstm,
    "lstm of many sequences": lstm_of_many,
    "cat": lambda: of(lambda *t: fb.cat(t), reals(3, 4), reals(5, 4), reals(4, 2).t()[:2]),
    "stack": lambda: of(lambda *t: fb.stack(t, 1), reals(3, 4), reals(3, 4)),
    "repeat": lambda: of(lambda x: x.repeat(3, 2), reals(3, 4)),
    "index": lambda: of(lambda x: x[[2, 0], 1:], reals(3, 4)),
    "mask": lambda: of(lambda x: x[x > 1], reals(300)),
    "index_put": lambda: of(lambda x: x.clone().index_put_((fb.tensor([1, 2]),), fb.ones(2)), reals(9)),
    "gather": lambda: of(lambda x: x.gather(1, fb.tensor([[0, 1], [1, 0]])), reals(2, 2)),
    "scatter_add": lambda: of(lambda x: fb.zeros(9).scatter_add(0, fb.arange(9) % 3, x), reals(9)),
    "nonzero": lambda: of(fb.nonzero, (reals(300) > 1)),
    "sort": lambda: of(fb.sort, reals(3000)),
    "sort of rows": lambda: of(lambda x: x.sort(0), reals(30, 40)),
    "topk": lambda: of(lambda x: x.topk(5), reals(300)),
    "unique": lambda: of(lambda x: fb.unique(x, return_inverse=True, return_counts=True), fb.arange(300) % 7),
    "median": lambda: of(lambda x: x.median(0), reals(30, 40)),
    "svd": lambda: of(fb.linalg.svd, reals(30, 40)),
    "eigh": lambda: of(fb.linalg.eigh, matrix(30)),
    "eig": lambda: of(fb.linalg.eigvals, reals(30, 30)),
    "qr": lambda: of(fb.linalg.qr, reals(30, 20)),
    "solve": lambda: of(fb.linalg.solve, matrix(30), reals(30, 2, dtype=fb.float64)),
    "cholesky": lambda: of(fb.linalg.cholesky, matrix(30)),
    "inv": lambda: of(fb.linalg.inv, matrix(5)),
    "fft": lambda: of(fb.fft.fft, reals(3, 101)),
    "rfft2": lambda: of(fb.fft.rfft2, reals(30, 20)),
    "cdist": lambda: of(fb.cdist, reals(30, 4), reals(20, 4)),
    "cross_entropy": lambda: of(F.cross_entropy, reals(30, 4), fb.arange(30) % 4),
    "ctc_loss": lambda:
        of(lambda x: F.ctc_loss(x, fb.ones(2, 3, dtype=fb.int64), (9, 9), (3, 3)), reals(9, 2, 5).log_softmax(2)),
    "embedding": lambda: of(lambda w: F.embedding(fb.arange(5), w), reals(9, 4)),
    "grid_sample": lambda:
        of(lambda x, g: F.grid_sample(x, g, align_corners=False), reals(1, 2, 5, 5), reals(1, 3, 3, 2) - 1),
    "randn": lambda: of(lambda: fb.randn(300)),
    "multinomial": lambda: of(lambda p: fb.multinomial(p, 3), reals(9)),
    "backward of arithmetic": lambda: backward_of(lambda x, y: (x * y).exp() / y, leaf(3, 4), leaf(4)),
    "backward of views": lambda: backward_of(lambda x: x.t()[1:].reshape(-1)[::2], leaf(30, 40)),
    "backward of matmul": lambda: backward_of(fb.matmul, leaf(60, 70), leaf(70, 50)),
    "backward of conv2d": lambda:
        backward_of(lambda x, w: F.conv2d(x, w, padding=1), leaf(2, 8, 20, 20), leaf(16, 8, 3, 3)),
    "backward of pooling": lambda: backward_of(lambda x: F.max_pool2d(x, 2), leaf(2, 3, 20, 20)),
    "backward of attention": lambda:
        backward_of(F.scaled_dot_product_attention, leaf(2, 4, 30, 16), leaf(2, 4, 30, 16), leaf(2, 4, 30, 16)),
    "backward of softmax": lambda: backward_of(lambda x: F.cross_entropy(x, fb.arange(30) % 4), leaf(30, 4)),
    "backward of layer_norm": lambda: backward_of(lambda x: F.layer_norm(x, (40,)), leaf(30, 40)),
    "backward of lstm": lstm_backward,
    "backward of svd": lambda: backward_of(fb.linalg.svdvals, leaf(6, 4)),
    "backward of index": lambda: backward_of(lambda x: x[[2, 0, 2]], leaf(3, 4)),
}


def numbers(result):
    """The tensors of a result as lists, which equal themselves even where they are NaN."""
    if isinstance(result, fb.Tensor):
        return repr(result.tolist())
    return [numbers(r) for r in result]


def live_bytes():
    gc.collect()
    return fb.memory.stats()["allocated"]


@pytest.mark.parametrize("name", CASES)
def test_every_allocation_may_fail(name):
    inputs, call = CASES[name]()
    fb.manual_seed(0)
    expected, before = numbers(call()), [x.detach().clone() for x in inputs]
    numbers(call())  # scratch memory and caches are there now
    failures = 0
    at_start = live_bytes()
    for n in range(1, MOST):
        fb.manual_seed(0)
        _C.fail_allocation(n)
        try:
            result = call()
        except (MemoryError, fb.OutOfMemoryError):
            result = None
        finally:
            reached = _C.fail_allocation(0) == 0
        assert all(fb.equal(x, b) for x, b in zip(inputs, before, strict=True)), f"allocation {n} changed an input"
        if result is not None:  # it did not need that memory after all
            assert numbers(result) == expected, f"allocation {n} failed, and the result is wrong"
            result = None
        else:
            failures += 1
        if not reached:
            break
        if n % 16 == 0:
            assert live_bytes() == at_start, f"bytes are lost by allocation {n}"
    else:
        raise AssertionError("more allocations than expected")
    assert failures
    assert live_bytes() == at_start
    fb.manual_seed(0)
    assert numbers(call()) == expected
