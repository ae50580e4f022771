"""One process of hostile calls: only Python exceptions may come of them.

`python -m tests.fuzz.worker LOG SEED FIRST_BLOCK BLOCKS [show | all]`. Calls come in blocks of 64, and a block
depends on its number
and the seed alone, so that any block can be run again. Where the process is stands in LOG, a small mapped file:
writing there
costs nothing, and it outlives the process. With `show`, the description of each call goes there too, before it is made;
with `all` in its place, all of them are printed as well.
"""

import gc
import mmap
import os
import random
import resource
import signal
import struct
import sys
import warnings

import flambeau

from ..ops import battery
from .targets import Targets
from .values import Empty, Values, asks_for_much, described, numpy_dies_of

CALLS_PER_BLOCK = 64
#: of LOG: block, call within it, calls made, results, interrupted calls, then a text
HEADER = struct.Struct("5q")
LOG_SIZE = 1 << 16
#: a call that still runs after this many seconds is interrupted as Ctrl-C would
SECONDS = 1.0
MEMORY = 1 << 30
LONGEST_MESSAGE = 20_000
#: the calls of every so many-th block are captured and run by a plan
COMPILED = 5


class TooSlow(BaseException):
    """Raised by the timer in a call whose numbers ask for endless work."""


class Finding(Exception):
    """Something that must not be, short of a crash."""


class Clock:
    """A timer that interrupts the call it meets twice in a row."""

    def __init__(self):
        self.running = 0  # number of the call that runs; 0: none
        self.met = -1
        signal.signal(signal.SIGALRM, self.tick)
        signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)

    def tick(self, *_):
        if self.running and self.running == self.met:
            raise TooSlow
        self.met = self.running


def limit_memory():
    """Sizes that a machine could just serve are refused as those that none can."""
    if "ASAN_OPTIONS" not in os.environ:  # the sanitizer reserves terabytes of addresses
        with open("/proc/self/statm") as f:
            used = int(f.read().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def follow_up(v, result):
    """Some results are printed, differentiated, and kept as arguments of later calls."""
    for t in battery.tensors(result)[:3]:
        chance = v.uniform()
        if chance < 0.1 and t.numel() < 1000:
            v.tensors[v.below(len(v.tensors))] = t
        if type(t) is Empty or t.device.type == "meta" or t.numel() > 10 ** 5:
            continue
        if chance > 0.96:
            repr(t)
        if t.requires_grad and 0.2 < chance < 0.6:
            total = t.sum()
            (total.real if total.is_complex() else total).backward()


def check_state(before):
    """What no caught mistake may change: the modes, the recursion depth."""
    state = (flambeau.is_grad_enabled(), flambeau.is_inference_mode_enabled(), flambeau.get_default_dtype(),
             str(flambeau.get_default_device()))
    if before and state != before:
        raise Finding(f"modes changed from {before} to {state}")

    def depth(n):
        return n and depth(n - 1)
    depth(600)
    return state


def run_call(name, call, args, kwargs, v):
    """Makes the call; the text of what must not be, or None. True: a result came."""
    try:
        result = call(*args, **kwargs)
        if isinstance(result, flambeau.Tensor | tuple | list):
            follow_up(v, result)
        return True
    except SystemError as error:
        return f"SystemError: {error}"
    except Exception as error:
        try:
            text = str(error) + "".join(getattr(error, "__notes__", ()))
        except Exception as failure:
            return None if isinstance(failure, KeyError) else f"the error has no text: {failure!r}"
        return f"a message of {len(text)} characters: {text[:200]}" if len(text) > LONGEST_MESSAGE else None


class Worker:
    def __init__(self, log, seed, show):
        self.log, self.seed, self.show = log, seed, show
        self.targets, self.clock = Targets(), Clock()
        self.calls = self.results = self.slow = self.slow_before = 0
        self.state = check_state(None)

    def note(self, block, index, text=""):
        HEADER.pack_into(self.log, 0, block, index, self.calls, self.results, self.slow)
        if text:
            data = text.encode("utf8", "replace")[:LOG_SIZE - HEADER.size - 1] + b"\0"
            self.log[HEADER.size:HEADER.size + len(data)] = data

    def block(self, number):
        flambeau.manual_seed(number)
        v = Values(random.Random(self.seed << 40 | number))
        for index in range(CALLS_PER_BLOCK):
            try:
                name, call, args, kwargs = self.targets.draw(v)
            except Exception:  # an earlier call has left its tensor in a state that refuses to be drawn from
                continue
            given = (*args, *kwargs.values())
            if numpy_dies_of(given) or any(asks_for_much(x) for x in given):
                continue
            self.calls += 1
            text = self.text(name, args, kwargs) if self.show else ""
            self.note(number, index, text)
            if self.show == "all":
                print(index, text, file=sys.stderr, flush=True)
            if number % COMPILED == 0:
                call = flambeau.compile(call)
            found = self.timed(name, call, args, kwargs, v)
            if isinstance(found, str):
                self.report(number, index, found, self.text(name, args, kwargs))
            elif found:
                self.results += 1
        self.check(number)

    def timed(self, name, call, args, kwargs, v):
        try:
            self.clock.running = self.calls
            found = run_call(name, call, args, kwargs, v)
            self.clock.running = 0
            return found
        except TooSlow:
            self.clock.running = 0
            self.slow += 1
            if self.show:
                print(f"interrupted: {self.text(name, args, kwargs)}", file=sys.stderr, flush=True)
            return None

    def text(self, name, args, kwargs):
        return f"{name}({', '.join([*map(described, args), *(f'{k}={described(x)}' for k, x in kwargs.items())])})"

    def report(self, number, index, what, text):
        print(f"finding: seed {self.seed}, block {number}, call {index}: {text}: {what}", file=sys.stderr, flush=True)

    def check(self, number):
        if self.slow > self.slow_before:  # an interruption may meet the statement that would restore a mode
            self.slow_before = self.slow
            flambeau.set_grad_enabled(True)
        try:
            check_state(self.state)
        except (Finding, RecursionError) as error:
            self.report(number, CALLS_PER_BLOCK, f"{type(error).__name__}: {error}", "the block")
            os._exit(77)  # nothing that follows would mean anything


def main(path, seed, first, blocks, show):
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda *_: None
    with open(path, "r+b") as f:
        log = mmap.mmap(f.fileno(), LOG_SIZE)
    worker = Worker(log, seed, show)
    limit_memory()
    for number in range(first, first + blocks):
        worker.block(number)
        if number % 256 == 0:
            gc.collect()
    worker.note(first + blocks, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)  # the handler is gone before the process is


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "")
