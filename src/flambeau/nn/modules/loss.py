"""Losses as layers. `reduction`: "mean", "sum" or "none"; each applies the function of nn.functional of its name."""

import math
import warnings

from ..._shown import shown
from .. import functional as F
from ._repr import fields
from .distance import PairwiseDistance
from .linear import Linear
from .module import Module


def _reduction(size_average, reduce, reduction):
    """The reduction; `size_average` and `reduce` are PyTorch's older way to say it."""
    if size_average is None and reduce is None:
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    name = ("mean" if size_average else "sum") if reduce else "none"
    warnings.warn(
        f"size_average and reduce are old arguments; pass reduction='{name}' instead", stacklevel=3
    )
    return name


class _Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|input - target|.

    >>> import flambeau
    >>> flambeau.nn.L1Loss()(flambeau.zeros(2), flambeau.tensor([1.0, -3.0]))
    tensor(2.)
    """

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)².

    >>> import flambeau
    >>> flambeau.nn.MSELoss()(flambeau.zeros(2), flambeau.tensor([1.0, -3.0]))
    tensor(5.)
    """

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / (2 beta) where d = |input - target| < beta, otherwise d - beta / 2   (Girshick 2015).

    >>> import flambeau
    >>> flambeau.nn.SmoothL1Loss()(flambeau.zeros(1), flambeau.tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where d = |input - target| <= delta, otherwise delta (d - delta / 2)   (Huber 1964).

    >>> import flambeau
    >>> flambeau.nn.HuberLoss()(flambeau.zeros(1), flambeau.tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(input)[target]: input [N, C, *] (logits), target [N, *] (classes) or [N, C, *] (probabilities).

    >>> import flambeau
    >>> flambeau.nn.CrossEntropyLoss()(flambeau.zeros(1, 2), flambeau.tensor([1]))
    tensor(0.6931)
    """

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                 label_smoothing=0.0):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of a linear layer's output: the layer is `linear`, with classes (times out_features) outputs.

    `options` (LinearCrossEntropyOptions) makes it work in pieces of the batch, which saves memory.

    >>> import flambeau
    >>> loss = flambeau.nn.LinearCrossEntropyLoss(3, 10)
    >>> loss(flambeau.zeros(2, 3), flambeau.tensor([4, 9]))
    tensor(2.3026, grad_fn=<NllLossBackward0>)
    """

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None,
                 reduction="mean", weight=None, ignore_index=None, label_smoothing=0.0, options=None):
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"weight must have one entry per class, shape {(num_classes,)}, got "
                               f"{tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"label_smoothing must be between 0 and 1, got {shown(label_smoothing)}")
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.unflatten(0, shape), target,
            linear_bias=None if bias is None else bias.unflatten(0, shape), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
            options=self.options,
        )  # fmt: skip

    def extra_repr(self):
        sizes = {"in_features": self.linear.in_features, "num_classes": self.num_classes,
                 "out_features": self.out_features, "bias": self.linear.bias is not None}
        settings = fields(self, "reduction ignore_index label_smoothing options")
        return f"{fields(self, **sizes)}, {settings}"


class NLLLoss(_WeightedLoss):
    """-input[target]: input [N, C, *] (log probabilities), target [N, *] (classes).

    >>> import flambeau
    >>> flambeau.nn.NLLLoss()(flambeau.tensor([[-1.0, -2.0]]), flambeau.tensor([1]))
    tensor(2.)
    """

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """NLLLoss under a name of the time when pictures had a class of their own; it warns and says so.

    >>> import warnings, flambeau
    >>> with warnings.catch_warnings(action="ignore"):
    ...     loss = flambeau.nn.NLLLoss2d()
    >>> loss(flambeau.zeros(1, 2, 3, 3), flambeau.zeros(1, 3, 3, dtype=flambeau.int64))
    tensor(0.)
    """

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
        warnings.warn("NLLLoss2d: NLLLoss takes inputs [N, C, *] of any number of dimensions; use that",
                      FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class BCELoss(_WeightedLoss):
    """-(target log input + (1 - target) log(1 - input)), for input probabilities.

    >>> import flambeau
    >>> flambeau.nn.BCELoss()(flambeau.tensor([0.5]), flambeau.ones(1))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(input), without overflow; `pos_weight` multiplies the part of target 1.

    >>> import flambeau
    >>> flambeau.nn.BCEWithLogitsLoss()(flambeau.zeros(1), flambeau.ones(1))
    tensor(0.6931)
    """

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """target (log target - input), for input log probabilities; "batchmean" divides the sum by the batch size.

    >>> import flambeau
    >>> flambeau.nn.KLDivLoss(reduction="batchmean")(flambeau.zeros(1, 1), flambeau.ones(1, 1))
    tensor(0.)
    """

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """exp(input) - target input (log_input), or input - target log(input + eps); `full` adds Stirling's term.

    >>> import flambeau
    >>> flambeau.nn.PoissonNLLLoss()(flambeau.zeros(1), flambeau.zeros(1))
    tensor(1.)
    """

    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input, target):
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """(log var + (input - target)² / var) / 2, var at least `eps`; `full` adds log(2π) / 2.

    >>> import flambeau
    >>> flambeau.nn.GaussianNLLLoss()(flambeau.zeros(1), flambeau.ones(1), flambeau.ones(1))
    tensor(0.5000)
    """

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input, target, var):
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """input where target = 1, max(0, margin - input) where target = -1.

    >>> import flambeau
    >>> flambeau.nn.HingeEmbeddingLoss()(flambeau.tensor([0.5]), flambeau.tensor([-1]))
    tensor(0.5000)
    """

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target input)), target ±1.

    >>> import flambeau
    >>> flambeau.nn.SoftMarginLoss()(flambeau.zeros(1), flambeau.ones(1))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the binary cross entropy of sigmoid(input).

    >>> import flambeau
    >>> flambeau.nn.MultiLabelSoftMarginLoss()(flambeau.zeros(1, 2), flambeau.ones(1, 2))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge loss of several right classes per sample; target lists them and ends at -1.

    >>> import flambeau
    >>> flambeau.nn.MultiLabelMarginLoss()(flambeau.zeros(1, 2), flambeau.tensor([[1, -1]]))
    tensor(0.5000)
    """

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over the other classes of max(0, margin - input[target] + input)^p.

    >>> import flambeau
    >>> flambeau.nn.MultiMarginLoss()(flambeau.zeros(1, 2), flambeau.tensor([0]))
    tensor(0.5000)
    """

    def __init__(self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {shown(p)}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: weight must be None or have 1 dimension, got {weight.dim()}")
        self.p, self.margin = p, margin

    def forward(self, input, target):
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """1 - cos(input1, input2) where target = 1, max(0, cos - margin) where target = -1.

    >>> import flambeau
    >>> x = flambeau.ones(1, 2)
    >>> flambeau.nn.CosineEmbeddingLoss()(x, x, flambeau.tensor([1])).round()
    tensor(0.)
    """

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, -target (input1 - input2) + margin), target ±1.

    >>> import flambeau
    >>> flambeau.nn.MarginRankingLoss()(flambeau.zeros(1), flambeau.ones(1), flambeau.ones(1))
    tensor(1.)
    """

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, |anchor - positive|_p - |anchor - negative|_p + margin).

    >>> import flambeau
    >>> x = flambeau.zeros(1, 2)
    >>> flambeau.nn.TripletMarginLoss()(x, x, x)
    tensor(1.)
    """

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be positive, got {shown(margin)}")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with any distance function of two tensors (PairwiseDistance by default).

    >>> import flambeau
    >>> x = flambeau.zeros(1, 2)
    >>> flambeau.nn.TripletMarginWithDistanceLoss(margin=2.0)(x, x, x)
    tensor(2.)
    """

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: margin must be positive, got {shown(margin)}"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """Connectionist temporal classification: log_probs [T, N, C], targets [N, S] or their concatenation (Graves 2006).

    >>> import flambeau
    >>> flambeau.nn.CTCLoss().blank
    0
    """

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank=self.blank, reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )  # fmt: skip
