"""Layers that set elements or whole channels to zero at random while training."""

from ..._shown import shown
from .. import functional as F
from ._sizes import Shown
from .module import Module


class _DropoutNd(Shown, Module):
    _shown = ("p", "inplace")

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p must be a probability between 0 and 1, got {shown(p)}")
        self.p, self.inplace = p, inplace


class Dropout(_DropoutNd):
    """In training, sets each element to 0 with probability `p` and scales the others by 1 / (1 - p).

    >>> import flambeau
    >>> flambeau.nn.Dropout(0.5).eval()(flambeau.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of [N, C, L] or [C, L].

    >>> import flambeau
    >>> flambeau.nn.Dropout1d().eval()(flambeau.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of [N, C, H, W] or [N, C, L].

    >>> import flambeau
    >>> flambeau.nn.Dropout2d().eval()(flambeau.ones(1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].

    >>> import flambeau
    >>> flambeau.nn.Dropout3d().eval()(flambeau.ones(1, 1, 1, 1, 1)).item()
    1.0
    """

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of SELU networks   (Klambauer et al. 2017).

    >>> import flambeau
    >>> flambeau.nn.AlphaDropout().eval()(flambeau.ones(1))
    tensor([1.])
    """

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import flambeau
    >>> flambeau.nn.FeatureAlphaDropout().eval()(flambeau.ones(1, 1, 1))
    tensor([[[1.]]])
    """

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
