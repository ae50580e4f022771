"""Names of grids of devices, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.device_mesh", _REASON, """
    init_device_mesh
    DeviceMesh
"""))
