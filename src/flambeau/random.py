"""Seeds and the default random generator."""

import threading

from . import _C
from ._C import default_generator
from ._shown import shown


def manual_seed(seed):
    """Starts the default generator's stream of `seed`; the numbers are PyTorch's for the same seed. Returns it.

    The generators of CUDA devices are seeded too. A text of digits is read as a number.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> flambeau.randn(4)
    tensor([ 1.5410, -0.2934, -2.1788,  0.5684])
    """
    try:
        seed = int(seed)
    except ValueError:
        raise ValueError(f"manual_seed: expected an int, got {shown(seed)}") from None
    _C._cuda.seed_generators(seed)
    return default_generator.manual_seed(seed)


def seed():
    """Seeds the default generator from the system's entropy; returns the seed."""
    return default_generator.seed()


def initial_seed():
    """The seed the default generator was started with."""
    return default_generator.initial_seed()


def get_rng_state():
    """The default generator's state, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Continues from a state that get_rng_state gave."""
    default_generator.set_state(new_state)


worker_thread = threading.local()  # .generator: of a thread that loads data


def thread_safe_generator():
    """In a loader's worker that is a thread, the generator of that thread; None elsewhere: the default one will do."""
    return getattr(worker_thread, "generator", None)


def cuda_generators(devices=None):
    """The default generators of CUDA devices, of all by default; none where no device is in use."""
    if not _C._cuda.opened() or _C._cuda.in_bad_fork():
        return []
    return [_C._cuda.default_generator(k) for k in (range(_C._cuda.device_count()) if devices is None else
                                                    map(_C._cuda.index_of, map(_C.device, devices)))]


class fork_rng:
    """A context after which the default generators are where they were before: the CPU's, and those of CUDA devices.

    devices: the CUDA devices whose generators are put back, by default all.
    """

    def __init__(self, devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
        if devices and enabled and not _C._cuda.available():
            raise AssertionError(f"{_caller}: {_devices_kw}={list(devices)} are {device_type} devices with generators "
                                 f"of their own, but this build has none of them; leave `{_devices_kw}` out")
        self.enabled, self.devices = enabled, devices

    def __enter__(self):
        self.state = get_rng_state() if self.enabled else None
        self.others = [(g, g.get_state()) for g in cuda_generators(self.devices)] if self.enabled else []

    def __exit__(self, *_):
        if self.state is not None:
            set_rng_state(self.state)
        for generator, state in self.others:
            generator.set_state(state)


def _rebuild_generator(state, device="cpu"):
    generator = _C.Generator(device)
    generator.set_state(state)
    return generator
