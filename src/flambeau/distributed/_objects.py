"""Collective calls on Python objects. They are pickled, so a group trusts its ranks: unpickling runs what others send.
"""

import pickle

import flambeau

from .._shown import shown
from . import _collectives as collectives
from ._groups import member
from ._messages import recv, send


def _bytes_of(value):
    """A pickle as a tensor, and its length as one."""
    content = flambeau.frombuffer(bytearray(pickle.dumps(value)), dtype=flambeau.uint8)
    return content, flambeau.tensor([content.numel()])


def _object(content):
    return pickle.loads(content.numpy().tobytes())


def _refuse_device(device, name):
    if device is not None and flambeau.device(device).type != "cpu":
        raise RuntimeError(f"{name}: device {shown(str(device))} is not here; objects travel through the CPU")


def all_gather_object(object_list, obj, group=None):
    """`object_list[r]` becomes the object of rank r. Objects are pickled: the group must be trusted."""
    group = member(group, "all_gather_object")
    if group is None:
        return
    if len(object_list) != group.size():
        raise ValueError(f"all_gather_object: object_list must have {group.size()} places, got {len(object_list)}")
    content, length = _bytes_of(obj)
    lengths = flambeau.zeros(group.size(), dtype=flambeau.int64)
    collectives.all_gather_into_tensor(lengths, length, group)
    outputs = [flambeau.empty(n, dtype=flambeau.uint8) for n in lengths.tolist()]
    collectives.all_to_all(outputs, [content] * group.size(), group)
    object_list[:] = map(_object, outputs)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
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
    content, length = _bytes_of(obj)
    lengths = flambeau.zeros(group.size(), dtype=flambeau.int64)
    collectives.all_gather_into_tensor(lengths, length, group)
    nothing = flambeau.empty(0, dtype=flambeau.uint8)
    outputs = [flambeau.empty(n, dtype=flambeau.uint8) if here else nothing for n in lengths.tolist()]
    collectives.all_to_all(outputs, [content if r == root else nothing for r in range(group.size())], group)
    if here:
        object_gather_list[:] = map(_object, outputs)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """The objects of rank `src` come into the places of the others' lists. The group must be trusted."""
    group = member(group, "broadcast_object_list")
    _refuse_device(device, "broadcast_object_list")
    if group is None:
        return
    root = collectives._root(group, src, group_src, "broadcast_object_list", "src")
    here = group.rank() == root
    parts = [_bytes_of(each) for each in object_list] if here else []
    lengths = flambeau.tensor([content.numel() for content, _ in parts]) if here else \
        flambeau.zeros(len(object_list), dtype=flambeau.int64)
    collectives.broadcast(lengths, group=group, group_src=root)
    content = flambeau.cat([content for content, _ in parts]) if parts else \
        flambeau.empty(int(lengths.sum()), dtype=flambeau.uint8)
    collectives.broadcast(content, group=group, group_src=root)
    if not here:
        object_list[:] = map(_object, content.split(lengths.tolist()))


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None,
                        group_src=None):
    """`scatter_object_output_list[0]` becomes object r of rank `src`'s list. The group must be trusted."""
    group = member(group, "scatter_object_list")
    if group is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list must be a list with a place, got "
                         f"{shown(scatter_object_output_list)}")
    root = collectives._root(group, src, group_src, "scatter_object_list", "src")
    here, count = group.rank() == root, group.size()
    given = scatter_object_input_list or []
    if here and len(given) != count:
        raise ValueError(f"scatter_object_list: rank {group.ranks[root]} must give {count} objects, got {len(given)}")
    contents = [_bytes_of(each)[0] for each in given] if here else [flambeau.empty(0, dtype=flambeau.uint8)] * count
    lengths = flambeau.tensor([content.numel() for content in contents])
    collectives.broadcast(lengths, group=group, group_src=root)
    outputs = [flambeau.empty(int(lengths[group.rank()]) if r == root else 0, dtype=flambeau.uint8)
               for r in range(count)]
    collectives.all_to_all(outputs, contents, group)
    scatter_object_output_list[0] = _object(outputs[root])


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends objects to a rank, which calls recv_object_list with as many places. The group must be trusted."""
    _refuse_device(device, "send_object_list")
    contents = [_bytes_of(each)[0] for each in object_list]
    lengths = flambeau.tensor([content.numel() for content in contents])
    to = {"dst": dst, "group_dst": group_dst, "group": group, "tag": _tag(use_batch)}
    send(lengths, **to)
    send(flambeau.cat(contents), **to)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives as many objects as the list has places, from a rank or anyone; returns who it was.

    The group must be trusted.
    """
    _refuse_device(device, "recv_object_list")
    lengths = flambeau.zeros(len(object_list), dtype=flambeau.int64)
    tag = _tag(use_batch)
    sender = recv(lengths, src, group, tag, group_src)
    if sender < 0:
        return sender
    content = flambeau.empty(int(lengths.sum()), dtype=flambeau.uint8)
    recv(content, sender, group, tag)
    object_list[:] = map(_object, content.split(lengths.tolist()))
    return sender


def _tag(use_batch):
    """Both sides must agree on `use_batch`, as with other backends: the two kinds of messages do not meet."""
    return 1 << 30 if use_batch else 0
