"""Names of tensors spread over processes, which are not here yet; each says so when used."""

from .._absent import refusal, refused_class

_REASON = "processes do not exchange tensors yet"
globals().update({name: refusal(f"distributed.tensor.{name}", _REASON) for name in """
    distribute_tensor distribute_module
""".split()})
globals().update({name: refused_class(f"distributed.tensor.{name}", _REASON) for name in """
    DTensor Shard Replicate Partial Placement DeviceMesh
""".split()})
