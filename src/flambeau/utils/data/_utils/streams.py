"""Random streams of batches: batch k of an epoch draws the same numbers in whatever process it is loaded.

Before a batch is loaded, the default streams of Flambeau, `random` and NumPy are seeded from the epoch's base seed and
the number of the batch. The main process gets its own streams back as they were.
"""

import ctypes
import importlib
import random
import sys
from array import array

from .... import _C

_WORD = (1 << 64) - 1
_STATE_BYTES = 2500  # of an MT19937: 624 words and the position


def mixed(*numbers):
    """A seed of 64 bits in which every bit depends on all `numbers` (the finalizer of SplitMix64)."""
    x = 0
    for number in numbers:
        x = (x ^ (number & _WORD)) + 0x9E3779B97F4A7C15 & _WORD
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD
        x ^= x >> 31
    return x


def numpy_random():
    """NumPy's module of random numbers if the program uses NumPy, which imports that module when it is first needed."""
    return importlib.import_module("numpy.random") if "numpy" in sys.modules else None


def seed_streams(seed):
    """Seeds the default streams of this process."""
    _C.default_generator.manual_seed(seed >> 1)
    random.seed(seed)
    numpy = numpy_random()
    if numpy is not None:
        numpy.seed(seed & 0xFFFFFFFF)


def seed_worker(base_seed, worker):
    """Seeds a worker's streams with the numbers that PyTorch gives worker `worker`."""
    _C.default_generator.manual_seed(base_seed + worker)
    random.seed(base_seed + worker)
    numpy = numpy_random()
    if numpy is not None:
        entropy = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
        numpy.seed(numpy.SeedSequence(entropy).generate_state(4))


class Lent:
    """Context in which the default streams start at a seed; afterwards they are where they were before."""

    def __init__(self):
        self._python, self._numpy = _PythonStream(), _NumpyStream()

    def at(self, seed):
        """The seed of the next batch; returns the context."""
        self._seed = seed
        return self

    def __enter__(self):
        self._own = _C.default_generator.get_state()
        self._python.take()
        self._numpy.take()
        seed_streams(self._seed)

    def __exit__(self, *_):
        _C.default_generator.set_state(self._own)
        self._python.give_back()
        self._numpy.give_back()


def _memory_of(stream):
    """The address of a random.Random's state, None where it does not lie as CPython has it: position, 624 words."""
    words = stream.getstate()[1]
    if random.Random.__base__.__basicsize__ < object.__basicsize__ + _STATE_BYTES:
        return None
    address = id(stream) + object.__basicsize__
    expected = array("I", words[-1:] + words[:-1]).tobytes()
    return address if ctypes.string_at(address, _STATE_BYTES) == expected else None


class _PythonStream:
    """The default stream of `random`: its state as a tuple takes 40 µs to read and to set, its memory one."""

    def __init__(self):
        self._stream = random.getstate.__self__
        self._address = _memory_of(self._stream)

    def take(self):
        """Keeps the state."""
        if self._address is None:
            self._own = self._stream.getstate()
        else:
            self._own = ctypes.string_at(self._address, _STATE_BYTES), self._stream.gauss_next

    def give_back(self):
        """The state is the one that was kept."""
        if self._address is None:
            self._stream.setstate(self._own)
        else:
            memory, self._stream.gauss_next = self._own
            ctypes.memmove(self._address, memory, _STATE_BYTES)


class _NumpyStream:
    """NumPy's default stream, exchanged as an object: reading its state takes 50 µs, exchanging it takes one.

    The exchange forgets the second of two normal numbers that NumPy draws together. It can only be there if the stream
    has moved since it was last read, which its memory shows at once.
    """

    def __init__(self):
        self._stream, self._own, self._full, self._without_second = None, None, None, None

    def take(self):
        """Puts another generator in the place of the default one."""
        numpy = numpy_random()
        self._own = None
        if numpy is None:
            return
        self._own = numpy.get_bit_generator()
        self._full = None
        if self._memory(numpy) is None or self._memory(numpy) != self._without_second:
            state = numpy.get_state(legacy=False)
            if state["has_gauss"]:
                self._full = state
            else:
                self._without_second = self._memory(numpy)
        if self._stream is None:
            self._stream = numpy.MT19937(0)
        numpy.set_bit_generator(self._stream)

    def give_back(self):
        """The default generator is the one that was taken."""
        if self._own is not None:
            numpy = numpy_random()
            numpy.set_bit_generator(self._own)
            if self._full is not None:
                numpy.set_state(self._full)

    def _memory(self, numpy):
        if type(self._own) is not numpy.MT19937:
            return None
        return ctypes.string_at(self._own.ctypes.state_address, _STATE_BYTES)


class WorkerStreams:
    """Generators of a worker that is a thread: the default streams belong to all threads.

    >>> from flambeau.utils.data._utils.streams import WorkerStreams
    >>> WorkerStreams(7).random_generator.random() == WorkerStreams(7).random_generator.random()
    True
    """

    def __init__(self, seed):
        self.random_generator, self.torch_generator = random.Random(), _C.Generator()
        self.seed(seed)

    def seed(self, seed):
        """Starts all of them; a random stream is the same as the default one that `seed_streams(seed)` starts."""
        self._seed, self._numpy_generator = seed, None
        self.random_generator.seed(seed)
        self.torch_generator.manual_seed(seed >> 1)

    @property
    def numpy_generator(self):
        """A numpy.random.Generator."""
        if self._numpy_generator is None:
            self._numpy_generator = importlib.import_module("numpy.random").default_rng(self._seed)
        return self._numpy_generator
