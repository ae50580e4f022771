"""Saves in child processes that are killed at, or fail in, each of their system calls, and looks at what is left.

`python -m tests.serialization.crash LIBRARY FOLDER STEP` makes every STEP-th of all injections (some 11,000: every call
of every case, in every way); the last line says how they ended. LIBRARY is injector.c, compiled.
"""

import collections
import ctypes
import errno
import itertools
import os
import re
import shutil
import sys
from pathlib import Path

import flambeau

RUN, KILL_BEFORE, KILL_AFTER, FAIL, SHORT, FAIL_ALL = range(6)
HOW = [("killed before", KILL_BEFORE, 0), ("killed after", KILL_AFTER, 0), ("ENOSPC", FAIL, errno.ENOSPC),
       ("EIO", FAIL, errno.EIO), ("EINTR", FAIL, errno.EINTR), ("EACCES", FAIL, errno.EACCES),
       ("ENOMEM", FAIL, errno.ENOMEM), ("EDQUOT", FAIL, errno.EDQUOT), ("EROFS", FAIL, errno.EROFS),
       ("short", SHORT, 0), ("always ENOSPC", FAIL_ALL, errno.ENOSPC), ("always EIO", FAIL_ALL, errno.EIO)]
REFUSED = 3  # the child's exit status where save raised an error
TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")


def small(n):
    return {"epoch": n}


def tensors(n):
    return {"epoch": n, "w": [flambeau.full((k,), n) for k in (1, 1000, 100_000)], "text": "x" * n}


def plain(folder):
    return folder / "x.pt"


def linked(folder):
    (folder / "there").mkdir()
    (folder / "x.pt").symlink_to(folder / "there" / "real.pt")
    return folder / "x.pt"


#: (what, place, whether there is an old file, its mode, options of save)
CASES = [(make, place, old, mode, options) for make, place, old, (mode, options) in itertools.product(
    (small, tensors), (plain, linked), (True, False),
    ((0o644, {}), (0o600, {}), (0o644, {"_use_new_zipfile_serialization": False}),
     (0o600, {"_use_new_zipfile_serialization": False})))]


class Folder:
    """One case in a folder of its own, begun anew for every injection."""

    def __init__(self, root, case):
        self.root = root / "case"
        self.make, self.place, self.has_old, self.mode, self.options = case

    def begin(self):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        self.path = self.place(self.root)
        self.real = Path(os.path.realpath(self.path))
        if self.has_old:
            flambeau.save(self.make(1), self.path, **self.options)
            self.real.chmod(self.mode)

    def expect(self):
        """The old file's bytes, and the new one's."""
        self.begin()
        old = self.real.read_bytes() if self.has_old else None
        flambeau.save(self.make(2), self.path, **self.options)
        return old, self.real.read_bytes()

    def check(self, exit_code, old, new):
        found = self.real.read_bytes() if self.real.exists() else None
        assert found in (old, new), f"neither the old file nor the new one, but {found and len(found)} bytes"
        assert exit_code != 0 or found == new, "save succeeded and the old file is there"
        if found is not None and (self.has_old or exit_code == 0):
            mode = self.real.stat().st_mode & 0o777
            assert not self.has_old or mode == self.mode, f"mode {mode:o}"
        names = set(os.listdir(self.real.parent)) - {"x.pt", "real.pt", "there"}
        assert len(names) <= 1 and all(TEMPORARY.fullmatch(name) for name in names), names
        flambeau.save(0, self.real.parent / "next.pt")
        left = sorted(os.listdir(self.real.parent))
        assert left == sorted({"next.pt"} | ({self.real.name} if found is not None else set())
                              | ({"there"} if self.real.parent == self.root and self.place is linked else set())), left
        return "new" if found == new else "old"


def saved(library, folder, value, nth, how, code):
    """(number of system calls, that of the call concerned, exit code of the child; None where it was killed)."""
    pid = os.fork()
    if pid == 0:
        try:
            if library.trace_me():
                os._exit(99)
            flambeau.save(value, folder.path, **folder.options)
            os._exit(0)
        except (RuntimeError, MemoryError, OSError):
            os._exit(REFUSED)
        except BaseException:
            os._exit(98)
    number, status = ctypes.c_long(), ctypes.c_int()
    count = library.inject(pid, ctypes.c_long(nth), how, code, ctypes.byref(number), ctypes.byref(status))
    assert count >= 0, f"inject: {count}"
    code = os.waitstatus_to_exitcode(status.value) if status.value >= 0 else None
    return count, number.value, code


def injections(library, root):
    """(folder, old, new, nth, how) of all there are."""
    for case in CASES:
        folder = Folder(root, case)
        old, new = folder.expect()
        folder.begin()
        count, _, code = saved(library, folder, folder.make(2), 0, RUN, 0)
        assert code == 0, code
        for nth in range(1, count + 1):
            for how in HOW:
                yield folder, old, new, nth, how


def main(library, root, step):
    library = ctypes.CDLL(library)
    library.inject.restype = ctypes.c_long
    ends, calls, done = collections.Counter(), set(), 0
    chosen = itertools.islice(injections(library, Path(root)), 0, None, int(step))
    for folder, old, new, nth, (name, how, code) in chosen:
        folder.begin()
        count, number, exit_code = saved(library, folder, folder.make(2), nth, how, code)
        if count < nth:
            continue  # this run made fewer calls: there was nothing to fail
        where = f"{name} in call {nth} (number {number}) of {folder.make.__name__}, {folder.place.__name__}"
        assert exit_code not in (98, 99), where
        try:
            ends[folder.check(exit_code, old, new)] += 1
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from None
        calls.add(number)
        done += 1
    print(f"{done} injections into {len(calls)} kinds of system calls: {ends['old']} left the old file, {ends['new']} "
          "the new one")


if __name__ == "__main__":
    main(*sys.argv[1:])
