"""Making a module without computing its initial values."""

from ..modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """module_cls(*args, **kwargs) with memory left as it is: for values that are loaded right after.

    >>> import flambeau
    >>> flambeau.nn.utils.skip_init(flambeau.nn.Linear, 2, 3).weight.shape
    torch.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: a class of Modules is expected, not {module_cls.__name__}")
    import inspect  # a slow import that only this function needs

    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} takes no argument `device`, through which its parameters "
                           "could be left uninitialized")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
