"""Names of training by several processes, which is not here yet: is_available() is False, the others say so."""

from .._absent import refusals

_REASON = ("processes do not exchange tensors yet; test distributed.is_available() first, or share memory by "
           "multiprocessing")
globals().update(refusals("distributed", _REASON, """
    all_gather all_gather_into_tensor all_gather_object all_gather_coalesced all_gather_single all_reduce
    all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list
    destroy_process_group gather gather_into_tensor gather_object gather_single get_backend get_backend_config
    get_global_rank get_group_rank get_process_group_ranks get_rank get_world_size init_device_mesh
    init_process_group irecv isend monitored_barrier new_group new_subgroups new_subgroups_by_enumeration recv
    recv_object_list reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor
    register_rendezvous_handler scatter scatter_object_list send send_object_list split_group shrink_group
    supports_complex
    Backend DeviceMesh FileStore GradBucket HashStore P2POp PrefixStore ProcessGroup ReduceOp Store TCPStore
    Work
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


class DistError(RuntimeError):
    """An exchange between processes failed: never raised, since there are none."""


class DistBackendError(DistError):
    """The library below failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """The store through which processes find each other failed."""
