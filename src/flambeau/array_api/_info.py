"""What the standard's inspection asks of the namespace: devices, dtypes, and what arrays can do."""

import flambeau

from ._dtypes import KINDS, NAMES


def _known(device):
    """Refuses a device that is not here; all that are have the same dtypes."""
    if device is not None and flambeau.device(device).type != "cpu":
        raise ValueError(f"array_api: device {device} is not here; devices() lists those that are")


class Information:
    """What `__array_namespace_info__()` gives.

    >>> from flambeau import array_api as xp
    >>> xp.__array_namespace_info__().dtypes(kind="real floating")
    {'float32': torch.float32, 'float64': torch.float64}
    """

    def capabilities(self):
        """{what the standard leaves open: whether it works}."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """The device of new arrays."""
        return flambeau.get_default_device()

    def devices(self):
        """All devices that compute."""
        return (flambeau.device("cpu"),)

    def default_dtypes(self, *, device=None):
        """{kind: the dtype of new arrays of numbers of that kind}."""
        _known(device)
        real = flambeau.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": flambeau.int64,
                "indexing": flambeau.int64}

    def dtypes(self, *, device=None, kind=None):
        """{name: dtype} of the standard's dtypes; of one kind or of several, where they are given."""
        _known(device)
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        wanted = {dtype for one in kinds for dtype in KINDS[one]}
        return {name: dtype for name, dtype in NAMES.items() if dtype in wanted}


def __array_namespace_info__():
    """The namespace's devices, dtypes and capabilities, as an object with a method for each."""
    return Information()
