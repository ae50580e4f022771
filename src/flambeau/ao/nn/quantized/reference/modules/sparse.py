"""Tables of vectors of reference."""

from flambeau import nn

from .utils import ReferenceQuantizedModule


class _Table(ReferenceQuantizedModule):
    _ARGUMENTS = ()

    def _get_name(self):
        return "QuantizedEmbedding(Reference)"

    @classmethod
    def from_float(cls, mod, weight_qparams):
        """The layer of reference of an Embedding or EmbeddingBag."""
        arguments = {name: getattr(mod, name) for name in cls._ARGUMENTS}
        return cls(mod.num_embeddings, mod.embedding_dim, **arguments, _weight=mod.weight.detach(),
                   device=mod.weight.device, dtype=mod.weight.dtype, weight_qparams=weight_qparams)


class Embedding(_Table, nn.Embedding):
    """An Embedding whose table went through its codes."""

    _ARGUMENTS = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, device=None, dtype=None, weight_qparams=None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, device=device, dtype=dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input):
        return nn.functional.embedding(input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type,
                                       self.scale_grad_by_freq, self.sparse)


class EmbeddingBag(_Table, nn.EmbeddingBag):
    """An EmbeddingBag whose table went through its codes."""

    _ARGUMENTS = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None,
                 dtype=None, weight_qparams=None):
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
                         include_last_offset, padding_idx, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return nn.functional.embedding_bag(input, self.get_weight(), offsets, self.max_norm, self.norm_type,
                                           self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
                                           self.include_last_offset, self.padding_idx)
