"""MNIST and what has its form: files of the IDX format, one of pictures and one of labels."""

import gzip
import lzma
import shutil
from pathlib import Path
from urllib.error import URLError

from ... import float32, float64, frombuffer, int8, int16, int32, tensor, uint8
from ..._shown import shown
from ..transforms._kinds import pillow
from .utils import check_integrity, download_url, extract_archive, need, verify_str_arg
from .vision import VisionDataset

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}
_DTYPES = {8: uint8, 9: int8, 11: int16, 12: int32, 13: float32, 14: float64}
_DIGITS = [f"{k} - {name}" for k, name in enumerate("zero one two three four five six seven eight nine".split())]
_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _sums(text):
    return [(f"{name}.gz", md5) for name, md5 in zip(_FILES, text.split(), strict=True)]


def read_idx(path):
    """The array in an IDX file, which may be compressed; the format's numbers have their highest byte first."""
    path = Path(path)
    with _OPENERS.get(path.suffix, open)(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise ValueError(f"{shown(path.name)} is no IDX file: it begins with {data[:4].hex()}")
    dtype, dims = _DTYPES[data[2]], data[3]
    shape = [int.from_bytes(data[4 + 4 * k:8 + 4 * k], "big") for k in range(dims)]
    count = 1
    for length in shape:
        count *= length
    start = 4 + 4 * dims
    if len(data) != start + count * dtype.itemsize:
        raise ValueError(f"{shown(path.name)} says {shape}, which takes {count * dtype.itemsize} bytes, and has "
                         f"{len(data) - start}")
    if count == 0:
        return tensor([], dtype=dtype).view(shape)
    body = frombuffer(bytearray(data), dtype=uint8, offset=start)
    return (body.view(-1, dtype.itemsize).flip(1).contiguous().view(dtype) if dtype.itemsize > 1 else body).view(shape)


class MNIST(VisionDataset):
    """70,000 handwritten digits of 28 x 28 (LeCun, Cortes, Burges)."""

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = _sums("f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
                      "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c")
    classes = _DIGITS

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        need(self._check_exists(), type(self).__name__, self.raw_folder)
        self.data, self.targets = self._load_data()

    @property
    def raw_folder(self):
        """Where the files lie."""
        return str(Path(self.root, type(self).__name__, "raw"))

    @property
    def class_to_idx(self):
        """{class: number}."""
        return {name: k for k, name in enumerate(self.classes)}

    def _path(self, name):
        """The unpacked file, or the compressed one."""
        plain = Path(self.raw_folder, name).with_suffix("")
        return plain if plain.exists() else Path(self.raw_folder, name)

    def _names(self):
        return [name for name, _ in self.resources]

    def _check_exists(self):
        return all(self._path(name).exists() for name in self._names())

    def _load_data(self):
        images, labels = self._names()[:2] if self.train else self._names()[2:]
        return read_idx(self._path(images)), read_idx(self._path(labels)).long()

    def download(self):
        """Fetch what is not there yet."""
        if self._check_exists():
            return
        for name, md5 in self.resources:
            self._from_a_mirror(name, md5)
            extract_archive(Path(self.raw_folder, name), self.raw_folder)

    def _from_a_mirror(self, name, md5):
        errors = []
        for mirror in self.mirrors:
            try:
                return download_url(f"{mirror}{name}", self.raw_folder, name, md5)
            except URLError as error:
                errors.append(str(error.reason))
        raise RuntimeError(f"{type(self).__name__}: {name} could not be fetched: {'; '.join(errors)}")

    def __getitem__(self, index):
        picture = pillow("MNIST").fromarray(self.data[index].numpy())
        return self._changed(picture, int(self.targets[index]))

    def __len__(self):
        return len(self.data)

    def extra_repr(self):
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """70,000 pictures of clothes in the form of MNIST (Xiao et al. 2017)."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = _sums("8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
                      "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310")
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class KMNIST(MNIST):
    """70,000 cursive Japanese characters in the form of MNIST (Clanuwat et al. 2018)."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = _sums("bdb82020997e1d708af4cf47b453dcf7 e144d726b3acfaa3e44228e80efcd344 "
                      "5c965bf0a639b31b8f53240b1b52f4d7 7320c461ea6c1c855c0b718fb2a4b134")
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


_LETTERS = [chr(k) for k in range(ord("a"), ord("z") + 1)]
_ALL = [str(k) for k in range(10)] + [letter.upper() for letter in _LETTERS] + _LETTERS
_MERGED = [name for name in _ALL if name not in "cijklmopsuvwxyz"]


class EMNIST(MNIST):
    """Digits and letters in the form of MNIST (Cohen et al. 2017); `split` says which classes."""

    url, md5 = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict = {"byclass": _ALL, "bymerge": _MERGED, "balanced": _MERGED, "letters": ["N/A", *_LETTERS],
                          "digits": _ALL[:10], "mnist": _ALL[:10]}

    def __init__(self, root, split, **kwargs):
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _names(self):
        return [f"emnist-{self.split}-{part}-{kind}-ubyte.gz"
                for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")]

    def download(self):
        """Fetch the archive of all splits, unless this one is there."""
        if self._check_exists():
            return
        download_url(self.url, self.raw_folder, "gzip.zip", self.md5)
        extract_archive(Path(self.raw_folder, "gzip.zip"), self.raw_folder)
        for file in Path(self.raw_folder, "gzip").glob("*.gz"):
            shutil.move(file, Path(self.raw_folder, file.name))
        shutil.rmtree(Path(self.raw_folder, "gzip"))


_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"


class QMNIST(MNIST):
    """MNIST with all 60,000 test pictures and where each digit comes from (Yadav and Bottou 2019)."""

    mirrors = [_QMNIST]
    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}
    files = {
        "train": [("qmnist-train-images-idx3-ubyte.gz", "ed72d4157d28c017586c42bc6afe6370"),
                  ("qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4")],
        "test": [("qmnist-test-images-idx3-ubyte.gz", "1394631089c404de565df7b7aeaf9412"),
                 ("qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa")],
        "nist": [("xnist-images-idx3-ubyte.xz", "7f124b3b8ab81486c9d8c2749c17f834"),
                 ("xnist-labels-idx2-int.xz", "5ed0e788978e45d4a8bd4b7caec3d79d")]}

    def __init__(self, root, what=None, compat=True, train=True, **kwargs):
        what = ("train" if train else "test") if what is None else what
        self.what, self.compat = verify_str_arg(what, "what", tuple(self.subsets)), compat
        super().__init__(root, train, **kwargs)

    def _names(self):
        return [name for name, _ in self.files[self.subsets[self.what]]]

    def download(self):
        """Fetch the files of this part."""
        for name, md5 in self.files[self.subsets[self.what]]:
            if not check_integrity(self._path(name)):
                self._from_a_mirror(name, md5)

    def _load_data(self):
        images, labels = (read_idx(self._path(name)) for name in self._names())
        part = {"test10k": slice(0, 10000), "test50k": slice(10000, None)}.get(self.what, slice(None))
        return images[part], labels.long()[part]

    def __getitem__(self, index):
        picture = pillow("QMNIST").fromarray(self.data[index].numpy())
        target = self.targets[index]
        return self._changed(picture, int(target[0]) if self.compat else target)

    def extra_repr(self):
        return f"Split: {self.what}"
