"""Names of files: `list_files`."""

from ..datapipe import IterDataPipe
from ..utils.common import get_file_pathnames_from_root
from .utils import IterableWrapperIterDataPipe


class FileListerIterDataPipe(IterDataPipe):
    """The paths of the files in a folder (or several, or those that a datapipe gives) whose names fit `masks`.

    They come in order of name, unless non_deterministic=True leaves the order to the file system. recursive: in the
    folders inside too. abspath: as absolute paths. length: what `len` says.

    >>> from flambeau.utils.data.datapipes.iter import FileLister
    >>> list(FileLister("examples", "*.cpp", recursive=True))
    ['examples/add_an_operator/smoothstep.cpp']
    """

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        root = [root] if isinstance(root, str) else root
        self.datapipe = root if isinstance(root, IterDataPipe) else IterableWrapperIterDataPipe(root)
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self):
        for root in self.datapipe:
            yield from get_file_pathnames_from_root(root, self.masks, self.recursive, self.abspath,
                                                    self.non_deterministic)

    def __len__(self):
        return known(self, self.length)


def known(pipe, length):
    """The length that a user has told; TypeError where none was."""
    if length < 0:
        raise TypeError(f"{type(pipe).__name__}: its length is not known; give it as length=")
    return length
