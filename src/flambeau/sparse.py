"""Sparse tensors: not available. Each function raises an error that says what to use instead."""

from ._absent import SPARSE, refusal
from ._tensor.types import SPARSE_TYPES

_NAMES = ("sum", "softmax", "mm", "log_softmax", "addmm", "spdiags", "spsolve", "sampled_addmm",
          "to_sparse_semi_structured", "as_sparse_gradcheck", "SparseSemiStructuredTensor",
          "SparseSemiStructuredTensorCUTLASS",
          "SparseSemiStructuredTensorCUSPARSELT")
globals().update({name: refusal(f"sparse.{name}", SPARSE) for name in _NAMES})
globals().update(SPARSE_TYPES)


class check_sparse_tensor_invariants:
    """Whether sparse tensors are checked when they are made: there are none, and the answer is what was set.

    >>> import flambeau
    >>> flambeau.sparse.check_sparse_tensor_invariants.is_enabled()
    False
    """

    _enabled = False

    def __init__(self, enable=True):
        self.enable_inside = enable

    @staticmethod
    def is_enabled():
        """Whether it is on."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable():
        """Turns it on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable():
        """Turns it off."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self):
        self.before = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self.enable_inside

    def __exit__(self, *_):
        check_sparse_tensor_invariants._enabled = self.before
