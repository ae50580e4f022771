"""Anomaly mode: a backward pass that stops at the first NaN and shows the forward call whose derivative made it.

Without it an exception in backward already names the line of the forward call. In this mode the whole traceback of
every recorded call is kept, and every gradient is looked at: slow, for finding a fault.
"""

import warnings

from .. import _C
from . import _nodes


def _switch(on, check_nan):
    before = _nodes.anomaly, _C.set_anomaly_check(bool(on and check_nan))
    _nodes.anomaly = bool(on)
    _nodes.update()
    return before


def is_anomaly_enabled():
    """Whether anomaly mode is on.

    >>> import flambeau
    >>> flambeau.autograd.anomaly_mode.is_anomaly_enabled()
    False
    """
    return _nodes.anomaly


def is_anomaly_check_nan_enabled():
    """Whether anomaly mode looks for NaN."""
    before = _C.set_anomaly_check(False)
    _C.set_anomaly_check(before)
    return before


def set_anomaly_enabled(enabled, check_nan=True):
    """Switches anomaly mode on or off, until the next such call.

    >>> import flambeau
    >>> flambeau.set_anomaly_enabled(True, check_nan=False)
    >>> flambeau.is_anomaly_enabled(), flambeau.is_anomaly_check_nan_enabled()
    (True, False)
    >>> flambeau.set_anomaly_enabled(False)
    """
    _switch(enabled, check_nan)


class detect_anomaly:
    """Scope of anomaly mode; `check_nan=False` keeps tracebacks only.

    >>> import flambeau, warnings
    >>> x = flambeau.tensor([0.], requires_grad=True)
    >>> warnings.simplefilter("ignore")
    >>> try:
    ...     with flambeau.autograd.detect_anomaly():
    ...         (x * 0).sqrt().mul(0).sum().backward()
    ... except RuntimeError as error:
    ...     print(error)
    SqrtBackward0: gradient 0 contains NaN (looked for in anomaly mode)
    """

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn("anomaly detection is on: every operator records a traceback and every gradient is checked, "
                      "which is slow; use it to find a bug only", stacklevel=2)

    def __enter__(self):
        self._before = _switch(True, self.check_nan)

    def __exit__(self, *_):
        _switch(*self._before)


class set_detect_anomaly:
    """Switches anomaly mode on or off: at once as a function, and for a block as a context manager."""

    def __init__(self, mode, check_nan=True):
        self._before = _switch(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _switch(*self._before)
