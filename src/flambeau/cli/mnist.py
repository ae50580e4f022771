"""MNIST from a folder of the user's: its four idx files, looked for, downloaded if asked, checked, read."""

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from .._files.replacing import replacing
from .errors import UserError, reason
from .idx import read_idx
from .networks import MnistNet
from .task import Settings, make_task

SCALE = 255
DEFAULTS = Settings(epochs=3, batch_size=128, lr=0.01, seed=0)
SOURCE = "https://ossci-datasets.s3.amazonaws.com/mnist/"
CHECKSUMS = {  # md5 of the published files: what a download must have
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}


def mnist_task(folder, download=False):
    folder = Path(folder)
    if download:
        fetch_missing(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: --data takes the folder with MNIST's four idx files "
                        "(--download fetches them into it)")
    train_images, train_labels, test_images, test_labels = (find(folder, name) for name in CHECKSUMS)
    return make_task("mnist", read_pair(train_images, train_labels), read_pair(test_images, test_labels),
                     SCALE, DEFAULTS)


def find(folder, name):
    """The file with or without `.gz`."""
    for path in (folder / name, folder / name.removesuffix(".gz")):
        if path.is_file():
            return path
    missing = [n for n in CHECKSUMS if not (folder / n).is_file() and not (folder / n.removesuffix(".gz")).is_file()]
    raise UserError(f"{folder}: {', '.join(missing)} not there (--download fetches what is missing)")


def read_pair(images_path, labels_path):
    """Pictures and labels that belong together: as many labels as pictures, all of them 0 to 9."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    size = MnistNet.size
    if images.ndim != 3 or images.shape[1:] != (size, size):
        raise UserError(f"{images_path}: expected pictures of {size} x {size}, got sizes {list(images.shape)}")
    if labels.ndim != 1:
        raise UserError(f"{labels_path}: expected labels, got sizes {list(labels.shape)}")
    if len(images) != len(labels):
        raise UserError(f"{labels_path}: {len(labels)} labels, but {images_path.name} has {len(images)} pictures")
    if len(images) == 0:
        raise UserError(f"{images_path}: it holds no pictures")
    if labels.max() > 9:
        raise UserError(f"{labels_path}: label {labels.max()} at {int(labels.argmax())}: labels are 0 to 9")
    return images, labels


def fetch_missing(folder):
    """Download what is not there. A file appears under its name only when its checksum is the published one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {reason(error)}") from error
    for name, checksum in CHECKSUMS.items():
        path = folder / name
        if path.is_file() or path.with_suffix("").is_file():
            continue
        try:
            with replacing(path) as file:
                found = download(SOURCE + name, file)
                if found != checksum:
                    raise UserError(f"{path}: the download is damaged (md5 {found}, published {checksum}): try again")
        except OSError as error:  # urllib's errors are OSErrors
            why = getattr(error, "reason", None) or reason(error)
            raise UserError(f"{path}: download from {SOURCE + name} failed: {why}") from error


def download(url, file):
    """Write what stands at `url` to `file`; the md5 of it."""
    digest = hashlib.md5(usedforsecurity=False)
    with urllib.request.urlopen(url, timeout=30) as answer:
        total = int(answer.headers.get("Content-Length") or 0) or None
        name = url.rpartition("/")[2].split(".")[0]
        with tqdm(total=total, unit="B", unit_scale=True, desc=name, disable=None) as bar:
            while block := answer.read(1 << 16):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
    return digest.hexdigest()
