"""linear_cross_entropy: the loss of a classifier's last layer, without holding all its logits at once if so asked."""

import warnings
from collections import namedtuple

from .. import bfloat16, cat, float16, float32, float64, int64
from .._shown import shown
from ..autograd import Function
from ..ops.kinds import OPS

_linear, _cross_entropy, _softmax = OPS["linear"], OPS["cross_entropy"], OPS["softmax"]
_POLICIES = ("auto", "accurate", "balanced", "compact")


_OPTIONS = "allow_retain_graph batch_chunk_size chunking_method acc_policy acc_dtype"


class LinearCrossEntropyOptions(namedtuple("LinearCrossEntropyOptions", _OPTIONS)):
    """How linear_cross_entropy cuts the batch into pieces, so that only one piece's logits are in memory.

    `batch_chunk_size` is the number of rows of a piece; `chunking_method` "aspect_ratio" (":N" for N times smaller
    pieces) chooses it so that a piece's logits are no larger than the input. Sums are computed in `acc_dtype` (default:
    float32 for half precision, otherwise the input's). The pieces' logits are computed again in the backward pass:
    `acc_policy` and `allow_retain_graph` ask for trade-offs that this does not have, and change nothing.

    >>> import flambeau
    >>> flambeau.nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
    64
    """

    __slots__ = ()

    def __new__(cls, allow_retain_graph=False, batch_chunk_size=None, chunking_method="auto", acc_policy="auto",
                acc_dtype=None):
        self = super().__new__(cls, allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)
        self._check()
        return self

    def _check(self):
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {shown(self.acc_policy)}, expected one of {', '.join(_POLICIES)}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(f"invalid chunking_method: {shown(self.chunking_method)}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be a positive int or None, got {shown(size)}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(f"acc_dtype must be None or a floating dtype, got {shown(self.acc_dtype)}")

    def rows(self, batch, in_features, classes):
        """The number of rows of one piece."""
        method = self.chunking_method
        if method == "auto":
            method = "aspect_ratio:2" if self.batch_chunk_size is None else None
        if method is None:
            return max(1, min(self.batch_chunk_size or batch, batch))
        factor = int(method.partition(":")[2] or 1)
        target = -(-batch // max(1, -(-classes // in_features)))
        size = min((1 << (target - 1).bit_length()) // factor, batch) if target else 1
        if self.batch_chunk_size not in (None, size):
            raise ValueError(
                f"batch_chunk_size={self.batch_chunk_size} contradicts chunking_method={shown(method)}, which means "
                f"{size}; "
                "pass only one of them"
            )
        return max(1, size)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """cross_entropy(linear(input, linear_weight, linear_bias), target): input [N, in_features] or [in_features].

    linear_weight is [classes, in_features], or [classes, d1, …, in_features] for a target [N, d1, …]. `options`
    (LinearCrossEntropyOptions) makes it work in pieces of the batch, which saves memory where classes are many.

    >>> import flambeau
    >>> x, w = flambeau.zeros(2, 3), flambeau.zeros(4, 3)
    >>> flambeau.nn.functional.linear_cross_entropy(x, w, flambeau.tensor([0, 3]))
    tensor(1.3863)
    """
    _check(input, linear_weight, linear_bias)
    classes, *positions = linear_weight.shape[:-1]
    if tuple(target.shape) == (*input.shape[:-1], classes, *positions) and ignore_index is not None:
        raise RuntimeError("linear_cross_entropy: target holds probabilities, so there is no class that "
                           f"ignore_index={ignore_index} could leave out")
    ignore_index = -100 if ignore_index is None else ignore_index
    in_pieces = (
        options is not None and not positions and label_smoothing == 0 and target.dtype == int64
        and reduction in ("mean", "sum", "none")
    )  # fmt: skip
    if in_pieces:
        return _pieces(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, options)
    if options is not None:
        warnings.warn(
            "linear_cross_entropy: options are ignored: working in pieces needs int64 class indices, label_smoothing "
            f"0 and a weight of two dimensions; got {target.dtype}, {label_smoothing} and {list(linear_weight.shape)}",
            stacklevel=2,
        )
    matrix = linear_weight.flatten(0, -2)
    logits = _linear(input, matrix, None if linear_bias is None else linear_bias.flatten())
    if positions:
        logits = logits.unflatten(-1, (classes, *positions))
    return _cross_entropy(
        logits, target, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def _check(input, linear_weight, linear_bias):
    if input.dim() not in (1, 2):
        raise RuntimeError(f"linear_cross_entropy: input must have 1 or 2 dimensions, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError("linear_cross_entropy: linear_weight must have at least 2 dimensions, got "
                           f"{linear_weight.dim()}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"linear_cross_entropy: input has {input.shape[-1]} features and linear_weight {linear_weight.shape[-1]}; "
            "their last dimensions must agree"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {list(linear_weight.shape[:-1])}, got {list(linear_bias.shape)}"
        )
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"linear_weight {list(linear_weight.shape)} of more than two dimensions needs an input [N, in_features], "
            f"got {list(input.shape)}"
        )


def _pieces(input, matrix, target, bias, weight, reduction, ignore_index, options):
    single = input.dim() == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    if target.shape != input.shape[:1]:
        raise ValueError(f"linear_cross_entropy: input holds {len(input)} samples and target {target.shape[0]}")
    rows = options.rows(len(input), input.shape[1], len(matrix))
    half = input.dtype in (float16, bfloat16)
    accumulate = options.acc_dtype or (float32 if half else input.dtype)
    losses = _InPieces.apply(input, matrix, bias, target, weight, ignore_index, rows, accumulate)
    if reduction == "none":
        return losses.squeeze(0) if single else losses
    total = losses.sum()
    if reduction == "sum":
        return total
    counted = target != ignore_index
    if weight is not None:
        counted = weight[target.where(counted, 0)] * counted
    return total / counted.sum().to(total.dtype)


class _InPieces(Function):
    """The losses of all rows, from the logits of `rows` rows at a time; backward computes these again."""

    @staticmethod
    def forward(ctx, input, matrix, bias, target, weight, ignore_index, rows, accumulate):
        ctx.save_for_backward(input, matrix, bias, target, weight)
        ctx.ignore_index, ctx.rows, ctx.accumulate = ignore_index, rows, accumulate
        losses = [
            _cross_entropy(
                _linear(x, matrix, bias).to(accumulate), t, weight=None if weight is None else weight.to(accumulate),
                ignore_index=ignore_index, reduction="none",
            )
            for x, t in zip(input.split(rows), target.split(rows), strict=True)
        ]  # fmt: skip
        return cat(losses).to(input.dtype) if losses else input.new_zeros(0)

    @staticmethod
    def backward(ctx, g):
        input, matrix, bias, target, weight = ctx.saved_tensors
        wide = matrix.to(ctx.accumulate)
        to_input, to_matrix, to_bias = [], 0, 0
        for x, t, share in zip(*(part.split(ctx.rows) for part in (input, target, g)), strict=True):
            counted = t != ctx.ignore_index
            label = t.where(counted, 0)
            share = share.to(ctx.accumulate) * counted
            if weight is not None:
                share = share * weight.to(ctx.accumulate)[label]
            slope = _softmax(_linear(x, matrix, bias).to(ctx.accumulate), 1)
            slope = slope.scatter_add(1, label.unsqueeze(1), -slope.new_ones(len(t), 1)) * share.unsqueeze(1)
            to_input.append((slope @ wide).to(input.dtype))
            to_matrix = to_matrix + slope.t() @ x.to(ctx.accumulate)
            to_bias = to_bias + slope.sum(0)
        if not to_input:
            return input * 1, matrix * 0, None if bias is None else bias * 0, None, None, None, None, None
        to_bias = None if bias is None else to_bias.to(bias.dtype)
        return cat(to_input), to_matrix.to(matrix.dtype), to_bias, None, None, None, None, None
