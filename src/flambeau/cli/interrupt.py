"""Ctrl-C ends a run between two steps, when its state is complete; a second Ctrl-C ends it at once."""

import signal


class Interrupt:
    """Context manager; true once SIGINT (Ctrl-C) or SIGTERM has come."""

    def __init__(self):
        self.requested = False

    def __bool__(self):
        return self.requested

    def __enter__(self):
        self.previous = {number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def handle(self, number, frame):
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
