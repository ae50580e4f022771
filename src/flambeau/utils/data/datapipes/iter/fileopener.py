"""Open files: `open_files`."""

from ....._shown import shown
from ..datapipe import IterDataPipe
from ..utils.common import get_file_binaries_from_pathnames
from .filelister import known

_MODES = ("b", "t", "rb", "rt", "r")


class FileOpenerIterDataPipe(IterDataPipe):
    """(path, open file) of each path; a file closes when nothing refers to it.

    mode: "r" or "t" for text (in `encoding`), "b" for bytes.

    >>> from flambeau.utils.data.datapipes.iter import FileOpener
    >>> [file.readline() for path, file in FileOpener(["LICENSE"])][0].strip() != ""
    True
    """

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        if mode not in _MODES:
            raise ValueError(f"open_files: mode must be one of {', '.join(_MODES)}, got {shown(mode)}")
        if "b" in mode and encoding is not None:
            raise ValueError(f"open_files: encoding={shown(encoding)} is for text, and mode {shown(mode)} gives bytes")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self):
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self):
        return known(self, self.length)
