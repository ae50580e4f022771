"""Losses of classes."""

from ... import _C
from .._emitter import Unavailable
from ._table import translates


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
