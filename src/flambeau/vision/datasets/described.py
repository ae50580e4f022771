"""Pictures with sentences, patches and databases: Flickr8k, Flickr30k, the Photo Tour patches, LSUN."""

import glob
import importlib
import io
import os
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

from ... import from_numpy, load, save, tensor
from ..._shown import shown
from ..transforms._kinds import pillow
from ._formats import _numpy
from .folder import default_loader
from .utils import download_url, extract_archive, need, verify_str_arg
from .vision import VisionDataset


class _Captioned(VisionDataset):
    """Pictures with some sentences each."""

    def __init__(self, root, ann_file, transform=None, target_transform=None, loader=default_loader):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.ann_file, self.loader = os.path.expanduser(ann_file), loader
        self.annotations = self._read()
        self.ids = sorted(self.annotations)

    def _path(self, name):
        return name

    def __getitem__(self, index):
        name = self.ids[index]
        return self._changed(self.loader(self._path(name)), self.annotations[name])

    def __len__(self):
        return len(self.ids)


class _Flickr8kPage(HTMLParser):
    """A page of tables: a link to each photograph, then its sentences as a list."""

    def __init__(self, root):
        super().__init__()
        self._root, self._picture, self._said = root, None, None
        self.found = defaultdict(list)

    def handle_starttag(self, tag, attributes):
        if tag == "li":
            self._said = []

    def handle_data(self, data):
        text = data.strip()
        if self._said is not None:
            self._said.append(text)
        elif text.startswith(("http://", "https://")):
            number = [part for part in text.split("/") if part][-1]
            paths = glob.glob(os.path.join(self._root, f"{glob.escape(number)}_*.jpg"))
            self._picture = paths[0] if paths else None

    def handle_endtag(self, tag):
        if tag == "li" and self._said is not None:
            if self._picture is not None:
                self.found[self._picture].append(" ".join(self._said).strip())
            self._said = None


class Flickr8k(_Captioned):
    """8,092 photographs with five sentences each (Hodosh et al. 2013); `ann_file` is the page of sentences."""

    def _read(self):
        page = _Flickr8kPage(self.root)
        page.feed(Path(self.ann_file).read_text())
        return dict(page.found)


class Flickr30k(_Captioned):
    """31,783 photographs with five sentences each (Young et al. 2014); `ann_file` has them as name#number and text."""

    def _read(self):
        found = defaultdict(list)
        for line in Path(self.ann_file).read_text().splitlines():
            if line.strip():
                name, sentence = line.strip().split("\t", 1)
                found[name[:-2]].append(sentence)
        return dict(found)

    def _path(self, name):
        return os.path.join(self.root, name)


class PhotoTour(VisionDataset):
    """Patches of 64 x 64 around points of buildings seen from many places (Winder and Brown 2007).

    For training a patch; for the test two patches, and whether they show the same point.
    """

    urls = {name: [f"http://{page}/{name}.zip", f"{name}.zip", md5] for name, page, md5 in (
        ("notredame_harris", "matthewalunbrown.com/patchdata", "69f8c90f78e171349abdf0307afefe4d"),
        ("yosemite_harris", "matthewalunbrown.com/patchdata", "a73253d1c6fbd3ba2613c45065c00d46"),
        ("liberty_harris", "matthewalunbrown.com/patchdata", "c731fcfb3abb4091110d0ae8c7ba182c"),
        ("notredame", "icvl.ee.ic.ac.uk/vbalnt", "509eda8535847b8c0a90bbb210c83484"),
        ("yosemite", "icvl.ee.ic.ac.uk/vbalnt", "533b2e8eb7ede31be40abc317b2fd4f0"),
        ("liberty", "icvl.ee.ic.ac.uk/vbalnt", "fdd9152f138ea5ef2091746689176414"))}
    means = {"notredame": 0.4854, "yosemite": 0.4844, "liberty": 0.4437, "notredame_harris": 0.4854,
             "yosemite_harris": 0.4844, "liberty_harris": 0.4437}
    stds = {"notredame": 0.1864, "yosemite": 0.1818, "liberty": 0.2019, "notredame_harris": 0.1864,
            "yosemite_harris": 0.1818, "liberty_harris": 0.2019}
    lens = {"notredame": 468159, "yosemite": 633587, "liberty": 450092, "liberty_harris": 379587,
            "yosemite_harris": 450912, "notredame_harris": 325295}
    image_ext, info_file, matches_files = "bmp", "info.txt", "m50_100000_100000_0.txt"

    def __init__(self, root, name, train=True, transform=None, download=False):
        super().__init__(root, transform=transform)
        self.name, self.train = verify_str_arg(name, "name", tuple(self.urls)), train
        self.data_dir, self.data_file = os.path.join(self.root, name), os.path.join(self.root, f"{name}.pt")
        self.mean, self.std = self.means[name], self.stds[name]
        if download:
            self.download()
        if not os.path.exists(self.data_file):
            need(os.path.isdir(self.data_dir), "PhotoTour", self.data_dir)
            self.cache()
        self.data, self.labels, self.matches = load(self.data_file, weights_only=True)

    def download(self):
        """Fetch the archive, unless its pictures are there."""
        url, name, md5 = self.urls[self.name]
        if not os.path.exists(self.data_file) and not os.path.isdir(self.data_dir):
            download_url(url, self.root, name, md5)
            extract_archive(os.path.join(self.root, name), self.data_dir, remove_finished=True)

    def cache(self):
        """Cut the patches out of the pictures of 16 x 16 of them, and keep them in one file."""
        info = [int(line.split()[0]) for line in Path(self.data_dir, self.info_file).read_text().splitlines() if line]
        matches = [line.split() for line in Path(self.data_dir, self.matches_files).read_text().splitlines() if line]
        save((self._patches(len(info)), tensor(info), tensor([[int(row[0]), int(row[3]), int(row[1] == row[4])]
                                                              for row in matches])), self.data_file)

    def _patches(self, count):
        numpy = _numpy()
        found = []
        for path in sorted(Path(self.data_dir).glob(f"*.{self.image_ext}")):
            with pillow("PhotoTour").open(path) as picture:
                pixels = numpy.asarray(picture.convert("L"))
            high, wide = (n // 64 for n in pixels.shape)
            found.append(pixels[:high * 64, :wide * 64].reshape(high, 64, wide, 64).swapaxes(1, 2).reshape(-1, 64, 64))
        return from_numpy(numpy.concatenate(found)[:count].copy())

    def __getitem__(self, index):
        change = self.transform or (lambda patch: patch)
        if self.train:
            return change(self.data[index])
        first, second, same = self.matches[index]
        return change(self.data[first]), change(self.data[second]), same

    def __len__(self):
        return len(self.data) if self.train else len(self.matches)

    def extra_repr(self):
        return f"Split: {'Train' if self.train else 'Test'}"


class LSUNClass(VisionDataset):
    """The pictures of one database of LSUN (Yu et al. 2015), which the package lmdb reads."""

    def __init__(self, root, transform=None, target_transform=None):
        super().__init__(root, transform=transform, target_transform=target_transform)
        try:
            lmdb = importlib.import_module("lmdb")
        except ImportError:
            raise ImportError("LSUN: its databases are read by lmdb: pip install lmdb") from None
        need(os.path.exists(root), "LSUN", root)
        self.env = lmdb.open(str(root), max_readers=1, readonly=True, lock=False, readahead=False, meminit=False)
        with self.env.begin(write=False) as read:
            self.length = read.stat()["entries"]
            self.keys = [bytes(key) for key in read.cursor().iternext(keys=True, values=False)]

    def __getitem__(self, index):
        with self.env.begin(write=False) as read:
            data = read.get(self.keys[index])
        return self._changed(pillow("LSUN").open(io.BytesIO(data)).convert("RGB"), None)

    def __len__(self):
        return self.length


class LSUN(VisionDataset):
    """Ten kinds of scenes (Yu et al. 2015); `classes`: "train", "val", "test", or a list such as ["bridge_train"]."""

    _SCENES = ("bedroom bridge church_outdoor classroom conference_room dining_room kitchen living_room restaurant "
               "tower").split()

    def __init__(self, root, classes="train", transform=None, target_transform=None):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes = self._chosen(classes)
        self.dbs = [LSUNClass(os.path.join(root, f"{name}_lmdb"), transform=transform) for name in self.classes]
        self.indices, total = [], 0
        for part in self.dbs:
            total += len(part)
            self.indices.append(total)
        self.length = total

    def _chosen(self, classes):
        parts = ("train", "val", "test")
        if isinstance(classes, str):
            verify_str_arg(classes, "classes", parts)
            return ["test"] if classes == "test" else [f"{name}_{classes}" for name in self._SCENES]
        for name in classes:
            scene, _, part = name.rpartition("_") if isinstance(name, str) else ("", "", None)
            if part not in parts or scene not in self._SCENES:
                raise ValueError(f"LSUN: a class is one of {', '.join(self._SCENES)} with _train, _val or _test, "
                                 f"got {shown(name)}")
        return list(classes)

    def __getitem__(self, index):
        target = next((k for k, end in enumerate(self.indices) if index < end), None)
        if target is None or index < 0:
            raise IndexError(f"LSUN: index {shown(index)} of {self.length} pictures")
        picture, _ = self.dbs[target][index - (self.indices[target - 1] if target else 0)]
        return picture, target if self.target_transform is None else self.target_transform(target)

    def __len__(self):
        return self.length

    def extra_repr(self):
        return f"Classes: {self.classes}"
