"""Losses of margins and distances."""

from .. import _C
from .._shown import shown
from .distances import pairwise_distance
from .kinds import OPS, composite
from .losses import _LEGACY, chosen, reduced

_FUNCTIONAL = {"namespace": "nn.functional", "dtypes": "float"}


def _same_ndim(name, **tensors):
    if len({t.ndim for t in tensors.values()}) > 1:
        sizes = ", ".join(f"{key} {list(t.shape)}" for key, t in tensors.items())
        raise RuntimeError(f"{name}: the tensors must have equally many dimensions, got {sizes}")


@composite("soft_margin_loss(Tensor input, Tensor target, " + _LEGACY.format("") + ") -> Tensor",
           autocast="float32", **_FUNCTIONAL)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target input)) for targets 1 and -1."""
    return reduced((target * -input).exp().log1p(), chosen(reduction, size_average, reduce))


@composite("hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, " + _LEGACY.format("") + ") -> Tensor",
           autocast="float32", **_FUNCTIONAL)
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """The input where target is 1, max(0, margin - input) where it is -1."""
    loss = (margin - input).clamp(min=0).masked_fill(target == 1, 0) + input.masked_fill(target == -1, 0)
    return reduced(loss, chosen(reduction, size_average, reduce))


@composite("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, " + _LEGACY.format("")
           + ") -> Tensor", autocast="float32", **_FUNCTIONAL)
def margin_ranking_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin): target 1 wants input1 to rank higher, -1 input2."""
    _same_ndim("margin_ranking_loss", input1=input1, input2=input2, target=target)
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), chosen(reduction, size_average, reduce))


@composite("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, " + _LEGACY.format("")
           + ") -> Tensor", autocast="float32", **_FUNCTIONAL)
def cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    if input1.ndim != input2.ndim or target.ndim != max(input1.ndim, input2.ndim) - 1:
        raise RuntimeError(f"cosine_embedding_loss: a {target.ndim}-D target needs inputs of {target.ndim + 1} "
                           f"dimensions, got {list(input1.shape)} and {list(input2.shape)}")
    eps = 1e-12
    dot = (input1 * input2).sum(-1)
    cos = dot / ((input1.square().sum(-1) + eps) * (input2.square().sum(-1) + eps)).sqrt()
    loss = (1 - cos).masked_fill(target != 1, 0) + (cos - margin).clamp(min=0).masked_fill(target != -1, 0)
    return reduced(loss, chosen(reduction, size_average, reduce))


@composite("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0,"
           " float eps=1e-06, bool swap=False, " + _LEGACY.format("") + ") -> Tensor",
           autocast="float32", **_FUNCTIONAL)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin); `swap` takes the nearer of two distances."""
    if margin <= 0:
        raise ValueError(f"margin must be positive, got {shown(margin)}")
    _same_ndim("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp(min=0), chosen(reduction, size_average, reduce))


@composite("triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *,"
           " any distance_function=None, float margin=1.0, bool swap=False, str reduction=\"mean\") -> Tensor",
           samples="triplet_margin_loss", **_FUNCTIONAL)
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """As triplet_margin_loss, with a distance of one's own."""
    if margin <= 0:
        raise ValueError(f"margin must be positive, got {shown(margin)}")
    _same_ndim("triplet_margin_with_distance_loss", anchor=anchor, positive=positive, negative=negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)


def _class_indices(name, target):
    if target.dtype != _C.int64:
        raise RuntimeError(f"{name}: expected target to hold class indices of dtype int64, got {target.dtype}; use "
                           "target.long()")


def _rows(name, input, target):
    """Input as [batch, classes] and target as [batch]."""
    if input.ndim == 0:
        input = input.reshape(1)
    if input.ndim > 2 or (input.ndim == 2 and target.ndim != 1):
        raise RuntimeError(f"{name}: expected input [batch, classes] and target [batch], got {list(input.shape)} and"
                           f" {list(target.shape)}")
    return (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.reshape(1))


@composite("multi_margin_loss(Tensor input, Tensor target, float p=1, float margin=1.0, Tensor? weight=None, "
           + _LEGACY.format("") + ") -> Tensor", autocast="float32", **_FUNCTIONAL)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """mean over classes c != target of max(0, margin - input[target] + input[c]) ** p; p is 1 or 2."""
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {shown(p)}")
    reduction = chosen(reduction, size_average, reduce)
    rows, labels = _rows("multi_margin_loss", input, target)
    if weight is not None and (weight.ndim != 1 or weight.numel() != rows.shape[1]):
        error = RuntimeError if weight.ndim == 1 else ValueError
        raise error(f"multi_margin_loss: expected a weight of shape [{rows.shape[1]}], got {list(weight.shape)}")
    _class_indices("multi_margin_loss", target)
    index = labels.unsqueeze(1)
    z = (margin - rows.gather(1, index) + rows).clamp(min=0)
    z = z if p == 1 else z.square()
    if weight is not None:
        z = z * weight.gather(0, labels).unsqueeze(1)
    loss = z.scatter(1, index, 0.0).sum(1) / rows.shape[1]
    return reduced(loss if input.ndim == 2 or target.ndim == 1 else loss.squeeze(0), reduction)


@composite("multilabel_margin_loss(Tensor input, Tensor target, " + _LEGACY.format("") + ") -> Tensor",
           autocast="float32", skip="tested by name", **_FUNCTIONAL)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """mean of max(0, 1 - input[label] + input[c]) over the labels before the first -1 and all other classes c."""
    reduction = chosen(reduction, size_average, reduce)
    fits = input.shape == target.shape or (max(input.ndim, target.ndim) < 2 and input.numel() == target.numel())
    if not fits or input.ndim > 2 or (input.numel() == 0 and input.shape[-1] == 0):
        raise RuntimeError(f"multilabel_margin_loss: expected input and target of one shape [batch, classes], got"
                           f" {list(input.shape)} and {list(target.shape)}")
    _class_indices("multilabel_margin_loss", target)
    rows, labels = (input, target) if input.ndim == 2 else (input.reshape(1, -1), target.reshape(1, -1))
    given = (labels < 0).cumsum(1) == 0
    safe = labels.masked_fill(~given, 0)
    is_label = given.new_zeros(given.shape, dtype=safe.dtype).scatter_add(1, safe, given.long()) > 0
    z = (1 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    z = z * (given.unsqueeze(2) & ~is_label.unsqueeze(1))
    loss = z.sum((1, 2)) / rows.shape[1]
    return reduced(loss if input.ndim == 2 else loss.squeeze(0), reduction)


@composite("multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, " + _LEGACY.format("")
           + ") -> Tensor", autocast="float32", skip="tested by name", **_FUNCTIONAL)
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of the binary cross entropy of sigmoid(input)."""
    if input.shape != target.shape:
        raise RuntimeError(f"multilabel_soft_margin_loss: expected input and target of one shape, got "
                           f"{list(input.shape)} and {list(target.shape)}")
    loss = OPS["binary_cross_entropy_with_logits"](input, target.to(input.dtype), reduction="none")
    if weight is not None:
        loss = loss * weight
    return reduced(loss.mean(-1), chosen(reduction, size_average, reduce))
