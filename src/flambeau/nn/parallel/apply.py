"""Several modules called with an input each."""

from contextlib import nullcontext

from ... import cuda, device


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """[module(*input, **kwargs) …], called one after the other: the CPU computes each with all its cores, GPUs compute
    while the next is called.

    >>> import flambeau
    >>> m = flambeau.nn.Identity()
    >>> flambeau.nn.parallel.parallel_apply([m, m], [flambeau.ones(1), flambeau.zeros(1)])
    [tensor([1.]), tensor([0.])]
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"parallel_apply: one input per module is expected, got {len(modules)} modules and {len(inputs)} inputs"
        )
    kwargs_tup = ({},) * len(modules) if kwargs_tup is None else kwargs_tup
    for name, given in (("kwargs", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(f"parallel_apply: expected {len(modules)} {name}, got {len(given)}")
    results = []
    places = [None] * len(modules) if devices is None else [device(place) for place in devices]
    for module, given, kwargs, place in zip(modules, inputs, kwargs_tup, places, strict=True):
        args = given if isinstance(given, (list, tuple)) else (given,)
        with cuda.device(place) if place is not None and place.type == "cuda" else nullcontext():
            results.append(module(*args, **(kwargs or {})))
    return results
