"""Process groups: which ranks exchange tensors, through which engine, and which group is everybody's."""

import os
import threading
import warnings
from collections import Counter
from datetime import timedelta
from zlib import crc32

from .. import _ranks
from .._shown import listed, shown
from . import _mpi
from ._backends import backends_of, engines, index_of
from ._rendezvous import rendezvous
from ._shared import host
from ._stores import FileStore, PrefixStore, Store
from ._tcp import TCPStore, timeout_of
from ._values import Backend, GroupMember, default_pg_timeout
from ._work import Work, Worker

_groups = {}  # group -> its name; those that this process is in
_made = 0  # groups that all ranks have made, in the same order
_made_alone = Counter()  # ranks -> groups that they alone have made


class ProcessGroup:
    """Ranks that exchange tensors: their numbers in the group of all, and the engine for each type of device."""

    def __init__(self, ranks, rank, engines, store, timeout, backends, name, desc):
        self.ranks, self._rank, self.engines, self.store = ranks, rank, engines, store
        self.timeout, self.backends = timeout, backends
        self.group_name, self.group_desc = name, desc
        self._calls, self._sent = Worker(f"flambeau-{name}"), Worker(f"flambeau-{name}-messages")
        self._turn = threading.Lock()
        self.collected = None  # calls that _coalescing_manager makes one of
        self._place = {number: k for k, number in enumerate(ranks)}

    def rank(self):
        """This process's rank in the group."""
        return self._rank

    def size(self):
        """How many ranks it has."""
        return len(self.ranks)

    @property
    def backend(self):
        """The first of its backends."""
        return next(iter(self.backends.values()))

    def name(self):
        """The backend's name."""
        return str(self.backend)

    def get_group_store(self):
        """The store of this group."""
        return self.store

    def place_of(self, number, name):
        """The rank in this group of a rank in the group of all."""
        if number not in self._place:
            raise ValueError(f"{name}: rank {shown(number)} is not in the group of ranks {listed(self.ranks)}")
        return self._place[number]

    @property
    def engine(self):
        """That of what is no tensor: the CPU's, if there is one."""
        return self.engines.get("cpu") or next(iter(self.engines.values()))

    def engine_of(self, tensor, name):
        """The engine for the device of a tensor."""
        found = self.engines.get(tensor.device.type)
        if found is None:
            kinds = " and ".join(self.engines)
            raise RuntimeError(f"{name}: the tensor is on device {tensor.device}, and the group exchanges those on "
                               f"{kinds}; move it there, or make the group with backend=\"cpu:gloo,cuda:nccl\"")
        return found

    def device(self):
        """Where tensors are exchanged that the library makes itself."""
        return self.engine.device()

    def call(self, engine, function, result, async_op, seconds=None):
        """Runs a collective after those before it: at once, on a stream, or in the group's thread; None, or its Work"""
        if self.collected is not None:
            return self.collected.put(engine, function, result, async_op)
        seconds = self.timeout if seconds is None else seconds
        if engine.launches:
            work = engine.launch(function, result, seconds)
            return work if async_op else (work.wait(), None)[1]
        if not async_op and not self._calls.busy:
            return self._in_turn(function, seconds)
        work = self._calls.put(lambda: self._in_turn(function, seconds), Work([] if result is None else result))
        return work if async_op else (work.wait(), None)[1]

    def _in_turn(self, function, seconds):
        with self._turn:
            rest = function(seconds)
            if rest is not None:
                rest()

    def message(self, function, work):
        """Finishes a message in the thread for messages, so that it moves while this process does something else."""
        return self._sent.put(function, work)

    def end(self):
        """Waits for what is under way, and leaves the group."""
        self._calls.end()
        self._sent.end()
        for engine in self.engines.values():
            engine.leave()

    def __repr__(self):
        return f"ProcessGroup({shown(self.group_name)}, rank {self._rank} of {self.size()}, {self.backend})"

    def __reduce__(self):
        raise TypeError("ProcessGroup: a group belongs to its process and cannot be sent or saved")


# --- asking -----------------------------------------------------------------------------------------------------------

def is_initialized():
    """Whether init_process_group has been called, and destroy_process_group has not."""
    return _ranks.world is not None


def world(name):
    """The group of all processes; ValueError, which begins with the function's name, where there is none."""
    if _ranks.world is None:
        raise ValueError(f"distributed.{name}: there is no group of processes; call distributed.init_process_group "
                         "first (distributed.is_initialized() says whether it has been called)")
    return _ranks.world


def member(group, name):
    """The group meant by an argument; None, with a warning, where this process is not in it."""
    if group is None:
        group = world(name)
    if isinstance(group, ProcessGroup):
        if group not in _groups:
            raise ValueError(f"distributed.{name}: the group has been destroyed")
        if group.collected is not None:
            group.collected.check(name)
        return group
    if group == GroupMember.NON_GROUP_MEMBER:
        warnings.warn(f"{name}: rank {world(name).rank()} is not in this group, so nothing is done",
                      UserWarning, stacklevel=3)
        return None
    get_group = getattr(group, "get_group", None)  # a DeviceMesh of one dimension
    if get_group is not None:
        return get_group()
    raise TypeError(f"distributed.{name}: expected a ProcessGroup or None, got {type(group).__name__}")


def get_rank(group=None):
    """This process's rank in a group: from 0; -1 where it is not in it."""
    found = world("get_rank") if group is None else group
    return found.rank() if isinstance(found, ProcessGroup) else -1


def get_world_size(group=None):
    """How many processes a group has; -1 where this process is not in it."""
    found = world("get_world_size") if group is None else group
    return found.size() if isinstance(found, ProcessGroup) else -1


def get_backend(group=None):
    """The name of the way in which a group exchanges tensors.

    ValueError: this process is not in it.
    """
    found = world("get_backend") if group is None else group
    if found not in _groups:
        raise ValueError("get_backend: this process is not in the group")
    return found.backend


def get_backend_config(group=None):
    """The backend for each kind of device, as text."""
    found = world("get_backend_config") if group is None else group
    get_backend(found)
    return ",".join(f"{kind}:{each}" for kind, each in found.backends.items())


def get_process_group_ranks(group):
    """The ranks of a group, as numbers in the group of all."""
    return list((world("get_process_group_ranks") if group is None else group).ranks)


def get_global_rank(group, group_rank):
    """The number in the group of all of a rank of a group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"get_global_rank: the group has ranks 0 to {len(ranks) - 1}, got {shown(group_rank)}")
    return ranks[group_rank]


_get_global_rank = get_global_rank  # its older name


def get_group_rank(group, global_rank):
    """The rank in a group of a number in the group of all."""
    return (world("get_group_rank") if group is None else group).place_of(global_rank, "get_group_rank")


def get_pg_count():
    """How many groups this process is in."""
    return len(_groups)


def set_timeout(timeout, group=None):
    """How long the calls of a group wait from now on."""
    found = member(group, "set_timeout")
    found.timeout = timeout_of(timeout, default_pg_timeout, "set_timeout").total_seconds()


def _get_default_group():
    return world("_get_default_group")


def _resolve_process_group(group_name):
    found = next((group for group, name in _groups.items() if name == group_name), None)
    if found is None:
        raise ValueError(f"_resolve_process_group: this process is in no group called {shown(group_name)}")
    return found


def _rank_not_in_group(group):
    """Whether this process is outside of a group; None stands for the group of all, which nobody is outside of."""
    return group is not None and group not in _groups


_pg_map = _groups


# --- making -----------------------------------------------------------------------------------------------------------

def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None, _ranks=None):
    """Makes the group of all processes; each of them calls it.

    They find each other by `init_method` (env:// without it; tcp://host:port, file:///path), or by a `store`. `timeout`
    is how long this and later calls wait (30 minutes).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = flambeau.ones(2)
    >>> dist.all_reduce(x)
    >>> x, dist.get_rank(), dist.get_world_size(), dist.get_backend()
    (tensor([1., 1.]), 0, 1, 'gloo')
    >>> dist.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("init_process_group: there is a group already; call destroy_process_group first")
    index = index_of(pg_options, device_id, "init_process_group")
    if _ranks is not None:
        raise NotImplementedError("init_process_group: _ranks is not available; make smaller groups with new_group")
    backends = backends_of(backend, "init_process_group")
    timeout = timeout_of(timeout, default_pg_timeout, "init_process_group: timeout")
    if store is None and init_method in (None, "env://") and rank < 0 and "RANK" not in os.environ and _mpi.launched():
        return _begin_under_mpiexec(backends, timeout, group_name, index)
    if store is None:
        store, rank, world_size = rendezvous(init_method or "env://", rank, world_size, timeout)
        store.set_timeout(timeout)
    elif init_method is not None:
        raise AssertionError("init_process_group: give init_method or store, not both")
    elif not isinstance(store, Store):
        raise TypeError(f"init_process_group: store must be a Store, got {type(store).__name__}")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank must be from 0 to world_size - 1, got rank {rank} and world_size "
                         f"{world_size}")
    _begin(backends, rank, world_size, store, timeout, group_name, index)


def _begin(backends, rank, size, store, timeout, name, index):
    inner = PrefixStore(name or "world", store)
    made = engines(backends, rank, size, PrefixStore("shared", inner), timeout.total_seconds(), name or "world", index)
    _become_world(made, inner, store, timeout, backends, name)


def _begin_under_mpiexec(backends, timeout, name, index):
    """mpiexec has numbered the processes; on one host they share memory unless the program asks for "mpi"."""
    rank, size = _mpi.world()
    _mpi.end_all_on_error()
    comm = _mpi.library().COMM_WORLD
    several = len(set(comm.allgather(host()))) > 1
    if backends.get("cpu") == Backend.MPI or (several and "cuda" not in backends):
        made = {"cpu": _mpi.MPIEngine(list(range(size)), 0)}
        return _become_world(made, None, None, timeout, {"cpu": Backend(Backend.MPI)}, name)
    if several:
        raise RuntimeError("init_process_group: GPUs of several hosts meet at an address; give init_method="
                           '"tcp://HOST:PORT" with rank and world_size, or set MASTER_ADDR, MASTER_PORT, RANK and '
                           "WORLD_SIZE")
    store = TCPStore("localhost", 0, is_master=True, timeout=timeout) if rank == 0 else None
    port = comm.bcast(store.port if rank == 0 else None)
    store = store or TCPStore("localhost", port, timeout=timeout)
    return _begin(backends, rank, size, store, timeout, name, index)


def _become_world(made, inner, store, timeout, backends, name):
    global _made
    engine = next(iter(made.values()))
    group = ProcessGroup(list(range(engine.size)), engine.rank, made, inner, timeout.total_seconds(), backends,
                         name or "world", "default_pg")
    group.outer_store = store
    _groups[group], _made = group.group_name, 0
    _made_alone.clear()
    _ranks.world = group


def destroy_process_group(group=None):
    """This process takes no further part in a group; without an argument, in any.

    Others that wait for it in a collective call get an error that says so.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    everything = group is None or group is _ranks.world
    world("destroy_process_group")
    if not everything and group not in _groups:
        raise ValueError("destroy_process_group: the group has been destroyed already")
    end_all(list(_groups) if everything else [group])
    if everything:
        store, _ranks.world = _ranks.world.outer_store, None
        if isinstance(store, FileStore):  # a TCPStore serves until its process ends
            store.close()


def end_all(groups=None):
    """This process leaves groups: all that it is in, where none are named."""
    for one in list(_groups) if groups is None else groups:
        one.end()
        del _groups[one]


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False,
              group_desc=None, device_id=None, sort_ranks=True):
    """A group of some ranks: all processes of the group of all call this, in the same order, also those that are not
    in it; with `use_local_synchronization`, only those that are.

    Returns GroupMember.NON_GROUP_MEMBER where this process is not in it.
    """
    global _made
    everybody = world("new_group")
    index = index_of(pg_options, device_id, "new_group")
    ranks = _checked_ranks(everybody, ranks, sort_ranks)
    timeout = timeout_of(timeout, timedelta(seconds=everybody.timeout), "new_group").total_seconds()
    backends = everybody.backends if backend is None else backends_of(backend, "new_group")
    if use_local_synchronization:
        _made_alone[tuple(ranks)] += 1  # never again: the store keeps what a group before has left under its name
        name = f"ranks {'-'.join(map(str, ranks))} #{_made_alone[tuple(ranks)]}"
    else:
        _made += 1
        name = str(_made)
    if everybody.rank() not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    if everybody.store is None:  # of MPI
        store, made = None, {"cpu": _mpi.MPIEngine(ranks, crc32(name.encode()))}
    else:
        store = PrefixStore(f"group {name}", everybody.store)
        made = engines(backends, ranks.index(everybody.rank()), len(ranks), store, timeout, f"{name} of {ranks}", index)
    rank = ranks.index(everybody.rank())
    group = ProcessGroup(ranks, rank, made, store, timeout, backends, name, group_desc or "undefined")
    _groups[group] = name
    return group


def _checked_ranks(everybody, ranks, sort_ranks):
    if ranks is None:
        return list(range(everybody.size()))
    ranks = sorted(ranks) if sort_ranks else list(ranks)
    for number in ranks:
        if not 0 <= number < everybody.size():
            raise RuntimeError(f"new_group: there are ranks 0 to {everybody.size() - 1}, got {shown(number)} in "
                               f"{listed(ranks)}")
    if len(set(ranks)) < len(ranks) or not ranks:
        raise RuntimeError(f"new_group: expected different ranks, at least one, got {listed(ranks)}")
    return ranks


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) of ranks 0 to group_size - 1, the next group_size, and so on.

    Without `group_size`, the ranks of one host are a group, which the launcher tells by LOCAL_WORLD_SIZE.
    """
    if group is not None and group is not world("new_subgroups"):
        raise NotImplementedError("new_subgroups: subgroups of a smaller group are not available; use new_group with "
                                  "their ranks")
    size = get_world_size()
    each = int(os.environ.get("LOCAL_WORLD_SIZE", size)) if group_size is None else group_size
    if each < 1 or size % each:
        raise ValueError(f"new_subgroups: {size} ranks cannot be divided into groups of {shown(each)}")
    lists = [list(range(first, first + each)) for first in range(0, size, each)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None,
                                 group_desc=None):
    """(the group of this process or None, all groups), one for each list of ranks; no rank is in two."""
    flat = [number for ranks in ranks_per_subgroup_list for number in ranks]
    if not flat:
        raise ValueError("new_subgroups_by_enumeration: expected lists of ranks, got none")
    if len(set(flat)) < len(flat):
        raise ValueError(f"new_subgroups_by_enumeration: a rank is in two lists: {listed(flat)}")
    groups, mine = [], None
    for ranks in ranks_per_subgroup_list:
        groups.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        mine = groups[-1] if get_rank() in ranks else mine
    return mine, groups
