"""Tensors spread over processes, under torch.distributed.tensor's names: DTensor, its placements, and what makes it."""

from ..device_mesh import DeviceMesh as DeviceMesh
from ..device_mesh import init_device_mesh as init_device_mesh
from ._api import DTensor as DTensor
from ._api import distribute_module as distribute_module
from ._api import distribute_tensor as distribute_tensor
from ._creation import empty as empty
from ._creation import full as full
from ._creation import ones as ones
from ._creation import rand as rand
from ._creation import randn as randn
from ._creation import zeros as zeros
from .placement_types import Partial as Partial
from .placement_types import Placement as Placement
from .placement_types import Replicate as Replicate
from .placement_types import Shard as Shard
