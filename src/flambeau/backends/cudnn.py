"""cuDNN: not used. Its switches can be set, so that programs that set them run, but have no effect."""

from contextlib import contextmanager

enabled = True
deterministic = False
benchmark = False
allow_tf32 = True
benchmark_limit = 10
fp32_precision = "none"
depthwise_kernel = "auto"


def is_available():
    """Whether it is used."""
    return False


def version():
    """The version in use: none."""
    return None


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none", depthwise_kernel="auto"):
    """Context in which the switches have these values.

    >>> import flambeau
    >>> with flambeau.backends.cudnn.flags(deterministic=True):
    ...     flambeau.backends.cudnn.deterministic
    True
    """
    inside = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
              "deterministic": deterministic, "allow_tf32": allow_tf32, "fp32_precision": fp32_precision,
              "depthwise_kernel": depthwise_kernel}
    before = {name: globals().get(name) for name in inside}
    globals().update(inside)
    try:
        yield
    finally:
        globals().update(before)
