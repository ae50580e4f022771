"""Determinism switches, without effect: operators give the same numbers in every run, on any number of threads."""

_mode = [False, False]  # asked for; only warnings asked for


def set_mode(mode=None, warn_only=None):
    """Sets what was asked for, where given; returns it as (deterministic, warn only)."""
    if mode is not None:
        _mode[:] = mode, warn_only
    return tuple(_mode)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for deterministic algorithms: every operator's is, so that no error and no warning can follow.

    >>> import flambeau
    >>> flambeau.use_deterministic_algorithms(True)
    >>> flambeau.are_deterministic_algorithms_enabled()
    True
    >>> flambeau.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} must be a bool, got {type(value).__name__}")
    set_mode(mode, warn_only)


def are_deterministic_algorithms_enabled():
    """Whether deterministic algorithms were asked for."""
    return _mode[0]


def is_deterministic_algorithms_warn_only_enabled():
    """Whether an algorithm that is not deterministic would only warn: there is none."""
    return _mode[1]
