"""Computer vision under torchvision's names; each part is loaded when it is first used."""

import importlib as _importlib

from .._shown import shown
from ..version import __version__ as __version__

_PARTS = {"datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils"}
_LOADERS = ("PIL",)


def __getattr__(name):
    if name in _PARTS:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")


def __dir__():
    return sorted({*globals(), *_PARTS})


def get_image_backend():
    """What reads pictures: always "PIL"."""
    return "PIL"


def set_image_backend(backend):
    """Choose what reads pictures; ValueError for anything but "PIL", the one reader there is."""
    if backend not in _LOADERS:
        raise ValueError(f"set_image_backend: pictures are read by 'PIL' alone; got {shown(backend)}")


def disable_beta_transforms_warning():
    """Nothing to switch off: `transforms.v2` warns of nothing."""
