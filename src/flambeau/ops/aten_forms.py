"""Forms of composites that only `ops.aten` has: what decompositions and graphs of PyTorch's call by position.

A reduction is a number here: 0 none, 1 mean, 2 sum. `ops.aten.x` is the record `x.flat` where x is a composite and has
one; a primitive is itself there, because dispatch hooks compare what they get with it.
"""

from .kinds import OPS, composite
from .top_level import _reduced


def _form(schema):
    """Decorator: a composite `name.flat`, which no namespace but ops.aten shows."""
    name, rest = schema.split("(", 1)
    return composite(f"{name}.flat({rest}", namespace=None, method=False, skip="the flat form of a tested function")


def _pair_loss(name):
    @_form(f"{name}(Tensor self, Tensor target, any reduction=1) -> Tensor")
    def loss(self, target, reduction=1):
        return OPS[name](self, target, reduction=_reduced(reduction))
    return loss


for _name in ("mse_loss", "l1_loss", "soft_margin_loss", "multilabel_margin_loss"):
    _pair_loss(_name)


@_form("smooth_l1_loss(Tensor self, Tensor target, any reduction=1, float beta=1.0) -> Tensor")
def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    """nn.functional.smooth_l1_loss with the reduction as a number."""
    return OPS["smooth_l1_loss"](self, target, reduction=_reduced(reduction), beta=beta)


@_form("huber_loss(Tensor self, Tensor target, any reduction=1, float delta=1.0) -> Tensor")
def huber_loss(self, target, reduction=1, delta=1.0):
    """nn.functional.huber_loss with the reduction as a number."""
    return OPS["huber_loss"](self, target, reduction=_reduced(reduction), delta=delta)


@_form("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, any reduction=1) -> Tensor")
def binary_cross_entropy(self, target, weight=None, reduction=1):
    """nn.functional.binary_cross_entropy with the reduction as a number."""
    return OPS["binary_cross_entropy"](self, target, weight, reduction=_reduced(reduction))


@_form("nll_loss(Tensor self, Tensor target, Tensor? weight=None, any reduction=1, int ignore_index=-100) -> Tensor")
def nll_loss(self, target, weight=None, reduction=1, ignore_index=-100):
    """nn.functional.nll_loss with the reduction as a number."""
    return OPS["nll_loss"](self, target, weight, ignore_index=ignore_index, reduction=_reduced(reduction))


@_form("multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
       "any reduction=1) -> Tensor")
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    """nn.functional.multi_margin_loss with the reduction as a number."""
    return OPS["multi_margin_loss"](self, target, p, float(margin), weight, reduction=_reduced(reduction))


@_form("ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, any reduction=1,"
       " bool zero_infinity=False) -> Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """nn.functional.ctc_loss with the reduction as a number."""
    return OPS["ctc_loss"](log_probs, targets, input_lengths, target_lengths, blank, _reduced(reduction), zero_infinity)


@_form("max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor")
def max_unpool2d(self, indices, output_size):
    """nn.functional.max_unpool2d into images of this size."""
    return OPS["max_unpool2d"](self, indices, 2, output_size=[*self.shape[:-2], *output_size])
