"""nn.functional: the operators of networks under PyTorch's names; own bodies only for forms that are not operators.

Each name of `_OPERATORS` is the operator of that name in `flambeau.ops`.
"""

import warnings

from .._absent import refusals
from .._tensor.overriding import has_torch_function as has_torch_function
from .._tensor.overriding import has_torch_function_unary as has_torch_function_unary
from .._tensor.overriding import has_torch_function_variadic as has_torch_function_variadic
from ..ops.kinds import ALIASES, OPS
from . import grad as grad
from ._attention_forward import _canonical_mask as _canonical_mask
from ._attention_forward import _none_or_dtype as _none_or_dtype
from ._attention_forward import multi_head_attention_forward as multi_head_attention_forward
from ._chunked_loss import linear_cross_entropy as linear_cross_entropy
from ._scaled_groups import scaled_grouped_mm as scaled_grouped_mm
from ._scaled_products import ScalingType as ScalingType
from ._scaled_products import SwizzleType as SwizzleType
from ._scaled_products import grouped_mm as grouped_mm
from ._scaled_products import scaled_mm as scaled_mm

_OPERATORS = (
    # products and convolutions
    "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "conv_tbc",
    # pooling
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    # normalization, dropout, lookup
    "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm", "normalize",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
    "embedding", "embedding_bag", "one_hot", "scaled_dot_product_attention",
    # activations without an in-place flag
    "sigmoid", "tanh", "logsigmoid", "softsign", "tanhshrink", "gelu", "glu", "hardshrink", "softshrink", "softplus",
    "prelu", "gumbel_softmax",
    # shapes of images
    "pad", "interpolate", "grid_sample", "affine_grid", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle",
    # distances
    "cosine_similarity", "pairwise_distance", "pdist",
)  # fmt: skip
_MAX_POOLS = tuple(
    f"{kind}max_pool{d}d{form}" for kind in ("", "adaptive_") for d in (1, 2, 3) for form in ("", "_with_indices")
)
_LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss",
    "soft_margin_loss", "multilabel_soft_margin_loss", "multilabel_margin_loss", "multi_margin_loss",
    "cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    "ctc_loss",
)  # fmt: skip


def _find(name):
    """The operator with the public name nn.functional.`name`."""
    return ALIASES.get("nn.functional." + name) or OPS[name]


globals().update({name: _find(name) for name in (*_OPERATORS, *_MAX_POOLS, *_LOSSES)})
unfold, fold = _find("im2col"), _find("col2im")


def _softmax_dim(name, ndim, stacklevel):
    warnings.warn(
        f"{name}: dim is missing and guessed from the number of dimensions; pass dim=… instead",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


_softmax, _log_softmax = _find("softmax"), _find("log_softmax")


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) divided by its sum along `dim`.

    >>> import flambeau
    >>> flambeau.nn.functional.softmax(flambeau.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(input, _softmax_dim("softmax", input.dim(), _stacklevel) if dim is None else dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(input)), without overflow.

    >>> import flambeau
    >>> flambeau.nn.functional.log_softmax(flambeau.zeros(2), dim=0)
    tensor([-0.6931, -0.6931])
    """
    dim = _softmax_dim("log_softmax", input.dim(), _stacklevel) if dim is None else dim
    return _log_softmax(input, dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-input).

    >>> import flambeau
    >>> flambeau.nn.functional.softmin(flambeau.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(-input, _softmax_dim("softmin", input.dim(), _stacklevel) if dim is None else dim, dtype=dtype)


globals().update(refusals("nn.functional", "add what scaled_mm gives", """
    scaled_addmm(input, mat1, mat2, scale_a, scale_recipe_a,
    scale_b, scale_recipe_b, swizzle_a, swizzle_b, contraction_dim, use_fast_accum, beta, alpha)
    scaled_addmm_(input, mat1, mat2, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a, swizzle_b,
    contraction_dim, use_fast_accum, beta, alpha)
"""))


# ---- older names ----------------------------------------------------------------------------------------------------


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The old name of interpolate."""
    warnings.warn("nn.functional.upsample is the old name of nn.functional.interpolate; use the latter", stacklevel=2)
    return _find("interpolate")(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode "nearest"."""
    warnings.warn(
        "nn.functional.upsample_nearest is the old form of nn.functional.interpolate(…, mode='nearest'); use the "
        "latter", stacklevel=2
    )
    return _find("interpolate")(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode "bilinear" and align_corners."""
    warnings.warn(
        "nn.functional.upsample_bilinear is the old form of nn.functional.interpolate(…, mode='bilinear', "
        "align_corners=True); use the latter", stacklevel=2
    )
    return _find("interpolate")(input, size, scale_factor, "bilinear", True)


# ---- activations that can overwrite their input ---------------------------------------------------------------------


def _overwrite(op, input, *args):
    """input becomes op(input); a copy is handed to an op without in-place form (its rule may need it)."""
    if op.inplace_form is not None:
        return op.inplace_form(input, *args)
    return input.copy_(op(input.clone() if input.requires_grad else input, *args))


_relu, _relu6, _elu, _selu, _celu = map(_find, ("relu", "relu6", "elu", "selu", "celu"))
_silu, _mish, _hardswish, _hardsigmoid = map(_find, ("silu", "mish", "hardswish", "hardsigmoid"))
_leaky_relu, _hardtanh, _threshold, _rrelu = map(_find, ("leaky_relu", "hardtanh", "threshold", "rrelu"))


def relu(input, inplace=False):
    """max(input, 0).

    >>> import flambeau
    >>> flambeau.nn.functional.relu(flambeau.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu_(input) if inplace else _relu(input)


def relu_(input):
    """relu in place."""
    return _overwrite(_relu, input)


def relu6(input, inplace=False):
    """clamp(input, 0, 6)."""
    return _overwrite(_relu6, input) if inplace else _relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """input where it is positive, otherwise alpha (exp(input) - 1)."""
    return elu_(input, alpha) if inplace else _elu(input, alpha)


def elu_(input, alpha=1.0):
    """elu in place."""
    return _overwrite(_elu, input, alpha)


def selu(input, inplace=False):
    """The self-normalizing elu   (Klambauer et al. 2017)."""
    return selu_(input) if inplace else _selu(input)


def selu_(input):
    """selu in place."""
    return _overwrite(_selu, input)


def celu(input, alpha=1.0, inplace=False):
    """max(input, 0) + min(alpha (exp(input / alpha) - 1), 0)."""
    return celu_(input, alpha) if inplace else _celu(input, alpha)


def celu_(input, alpha=1.0):
    """celu in place."""
    return _overwrite(_celu, input, alpha)


def silu(input, inplace=False):
    """input sigmoid(input)."""
    return _overwrite(_silu, input) if inplace else _silu(input)


def mish(input, inplace=False):
    """input tanh(softplus(input))."""
    return _overwrite(_mish, input) if inplace else _mish(input)


def hardswish(input, inplace=False):
    """input hardsigmoid(input)."""
    return _overwrite(_hardswish, input) if inplace else _hardswish(input)


def hardsigmoid(input, inplace=False):
    """clamp(input / 6 + 1/2, 0, 1)."""
    return _overwrite(_hardsigmoid, input) if inplace else _hardsigmoid(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """input where it is not negative, otherwise negative_slope input."""
    return leaky_relu_(input, negative_slope) if inplace else _leaky_relu(input, negative_slope)


def leaky_relu_(input, negative_slope=0.01):
    """leaky_relu in place."""
    return _overwrite(_leaky_relu, input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """clamp(input, min_val, max_val)."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val={min_val} is above max_val={max_val}")
    return hardtanh_(input, min_val, max_val) if inplace else _hardtanh(input, min_val, max_val)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """hardtanh in place."""
    return _overwrite(_hardtanh, input, min_val, max_val)


def threshold(input, threshold, value, inplace=False):
    """input where it is above `threshold`, otherwise `value`."""
    return threshold_(input, threshold, value) if inplace else _threshold(input, threshold, value)


def threshold_(input, threshold, value):
    """threshold in place."""
    return _overwrite(_threshold, input, threshold, value)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn from [lower, upper] for each element in training, otherwise their mean."""
    return rrelu_(input, lower, upper, training) if inplace else _rrelu(input, lower, upper, training)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """rrelu in place."""
    return _overwrite(_rrelu, input, lower, upper, training)
