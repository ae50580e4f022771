"""`load`: every rank reads what it needs, whoever has written it."""

from .. import _groups as groups
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_saver import alone, storage_of
from .stateful import Stateful
from .utils import Team


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Fills `state_dict` from the folder `checkpoint_id`: tensors in place, other values anew; all ranks call it.

    Any number of ranks may have saved it, with tensors spread in any other way: each rank reads the parts that it
    needs. Objects with `load_state_dict` are given their state. Names of the checkpoint that the state dict has not are
    left out. No code from the files is run.

    Raises CheckpointException, on all ranks, where one has failed: a name is missing in the checkpoint, a tensor has
    another size, a file is damaged. The tensors then may have been filled in part.

    >>> import flambeau, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> model = flambeau.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = dcp.save({"model": model}, checkpoint_id=place)
    ...     other = flambeau.nn.Linear(2, 1)
    ...     dcp.load({"model": other}, checkpoint_id=place)
    >>> bool((other.weight == model.weight).all())
    True
    """
    reader = storage_of(storage_reader, checkpoint_id, FileSystemReader, "load")
    states = {key: value.state_dict() if isinstance(value, Stateful) else value
              for key, value in sorted(state_dict.items())}
    _load_state_dict(states, reader, process_group, 0, alone(no_dist), planner)
    for key, value in list(state_dict.items()):
        if isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The older name of `load`, which fills values only, no objects with a state dict."""
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, alone(no_dist), planner)


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    team = Team(process_group, no_dist or not groups.is_initialized(), coordinator_rank)
    planner = planner or DefaultLoadPlanner()

    def local_plan():
        metadata, shared = _metadata_of(storage_reader, team.rank)
        planner.set_up_planner(state_dict, metadata, team.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, team.is_coordinator, rank=team.rank, use_collectives=shared)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = team.through_coordinator("plan", local_plan, global_plan)
    team.through_coordinator("read", lambda: storage_reader.read_data(planner.finish_plan(plan), planner).wait(),
                             lambda results: results)


def _metadata_of(reader, rank):
    """(the metadata, whether they are of all ranks): a save without collectives leaves each rank its own."""
    try:
        return reader.read_metadata(), True
    except FileNotFoundError:
        try:
            return reader.read_metadata(rank=rank), False
        except (FileNotFoundError, TypeError):
            pass
        raise


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None):
    """A new state dict of what the checkpoint has under these names; of everything without `keys`."""
    reader = storage_of(storage_reader, checkpoint_id, FileSystemReader, "_load_state_dict_from_keys")
    found = {}
    keys = {keys} if isinstance(keys, str) else keys
    _load_state_dict(found, reader, process_group, 0, alone(False), _EmptyStateDictLoadPlanner(keys=keys))
    return found
