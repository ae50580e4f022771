"""DistributedSampler: every process visits its own part of the samples."""

import math

import flambeau

from ... import _ranks
from ..._shown import shown
from .sampler import Sampler


class DistributedSampler(Sampler):
    """Of `num_replicas` processes the one numbered `rank` visits every num_replicas-th sample of one order.

    Without these numbers the process group is asked. The order is drawn anew from seed + epoch: call `set_epoch` before
    each epoch. drop_last: leaves out what does not divide evenly; otherwise the first samples are visited twice.

    >>> from flambeau.utils.data import DistributedSampler
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            found_rank, found_size = _ranks.rank_and_size("DistributedSampler")
            num_replicas = found_size if num_replicas is None else num_replicas
            rank = found_rank if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"DistributedSampler: rank must be from 0 to num_replicas - 1 = {num_replicas - 1}, got "
                             f"{shown(rank)}")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        count = len(dataset)
        if drop_last and count % num_replicas:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        if self.shuffle:
            generator = flambeau.Generator().manual_seed(self.seed + self.epoch)
            order = flambeau.randperm(len(self.dataset), generator=generator).tolist()
        else:
            order = list(range(len(self.dataset)))
        if self.drop_last:
            order = order[:self.total_size]
        elif order:
            order = (order * math.ceil(self.total_size / len(order)))[:self.total_size]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """The epoch whose order is visited next."""
        self.epoch = epoch
