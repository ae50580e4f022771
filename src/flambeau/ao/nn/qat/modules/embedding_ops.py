"""Tables of vectors that pass through their codes."""

import flambeau
from flambeau import nn

from ._fake_weight import FakeWeight


class _Table(FakeWeight):
    _ARGUMENTS = ()

    def _take_qconfig(self, qconfig, device=None):
        super()._take_qconfig(qconfig, device)
        scheme = qconfig.weight().qscheme
        if scheme is not flambeau.per_channel_affine_float_qparams:
            raise AssertionError(f"qat.{type(self).__name__}: the weight's qscheme must be "
                                 f"per_channel_affine_float_qparams, got {scheme}")

    def _arguments(self):
        return {name: getattr(self, name) for name in self._ARGUMENTS}

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for training of a float one, which has a `qconfig`; it trains the same table.

        A layer for training has observed nothing yet, so `use_precomputed_fake_quant` has nothing to change.
        """
        cls._checked(mod)
        arguments = {name: getattr(mod, name) for name in cls._ARGUMENTS}
        made = cls(mod.num_embeddings, mod.embedding_dim, **arguments, _weight=mod.weight, qconfig=mod.qconfig)
        made.weight = mod.weight
        return made

    def to_float(self):
        """A float layer with the table as it is now."""
        made = self._FLOAT_MODULE(self.num_embeddings, self.embedding_dim, **self._arguments())
        made.weight = nn.Parameter(self.weight.detach())
        return made.train(self.training)


class Embedding(_Table, nn.Embedding):
    """An Embedding whose table passes through its codes, which have one scale per row."""

    _FLOAT_MODULE = nn.Embedding
    _ARGUMENTS = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, device=None, dtype=None, qconfig=None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, device=device, dtype=dtype)
        self._take_qconfig(qconfig, device)

    def forward(self, input):
        return nn.functional.embedding(input, self._faked_weight(), self.padding_idx, self.max_norm, self.norm_type,
                                       self.scale_grad_by_freq, self.sparse)


class EmbeddingBag(_Table, nn.EmbeddingBag):
    """An EmbeddingBag whose table passes through its codes, which have one scale per row."""

    _FLOAT_MODULE = nn.EmbeddingBag
    _ARGUMENTS = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, qconfig=None,
                 device=None, dtype=None):
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
                         include_last_offset, padding_idx, device=device, dtype=dtype)
        self._take_qconfig(qconfig, device)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return nn.functional.embedding_bag(input, self._faked_weight(), offsets, self.max_norm, self.norm_type,
                                           self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
                                           self.include_last_offset, self.padding_idx)
