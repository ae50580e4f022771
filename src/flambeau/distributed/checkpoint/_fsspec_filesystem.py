"""Checkpoints in any storage that fsspec knows (`pip install fsspec`): object stores, archives, memory."""

import os

from ._folders import RemoteFolder, fsspec
from .filesystem import FileSystemReader, FileSystemWriter, SerializationFormat


def _is_url(checkpoint_id):
    """Whether fsspec has a file system for it."""
    if not isinstance(checkpoint_id, (str, os.PathLike)) or "://" not in str(checkpoint_id):
        return False
    try:
        fsspec().get_filesystem_class(str(checkpoint_id).partition("://")[0])
    except (ImportError, ValueError):
        return False
    return True


class _AtURL:
    """What reader and writer have of a URL; `_options` go to the file system."""

    def _folder_at(self, path):
        return RemoteFolder(path, self._options)

    @property
    def checkpoint_id(self):
        """The URL."""
        return self.folder.url

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return _is_url(checkpoint_id)


class FsspecWriter(_AtURL, FileSystemWriter):
    """`FileSystemWriter` for a URL; further keywords go to the file system. A save counts when `.metadata` is there.

    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> try:
    ...     writer = dcp.FsspecWriter("memory://run/7")
    ... except ImportError as error:
    ...     print("pip install fsspec" in str(error))
    ... else:
    ...     print(writer.checkpoint_id == "memory://run/7")
    True
    """

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
                 per_thread_copy_ahead=10_000_000, overwrite=True, _extensions=None,
                 serialization_format=SerializationFormat.TORCH_SAVE, **kwargs):
        self._options = kwargs
        super().__init__(path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, False, overwrite,
                         _extensions, serialization_format)


class FsspecReader(_AtURL, FileSystemReader):
    """`FileSystemReader` for a URL; keywords go to the file system."""

    def __init__(self, path, **kwargs):
        self._options = kwargs
        super().__init__(path)
