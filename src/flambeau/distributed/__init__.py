"""Training by several processes: groups, collectives and messages, under torch.distributed's names.

>>> import flambeau.distributed as dist
>>> dist.is_available(), dist.is_initialized()
(True, False)
"""

from .._absent import refusals
from . import _autograd as _autograd
from . import _functional_collectives as _functional_collectives
from . import algorithms as algorithms
from ._buckets import GradBucket as GradBucket
from ._coalescing import _coalescing_manager as _coalescing_manager
from ._collectives import _make_nccl_premul_sum as _make_nccl_premul_sum
from ._collectives import all_gather as all_gather
from ._collectives import all_gather_coalesced as all_gather_coalesced
from ._collectives import all_gather_into_tensor as all_gather_into_tensor
from ._collectives import all_gather_single as all_gather_single
from ._collectives import all_reduce as all_reduce
from ._collectives import all_reduce_coalesced as all_reduce_coalesced
from ._collectives import all_to_all as all_to_all
from ._collectives import all_to_all_single as all_to_all_single
from ._collectives import barrier as barrier
from ._collectives import broadcast as broadcast
from ._collectives import gather as gather
from ._collectives import gather_into_tensor as gather_into_tensor
from ._collectives import gather_single as gather_single
from ._collectives import reduce as reduce
from ._collectives import reduce_scatter as reduce_scatter
from ._collectives import reduce_scatter_single as reduce_scatter_single
from ._collectives import reduce_scatter_tensor as reduce_scatter_tensor
from ._collectives import scatter as scatter
from ._debugging import breakpoint as breakpoint
from ._debugging import get_debug_level as get_debug_level
from ._debugging import record_comm as record_comm
from ._debugging import set_debug_level as set_debug_level
from ._debugging import set_debug_level_from_env as set_debug_level_from_env
from ._errors import DistBackendError as DistBackendError
from ._errors import DistError as DistError
from ._errors import DistNetworkError as DistNetworkError
from ._errors import DistStoreError as DistStoreError
from ._errors import QueueEmptyError as QueueEmptyError
from ._groups import ProcessGroup as ProcessGroup
from ._groups import destroy_process_group as destroy_process_group
from ._groups import get_backend as get_backend
from ._groups import get_backend_config as get_backend_config
from ._groups import get_global_rank as get_global_rank
from ._groups import get_group_rank as get_group_rank
from ._groups import get_pg_count as get_pg_count
from ._groups import get_process_group_ranks as get_process_group_ranks
from ._groups import get_rank as get_rank
from ._groups import get_world_size as get_world_size
from ._groups import init_process_group as init_process_group
from ._groups import is_initialized as is_initialized
from ._groups import new_group as new_group
from ._groups import new_subgroups as new_subgroups
from ._groups import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from ._groups import set_timeout as set_timeout
from ._messages import P2POp as P2POp
from ._messages import batch_isend_irecv as batch_isend_irecv
from ._messages import irecv as irecv
from ._messages import isend as isend
from ._messages import recv as recv
from ._messages import send as send
from ._monitored import monitored_barrier as monitored_barrier
from ._objects import all_gather_object as all_gather_object
from ._objects import broadcast_object_list as broadcast_object_list
from ._objects import gather_object as gather_object
from ._objects import recv_object_list as recv_object_list
from ._objects import scatter_object_list as scatter_object_list
from ._objects import send_object_list as send_object_list
from ._rendezvous import register_rendezvous_handler as register_rendezvous_handler
from ._splitting import SHRINK_ABORT as SHRINK_ABORT
from ._splitting import SHRINK_DEFAULT as SHRINK_DEFAULT
from ._splitting import shrink_group as shrink_group
from ._splitting import split_group as split_group
from ._stores import FileStore as FileStore
from ._stores import HashStore as HashStore
from ._stores import PrefixStore as PrefixStore
from ._stores import Store as Store
from ._tcp import TCPStore as TCPStore
from ._timeline import timeline as timeline
from ._values import Backend as Backend
from ._values import BackendConfig as BackendConfig
from ._values import BuiltinCommHookType as BuiltinCommHookType
from ._values import DebugLevel as DebugLevel
from ._values import GroupMember as GroupMember
from ._values import GroupName as GroupName
from ._values import ReduceOp as ReduceOp
from ._values import default_pg_timeout as default_pg_timeout
from ._values import get_default_backend_for_device as get_default_backend_for_device
from ._values import get_node_local_rank as get_node_local_rank
from ._values import group as group
from ._values import is_available as is_available
from ._values import is_backend_available as is_backend_available
from ._values import is_gloo_available as is_gloo_available
from ._values import is_mpi_available as is_mpi_available
from ._values import is_nccl_available as is_nccl_available
from ._values import is_torchelastic_launched as is_torchelastic_launched
from ._values import is_ucc_available as is_ucc_available
from ._values import is_xccl_available as is_xccl_available
from ._values import supports_complex as supports_complex
from ._work import Work as Work
from .device_mesh import DeviceMesh as DeviceMesh
from .device_mesh import init_device_mesh as init_device_mesh

_REASON = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed", _REASON, "get_backend_impl(group, device)"))
set_debug_level_from_env()

