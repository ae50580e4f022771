"""Tables of vectors looked up by integers, one by one or in bags."""

from ... import empty, no_grad
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class Embedding(Module):
    """weight[index] for integer indices of any shape; weight [num_embeddings, embedding_dim] starts normal.

    The row `padding_idx` starts at zero and gets no gradient; `max_norm` scales longer rows down in place when they
    are looked up.

    >>> import flambeau
    >>> flambeau.nn.Embedding(10, 3)(flambeau.tensor([[1, 2]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"Embedding: padding_idx must be within num_embeddings, got {shown(padding_idx)} of "
                    f"{shown(num_embeddings)}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            values = empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(values, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(f"{type(self).__name__}: _weight has shape {list(_weight.shape)}, expected "
                                     f"{[num_embeddings, embedding_dim]}")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self):
        """Draw the table anew from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input):
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self):
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (("padding_idx", None), ("max_norm", None), ("norm_type", 2)):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text + (", sparse=True" if self.sparse else "")

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """An Embedding with the given 2-d table, which does not train unless `freeze=False`."""
        if embeddings.dim() != 2:
            raise AssertionError("from_pretrained: embeddings must have 2 dimensions (num_embeddings, embedding_dim), "
                                 f"got shape {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)


class EmbeddingBag(Module):
    """The sum, mean or max of the rows of each bag of indices, without the rows themselves being kept.

    Bags are the rows of a 2-d input, or pieces of a 1-d input that start at `offsets`.

    >>> import flambeau
    >>> flambeau.nn.EmbeddingBag(10, 3)(flambeau.tensor([[1, 2, 4], [4, 3, 2]])).shape
    torch.Size([2, 3])
    """

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None,
                 dtype=None):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"EmbeddingBag: padding_idx must be within num_embeddings, got {shown(padding_idx)} of "
                    f"{shown(num_embeddings)}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        if _weight is None:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(f"{type(self).__name__}: _weight has shape {list(_weight.shape)}, expected "
                                     f"{[num_embeddings, embedding_dim]}")
            self.weight = Parameter(_weight)

    reset_parameters = Embedding.reset_parameters

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self):
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False)):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else text + f", padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                        mode="mean", sparse=False, include_last_offset=False, padding_idx=None):
        """An EmbeddingBag with the given 2-d table, which does not train unless `freeze=False`."""
        if embeddings.dim() != 2:
            raise AssertionError("from_pretrained: embeddings must have 2 dimensions (num_embeddings, embedding_dim), "
                                 f"got shape {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        layer = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                    include_last_offset, padding_idx)  # fmt: skip
        layer.weight.requires_grad = not freeze
        return layer
