"""DataParallel: a batch cut among the GPUs of this process; without a GPU the module is called as it is."""

from itertools import chain

from ... import cuda, device
from ..modules.module import Module
from .apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter


def _places(name, device_ids, output_device):
    """(the devices of replicas, where results go): all GPUs unless some are named; none without a GPU."""
    if device_ids is None:
        device_ids = range(cuda.device_count() if cuda.is_available() else 0)
    places = [device(place) for place in device_ids]
    for place in [*places, *(() if output_device is None else (device(output_device),))]:
        if place.type != "cuda" or not cuda.is_available() or (place.index or 0) >= cuda.device_count():
            raise RuntimeError(f"{name}: no device {place}: this machine has {cuda.device_count()} GPUs, and there are "
                               "no replicas on the CPU")
    if not places:
        return places, None
    return places, places[0] if output_device is None else device(output_device)


def _call(name, module, places, output, dim, inputs, kwargs):
    if not places:
        return module(*inputs, **kwargs)
    for t in chain(module.parameters(), module.buffers()):
        if t.device.type != "cuda" or (t.device.index or 0) != (places[0].index or 0):
            raise RuntimeError(f"{name}: all of the module begins on {places[0]}, the first of its devices, but a "
                               f"parameter or buffer is on {t.device}; move it there by .to()")
    places = places if inputs or kwargs else places[:1]
    given, named = zip(*scatter((inputs, kwargs), places, dim), strict=True)
    if len(places) == 1:
        return module(*given[0], **named[0])
    used = places[:len(given)]
    return gather(parallel_apply(replicate(module, used), given, named, used), output, dim)


class DataParallel(Module):
    """Runs `module` on the batch: cut along `dim` among the GPUs `device_ids` (all of them unless named), by copies of
    the module, results joined on `output_device` (the first GPU). Tensors of the CPU go to their GPU on the way.
    Without a GPU the module is called as it is.

    The module must lie on the first of the GPUs. distributed's DistributedDataParallel is faster: it copies no module.
    State dicts have the prefix "module.".

    >>> import flambeau
    >>> model = flambeau.nn.DataParallel(flambeau.nn.Linear(3, 2))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        places, self.output_device = _places("DataParallel", device_ids, output_device)
        self.module, self.device_ids, self.dim = module, [place.index or 0 for place in places], dim

    def forward(self, *inputs, **kwargs):
        places = [device("cuda", k) for k in self.device_ids]
        return _call("DataParallel", self.module, places, self.output_device, self.dim, inputs, kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs, **module_kwargs), as DataParallel calls it.

    >>> import flambeau
    >>> flambeau.nn.parallel.data_parallel(flambeau.nn.Identity(), flambeau.ones(1), device_ids=[])
    tensor([1.])
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    places, output = _places("data_parallel", device_ids, output_device)
    return _call("data_parallel", module, places, output, dim, args, module_kwargs or {})
