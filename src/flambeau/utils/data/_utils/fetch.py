"""Fetching: how the indices of a batch become its samples, and these one batch."""

from itertools import islice

from ..dataset import IterableDataset, batch_function
from .collate import default_collate

#: fields of the board on which a worker process says where it is, read by the main process (64-bit integers)
POSITION, TASK, PEAK, STOP, FIELDS = range(5)
END = object()  # an iterable dataset has no more samples


class Stopped(Exception):
    """The main process no longer wants the batch that is being loaded."""


def fetcher(loader, board=None):
    """(function from a batch's indices to the batch, whether it runs no code of the user).

    board: a worker's, where the position of the sample in the batch is written before the sample is loaded.
    """
    dataset, collate = loader.dataset, loader.collate_fn
    batched = loader._batched
    if isinstance(dataset, IterableDataset):
        return _iterating(iter(dataset), batched, loader.drop_last, collate, board), False
    if not batched:
        return (lambda index: collate(dataset[index])), False
    gather = batch_function(dataset) if collate is default_collate else None
    if gather is not None:
        return gather, True
    many = getattr(dataset, "__getitems__", None)
    if many:
        return (lambda indices: collate(many(indices))), False
    if board is None:
        return (lambda indices: collate([dataset[i] for i in indices])), False
    return _one_by_one(dataset, collate, board), False


def _one_by_one(dataset, collate, board):
    def fetch(indices):
        samples = []
        for board[POSITION], index in enumerate(indices):
            if board[STOP]:
                raise Stopped
            samples.append(dataset[index])
        return collate(samples)
    return fetch


def _watched(samples, board):
    for board[POSITION], sample in enumerate(samples):
        yield sample
        if board[STOP]:
            raise Stopped


def _iterating(samples, batched, drop_last, collate, board):
    def fetch(indices):
        if not batched:
            sample = next(samples, END)
            return sample if sample is END else collate(sample)
        drawn = islice(samples, len(indices))
        batch = list(drawn if board is None else _watched(drawn, board))
        if not batch or (drop_last and len(batch) < len(indices)):
            return END
        return collate(batch)
    return fetch
