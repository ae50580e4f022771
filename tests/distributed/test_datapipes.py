"""Datapipes in a distributed program: one seed for all ranks, and each sample on one of them."""

from itertools import chain

import flambeau
import flambeau.distributed as dist
from flambeau.utils.data import DataLoader
from flambeau.utils.data.datapipes.iter import IterableWrapper


def epochs():
    flambeau.manual_seed(dist.get_rank())
    pipe = IterableWrapper(range(24)).shuffle().sharding_filter()
    loaders = [DataLoader(pipe, batch_size=2, num_workers=workers, worker_method="thread") for workers in (0, 0, 2)]
    return [[sample for batch in loader for sample in batch.tolist()] for loader in loaders]


def test_ranks_share_the_samples(ranks):
    for parts in zip(*ranks.run(epochs), strict=True):
        assert [len(part) for part in parts] == [6] * 4
        assert sorted(chain(*parts)) == list(range(24))
