"""Names of tensors spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals
from .device_mesh import DeviceMesh as DeviceMesh
from .device_mesh import init_device_mesh as init_device_mesh

_REASON = "tensors spread over processes are not available yet; use the collectives of flambeau.distributed"
globals().update(refusals("distributed.tensor", _REASON, """
    distribute_tensor(tensor, device_mesh, placements, src_data_rank) distribute_module(module, device_mesh,
    partition_fn, input_fn, output_fn) DTensor(*args, **kwargs) Shard Replicate Partial Placement
    empty(*size, dtype, layout, requires_grad, device_mesh, placements) full(size, fill_value,
    dtype, layout, requires_grad, device_mesh, placements) ones(*size, dtype, layout, requires_grad,
    device_mesh, placements) rand(*size, requires_grad, dtype, layout, device_mesh, placements) randn(*size,
    requires_grad, dtype, layout, device_mesh, placements) zeros(*size, requires_grad, dtype, layout,
    device_mesh, placements)
"""))
