"""Several modules called with an input each."""


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """[module(*input, **kwargs) …]; one device computes them one after the other, each with all its cores.

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
    for module, given, kwargs in zip(modules, inputs, kwargs_tup, strict=True):
        args = given if isinstance(given, (list, tuple)) else (given,)
        results.append(module(*args, **(kwargs or {})))
    return results
