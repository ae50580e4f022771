"""Random numbers of CUDA devices: each has a generator of its own (Philox: a seed, and how far it has been used)."""

from .. import _C
from .._absent import devices as absent
from ._devices import index_of, need

_cuda = _C._cuda


def generators():
    """The default generators of all devices."""
    return tuple(map(_cuda.default_generator, range(_cuda.device_count())))


def _of(device):
    return _cuda.default_generator(index_of(device))


def manual_seed(seed):
    """Seeds the current device's generator; without a device nothing happens."""
    absent.manual_seed(seed)
    if _cuda.available():
        _of(None).manual_seed(int(seed))


def manual_seed_all(seed):
    """Seeds the generators of all devices; without a device nothing happens."""
    absent.manual_seed(seed)
    for g in generators():
        g.manual_seed(int(seed))


def seed():
    """Seeds the current device's generator from the system's entropy."""
    if _cuda.available():
        _of(None).seed()


def seed_all():
    """Seeds the generators of all devices with one seed from the system's entropy."""
    found = generators()
    if found:
        manual_seed_all(found[0].seed())


def initial_seed():
    """The seed that the current device's generator was started with."""
    need("initial_seed")
    return _of(None).initial_seed()


def get_rng_state(device="cuda"):
    """The state of a device's generator, a uint8 tensor of the CPU."""
    need("get_rng_state")
    return _of(device).get_state()


def get_rng_state_all():
    """The states of the generators of all devices."""
    return [g.get_state() for g in generators()]


def set_rng_state(new_state, device="cuda"):
    """Lets a device's generator continue from a state of get_rng_state."""
    need("set_rng_state")
    _of(device).set_state(new_state)


def set_rng_state_all(new_states):
    """Lets all devices' generators continue from the states of get_rng_state_all."""
    if not _cuda.available():
        return absent.set_rng_state_all(new_states)
    for k, state in enumerate(new_states):
        set_rng_state(state, k)
