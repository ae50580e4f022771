"""Connectionist temporal classification: the probability of a label sequence, summed over all its alignments."""

from .kinds import OPS, composite
from .loss import reduced

# stands for log 0: finite, so that the gradient of impossible alignments is 0 and not NaN
_NEVER = -1e30


@composite(
    "ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, "
    "str reduction='mean', bool zero_infinity=False) -> Tensor",
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
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range, got {blank} of {classes} classes")
    input_lengths = _lengths("input_lengths", input_lengths, batch, steps)
    target_lengths = _lengths("target_lengths", target_lengths, batch, None)
    rows = _rows(targets, target_lengths, single, classes)

    width = max(target_lengths, default=0)
    labels = OPS["full"]((batch, 2 * width + 1), blank, dtype=targets.dtype)  # blank, l1, blank, l2, … blank
    for k, row in enumerate(rows):
        labels[k, 1 : 2 * len(row) + 1 : 2] = row
    labels = labels.long()
    emitted = log_probs.gather(2, labels.unsqueeze(0).expand(steps, -1, -1))
    # a label may follow the label before it directly, unless both are the same
    jump = labels.new_zeros(labels.shape, dtype=log_probs.dtype) + _NEVER
    if width > 1:
        jump[:, 3::2] = jump[:, 3::2].masked_fill(labels[:, 3::2] != labels[:, 1:-2:2], 0.0)
    loss = -_forward(emitted, jump, input_lengths, target_lengths)
    impossible = loss > -_NEVER / 2
    loss = loss.masked_fill(impossible, 0.0 if zero_infinity else float("inf"))
    if reduction == "mean":
        loss = loss / loss.new_tensor([max(n, 1) for n in target_lengths])
    loss = loss.squeeze(0) if single else loss
    return reduced(loss, reduction)


def _forward(emitted, jump, input_lengths, target_lengths):
    """alpha_t[s] = emitted_t[s] + logsumexp(alpha[s], alpha[s-1], alpha[s-2] + jump[s]); its ends at each length."""
    steps, batch, width = emitted.shape
    start = emitted.new_full((batch, width), _NEVER)
    start[:, :2] = 0.0
    alpha = start + emitted[0]
    final = [None] * batch
    edge = emitted.new_full((batch, 2), _NEVER)
    for t in range(steps):
        if t:
            one = OPS["cat"]([edge[:, :1], alpha[:, :-1]], 1)
            two = OPS["cat"]([edge, alpha[:, :-2]], 1)[:, :width] + jump
            alpha = emitted[t] + OPS["stack"]([alpha, one, two]).logsumexp(0)
        for k in range(batch):
            if input_lengths[k] == t + 1:
                ends = alpha[k, max(2 * target_lengths[k] - 1, 0) : 2 * target_lengths[k] + 1]
                final[k] = ends.logsumexp(0)
    never = emitted.new_full((), _NEVER)
    empty = emitted.new_zeros(())  # no steps: certain for no labels
    return OPS["stack"]([
        (empty if target_lengths[k] == 0 else never) if value is None else value for k, value in enumerate(final)
    ])  # fmt: skip


def _lengths(name, lengths, batch, most):
    lengths = lengths.reshape(-1).tolist() if hasattr(lengths, "reshape") else list(lengths)
    if len(lengths) != batch or any(not isinstance(n, int) for n in lengths):
        raise RuntimeError(f"ctc_loss: {name} must be {batch} integers, one per batch entry, got {lengths}")
    if any(n < 0 or (most is not None and n > most) for n in lengths):
        raise RuntimeError(f"ctc_loss: {name} must be between 0 and {most}, got {lengths}")
    return lengths


def _rows(targets, lengths, single, classes):
    """The label sequence of each batch entry."""
    if targets.is_floating_point() or targets.is_complex():
        raise RuntimeError(f"ctc_loss: targets must be integers, got {targets.dtype}")
    if targets.numel() and not (targets.min().item() >= 0 and targets.max().item() < classes):
        raise RuntimeError(f"ctc_loss: targets must be between 0 and {classes - 1}")
    if single or targets.ndim == 1:
        flat = targets.reshape(-1)
        if sum(lengths) > flat.numel():
            raise RuntimeError(f"ctc_loss: target_lengths {lengths} ask for more than the {flat.numel()} targets given")
        starts = [sum(lengths[:k]) for k in range(len(lengths))]
        return [flat[start : start + n] for start, n in zip(starts, lengths)]
    if targets.ndim != 2 or len(targets) != len(lengths) or max(lengths, default=0) > targets.shape[1]:
        raise RuntimeError(
            f"ctc_loss: expected targets [N, S] with S at least the longest of target_lengths {lengths}, "
            f"got {list(targets.shape)}"
        )
    return [row[:n] for row, n in zip(targets, lengths)]
