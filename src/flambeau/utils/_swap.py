"""Two tensors exchange what they are, and classes and functions say that they belong to another module."""

from .. import _C
from .._shown import shown


def swap_tensors(t1, t2):
    """Exchanges everything of two tensors: elements, dtype, class, attributes, gradient; references stay as they are.

    Both must be leaves: made by the user, or without gradients.

    >>> import flambeau
    >>> from flambeau.utils import swap_tensors
    >>> a, b = flambeau.ones(2), flambeau.nn.Parameter(flambeau.zeros(3))
    >>> swap_tensors(a, b)
    >>> a
    Parameter containing:
    tensor([0., 0., 0.], requires_grad=True)
    >>> b
    tensor([1., 1.])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"swap_tensors: {name} must be a tensor, got {shown(t)}")
        if not t.is_leaf:
            raise RuntimeError(f"swap_tensors: {name} was computed from tensors that require gradients; only leaves "
                               "can be swapped (detach() makes one)")
    parts = [(t.data, t.requires_grad, t.grad, dict(vars(t)), type(t)) for t in (t1, t2)]
    for t in (t1, t2):
        t.grad = None
        t.requires_grad_(False)
    for t, (data, requires_grad, grad, attributes, kind) in zip((t1, t2), reversed(parts), strict=True):
        t.data = data
        t.__class__ = kind
        vars(t).clear()
        vars(t).update(attributes)
        t.requires_grad_(requires_grad)
        t.grad = grad


def set_module(obj, mod):
    """Makes a class or function say that it belongs to the module of that name.

    >>> from flambeau.utils import set_module
    >>> def f(): ...
    >>> set_module(f, "package.public")
    >>> f.__module__
    'package.public'
    """
    if not isinstance(mod, str):
        raise TypeError(f"set_module: a module is given by its name, got {shown(mod)}")
    obj.__module__ = mod
