"""The folder a run writes into: checkpoint.pt, metrics.jsonl, picture.png; each replaced whole or not at all."""

import json
import os
from pathlib import Path

from . import picture
from .checkpoint import save_checkpoint
from .errors import UserError, reason


def replace(path, write):
    """`write(temporary path)`, then one move to `path`: a reader never meets half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: could not be written: {reason(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)


class Output:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.checkpoint = self.folder / "checkpoint.pt"
        self.metrics = self.folder / "metrics.jsonl"
        self.picture = self.folder / "picture.png"

    def prepare(self):
        """Make the folder. A checkpoint that is already there gives way, but is kept; where it then is, or None."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self.checkpoint.exists():
                return None
            old = self.folder / "checkpoint.old.pt"
            os.replace(self.checkpoint, old)
            return old
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written to: {reason(error)}") from error

    def save(self, training):
        """The checkpoint, and the metrics exactly up to it."""
        save_checkpoint(self.checkpoint, training)
        lines = "".join(json.dumps(row) + "\n" for row in training.history)
        replace(self.metrics, lambda path: path.write_text(lines, encoding="utf-8"))

    def draw(self, report):
        """The picture; False where matplotlib is not installed."""
        try:
            replace(self.picture, lambda path: picture.draw(report, path))
        except ImportError:
            return False
        return True
