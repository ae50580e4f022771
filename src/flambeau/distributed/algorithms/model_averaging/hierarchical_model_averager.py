"""Averaging in small groups often, and in larger ones less often."""

from ...._shown import shown
from ... import _groups as groups
from . import averagers, utils


class HierarchicalModelAverager(averagers.ModelAverager):
    """`period_group_size_dict` is {period: group size}, both ascending; the last group is that of all ranks. After a
    step at which several periods end, the largest group averages   (Lin et al. 2020).
    """

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        sizes, everybody = period_group_size_dict, groups.get_world_size(process_group)
        fine = sizes and list(sizes) == sorted(sizes) and list(sizes.values()) == sorted(set(sizes.values())) and all(
            everybody % size == 0 for size in sizes.values()) and max(sizes.values()) == everybody and min(sizes) > 0
        if not fine or warmup_steps < 0:
            raise ValueError("HierarchicalModelAverager: period_group_size_dict must be {period: group size}, both "
                             f"ascending, sizes that divide {everybody} and end with it, and warmup_steps at least 0; "
                             f"got {shown(period_group_size_dict)} and {shown(warmup_steps)}")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = {period: self._group(size, everybody) for period, size in sizes.items()}

    def _group(self, size, everybody):
        """This rank's group of so many; all ranks make them all."""
        if size == everybody:
            return self.process_group
        if self.process_group is not None:
            raise NotImplementedError("HierarchicalModelAverager: process_group must be that of all ranks; leave it "
                                      "out")
        return groups.new_subgroups(size)[0]

    def average_parameters(self, params):
        """Averages where it is time; counts the step."""
        if self.step >= self.warmup_steps:
            due = [group for period, group in self.period_process_group_dict.items()
                   if (self.step - self.warmup_steps) % period == 0]
            if due:
                utils.average_parameters_or_parameter_groups(params, due[-1])
        self.step += 1
