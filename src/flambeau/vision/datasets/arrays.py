"""Data sets that are files of numbers: SVHN, STL-10, USPS, Semeion, PCAM, FER-2013, Moving MNIST."""

import bz2
import csv
import importlib
from pathlib import Path

from ... import from_numpy
from ..._shown import shown
from ..transforms._kinds import pillow
from ._formats import _numpy
from .utils import (
    check_integrity,
    download_and_extract_archive,
    download_file_from_google_drive,
    download_url,
    extract_archive,
    need,
    verify_str_arg,
)
from .vision import VisionDataset


class _Arrays(VisionDataset):
    """`data` [n, height, width] or [n, channels, height, width] and `targets`."""

    def __getitem__(self, index):
        rows = self.data[index]
        picture = pillow(type(self).__name__).fromarray(rows.transpose(1, 2, 0) if rows.ndim == 3 else rows)
        return self._changed(picture, int(self.targets[index]))

    def __len__(self):
        return len(self.data)


def _matlab(path):
    """The arrays of a .mat file; SciPy reads them."""
    try:
        reader = importlib.import_module("scipy.io")
    except ImportError:
        raise ImportError(f"{Path(path).name} is a file of MATLAB, which SciPy reads: pip install scipy") from None
    return reader.loadmat(str(path))


class SVHN(_Arrays):
    """Digits of house numbers, 32 x 32 (Netzer et al. 2011); reading needs SciPy."""

    _URL = "http://ufldl.stanford.edu/housenumbers/"
    split_list = {name: [f"{_base}{name}_32x32.mat", f"{name}_32x32.mat", md5] for _base, name, md5 in (
        (_URL, "train", "e26dedcc434d2e4c54c9b2d4a06d8373"), (_URL, "test", "eb5a983be6a315427106f1b164d9cef3"),
        (_URL, "extra", "a93ce644f1a588dc4d68dda5feec44a7"))}

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", tuple(self.split_list))
        url, self.filename, md5 = self.split_list[split]
        if download:
            download_url(url, self.root, self.filename, md5)
        need(check_integrity(Path(self.root, self.filename), md5), "SVHN", self.root)
        found = _matlab(Path(self.root, self.filename))
        self.labels = found["y"].astype("int64").squeeze() % 10  # a zero is written as 10
        self.data = found["X"].transpose(3, 2, 0, 1)

    @property
    def targets(self):
        """The digits."""
        return self.labels

    def extra_repr(self):
        return f"Split: {self.split}"


class STL10(VisionDataset):
    """13,000 labelled and 100,000 other pictures of 96 x 96 (Coates et al. 2011)."""

    base_folder, filename = "stl10_binary", "stl10_binary.tar.gz"
    url = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
    tgz_md5 = "91f7769df0f17e558f3565bffb0c7dfb"
    class_names_file, folds_list_file = "class_names.txt", "fold_indices.txt"
    train_list = [["train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"],
                  ["train_y.bin", "5a34089d4802c674881badbb80307741"],
                  ["unlabeled_X.bin", "5242ba1fed5e4be9e1e742405eb56ca4"]]
    test_list = [["test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"], ["test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"]]
    splits = ("train", "train+unlabeled", "unlabeled", "test")

    def __init__(self, root, split="train", folds=None, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split, self.folds = verify_str_arg(split, "split", self.splits), folds
        if folds is not None and not (isinstance(folds, int) and 0 <= folds < 10):
            raise ValueError(f"STL10: folds must be between 0 and 9 or None, got {shown(folds)}")
        if download and not self._check_integrity():
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)
        need(self._check_integrity(), "STL10", self._file(""))
        numpy = _numpy()
        parts = [self._read(part, numpy) for part in split.split("+")]
        self.data, self.labels = (numpy.concatenate(column) for column in zip(*parts, strict=True))
        names = self._file(self.class_names_file)
        self.classes = names.read_text().split() if names.exists() else None

    def _file(self, name):
        return Path(self.root, self.base_folder, name)

    def _check_integrity(self):
        return all(check_integrity(self._file(name), md5) for name, md5 in [*self.train_list, *self.test_list])

    def _read(self, part, numpy):
        """(pictures, labels) of one part; -1 where there is none."""
        rows = numpy.fromfile(self._file(f"{part}_X.bin"), numpy.uint8)
        rows = rows.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        labels = self._file(f"{part}_y.bin")
        known = part != "unlabeled"
        found = numpy.fromfile(labels, numpy.uint8).astype(int) - 1 if known else numpy.full(len(rows), -1)
        if part == "train" and self.folds is not None:
            lines = self._file(self.folds_list_file).read_text().splitlines()
            chosen = numpy.array(lines[self.folds].split(), dtype=int)
            rows, found = rows[chosen], found[chosen]
        return rows, found

    def __getitem__(self, index):
        picture = pillow("STL10").fromarray(self.data[index].transpose(1, 2, 0))
        return self._changed(picture, int(self.labels[index]))

    def __len__(self):
        return len(self.data)

    def extra_repr(self):
        return f"Split: {self.split}"


class USPS(_Arrays):
    """9,298 digits of envelopes, 16 x 16 (Hull 1994)."""

    _URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
    split_list = {"train": [f"{_URL}usps.bz2", "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"],
                  "test": [f"{_URL}usps.t.bz2", "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"]}

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        url, name, md5 = self.split_list["train" if train else "test"]
        if download:
            download_url(url, self.root, name, md5)
        need(check_integrity(Path(self.root, name), md5), "USPS", self.root)
        numpy = _numpy()
        with bz2.open(Path(self.root, name), "rt") as file:
            rows = [line.split() for line in file]
        values = numpy.array([[float(entry.partition(":")[2]) for entry in row[1:]] for row in rows])
        self.data = ((values.reshape(-1, 16, 16) + 1) / 2 * 255).astype(numpy.uint8)
        self.targets = [int(row[0]) - 1 for row in rows]


class SEMEION(_Arrays):
    """1,593 handwritten digits of 16 x 16 in black and white (Buscema 1998)."""

    url = "http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data"
    filename, md5_checksum = "semeion.data", "cb545d371d2ce14ec121470795a77432"

    def __init__(self, root, transform=None, target_transform=None, download=True):
        super().__init__(root, transform=transform, target_transform=target_transform)
        if download:
            download_url(self.url, self.root, self.filename, self.md5_checksum)
        need(check_integrity(Path(self.root, self.filename), self.md5_checksum), "SEMEION", self.root)
        numpy = _numpy()
        rows = numpy.loadtxt(Path(self.root, self.filename))
        self.data = (rows[:, :256] * 255).astype(numpy.uint8).reshape(-1, 16, 16)
        self.labels = self.targets = rows[:, 256:266].argmax(1)


class PCAM(VisionDataset):
    """327,680 patches of lymph nodes, 96 x 96 (Veeling et al. 2018); reading needs h5py."""

    _FILES = {
        "train": (("camelyonpatch_level_2_split_train_x.h5", "1Ka0XfEMiwgCYPdTI-vv6eUElOBnKFKQ2",
                   "1571f514728f59376b705fc836ff4b63"),
                  ("camelyonpatch_level_2_split_train_y.h5", "1269yhu3pZDP8UYFQs-NYs3FPwuK-nGSG",
                   "35c2d7259d906cfc8143347bb8e05be7")),
        "test": (("camelyonpatch_level_2_split_test_x.h5", "1qV65ZqZvWzuIVthK8eVDhIwrbnsJdbg_",
                  "d8c2d60d490dbd479f8199bdfa0cf6ec"),
                 ("camelyonpatch_level_2_split_test_y.h5", "17BHrSrwWKjYsOgTMmoqrIjDy6Fa2o_gP",
                  "60a7035772fbdb7f34eb86d4420cf66a")),
        "val": (("camelyonpatch_level_2_split_valid_x.h5", "1hgshYGWK8V-eGRy8LToWJJgDU_rXWVJ3",
                 "d5b63470df7cfa627aeec8b9dc0c066e"),
                ("camelyonpatch_level_2_split_valid_y.h5", "1bH8ZRbhSVAhScTS0p9-ZzGnX91cHT3uO",
                 "2b85f58b927af9964a4c15b8f7e8f179"))}

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        try:
            self._h5py = importlib.import_module("h5py")
        except ImportError:
            raise ImportError("PCAM: its files are HDF5, which h5py reads: pip install h5py") from None
        self._folder = Path(self.root, "pcam")
        files = self._FILES[verify_str_arg(split, "split", tuple(self._FILES))]
        for name, drive, md5 in files:
            packed = self._folder / f"{name}.gz"
            if download and not (self._folder / name).exists():
                download_file_from_google_drive(drive, self._folder, packed.name, md5)
                extract_archive(packed)
        need(all((self._folder / name).exists() for name, _, _ in files), "PCAM", self._folder)
        self._x, self._y = (self._folder / name for name, _, _ in files)

    def __getitem__(self, index):
        with self._h5py.File(self._x) as file:
            picture = pillow("PCAM").fromarray(file["x"][index]).convert("RGB")
        with self._h5py.File(self._y) as file:
            return self._changed(picture, int(file["y"][index, 0, 0, 0]))

    def __len__(self):
        with self._h5py.File(self._x) as file:
            return file["x"].shape[0]


class FER2013(VisionDataset):
    """35,887 faces of 48 x 48 with one of seven expressions (Goodfellow et al. 2013)."""

    _RESOURCES = {"train": ("train.csv", "3f0dfb3d3fd99c811a1299cb947e3131"),
                  "test": ("test.csv", "b02c2298636a634e8c2faabbf3ea9a23"),
                  "fer": ("fer2013.csv", "f8428a1edbd21e88f42c73edd2a14f95"),
                  "icml": ("icml_face_data.csv", "b114b9e04e6949e5fe8b6a98b3892b1d")}
    _USES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}

    def __init__(self, root, split="train", transform=None, target_transform=None):
        self._split = verify_str_arg(split, "split", ("train", "test"))
        super().__init__(root, transform=transform, target_transform=target_transform)
        base = Path(self.root, "fer2013")
        known = [(base / self._RESOURCES[key][0], self._RESOURCES[key][1]) for key in ("icml", "fer", split)]
        found = next((path for path, md5 in known if check_integrity(path, md5)), None)
        need(found is not None, "FER2013", base)
        whole = found.name != f"{split}.csv"
        with open(found, newline="") as file:
            rows = [{name.strip(): value for name, value in row.items()} for row in csv.DictReader(file)]
        self._rows = [row for row in rows if not whole or row["Usage"] in self._USES[split]]

    def __getitem__(self, index):
        numpy, row = _numpy(), self._rows[index]
        pixels = numpy.array(row["pixels"].split(), dtype=numpy.uint8).reshape(48, 48)
        target = int(row["emotion"]) if "emotion" in row else None
        return self._changed(pillow("FER2013").fromarray(pixels), target)

    def __len__(self):
        return len(self._rows)

    def extra_repr(self):
        return f"split={self._split}"


class MovingMNIST(VisionDataset):
    """10,000 films of 20 frames in which two digits move (Srivastava et al. 2015): uint8 [frames, 1, 64, 64]."""

    _URL = "http://www.cs.toronto.edu/~nitish/unsupervised_video/mnist_test_seq.npy"

    def __init__(self, root, split=None, split_ratio=10, download=False, transform=None):
        super().__init__(root, transform=transform)
        base = Path(self.root, type(self).__name__)
        file = base / "mnist_test_seq.npy"
        if download and not file.exists():
            download_url(self._URL, base)
        need(file.exists(), "MovingMNIST", base)
        self.split, self.split_ratio = split, split_ratio
        data = from_numpy(_numpy().load(file))  # [frames, films, 64, 64]
        if split is not None:
            verify_str_arg(split, "split", ("train", "test"))
            if not 1 <= split_ratio <= 19:
                raise ValueError(f"MovingMNIST: split_ratio must be between 1 and 19, got {shown(split_ratio)}")
            data = data[:split_ratio] if split == "train" else data[split_ratio:]
        self.data = data.transpose(0, 1).unsqueeze(2).contiguous()

    def __getitem__(self, index):
        film = self.data[index]
        return film if self.transform is None else self.transform(film)

    def __len__(self):
        return len(self.data)
