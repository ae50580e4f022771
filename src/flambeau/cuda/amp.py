"""Mixed precision by its older names, `flambeau.cuda.amp`."""

import functools
from warnings import warn

from .. import _C
from ..amp import autocast_mode, grad_scaler


def _outdated(name):
    warn(f"flambeau.cuda.amp.{name}(...) is the old spelling of flambeau.amp.{name}('cuda', ...); write the latter",
         FutureWarning, stacklevel=3)


class autocast(autocast_mode.autocast):
    """autocast("cuda", …)."""

    def __init__(self, enabled=True, dtype=_C.float16, cache_enabled=True):
        _outdated("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """GradScaler("cuda", …)."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _outdated("GradScaler")
        super().__init__("cuda", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)


custom_fwd = functools.partial(autocast_mode.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type="cuda")
