"""CIFAR-10 and CIFAR-100: batches of pictures of 32 x 32, as pickles of Python or as plain binary files."""

import importlib
import pickle
from pathlib import Path

from ..._shown import shown
from ..transforms._kinds import pillow
from ._formats import _numpy
from .utils import check_integrity, download_and_extract_archive, need
from .vision import VisionDataset

NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()
#: all that the published pickles are made of
_ALLOWED = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"),
            ("numpy", "dtype"), ("_codecs", "encode")}


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"a batch of CIFAR needs no {shown(f'{module}.{name}')}; it was not read")
        return super().find_class(module, name)


def read_pickle(path):
    """The dict in a python batch; a file that asks for anything but arrays is refused."""
    with open(path, "rb") as file:
        return _Reader(file, encoding="latin1").load()


def read_binary(path, labels=1):
    """(pictures [n, 32, 32, 3], last labels) of a binary batch: label bytes, then 3072 bytes of red, green, blue."""
    numpy = _numpy()
    opened = importlib.import_module("gzip").open if str(path).endswith(".gz") else open
    with opened(path, "rb") as file:
        data = numpy.frombuffer(file.read(), numpy.uint8)
    row = labels + 3072
    if len(data) == 0 or len(data) % row:
        raise ValueError(f"{shown(Path(path).name)} has {len(data)} bytes, which are not whole rows of {row}")
    data = data.reshape(-1, row)
    return data[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), data[:, labels - 1].tolist()


class CIFAR10(VisionDataset):
    """60,000 pictures of 10 classes (Krizhevsky 2009)."""

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename, tgz_md5 = "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"
    train_list = [["data_batch_1", "c99cafc152244af753f735de768cd75f"],
                  ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
                  ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
                  ["data_batch_4", "634d18415352ddfa80567beed471001a"],
                  ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"]]
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = {"filename": "batches.meta", "key": "label_names", "md5": "5ff9c542aee3614f3951f8cda6e48888"}
    _key = "labels"

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        need(self._check_integrity(), type(self).__name__, Path(self.root, self.base_folder))
        numpy = _numpy()
        entries = [read_pickle(Path(self.root, self.base_folder, name))
                   for name, _ in (self.train_list if train else self.test_list)]
        rows = numpy.vstack([entry["data"] for entry in entries])
        self.data = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets = [label for entry in entries for label in entry[self._key]]
        meta = read_pickle(Path(self.root, self.base_folder, self.meta["filename"]))
        self.classes = meta[self.meta["key"]]
        self.class_to_idx = {name: k for k, name in enumerate(self.classes)}

    def _check_integrity(self):
        files = [*self.train_list, *self.test_list, (self.meta["filename"], self.meta["md5"])]
        return all(check_integrity(Path(self.root, self.base_folder, name), md5) for name, md5 in files)

    def download(self):
        """Fetch the archive, unless the batches are there."""
        if not self._check_integrity():
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)

    def __getitem__(self, index):
        return self._changed(pillow("CIFAR10").fromarray(self.data[index]), self.targets[index])

    def __len__(self):
        return len(self.data)

    def extra_repr(self):
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """60,000 pictures of 100 classes (Krizhevsky 2009)."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename, tgz_md5 = "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}
    _key = "fine_labels"
