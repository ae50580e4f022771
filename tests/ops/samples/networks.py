"""Sample calls of the operators of networks: layers, losses, normalisation, pooling, convolution, attention."""

from .calls import call


def _conv(dims):
    def conv(m, *_):
        n = (5, 4, 3)[:dims] if dims > 1 else (6,)
        k = (3, 2, 2)[:dims]
        yield call(m.f(2, 4, *n), m.f(3, 4, *k), m.f(3))
        yield call(m.f(1, 4, *n), m.f(6, 2, *k), None, 2, 1, 1, 2)
        yield call(m.f(1, 2, *n), m.f(3, 2, *k), m.f(3), padding="same")
        yield call(m.f(2, *n), m.f(3, 2, *k), padding=1)
        if dims < 3:
            yield call(m.f(1, 4, *[v + 2 for v in n]), m.f(4, 1, *k), m.f(4), dilation=2, groups=4)
            yield call(m.f(0, 4, *n), m.f(3, 4, *k), m.f(3))
    return conv


def _conv_transpose(dims):
    def conv_transpose(m, *_):
        n, k = (3, 2, 2)[:dims], (2, 3, 2)[:dims]
        yield call(m.f(2, 4, *n), m.f(4, 3, *k), m.f(3))
        yield call(m.f(1, 4, *n), m.f(4, 3, *k), None, 2, 1, 1, 2)
        yield call(m.f(2, *n), m.f(2, 3, *k), dilation=2)
    return conv_transpose


def _pool(dims, kind):
    def pool(m, *_):
        n = (6, 5, 4)[:dims]
        make = m.distinct if kind == "max" else m.f
        yield call(make(2, 2, *n), 2)
        yield call(make(2, 2, *n), (3,) + (2,) * (dims - 1), 1, 1)
        yield call(make(2, *n), 3, 2, 1, ceil_mode=True)
        if kind == "max":
            yield call(make(1, 2, *n), 2, 1, 0, 2)
        else:
            yield call(make(1, 2, *n), 3, 2, 1, count_include_pad=False)
    return pool


def _unpool(dims):
    def unpool(m, *_):
        count = 2 ** dims
        places = m.tensor([2 * k for k in range(count)], (1, 1, *(2,) * dims), m.int_dtype)
        yield call(m.f(1, 1, *(2,) * dims), places, 2)
    return unpool


def _adaptive(dims, kind):
    def adaptive(m, *_):
        n = (6, 5, 4)[:dims]
        make = m.distinct if kind == "max" else m.f
        yield call(make(2, 2, *n), (2, 3, 2)[:dims] if dims > 1 else 2)
        yield call(make(2, *n), 1)
    return adaptive


def _loss(low=-2.0, high=2.0, target_low=None, target_high=None):
    def loss(m, *_):
        a, b = (low if target_low is None else target_low), (high if target_high is None else target_high)
        for reduction in ("mean", "sum", "none"):
            yield call(m.f(2, 3, low=low, high=high), m.f(2, 3, low=a, high=b), reduction=reduction)
    return loss


def _bce(logits):
    def bce(m, *_):
        low, high = (-2.0, 2.0) if logits else (0.1, 0.9)
        for reduction in ("mean", "sum", "none"):
            yield call(m.f(2, 3, low=low, high=high), m.f(2, 3, low=0.0, high=1.0, grad=False), reduction=reduction)
        yield call(m.f(2, 3, low=low, high=high), m.f(2, 3, low=0.0, high=1.0, grad=False),
                   m.f(3, low=0.5, high=1.0, grad=False))
        if logits:
            yield call(m.f(2, 3), m.f(2, 3, low=0.0, high=1.0, grad=False),
                       pos_weight=m.f(3, low=0.5, high=1.5, grad=False))
    return bce


def _cross_entropy(m, *_):
    for reduction in ("mean", "sum", "none"):
        yield call(m.f(4, 3), m.i(4), reduction=reduction)
    yield call(m.f(4, 3), m.i(4), m.f(3, low=0.5, high=1.5, grad=False))
    yield call(m.f(4, 3), m.i(4), ignore_index=1)
    yield call(m.f(4, 3), m.i(4), label_smoothing=0.1)
    yield call(m.f(2, 3, 2), m.i(2, 2))
    yield call(m.f(3), m.i())
    yield call(m.f(4, 3), m.f(4, 3, low=0.0, high=1.0, grad=False))


def _nll_loss(m, *_):
    for reduction in ("mean", "sum", "none"):
        yield call(m.f(4, 3), m.i(4), reduction=reduction)
    yield call(m.f(4, 3), m.i(4), m.f(3, low=0.5, high=1.5, grad=False))
    yield call(m.f(4, 3), m.i(4), ignore_index=1)
    yield call(m.f(2, 3, 2, 2), m.i(2, 2, 2))


def _batch_norm(m, *_):
    def stats(n):
        return m.f(n, grad=False), m.f(n, low=0.5, high=1.5, grad=False)
    yield call(m.f(4, 3), *stats(3), m.f(3), m.f(3), False)
    yield call(m.f(4, 3), None, None, m.f(3), m.f(3), True)
    yield call(m.f(2, 3, 2, 2), None, None, None, None, True)


def _layer_norm(m, *_):
    yield call(m.f(2, 4), (4,), m.f(4), m.f(4))
    yield call(m.f(2, 3, 4), (3, 4))
    yield call(m.f(2, 4), (4,), m.f(4))
    yield call(m.f(0, 4), (4,), m.f(4), m.f(4))


def _group_norm(m, *_):
    yield call(m.f(2, 4, 3), 2, m.f(4), m.f(4))
    yield call(m.f(2, 6), 3)


def _rms_norm(m, *_):
    yield call(m.f(2, 4), (4,), m.f(4))
    yield call(m.f(2, 4), (4,))


def _linear(m, *_):
    yield call(m.f(2, 3), m.f(4, 3), m.f(4))
    yield call(m.f(3), m.f(4, 3), m.f(4))
    yield call(m.f(2, 2, 3), m.f(4, 3))
    yield call(m.f(0, 3), m.f(4, 3), m.f(4))


def _recurrent(gates, states, packed=False):
    def recurrent(m, *_):
        def state(*shape):
            return [m.f(*shape) for _ in range(states)] if states > 1 else m.f(*shape)
        if packed:
            sizes, weights = m.tensor([2, 2, 1], (3,), m.int_dtype), [m.f(2 * gates, 2), m.f(2 * gates, 2)]
            yield call(m.f(5, 2), sizes, state(1, 2, 2), weights, False, 1, 0.0, False, False)
            return
        yield call(m.f(3, 2, 2), state(1, 2, 2), [m.f(2 * gates, 2), m.f(2 * gates, 2)], False, 1, 0.0, False, False,
                   False)
        both = [m.f(2 * gates, 2), m.f(2 * gates, 2), m.f(2 * gates), m.f(2 * gates)]
        yield call(m.f(1, 2, 2), state(2, 1, 2), both + both, True, 1, 0.0, True, True, True)
    return recurrent


def _cell(gates, states):
    def cell(m, *_):
        state = [m.f(2, 3) for _ in range(states)] if states > 1 else m.f(2, 3)
        yield call(m.f(2, 4), state, m.f(3 * gates, 4), m.f(3 * gates, 3), m.f(3 * gates), m.f(3 * gates))
    return cell


def _attention(m, *_):
    yield call(m.f(2, 3, 4), m.f(2, 5, 4), m.f(2, 5, 4))
    yield call(m.f(2, 2, 3, 4), m.f(2, 2, 3, 4), m.f(2, 2, 3, 4), is_causal=True)
    yield call(m.f(2, 3, 4), m.f(2, 5, 4), m.f(2, 5, 4), m.f(3, 5, grad=False))
    yield call(m.f(2, 3, 4), m.f(2, 3, 4), m.f(2, 3, 4), m.b(3, 3).logical_or(m.b(3, 1)), scale=0.3)


def _plain(calls):
    return lambda m, *_: calls(m)


NN_FORMS = {
    **{f"conv{d}d": _conv(d) for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": _conv_transpose(d) for d in (1, 2, 3)},
    **{f"max_pool{d}d": _pool(d, "max") for d in (1, 2, 3)},
    **{f"max_pool{d}d_with_indices": _pool(d, "max") for d in (1, 2, 3)},
    **{f"avg_pool{d}d": _pool(d, "avg") for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": _adaptive(d, "avg") for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d": _adaptive(d, "max") for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d_with_indices": _adaptive(d, "max") for d in (1, 2, 3)},
    "linear": _linear, "lstm": _recurrent(4, 2), "gru": _recurrent(3, 1), "rnn_tanh": _recurrent(1, 1),
    "pack_rows": _plain(lambda m: [call(m.f(3, 2, 2), [2, 1], False), call(m.f(2, 3), [2, 2, 1], True)]),
    "pad_rows": _plain(lambda m: [call(m.f(3, 2), [2, 1], 2, False, 0, 3), call(m.f(4), [2, 2], 3, True, 2, 2)]),
    "packed_lstm": _recurrent(4, 2, True), "packed_gru": _recurrent(3, 1, True),
    "packed_rnn_tanh": _recurrent(1, 1, True),
    "lstm_cell": _cell(4, 2), "gru_cell": _cell(3, 1), "rnn_tanh_cell": _cell(1, 1),
    "batch_norm": _batch_norm, "layer_norm": _layer_norm, "group_norm": _group_norm,
    "rms_norm": _rms_norm, "scaled_dot_product_attention": _attention,
    "instance_norm": _plain(lambda m: [call(m.f(2, 3, 4)), call(m.f(2, 3, 2, 2), None, None, m.f(3), m.f(3))]),
    "bilinear": _plain(lambda m: [call(m.f(2, 3), m.f(2, 4), m.f(2, 3, 4), m.f(2))]),
    "embedding_bag": _plain(lambda m: [call(m.i(2, 3), m.f(4, 2)), call(m.i(2, 3), m.f(4, 2), mode="sum"),
                                       call(m.i(2, 3), m.f(4, 2), padding_idx=1)]),
    "embedding": _plain(lambda m: [call(m.i(2, 3), m.f(4, 2)), call(m.i(3), m.f(4, 2), 3)]),
    "one_hot": _plain(lambda m: [call(m.i(4)), call(m.i(2, 2), 5)]),
    "dropout": _plain(lambda m: [call(m.f(4, 3), 0.5, False), call(m.f(4, 3), 0.0, True)]),
    "cross_entropy": _cross_entropy, "nll_loss": _nll_loss, "mse_loss": _loss(), "l1_loss": _loss(),
    "smooth_l1_loss": _loss(), "huber_loss": _loss(), "binary_cross_entropy": _bce(False),
    "binary_cross_entropy_with_logits": _bce(True), "kl_div": _loss(-2.0, 0.0, 0.1, 1.0),
    "soft_margin_loss": _loss(), "poisson_nll_loss": _loss(-1.0, 1.0, 0.2, 2.0),
    "gaussian_nll_loss": _plain(lambda m: [call(m.f(2, 3), m.f(2, 3), m.f(2, 3, low=0.5, high=1.5))]),
    "hinge_embedding_loss": _plain(lambda m: [call(m.f(4), m.i(4, high=2) * 2 - 1)]),
    "margin_ranking_loss": _plain(lambda m: [call(m.f(4), m.f(4), m.i(4, high=2) * 2 - 1)]),
    "cosine_embedding_loss": _plain(lambda m: [call(m.f(4, 3), m.f(4, 3), m.i(4, high=2) * 2 - 1)]),
    "triplet_margin_loss": _plain(lambda m: [call(m.f(4, 3), m.f(4, 3), m.f(4, 3))]),
    "triplet_margin_with_distance_loss": _plain(lambda m: [call(m.f(4, 3), m.f(4, 3), m.f(4, 3))]),
    "multi_margin_loss": _plain(lambda m: [call(m.f(4, 3), m.i(4))]),
    "cosine_similarity": _plain(lambda m: [call(m.f(4, 3), m.f(4, 3)), call(m.f(4, 3), m.f(4, 3), 0)]),
    "pairwise_distance": _plain(lambda m: [call(m.f(4, 3), m.f(4, 3))]),
    "normalize": _plain(lambda m: [call(m.f(4, 3)), call(m.f(4, 3), 1.0, 0)]),
    "softmax": _plain(lambda m: [call(m.f(2, 3), 1), call(m.f(2, 3, 2), 0), call(m.f(3), -1), call(m.f(0, 3), 1),
                                 call(m.f(), 0)]),
    "prelu": _plain(lambda m: [call(m.f(2, 3, 2), m.f(3, low=0.1, high=0.5)), call(m.f(4), m.f(1))]),
    "glu": _plain(lambda m: [call(m.f(2, 4)), call(m.f(4, 3), 0)]),
    "leaky_relu": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 0.2)]),
    "elu": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 0.7)]),
    "celu": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 0.7)]),
    "gelu": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), approximate="tanh"), call(m.f(0, 3))]),
    "softplus": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 2, 10)]),
    "hardtanh": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), -0.5, 0.6)]),
    "softshrink": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 0.3)]),
    "hardshrink": _plain(lambda m: [call(m.f(2, 3)), call(m.f(2, 3), 0.3)]),
    "threshold": _plain(lambda m: [call(m.f(2, 3), 0.1, 2.0)]),
    "rrelu": _plain(lambda m: [call(m.f(2, 3))]),
    **{f"{name}{d}d": _plain(lambda m, d=d: [call(m.f(2, 3, *(4, 3, 2)[:d]), 0.5, False)])
       for name in ("dropout", "feature_dropout") for d in (1, 2, 3)},
    "alpha_dropout": _plain(lambda m: [call(m.f(4, 3), 0.5, False)]),
    "feature_alpha_dropout": _plain(lambda m: [call(m.f(4, 3, 2), 0.5, False)]),
    "col2im": _plain(lambda m: [call(m.f(1, 8, 9), (4, 4), (2, 2))]),
    "convolution": _plain(lambda m: [call(m.f(1, 2, 4, 4), m.f(3, 2, 2, 2), m.f(3), (1, 1), (0, 0), (1, 1), False,
                                          (0, 0), 1)]),
    **{f"max_unpool{d}d": _unpool(d) for d in (1, 2, 3)},
    "fractional_max_pool": _plain(lambda m: [
        call(m.distinct(2, 2, 6, 5), (2, 2), (3, 2), m.f(2, 2, 2, low=0.1, high=0.9), 2),
        call(m.distinct(2, 4, 5, 4), (2, 2, 1), (2, 3, 3), m.f(1, 2, 3, low=0.1, high=0.9), 3)]),
    "lp_pool3d": _plain(lambda m: [call(m.f(1, 1, 4, 4, 4, low=0.1), 2.0, 2)]),
    "native_dropout": _plain(lambda m: [call(m.f(4, 3), 0.5, False)]),
    "gumbel_softmax": _plain(lambda m: [call(m.f(2, 3))]),
    "pad": _plain(lambda m: [call(m.f(2, 3), (1, 2)), call(m.f(1, 2, 3, 3), (1, 1, 0, 2), value=1.5),
                             call(m.f(1, 2, 3, 3), (1, 1, 1, 1), "reflect"),
                             call(m.f(1, 2, 3), (1, 2), "replicate"), call(m.f(1, 2, 3), (1, 1), "circular"),
                             call(m.f(4), (-1, 1))]),
    "constant_pad_nd": _plain(lambda m: [call(m.f(2, 3), (1, 2), 0.5)]),
    "pixel_shuffle": _plain(lambda m: [call(m.f(1, 4, 2, 2), 2)]),
    "pixel_unshuffle": _plain(lambda m: [call(m.f(1, 1, 4, 4), 2)]),
    "channel_shuffle": _plain(lambda m: [call(m.f(1, 4, 2, 2), 2)]),
    "interpolate": _plain(lambda m: [
        call(m.f(1, 2, 3, 3), scale_factor=2), call(m.f(1, 2, 4, 3), (3, 5), mode="bilinear"),
        call(m.f(1, 2, 4, 3), (2, 5), mode="bilinear", antialias=True),
        call(m.f(1, 2, 4, 3), (3, 5), mode="bicubic", align_corners=True),
        call(m.f(1, 2, 4, 3), None, (0.8, 1.7), "bilinear"), call(m.f(1, 2, 4, 3), (2, 5), mode="area"),
        call(m.f(1, 1, 3, 2, 2), (2, 3, 4), mode="trilinear", align_corners=True),
        call(m.f(2, 1, 4, 3), (2, 5), mode="bicubic", antialias=True)]),
    "resize_backward": _plain(lambda m: [
        call(m.f(1, 2, 3, 5), (4, 3), None, "bicubic", False, False),
        call(m.f(1, 2, 5), (3,), (1.7,), "nearest", False, False)]),
    "grid_sample": _plain(lambda m: [
        call(m.f(1, 2, 4, 3), m.f(1, 2, 3, 2, low=-0.9, high=0.9), align_corners=False),
        call(m.f(2, 1, 3, 4), m.f(2, 1, 2, 2, low=-0.7, high=0.7), "bicubic", "border", True),
        call(m.f(1, 1, 3, 2, 3), m.f(1, 1, 2, 2, 3, low=-0.7, high=0.7), padding_mode="reflection",
             align_corners=True)]),
    "affine_grid": _plain(lambda m: [call(m.f(1, 2, 3), (1, 1, 2, 3), False),
                                     call(m.f(2, 3, 4), (2, 1, 2, 2, 3), True)]),
    "im2col": _plain(lambda m: [call(m.f(1, 2, 4, 4), (2, 2))]),
    "local_response_norm": _plain(lambda m: [call(m.f(2, 4, 3), 2)]),
    "lp_pool1d": _plain(lambda m: [call(m.f(1, 2, 6, low=0.1), 2.0, 2)]),
    "lp_pool2d": _plain(lambda m: [call(m.f(1, 2, 4, 4, low=0.1), 2.0, 2)]),
}
