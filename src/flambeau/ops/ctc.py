"""Connectionist temporal classification: the probability of a label sequence, summed over all its alignments."""

import itertools

from .. import _C
from .._shown import shown
from .kinds import composite, primitive
from .losses import reduced

_ctc_loss_backward = primitive(
    "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] starts, int[] input_lengths, "
    "int[] target_lengths, int blank, Tensor loss, Tensor log_alpha, bool zero_infinity) -> Tensor", namespace=None,
    skip="the derivative of ctc_loss, reached through it",
    doc="The gradient of _ctc_loss for logits whose log-softmax log_probs is (PyTorch's convention).")

_ctc_loss = primitive(
    "_ctc_loss(Tensor log_probs, Tensor targets, int[] starts, int[] input_lengths, int[] target_lengths, int blank, "
    "bool zero_infinity) -> (Tensor, Tensor)", namespace=None, skip="the kernel of ctc_loss, reached through it",
    d={"log_probs": lambda g0, log_probs, targets, starts, input_lengths, target_lengths, blank, zero_infinity, result0,
       result1: _ctc_loss_backward(g0, log_probs, targets, starts, input_lengths, target_lengths, blank, result0,
                                   result1, zero_infinity)},
    doc="-log of the probability of each sequence, and the log probabilities of the beginnings of its alignments.")


@composite(
    "ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, "
    "str reduction='mean', bool zero_infinity=False) -> Tensor", autocast="float32",
    namespace="nn.functional", method=False, aliases=("ctc_loss",), skip="tested by name",
)  # fmt: skip
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """-log of the probability of `targets` under `log_probs` [T, N, C] (or [T, C])   (Graves et al. 2006).

    `targets` is [N, S] or the sequences joined; the lengths are tensors or sequences of N integers. "mean" divides
    each loss by its target's length first. `zero_infinity` makes losses of targets that cannot fit 0.

    >>> log_probs = flambeau.zeros(2, 1, 2).log_softmax(-1)
    >>> flambeau.nn.functional.ctc_loss(log_probs, flambeau.tensor([[1]]), (2,), (1,))  # 3 of 4 paths
    tensor(0.2877)
    """
    single = log_probs.ndim == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    if log_probs.ndim != 3:
        raise RuntimeError(f"ctc_loss: expected log_probs [T, N, C] or [T, C], got {list(log_probs.shape)}")
    steps, batch, classes = log_probs.shape
    if not log_probs.is_floating_point():
        raise NotImplementedError(f"ctc_loss: not implemented for {log_probs.dtype}")
    input_lengths = _lengths("input_lengths", input_lengths, batch, steps)
    target_lengths = _lengths("target_lengths", target_lengths, batch, None)
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank={blank} is not one of the {classes} classes, 0 to {classes - 1}")
    labels, starts = _labels(targets.to(log_probs.device), target_lengths, single, classes)

    wide = log_probs if log_probs.dtype in (_C.float32, _C.float64) else log_probs.float()
    loss = _ctc_loss(wide, labels, starts, input_lengths, target_lengths, blank, zero_infinity)[0]
    loss = loss.to(log_probs.dtype)
    if zero_infinity:
        loss = loss.masked_fill(loss == float("inf"), 0.0)
    if reduction == "mean":
        loss = loss / loss.new_tensor([max(n, 1) for n in target_lengths])
    loss = loss.squeeze(0) if single else loss
    return reduced(loss, reduction)


def _lengths(name, lengths, batch, most):
    tensor = hasattr(lengths, "reshape")
    if tensor:
        lengths = lengths.reshape(-1).tolist()
    if not isinstance(lengths, (list, tuple)) or any(not isinstance(n, int) for n in lengths):
        kind = RuntimeError if tensor else TypeError
        raise kind(f"ctc_loss: {name} must be a tensor, list or tuple of integers, got {shown(lengths)}")
    lengths = list(lengths)
    if len(lengths) != batch:
        raise RuntimeError(f"ctc_loss: {name} must be {batch} integers, one per batch entry, got {shown(lengths)}")
    if any(n < 0 or (most is not None and n > most) for n in lengths):
        raise RuntimeError(f"ctc_loss: {name} must be between 0 and {most}, got {shown(lengths)}")
    return lengths


def _labels(targets, lengths, single, classes):
    """All labels in one row, and where each batch entry's begin."""
    if targets.is_complex():
        raise RuntimeError(f"ctc_loss: targets must be integers, got {targets.dtype}")
    if targets.numel() and not (targets.min().item() >= 0 and targets.max().item() < classes):
        raise RuntimeError(f"ctc_loss: targets must be between 0 and {classes - 1}")
    if single or targets.ndim == 1:
        flat = targets.reshape(-1)
        if sum(lengths) > flat.numel():
            raise RuntimeError(f"ctc_loss: target_lengths {shown(lengths)} ask for more than the {flat.numel()} "
                               "targets given")
        return flat.to(_C.int64), [0, *itertools.accumulate(lengths)][: len(lengths)]
    if targets.ndim != 2 or len(targets) != len(lengths) or max(lengths, default=0) > targets.shape[1]:
        raise RuntimeError(
            f"ctc_loss: expected targets [N, S] with S at least the longest of target_lengths {shown(lengths)}, "
            f"got {list(targets.shape)}"
        )
    return targets.to(_C.int64).reshape(-1), [k * targets.shape[1] for k in range(len(lengths))]
