"""Copies of a module for several devices."""

import copy

from ... import device


def replicate(network, devices, detach=False):
    """One copy of the module per device; on the module's own device it shares its parameters. Elsewhere it has copies
    of them, whose gradients go to the module's.

    >>> from flambeau import nn
    >>> m = nn.Linear(2, 2)
    >>> nn.parallel.replicate(m, ["cpu"])[0].weight.data_ptr() == m.weight.data_ptr()
    True
    """
    return [_placed(network, device(place), detach) for place in devices]


def _placed(network, place, detach):
    memo = {id(t): (t.detach() if detach else t).to(place) for t in (*network.parameters(), *network.buffers())}
    return copy.deepcopy(network, memo)
