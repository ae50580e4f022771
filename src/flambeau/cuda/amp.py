"""Mixed precision by its older names, `flambeau.cuda.amp`."""

import functools

from .. import _C
from ..amp import _older, autocast_mode


class autocast(_older.autocast):
    """autocast("cuda", …)."""

    _older_device = "cuda"

    def __init__(self, enabled=True, dtype=_C.float16, cache_enabled=True):
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(_older.GradScaler):
    """GradScaler("cuda", …)."""

    _older_device = "cuda"


def amp_definitely_not_available():
    """Whether mixed precision for GPUs is of no use here, since there is none."""
    return not _C._cuda.available()


custom_fwd = functools.partial(autocast_mode.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type="cuda")
