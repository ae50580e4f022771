"""Classification and regression losses."""

import warnings

from .. import _C
from .._shown import shown
from .kinds import OPS, composite, elementwise, plain, primitive
from .softmax import _softmax_backward_data

_DERIVATIVE = "a derivative; reached through the function it belongs to"
_LEGACY = "any size_average=None, {}any reduce=None, str reduction=\"mean\""


def reduced(loss, reduction):
    """`loss` itself, its mean or its sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {shown(reduction)}")


def chosen(reduction, size_average, reduce):
    """The reduction, also from PyTorch's older pair of flags."""
    if size_average is None and reduce is None:
        if reduction not in ("mean", "sum", "none", "batchmean"):
            raise ValueError("reduction must be 'none', 'mean' or 'sum' (kl_div: or 'batchmean'), got "
                             f"{shown(reduction)}")
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def same_size(name, input, target):
    """Warns where two sizes broadcast, which in a loss is nearly always a mistake."""
    if input.shape != target.shape:
        warnings.warn(f"{name}: input {list(input.shape)} and target {list(target.shape)} differ and are broadcast, "
                      "which is rarely meant; give them one shape", stacklevel=3)


# --- classes --------------------------------------------------------------------------------------------------------

def _distribution(input, target, weight, ignore_index, smoothing):
    """q of each label over the classes (dimension 1, or 0 of a vector), and the weight each label counts in a mean."""
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    shape = [1] * input.ndim
    shape[dim] = classes
    w = input.new_ones(shape) if weight is None else weight.to(input.dtype).reshape(shape)
    target = target.long().reshape(1) if input.ndim == 1 else target.long().unsqueeze(1)
    valid = target != ignore_index
    target = target.masked_fill(~valid, 0)
    hit = input.new_zeros(input.shape).scatter(dim, target, w.expand(input.shape).gather(dim, target))
    return valid * (hit * (1 - smoothing) + w * (smoothing / classes)), (valid * hit).sum(), dim


def _cross_entropy_second(g, grad_output, self, target, weight, ignore_index, reduction, smoothing, needs):
    """r = s (p Q - q): linear in the upstream gradient, and in the logits through p = softmax."""
    q, total_weight, dim = _distribution(self, target, weight, ignore_index, smoothing)
    total, p = q.sum(dim, True), self.softmax(dim)
    scale = 1 / total_weight if reduction == "mean" else 1
    upstream = grad_output
    if reduction == "none":
        upstream = grad_output.reshape(1) if self.ndim == 1 else grad_output.unsqueeze(1)
    along = g * (p * total - q) * scale
    along = (along.sum() if reduction != "none" else along.sum(dim)).reshape(grad_output.shape)
    slope = upstream * scale * total * _softmax_backward_data(g.expand(p.shape), p, dim, None)
    return along.to(grad_output.dtype) if needs[0] else None, slope.to(self.dtype) if needs[1] else None


_cross_entropy_backward = primitive(
    "_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int ignore_index,"
    " str reduction, float label_smoothing) -> Tensor", namespace=None,
    d={("grad_output", "self"):
       lambda g, grad_output, self, target, weight, ignore_index, reduction, label_smoothing, needs:
       _cross_entropy_second(g, grad_output, self, target, weight, ignore_index, reduction, label_smoothing, needs)},
    skip=_DERIVATIVE, doc="Gradient of cross_entropy: softmax minus the labels' distribution.")

_cross_entropy = primitive(
    "_cross_entropy(Tensor self, Tensor target, Tensor? weight, int ignore_index, str reduction, float label_smoothing,"
    " bool wide=False) -> Tensor", node="NllLossBackward0", namespace=None,
    d={"self": lambda g, self, target, weight, ignore_index, reduction, label_smoothing, wide:
       _cross_entropy_backward(g, self, target, weight, ignore_index, reduction, label_smoothing)},
    skip="the kernel of cross_entropy, reached through it",
    doc="cross_entropy with class indices, in one pass; wide: of halves, with a loss and weights of float32.")


@composite("cross_entropy(Tensor input, Tensor target, Tensor? weight=None, "
           + _LEGACY.format("int ignore_index=-100, ") + ", float label_smoothing=0.0) -> Tensor",
           namespace="nn.functional", dtypes="float")
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """-log softmax(input)[target] over the class dimension 1: target holds class indices [batch, ...] or probabilities
    of the input's shape. A mean is weighted by `weight`; labels equal to ignore_index do not count.

    >>> flambeau.nn.functional.cross_entropy(flambeau.tensor([[0., 0.]]), flambeau.tensor([1]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = chosen(reduction, size_average, reduce)
    wide = _autocast_widens(input)  # the loss alone has to be float32, not a copy of all logits
    if wide and weight is not None:
        weight = weight.float()
    if not target.is_floating_point():
        return _cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing, wide)
    if wide:
        input, target = input.float(), target.float()
    return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def _autocast_widens(x):
    """Whether these are halves and autocast would make them float32."""
    if x.dtype not in (_C.float16, _C.bfloat16):
        return False
    return (_C.cuda_autocast_state() if x.is_cuda else _C.autocast_state())[0]


def _soft_cross_entropy(input, target, weight, ignore_index, reduction, smoothing):
    if input.ndim > 1 and target.ndim and len(target) != len(input):
        raise ValueError(f"cross_entropy: input holds {len(input)} samples and target {len(target)}")
    if target.shape != input.shape:
        raise RuntimeError(f"cross_entropy: expected class probabilities of the input's shape {list(input.shape)}, got"
                           f" {list(target.shape)}")
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: target holds probabilities, so there is no class that "
                           f"ignore_index={shown(ignore_index)} could leave out")
    if not 0 <= smoothing <= 1:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0 and 1, got {shown(smoothing)}")
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    loss = -input.log_softmax(dim) * target
    if weight is not None:
        shape = [1] * input.ndim
        shape[dim] = classes
        loss = loss * weight.reshape(shape)
    if reduction == "mean":
        return loss.sum() / (input.numel() // classes if classes else 0)
    return reduced(loss.sum(dim), reduction)


_nll_loss_backward = primitive(
    "_nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int ignore_index,"
    " str reduction) -> Tensor", namespace=None,
    d={"grad_output": lambda g, target, weight, ignore_index, reduction:
       _nll_loss(g, target, weight, ignore_index, reduction)},
    skip=_DERIVATIVE, doc="Gradient of nll_loss: minus the weight at each label.")

_nll_loss = primitive(
    "_nll_loss(Tensor self, Tensor target, Tensor? weight, int ignore_index, str reduction) -> Tensor", namespace=None,
    d={"self": lambda g, self, target, weight, ignore_index, reduction:
       _nll_loss_backward(g, self, target, weight, ignore_index, reduction)},
    skip="the kernel of nll_loss, reached through it", doc="nll_loss without PyTorch's older arguments.")


@composite("nll_loss(Tensor input, Tensor target, Tensor? weight=None, " + _LEGACY.format("int ignore_index=-100, ")
           + ") -> Tensor", autocast="float32", namespace="nn.functional", dtypes="float")
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-input[target] over the class dimension 1 of log-probabilities; else as cross_entropy.

    >>> flambeau.nn.functional.nll_loss(flambeau.tensor([[-1., -2.]]), flambeau.tensor([1]))
    tensor(2.)
    """
    return _nll_loss(input, target, weight, ignore_index, chosen(reduction, size_average, reduce))


# --- regression -----------------------------------------------------------------------------------------------------

_PAIR = "(Tensor input, Tensor target, " + _LEGACY.format("")


def _pointwise(signature, doc, along_self, along_target, cuda):
    """A loss of each element of self and target, with its two derivative rules."""
    return elementwise(signature + " -> Tensor", namespace=None, inplace=False, out=False, doc=doc,
                       d={"self": along_self, "target": along_target},
                       skip="an element of a loss, reached through it", cuda=cuda)


def _in_units(difference, beta):
    return difference if beta == 1 else difference / beta


def _apart(a, b):
    """a - b, where one may be a mask."""
    return a.to(b.dtype) - b if a.dtype is _C.bool else a - (b.to(a.dtype) if b.dtype is _C.bool else b)


_squared_difference = _pointwise(
    "_squared_difference(Tensor self, Tensor target)", "(x - t)^2.",
    lambda g, self, target: g * _apart(self, target) * 2, lambda g, self, target: g * _apart(target, self) * 2,
    cuda="(self - target) * (self - target)")
_absolute_difference = _pointwise(
    "_absolute_difference(Tensor self, Tensor target)", "|x - t|.",
    lambda g, self, target: g * _apart(self, target).sign(), lambda g, self, target: g * _apart(target, self).sign(),
    cuda="fabs(self - target)")
_smooth_l1 = _pointwise(
    "_smooth_l1(Tensor self, Tensor target, float beta)", "d^2 / (2 beta) below beta, else d - beta / 2; d = |x - t|.",
    lambda g, self, target, beta: g * _in_units(_apart(self, target), beta).clamp(-1, 1),
    lambda g, self, target, beta: g * _in_units(_apart(target, self), beta).clamp(-1, 1),
    cuda="smooth_l1(fabs(self - target), beta)")
_huber = _pointwise(
    "_huber(Tensor self, Tensor target, float delta)", "d^2 / 2 up to delta, else delta (d - delta / 2); d = |x - t|.",
    lambda g, self, target, delta: g * _apart(self, target).clamp(-delta, delta),
    lambda g, self, target, delta: g * _apart(target, self).clamp(-delta, delta),
    cuda="huber(fabs(self - target), delta)")


def _weighted(loss, weight, reduction):
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError(f"weight {list(weight.shape)} must be shaped as input {list(loss.shape)}")
    loss = loss * weight
    return loss.sum() / weight.expand(loss.shape).sum() if reduction == "mean" else reduced(loss, reduction)


@composite("mse_loss" + _PAIR + ", Tensor? weight=None) -> Tensor", autocast="float32", namespace="nn.functional")
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target) ** 2, averaged (or summed, or as it is).

    >>> flambeau.nn.functional.mse_loss(flambeau.tensor([1., 2.]), flambeau.tensor([1., 4.]))
    tensor(2.)
    """
    same_size("mse_loss", input, target)
    return _weighted(_squared_difference(input, target), weight, chosen(reduction, size_average, reduce))


@composite("l1_loss" + _PAIR + ", Tensor? weight=None) -> Tensor", autocast="float32", namespace="nn.functional")
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|, averaged (or summed, or as it is)."""
    same_size("l1_loss", input, target)
    real = not (input.is_complex() or target.is_complex()) and (input.is_floating_point() or target.is_floating_point())
    distance = _absolute_difference(input, target) if real else (input - target).abs()
    return _weighted(distance, weight, chosen(reduction, size_average, reduce))


@composite("smooth_l1_loss" + _PAIR + ", float beta=1.0) -> Tensor",
           autocast="float32", namespace="nn.functional", dtypes="float")
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """0.5 d^2 / beta where d = |input - target| is below beta, else d - 0.5 beta (Girshick 2015)."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {shown(beta)}")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    same_size("smooth_l1_loss", input, target)
    return reduced(_smooth_l1(input, target, beta), chosen(reduction, size_average, reduce))


@composite("huber_loss(Tensor input, Tensor target, str reduction=\"mean\", float delta=1.0, Tensor? weight=None)"
           " -> Tensor", autocast="float32", namespace="nn.functional", dtypes="float")
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """0.5 d^2 where d = |input - target| is at most delta, else delta (d - 0.5 delta) (Huber 1964)."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {shown(delta)}")
    same_size("huber_loss", input, target)
    return _weighted(_huber(input, target, delta), weight, reduction)


# --- probabilities --------------------------------------------------------------------------------------------------

_bce = _pointwise("_bce(Tensor self, Tensor target)", "-(t log x + (1 - t) log(1 - x)), the logarithms at least -100.",
                  lambda g, self, target: g * (self - target) / ((1 - self) * self).clamp(min=1e-12),
                  lambda g, self: g * ((-self).log1p().clamp(min=-100) - self.log().clamp(min=-100)),
                  cuda="bce(self, target)")
_bce_with_logits = _pointwise("_bce_with_logits(Tensor self, Tensor target)", "max(x, 0) - x t + log(1 + exp(-|x|)).",
                              lambda g, self, target: g * (self.sigmoid() - target), lambda g, self: -g * self,
                              cuda="(self < T(0) ? T(0) : self) - self * target + log1p(exp(-fabs(self)))")


def _floating_target(name, target):
    if not (target.is_floating_point() or target.is_complex()):
        raise RuntimeError(f"{name}: expected a floating point target, got {target.dtype}; use target.float()")


@composite("binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, " + _LEGACY.format("")
           + ") -> Tensor", autocast="float32", namespace="nn.functional", dtypes="float")
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(target log(input) + (1 - target) log(1 - input)) of probabilities, times weight; the logarithms at least -100.

    >>> flambeau.nn.functional.binary_cross_entropy(flambeau.tensor([0.5]), flambeau.tensor([1.]))
    tensor(0.6931)
    """
    if target.shape != input.shape:
        raise ValueError(f"binary_cross_entropy: target {list(target.shape)} must be shaped as input "
                         f"{list(input.shape)}")
    if target.dtype != input.dtype:
        raise RuntimeError(f"binary_cross_entropy: expected a target of the input's dtype {input.dtype}, got "
                           f"{target.dtype}; use target.to(input.dtype)")
    loss = _bce(input, target)
    return reduced(loss if weight is None else loss * weight, chosen(reduction, size_average, reduce))


@composite("binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, " + _LEGACY.format("")
           + ", Tensor? pos_weight=None) -> Tensor", autocast="float32", namespace="nn.functional", dtypes="float")
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """binary_cross_entropy(sigmoid(input), target) without overflow; pos_weight multiplies the positive part.

    >>> flambeau.nn.functional.binary_cross_entropy_with_logits(flambeau.tensor([0.]), flambeau.tensor([1.]))
    tensor(0.6931)
    """
    if target.shape != input.shape:
        raise ValueError(f"binary_cross_entropy_with_logits: target {list(target.shape)} must be shaped as input "
                         f"{list(input.shape)}")
    _floating_target("binary_cross_entropy_with_logits", target)
    if pos_weight is None:
        loss = _bce_with_logits(input, target)
    else:
        softplus = _bce_with_logits(input, OPS["ones_like"](input))  # log(1 + exp(-x))
        loss = (1 - target) * input + (1 + (pos_weight - 1) * target) * softplus
    return reduced(loss if weight is None else loss * weight, chosen(reduction, size_average, reduce))


@composite("kl_div" + _PAIR + ", bool log_target=False) -> Tensor",
           autocast="float32", namespace="nn.functional", dtypes="float")
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input) for log-probabilities `input`; reduction "batchmean" is the divergence itself.

    >>> p, q = flambeau.tensor([[1., 0.]]), flambeau.tensor([[0.5, 0.5]])
    >>> flambeau.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    tensor(0.6931)
    """
    _floating_target("kl_div", target)
    reduction = chosen(reduction, size_average, reduce)
    loss = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.ndim else 1)
    return reduced(loss, reduction)


@composite("poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, any size_average=None,"
           " float eps=1e-08, any reduce=None, str reduction=\"mean\") -> Tensor",
           autocast="float32", namespace="nn.functional",
           dtypes="float")
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """Negative log likelihood of counts under Poisson rates exp(input) (or input); `full` adds Stirling's term."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (target * 6.283185307179586).log()
        loss = loss + stirling.masked_fill(target <= 1, 0).to(loss.dtype)  # of whole counts it is float32
    return reduced(loss, chosen(reduction, size_average, reduce))


@composite("gaussian_nll_loss(Tensor input, Tensor target, any var, bool full=False, float eps=1e-06,"
           " str reduction=\"mean\") -> Tensor", namespace="nn.functional", dtypes="float",
           skip={"meta": "checks that no variance is negative"})
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of target under normal distributions: mean `input`, variance `var` (at least eps)."""
    if not hasattr(var, "shape"):
        if var < 0:
            raise ValueError("gaussian_nll_loss: variances must not be negative")
        var = OPS["ones_like"](input) * var
    elif var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or sum(b for a, b in zip(input.shape, var.shape) if a != b) != 1:
            raise ValueError(f"gaussian_nll_loss: var {list(var.shape)} does not fit the input {list(input.shape)}")
    if bool((plain(var) < 0).any()):
        raise ValueError("gaussian_nll_loss: variances must not be negative")
    var = var + (var.detach().clamp(min=eps) - var.detach())  # the floor passes gradients, as a constant would
    loss = 0.5 * (var.log() + (input - target).square() / var)
    return reduced(loss + 0.9189385332046727 if full else loss, reduction)
