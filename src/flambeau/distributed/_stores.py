"""Stores: small values by key, through which processes find each other before they share memory."""

import fcntl
import os
import struct
import threading
import time
from datetime import timedelta

from .._shown import shown
from ._errors import DistStoreError
from ._table import CHANGES, Table

_FIVE_MINUTES = timedelta(seconds=300)
_POLL = 0.01  # seconds between two looks into a file


def as_bytes(value, what):
    """A key or value as it is kept."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what}: expected str or bytes, got {type(value).__name__}")


def seconds_of(timeout, name):
    """The seconds of a timedelta or a number."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"{name}: expected a timedelta, got {type(timeout).__name__}")
    return float(seconds)


class Store:
    """Values by key, seen by all processes that have the same store. HashStore, FileStore, TCPStore, PrefixStore."""

    def __init__(self):
        self._timeout = _FIVE_MINUTES

    def _ask(self, request, seconds):
        """The answer to a request (see `_table.Table`), waiting for it as long as `seconds`."""
        raise NotImplementedError("Store: this is the interface; use HashStore, FileStore, TCPStore or PrefixStore")

    def _key(self, key):
        return as_bytes(key, f"{type(self).__name__}: key")

    def _do(self, name, *parts, seconds=None):
        return self._ask([name, *parts], self._timeout.total_seconds() if seconds is None else seconds)

    @property
    def timeout(self):
        """How long get, wait, multi_get and queue_pop wait."""
        return self._timeout

    def set_timeout(self, timeout):
        """Sets how long to wait from now on."""
        seconds_of(timeout, "set_timeout")
        self._timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)

    def set(self, key, value):
        """Puts a value under a key."""
        self._do(b"set", self._key(key), as_bytes(value, "set: value"))

    def get(self, key):
        """The value under a key, as bytes, as soon as there is one."""
        return self._do(b"get", self._key(key))[0]

    def add(self, key, amount):
        """Adds to the number under a key, which begins at 0, and returns it.

        >>> import flambeau.distributed as dist
        >>> store = dist.HashStore()
        >>> store.add("arrived", 1), store.add("arrived", 2), store.get("arrived")
        (1, 3, b'3')
        """
        return int(self._do(b"add", self._key(key), b"%d" % int(amount))[0])

    def compare_set(self, key, expected_value, desired_value):
        """Puts the desired value where the expected one is ("" where there is none); returns what is there then."""
        parts = (as_bytes(value, "compare_set: value") for value in (expected_value, desired_value))
        return self._do(b"compare_set", self._key(key), *parts)[0]

    def append(self, key, value):
        """Adds to the end of the value under a key."""
        self._do(b"append", self._key(key), as_bytes(value, "append: value"))

    def delete_key(self, key):
        """Removes a key; whether it was there."""
        return self._do(b"delete", self._key(key))[0] == b"1"

    def num_keys(self):
        """How many keys there are."""
        return int(self._do(b"count")[0])

    def check(self, keys):
        """Whether all these keys are there now."""
        return self._do(b"check", *map(self._key, keys))[0] == b"1"

    def wait(self, keys, timeout=None):
        """Waits until all these keys are there; DistStoreError when time is up."""
        seconds = None if timeout is None else seconds_of(timeout, "wait")
        self._do(b"wait", *map(self._key, keys), seconds=seconds)

    def multi_get(self, keys):
        """The values under several keys, as soon as all are there."""
        return self._do(b"multi_get", *map(self._key, keys))

    def multi_set(self, keys, values):
        """Puts several values under several keys at once."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set: {len(keys)} keys and {len(values)} values; there must be as many")
        self._do(b"multi_set", *(part for key, value in zip(keys, values)
                                 for part in (self._key(key), as_bytes(value, "multi_set: value"))))

    def queue_push(self, key, value):
        """Puts a value at the end of a queue."""
        self._do(b"push", self._key(key), as_bytes(value, "queue_push: value"))

    def queue_pop(self, key, block=True):
        """Takes the first value out of a queue; without `block`, QueueEmptyError where there is none."""
        return self._do(b"pop", self._key(key), b"1" if block else b"0")[0]

    def queue_len(self, key):
        """How many values are in a queue."""
        return int(self._do(b"length", self._key(key))[0])

    def list_keys(self):
        """All keys."""
        return [key.decode() for key in self._do(b"keys")]

    def has_extended_api(self):
        """Whether it has append, multi_get, multi_set and queues: all do."""
        return True

    def clone(self):
        """Another object for the same keys, for use in another thread."""
        return self


def waited(request, seconds):
    """The error of a request that nobody has answered in time."""
    keys = [shown(part.decode(errors="replace")) for part in request[1:4] if part not in (b"0", b"1")]
    more = f" and {len(request) - 4} more" if len(request) > 4 else ""
    return DistStoreError(f"store: waited {seconds:g} seconds for {', '.join(keys)}{more}: no process has set it; "
                          "is one of them missing, or has it another address or world size?")


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self):
        super().__init__()
        self._table, self._changed = Table(), threading.Condition()

    def _ask(self, request, seconds):
        with self._changed:
            end = time.monotonic() + seconds
            while (answer := self._table.answer(request)) is None:
                if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise waited(request, seconds)
            if request[0] in CHANGES:
                self._changed.notify_all()
            return answer


class FileStore(Store):
    """A store in a file that all processes can lock: the requests that changed it, one after the other.

    Only its owner can read or write the file. The last of `world_size` processes to close the store removes it.
    """

    def __init__(self, file_name, world_size=-1):
        super().__init__()
        self.path, self._size = os.fspath(file_name), world_size
        self._table, self._place, self._lock = Table(), 0, threading.Lock()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(self._file).st_uid != os.geteuid():
            raise DistStoreError(f"FileStore: {self.path} belongs to another user; choose another file")

    def _ask(self, request, seconds):
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                try:
                    answer = self._answer(request)
                finally:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            if answer is not None:
                return answer
            if time.monotonic() >= end:
                raise waited(request, seconds)
            time.sleep(_POLL)

    def _answer(self, request):
        size = os.fstat(self._file).st_size
        if size > self._place:
            for parts in records(os.pread(self._file, size - self._place, self._place)):
                self._table.answer(parts)
            self._place = size
        answer = self._table.answer(request)
        if answer is not None and request[0] in CHANGES:
            record = packed(request)
            os.pwrite(self._file, record, size)
            self._place = size + len(record)
        return answer

    def close(self):
        """This process needs the store no more."""
        if self._file < 0:
            return
        if self._size > 0 and self.add("flambeau/closed", 1) == self._size and os.path.exists(self.path):
            os.unlink(self.path)
        os.close(self._file)
        self._file = -1

    def __del__(self):
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)


class PrefixStore(Store):
    """A store within another one: all its keys begin with `prefix` there.

    >>> import flambeau.distributed as dist
    >>> inner = dist.HashStore()
    >>> dist.PrefixStore("run1", inner).set("a", "b")
    >>> inner.list_keys()
    ['run1/a']
    """

    def __init__(self, prefix, store):
        super().__init__()
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore: expected a Store, got {type(store).__name__}")
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    @property
    def _underlying_non_prefix_store(self):
        store = self.underlying_store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    def _key(self, key):
        return self.prefix.encode() + b"/" + super()._key(key)

    def _ask(self, request, seconds):
        store = self.underlying_store
        if isinstance(store, PrefixStore):
            request = [request[0], *self._outer(request, store)]
        return store._ask(request, seconds)

    @staticmethod
    def _outer(request, store):
        """The parts of a request with the outer store's prefix before what are keys."""
        name, parts = request[0], request[1:]
        if name in (b"check", b"wait", b"multi_get"):
            return [store._key(key) for key in parts]
        if name == b"multi_set":
            return [part if k % 2 else store._key(part) for k, part in enumerate(parts)]
        return [store._key(parts[0]), *parts[1:]] if parts else []

    def clone(self):
        """Another object for the same keys, for use in another thread."""
        return PrefixStore(self.prefix, self.underlying_store.clone())


# --- lists of bytes as bytes ------------------------------------------------------------------------------------------

def packed(parts):
    """One list of bytes as bytes: the length of all, and of each."""
    body = b"".join(struct.pack("!I", len(part)) + part for part in parts)
    return struct.pack("!I", len(body)) + body


def unpacked(body):
    """The list of bytes in what follows the length."""
    parts, at = [], 0
    while at < len(body):
        size, = struct.unpack_from("!I", body, at)
        if at + 4 + size > len(body):
            raise DistStoreError(f"store: a record of {len(body)} bytes is cut short")
        parts.append(bytes(body[at + 4:at + 4 + size]))
        at += 4 + size
    return parts


def records(content):
    """The lists of bytes in a file."""
    at = 0
    while at + 4 <= len(content):
        size, = struct.unpack_from("!I", content, at)
        yield unpacked(content[at + 4:at + 4 + size])
        at += 4 + size
