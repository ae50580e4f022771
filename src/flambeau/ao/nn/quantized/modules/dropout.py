"""Dropout between layers on codes: a quantized model infers, so nothing is dropped."""

from flambeau import nn


class Dropout(nn.Dropout):
    """The input itself.

    >>> import flambeau
    >>> flambeau.ao.nn.quantized.Dropout(0.5)
    QuantizedDropout(p=0.5, inplace=False)
    """

    def forward(self, input):
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in place of a Dropout."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer in place of a Dropout; it needs no scale."""
        return cls(mod.p, mod.inplace)
