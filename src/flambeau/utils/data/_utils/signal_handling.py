"""Notices in the main process that a worker of a package's own loader has died."""

import atexit
import os
import signal
import threading

from ...._tensor import handover

_workers = {}  # who asks -> the process ids of its workers
_handling = []  # the handler of SIGCHLD that was there before ours, once ours is set

atexit.register(_workers.clear)  # when Python ends, workers are ended


def _set_worker_pids(key, child_pids):
    """From now on these processes are watched for `key`."""
    if key in _workers:
        raise ValueError("_set_worker_pids: the workers of this loader are watched already; remove them first")
    _workers[key] = set(child_pids)


def _remove_worker_pids(key):
    """They are expected to end from now on."""
    if key not in _workers:
        raise ValueError("_remove_worker_pids: no workers of this loader are watched")
    del _workers[key]


def _how_it_ended(pid):
    """What to say of a worker that failed; None while it runs, and for one that ended well."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if found is None or (found.si_code == os.CLD_EXITED and found.si_status == 0):
        return None
    if found.si_code == os.CLD_EXITED:
        return f"ended with status {found.si_status}"
    return f"was ended by {signal.Signals(found.si_status).name}"


def _error_if_any_worker_fails():
    """RuntimeError where a watched worker has ended and nobody asked it to."""
    for pids in list(_workers.values()):
        for pid in pids:
            how = _how_it_ended(pid)
            if how is not None:
                pids.clear()
                raise RuntimeError(f"DataLoader: worker process {pid} {how}; with num_workers=0 the error is raised "
                                   "where it happens")


def _set_SIGCHLD_handler():
    """Raises in the main thread as soon as a watched worker fails; the handler before it runs too."""
    if _handling or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)

    def handler(number, frame):
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handler)
    _handling.append(before)


def _set_worker_signal_handlers():
    """In a worker: Ctrl-C goes to the whole group, and the main process decides; batches that it left are lost."""
    handover.end_at_once()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
