"""Loads hostile files in a process of its own, with limits of time and memory: a process that dies has failed.

Run as `python -m tests.serialization.sandbox`, it reads files from stdin and answers with one line of JSON each.
"""

import io
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import flambeau

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 10
#: what loading may need besides ten times the file: the parts of Python that are used for the first time
FLOOR = 64 << 20
_STATM = os.open("/proc/self/statm", os.O_RDONLY)


@contextmanager
def limits(size):
    """Time and memory for a file of `size` bytes. The alarm has no handler: it ends even what does not return."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    now = int(os.pread(_STATM, 100, 0).split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + FLOOR + 10 * size, most))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: the machine may be busy
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer(content, path, mmap):
    """What came of a file: ("loaded", its repr) or (the error's type, its text)."""
    with limits(len(content)):
        try:
            found = flambeau.load(path, mmap=True) if mmap else flambeau.load(io.BytesIO(content))
            return "loaded", repr(found)[:10_000]
        except Exception as error:
            return type(error).__name__, str(error)[:10_000]


def serve():
    source = sys.stdin.buffer
    while header := source.read(9):
        size, mmap = struct.unpack("<Q?", header)
        content = source.read(size)
        path = Path(sys.argv[1]) / "hostile.pt"
        if mmap:
            path.write_bytes(content)
        print(json.dumps(answer(content, path, mmap)), flush=True)


class Sandbox:
    """Such a process, begun anew when it has died."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def load(self, content, mmap=False):
        """(kind, text); kind is "died" where the process did."""
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, "-m", "tests.serialization.sandbox", str(self.folder)],
                                            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(struct.pack("<Q?", len(content), mmap) + content)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.close()
            return "died", f"exit status {code}"
        return tuple(json.loads(line))

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


if __name__ == "__main__":
    serve()
