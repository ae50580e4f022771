"""Names of grids of devices, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.device_mesh", _REASON, """
    init_device_mesh(device_type, mesh_shape, mesh_dim_names, backend_override) DeviceMesh(device_type, mesh,
    mesh_dim_names, backend_override, _init_backend, _rank, _layout, _rank_map, _root_mesh)
"""))
