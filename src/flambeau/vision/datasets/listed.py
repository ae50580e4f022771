"""Data sets of picture files whose classes and splits are folders or lists of names."""

import csv
import json
import re
from pathlib import Path

from ..._shown import shown
from .arrays import _matlab
from .folder import ImageFolder, Listed, default_loader, make_dataset, numbered, stored
from .utils import download_and_extract_archive, download_url, list_dir, list_files, need, verify_str_arg
from .vision import VisionDataset


class Food101(Listed):
    """101,000 pictures of 101 dishes (Bossard et al. 2014)."""

    _URL, _MD5 = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "test"))
        base = Path(root).expanduser() / "food-101"
        if download and not base.exists():
            download_and_extract_archive(self._URL, root, md5=self._MD5)
        need((base / "meta").is_dir() and (base / "images").is_dir(), "Food101", base)
        names = json.loads((base / "meta" / f"{split}.json").read_text())
        self.classes = sorted(names)
        self.class_to_idx = numbered(self.classes)
        samples = [(base / "images" / f"{path}.jpg", self.class_to_idx[name])
                   for name, paths in names.items() for path in paths]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self):
        return f"split={self._split}"


class DTD(Listed):
    """5,640 pictures of 47 textures (Cimpoi et al. 2014), in ten partitions."""

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz"
    _MD5 = "fff73e5086ae6bdbea199a49dfb8a4c1"

    def __init__(self, root, split="train", partition=1, transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        if not (isinstance(partition, int) and 1 <= partition <= 10):
            raise ValueError(f"DTD: partition must be between 1 and 10, got {shown(partition)}")
        self._partition, base = partition, Path(root).expanduser() / "dtd"
        if download and not (base / "dtd").is_dir():
            download_and_extract_archive(self._URL, base, md5=self._MD5)
        need((base / "dtd").is_dir(), "DTD", base)
        lines = (base / "dtd" / "labels" / f"{split}{partition}.txt").read_text().split()
        self.classes = sorted({line.split("/")[0] for line in lines})
        self.class_to_idx = numbered(self.classes)
        samples = [(base / "dtd" / "images" / line, self.class_to_idx[line.split("/")[0]]) for line in lines]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self):
        return f"split={self._split}, partition={self._partition}"


class EuroSAT(ImageFolder):
    """27,000 satellite pictures of 10 kinds of land (Helber et al. 2019)."""

    def __init__(self, root, transform=None, target_transform=None, download=False, loader=default_loader):
        base = Path(root).expanduser() / "eurosat"
        if download and not (base / "2750").is_dir():
            download_and_extract_archive("https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
                                         "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip", base,
                                         md5="c8fa014336c82ac7804f0398fcb19387")
        need((base / "2750").is_dir(), "EuroSAT", base)
        super().__init__(base / "2750", transform, target_transform, loader)
        self.root = str(Path(root).expanduser())


class _Split(ImageFolder):
    """Folders of classes below a folder of the split."""

    _folder = _URL = _MD5 = ""
    _splits = ("train", "val", "test")

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", self._splits)
        base = Path(root).expanduser() / self._folder
        if download and not base.is_dir():
            download_and_extract_archive(self._URL, root, md5=self._MD5)
        name = {"val": "valid"}.get(split, split)
        need((base / name).is_dir(), type(self).__name__, base)
        super().__init__(base / name, transform, target_transform, loader)
        self.root = str(Path(root).expanduser())

    def extra_repr(self):
        return f"split={self._split}"


class Country211(_Split):
    """63,300 photographs by the country in which they were taken (Radford et al. 2021)."""

    _folder, _URL = "country211", "https://openaipublic.azureedge.net/clip/data/country211.tgz"
    _MD5 = "84988d7644798601126c29e9877aab6a"


class RenderedSST2(_Split):
    """9,613 sentences drawn as pictures, positive or negative (Radford et al. 2021)."""

    _folder, _URL = "rendered-sst2", "https://openaipublic.azureedge.net/clip/data/rendered-sst2.tgz"
    _MD5 = "2384d08e9dcfa4bd55b324e610496ee5"


class SUN397(Listed):
    """108,754 pictures of 397 scenes (Xiao et al. 2010)."""

    _DATASET_URL = "http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz"
    _DATASET_MD5 = "8ca2778205c41d23104230ba66911c7a"

    def __init__(self, root, transform=None, target_transform=None, download=False, loader=default_loader):
        base = Path(root).expanduser() / "SUN397"
        if download and not base.exists():
            download_and_extract_archive(self._DATASET_URL, root, md5=self._DATASET_MD5)
        need(base.exists(), "SUN397", base)
        self.classes = [line[3:].strip() for line in (base / "ClassName.txt").read_text().splitlines()]
        self.class_to_idx = numbered(self.classes)
        samples = [(path, self.class_to_idx["/".join(path.relative_to(base).parts[1:-1])])
                   for path in sorted(base.rglob("sun_*.jpg"))]
        super().__init__(root, samples, transform, target_transform, loader)


class StanfordCars(Listed):
    """16,185 pictures of 196 models of cars (Krause et al. 2013); they are no longer offered for download."""

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "test"))
        base = Path(root).expanduser() / "stanford_cars"
        if download:
            raise ValueError("StanfordCars: the page of the data set is gone; put its files into "
                             f"{shown(str(base))} and leave download=False")
        marks = base / ("devkit/cars_train_annos.mat" if split == "train" else "cars_test_annos_withlabels.mat")
        need(marks.exists() and (base / f"cars_{split}").is_dir(), "StanfordCars", base)
        samples = [(base / f"cars_{split}" / str(row["fname"].item()), int(row["class"].item()) - 1)
                   for row in _matlab(marks)["annotations"].ravel()]
        self.classes = [str(name.item()) for name in _matlab(base / "devkit" / "cars_meta.mat")["class_names"].ravel()]
        self.class_to_idx = numbered(self.classes)
        super().__init__(root, samples, transform, target_transform, loader)


class FGVCAircraft(Listed):
    """10,000 pictures of aircraft by variant, family or manufacturer (Maji et al. 2013)."""

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz"

    def __init__(self, root, split="trainval", annotation_level="variant", transform=None, target_transform=None,
                 download=False, loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "val", "trainval", "test"))
        level = verify_str_arg(annotation_level, "annotation_level", ("variant", "family", "manufacturer"))
        base = Path(root).expanduser() / "fgvc-aircraft-2013b"
        if download and not base.exists():
            download_and_extract_archive(self._URL, root)
        need(base.exists(), "FGVCAircraft", base)
        names = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}[level]
        self.classes = [line.strip() for line in (base / "data" / f"{names}.txt").read_text().splitlines() if line]
        self.class_to_idx = numbered(self.classes)
        lines = (base / "data" / f"images_{level}_{split}.txt").read_text().splitlines()
        pairs = [line.split(" ", 1) for line in lines if line]
        samples = [(base / "data" / "images" / f"{name}.jpg", self.class_to_idx[label.strip()])
                   for name, label in pairs]
        super().__init__(root, samples, transform, target_transform, loader)


class Flowers102(Listed):
    """8,189 pictures of 102 flowers (Nilsback and Zisserman 2008); reading needs SciPy."""

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    _FILES = (("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
              ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
              ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"))
    _KEYS = {"train": "trnid", "val": "valid", "test": "tstid"}

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", tuple(self._KEYS))
        base = Path(root).expanduser() / "flowers-102"
        if download and not (base / "jpg").is_dir():
            (archive, md5), *others = self._FILES
            download_and_extract_archive(self._URL + archive, base, md5=md5)
            for name, md5 in others:
                download_url(self._URL + name, base, md5=md5)
        need((base / "jpg").is_dir() and all((base / name).exists() for name, _ in self._FILES[1:]), "Flowers102", base)
        labels = _matlab(base / "imagelabels.mat")["labels"].ravel().tolist()
        chosen = _matlab(base / "setid.mat")[self._KEYS[split]].ravel().tolist()
        samples = [(base / "jpg" / f"image_{k:05d}.jpg", labels[k - 1] - 1) for k in chosen]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self):
        return f"split={self._split}"


class OxfordIIITPet(VisionDataset):
    """7,349 pictures of 37 breeds of cats and dogs (Parkhi et al. 2012)."""

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"
    _RESOURCES = (("images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
                  ("annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"))
    _KINDS = ("category", "binary-category", "segmentation")

    def __init__(self, root, split="trainval", target_types="category", transforms=None, transform=None,
                 target_transform=None, download=False):
        super().__init__(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ("trainval", "test"))
        kinds = [target_types] if isinstance(target_types, str) else list(target_types)
        self._target_types = [verify_str_arg(kind, "target_types", self._KINDS) for kind in kinds]
        base = Path(self.root, "oxford-iiit-pet")
        if download and not (base / "images").is_dir():
            for name, md5 in self._RESOURCES:
                download_and_extract_archive(self._URL + name, base, md5=md5)
        need((base / "images").is_dir() and (base / "annotations").is_dir(), "OxfordIIITPet", base)
        rows = [line.split() for line in (base / "annotations" / f"{split}.txt").read_text().splitlines()
                if line and not line.startswith("#")]
        self._rows = [(base / "images" / f"{name}.jpg", base / "annotations" / "trimaps" / f"{name}.png",
                       int(breed) - 1, int(animal) - 1) for name, breed, animal, _ in rows]
        names = {int(breed): " ".join(part.title() for part in name.split("_")[:-1]) for name, breed, _, _ in rows}
        self.classes = [names[k] for k in sorted(names)]
        self.bin_classes = ["Cat", "Dog"]
        self.class_to_idx, self.bin_class_to_idx = numbered(self.classes), numbered(self.bin_classes)

    def __getitem__(self, index):
        image, trimap, breed, animal = self._rows[index]
        found = {"category": lambda: breed, "binary-category": lambda: animal,
                 "segmentation": lambda: stored(trimap)}
        targets = [found[kind]() for kind in self._target_types]
        target = None if not targets else targets[0] if len(targets) == 1 else tuple(targets)
        return self._changed(default_loader(image), target)

    def __len__(self):
        return len(self._rows)


class GTSRB(Listed):
    """51,839 pictures of 43 German traffic signs (Stallkamp et al. 2012)."""

    _URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
    _FILES = {"train": [("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478")],
              "test": [("GTSRB_Final_Test_Images.zip", "c7e4e6327067d32654124b0fe9e82185"),
                       ("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5")]}

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        self._split = verify_str_arg(split, "split", tuple(self._FILES))
        base = Path(root).expanduser() / "gtsrb"
        folder = base / "GTSRB" / ("Training" if split == "train" else "Final_Test/Images")
        if download and not folder.is_dir():
            for name, md5 in self._FILES[split]:
                download_and_extract_archive(self._URL + name, base, md5=md5)
        need(folder.is_dir(), "GTSRB", base)
        if split == "train":
            samples = make_dataset(str(folder), extensions=(".ppm",))
        else:
            with open(base / "GT-final_test.csv", newline="") as file:
                samples = [(str(folder / row["Filename"]), int(row["ClassId"]))
                           for row in csv.DictReader(file, delimiter=";")]
        super().__init__(root, samples, transform, target_transform)


class Caltech101(VisionDataset):
    """9,146 pictures of 101 kinds of objects (Fei-Fei et al. 2004), with their outlines."""

    _OTHER = {"Faces": "Faces_2", "Faces_easy": "Faces_3", "Motorbikes": "Motorbikes_16",
              "airplanes": "Airplanes_Side_2"}

    def __init__(self, root, target_type="category", transform=None, target_transform=None, download=False):
        super().__init__(Path(root).expanduser() / "caltech101", transform=transform, target_transform=target_transform)
        kinds = [target_type] if isinstance(target_type, str) else list(target_type)
        self.target_type = [verify_str_arg(kind, "target_type", ("category", "annotation")) for kind in kinds]
        images = self.root / "101_ObjectCategories"
        if download and not images.is_dir():
            raise ValueError("Caltech101: fetch it by hand (https://data.caltech.edu/records/mzrjq-6wc02), "
                             f"unpack it into {shown(str(self.root))} and leave download=False")
        need(images.is_dir(), "Caltech101", self.root)
        self.categories = sorted(name for name in list_dir(images) if name != "BACKGROUND_Google")
        self._samples = [(path, k) for k, name in enumerate(self.categories)
                         for path in sorted((images / name).glob("image_*.jpg"))]

    def __getitem__(self, index):
        path, label = self._samples[index]
        targets = tuple(label if kind == "category" else self._outline(path, label) for kind in self.target_type)
        return self._changed(default_loader(path), targets[0] if len(targets) == 1 else targets)

    def _outline(self, path, label):
        name = self.categories[label]
        file = f"annotation_{re.search(r'[0-9]+', path.stem)[0]}.mat"
        return _matlab(self.root / "Annotations" / self._OTHER.get(name, name) / file)["obj_contour"]

    def __len__(self):
        return len(self._samples)


class Caltech256(Listed):
    """30,607 pictures of 257 kinds of objects (Griffin et al. 2007)."""

    def __init__(self, root, transform=None, target_transform=None, download=False):
        base = Path(root).expanduser() / "caltech256" / "256_ObjectCategories"
        if download and not base.is_dir():
            raise ValueError("Caltech256: fetch it by hand (https://data.caltech.edu/records/nyy15-4j048), "
                             f"unpack it into {shown(str(base.parent))} and leave download=False")
        need(base.is_dir(), "Caltech256", base)
        self.categories = sorted(list_dir(base))
        samples = [(path, k) for k, name in enumerate(self.categories)
                   for path in sorted(list_files(base / name, ".jpg", prefix=True))]
        super().__init__(root, samples, transform, target_transform)


class Omniglot(Listed):
    """32,460 handwritten characters of 50 alphabets (Lake et al. 2015)."""

    _URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
    zips_md5 = {"images_background": "68d2efa1b9178cc56df9314c21c6e718",
                "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811"}

    def __init__(self, root, background=True, transform=None, target_transform=None, download=False, loader=None):
        base, self.background = Path(root).expanduser() / "omniglot-py", background
        name = "images_background" if background else "images_evaluation"
        if download and not (base / name).is_dir():
            download_and_extract_archive(f"{self._URL}{name}.zip", base, md5=self.zips_md5[name])
        need((base / name).is_dir(), "Omniglot", base)
        folders = [folder for alphabet in list_dir(base / name)
                   for folder in list_dir(base / name / alphabet, prefix=True)]
        samples = [(path, k) for k, folder in enumerate(folders) for path in list_files(folder, ".png", prefix=True)]
        gray = loader or (lambda path: stored(path).convert("L"))
        super().__init__(root, samples, transform, target_transform, gray)


class ImageNet(ImageFolder):
    """ILSVRC 2012: folders `train/n01440764/…` and `val/n01440764/…`, with the classes' names (Deng et al. 2009)."""

    def __init__(self, root, split="train", **kwargs):
        self.split = verify_str_arg(split, "split", ("train", "val"))
        base = Path(root).expanduser()
        if kwargs.pop("download", False):
            raise ValueError("ImageNet: may not be downloaded by programs; get the archives from image-net.org, and "
                             f"unpack them into {shown(str(base / split))}, one folder per class")
        need((base / split).is_dir(), "ImageNet", base / split)
        super().__init__(base / split, **kwargs)
        self.root = str(base)
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx
        names = self._names(base)
        self.classes = [tuple(names.get(wnid, wnid).split(", ")) for wnid in self.wnids]
        self.class_to_idx = {name: k for k, several in enumerate(self.classes) for name in several}

    @staticmethod
    def _names(base):
        """{wnid: names}: from `LOC_synset_mapping.txt` (a line is `n01440764 tench, Tinca tinca`), if it is there."""
        file = base / "LOC_synset_mapping.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return dict(line.split(" ", 1) for line in lines if " " in line)

    def extra_repr(self):
        return f"Split: {self.split}"


