"""nn.attention: chosen backends, causal biases, flex_attention and its block masks."""

import math

import pytest

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.nn.attention.bias import causal_lower_right, causal_upper_left
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def qkv(lengths=(6, 6), dtype=flambeau.float32, heads=2):
    flambeau.manual_seed(0)
    shapes = [(2, heads, lengths[0], 8), (2, heads, lengths[1], 8), (2, heads, lengths[1], 8)]
    return [flambeau.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def test_backends():
    q, k, v = qkv()
    mask = flambeau.ones(6, 6).tril().bool()
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    with sdpa_kernel(SDPBackend.MATH):
        assert flambeau.allclose(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected, atol=1e-6)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert flambeau.equal(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert flambeau.allclose(F.scaled_dot_product_attention(q, k, v, mask), expected, atol=1e-6)
        wide = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask)
        assert wide.dtype is flambeau.float64 and flambeau.allclose(wide.float(), expected, atol=1e-6)
        with pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(q.double(), k.double(), v.double(), dropout_p=0.5)
    assert f"{SDPBackend.MATH}" == str(SDPBackend.MATH) == "SDPBackend.MATH"
    for backend, dropout in ((SDPBackend.FLASH_ATTENTION, 0.5), (SDPBackend.CUDNN_ATTENTION, 0.0)):
        with sdpa_kernel(backend), pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    assert flambeau.equal(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass


def test_switches_decide():
    """backends.cuda turns ways on and off, and says which may be taken inside sdpa_kernel."""
    switches, x = flambeau.backends.cuda, flambeau.randn(1, 2, 4)
    expected, call = F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention
    ways = (switches.flash_sdp_enabled, switches.mem_efficient_sdp_enabled, switches.math_sdp_enabled,
            switches.cudnn_sdp_enabled)
    assert [way() for way in ways] == [True] * 4
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]):
        assert [way() for way in ways] == [False, False, True, True]
        switches.enable_math_sdp(False)
        with pytest.raises(RuntimeError, match="No viable backend"):
            call(x, x, x)
        switches.enable_flash_sdp(True)
        assert flambeau.equal(call(x, x, x), expected)
    assert [way() for way in ways] == [True] * 4
    with switches.sdp_kernel(enable_flash=False):
        assert [way() for way in ways] == [False, True, True, True]
        assert flambeau.allclose(call(x, x, x), expected)
        with switches.sdp_kernel(enable_math=False, enable_flash=False), pytest.raises(RuntimeError):
            call(x, x, x)
    assert [way() for way in ways] == [True] * 4


def test_causal_biases():
    q, k, v = qkv((3, 5))
    upper = F.scaled_dot_product_attention(q, k, v, causal_upper_left(3, 5))
    assert flambeau.equal(upper, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    mask = flambeau.ones(3, 5).tril(2).bool()
    lower = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(3, 5))
    assert flambeau.equal(lower, F.scaled_dot_product_attention(q, k, v, mask))
    assert (causal_lower_right(3, 5) == mask).all() and "True" in repr(causal_lower_right(2, 2))
    with pytest.raises(ValueError, match="CausalBias is causal by itself"):
        F.scaled_dot_product_attention(q, k, v, causal_upper_left(3, 5), is_causal=True)


def test_flex_attention_is_attention():
    q, k, v = qkv(dtype=flambeau.float64)
    assert flambeau.allclose(flex_attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
    slope = flambeau.tensor([0.5, 0.25], dtype=flambeau.float64, requires_grad=True)
    bias = slope.reshape(2, 1, 1) * (flambeau.arange(6).unsqueeze(1) - flambeau.arange(6))
    found = flex_attention(q, k, v, lambda s, b, h, i, j: s + slope[h] * (i - j))
    expected = F.scaled_dot_product_attention(q, k, v, bias)
    assert flambeau.allclose(found, expected)
    grads = [flambeau.autograd.grad(y.sin().sum(), (q, k, v, slope), retain_graph=True) for y in (found, expected)]
    assert all(flambeau.allclose(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.parametrize("size", [2, (4, 3), 128])
def test_block_masks(size):
    q, k, v = qkv()
    mask = create_block_mask(causal, 2, None, 6, 6, BLOCK_SIZE=size)
    found = flex_attention(q, k, v, block_mask=mask)
    assert flambeau.allclose(found, F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6)
    assert mask.shape == (2, 1, 6, 6) and mask.numel() == 72 and len(mask.as_tuple()) == 13
    whole = create_block_mask(causal, 2, None, 6, 6, BLOCK_SIZE=size, separate_full_blocks=False)
    assert flambeau.equal(whole.to_dense(), mask.to_dense()) and whole.full_kv_indices is None
    assert flambeau.allclose(flex_attention(q, k, v, block_mask=whole), found)


def test_masks_of_masks():
    near = lambda b, h, q, k: (q - k).abs() < 2
    both, either = (create_mask(join(causal, near), 1, 1, 4, 4)[0, 0] for join in (and_masks, or_masks))
    one, other = (create_mask(mod, 1, 1, 4, 4)[0, 0] for mod in (causal, near))
    assert flambeau.equal(both, one & other) and flambeau.equal(either, one | other)
    assert create_mask(noop_mask, 2, 3, 4, 5).all() and create_mask(noop_mask, 2, 3, 4, 5).shape == (2, 3, 4, 5)
    with pytest.raises(RuntimeError, match="and_masks and or_masks combine functions"):
        and_masks(causal, 3)


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = qkv()
    mask = create_block_mask(lambda b, h, q, k: (q > 1) & (q >= k), None, None, 6, 6, BLOCK_SIZE=2)
    out, lse = flex_attention(q, k, v, block_mask=mask, return_lse=True)
    assert not out[:, :, :2].any() and (lse[:, :, :2] == -math.inf).all() and lse[:, :, 2:].isfinite().all()
    out.sum().backward()
    assert q.grad.isfinite().all()
    aux = flex_attention(q, k, v, return_aux=AuxRequest(max_scores=True))[1]
    assert aux.lse is None and flambeau.allclose(aux.max_scores, ((q @ k.mT) / math.sqrt(8)).amax(-1))


def test_heads_in_groups_and_parts_of_masks():
    q, k, v = qkv()
    one = flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True)
    assert flambeau.allclose(one, flex_attention(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v)))
    mask = create_block_mask(causal, 2, 2, 6, 6, BLOCK_SIZE=2)
    assert mask[1].shape == (1, 2, 6, 6) and flambeau.equal(mask[-1, 0].to_dense(), mask.to_dense()[1:, :1])
    smaller = mask._adjust(4, 6)
    assert smaller.shape == (2, 2, 4, 6) and smaller.to_dense().shape == (2, 2, 2, 3)
    assert flex_attention(q[:, :, :4], k, v, block_mask=smaller).shape == (2, 2, 4, 8)
    blocks = flambeau.tensor([[[1, 1, 1]]], dtype=flambeau.int32), flambeau.tensor([[[[2, 0, 1]] * 3]])
    by_hand = BlockMask.from_kv_blocks(blocks[0], blocks[1].reshape(1, 1, 3, 3), BLOCK_SIZE=2)
    expected = F.scaled_dot_product_attention(q, k[:, :, 4:], v[:, :, 4:])
    assert flambeau.allclose(flex_attention(q, k, v, block_mask=by_hand), expected, atol=1e-6)
    assert by_hand.seq_lengths == (6, 6) and "░" not in str(by_hand)


def test_refused():
    q, k, v = qkv()
    mask = create_block_mask(causal, 2, 2, 6, 6, BLOCK_SIZE=2)
    for call, error in (
        (lambda: flex_attention(q, k[:, :1], v[:, :1]), ValueError),
        (lambda: flex_attention(q[0], k[0], v[0]), NotImplementedError),
        (lambda: flex_attention(q[:, :, :4], k, v, block_mask=mask), ValueError),
        (lambda: flex_attention(q, k, v, block_mask=mask[0]), (RuntimeError, ValueError)),
        (lambda: create_block_mask(lambda q, k: q >= k, 1, 1, 2, 2), AssertionError),
        (lambda: flex_attention(q, k, v, return_lse=True, return_aux=AuxRequest(lse=True)), ValueError),
    ):
        with pytest.raises(error):
            call()
