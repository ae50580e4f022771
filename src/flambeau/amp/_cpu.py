"""Mixed precision by its older names, `flambeau.cpu.amp`."""

import functools

from .. import _C
from . import _older, autocast_mode


class autocast(_older.autocast):
    """autocast("cpu", …)."""

    _older_device = "cpu"

    def __init__(self, enabled=True, dtype=_C.bfloat16, cache_enabled=True):
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(_older.GradScaler):
    """GradScaler("cpu", …)."""

    _older_device = "cpu"


custom_fwd = functools.partial(autocast_mode.custom_fwd, device_type="cpu")
custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type="cpu")
