"""Kernel text to images, once per text: kept in memory, and on disk between processes."""

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from ...version import __version__
from . import nvrtc

#: arch -> function(source, name) -> image, beside NVRTC's own; tests put one here that runs kernels on the CPU.
#: Its `version`, if it has one, tells its images from those of another
builders = {}

_MARK = b"flambeau cubin\n"


def folder():
    """Where images are kept: `flambeau/kernels` in the user's cache folder, as XDG_CACHE_HOME says."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return Path(cache_home).expanduser() / "flambeau" / "kernels"


def key(source, arch, options=()):
    """What an image depends on: the text, the architecture, options, NVRTC's version and our own."""
    made_by = (arch, getattr(builders[arch], "version", None)) if arch in builders else nvrtc.version()
    return hashlib.sha256(repr((source, arch, made_by, __version__, *options)).encode()).hexdigest()


def _read(path):
    """The image in a file, or None if there is none or its checksum is wrong."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(_MARK) + 32
    mark, digest, image = data[:len(_MARK)], data[len(_MARK):head], data[head:]
    return image if mark == _MARK and hashlib.sha256(image).digest() == digest else None


def _write(path, image):
    """Whole or not at all: processes that write the same file at once leave one of their equal images."""
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MARK + hashlib.sha256(image).digest() + image)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def build(source, arch, name="", options=None):
    """The image, made anew."""
    return builders[arch](source, name) if arch in builders else nvrtc.build(source, arch, name, options)


@cache
def compile(source, arch, name="", options=None):
    """The image of CUDA C++ text for an architecture ("sm_90"); `name` is the operator that an error names. options: of
    a text that is not our own."""
    path = folder() / f"{key(source, arch, options or ())}.{arch}"
    image = _read(path)
    if image is None:
        image = build(source, arch, name, options)
        _write(path, image)
    return image
