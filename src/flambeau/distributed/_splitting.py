"""Smaller groups made of a group by its members alone: split into parts, or without ranks that are gone."""

import itertools
from datetime import timedelta

from .._shown import listed, shown
from . import _groups
from ._backends import backends_of, engines, index_of
from ._stores import PrefixStore

SHRINK_DEFAULT, SHRINK_ABORT = 0, 1
_shrunk = itertools.count(1)


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """The part of a group that this process is in, or None: each list of `split_ranks` has ranks of that group.

    All ranks of the group call it. `backend` may name some of the group's backends, for what the parts exchange.

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.split_group(split_ranks=[[0]]).size()
    1
    >>> dist.destroy_process_group()
    """
    parent = _groups.member(parent_pg, "split_group")
    index_of(pg_options, None, "split_group")
    parts = [sorted(part) for part in split_ranks or ()]
    _check_parts(parts, parent.size())
    mine = next((part for part in parts if parent.rank() in part), None)
    chosen = _part_of_backends(parent, backend)
    if mine is None:
        return None
    return _groups.new_group([parent.ranks[k] for k in mine], timeout, chosen, use_local_synchronization=True,
                             group_desc=group_desc or f"{parent.group_desc}:split:{listed(mine)}")


def _check_parts(parts, size):
    flat = [rank for part in parts for rank in part]
    if not parts or not all(parts):
        raise ValueError("split_group: split_ranks must be lists of ranks, none of them empty, got "
                         f"{shown(parts)}")
    if len(set(flat)) < len(flat) or not all(isinstance(rank, int) and 0 <= rank < size for rank in flat):
        raise ValueError(f"split_group: split_ranks must have ranks from 0 to {size - 1}, each at most once, got "
                         f"{shown(parts)}")


def _part_of_backends(parent, backend):
    """The backends that the parts have, as text; all of the group's where none are named."""
    asked = parent.backends if backend is None else backends_of(backend, "split_group")
    for kind, each in asked.items():
        if parent.backends.get(kind) != each:
            raise ValueError(f"split_group: the group has no backend {shown(f'{kind}:{each}')}, only "
                             f"{shown(_groups.get_backend_config(parent))}")
    return ",".join(f"{kind}:{each}" for kind, each in asked.items())


def shrink_group(ranks_to_exclude, group=None, shrink_flags=SHRINK_DEFAULT, pg_options=None):
    """The group without some of its ranks, which take no part in the call: for ranks that have failed.

    Where it is the group of all, the new one takes its place, with ranks from 0; all other groups end.
    """
    old = _groups.member(group, "shrink_group")
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(f"shrink_group: shrink_flags is SHRINK_DEFAULT or SHRINK_ABORT, got {shown(shrink_flags)}")
    index_of(pg_options, None, "shrink_group")
    left = _left(list(ranks_to_exclude), old)
    if old is _groups.world("shrink_group"):
        return _shrunk_world(old, left)
    return _groups.new_group([old.ranks[k] for k in left], use_local_synchronization=True,
                             group_desc=f"{old.group_desc}:shrunken")


def _left(excluded, group):
    size = group.size()
    if not excluded or len(set(excluded)) < len(excluded) or not all(k in range(size) for k in excluded):
        raise ValueError(f"shrink_group: ranks_to_exclude must be different ranks from 0 to {size - 1}, at least one, "
                         f"got {shown(excluded)}")
    if len(excluded) == size:
        raise ValueError(f"shrink_group: ranks_to_exclude are all {size} ranks, and nobody would be left")
    if group.rank() in excluded:
        raise RuntimeError(f"shrink_group: rank {group.rank()} is excluded and must not call it")
    return [k for k in range(size) if k not in excluded]


def _shrunk_world(old, left):
    if old.store is None:
        raise NotImplementedError("shrink_group: mpiexec has numbered the processes, and MPI ends all when one fails; "
                                  "make a smaller group with new_group")
    inner = PrefixStore(f"shrunk {next(_shrunk)} to {'-'.join(map(str, left))}", old.outer_store)
    made = engines(old.backends, left.index(old.rank()), len(left), inner, old.timeout, old.group_name)
    store = old.outer_store
    _groups.end_all()
    _groups._become_world(made, inner, store, timedelta(seconds=old.timeout), old.backends, old.group_name)
    return _groups.world("shrink_group")
