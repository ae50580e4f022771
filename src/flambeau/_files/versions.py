"""Small helpers of files that programs import: storage classes, temporary folders, versions of modules."""

import re
import shutil
import tempfile
import warnings
from contextlib import contextmanager

import flambeau

from .._shown import shown
from .._tensor.methods import TYPE_NAMES


class SourceChangeWarning(Warning):
    """That a module's source differs from that in a file. `load` reads no sources, so nothing here gives it."""


@contextmanager
def mkdtemp():
    """A temporary folder, which is removed at the end of the context.

    >>> import os
    >>> from flambeau.serialization import mkdtemp
    >>> with mkdtemp() as folder:
    ...     os.path.isdir(folder)
    True
    """
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether `module.__version__` is at least `req_version_tuple`.

    A version that cannot be compared raises RuntimeError; with error_if_malformed=False it warns and counts as enough.

    >>> import numpy
    >>> from flambeau.serialization import check_module_version_greater_or_equal
    >>> check_module_version_greater_or_equal(numpy, (1, 0))
    True
    """
    version = module.__version__
    parts = version.split(".")[:len(req_version_tuple)]
    kinds = [type(wanted) for wanted in req_version_tuple]
    plain = all(kind is not int or re.fullmatch(r"\d+", part) for kind, part in zip(kinds, parts, strict=False))
    if plain and len(parts) == len(kinds):
        return tuple(kind(part) for kind, part in zip(kinds, parts, strict=True)) >= tuple(req_version_tuple)
    text = (f"{module.__name__}: its version {shown(version)} does not compare with {shown(req_version_tuple)}: "
            f"expected {len(kinds)} parts of the same types")
    if error_if_malformed:
        raise RuntimeError(text)
    warnings.warn(f"{text}; taken as new enough", UserWarning, stacklevel=2)
    return True


def normalize_storage_type(storage_type):
    """The storage class of this library with that class's name.

    >>> import flambeau
    >>> flambeau.serialization.normalize_storage_type(flambeau.FloatStorage) is flambeau.FloatStorage
    True
    """
    return getattr(flambeau, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The class of tensors of a typed storage's dtype.

    >>> import flambeau
    >>> flambeau.serialization.storage_to_tensor_type(flambeau.FloatStorage(2)) is flambeau.FloatTensor
    True
    """
    return getattr(flambeau, TYPE_NAMES[storage.dtype])
