"""The memory behind a tensor, under PyTorch's names: `UntypedStorage`, `TypedStorage`, `FloatStorage` and its like."""

from ._tensor.storage import TYPES
from ._tensor.storage import TypedStorage as TypedStorage
from ._tensor.storage import UntypedStorage as UntypedStorage
from ._tensor.storage import is_storage as is_storage

globals().update(TYPES)
