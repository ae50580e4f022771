"""What `flambeau.cpu.amp` and `flambeau.cuda.amp` share: mixed precision by its older names, one device each."""

from warnings import warn

from . import autocast_mode, grad_scaler


def _outdated(device, name, stacklevel):
    warn(f"flambeau.{device}.amp.{name}(...) is the old spelling of flambeau.amp.{name}('{device}', ...); write the "
         "latter", FutureWarning, stacklevel=stacklevel)


class autocast(autocast_mode.autocast):
    """autocast of the device that a subclass names; the subclass says which dtype is usual there."""

    def __init__(self, enabled, dtype, cache_enabled):
        _outdated(self._older_device, "autocast", 4)  # past the subclass's own __init__
        super().__init__(self._older_device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """GradScaler of the device that a subclass names."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _outdated(self._older_device, "GradScaler", 3)
        super().__init__(self._older_device, init_scale=init_scale, growth_factor=growth_factor,
                         backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled)
