"""Files of data sets: downloads that are checked and whole, archives that stay in their folder."""

import bz2
import gzip
import hashlib
import importlib
import lzma
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

from ..._shown import shown

USER_AGENT = "flambeau-vision"
_BLOCK = 1 << 18
_OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tbz2", ".zip")


def calculate_md5(fpath, chunk_size=1024 * 1024):
    """The MD5 checksum of a file."""
    found = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while block := file.read(chunk_size):
            found.update(block)
    return found.hexdigest()


def check_md5(fpath, md5, **kwargs):
    """Whether a file has this checksum."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath, md5=None):
    """Whether a file is there and, if a checksum is given, has it."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(url, root, filename=None, md5=None, max_redirect_hops=3):
    """Fetch a file into `root`, unless it is there with its checksum.

    It is written beside its place and moved there when it is whole, so that a broken download leaves nothing behind.
    """
    root = Path(root).expanduser()
    target = root / (filename or Path(urllib.parse.urlparse(url).path).name)
    if check_integrity(target, md5):
        return
    root.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkstemp(dir=root, prefix=target.name, suffix=".part")[1])
    try:
        _fetch(url, part, target.name, max_redirect_hops)
        if md5 is not None and not check_md5(part, md5):
            raise RuntimeError(f"download_url: {url} gave a file with the MD5 {calculate_md5(part)}, expected {md5}; "
                               "it was not kept")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class _Hops(urllib.request.HTTPRedirectHandler):
    def __init__(self, most):
        self.max_redirections = most


def _fetch(url, part, name, hops):
    opener = urllib.request.build_opener(_Hops(max(hops, 0)))
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    try:
        with opener.open(request, timeout=60) as answer, open(part, "wb") as file:
            total = int(answer.headers.get("Content-Length") or 0) or None
            bar = importlib.import_module("tqdm").tqdm
            with bar(total=total, unit="B", unit_scale=True, desc=name, leave=False) as progress:
                while block := answer.read(_BLOCK):
                    file.write(block)
                    progress.update(len(block))
    except urllib.error.URLError as error:
        raise urllib.error.URLError(f"{url} could not be fetched: {error.reason}") from None


def download_file_from_google_drive(file_id, root, filename=None, md5=None):
    """Fetch a file that is shared on Google Drive."""
    url = f"https://drive.usercontent.google.com/download?id={file_id}&export=download&confirm=t"
    download_url(url, root, filename or file_id, md5)


def _inside(folder, name):
    """The path of a member, or a ValueError if it would lie outside of the folder."""
    folder = Path(folder).resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise ValueError(f"extract_archive: the member {shown(name)} would be written outside of {shown(str(folder))}; "
                         "nothing was extracted from there")
    return path


def _unpack_tar(source, folder):
    with tarfile.open(source) as archive:
        for member in archive.getmembers():
            _inside(folder, member.name)
        archive.extractall(folder, filter="data")


def _unpack_zip(source, folder):
    with zipfile.ZipFile(source) as archive:
        for name in archive.namelist():
            _inside(folder, name)
        archive.extractall(folder)


def extract_archive(from_path, to_path=None, remove_finished=False):
    """Unpack an archive, or one compressed file, into a folder; where it lies unless `to_path` is given."""
    source = Path(from_path)
    folder = Path(to_path) if to_path is not None else source.parent
    name = source.name.lower()
    if name.endswith(".zip"):
        _unpack_zip(source, folder)
    elif name.endswith(_ARCHIVES):
        _unpack_tar(source, folder)
    elif source.suffix.lower() in _OPENERS:
        folder = Path(to_path) if to_path is not None else source.with_suffix("")
        folder = folder / source.stem if folder.is_dir() else folder
        with _OPENERS[source.suffix.lower()](source, "rb") as read, open(folder, "wb") as write:
            shutil.copyfileobj(read, write)
    else:
        raise RuntimeError(f"extract_archive: {shown(source.name)} is of no known kind: "
                           f"{', '.join((*_ARCHIVES, *_OPENERS))}")
    if remove_finished:
        source.unlink()
    return str(folder)


def download_and_extract_archive(url, download_root, extract_root=None, filename=None, md5=None, remove_finished=False):
    """Fetch an archive and unpack it."""
    download_root = Path(download_root).expanduser()
    filename = filename or Path(urllib.parse.urlparse(url).path).name
    download_url(url, download_root, filename, md5)
    extract_archive(download_root / filename, extract_root or download_root, remove_finished)


def list_dir(root, prefix=False):
    """The folders in a folder."""
    found = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    return [os.path.join(root, name) for name in found] if prefix else found


def list_files(root, suffix, prefix=False):
    """The files in a folder whose names end so."""
    found = [entry.name for entry in os.scandir(root) if entry.is_file() and entry.name.endswith(suffix)]
    return [os.path.join(root, name) for name in found] if prefix else found


def verify_str_arg(value, arg=None, valid_values=None, custom_msg=None):
    """The text, if it is one of those allowed."""
    if not isinstance(value, str):
        raise ValueError(f"{arg or 'the argument'} must be a str, got {type(value).__name__}")
    if valid_values is not None and value not in valid_values:
        raise ValueError(custom_msg or f"{arg or 'the argument'} must be one of "
                                       f"{', '.join(map(repr, valid_values))}, got {shown(value)}")
    return value


def need(found, what, where):
    """RuntimeError that says how to get the files, unless they are there."""
    if not found:
        raise RuntimeError(f"{what}: its files are not in {shown(str(where))}, or are not whole; download=True fetches "
                           "them where they may be downloaded")
