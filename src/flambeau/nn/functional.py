"""nn.functional: the operators of networks under PyTorch's names; with an own body only where a form is not an operator.

Each name of `_OPERATORS` is the operator of that name in `flambeau.ops`.
"""

import warnings

from ..ops.kinds import OPS

_OPERATORS = (
    # products and convolutions
    "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "unfold", "fold",
    # pooling
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d",
    # normalization, dropout, lookup
    "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm", "normalize",
    "embedding", "one_hot", "scaled_dot_product_attention",
    # activations without an in-place flag
    "sigmoid", "tanh", "logsigmoid", "softsign", "tanhshrink", "gelu", "glu", "hardshrink", "softshrink", "softplus",
    "prelu", "gumbel_softmax",
    # shapes of images
    "pad", "interpolate", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    # distances
    "cosine_similarity", "pairwise_distance",
)  # fmt: skip
_MAX_POOLS = tuple(f"{kind}max_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3))
_LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss",
    "soft_margin_loss", "multilabel_soft_margin_loss", "multilabel_margin_loss", "multi_margin_loss",
    "cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    "ctc_loss",
)  # fmt: skip


globals().update({name: OPS[name] for name in (*_OPERATORS, *_LOSSES) if name in OPS})
globals().update({name: OPS[name] for name in _MAX_POOLS if name in OPS})


def _softmax_dim(name, ndim):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


_softmax, _log_softmax = OPS["softmax"], OPS["log_softmax"]


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) divided by its sum along `dim`.

    >>> import flambeau
    >>> flambeau.nn.functional.softmax(flambeau.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(input, _softmax_dim("softmax", input.dim()) if dim is None else dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(input)), without overflow.

    >>> import flambeau
    >>> flambeau.nn.functional.log_softmax(flambeau.zeros(2), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _log_softmax(input, _softmax_dim("log_softmax", input.dim()) if dim is None else dim, dtype=dtype)
