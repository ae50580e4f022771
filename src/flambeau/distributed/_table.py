"""What a store does with each request: one table of keys for HashStore, FileStore and TCPStore's server."""

from .._shown import shown
from ._errors import QueueEmptyError


class Table:
    """Keys with values, and queues. A request is a list of bytes: its name, its key and what else it needs.

    `answer` returns a list of bytes, or None where the request has to wait for a change.
    """

    def __init__(self):
        self.values, self.queues = {}, {}

    def answer(self, request):
        """What the request named by its first part gives."""
        return getattr(self, f"_do_{request[0].decode()}")(*request[1:])

    def _do_set(self, key, value):
        self.values[key] = value
        return []

    def _do_get(self, key):
        return None if key not in self.values else [self.values[key]]

    def _do_add(self, key, amount):
        self.values[key] = b"%d" % (int(self.values.get(key, 0)) + int(amount))
        return [self.values[key]]

    def _do_compare_set(self, key, expected, desired):
        if key not in self.values and expected:
            return [expected]
        if self.values.get(key, b"") == expected:
            self.values[key] = desired
        return [self.values[key]]

    def _do_append(self, key, value):
        self.values[key] = self.values.get(key, b"") + value
        return []

    def _do_delete(self, key):
        found = self.values.pop(key, None) is not None
        return [b"%d" % (self.queues.pop(key, None) is not None or found)]

    def _do_count(self):
        return [b"%d" % (len(self.values) + len(self.queues))]

    def _do_check(self, *keys):
        return [b"%d" % all(self._has(key) for key in keys)]

    def _do_wait(self, *keys):
        return [] if all(self._has(key) for key in keys) else None

    def _do_multi_get(self, *keys):
        return [self.values[key] for key in keys] if all(key in self.values for key in keys) else None

    def _do_multi_set(self, *pairs):
        self.values.update(zip(pairs[::2], pairs[1::2]))
        return []

    def _do_keys(self):
        return sorted({*self.values, *self.queues})

    def _do_push(self, key, value):
        self.queues.setdefault(key, []).append(value)
        return []

    def _do_pop(self, key, block):
        if not self.queues.get(key):
            if block == b"1":
                return None
            raise QueueEmptyError(f"queue_pop: queue {shown(key.decode(errors='replace'))} is empty; block=True waits "
                                  "until something is pushed")
        value = self.queues[key].pop(0)
        if not self.queues[key]:
            del self.queues[key]
        return [value]

    def _do_length(self, key):
        return [b"%d" % len(self.queues.get(key, ()))]

    def _has(self, key):
        return key in self.values or key in self.queues


#: requests that change a table
CHANGES = {b"set", b"add", b"compare_set", b"append", b"delete", b"multi_set", b"push", b"pop"}
REQUESTS = CHANGES | {b"get", b"count", b"check", b"wait", b"multi_get", b"keys", b"length"}
