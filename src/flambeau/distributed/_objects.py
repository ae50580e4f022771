"""Collective calls on Python objects.

They are pickled, so a group trusts its ranks: unpickling runs what others send. With `weights_only=True`, on all ranks,
they travel as `save` writes them, as data: tensors, numbers, texts and containers, which run nothing.
"""

import io
import pickle
from operator import attrgetter

import flambeau

from .._shown import shown
from . import _collectives as collectives
from ._groups import member
from ._messages import recv, send

#: of the package: the files of data, which lie above this layer and are loaded when objects are to travel so
_save_and_load = attrgetter("save", "load")


def _bytes_of(value, place, weights_only):
    """A pickle, or a file of data, as a tensor, and its length as one."""
    if weights_only:
        file = io.BytesIO()
        _save_and_load(flambeau)[0](value, file)
        written = file.getbuffer()
    else:
        written = bytearray(pickle.dumps(value))
    content = flambeau.frombuffer(written, dtype=flambeau.uint8).to(place)
    return content, flambeau.tensor([content.numel()], device=place)


def _objects(contents, weights_only):
    read = (lambda data: _save_and_load(flambeau)[1](io.BytesIO(data))) if weights_only else pickle.loads
    return [read(content.cpu().numpy().tobytes()) for content in contents]


def _refuse_device(device, name):
    if device is not None and flambeau.device(device).type not in ("cpu", "cuda"):
        raise RuntimeError(f"{name}: device {shown(str(device))} is not here; objects travel where the group's tensors "
                           "do")


def all_gather_object(object_list, obj, group=None, weights_only=False):
    """`object_list[r]` becomes the object of rank r. Objects are pickled: the group must be trusted."""
    group = member(group, "all_gather_object")
    if group is None:
        return
    if len(object_list) != group.size():
        raise ValueError(f"all_gather_object: object_list must have {group.size()} places, got {len(object_list)}")
    place = group.device()
    content, length = _bytes_of(obj, place, weights_only)
    lengths = flambeau.zeros(group.size(), dtype=flambeau.int64, device=place)
    collectives.all_gather_into_tensor(lengths, length, group)
    outputs = [flambeau.empty(n, dtype=flambeau.uint8, device=place) for n in lengths.tolist()]
    collectives.all_to_all(outputs, [content] * group.size(), group)
    object_list[:] = _objects(outputs, weights_only)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None, weights_only=False):
    """`object_gather_list[r]` of rank `dst` becomes the object of rank r. The group must be trusted."""
    group = member(group, "gather_object")
    if group is None:
        return
    root = collectives._root(group, dst, group_dst, "gather_object", "dst")
    here = group.rank() == root
    if here and (object_gather_list is None or len(object_gather_list) != group.size()):
        raise ValueError(f"gather_object: object_gather_list of rank {group.ranks[root]} must have {group.size()} "
                         f"places, got {shown(object_gather_list)}")
    if not here and object_gather_list:
        raise ValueError(f"gather_object: object_gather_list is for rank {group.ranks[root]} alone; leave it out")
    place = group.device()
    content, length = _bytes_of(obj, place, weights_only)
    lengths = flambeau.zeros(group.size(), dtype=flambeau.int64, device=place)
    collectives.all_gather_into_tensor(lengths, length, group)
    nothing = flambeau.empty(0, dtype=flambeau.uint8, device=place)
    outputs = [flambeau.empty(n, dtype=flambeau.uint8, device=place) if here else nothing for n in lengths.tolist()]
    collectives.all_to_all(outputs, [content if r == root else nothing for r in range(group.size())], group)
    if here:
        object_gather_list[:] = _objects(outputs, weights_only)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, weights_only=False):
    """The objects of rank `src` come into the places of the others' lists. The group must be trusted."""
    group = member(group, "broadcast_object_list")
    _refuse_device(device, "broadcast_object_list")
    if group is None:
        return
    root = collectives._root(group, src, group_src, "broadcast_object_list", "src")
    here, place = group.rank() == root, group.device()
    parts = [_bytes_of(each, place, weights_only) for each in object_list] if here else []
    lengths = flambeau.tensor([content.numel() for content, _ in parts], device=place) if here else \
        flambeau.zeros(len(object_list), dtype=flambeau.int64, device=place)
    collectives.broadcast(lengths, group=group, group_src=root)
    content = flambeau.cat([content for content, _ in parts]) if parts else \
        flambeau.empty(int(lengths.sum()), dtype=flambeau.uint8, device=place)
    collectives.broadcast(content, group=group, group_src=root)
    if not here:
        object_list[:] = _objects(content.split(lengths.tolist()), weights_only)


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None,
                        group_src=None, weights_only=False):
    """`scatter_object_output_list[0]` becomes object r of rank `src`'s list. The group must be trusted."""
    group = member(group, "scatter_object_list")
    if group is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list must be a list with a place, got "
                         f"{shown(scatter_object_output_list)}")
    root = collectives._root(group, src, group_src, "scatter_object_list", "src")
    here, count, place = group.rank() == root, group.size(), group.device()
    given = scatter_object_input_list or []
    if here and len(given) != count:
        raise ValueError(f"scatter_object_list: rank {group.ranks[root]} must give {count} objects, got {len(given)}")
    nothing = flambeau.empty(0, dtype=flambeau.uint8, device=place)
    contents = [_bytes_of(each, place, weights_only)[0] for each in given] if here else [nothing] * count
    lengths = flambeau.tensor([content.numel() for content in contents], device=place)
    collectives.broadcast(lengths, group=group, group_src=root)
    outputs = [flambeau.empty(int(lengths[group.rank()]) if r == root else 0, dtype=flambeau.uint8, device=place)
               for r in range(count)]
    collectives.all_to_all(outputs, contents, group)
    scatter_object_output_list[0], = _objects([outputs[root]], weights_only)


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False,
                     weights_only=False):
    """Sends objects to a rank, which calls recv_object_list with as many places. The group must be trusted."""
    _refuse_device(device, "send_object_list")
    place = _place(group, "send_object_list")
    contents = [_bytes_of(each, place, weights_only)[0] for each in object_list]
    lengths = flambeau.tensor([content.numel() for content in contents], device=place)
    to = {"dst": dst, "group_dst": group_dst, "group": group, "tag": _tag(use_batch)}
    send(lengths, **to)
    send(flambeau.cat(contents), **to)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False,
                     weights_only=False):
    """Receives as many objects as the list has places, from a rank or anyone; returns who it was.

    The group must be trusted.
    """
    _refuse_device(device, "recv_object_list")
    place = _place(group, "recv_object_list")
    lengths = flambeau.zeros(len(object_list), dtype=flambeau.int64, device=place)
    tag = _tag(use_batch)
    sender = recv(lengths, src, group, tag, group_src)
    if sender < 0:
        return sender
    content = flambeau.empty(int(lengths.sum()), dtype=flambeau.uint8, device=place)
    recv(content, sender, group, tag)
    object_list[:] = _objects(content.split(lengths.tolist()), weights_only)
    return sender


def _place(group, name):
    found = member(group, name)
    return "cpu" if found is None else found.device()


def _tag(use_batch):
    """Both sides must agree on `use_batch`, as with other backends: the two kinds of messages do not meet."""
    return 1 << 30 if use_batch else 0
