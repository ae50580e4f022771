"""MultiheadAttention and Transformer: the formula, masks, layouts, PyTorch's numbers, errors."""

import math

import pytest

import flambeau
from flambeau import nn

close = flambeau.allclose
GOLDEN = [-1.571179, 0.790604, 0.938765, -0.158191, -1.632628, 1.036664, 0.095216, 0.500747]


def projected(layer, *given):
    weights = layer.in_proj_weight.chunk(3) if layer._qkv_same_embed_dim else (
        layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    biases = (None,) * 3 if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)
    return [nn.functional.linear(t, w, b) for t, w, b in zip(given, weights, biases, strict=True)]


def by_formula(layer, q, k, v, mask=None):
    """Batch first, head by head."""
    size = layer.head_dim
    q, k, v = (t.reshape(*t.shape[:2], layer.num_heads, size).transpose(1, 2) for t in projected(layer, q, k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(size)
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return layer.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 6, "vdim": 5}])
@pytest.mark.parametrize("need_weights", [True, False])
def test_is_the_formula(options, need_weights):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, **options)
    q, k, v = flambeau.randn(3, 5, 8), flambeau.randn(3, 7, layer.kdim), flambeau.randn(3, 7, layer.vdim)
    expected, weights = by_formula(layer, q, k, v)
    out, found = layer(q, k, v, need_weights=need_weights)
    assert close(out, expected, atol=1e-6)
    assert (found is None) != need_weights
    if need_weights:
        assert close(found, weights.mean(1), atol=1e-6)
        assert close(layer(q, k, v, average_attn_weights=False)[1], weights, atol=1e-6)


def test_layouts_agree():
    first = nn.MultiheadAttention(8, 2, batch_first=True)
    second = nn.MultiheadAttention(8, 2)
    second.load_state_dict(first.state_dict())
    x = flambeau.randn(3, 5, 8)
    out, _ = first(x, x, x)
    assert close(second(*(x.transpose(0, 1),) * 3)[0].transpose(0, 1), out, atol=1e-6)
    assert close(first(x[0], x[0], x[0])[0], out[0], atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_masked_places_do_not_matter(need_weights):
    layer = nn.MultiheadAttention(8, 2)
    x = flambeau.randn(6, 2, 8)
    changed = x.clone()
    changed[4:] += 5
    padding = flambeau.zeros(2, 6).bool()
    padding[:, 4:] = True
    call = {"need_weights": need_weights}
    assert close(layer(x[:3], x, x, key_padding_mask=padding, **call)[0],
                 layer(x[:3], changed, changed, key_padding_mask=padding, **call)[0], atol=1e-6)  # fmt: skip
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    a = layer(x, x, x, attn_mask=causal, is_causal=True, **call)[0]
    b = layer(changed, changed, changed, attn_mask=causal, **call)[0]
    assert close(a[:4], b[:4], atol=1e-6) and not close(a[4:], b[4:], atol=1e-2)
    assert close(a, layer(x, x, x, attn_mask=causal < 0, **call)[0], atol=1e-6)
    assert close(a, layer(x, x, x, attn_mask=causal.expand(4, 6, 6), **call)[0], atol=1e-6)


def test_extra_keys():
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    x = flambeau.randn(5, 3, 8)
    assert layer(x, x, x)[1].shape == (3, 5, 7)


def test_pytorchs_numbers():
    flambeau.manual_seed(0)
    model = nn.Transformer(4, 2, 1, 1, 8)
    x = flambeau.linspace(-1, 1, 12).reshape(3, 1, 4)
    assert model(x, x[:2]).flatten().tolist() == pytest.approx(GOLDEN, abs=2e-5)
    assert "NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)" in repr(model)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_every_parameter_of_a_transformer_learns(norm_first, batch_first):
    model = nn.Transformer(8, 2, 2, 2, 16, 0.0, "gelu", batch_first=batch_first, norm_first=norm_first)
    x = flambeau.randn(3, 3, 8)
    model(x, x, tgt_mask=model.generate_square_subsequent_mask(3)).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: nn.MultiheadAttention(8, 3), AssertionError, "cannot be divided evenly among num_heads="),
        (lambda: nn.MultiheadAttention(0, 1), ValueError, "embed_dim and num_heads must be positive"),
        (lambda: attend(4), AssertionError, "expected query to have 8 features, got 4"),
        (lambda: attend(8, is_causal=True), RuntimeError, "is_causal=True describes attn_mask"),
        (lambda: attend(8, attn_mask=flambeau.zeros(2, 2).int()), AssertionError, "must be bool or floating point"),
        (lambda: attend(8, attn_mask=flambeau.zeros(2)), AssertionError, "attn_mask must have 2 or 3 dim"),
        (lambda: attend(8, attn_mask=flambeau.zeros(3, 2)), RuntimeError, "attn_mask must have shape .2, 2. "),
        (lambda: nn.MultiheadAttention(8, 2)(*[flambeau.zeros(2, 8)] * 3, attn_mask=flambeau.zeros(1, 2, 2)),
         AssertionError, "attn_mask must have shape .2, 2, 2. .batch . heads, queries, keys., got .1, 2, 2."),
        (lambda: nn.TransformerEncoderLayer(8, 2, activation="sin"), RuntimeError, "activation must be"),
        (lambda: nn.Transformer(8, 2, 1, 1)(flambeau.zeros(2, 1, 4), flambeau.zeros(2, 1, 8)), RuntimeError, "d_model"),
    ],
)
def test_wrong_use(act, error, text):
    with pytest.raises(error, match=text):
        act()


def attend(size, **options):
    x = flambeau.zeros(2, 1, size)
    return nn.MultiheadAttention(8, 2)(x, x, x, **options)


def test_the_causal_hint_is_the_mask():
    layer = nn.MultiheadAttention(8, 2)
    x = flambeau.randn(5, 3, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    plain, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    hinted, _ = layer(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)
    assert flambeau.allclose(plain, hinted, atol=1e-6)


def test_an_empty_batch():
    for batch_first in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=4, batch_first=batch_first)
        shape = (0, 3, 8) if batch_first else (3, 0, 8)
        for training in (True, False):
            assert layer.train(training)(flambeau.ones(shape)).shape == shape
    attention = nn.MultiheadAttention(8, 2)
    found, weights = attention(*[flambeau.ones(3, 0, 8)] * 3)
    assert found.shape == (3, 0, 8) and weights.shape == (0, 3, 3)


def test_padding_is_zero_where_the_layers_are_in_eval_mode_and_the_stack_is_not():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    stack = nn.TransformerEncoder(layer, 2)  # in training mode itself, as every new module
    padding = flambeau.tensor([[False, False, True], [False, True, True]])
    with flambeau.no_grad():
        out = stack(flambeau.ones(2, 3, 8), src_key_padding_mask=padding)
    assert stack.training and bool((out[padding] == 0).all()) and bool((out[~padding] != 0).any())
    stack.layers[0].train()
    with flambeau.no_grad():
        assert bool((stack(flambeau.ones(2, 3, 8), src_key_padding_mask=padding)[padding] != 0).any())
