"""Plans of the real cuDNN for a GPU that is described to it: that it knows the graphs that we give it.

test_planned.py runs this, where the library is installed. Nothing is computed.
"""

import pytest

import flambeau as fb
from flambeau.nn import functional as F
from flambeau.ops.attention import fused_attention, fused_attention_backward

from . import FakeLibrary

DNN = FakeLibrary("cudnn")


@pytest.fixture(autouse=True)
def described(own_kernels):
    if not DNN.library.fake_described():
        pytest.skip("this cuDNN does not take the description of a GPU")


def planned(f):
    before = DNN.calls("execute")
    f()
    return DNN.calls("execute") - before


#: batch, heads, heads of keys, queries, keys, columns, columns of values
SIZES = {"plain": (2, 4, 4, 128, 128, 64, 64), "odd lengths": (2, 4, 4, 77, 91, 64, 64),
         "one query": (2, 4, 4, 1, 100, 64, 64), "shared keys": (2, 4, 2, 128, 128, 64, 64),
         "40 columns": (1, 1, 1, 33, 33, 40, 40), "128 columns": (2, 4, 4, 128, 128, 128, 128),
         "other values": (2, 4, 4, 64, 64, 64, 32), "a GPT's": (8, 12, 12, 1024, 1024, 64, 64)}
MASKS = {"none": lambda *_: None, "causal": lambda *_: None, "bool": lambda b, h, n, m: fb.ones(n, m, dtype=fb.bool),
         "of keys": lambda b, h, n, m: fb.ones(b, 1, 1, m, dtype=fb.bool),
         "numbers": lambda b, h, n, m: fb.zeros(b, h, n, m).half()}


def operands(sizes, mask, dtype):
    """query, key, value and mask on the device, heads that share keys as scaled_dot_product_attention has them."""
    b, h, own, n, m, e, v = SIZES[sizes]
    q, k, values = (fb.zeros(b, *rest, dtype=dtype).cuda() for rest in ((h, n, e), (own, m, e), (own, m, v)))
    shown = MASKS[mask](b, h, n, m)
    if shown is not None:
        shown = shown.to("cuda", fb.bool if shown.dtype == fb.bool else dtype)
    if own < h:
        q = q.unflatten(1, (own, h // own))
        k, values = (t.unsqueeze(2).expand(b, own, h // own, *t.shape[2:]) for t in (k, values))
        if shown is not None and shown.ndim > 2:
            shown = shown.unsqueeze(2) if shown.shape[1] == 1 else shown.unflatten(1, (own, h // own))
    return q, k, values, shown


@pytest.mark.parametrize("dtype", (fb.float16, fb.bfloat16), ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_attention(sizes, mask, dtype):
    if sizes.startswith("a GPT") and mask != "causal":
        pytest.skip("as the smaller ones")
    given, rest = operands(sizes, mask, dtype), (mask == "causal", 0.125, True)
    lse = fb.zeros(given[0].shape[:-1]).cuda()
    out = fb.zeros(*lse.shape, given[2].shape[-1], dtype=dtype).cuda()
    assert planned(lambda: fused_attention(*given, *rest)) == 1
    assert planned(lambda: fused_attention_backward(out, *given, out, lse, *rest)) == 1


@pytest.mark.parametrize("dtype", (fb.float32, fb.float16, fb.bfloat16), ids=str)
@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("transposed", (False, True))
def test_convolutions(transposed, last, dtype):
    layout = fb.channels_last if last else fb.contiguous_format
    x = fb.zeros(2, 16, 14, 14, dtype=dtype).cuda().contiguous(memory_format=layout).requires_grad_()
    w = fb.zeros(16, 16, 3, 3, dtype=dtype).cuda().contiguous(memory_format=layout).requires_grad_()
    f = F.conv_transpose2d if transposed else F.conv2d
    for stride in (1, 2):
        assert planned(lambda stride=stride: f(x, w, stride=stride, padding=1).sum().backward()) == 3
