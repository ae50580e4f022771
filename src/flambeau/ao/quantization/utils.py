"""What observers and fake quantization share: ranges of codes, and classes with some arguments given."""

from functools import partial
from warnings import warn

import flambeau

_RANGES = {  # dtype -> the least and the largest code, and those of half the range
    flambeau.qint8: (-128, 127, -64, 63), flambeau.int8: (-128, 127, -64, 63),
    flambeau.quint8: (0, 255, 0, 127), flambeau.uint8: (0, 255, 0, 127),
    flambeau.qint32: (-2**31, 2**31 - 1) * 2, flambeau.int32: (-2**31, 2**31 - 1) * 2,
    flambeau.int16: (-2**15, 2**15 - 1) * 2, flambeau.quint4x2: (0, 15, 0, 15),
}


class PartialWrapper:
    """A class with some of its arguments given; arguments of `with_callable_args` are computed in each call."""

    def __init__(self, p):
        self.p = p
        self.callable_args = {}

    def __call__(self, *args, **keywords):
        """An instance."""
        computed = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **computed, **keywords)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        """The same with further arguments."""
        return with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """The same with further arguments, each computed when an instance is made."""
        return with_callable_args(self, **kwargs)


def with_args(cls_or_self, **kwargs):
    """A class with these arguments given.

    >>> import flambeau
    >>> flambeau.ao.quantization.MinMaxObserver.with_args(quant_min=0, quant_max=127)().quant_max
    127
    """
    return PartialWrapper(partial(cls_or_self, **kwargs))


def with_callable_args(cls_or_self, **kwargs):
    """A class with arguments that are computed when an instance is made."""
    found = PartialWrapper(partial(cls_or_self))
    found.callable_args = {**getattr(cls_or_self, "callable_args", {}), **kwargs}
    return found


def check_min_max_valid(min_val, max_val):
    """Whether a range was seen: not empty, not the start's (inf, -inf); a range whose ends are exchanged is refused."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warn("observer: nothing was seen before the scale was asked for; it is 1, with zero point 0", stacklevel=4)
        return False
    if min_val.numel() == 1 and min_val == float("inf") and max_val == float("-inf"):
        warn("observer: nothing was seen before the scale was asked for; it is 1, with zero point 0", stacklevel=4)
        return False
    if not bool((min_val <= max_val).all()):
        raise AssertionError(f"observer: the least number {min_val} is above the largest {max_val}")
    return True


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """(least code, largest code) of a dtype, or the given ones; reduce_range halves them."""
    if not has_customized_qrange:
        low, high, half_low, half_high = _RANGES[dtype]
        return (half_low, half_high) if reduce_range else (low, high)
    count = quant_max - quant_min + 1
    most = 2**32 if dtype in (flambeau.qint32, flambeau.int32) else 2**16 if dtype is flambeau.int16 else 256
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"observer: 0 must lie between quant_min {quant_min} and quant_max {quant_max}")
    if not 1 < count <= most:
        raise AssertionError(f"observer: {count} codes from {quant_min} to {quant_max} do not fit into {dtype}")
    return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
