"""parallelize_module: a plan of styles, by the names of a model's parts."""

import fnmatch
import warnings

from ...._shown import shown
from ...device_mesh import _current_mesh
from .style import ParallelStyle


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Spreads parts of a module over a mesh of one dimension, in place, and returns it.

    parallelize_plan: one ParallelStyle for the module itself, or {name: style}; "layers.*.up" names a part of every
    layer. src_data_rank: whose parameters count; None: every rank has the same already.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 4), flambeau.nn.ReLU(), flambeau.nn.Linear(4, 2))
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> net[0].weight.placements, net[2].weight.placements
    ((Shard(dim=0),), (Shard(dim=1),))
    >>> dist.destroy_process_group()
    """
    mesh = device_mesh or _current_mesh()
    if mesh is None:
        raise ValueError("parallelize_module: give a device_mesh, or call it inside `with mesh:`")
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module: expected a mesh of one dimension, got {shown(mesh)}; take one of its "
                         "dimensions, as in mesh[\"tp\"]")
    if parallelize_plan is None:
        warnings.warn("parallelize_module: there is no parallelize_plan, so nothing is spread", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError("parallelize_module: parallelize_plan must be a ParallelStyle or a dict of them by names, got "
                        f"{shown(parallelize_plan)}")
    for name, style in parallelize_plan.items():
        found = [module] if name == "" else list(_parts(module, name.split(".")))
        if not found:
            warnings.warn(f"parallelize_module: no part of the module is called {shown(name)}, so that entry of the "
                          "plan does nothing", stacklevel=2)
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _parts(module, names):
    """The modules that a path with wildcards leads to."""
    if not names:
        yield module
        return
    for name, child in module.named_children():
        if fnmatch.fnmatch(name, names[0]):
            yield from _parts(child, names[1:])
