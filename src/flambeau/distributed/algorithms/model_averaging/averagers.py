"""Averagers: after which steps the models of all ranks become their mean."""

import abc

from ...._shown import shown
from . import utils


class ModelAverager(abc.ABC):
    """Counts steps, and averages after some of them."""

    def __init__(self, process_group=None):
        self.process_group, self.step = process_group, 0

    @abc.abstractmethod
    def average_parameters(self, params):
        """After a step: averages, or does not."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages after every `period` steps, from step `warmup_steps` on: local SGD (Stich 2018).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
    >>> averager.average_parameters(flambeau.nn.Linear(2, 1).parameters())
    >>> averager.step
    1
    >>> dist.destroy_process_group()
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0 or period < 1:
            raise ValueError(f"PeriodicModelAverager: period must be at least 1 and warmup_steps at least 0, got "
                             f"{shown(period)} and {shown(warmup_steps)}")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        """Averages where it is time; counts the step."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
