"""Names of training by several processes, which is not here yet: is_available() is False, the others say so."""

from .._absent import refusals
from ._values import Backend as Backend
from ._values import BuiltinCommHookType as BuiltinCommHookType
from ._values import DebugLevel as DebugLevel
from ._values import GroupMember as GroupMember
from ._values import ReduceOp as ReduceOp
from ._values import get_debug_level as get_debug_level
from ._values import get_default_backend_for_device as get_default_backend_for_device
from ._values import get_node_local_rank as get_node_local_rank
from ._values import group as group

_REASON = ("processes do not exchange tensors yet; test distributed.is_available() first, or share memory by "
           "multiprocessing")
globals().update(refusals("distributed", _REASON, """
    all_gather(tensor_list, tensor, group, async_op) all_gather_into_tensor(output_tensor, input_tensor, group,
    async_op) all_gather_object(object_list, obj, group) all_gather_coalesced(output_tensor_lists,
    input_tensor_list, group, async_op) all_gather_single(output_tensor, input_tensor, group, async_op)
    all_reduce(tensor, op, group, async_op) all_reduce_coalesced(tensors, op, group, async_op)
    all_to_all(output_tensor_list, input_tensor_list, group, async_op) all_to_all_single(output, input,
    output_split_sizes, input_split_sizes, group, async_op) batch_isend_irecv(p2p_op_list) broadcast(tensor,
    src, group, async_op, group_src) broadcast_object_list(object_list, src, group, device, group_src)
    destroy_process_group(group) gather(tensor, gather_list, dst, group, async_op, group_dst)
    gather_into_tensor(tensor, gather_tensor, dst, group, async_op, group_dst) gather_object(obj,
    object_gather_list, dst, group, group_dst) gather_single(tensor, gather_tensor, dst, group, async_op,
    group_dst) get_backend_impl(group, device) get_backend_config(group) breakpoint(rank, skip, timeout_s)
    record_comm(name) set_debug_level(arg0) set_debug_level_from_env set_timeout(timeout, group)
    get_global_rank(group, group_rank) get_group_rank(group, global_rank) get_process_group_ranks(group)
    init_device_mesh(device_type, mesh_shape, mesh_dim_names, backend_override) init_process_group(backend,
    init_method, timeout, world_size, rank, store, group_name, pg_options, device_id, _ranks) irecv(tensor, src,
    group, tag, group_src) isend(tensor, dst, group, tag, group_dst) monitored_barrier(group, timeout,
    wait_all_ranks) new_group(ranks, timeout, backend, pg_options, use_local_synchronization, group_desc,
    device_id, sort_ranks) new_subgroups(group_size, group, timeout, backend, pg_options, group_desc)
    new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout, backend, pg_options, group_desc) recv(tensor,
    src, group, tag, group_src) recv_object_list(object_list, src, group, device, group_src, use_batch)
    reduce(tensor, dst, op, group, async_op, group_dst) reduce_scatter(output, input_list, op, group, async_op)
    reduce_scatter_single(output, input, op, group, async_op) reduce_scatter_tensor(output, input, op, group,
    async_op) register_rendezvous_handler(scheme, handler) scatter(tensor, scatter_list, src, group, async_op,
    group_src) scatter_object_list(scatter_object_output_list, scatter_object_input_list, src, group, group_src)
    send(tensor, dst, group, tag, group_dst) send_object_list(object_list, dst, group, device, group_dst,
    use_batch) split_group(parent_pg, split_ranks, timeout, pg_options, group_desc, backend)
    shrink_group(ranks_to_exclude, group, shrink_flags, pg_options) supports_complex(reduceOp)
    BackendConfig(backend) DeviceMesh(device_type, mesh, mesh_dim_names, backend_override, _init_backend, _rank,
    _layout, _rank_map, _root_mesh) FileStore GradBucket HashStore P2POp(op, tensor, peer, group, tag,
    group_peer) PrefixStore ProcessGroup Store TCPStore Work GroupName

"""))


def is_available():
    """Whether processes can exchange tensors: not yet."""
    return False


def is_initialized():
    """Whether this process belongs to a group: never."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_available
is_torchelastic_launched = is_initialized


def is_backend_available(backend):
    """Whether processes can exchange tensors in this way: in none yet."""
    return False


def get_pg_count():
    """How many groups of processes there are: none."""
    return 0


def _no_group(name):
    return ValueError(f"distributed.{name}: there is no group of processes; test distributed.is_initialized() first, "
                      "which is False for a single process")


def get_rank(group=None):
    """The number of this process in a group: ValueError, since there is no group."""
    raise _no_group("get_rank")


def get_world_size(group=None):
    """How many processes a group has: ValueError, since there is no group."""
    raise _no_group("get_world_size")


def get_backend(group=None):
    """How a group exchanges tensors: ValueError, since there is no group."""
    raise _no_group("get_backend")


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits for all processes of a group: ValueError, since there is no group."""
    raise _no_group("barrier")


class DistError(RuntimeError):
    """An exchange between processes failed: never raised, since there are none."""


class DistBackendError(DistError):
    """The library below failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """The store through which processes find each other failed."""


class QueueEmptyError(DistStoreError):
    """Nothing is in a queue of the store."""
