"""Where the files of a checkpoint lie: a folder of this machine, or of any storage that fsspec knows."""

import contextlib
import importlib
import os
from pathlib import Path

from ..._files.replacing import replacing


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path):
        self.path = Path(path)

    def __str__(self):
        return str(self.path)

    def make(self):
        """Makes it, if it is missing."""
        self.path.mkdir(parents=True, exist_ok=True)

    def has(self, name):
        """Whether there is such a file."""
        return (self.path / name).exists()

    def size(self, name):
        """How many bytes a file has."""
        return os.stat(self.path / name).st_size

    def names(self):
        """What its files are called."""
        return os.listdir(self.path)

    def open(self, name, mode="rb"):
        """A file, for reading or writing."""
        return open(self.path / name, mode)

    def replace(self, name):
        """Context with a file that is there, under its name, when the context has ended well."""
        return replacing(self.path / name)

    def remove(self, name):
        """Removes a file, if that can be done."""
        with contextlib.suppress(OSError):
            os.unlink(self.path / name)


class RemoteFolder:
    """A folder that fsspec opens: "s3://bucket/run", "memory://run"; `options` are those of its file system."""

    def __init__(self, url, options):
        self.url = str(url)
        self.files, self.path = fsspec().core.url_to_fs(self.url, **options)

    def __str__(self):
        return self.url

    def _at(self, name):
        return f"{self.path.rstrip('/')}/{name}"

    def make(self):
        """Makes it, if it is missing."""
        self.files.makedirs(self.path, exist_ok=True)

    def has(self, name):
        """Whether there is such a file."""
        return self.files.exists(self._at(name))

    def size(self, name):
        """How many bytes a file has."""
        return self.files.size(self._at(name))

    def names(self):
        """What its files are called."""
        return [str(path).rstrip("/").rpartition("/")[2] for path in self.files.ls(self.path, detail=False)]

    def open(self, name, mode="rb"):
        """A file, for reading or writing."""
        return self.files.open(self._at(name), mode)

    @contextlib.contextmanager
    def replace(self, name):
        """Context with a file that is there, under its name, when the context has ended well."""
        other = f"{name}.incomplete"
        with self.open(other, "wb") as file:
            yield file
        if self.has(name):
            self.files.rm(self._at(name))
        self.files.mv(self._at(other), self._at(name))

    def remove(self, name):
        """Removes a file, if that can be done."""
        with contextlib.suppress(OSError):
            self.files.rm(self._at(name))


def fsspec():
    """The package, where it is installed."""
    try:
        importlib.import_module("fsspec.core")
        return importlib.import_module("fsspec")
    except ImportError:
        raise ImportError("checkpoints in other storages need the package fsspec (pip install fsspec) and the one for "
                          "the storage, as s3fs or gcsfs; FileSystemWriter and FileSystemReader, for folders of this "
                          "machine, need neither") from None
