"""Decoders of files by the ending of their names: a handler takes (ending, contents) and answers None where it is not
meant.
"""

import importlib
import importlib.util
import io
import json
import os.path

import flambeau

from ....._shown import shown
from .common import StreamWrapper

_TEXT, _NUMBER = ("txt", "text", "transcript"), ("cls", "cls2", "class", "count", "index", "inx", "id")
_PICKLES = ("pyd", "pickle")
_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")
_VIDEOS = ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv")
_SOUNDS = ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma")


def _is_stream(data):
    return isinstance(data, (io.IOBase, StreamWrapper)) or hasattr(data, "read")


def _contents(data):
    return data.read() if _is_stream(data) else data


def _text(data):
    found = _contents(data)
    return found if isinstance(found, str) else found.decode("utf-8")


def basichandlers(extension, data):
    """Decodes JSON (`json`), text (`txt`, `text`, `transcript`) and whole numbers (`cls`, `id`, `index`, …).

    >>> from flambeau.utils.data.datapipes.utils.decoder import basichandlers
    >>> basichandlers("json", b'{"a": 1}'), basichandlers("txt", b"hello"), basichandlers("png", b"")
    ({'a': 1}, 'hello', None)
    """
    if extension in _TEXT:
        return _text(data)
    if extension in _NUMBER:
        try:
            return int(_text(data))
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        return json.loads(_text(data))
    if extension in _PICKLES:
        raise NotImplementedError(f"basichandlers: a .{extension} file is a pickle, which runs the code inside when it "
                                  "is read; if you trust the files, put a handler before this one: lambda extension, "
                                  f"data: pickle.load(data) if extension == {shown(extension)} else None")
    return None


def handle_extension(extensions, f):
    """A handler that gives contents to `f` where the ending is one of `extensions` (apart by spaces).

    >>> from flambeau.utils.data.datapipes.utils.decoder import handle_extension
    >>> handle_extension("jpg tar.gz", len)("tar.gz", b"abc")
    3
    """
    wanted = [ending.split(".") for ending in extensions.lower().split()]

    def handler(extension, data):
        parts = extension.lower().split(".")
        return f(data) if any(parts[-len(ending):] == ending for ending in wanted) else None
    return handler


#: name -> (what is made, dtype, mode of the picture)
imagespecs = {
    "l8": ("numpy", "uint8", "l"), "rgb8": ("numpy", "uint8", "rgb"), "rgba8": ("numpy", "uint8", "rgba"),
    "l": ("numpy", "float", "l"), "rgb": ("numpy", "float", "rgb"), "rgba": ("numpy", "float", "rgba"),
    "torchl8": ("torch", "uint8", "l"), "torchrgb8": ("torch", "uint8", "rgb"),
    "torchrgba8": ("torch", "uint8", "rgba"), "torchl": ("torch", "float", "l"), "torchrgb": ("torch", "float", "rgb"),
    "torch": ("torch", "float", "rgb"), "torchrgba": ("torch", "float", "rgba"),
    "pill": ("pil", None, "l"), "pil": ("pil", None, "rgb"), "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}


#: package -> the module that is used
_MODULES = {"pillow": "PIL.Image", "numpy": "numpy", "scipy": "scipy.io", "torchaudio": "torchaudio"}


def _needed(package):
    if importlib.util.find_spec(_MODULES[package].partition(".")[0]) is None:
        raise ModuleNotFoundError(f"decoder: such files need the package {package}: pip install {package}")
    return importlib.import_module(_MODULES[package])


class ImageHandler:
    """Decodes pictures, by Pillow, as `imagespec` says: a NumPy array, a tensor or a picture of Pillow's; numbers from
    0 to 255 (`rgb8`, …) or from 0 to 1; a tensor's channels come first.
    """

    def __init__(self, imagespec):
        if imagespec not in imagespecs:
            raise AssertionError(f"ImageHandler: imagespec must be one of {', '.join(imagespecs)}, got "
                                 f"{shown(imagespec)}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension, data):
        if extension.lower() not in _IMAGES:
            return None
        kind, dtype, mode = imagespecs[self.imagespec]
        pillow = _needed("pillow")
        stream = data if _is_stream(data) else io.BytesIO(data)
        with pillow.open(stream) as opened:
            picture = opened.convert(mode.upper())
        if kind == "pil":
            return picture
        found = _needed("numpy").asarray(picture)
        found = found if dtype == "uint8" else found.astype("f") / 255
        if kind == "numpy":
            return found
        found = found.reshape(*found.shape[:2], -1).transpose(2, 0, 1)
        return flambeau.tensor(found)


def imagehandler(imagespec):
    """ImageHandler(imagespec)."""
    return ImageHandler(imagespec)


def videohandler(extension, data):
    """Refuses films: there is no decoder of films here."""
    if extension not in _VIDEOS or not data:
        return None
    raise NotImplementedError(f"videohandler: .{extension} files need a decoder of films, which is not available; put "
                              "a handler of your own in its place")


def audiohandler(extension, data):
    """Decodes sounds by torchaudio, where that is installed."""
    if extension not in _SOUNDS:
        return None
    return _needed("torchaudio").load(data if _is_stream(data) else io.BytesIO(data))


class MatHandler:
    """Decodes MATLAB files by SciPy's `loadmat`, with its arguments."""

    def __init__(self, **loadmat_kwargs):
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension, data):
        if extension != "mat":
            return None
        stream = data if _is_stream(data) else io.BytesIO(data)
        return _needed("scipy").loadmat(stream, **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs):
    """MatHandler(**loadmat_kwargs)."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname):
    """The ending of a path, without the dot.

    >>> from flambeau.utils.data.datapipes.utils.decoder import extension_extract_fn
    >>> extension_extract_fn("folder/picture.png")
    'png'
    """
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Decodes files by the first of its handlers that answers; a file that none is meant for stays as it is.

    >>> from flambeau.utils.data.datapipes.utils.decoder import Decoder, basichandlers
    >>> Decoder(basichandlers)(("a.json", b"[1, 2]"))
    {'a.json': [1, 2]}
    """

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler):
        """More handlers, which are asked after the others."""
        self.handlers += handler

    def decode1(self, key, data):
        """One file's contents; an open file is closed."""
        if not data:
            return data
        found = next((value for handler in self.handlers if (value := handler(key, data)) is not None), None)
        if _is_stream(data):
            found = data.read() if found is None else found
            data.close()
        return data if found is None else found

    def decode(self, data):
        """{path: contents} of a pair (path, contents), of several, or of a dict."""
        pairs = data.items() if isinstance(data, dict) else [data] if isinstance(data[0], str) else data
        return {path: self._decoded(path, contents) for path, contents in pairs}

    def _decoded(self, path, contents):
        if path.startswith("_"):  # names of the sample, not of a file
            return contents.decode("utf-8") if isinstance(contents, bytes) else contents
        return self.decode1(self.key_fn(path), contents)

    def __call__(self, data):
        return self.decode(data)
