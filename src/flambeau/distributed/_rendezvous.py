"""How processes find each other: the environment, a TCP address, a file, or whatever a program registers."""

import os
from collections import Counter
from urllib.parse import parse_qs, urlparse

from .._shown import shown
from ._stores import FileStore, PrefixStore
from ._tcp import TCPStore

_handlers = {}
_LAUNCH = "flambeau launch --nproc-per-node N script.py"


def register_rendezvous_handler(scheme, handler):
    """For `init_method="scheme://…"`: handler(url, timeout=…) yields (store, rank, world_size).

    RuntimeError: the scheme has a handler already.
    """
    if scheme in _handlers or scheme in _BUILT_IN:
        raise RuntimeError(f"register_rendezvous_handler: {shown(scheme)} has a handler already")
    _handlers[scheme] = handler


def rendezvous(url, rank, world_size, timeout):
    """(store, rank, world_size) for an `init_method`; the numbers are -1 where the caller does not know them."""
    scheme = urlparse(url).scheme
    if scheme in _handlers:
        return next(iter(_handlers[scheme](url, timeout=timeout)))
    if scheme not in _BUILT_IN:
        known = ", ".join(f"{name}://" for name in sorted({*_BUILT_IN, *_handlers}))
        raise ValueError(f"init_process_group: no rendezvous is known for init_method {shown(url)}; known are {known}")
    return _BUILT_IN[scheme](url, rank, world_size, timeout)


def _number(name, given):
    """A number of the caller's, or of the environment."""
    if given >= 0:
        return given
    text = os.environ.get(name)
    if text is None:
        raise ValueError(f"init_process_group: with env:// the environment variable {name} is expected, and it is not "
                         f"set; start the processes with `{_LAUNCH}`, or set RANK, WORLD_SIZE, MASTER_ADDR and "
                         "MASTER_PORT")
    if not text.isdecimal():
        raise ValueError(f"init_process_group: the environment variable {name} is {shown(text)}, expected a number")
    return int(text)


def _of_environment(rank, world_size, timeout):
    rank, world_size = _number("RANK", rank), _number("WORLD_SIZE", world_size)
    port = _number("MASTER_PORT", -1)
    host = os.environ.get("MASTER_ADDR")
    if host is None:
        raise ValueError("init_process_group: with env:// the environment variable MASTER_ADDR is expected, and it is "
                         "not set; it is the host of rank 0, localhost for processes of one host")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # the launcher keeps the store, for all attempts
        attempt = f"attempt{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return PrefixStore(attempt, _at(host, port, world_size, False, timeout)), rank, world_size
    return _at(host, port, world_size, rank == 0, timeout), rank, world_size


_uses = Counter()  # (host, port) -> how often this process has begun there


def _at(host, port, world_size, is_master, timeout):
    """The store at an address; what is in it from an earlier group is out of the way."""
    _uses[host, port] += 1
    store = TCPStore(host, port, world_size, is_master, timeout, multi_tenant=True)
    return PrefixStore(f"use{_uses[host, port]}", store)


def _asked(url, rank, world_size):
    query = parse_qs(urlparse(url).query)
    rank = int(query["rank"][0]) if "rank" in query else rank
    world_size = int(query["world_size"][0]) if "world_size" in query else world_size
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value < 0:
            raise ValueError(f"init_process_group: {shown(url)} needs {name}: give {name}=… to the function, or write "
                             f"it into the URL")
    return rank, world_size


def _of_address(url, rank, world_size, timeout):
    rank, world_size = _asked(url, rank, world_size)
    parts = urlparse(url)
    if not parts.port:
        raise ValueError(f"init_process_group: {shown(url)} has no port; expected tcp://host:port")
    return _at(parts.hostname, parts.port, world_size, rank == 0, timeout), rank, world_size


def _of_file(url, rank, world_size, timeout):
    rank, world_size = _asked(url, rank, world_size)
    path = urlparse(url).path
    if not path:
        raise ValueError(f"init_process_group: {shown(url)} has no path; expected file:///path/of/a/new/file")
    store = FileStore(path, world_size)
    store.set_timeout(timeout)
    return store, rank, world_size


_BUILT_IN = {"env": lambda url, *known: _of_environment(*known), "tcp": _of_address, "file": _of_file}
