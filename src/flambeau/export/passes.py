"""Changes of whole exported programs: to other devices."""

from .. import _C
from .._shown import shown
from .._subclasses.fake import FakeTensor
from ..fx.node import map_aggregate
from ..utils._pytree import tree_map


def move_to_device_pass(ep, location):
    """The program, which is changed, with its weights, constants and steps on another device.

    location    a device; or {device: device}, where a kind ("cuda") stands for all devices of it

    >>> import flambeau
    >>> from flambeau.export.passes import move_to_device_pass
    >>> program = flambeau.export.export(flambeau.nn.Linear(2, 3), (flambeau.ones(4, 2),))
    >>> moved = move_to_device_pass(program, "meta")
    >>> {value.device.type for value in moved.state_dict.values()}
    {'meta'}
    """
    target = _targets(location)
    for tensors in (ep.state_dict, ep.constants):
        for name, value in tensors.items():
            if isinstance(value, _C.Tensor):
                tensors[name] = _moved(value, target)
    for module in ep.graph_module.modules():
        if not hasattr(module, "graph"):
            continue
        for node in module.graph.nodes:
            node.args, node.kwargs = (map_aggregate(each, lambda x: target(x) if isinstance(x, _C.device) else x)
                                      for each in (node.args, node.kwargs))
            if isinstance(node.kwargs.get("device"), str):
                node.kwargs = {**node.kwargs, "device": target(_C.device(node.kwargs["device"]))}
            if "val" in node.meta:
                node.meta["val"] = tree_map(lambda x: _moved(x, target), node.meta["val"])
        module.recompile()
    if ep.example_inputs is not None:
        ep._example_inputs = tree_map(lambda x: _moved(x, target), ep.example_inputs)
    ep.validate()
    return ep


def _targets(location):
    """The function from a device to the one that takes its place."""
    if not isinstance(location, dict):
        if not isinstance(location, (str, _C.device)):
            raise RuntimeError("move_to_device_pass: expected a device or a dict from devices to devices, got "
                               f"{shown(location)}")
        place = _C.device(location)
        return lambda device: place
    known = {str(_C.device(key)): _C.device(value) for key, value in location.items()}
    return lambda device: known.get(str(device)) or known.get(device.type) or device


def _moved(value, target):
    if not isinstance(value, _C.Tensor):
        return value
    device = target(value.device)
    if isinstance(value, FakeTensor):
        return value._on(device)
    moved = value if device == value.device else value.detach().to(device).requires_grad_(value.requires_grad)
    if moved is not value and getattr(value, "_is_param", False):
        moved._is_param = True
    return moved
