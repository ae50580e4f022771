"""The folder a run writes into: checkpoint.pt, metrics.jsonl, time.json, picture.png; each replaced as a whole."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

from .._files.replacing import replacing
from . import picture
from .checkpoint import save_checkpoint
from .errors import UserError, reason
from .lock import locked


@contextmanager
def replacement(path):
    """A file that becomes `path` in one move: a reader never meets half of it."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise UserError(f"{path}: could not be written: {reason(error)}") from error


class Output:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.checkpoint = self.folder / "checkpoint.pt"
        self.metrics = self.folder / "metrics.jsonl"
        self.picture = self.folder / "picture.png"
        self.time = self.folder / "time.json"

    @contextmanager
    def held(self):
        """Make the folder, and let no other training write into it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written to: {reason(error)}") from error
        with locked(self.folder):
            yield

    def give_way(self):
        """A checkpoint that is already there is kept under another name: which, or None."""
        try:
            if not self.checkpoint.exists():
                return None
            old = self.folder / "checkpoint.old.pt"
            os.replace(self.checkpoint, old)
            return old
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written to: {reason(error)}") from error

    def seconds(self):
        """How long the run has trained so far; None where that was not written down."""
        try:
            return float(json.loads(self.time.read_text())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save_time(self, seconds):
        """How long the run has trained so far."""
        with replacement(self.time) as file:
            file.write(json.dumps({"seconds": round(seconds, 2)}).encode())

    def save(self, training):
        """The checkpoint, and the metrics exactly up to it."""
        save_checkpoint(self.checkpoint, training)
        lines = "".join(json.dumps(row) + "\n" for row in training.history)
        with replacement(self.metrics) as file:
            file.write(lines.encode())

    def draw(self, report):
        """The picture; False where matplotlib is not installed."""
        try:
            with replacement(self.picture) as file:
                picture.draw(report, file)
        except ImportError:
            return False
        return True
