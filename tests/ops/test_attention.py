"""Attention: the fused kernel, its gradients and second gradients against the formula in float64."""

import math

import numpy as np
import pytest

import flambeau

attention = flambeau.nn.functional.scaled_dot_product_attention
rng = np.random.default_rng(0)


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def made(*shape):
    return flambeau.from_numpy(rng.standard_normal(shape))


def formula(q, k, v, causal, scale):
    z = np.einsum("...le,...se->...ls", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        z = np.where(np.tri(*z.shape[-2:], dtype=bool), z, -np.inf)
    p = np.exp(z - z.max(-1, keepdims=True))
    return np.einsum("...ls,...se->...le", p / p.sum(-1, keepdims=True), v)


def assert_near_halves(found, expected, size):
    """Processors that multiply bfloat16 do so with rounded probabilities: `size` is what these are multiplied with."""
    assert (abs(array(found.double()) - expected) <= 2.0**-8 * (size + abs(expected)) + 1e-5).all()


SHAPES = [((2, 3, 4), (2, 5, 4), (2, 5, 6)), ((3, 4), (3, 4), (3, 4)), ((1, 2, 130, 8), (1, 2, 300, 8), (1, 2, 300, 8)),
          ((2, 2, 70, 16),) * 3]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3, 0.0, -0.7])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_fused_and_by_parts(shapes, causal, scale):
    q, k, v = (made(*s) for s in shapes)
    expected = formula(array(q), array(k), array(v), causal, scale)
    np.testing.assert_allclose(array(attention(q, k, v, is_causal=causal, scale=scale)), expected, atol=1e-10)
    found = attention(q.float(), k.float(), v.float(), is_causal=causal, scale=scale)
    np.testing.assert_allclose(array(found), expected, atol=2e-5)
    halves = [t.bfloat16() for t in (q, k, v)]
    found = attention(*halves, is_causal=causal, scale=scale)
    assert found.dtype == flambeau.bfloat16
    given = [array(t.double()) for t in halves]
    assert_near_halves(found, formula(*given, causal, scale), formula(*given[:2], abs(given[2]), causal, scale))


def by_parts(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == flambeau.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0) @ v


@pytest.mark.parametrize("kind", ["none", "bool", "float", "turned"])
@pytest.mark.parametrize("sizes", [(16, 16, 1, 1), (17, 31, 5, 40), (130, 300, 33, 7), (257, 258, 64, 64),
                                   (40, 520, 300, 20)], ids=str)
def test_bfloat16_with_masks_and_its_gradients(sizes, kind):
    """Products of bfloat16 have blocks, panels and padding of their own: every size leaves a rest somewhere."""
    queries, keys, width, values = sizes
    flambeau.manual_seed(3)
    q, k, v, g = (flambeau.randn(3, rows, cols).bfloat16() for rows, cols in
                  ((queries, width), (keys, width), (keys, values), (queries, values)))
    if kind == "turned":
        q, k, v, g = (t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (q, k, v, g))
    mask = {"bool": flambeau.rand(3, queries, keys) > 0.3, "float": flambeau.randn(queries, 1)}.get(kind)
    if kind == "bool":
        mask[:, 3] = False  # a query that sees nothing
    found, expected = [], []
    for dtype, to in ((flambeau.bfloat16, found), (flambeau.float64, expected)):
        inputs = [t.to(dtype).requires_grad_() for t in (q, k, v)]
        given = mask if mask is None or mask.dtype == flambeau.bool else mask.to(dtype)
        out = (attention if dtype == flambeau.bfloat16 else by_parts)(*inputs, given)
        to += [out, *flambeau.autograd.grad(out, inputs, g.to(dtype))]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == flambeau.bfloat16
        assert (a.double() - b).norm() <= 2.0**-7 * b.norm() + 1e-6


@pytest.mark.parametrize("size", [15, 200])
def test_bfloat16_keeps_nan_and_infinity(size):
    q, k, v = (flambeau.ones(size, 32, dtype=flambeau.bfloat16) for _ in range(3))
    q[1, 0] = math.nan
    found = attention(q, k, v)
    assert found[1].isnan().all() and (found[0] == 1).all() and (found[2:] == 1).all()
    q[1, 0], v[3, 4] = 1, math.inf
    found = attention(q, k, v)
    assert found[:, 4].isinf().all() and (found[:, 5] == 1).all()


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16], ids=str)
def test_halves_with_dropout_are_rounded_once(dtype):
    q, k, v = (made(2, 20, 8).to(dtype).requires_grad_() for _ in range(3))
    wide = [t.detach().float().requires_grad_() for t in (q, k, v)]
    mask, results = made(20, 20).round(), []
    for given in ((q, k, v), wide):
        flambeau.manual_seed(1)
        out = attention(*given, dropout_p=0.4, attn_mask=mask.to(given[0].dtype))
        results.append((out, *flambeau.autograd.grad(out.sum(), given)))
    for half, single in zip(*results, strict=True):
        assert flambeau.equal(half, single.to(dtype))


@pytest.mark.parametrize("causal", [False, True])
def test_first_and_second_gradients(causal):
    q, k, v, g, a, b, c = (made(2, 7, 4) for _ in range(7))
    found = []
    for dtype in (flambeau.float64, flambeau.float32):
        inputs = [t.to(dtype).requires_grad_() for t in (q, k, v)]
        weight = g.to(dtype).requires_grad_()
        result = attention(*inputs, is_causal=causal)
        first = flambeau.autograd.grad(result, inputs, weight, create_graph=True)
        total = sum((x * y.to(dtype)).sum() for x, y in zip(first, (a, b, c)))
        second = flambeau.autograd.grad(total, (*inputs, weight))
        found.append([array(t) for t in (*first, *second)])
    for wide, narrow in zip(*found):
        np.testing.assert_allclose(narrow, wide, atol=1e-5)


def test_strided_heads():
    x = made(2, 9, 3 * 8).float()
    q = x.view(2, 9, 3, 8).transpose(1, 2)
    np.testing.assert_allclose(array(attention(q, q, q)), formula(*[array(q)] * 3, False, None), atol=2e-5)


def test_masks():
    q, k, v = made(2, 3, 4), made(2, 5, 4), made(2, 5, 4)
    seen = flambeau.tensor([[True, False, True, True, False]] * 2 + [[False] * 5])
    found = array(attention(q, k, v, attn_mask=seen))
    some = [0, 2, 3]
    expected = formula(array(q)[:, :2], array(k)[:, some], array(v)[:, some], False, None)
    np.testing.assert_allclose(found[:, :2], expected, atol=1e-12)
    assert (found[:, 2] == 0).all()  # a query that sees nothing
    added = flambeau.zeros(3, 5, dtype=q.dtype).masked_fill(~seen, -math.inf)
    np.testing.assert_allclose(array(attention(q, k, v, attn_mask=added)), found, atol=1e-12)


def test_grouped_queries():
    q, k, v = made(1, 4, 3, 2), made(1, 2, 5, 2), made(1, 2, 5, 2)
    expected = formula(array(q), array(k).repeat(2, 1), array(v).repeat(2, 1), False, None)
    np.testing.assert_allclose(array(attention(q, k, v, enable_gqa=True)), expected, atol=1e-12)


def test_dropout_keeps_the_mean():
    v = flambeau.ones(1, 4, 4000, 1)
    flambeau.manual_seed(0)
    found = attention(flambeau.zeros(1, 4, 1, 2), flambeau.zeros(1, 4, 4000, 2), v, dropout_p=0.5)
    assert abs(found.mean().item() - 1) < 0.05


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_a_mask_beside_is_causal(dtype):
    q, k, v = (flambeau.randn(2, 3, n, 4, dtype=dtype) for n in (5, 6, 6))
    causal = flambeau.ones(5, 6, dtype=flambeau.bool).tril()
    seen = (flambeau.rand(2, 1, 5, 6) > 0.3) | (flambeau.arange(6) == 0)
    added = flambeau.randn(5, 6, dtype=dtype)
    for mask, both in ((seen, seen & causal), (added, added.masked_fill(~causal, -float("inf")))):
        found = attention(q, k, v, mask, 0.0, True)
        assert flambeau.allclose(found, attention(q, k, v, both), atol=1e-6)


def test_errors():
    z = flambeau.zeros
    with pytest.raises(RuntimeError, match="do not fit"):
        attention(z(2, 3, 4), z(2, 5, 3), z(2, 5, 4))
    with pytest.raises(RuntimeError, match="one dtype"):
        attention(z(2, 3, 4), z(2, 3, 4).double(), z(2, 3, 4))
    with pytest.raises(RuntimeError, match="heads"):
        attention(z(1, 3, 3, 4), z(1, 2, 3, 4), z(1, 2, 3, 4), enable_gqa=True)


def _attention_cases():
    r = flambeau.randn
    blind = r(2, 3, 70, 300) > 0
    blind[0, 1, 2] = False  # a query that sees nothing
    q, k, v = (2, 3, 70, 8), (2, 3, 300, 8), (2, 3, 300, 6)
    return {
        "plain": (q, k, v, None, {}), "causal": (q, k, v, None, {"is_causal": True}),
        "float mask": (q, k, v, r(70, 300), {}), "a row of keys": (q, k, v, r(2, 1, 1, 300), {}),
        "bool mask": (q, k, v, blind, {}), "a column": (q, k, v, r(2, 1, 70, 1) > -0.5, {}),
        "broadcast": (q, (1, 3, 300, 8), (2, 1, 300, 6), None, {"scale": 0.3}),
        "matrices": (q[2:], k[2:], v[2:], r(4, 70, 300), {}),
        "groups": ((2, 6, 70, 8), k, v, r(2, 6, 70, 300), {"enable_gqa": True}),
        "groups, causal": ((2, 6, 70, 8), k, v, None, {"enable_gqa": True, "is_causal": True}),
        "groups, one mask": ((2, 6, 70, 8), k, v, r(2, 1, 70, 300) > 0, {"enable_gqa": True}),
    }


@pytest.mark.parametrize("name", ["plain", "causal", "float mask", "a row of keys", "bool mask", "a column",
                                  "broadcast", "matrices", "groups", "groups, causal", "groups, one mask"])
def test_the_kernel_agrees_with_the_parts(name):
    flambeau.manual_seed(0)
    *shapes, mask, options = _attention_cases()[name]
    given = [flambeau.randn(shape) for shape in shapes]
    found = {}
    for dtype in (flambeau.float32, flambeau.float64):  # float64 goes by matrix products and softmax
        q, k, v = (t.to(dtype).requires_grad_() for t in given)
        m = mask if mask is None or mask.dtype == flambeau.bool else mask.to(dtype)
        out = attention(q, k, v, m, **options)
        first = flambeau.autograd.grad(out.sin().sum(), (q, k, v), create_graph=True)
        second = flambeau.autograd.grad(sum(g.sin().sum() for g in first), (q, k, v))
        found[dtype] = [out, *first, *second]
    for a, b in zip(found[flambeau.float32], found[flambeau.float64], strict=True):
        assert a.shape == b.shape and flambeau.allclose(a.double(), b, rtol=1e-4, atol=2e-5)


def test_a_mask_can_have_a_gradient():
    q, mask = flambeau.randn(2, 3, 4), flambeau.zeros(3, 3, requires_grad=True)
    attention(q, q, q, mask).square().sum().backward()
    assert mask.grad is not None and mask.grad.abs().sum().item() > 0
    with pytest.raises(RuntimeError, match="does not broadcast"):
        attention(q, q, q, flambeau.zeros(3, 2))


@pytest.mark.parametrize("causal", [False, True])
def test_wide_heads(causal):
    """Heads wider than 256 are computed in taller blocks, which threads share; their number changes nothing."""
    generator = np.random.default_rng(0)
    q, k, v, g = (flambeau.from_numpy(generator.standard_normal((1, 300, 384)).astype(np.float32)) for _ in range(4))
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2):
            flambeau.set_num_threads(threads)
            inputs = [t.detach().clone().requires_grad_() for t in (q, k, v)]
            y = flambeau.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
            found.append([t.detach().numpy() for t in (y, *flambeau.autograd.grad(y, inputs, g))])
    finally:
        flambeau.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    inputs = [t.double().requires_grad_() for t in (q, k, v)]
    scores = inputs[0] @ inputs[1].mT / math.sqrt(384)
    if causal:
        scores = scores.masked_fill(flambeau.ones(300, 300, dtype=flambeau.bool).triu(1), -math.inf)
    y = scores.softmax(-1) @ inputs[2]
    for one, expected in zip(found[0], (y, *flambeau.autograd.grad(y, inputs, g.double())), strict=True):
        np.testing.assert_allclose(one, expected.detach().numpy(), rtol=1e-3, atol=2e-5)


def test_heads_of_width_0():
    q, k = (flambeau.zeros(2, 3, 4, 0, requires_grad=True) for _ in range(2))
    v = flambeau.rand(2, 3, 4, 5, requires_grad=True)
    y = flambeau.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
    assert flambeau.allclose(y, v.mean(2, keepdim=True).expand_as(v))
    y.sum().backward()
    assert q.grad.shape == q.shape and flambeau.allclose(v.grad, flambeau.ones(2, 3, 4, 5))


def test_result_lies_as_the_query():
    def heads(columns=8):
        return flambeau.randn(2, 5, 3, columns).transpose(1, 2)

    q, k, v = heads(), heads(), heads()
    assert attention(q, k, v).transpose(1, 2).view(2, 5, 24).is_contiguous()
    assert attention(q, k, v).stride() == (120, 8, 24, 1)
    grouped = attention(q, k[:, :1], v[:, :1], enable_gqa=True)
    assert grouped.stride() == (120, 8, 24, 1)
    turned = flambeau.randn(5, 3, 2, 8).permute(2, 1, 0, 3)
    assert attention(turned, k, v).stride() == turned.stride()
    for plain in (attention(q.contiguous(), k, v),  # and what the fused kernel leaves
                  attention(q, k, v, dropout_p=0.5),
                  attention(q, k, heads(4)),
                  attention(q, k, v, flambeau.zeros(3, 5, 5))):
        assert plain.is_contiguous()
