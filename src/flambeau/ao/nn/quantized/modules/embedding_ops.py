"""Embeddings whose rows are codes with a scale and a zero point of their own."""

import flambeau
from flambeau import nn

from ....._quantized import embeddings
from ....._shown import shown
from .utils import take

_DTYPES = (flambeau.quint8,)
_ROWS, _SUMS = embeddings.embedding("embedding_byte"), embeddings.bag("embedding_bag_byte")


class EmbeddingPackedParams(nn.Module):
    """The quantized rows of an embedding; their state is PyTorch's."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=flambeau.quint8):
        super().__init__()
        if dtype not in _DTYPES:
            raise NotImplementedError(f"EmbeddingPackedParams: the rows must be quint8, got {dtype}")
        self.dtype = dtype
        self.set_weight(flambeau.quantize_per_channel(
            flambeau.zeros(num_embeddings, embedding_dim), flambeau.ones(num_embeddings),
            flambeau.zeros(num_embeddings), 0, dtype))

    def set_weight(self, weight):
        """Packs another quantized weight."""
        self._packed_weight = embeddings.embedding_bag_prepack(weight)

    def _weight(self):
        return self._packed_weight.unpack()

    def forward(self, x):
        """Returns x: the layer around it looks up."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        take(state_dict, prefix + "dtype", missing_keys, lambda dtype: setattr(self, "dtype", dtype))
        take(state_dict, prefix + "_packed_weight", missing_keys, self.set_weight)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    def __repr__(self):
        return repr(self._weight())


class Embedding(nn.Module):
    """Rows of a quantized table, as float32.

    >>> import flambeau
    >>> table = flambeau.ao.nn.quantized.Embedding(10, 3)
    >>> table(flambeau.tensor([1, 7])).shape
    torch.Size([2, 3])
    """

    _version = 1
    _FLOAT_MODULE = nn.Embedding

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, dtype=flambeau.quint8):
        super().__init__()
        if max_norm is not None:
            raise NotImplementedError(f"{self._get_name()}: max_norm is for training; it is not supported")
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(f"{self._get_name()}: expected a weight of shape {[num_embeddings, embedding_dim]}, "
                                 f"got {list(_weight.shape)}")
        if _weight is not None and _weight.dtype is not dtype:
            raise AssertionError(f"{self._get_name()}: expected a weight of dtype {dtype}, got {_weight.dtype}")
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            self._packed_params.set_weight(_weight)

    def forward(self, indices):
        """The rows of these indices."""
        return _ROWS(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def extra_repr(self):
        return (f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
                f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}")

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def set_weight(self, w):
        """Takes another quantized weight."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The quantized weight."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized table of one with a qconfig, or of one trained with fake quantization."""
        if not hasattr(mod, "weight_fake_quant") and not isinstance(mod, cls._FLOAT_MODULE):
            raise AssertionError(f"{cls.__name__}.from_float: made from a {cls._FLOAT_MODULE.__name__}, got "
                                 f"{type(mod).__name__}")
        observer, weight = cls._observer(mod), mod.weight.detach().float()
        if observer.qscheme is not flambeau.per_channel_affine_float_qparams:
            raise AssertionError(f"{cls.__name__}.from_float: the weight's observer must have qscheme "
                                 f"per_channel_affine_float_qparams (float_qparams_weight_only_qconfig), got "
                                 f"{observer.qscheme}")
        if not use_precomputed_fake_quant:
            observer(weight)
        scale, zero_point = observer.calculate_qparams()
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=observer.dtype)
        made.set_weight(flambeau.quantize_per_channel(weight, scale.float(), zero_point.float(), 0, observer.dtype))
        return made

    @staticmethod
    def _observer(mod):
        if hasattr(mod, "weight_fake_quant"):
            return mod.weight_fake_quant
        config = getattr(mod, "qconfig", None)
        if config is not None and config.weight is not None:
            return config.weight()
        return flambeau.ao.quantization.float_qparams_weight_only_qconfig.weight()

    @classmethod
    def from_reference(cls, ref_embedding):
        """The quantized table of a reference one, whose weight is quantized already."""
        return cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, ref_embedding.padding_idx,
                   ref_embedding.max_norm, ref_embedding.norm_type, ref_embedding.scale_grad_by_freq,
                   ref_embedding.sparse, ref_embedding.get_quantized_weight(), ref_embedding.weight_dtype)


class EmbeddingBag(Embedding):
    """Sums of rows of a quantized table, as float32."""

    _version = 1
    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="sum", sparse=False, _weight=None, include_last_offset=False, dtype=flambeau.quint8):
        super().__init__(num_embeddings, embedding_dim, max_norm=max_norm, _weight=_weight, dtype=dtype)
        if mode != "sum":
            raise NotImplementedError(f"QuantizedEmbeddingBag: mode must be 'sum', got {shown(mode)}")
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        """The sum of the rows of each bag."""
        return _SUMS(
            self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
            compressed_indices_mapping, self.include_last_offset)

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_reference(cls, ref_embedding_bag):
        """The quantized table of a reference one, whose weight is quantized already."""
        ref = ref_embedding_bag
        return cls(ref.num_embeddings, ref.embedding_dim, ref.max_norm, ref.norm_type, ref.scale_grad_by_freq, ref.mode,
                   ref.sparse, ref.get_quantized_weight(), ref.include_last_offset, ref.weight_dtype)
