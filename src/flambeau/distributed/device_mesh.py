"""Names of grids of devices, which are not here yet; each says so when used."""

from .._absent import refusal, refused_class

_REASON = "processes do not exchange tensors yet"
globals().update({name: refusal(f"distributed.device_mesh.{name}", _REASON) for name in """
    init_device_mesh
""".split()})
globals().update({name: refused_class(f"distributed.device_mesh.{name}", _REASON) for name in """
    DeviceMesh
""".split()})
