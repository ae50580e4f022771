"""Making masked tensors: as new ones, or connected with the tensor of values."""

from ... import _C
from .core import MaskedTensor, checked, is_masked_tensor, make, wrap


def masked_tensor(data, mask, requires_grad=False):
    """A new masked tensor with copies of `data` and `mask` (True where a value counts), which is a leaf.

    >>> import flambeau
    >>> from flambeau.masked import masked_tensor
    >>> masked_tensor(flambeau.tensor([1, 2, 3]), flambeau.tensor([True, False, True])).sum()
    MaskedTensor(4, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """The masked tensor of `data` itself; its gradient, which is masked too, reaches `data`.

    >>> import flambeau
    >>> from flambeau.masked import as_masked_tensor
    >>> x = flambeau.tensor([1.0, 2, 3], requires_grad=True)
    >>> (as_masked_tensor(x, x > 1) ** 2).sum().backward()
    >>> x.grad
    MaskedTensor(
      [      --,   4.0000,   6.0000]
    )
    """
    data, mask = checked(data, mask)
    x = wrap(data, mask)
    if _C.is_grad_enabled() and data.requires_grad:
        _C.function_node(lambda g: (g if is_masked_tensor(g) else make(g, mask),), (data,), (x,),
                         "AsMaskedTensorBackward0")
    return x
