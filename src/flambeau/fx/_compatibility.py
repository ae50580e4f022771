"""A decorator of packages that extend fx: it says how stable a function is, and changes nothing."""


def compatibility(is_backward_compatible):
    """Decorator that returns its function; is_backward_compatible is for readers.

    >>> from flambeau.fx._compatibility import compatibility
    >>> @compatibility(is_backward_compatible=False)
    ... def f():
    ...     return 1
    """
    if not isinstance(is_backward_compatible, bool):
        raise TypeError("compatibility: is_backward_compatible must be a bool")
    return lambda fn: fn
