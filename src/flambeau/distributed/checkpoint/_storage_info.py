"""Where an item of a checkpoint lies."""

from dataclasses import dataclass
from pathlib import PurePath


@dataclass
class _StorageInfo:
    """`length` bytes at `offset` of a file; the path is relative to the checkpoint's folder."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list | None = None

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if value is not None}

    def leaves_folder(self):
        """Whether the path leads out of the folder, which no checkpoint needs."""
        path = PurePath(self.relative_path)
        return path.is_absolute() or ".." in path.parts or "\0" in self.relative_path
