"""DeviceMesh: the ranks as a grid, with a process group along each of its dimensions."""

import math
import threading

import flambeau

from .._shown import listed, shown
from ..ops.dims import wrap_dim
from . import _groups
from ._values import Backend


class _Entered(threading.local):
    def __init__(self):
        self.meshes = []


_entered = _Entered()


def _current_mesh():
    """The mesh of the innermost `with mesh:`; None outside."""
    return _entered.meshes[-1] if _entered.meshes else None


class DeviceMesh:
    """A grid of ranks; `mesh["dp"]` is the line (or smaller grid) through this rank along the dimension "dp".

    All ranks make the same meshes, in the same order.

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    >>> mesh, mesh["tp"].size(), mesh.get_local_rank("dp")
    (DeviceMesh((dp=1, tp=1), 'cpu'), 1, 0)
    >>> dist.destroy_process_group()
    """

    def __init__(self, device_type, mesh=None, *, mesh_dim_names=None, backend_override=None, _init_backend=True,
                 _rank=None, _layout=None, _rank_map=None, _root_mesh=None):
        _refuse(backend_override=backend_override, _layout=_layout, _rank_map=_rank_map)
        if device_type != "cpu":
            raise RuntimeError(f"DeviceMesh: this build has no devices of type {shown(device_type)}; use \"cpu\"")
        if mesh is None:
            raise ValueError("DeviceMesh: give the ranks as a grid, as in DeviceMesh(\"cpu\", [[0, 1], [2, 3]])")
        self.device_type, self._root, self._parts = device_type, _root_mesh, {}
        self.mesh = flambeau.as_tensor(mesh).to(flambeau.int64)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._check()
        if _init_backend and not _groups.is_initialized():
            _groups.init_process_group()
        self._rank = _groups.get_rank() if _rank is None else _rank
        found = (self.mesh == self._rank).nonzero()
        self._coordinate = tuple(found[0].tolist()) if len(found) else None
        self._groups = self._made_groups() if _init_backend and _root_mesh is None else []

    def _check(self):
        ranks = self.mesh.reshape(-1).tolist()
        if len(set(ranks)) < len(ranks):
            raise RuntimeError(f"DeviceMesh: expected each rank once, got {listed(ranks)}")
        names = self.mesh_dim_names
        if names is not None and (len(names) != self.mesh.ndim or len(set(names)) < len(names)):
            raise RuntimeError(f"DeviceMesh: mesh_dim_names must be {self.mesh.ndim} different names, got "
                               f"{listed(names)}")

    def _made_groups(self):
        """The group of this rank along each dimension; all ranks make the groups of all lines."""
        world, found = _groups.world("DeviceMesh"), []
        if self.mesh.max() >= world.size():
            raise RuntimeError(f"DeviceMesh: the mesh has {self.mesh.numel()} ranks up to {int(self.mesh.max())}, and "
                               f"there are {world.size()} processes")
        for dim in range(self.mesh.ndim):
            mine = _groups.GroupMember.NON_GROUP_MEMBER
            for line in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist():
                whole = line == list(range(world.size()))
                group = world if whole else _groups.new_group(line, sort_ranks=False)
                mine = group if self._rank in line else mine
            found.append(mine)
        return found

    # --- asking -------------------------------------------------------------------------------------------------------

    @property
    def ndim(self):
        """How many dimensions the grid has."""
        return self.mesh.ndim

    @property
    def shape(self):
        """Its sizes."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        """How many ranks there are, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[self._dim(mesh_dim)]

    def _dim(self, dim):
        if isinstance(dim, str):
            if dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"DeviceMesh: there is no dimension {shown(dim)}; there are "
                               f"{listed(self.mesh_dim_names or ())}")
            return self.mesh_dim_names.index(dim)
        return wrap_dim(dim, self.ndim, "DeviceMesh")

    def get_group(self, mesh_dim=None):
        """The process group of this rank along a dimension; without one, of a mesh of one dimension."""
        if mesh_dim is None and self.ndim != 1:
            raise RuntimeError(f"DeviceMesh.get_group: the mesh has {self.ndim} dimensions; say which one")
        return self._groups[0 if mesh_dim is None else self._dim(mesh_dim)]

    def get_all_groups(self):
        """The process groups of this rank, one for each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self):
        """This process's rank in the group of all."""
        return self._rank

    def get_local_rank(self, mesh_dim=None):
        """This rank's place along a dimension; without one, in a mesh of one dimension."""
        if mesh_dim is None and self.ndim != 1:
            raise RuntimeError(f"DeviceMesh.get_local_rank: the mesh has {self.ndim} dimensions; say which one")
        if self._coordinate is None:
            raise RuntimeError(f"DeviceMesh.get_local_rank: rank {self._rank} is not in the mesh")
        return self._coordinate[0 if mesh_dim is None else self._dim(mesh_dim)]

    def get_coordinate(self):
        """This rank's place along every dimension; None where it is not in the mesh."""
        return self._coordinate

    def __getitem__(self, mesh_dim_names):
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self._coordinate is None:
            raise RuntimeError(f"DeviceMesh: rank {self._rank} is not in the mesh, so no part of it goes through it")
        dims = [self._dim(name) for name in names]
        if names == self.mesh_dim_names:
            return self
        if names not in self._parts:
            self._parts[names] = self._part(names, dims)
        return self._parts[names]

    def _part(self, names, dims):
        if dims != sorted(dims):
            raise KeyError(f"DeviceMesh: dimensions {listed(names)} must be in the mesh's order, "
                           f"{listed(self.mesh_dim_names)}")
        place = tuple(slice(None) if dim in dims else k for dim, k in enumerate(self._coordinate))
        part = DeviceMesh(self.device_type, self.mesh[place], mesh_dim_names=names, _rank=self._rank,
                          _root_mesh=self._root or self)
        part._groups = [self._groups[dim] for dim in dims]
        return part

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh of groups that exist: one for each dimension of `mesh`; of one group, `mesh` may be left out."""
        groups = group if isinstance(group, list) else [group]
        if mesh is None and len(groups) > 1:
            raise ValueError("DeviceMesh.from_group: with several groups, give the ranks as a grid in mesh")
        ranks = groups[0].ranks if mesh is None else mesh
        made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(groups):
            raise ValueError(f"DeviceMesh.from_group: expected a group for each of {made.ndim} dimensions, got "
                             f"{len(groups)}")
        made._groups = groups
        return made

    def __enter__(self):
        _entered.meshes.append(self)
        return self

    def __exit__(self, *error):
        _entered.meshes.pop()

    def __eq__(self, other):
        return self is other or (isinstance(other, DeviceMesh) and self.shape == other.shape
                                 and self.mesh_dim_names == other.mesh_dim_names
                                 and flambeau.equal(self.mesh, other.mesh))

    def __hash__(self):
        return hash((tuple(self.mesh.reshape(-1).tolist()), self.shape, self.mesh_dim_names))

    def __repr__(self):
        sizes = self.shape if self.mesh_dim_names is None else [
            f"{name}={size}" for name, size in zip(self.mesh_dim_names, self.shape)]
        return f"DeviceMesh(({', '.join(map(str, sizes))}), {shown(self.device_type)})"


def _refuse(**arguments):
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"DeviceMesh: {name} is not available; every group has the backend "
                                      f"{shown(str(Backend.GLOO))}")


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """All ranks as a grid of this shape; makes the process group first where there is none."""
    _refuse(backend_override=backend_override)
    if not _groups.is_initialized():
        _groups.init_process_group()
    count = math.prod(mesh_shape)
    if count > _groups.get_world_size():
        raise RuntimeError(f"init_device_mesh: shape {listed(mesh_shape)} needs {count} ranks, and there are "
                           f"{_groups.get_world_size()}")
    return DeviceMesh(device_type, flambeau.arange(count).view(*mesh_shape), mesh_dim_names=mesh_dim_names)
