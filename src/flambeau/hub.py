"""Weights from the network, checked and stored in one place; models from a local folder's `hubconf.py`."""

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urlparse

from ._files.replacing import replacing
from ._shown import shown
from .serialization import load as _load_file

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # resnet18-bfd8deac.pth
_folder = [None]
_BLOCK = 128 * 1024


def _get_torch_home():
    """The folder of everything that is kept: $TORCH_HOME, else ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    """Where downloads are kept: what set_dir said, else $TORCH_HOME/hub, else ~/.cache/torch/hub.

    >>> import flambeau
    >>> flambeau.hub.set_dir("/tmp/models")
    >>> flambeau.hub.get_dir()
    '/tmp/models'
    """
    return os.path.join(_get_torch_home(), "hub") if _folder[0] is None else _folder[0]


def set_dir(d):
    """Keeps downloads in this folder from now on."""
    _folder[0] = os.path.expanduser(os.fspath(d))


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads to `dst`, which appears whole or not at all; its SHA-256 must begin with `hash_prefix`."""
    dst = os.path.expanduser(os.fspath(dst))
    digest = hashlib.sha256() if hash_prefix is not None else None
    request = urllib.request.Request(url, headers={"User-Agent": "flambeau"})
    with replacing(dst) as file, urllib.request.urlopen(request) as answer:
        size = int(answer.headers.get("Content-Length") or 0)
        with _bar(size, progress) as advance:
            while block := answer.read(_BLOCK):
                file.write(block)
                if digest:
                    digest.update(block)
                advance(len(block))
        if size and file.tell() != size:
            raise RuntimeError(f"download_url_to_file: {url} ended after {file.tell()} of {size} bytes")
        if digest and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f"the file's hash {digest.hexdigest()} does not begin with {hash_prefix}: it is another "
                               "file, or damaged")


@contextlib.contextmanager
def _bar(size, progress):
    """A function to be told of bytes; shows a progress bar where tqdm is installed."""
    if not progress or importlib.util.find_spec("tqdm") is None:
        yield lambda count: None
        return
    tqdm = importlib.import_module("tqdm").tqdm
    with tqdm(total=size or None, unit="B", unit_scale=True, unit_divisor=1024) as bar:
        yield bar.update


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
                             weights_only=False):
    """The state_dict at a URL: downloaded once to `model_dir` (hub/checkpoints), then read from there.

    check_hash: the file name ends in `-<hash>.pth`, the beginning of its SHA-256. weights_only: as in `load`; no
    code of the file runs either way.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) == 1 and not members[0].is_dir():  # an older form: the file in a zip of its own
                inner = os.path.join(folder, os.path.basename(members[0].filename))
                Path(inner).write_bytes(archive.read(members[0]))
                path = inner
    return _load_file(path, map_location=map_location, weights_only=weights_only)


# --- models of a folder -----------------------------------------------------------------------------------------------

def _entries(repo_or_dir, source):
    """The module `hubconf.py` of a folder."""
    if source not in ("github", "local"):
        raise ValueError(f"hub: source must be 'github' or 'local', got {shown(source)}")
    if source == "github":
        raise NotImplementedError("hub: programs are not downloaded and run; get the repository yourself and use "
                                  f"source='local' with its folder (asked for: {repo_or_dir})")
    folder = os.path.expanduser(os.fspath(repo_or_dir))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"hub: {path} does not exist")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module, model):
    if not isinstance(model, str):
        raise ValueError(f"hub: model is the name of a function in hubconf.py, a str, got {type(model).__name__}")
    found = getattr(module, model, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True, source="local"):
    """The names of the models that a folder's hubconf.py offers."""
    module = _entries(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check", source="local"):
    """The documentation of one of them."""
    return _entry(_entries(github, source), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    """`model(*args, **kwargs)` of a folder's hubconf.py (source="local")."""
    return _entry(_entries(repo_or_dir, source), model)(*args, **kwargs)


def __getattr__(name):
    if name == "tqdm":  # packages take it from here
        return importlib.import_module("tqdm").tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
