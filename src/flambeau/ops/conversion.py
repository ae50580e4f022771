"""Conversion of dtype and device."""

from .kinds import primitive

_to_copy = primitive(
    "_to_copy(Tensor self, *, dtype? dtype=None, device? device=None) -> Tensor",
    d={"self": lambda g: g}, namespace=None, samples="reals", doc="A copy in another dtype or on another device.")
