"""Nested tensors: batches of tensors of different sizes, in the layouts `jagged` and `strided`."""

from ._nested.construct import as_nested_tensor as as_nested_tensor
from ._nested.construct import masked_select as masked_select
from ._nested.construct import narrow as narrow
from ._nested.construct import nested_tensor as nested_tensor
from ._nested.construct import nested_tensor_from_jagged as nested_tensor_from_jagged
from ._nested.construct import to_padded_tensor as to_padded_tensor
