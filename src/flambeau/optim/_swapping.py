"""swap_in_optimizer_params_and_state: an optimizer that works on other parameters and other state for a while."""

import contextlib
from collections import defaultdict
from itertools import chain

from .._shown import shown


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """Context in which the optimizer has the parameters {name: tensor}, in the order of its own, and a state of the
    form of its state_dict(). Writes into those tensors stay; all else is as before afterwards.

    >>> import flambeau
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    >>> layer(flambeau.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> others = {name: flambeau.zeros_like(p) for name, p in layer.named_parameters()}
    >>> with flambeau.optim.swap_in_optimizer_params_and_state(optimizer, others, optimizer.state_dict()):
    ...     for p in others.values():
    ...         p.grad = flambeau.ones_like(p)
    ...     optimizer.step()
    >>> others["bias"]
    tensor([-0.1900])
    """
    before = optimizer.param_groups, optimizer.state
    groups, state = _taken(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = before


def _taken(optimizer, parameters, saved):
    name = "swap_in_optimizer_params_and_state"
    groups = saved.get("param_groups") if isinstance(saved, dict) else None
    if not isinstance(groups, list) or not isinstance(saved.get("state"), dict):
        raise RuntimeError(f"{name}: swapin_optim_state must have the form of optimizer.state_dict(), got "
                           f"{shown(saved)}")
    if not optimizer.state:
        raise RuntimeError(f"{name}: the optimizer has no state yet; call step() once before")
    sizes, own = ([len(group["params"]) for group in each] for each in (groups, optimizer.param_groups))
    if sizes != own or len(parameters) != sum(own):
        raise RuntimeError(f"{name}: the optimizer has groups of {own} parameters, swapin_optim_state of {sizes}, and "
                           f"there are {len(parameters)} swapin_parameters")
    of = dict(zip(chain.from_iterable(group["params"] for group in groups), parameters))
    state = defaultdict(dict, {of.get(key, key): dict(value) if isinstance(value, dict) else value
                               for key, value in saved["state"].items()})
    return [{**group, "params": [of[key] for key in group["params"]]} for group in groups], state
