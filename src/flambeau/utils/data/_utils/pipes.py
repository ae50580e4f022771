"""Datapipes in a loader: whether they shuffle, the seed of their epoch, and the share of each reader."""

import copy
import importlib

import flambeau

from .... import _ranks
from ..datapipes.datapipe import IterDataPipe, MapDataPipe
from ..sampler import fresh_seed

_SEED = "DataLoader: the seed of a datapipe's epoch"


def _settings():
    return importlib.import_module("flambeau.utils.data.graph_settings")  # when there is a datapipe: it knows them all


def is_iter_pipe(dataset):
    """Whether the dataset is a datapipe that is iterated over."""
    return isinstance(dataset, IterDataPipe)


def shuffled(dataset, shuffle):
    """The dataset; a datapipe's shuffle steps are turned on or off."""
    return _settings().apply_shuffle_settings(dataset, shuffle) if is_iter_pipe(dataset) else dataset


def epoch_seed(loader):
    """The seed of a datapipe's random steps, the same in all workers and processes; None for other datasets."""
    if not is_iter_pipe(loader.dataset):
        return None
    seed, world = fresh_seed(loader.generator), _ranks.world
    if world is None or world.size() == 1:
        return seed
    told = flambeau.tensor([seed], device=world.device())
    world.call(world.engine, lambda timeout: world.engine.broadcast(told, 0, _SEED, timeout), [told], False)
    return told.item()


def epoch_of(dataset, seed):
    """What workers must know to begin an epoch: the seed, and this process's rank among how many."""
    world = _ranks.world if is_iter_pipe(dataset) else None
    return (seed, 1, 0) if world is None else (seed, world.size(), world.rank())


def begin_epoch(dataset, epoch, readers=1, reader=0):
    """Tells a datapipe its seed, and which reader of how many it is, those of other ranks included."""
    if isinstance(dataset, (IterDataPipe, MapDataPipe)):
        seed, size, rank = epoch
        if seed is not None:
            _settings().seeded(dataset, seed)
        _settings().apply_sharding(dataset, readers * size, reader * size + rank)


def seeded_anew(loader, dataset):
    """The seed of a datapipe's new epoch, which the pipe is told; None for other datasets."""
    seed = epoch_seed(loader)
    if seed is not None:
        _settings().seeded(dataset, seed)
    return seed


def own_copy(dataset):
    """What a worker thread reads: of a datapipe, which has one iterator at a time, a copy."""
    return copy.deepcopy(dataset) if is_iter_pipe(dataset) else dataset
