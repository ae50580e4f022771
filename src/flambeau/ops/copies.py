"""Copies: with memory of their own, into another tensor, of another dtype or on another device."""

from .kinds import OPS, primitive

clone = primitive("clone(Tensor self, *, memory_format? memory_format=None) -> Tensor", d={"self": lambda g: g},
                  fresh=True,
                  doc="A copy with its own memory; gradients pass through.\n\n"
                      ">>> flambeau.tensor([1, 2]).clone()\ntensor([1, 2])")

copy_ = primitive("copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
                  node="CopyBackwards", namespace=None, method=True,
                  d={"self": lambda g: OPS["zeros_like"](g), "src": lambda g: g},
                  doc="Writes src, broadcast and converted, into self.\n\n"
                      ">>> flambeau.zeros(2).copy_(flambeau.tensor(3))\ntensor([3., 3.])")

_to_copy = primitive(
    "_to_copy(Tensor self, *, dtype? dtype=None, device? device=None, bool non_blocking=False) -> Tensor",
    d={"self": lambda g: g}, namespace=None, samples="reals", doc="A copy in another dtype or on another device.")


_with_part = primitive(
    "_with_part(Tensor self, Tensor part, Tensor value) -> Tensor", namespace=None,
    skip="what a captured write to a part of a value becomes",
    doc="self, where the part of its memory that `part` shows is overwritten by value, broadcast and converted.")

_with_number = primitive(
    "_with_number(Tensor self, Tensor part, Scalar value) -> Tensor", namespace=None,
    skip="what a captured write of a number to a part of a value becomes",
    doc="self, where the part of its memory that `part` shows is overwritten by a number.")
