"""DataParallel: a batch cut among devices. With one device it is the module itself."""

from ..modules.module import Module


class DataParallel(Module):
    """Runs `module` on the batch; with no device besides the CPU it is called as it is.

    State dicts have the prefix "module.", as they have where there are more devices.

    >>> import flambeau
    >>> model = flambeau.nn.DataParallel(flambeau.nn.Linear(3, 2))
    >>> model(flambeau.zeros(4, 3)).shape, list(model.state_dict())
    (torch.Size([4, 2]), ['module.weight', 'module.bias'])
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.dim = module, [], dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs, **module_kwargs), as DataParallel calls it.

    >>> import flambeau
    >>> flambeau.nn.parallel.data_parallel(flambeau.nn.Identity(), flambeau.ones(1))
    tensor([1.])
    """
    if device_ids or output_device is not None:
        raise RuntimeError(f"data_parallel: no device {device_ids or output_device}: this build has none but the CPU")
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))
