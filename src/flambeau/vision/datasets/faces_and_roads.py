"""Data sets of picture files with lists of their own form: LFW, SBU captions, KITTI."""

import csv
from pathlib import Path

from .folder import default_loader, numbered
from .utils import download_and_extract_archive, download_url, need, verify_str_arg
from .vision import VisionDataset


class _LFW(VisionDataset):
    """Labeled Faces in the Wild (Huang et al. 2007): one folder per person, lists of people and of pairs."""

    base_folder, download_url_prefix = "lfw-py", "http://vis-www.cs.umass.edu/lfw/"
    file_dict = {"original": ("lfw", "lfw.tgz", "a17d05bd522c52d84eca14327a23d494"),
                 "funneled": ("lfw_funneled", "lfw-funneled.tgz", "1b42dfed7d15c9b2dd63d5e5840c86ad"),
                 "deepfunneled": ("lfw-deepfunneled", "lfw-deepfunneled.tgz", "68331da3eb755a505a502b5aacb3c201")}
    checksums = {"pairs.txt": "9f1ba174e4e1c508ff7cdf10ac338a7d",
                 "pairsDevTest.txt": "5132f7440eb68cf58910c8a45a2ac10b",
                 "pairsDevTrain.txt": "4f27cbf15b2da4a85c1907eb4181ad21",
                 "people.txt": "450f0863dd89e85e73936a6d71a3474b",
                 "peopleDevTest.txt": "e4bf5be0a43b5dcd9dc5ccfcb8fb19c5",
                 "peopleDevTrain.txt": "54eaac34beb6d042ed3a7d883e247a21",
                 "lfw-names.txt": "a6d0a479bd074669f656265a6e693f6d"}
    annot_file = {"10fold": "", "train": "DevTrain", "test": "DevTest"}
    _kind = ""

    def __init__(self, root, split="10fold", image_set="funneled", transform=None, target_transform=None,
                 download=False, loader=default_loader):
        super().__init__(Path(root).expanduser() / self.base_folder, transform=transform,
                         target_transform=target_transform)
        self.split = verify_str_arg(split.lower(), "split", tuple(self.annot_file))
        self.image_set = verify_str_arg(image_set.lower(), "image_set", tuple(self.file_dict))
        folder, archive, md5 = self.file_dict[self.image_set]
        self._lists = [f"{self._kind}{self.annot_file[self.split]}.txt", "lfw-names.txt"]
        if download:
            self._download(archive, md5, folder)
        self._images, self.loader = self.root / folder, loader
        need(self._images.is_dir() and all((self.root / name).exists() for name in self._lists), type(self).__name__,
             self.root)
        self._read((self.root / self._lists[0]).read_text().splitlines())

    def _download(self, archive, md5, folder):
        if not (self.root / folder).is_dir():
            download_and_extract_archive(self.download_url_prefix + archive, self.root, filename=archive, md5=md5)
        for name in self._lists:
            download_url(self.download_url_prefix + name, self.root, name, self.checksums[name])

    def _path(self, name, number):
        return self._images / name / f"{name}_{int(number):04}.jpg"

    def __len__(self):
        return len(self.data)

    def extra_repr(self):
        return f"Image set: {self.image_set}\nSplit: {self.split}"


class LFWPeople(_LFW):
    """Faces with the number of the person."""

    _kind = "people"

    def _read(self, lines):
        names = [line.split()[0] for line in (self.root / "lfw-names.txt").read_text().splitlines() if line]
        self.class_to_idx = numbered(names)
        people = [line.split("\t") for line in lines if "\t" in line]  # other lines are counts
        self.data = [self._path(name, k) for name, count in people for k in range(1, int(count) + 1)]
        self.targets = [self.class_to_idx[name] for name, count in people for _ in range(int(count))]

    def __getitem__(self, index):
        return self._changed(self.loader(self.data[index]), self.targets[index])


class LFWPairs(_LFW):
    """Two faces each, and 1 if they are of the same person."""

    _kind = "pairs"

    def _read(self, lines):
        pairs = [line.split("\t") for line in lines]
        same = [(self._path(p[0], p[1]), self._path(p[0], p[2]), 1) for p in pairs if len(p) == 3]
        other = [(self._path(p[0], p[1]), self._path(p[2], p[3]), 0) for p in pairs if len(p) == 4]
        self.data, self.targets = [pair[:2] for pair in same + other], [pair[2] for pair in same + other]

    def __getitem__(self, index):
        first, second = (self.loader(path) for path in self.data[index])
        if self.transform is not None:
            first, second = self.transform(first), self.transform(second)
        target = self.targets[index]
        return first, second, target if self.target_transform is None else self.target_transform(target)


class SBU(VisionDataset):
    """Photographs of Flickr with captions (Ordonez et al. 2011); the archive has links, the pictures are fetched."""

    url = "https://www.cs.rice.edu/~vo9/sbucaptions/SBUCaptionedPhotoDataset.tar.gz"
    filename, md5_checksum = "SBUCaptionedPhotoDataset.tar.gz", "9aec147b3488753cf758b4d493422285"

    def __init__(self, root, transform=None, target_transform=None, download=True, loader=default_loader):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, base = loader, Path(self.root, "dataset")
        links, captions = (base / f"SBU_captioned_photo_dataset_{name}.txt" for name in ("urls", "captions"))
        if download and not links.exists():
            download_and_extract_archive(self.url, self.root, self.root, self.filename, self.md5_checksum)
        need(links.exists() and captions.exists(), "SBU", base)
        rows = list(zip(links.read_text().splitlines(), captions.read_text().splitlines(), strict=True))
        if download:
            self._fetch(base, [link for link, _ in rows])
        rows = [(base / link.rpartition("/")[2], caption.strip()) for link, caption in rows]
        self.photos, self.captions = zip(*[row for row in rows if row[0].exists()] or [((), ())], strict=True)

    @staticmethod
    def _fetch(base, links):
        """What is still on the net: links die, and their pictures are left out."""
        for link in links:
            try:
                download_url(link, base)
            except OSError:
                continue

    def __getitem__(self, index):
        return self._changed(self.loader(self.photos[index]), self.captions[index])

    def __len__(self):
        return len(self.photos)


_FIELDS = (("type", 0, 1, str), ("truncated", 1, 2, float), ("occluded", 2, 3, int), ("alpha", 3, 4, float),
           ("bbox", 4, 8, float), ("dimensions", 8, 11, float), ("location", 11, 14, float),
           ("rotation_y", 14, 15, float))


class Kitti(VisionDataset):
    """Streets with boxes of cars, people and bicycles (Geiger et al. 2012); a target is a list of dicts."""

    data_url = "https://s3.eu-central-1.amazonaws.com/avg-kitti/"
    resources = ["data_object_image_2.zip", "data_object_label_2.zip"]
    image_dir_name, labels_dir_name = "image_2", "label_2"

    def __init__(self, root, train=True, transform=None, target_transform=None, transforms=None, download=False):
        super().__init__(root, transforms, transform, target_transform)
        self.train = train
        raw = Path(self.root, "Kitti", "raw")
        folder = raw / ("training" if train else "testing")
        if download and not (folder / self.image_dir_name).is_dir():
            for name in self.resources:
                download_and_extract_archive(self.data_url + name, raw, filename=name)
        marks = folder / self.labels_dir_name
        need((folder / self.image_dir_name).is_dir() and (not train or marks.is_dir()), "Kitti", raw)
        self.images = sorted((folder / self.image_dir_name).glob("*.png"))
        self.targets = [marks / f"{path.stem}.txt" for path in self.images] if train else None

    def __getitem__(self, index):
        target = self._parsed(self.targets[index]) if self.train else None
        return self._changed(default_loader(self.images[index]), target)

    @staticmethod
    def _parsed(path):
        with open(path, newline="") as file:
            rows = list(csv.reader(file, delimiter=" "))
        return [{name: kind(row[low]) if high - low == 1 else [kind(value) for value in row[low:high]]
                 for name, low, high, kind in _FIELDS} for row in rows if row]

    def __len__(self):
        return len(self.images)
