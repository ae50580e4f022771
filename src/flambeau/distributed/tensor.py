"""Names of tensors spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.tensor", _REASON, """
    distribute_tensor distribute_module
    DTensor Shard Replicate Partial Placement DeviceMesh
"""))
