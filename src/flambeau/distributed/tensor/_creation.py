"""zeros, ones, empty, full, rand and randn as DTensors."""

import flambeau

from ._api import DTensor, _mesh
from ._dtensor_spec import DTensorSpec, TensorMeta, strides_of
from ._utils import checked_placements


def _spread(name, size, device_mesh, placements, layout):
    if layout not in (None, flambeau.strided):
        raise NotImplementedError(f"{name}: layout {layout} is not available; leave it out")
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    mesh = _mesh(device_mesh, name)
    placements = checked_placements(placements, mesh, len(size), name)
    if any(p.is_partial() for p in placements):
        raise ValueError(f"{name}: a new tensor is cut or replicated; Partial() comes from operators only")
    spec = DTensorSpec(mesh, placements, TensorMeta(size, strides_of(size), None))
    return spec, spec.extent()[0]


def _made(spec, local, requires_grad):
    spec.tensor_meta = spec.tensor_meta._replace(dtype=local.dtype)
    return DTensor(local, spec, requires_grad=requires_grad)


def zeros(*size, requires_grad=False, dtype=None, layout=flambeau.strided, device_mesh=None, placements=None):
    """Zeros of a shape, of which each rank makes its part."""
    spec, local = _spread("tensor.zeros", size, device_mesh, placements, layout)
    return _made(spec, flambeau.zeros(local, dtype=dtype), requires_grad)


def ones(*size, dtype=None, layout=flambeau.strided, requires_grad=False, device_mesh=None, placements=None):
    """Ones of a shape, of which each rank makes its part."""
    spec, local = _spread("tensor.ones", size, device_mesh, placements, layout)
    return _made(spec, flambeau.ones(local, dtype=dtype), requires_grad)


def empty(*size, dtype=None, layout=flambeau.strided, requires_grad=False, device_mesh=None, placements=None):
    """Memory for a shape, of which each rank has its part."""
    spec, local = _spread("tensor.empty", size, device_mesh, placements, layout)
    return _made(spec, flambeau.empty(local, dtype=dtype), requires_grad)


def full(size, fill_value, *, dtype=None, layout=flambeau.strided, requires_grad=False, device_mesh=None,
         placements=None):
    """One number everywhere, of which each rank makes its part."""
    spec, local = _spread("tensor.full", (size,), device_mesh, placements, layout)
    return _made(spec, flambeau.full(local, fill_value, dtype=dtype), requires_grad)


def rand(*size, requires_grad=False, dtype=None, layout=flambeau.strided, device_mesh=None, placements=None):
    """Uniform numbers from [0, 1): those that one process would draw, if all ranks have the same seed."""
    made = empty(*size, dtype=dtype, layout=layout, device_mesh=device_mesh, placements=placements)
    return made.uniform_().requires_grad_(requires_grad)


def randn(*size, requires_grad=False, dtype=None, layout=flambeau.strided, device_mesh=None, placements=None):
    """Normal numbers: those that one process would draw, if all ranks have the same seed."""
    made = empty(*size, dtype=dtype, layout=layout, device_mesh=device_mesh, placements=placements)
    return made.normal_().requires_grad_(requires_grad)
