"""What the array API standard asks of a tensor itself: its namespace, and moving to a device by the standard's name."""

import importlib
import sys

from ._C import Tensor
from ._shown import shown

#: versions of the standard whose programs run on the namespace: each version only adds to the one before
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def __array_namespace__(self, /, *, api_version=None):
    """The namespace of the Python array API standard: `flambeau.array_api`.

    >>> import flambeau
    >>> xp = flambeau.ones(2).__array_namespace__()
    >>> xp.__name__, xp.__array_api_version__
    ('flambeau.array_api', '2025.12')
    """
    if api_version not in (None, *VERSIONS):
        raise ValueError(f"__array_namespace__: version {shown(api_version)} of the array API standard is not here; "
                         f"versions are {', '.join(VERSIONS)}")
    return sys.modules.get("flambeau.array_api") or importlib.import_module("flambeau.array_api")


def to_device(self, device, /, *, stream=None):
    """`x.to(device)` under the standard's name. Only memory of accelerators has streams.

    >>> import flambeau
    >>> flambeau.ones(2).to_device("cpu")
    tensor([1., 1.])
    """
    if stream is not None:
        raise ValueError(f"to_device: devices here have no streams; leave stream out, got {shown(stream)}")
    return self.to(device)


Tensor.__array_namespace__, Tensor.to_device = __array_namespace__, to_device
