"""Calls of functions on other processes: this build has none, `is_available()` says so, the names say what to do."""

from .._absent import refusals


def is_available():
    """Whether functions can be called on other processes by name: no.

    >>> import flambeau.distributed.rpc as rpc
    >>> rpc.is_available()
    False
    """
    return False


globals().update(refusals("distributed.rpc", "functions are not called on other processes; send_object_list() and "
                          "recv_object_list() exchange objects, and Ray runs functions on a cluster", """
    init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None) shutdown(graceful=True, timeout=0)
    rpc_sync(to, func, args=None, kwargs=None, timeout=-1.0) rpc_async(to, func, args=None, kwargs=None, timeout=-1.0)
    remote(to, func, args=None, kwargs=None, timeout=-1.0) get_worker_info(worker_name=None) get_rpc_timeout
    BackendType RRef PyRRef RpcAgent RpcBackendOptions TensorPipeAgent TensorPipeRpcBackendOptions WorkerInfo
"""))
