"""What this machine can do at best: how fast memory is copied and large matrices are multiplied, measured once."""

import time

from .. import empty, get_num_threads, no_grad, ones

_COPIED = 1 << 24  # float32 elements: more than caches hold
_SIDE = 1024       # of the matrices
_MEASURED = {}     # number of threads -> Rates


class Rates:
    """Bytes read and written, and operations of float32 products, per second."""

    def __init__(self, bytes, flops):
        self.bytes, self.flops = bytes, flops

    def least_seconds(self, bytes, flops):
        """The least time for so much of both: the larger of the two times."""
        return max(bytes / self.bytes, flops / self.flops)


def rates():
    """Of this machine with the threads that are set: measured at the first call, which takes about 0.2 s."""
    threads = get_num_threads()
    if threads not in _MEASURED:
        _MEASURED[threads] = _measure()
    return _MEASURED[threads]


def _measure():
    with no_grad():
        a, b = ones(_COPIED), empty(_COPIED)
        copy = _best(lambda: b.copy_(a))
        m = ones(_SIDE, _SIDE)
        product = _best(lambda: m @ m)
    return Rates(2 * a.nbytes / copy, 2 * _SIDE ** 3 / product)


def _best(run, times=3):
    run()
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return min(taken)
