"""Losses: of classes, of differences, of probabilities."""

from ... import _C
from .._emitter import Unavailable
from ._table import translates
from .functions import log1p_of
from .pointwise import operands


def _batched(g, self, target):
    if self.rank > 1:
        return self, target
    return g.shaped(g.unsqueeze(self, 0), (1, *self.shape)), g.reshape(target, [1])


def _unbatched(g, loss, self, reduction):
    return g.squeeze(loss, 0) if self.rank == 1 and reduction == "none" else loss


@translates("_nll_loss")
def nll_loss(g, self, target, weight, ignore_index, reduction):
    x, labels = _batched(g, self, target)
    labels = g.cast(labels, _C.int64)
    loss = g.op("NegativeLogLikelihoodLoss", x, labels, weight, ignore_index_i=ignore_index, reduction=reduction)
    return _unbatched(g, loss, self, reduction)


@translates("_cross_entropy")
def cross_entropy(g, self, target, weight, ignore_index, reduction, label_smoothing, wide=False):
    x, labels = _batched(g, self, target)
    labels = g.cast(labels, _C.int64)
    x = g.shaped(g.cast(x, _C.float32), x.shape) if wide else x
    if not label_smoothing:
        loss = g.op("SoftmaxCrossEntropyLoss", x, labels, weight, ignore_index_i=ignore_index, reduction=reduction)
        return _unbatched(g, loss, self, reduction)
    return _unbatched(g, _smoothed(g, x, labels, weight, ignore_index, reduction, label_smoothing), self, reduction)


def _smoothed(g, x, labels, weight, ignore_index, reduction, smoothing):
    """(1 - s) of the label's loss and s of the mean over all classes, each weighted; labels that are left out count
    nothing."""
    classes, dtype = x.shape[1], x.dtype
    if not isinstance(classes, int):
        raise Unavailable("label_smoothing with an open number of classes is not written")
    logs = g.op("LogSoftmax", x, axis=1)
    label = g.op("NegativeLogLikelihoodLoss", logs, labels, weight, ignore_index_i=ignore_index, reduction="none")
    every = logs
    if weight is not None:
        every = g.op("Mul", logs, g.op("Reshape", weight, [-1, *[1] * (x.rank - 2)]))
    every = g.op("Neg", g.op("ReduceSum", every, [1], keepdims=0))
    left_out = g.op("Equal", labels, g.scalar(ignore_index, _C.int64))
    every = g.op("Where", left_out, g.scalar(0.0, dtype), every)
    loss = g.op("Add", g.op("Mul", label, g.scalar(1 - smoothing, dtype)),
                g.op("Mul", every, g.scalar(smoothing / classes, dtype)))
    if reduction == "none":
        return loss
    total = g.op("ReduceSum", loss, keepdims=0)
    if reduction == "sum":
        return total
    if weight is None:
        counts = g.cast(g.op("Not", left_out), dtype)
    else:
        safe = g.op("Where", left_out, g.scalar(0, _C.int64), labels)
        counts = g.op("Where", left_out, g.scalar(0.0, dtype), g.op("Gather", weight, safe, axis=0))
    return g.op("Div", total, g.op("ReduceSum", counts, keepdims=0))


# ---- element by element ----------------------------------------------------------------------------------------------

def _distance(g, self, target):
    return g.op("Abs", g.op("Sub", *operands(g, self, target)))


@translates("_squared_difference")
def squared_difference(g, self, target):
    d = g.op("Sub", *operands(g, self, target))
    return g.op("Mul", d, d)


@translates("_absolute_difference")
def absolute_difference(g, self, target):
    return _distance(g, self, target)


@translates("_smooth_l1")
def smooth_l1(g, self, target, beta):
    """d^2 / (2 beta) below beta, else d - beta / 2."""
    d = _distance(g, self, target)
    if not beta:
        return d
    near = g.op("Mul", g.op("Mul", d, d), g.scalar(0.5 / beta, d.dtype))
    return g.op("Where", g.op("Less", d, g.scalar(beta, d.dtype)), near, g.op("Sub", d, g.scalar(beta / 2, d.dtype)))


@translates("_huber")
def huber(g, self, target, delta):
    """d^2 / 2 up to delta, else delta (d - delta / 2)."""
    d = _distance(g, self, target)
    near = g.op("Mul", g.op("Mul", d, d), g.scalar(0.5, d.dtype))
    far = g.op("Mul", g.op("Sub", d, g.scalar(delta / 2, d.dtype)), g.scalar(delta, d.dtype))
    return g.op("Where", g.op("LessOrEqual", d, g.scalar(delta, d.dtype)), near, far)


@translates("_bce")
def bce(g, self, target):
    """-(t log x + (1 - t) log(1 - x)), the logarithms at least -100."""
    x, t = operands(g, self, target)
    one, low = g.scalar(1.0, x.dtype), g.scalar(-100.0, x.dtype)
    yes = g.op("Mul", t, g.op("Max", g.op("Log", x), low))
    no = g.op("Mul", g.op("Sub", one, t), g.op("Max", log1p_of(g, g.op("Neg", x)), low))
    return g.op("Neg", g.op("Add", yes, no))


@translates("_bce_with_logits")
def bce_with_logits(g, self, target):
    """max(x, 0) - x t + log(1 + exp(-|x|))."""
    x, t = operands(g, self, target)
    high = g.op("Max", x, g.scalar(0.0, x.dtype))
    rest = log1p_of(g, g.op("Exp", g.op("Neg", g.op("Abs", x))))
    return g.op("Add", g.op("Sub", high, g.op("Mul", x, t)), rest)
