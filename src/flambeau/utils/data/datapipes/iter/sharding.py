"""Shares of several readers: `sharding_filter` leaves to each reader its own samples."""

from enum import IntEnum

from ....._shown import shown
from ..datapipe import IterDataPipe


class SHARDING_PRIORITIES(IntEnum):
    """Groups of readers: all together; processes of a distributed program; workers of a loader."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe):
    """Base of pipes that share out samples."""

    def apply_sharding(self, num_of_instances, instance_id, sharding_group):
        """This reader is `instance_id` of `num_of_instances` in a group of readers."""
        raise NotImplementedError(f"{type(self).__name__} shares out samples and must define apply_sharding")


class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, for reader k of n beginning at k; all samples before `apply_sharding` is called.

    DataLoader calls it in each worker. sharding_group_filter: the one group of readers that this step is about.

    >>> from flambeau.utils.data import DataLoader
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> [batch.tolist() for batch in DataLoader(IterableWrapper(range(6)).sharding_filter(), 3, num_workers=2)]
    [[0, 2, 4], [1, 3, 5]]
    """

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
        """This reader is `instance_id` of `num_of_instances`; of several groups, the last one divides finest."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"apply_sharding: instance_id must be from 0 to num_of_instances - 1 = "
                             f"{shown(num_of_instances - 1)}, got {shown(instance_id)}")
        default = SHARDING_PRIORITIES.DEFAULT
        others = [group for group in self.groups if (group == default) != (sharding_group == default)]
        if others:
            raise RuntimeError("apply_sharding: the group DEFAULT means all readers, so it does not go together with "
                               f"others; {shown(others[0])} was given before {shown(sharding_group)}")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._place()

    def _place(self):
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self):
        for k, sample in enumerate(self.source_datapipe):
            if k % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self):
        return len(range(self.instance_id, len(self.source_datapipe), self.num_of_instances))
