"""Similarity and distance of pairs of vectors."""

from .. import functional as F
from .module import Module


class CosineSimilarity(Module):
    """x1 · x2 / (|x1| |x2|) along `dim`; norms below `eps` count as `eps`.

    >>> import flambeau
    >>> flambeau.nn.CosineSimilarity(dim=0)(flambeau.ones(2), flambeau.ones(2)).round()
    tensor(1.)
    """

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    >>> import flambeau
    >>> flambeau.nn.PairwiseDistance()(flambeau.zeros(1, 2), flambeau.tensor([[3.0, 4.0]])).round()
    tensor([5.])
    """

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
