"""The loss of dense detectors, most of whose examples are easy."""

from flambeau._shown import shown
from flambeau.nn import functional as F

from ._losses import reduced


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    """alpha_t (1 - p_t)^gamma times the binary cross-entropy of logits: examples that are classified well count little
    (Lin et al. 2017).

    inputs, targets: any one shape, targets 0 or 1. alpha: the weight of the ones; -1 for none. reduction: "none",
    "mean" or "sum".
    """
    if alpha != -1 and not 0 <= alpha <= 1:
        raise ValueError(f"sigmoid_focal_loss: alpha must be between 0 and 1, or -1 for no weights; got {shown(alpha)}")
    p = inputs.sigmoid()
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * (1 - p_t) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return reduced(loss, reduction, "sigmoid_focal_loss")
