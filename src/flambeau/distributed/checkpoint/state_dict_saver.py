"""`save` and `async_save`: plan, write, and let the checkpoint count when every rank has written."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from weakref import WeakKeyDictionary

from ..._shown import shown
from .. import _groups as groups
from ._process import writer_of
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .staging import AsyncStager, DefaultStager
from .stateful import Stateful
from .utils import Team


class AsyncCheckpointerType(Enum):
    """Where async_save writes."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What async_save returns where the stager copies in the background too: a future of the copy, and of the save."""

    staging_completion: Future
    upload_completion: Future


def storage_of(given, checkpoint_id, kind, name):
    """The reader or writer that the arguments mean."""
    if given is not None:
        given.reset(checkpoint_id)
        return given
    if checkpoint_id is None:
        raise RuntimeError(f"{name}: give checkpoint_id, the checkpoint's folder, or a storage")
    if not kind.validate_checkpoint_id(checkpoint_id):
        raise ValueError(f"{name}: {shown(str(checkpoint_id))} is no folder; for another storage give its reader or "
                         "writer")
    return kind(checkpoint_id)


def alone(no_dist):
    """Whether this process saves or loads for itself."""
    return no_dist or not groups.is_initialized()


def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None, no_dist=False,
         use_collectives=True):
    """Writes `state_dict` into the folder `checkpoint_id`; all ranks call it, and each writes its share.

    Tensors that are spread over the ranks are written in parts, what all have alike by one of them. The values are
    tensors, objects with `state_dict()`, plain data and containers of these; nested ones get names with dots. Returns
    the Metadata. Without a process group, or with `no_dist`, this process writes what it has.

    The save is atomic: an earlier checkpoint of that folder counts until all ranks have written, and is then removed.
    With `use_collectives=False` the ranks do not talk, and each can load only what it has saved.

    Raises CheckpointException, on all ranks, where one has failed.

    >>> import flambeau, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> place = tempfile.TemporaryDirectory()
    >>> _ = dcp.save({"w": flambeau.arange(3), "step": 7}, checkpoint_id=place.name)
    >>> state = {"w": flambeau.zeros(3, dtype=flambeau.int64), "step": None}
    >>> dcp.load(state, checkpoint_id=place.name)
    >>> state
    {'w': tensor([0, 1, 2]), 'step': 7}
    >>> place.cleanup()
    """
    writer = storage_of(storage_writer, checkpoint_id, FileSystemWriter, "save")
    return _save_state_dict(_states_of(state_dict), writer, process_group, 0, alone(no_dist), planner, use_collectives)


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The older name of `save`, which takes values only, no objects with a state dict."""
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, alone(no_dist), planner)


def _states_of(state_dict):
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None,
                     use_collectives=True):
    team = Team(process_group, no_dist, coordinator_rank)
    planner = planner or DefaultSavePlanner()
    found = []  # the metadata, on ranks that make them

    def local_plan():
        planner.set_up_planner(state_dict, storage_writer.storage_meta(), team.is_coordinator or not use_collectives)
        storage_writer.set_up_storage_writer(team.is_coordinator or not use_collectives, rank=team.rank,
                                             use_collectives=use_collectives)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans):
        plans, metadata = planner.create_global_plan(plans)
        found.append(metadata)
        return storage_writer.prepare_global_plan(plans)

    def write(plan):
        return storage_writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results):
        storage_writer.finish(found[0], results)
        return [found[0]] * team.size

    if use_collectives:
        plan = team.through_coordinator("plan", local_plan, global_plan)
        return team.through_coordinator("write", lambda: write(plan), finish)
    team = Team(None, True)
    team.rank = 0 if no_dist else groups.get_rank(process_group)
    plan = global_plan([local_plan()])[0]
    return finish([write(plan)])[0]


# --- in the background ------------------------------------------------------------------------------------------------

_lock = Lock()
_threads = [None]  # the one that saves, so that all ranks save in the order of the calls
_own_groups = WeakKeyDictionary()  # group -> a group of the same ranks that only saves use


def _own_group(group):
    """The collectives of a save must not come between those of the program: they have a group for themselves."""
    group = group if group is not None else groups.world("async_save")
    found = _own_groups.get(group)
    if found is None or found not in groups._groups:
        found = _own_groups[group] = groups.new_group(group.ranks, use_local_synchronization=len(group.ranks) <
                                                      groups.get_world_size(), group_desc="async_save")
    return found


def _thread():
    with _lock:
        if _threads[0] is None:
            _threads[0] = ThreadPoolExecutor(1, "flambeau-checkpoint")
        return _threads[0]


def _forget():
    """The child of a fork has no such thread."""
    global _lock
    _lock = Lock()
    _threads[0] = None


os.register_at_fork(after_in_child=_forget)


def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=AsyncCheckpointerType.THREAD, async_stager=None, no_dist=False,
               use_collectives=True):
    """`save` in the background: the values are copied, and a thread writes them while the program goes on, or with
    `async_checkpointer_type=AsyncCheckpointerType.PROCESS` another process, which takes no time of this one's
    interpreter. The first call starts it, and the ranks' processes form a group; writer and planner are pickled for it.

    Returns a `concurrent.futures.Future` of the Metadata, whose `result()` waits and raises what went wrong. Saves
    come one after the other, in the order of the calls; the program waits for them before it ends. The ranks exchange
    plans in a group of their own, which the first call makes.

    >>> import flambeau, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> place = tempfile.TemporaryDirectory()
    >>> w = flambeau.ones(2)
    >>> future = dcp.async_save({"w": w}, checkpoint_id=place.name)
    >>> _ = w.zero_(), future.result()
    >>> dcp.load({"w": w}, checkpoint_id=place.name)
    >>> w
    tensor([1., 1.])
    >>> place.cleanup()
    """
    writer = storage_of(storage_writer, checkpoint_id, FileSystemWriter, "async_save")
    no_dist = alone(no_dist)
    group = None if no_dist else _own_group(process_group)
    stager = async_stager or (writer if isinstance(writer, AsyncStager) else DefaultStager())
    if AsyncCheckpointerType(async_checkpointer_type) is AsyncCheckpointerType.PROCESS:
        return _in_process(_states_of(state_dict), async_stager, writer, planner, group, use_collectives)
    staged = stager.stage(_states_of(state_dict))
    later = isinstance(staged, Future)

    def run():
        return _save_state_dict(staged.result() if later else staged, writer, group, 0, no_dist, planner,
                                use_collectives)

    upload = _thread().submit(run)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return AsyncSaveResponse(staged, upload) if later else upload


def _in_process(state, stager, writer, planner, group, use_collectives):
    """Hands the values over to the process that saves; a stager that a program gives copies them before."""
    process, rest = writer_of(group), (writer, planner, group is None, use_collectives)
    staged = stager.stage(state) if stager is not None else state
    if isinstance(staged, Future):
        upload = _thread().submit(lambda: process.save(process.stage(staged.result(), rest)))
        return AsyncSaveResponse(staged, upload)
    copied = process.stage(staged, rest)
    return _thread().submit(lambda: process.save(copied))
