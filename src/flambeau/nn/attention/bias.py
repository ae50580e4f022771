"""Causal masks for sequences of different lengths, which attention need not read as matrices."""

import enum

from ... import Tensor, ones
from .. import functional as F


class CausalVariant(enum.IntEnum):
    """Where the triangle stands: query i sees keys 0 to i (UPPER_LEFT), or the last query sees all (LOWER_RIGHT)."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask [queries, keys]: a bool tensor that scaled_dot_product_attention knows the form of."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: variant must be a CausalVariant, got {type(variant).__name__}")
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = ones(seq_len_q, seq_len_kv).tril(shift).bool()
        self = Tensor._make_subclass(cls, mask)
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        return self

    def _materialize(self, device=None):
        """The mask as an ordinary tensor."""
        plain = self.as_subclass(Tensor)
        return plain if device is None else plain.to(device)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.scaled_dot_product_attention:
            return _attend(*args, **(kwargs or {}))
        plain = [a._materialize() if isinstance(a, CausalBias) else a for a in args]
        return func(*plain, **(kwargs or {}))

    def __repr__(self):
        return repr(self._materialize())


def _attend(query, key, value, attn_mask, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if is_causal:
        raise ValueError("CausalBias is causal by itself; leave is_causal out")
    upper = attn_mask.variant == CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv
    mask = None if upper else attn_mask._materialize(query.device)
    return F.scaled_dot_product_attention(
        query, key, value, mask, dropout_p, upper, scale=scale, enable_gqa=enable_gqa
    )


def causal_upper_left(*size):
    """Query i sees keys 0 to i, as with is_causal=True.

    >>> from flambeau.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _causal(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size):
    """The last query sees all keys, the one before all but the last, …

    >>> from flambeau.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _causal(CausalVariant.LOWER_RIGHT, size)


def _causal(variant, size):
    if len(size) != 2:
        raise AssertionError(f"a causal bias has two sizes, got {size}")
    return CausalBias(variant, *size)
