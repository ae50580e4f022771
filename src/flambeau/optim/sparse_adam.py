"""SparseAdam: not available, since there are no sparse gradients."""

from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam for sparse gradients, which are not available: `Adam` takes the dense ones that embeddings give here."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        raise NotImplementedError("SparseAdam: gradients are dense here (also those of Embedding); use optim.Adam")
