"""Failures of workers: how an exception reaches the main process, and what is said of a worker that died."""

import pickle
import signal
import traceback

from ...._shown import shown
from .fetch import POSITION, TASK


def packed(error, where):
    """An exception as plain data: itself if it can be pickled, and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        body = pickle.dumps(error, 5)
        if type(pickle.loads(body)) is not type(error):
            body = None
    except Exception:  # whatever the methods of its class do
        body = None
    return body, type(error).__name__, where, text


def unpacked(failure):
    """The exception to raise in the main process: of the same type, with the worker's traceback as a note."""
    body, name, where, text = failure
    error = None
    if body is not None:
        try:
            error = pickle.loads(body)
        except Exception:  # a class that the main process does not have
            error = None
    if error is None:
        return RuntimeError(f"DataLoader: {name} {where}; the exception itself could not be sent. Its traceback:\n"
                            f"{text}")
    error.add_note(f"DataLoader: raised {where}. The traceback there:\n{text}")
    return error


def place_of(task, indices, position):
    """Where a worker is, in words: `indices` are those of the batch, `position` says which of them, or is -1."""
    if task < 0:
        return "before its first batch"
    if indices is None:
        return f"in batch {task}"
    if not isinstance(indices, (list, tuple)):
        return f"at sample {shown(indices)}"
    if not 0 <= position < len(indices):
        return f"in batch {task} (samples {shown(list(indices))})"
    if indices[position] is None:  # of an iterable dataset
        return f"at sample {position} of its batch {task}"
    return f"at sample {shown(indices[position])} of batch {task}"


def whereabouts_of(worker):
    """Where a worker is, by its board."""
    task = worker.board[TASK]
    return place_of(task, worker.tasks.get(task), worker.board[POSITION])


def whereabouts(workers):
    """Where all workers are that have something to do."""
    return "; ".join(f"worker {worker.number} is {whereabouts_of(worker)}" for worker in workers if worker.tasks)


def ended(code):
    """An exit code in words."""
    if code is None:
        return "has closed its channel"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def memory_text(peak):
    """A worker's peak in KiB, and the machine's memory."""
    found = {}
    try:
        with open("/proc/meminfo") as lines:
            found = {key: int(rest.split()[0]) for key, _, rest in (line.partition(":") for line in lines)}
    except OSError:
        pass
    text = f"Its memory had peaked at {peak / 1024:,.0f} MiB when it began its last batch" if peak else \
        "It had begun no batch"
    if "MemAvailable" in found:
        text += (f"; the machine now has {found['MemAvailable'] / 1024:,.0f} of "
                 f"{found['MemTotal'] / 1024:,.0f} MiB available")
    return text + "."
