"""Checks of the functions that pipes call, and files: their names, opening them, closing them in time."""

import fnmatch
import importlib.util
import inspect
import io
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from ....._shown import shown

_PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _name_of(fn):
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def validate_input_col(fn, input_col):
    """Whether `fn` can be called with one argument for each column; ValueError where it cannot.

    >>> from flambeau.utils.data.datapipes.utils.common import validate_input_col
    >>> validate_input_col(lambda a, b: a, 0)
    Traceback (most recent call last):
    ValueError: <lambda>: it needs 2 arguments, but input_col=0 gives it 1
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a built-in function that does not tell
        return
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    missing = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if missing:
        raise ValueError(f"{_name_of(fn)}: its keyword-only arguments {', '.join(missing)} have no default; columns "
                         "are given by position")
    plain = [p for p in parameters if p.kind in _PLAIN]
    needed = sum(p.default is p.empty for p in plain)
    if needed > given:
        raise ValueError(f"{_name_of(fn)}: it needs {needed} arguments, but input_col={shown(input_col)} gives it "
                         f"{given}")
    if given > len(plain) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError(f"{_name_of(fn)}: it takes {len(plain)} arguments, but input_col={shown(input_col)} gives it "
                         f"{given}")


def check_function(fn, owner):
    """TypeError unless it can be called; a warning where pickle cannot write it, and dill is not there to do so."""
    if not callable(fn):
        raise TypeError(f"{owner}: expected a function, got {shown(fn)}")
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", "")
    kind = "Lambda" if name.endswith("<lambda>") else "Local" if "<locals>" in name and inspect.isfunction(fn) else None
    if kind is not None and importlib.util.find_spec("dill") is None:
        warnings.warn(f"{kind} function in {owner}: pickle cannot write it, so worker processes must be forked; define "
                      "it with `def` at the top of a module", UserWarning, stacklevel=4)


def match_masks(name, masks):
    """Whether a file's name fits one of the patterns (of the shell); no pattern fits everything.

    >>> from flambeau.utils.data.datapipes.utils.common import match_masks
    >>> match_masks("a.png", ["*.jpg", "*.png"]), match_masks("a.txt", "*.png"), match_masks("a.txt", "")
    (True, False, True)
    """
    masks = [masks] if isinstance(masks, str) and masks else masks
    return not masks or any(fnmatch.fnmatch(name, mask) for mask in masks)


def _warn_and_raise(error):
    warnings.warn(f"{error.filename}: {error.strerror}", UserWarning, stacklevel=4)
    raise error


def get_file_pathnames_from_root(root, masks, recursive=False, abspath=False, non_deterministic=False):
    """The paths of the files in a folder whose names fit `masks`, in order of name; or a file's own.

    recursive: in its folders too. non_deterministic: in the order of the file system.
    """
    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, folders, files in os.walk(root, onerror=_warn_and_raise):
        folder = os.path.abspath(folder) if abspath else folder
        if not non_deterministic:
            files.sort()
            folders.sort()
        yield from (os.path.join(folder, file) for file in files if match_masks(file, masks))
        if not recursive:
            return


def get_file_binaries_from_pathnames(pathnames, mode, encoding=None):
    """(path, open file) of each path; the files close when nothing refers to them."""
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    mode = f"r{mode}" if mode in ("b", "t") else mode
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"FileOpener: expected a path as str, got {shown(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding))  # noqa: SIM115


def validate_pathname_binary_tuple(data):
    """TypeError or ValueError unless `data` is (path, open binary file)."""
    if not isinstance(data, tuple):
        raise TypeError(f"expected (path, binary file), got {shown(data)}")
    if len(data) != 2:
        raise TypeError(f"expected (path, binary file), got a tuple of {len(data)}")
    path, stream = data
    if not isinstance(path, str):
        raise TypeError(f"expected a path as str, got {shown(path)}")
    if not isinstance(stream, (io.BufferedIOBase, io.RawIOBase, StreamWrapper)):
        raise TypeError(f"expected a binary file, got {shown(stream)}")


class StreamWrapper:
    """An open file, or what can be read like one, that closes itself when nothing refers to it.

    parent_stream: the wrapper of an archive that the file is a part of, which may close with its last part
    (`autoclose`). With `debug_unclosed_streams` the open ones are kept in `session_streams`.
    """

    session_streams = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj, parent_stream=None, name=None):
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(f"StreamWrapper: parent_stream must be a StreamWrapper, got {shown(parent_stream)}")
            parent_stream.child_counter += 1
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v, depth=0):
        """Closes the wrappers in dicts, lists and tuples, however deep (up to 10 levels)."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for part in v.values() if isinstance(v, dict) else v:
                cls.close_streams(part, depth + 1)

    def close(self, *args, **kwargs):
        """Closes the file, once."""
        if self.closed:
            return
        self.closed = True
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        with suppress(AttributeError):  # what has no close needs none
            self.file_obj.close(*args, **kwargs)

    def autoclose(self):
        """Closes when the last part is closed; at once where there is none."""
        self.close_on_last_child = True
        if not self.child_counter:
            self.close()

    def __getattr__(self, name):
        if name == "file_obj":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __del__(self):
        if "file_obj" in self.__dict__:
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self):
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, file_obj):
        self.__init__(file_obj)
