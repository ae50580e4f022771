"""Switches of determinism: every operator here gives the same numbers in every run, for any number of threads."""


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for deterministic algorithms, which are always used; the two flags are checked and need no keeping.

    >>> import flambeau
    >>> flambeau.use_deterministic_algorithms(True)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} must be a bool, got {type(value).__name__}")


def are_deterministic_algorithms_enabled():
    """Whether only deterministic algorithms are used: always.

    >>> import flambeau
    >>> flambeau.are_deterministic_algorithms_enabled()
    True
    """
    return True


def is_deterministic_algorithms_warn_only_enabled():
    """Whether an algorithm that is not deterministic would only warn: there is none."""
    return False
