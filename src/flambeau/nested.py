"""Nested tensors: not available. Each function raises an error that says what to use instead."""

from ._absent import NESTED, refusal

_NAMES = ("nested_tensor", "as_nested_tensor", "to_padded_tensor", "nested_tensor_from_jagged", "narrow",
          "masked_select")
globals().update({name: refusal(f"nested.{name}", NESTED) for name in _NAMES})
