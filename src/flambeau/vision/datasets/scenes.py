"""Streets, faces, places and species: Cityscapes, SBD, WIDER FACE, CLEVR, Places365, iNaturalist, Imagenette."""

import json
import os
from collections import namedtuple
from pathlib import Path

from ... import tensor
from ..._shown import shown
from ..transforms._kinds import pillow
from ._formats import _numpy
from .arrays import _matlab
from .folder import ImageFolder, Listed, default_loader, find_classes, make_dataset, numbered, stored
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

#: name, id, train_id, category, category_id, has_instances, ignore_in_eval, color
_STREET = """unlabeled,0,255,void,0,0,1,0,0,0
ego vehicle,1,255,void,0,0,1,0,0,0
rectification border,2,255,void,0,0,1,0,0,0
out of roi,3,255,void,0,0,1,0,0,0
static,4,255,void,0,0,1,0,0,0
dynamic,5,255,void,0,0,1,111,74,0
ground,6,255,void,0,0,1,81,0,81
road,7,0,flat,1,0,0,128,64,128
sidewalk,8,1,flat,1,0,0,244,35,232
parking,9,255,flat,1,0,1,250,170,160
rail track,10,255,flat,1,0,1,230,150,140
building,11,2,construction,2,0,0,70,70,70
wall,12,3,construction,2,0,0,102,102,156
fence,13,4,construction,2,0,0,190,153,153
guard rail,14,255,construction,2,0,1,180,165,180
bridge,15,255,construction,2,0,1,150,100,100
tunnel,16,255,construction,2,0,1,150,120,90
pole,17,5,object,3,0,0,153,153,153
polegroup,18,255,object,3,0,1,153,153,153
traffic light,19,6,object,3,0,0,250,170,30
traffic sign,20,7,object,3,0,0,220,220,0
vegetation,21,8,nature,4,0,0,107,142,35
terrain,22,9,nature,4,0,0,152,251,152
sky,23,10,sky,5,0,0,70,130,180
person,24,11,human,6,1,0,220,20,60
rider,25,12,human,6,1,0,255,0,0
car,26,13,vehicle,7,1,0,0,0,142
truck,27,14,vehicle,7,1,0,0,0,70
bus,28,15,vehicle,7,1,0,0,60,100
caravan,29,255,vehicle,7,1,1,0,0,90
trailer,30,255,vehicle,7,1,1,0,0,110
train,31,16,vehicle,7,1,0,0,80,100
motorcycle,32,17,vehicle,7,1,0,0,0,230
bicycle,33,18,vehicle,7,1,0,119,11,32
license plate,-1,-1,vehicle,7,0,1,0,0,142"""


def _street(kind, line):
    name, number, train, category, family, instances, ignored, *color = line.split(",")
    return kind(name, int(number), int(train), category, int(family), instances == "1", ignored == "1",
                tuple(map(int, color)))


class Cityscapes(VisionDataset):
    """Streets of 50 cities with what each pixel belongs to (Cordts et al. 2016)."""

    CityscapesClass = namedtuple("CityscapesClass", "name id train_id category category_id has_instances "
                                                    "ignore_in_eval color")
    classes = list(map(_street, [CityscapesClass] * _STREET.count("\n") + [CityscapesClass], _STREET.splitlines()))
    _SUFFIXES = {"instance": "instanceIds.png", "semantic": "labelIds.png", "color": "color.png",
                 "polygon": "polygons.json"}

    def __init__(self, root, split="train", mode="fine", target_type="instance", transform=None, target_transform=None,
                 transforms=None):
        super().__init__(root, transforms, transform, target_transform)
        verify_str_arg(mode, "mode", ("fine", "coarse"))
        splits = ("train", "test", "val") if mode == "fine" else ("train", "train_extra", "val")
        self.mode, self.split = "gtFine" if mode == "fine" else "gtCoarse", verify_str_arg(split, "split", splits)
        kinds = target_type if isinstance(target_type, list) else [target_type]
        self.target_type = [verify_str_arg(kind, "target_type", tuple(self._SUFFIXES)) for kind in kinds]
        self.images_dir = os.path.join(self.root, "leftImg8bit", split)
        self.targets_dir = os.path.join(self.root, self.mode, split)
        if not (os.path.isdir(self.images_dir) and os.path.isdir(self.targets_dir)):
            self._unpack()
        self.images, self.targets = [], []
        for city in sorted(os.listdir(self.images_dir)):
            for name in sorted(os.listdir(os.path.join(self.images_dir, city))):
                self.images.append(os.path.join(self.images_dir, city, name))
                stem = os.path.join(self.targets_dir, city, f"{name.split('_leftImg8bit')[0]}_{self.mode}_")
                self.targets.append([stem + self._SUFFIXES[kind] for kind in self.target_type])

    def _unpack(self):
        """The archives of the page, if they lie in the folder; fetching them needs an account there."""
        extra = "_trainextra" if self.split == "train_extra" else "_trainvaltest"
        images = Path(self.root, f"leftImg8bit{extra}.zip")
        marks = Path(self.root, f"{self.mode}{extra if self.mode == 'gtFine' else ''}.zip")
        need(images.is_file() and marks.is_file(), "Cityscapes", self.root)
        for archive in (images, marks):
            extract_archive(archive, self.root)

    def __getitem__(self, index):
        targets = tuple(json.loads(Path(path).read_text()) if path.endswith(".json") else stored(path)
                        for path in self.targets[index])
        return self._changed(default_loader(self.images[index]), targets if len(targets) > 1 else targets[0])

    def __len__(self):
        return len(self.images)

    def extra_repr(self):
        return f"Split: {self.split}\nMode: {self.mode}\nType: {self.target_type}"


class SBDataset(VisionDataset):
    """Outlines of the objects in 11,355 pictures of VOC (Hariharan et al. 2011); reading needs SciPy."""

    url = ("https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz")
    md5, filename = "82b4d87ceb2ed10f6038a1cba92111cb", "benchmark.tgz"
    voc_train_url = "https://www.cs.cornell.edu/~bharathh/train_noval.txt"
    voc_split_filename, voc_split_md5 = "train_noval.txt", "79bff800c5f0b1ec6b21080a3c066722"
    num_classes = 20

    def __init__(self, root, image_set="train", mode="boundaries", download=False, transforms=None):
        super().__init__(root, transforms)
        self.image_set = verify_str_arg(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = verify_str_arg(mode, "mode", ("segmentation", "boundaries"))
        base = Path(self.root)
        if download:
            self._fetch(base)
        need((base / "img").is_dir() and (base / f"{image_set}.txt").exists(), "SBDataset", base)
        names = (base / f"{image_set}.txt").read_text().split()
        self.images = [str(base / "img" / f"{name}.jpg") for name in names]
        self.masks = [str(base / "cls" / f"{name}.mat") for name in names]

    def _fetch(self, base):
        download_and_extract_archive(self.url, base, filename=self.filename, md5=self.md5)
        for entry in (base / "benchmark_RELEASE" / "dataset").iterdir():
            entry.replace(base / entry.name)
        download_url(self.voc_train_url, base, self.voc_split_filename, self.voc_split_md5)

    def _target(self, path):
        """The class of each pixel, or the outlines of each class [20, h, w]."""
        marks = _matlab(path)["GTcls"][0]
        if self.mode == "segmentation":
            return pillow("SBDataset").fromarray(marks["Segmentation"][0])
        edges = marks["Boundaries"][0]
        return _numpy().stack([edges[k][0].toarray() for k in range(self.num_classes)])

    def __getitem__(self, index):
        return self._changed(default_loader(self.images[index]), self._target(self.masks[index]))

    def __len__(self):
        return len(self.images)

    def extra_repr(self):
        return f"Image set: {self.image_set}\nMode: {self.mode}"


class WIDERFace(VisionDataset):
    """393,703 faces in 32,203 pictures (Yang et al. 2016): boxes [n, 4] (x, y, width, height) and how each looks."""

    BASE_FOLDER = "widerface"
    FILE_LIST = [("15hGDLhsx8bLgLcIRD5DhYt5iBxnjNF1M", "3fedf70df600953d25982bcd13d91ba2", "WIDER_train.zip"),
                 ("1GUCogbp16PMGa39thoMMeWxp7Rp5oM8Q", "dfa7d7e790efa35df3788964cf0bbaea", "WIDER_val.zip"),
                 ("1HIfDbVEWKmsYKJZm4lchTBDLW5N7dY5T", "e5d8f4248ed24c334bbd12f49c29dd40", "WIDER_test.zip")]
    ANNOTATIONS_FILE = ("http://shuoyang1213.me/WIDERFACE/support/bbx_annotation/wider_face_split.zip",
                        "0e3767bcf0e326556d407bf5bff5d27c", "wider_face_split.zip")
    _LOOKS = ("blur", "expression", "illumination", "invalid", "occlusion", "pose")

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        super().__init__(os.path.join(root, self.BASE_FOLDER), transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", ("train", "val", "test"))
        base = Path(self.root)
        if download:
            self._fetch(base)
        name = "wider_face_test_filelist.txt" if split == "test" else f"wider_face_{split}_bbx_gt.txt"
        lists = base / "wider_face_split" / name
        need(lists.exists() and (base / f"WIDER_{split}").is_dir(), "WIDERFace", base)
        lines = [line.strip() for line in lists.read_text().splitlines() if line.strip()]
        folder = base / f"WIDER_{split}" / "images"
        self.img_info = ([{"img_path": str(folder / line)} for line in lines] if split == "test" else
                         list(self._marked(lines, folder)))

    def _fetch(self, base):
        for drive, md5, name in self.FILE_LIST:
            download_file_from_google_drive(drive, base, name, md5)
            extract_archive(base / name)
        url, md5, _ = self.ANNOTATIONS_FILE
        download_and_extract_archive(url, base, md5=md5)

    def _marked(self, lines, folder):
        """A picture's name, how many faces, and ten numbers in a line for each; a line of zeros where there is none."""
        at = 0
        while at < len(lines):
            count = int(lines[at + 1])
            rows = tensor([[int(value) for value in line.split()] for line in lines[at + 2:at + 2 + max(count, 1)]])
            looks = {name: rows[:, 4 + k].clone() for k, name in enumerate(self._LOOKS)}
            yield {"img_path": str(folder / lines[at]), "annotations": {"bbox": rows[:, :4].clone(), **looks}}
            at += 2 + max(count, 1)

    def __getitem__(self, index):
        found = self.img_info[index]
        return self._changed(default_loader(found["img_path"]), found.get("annotations"))

    def __len__(self):
        return len(self.img_info)

    def extra_repr(self):
        return f"Split: {self.split}"


class CLEVRClassification(Listed):
    """Drawn objects on a table (Johnson et al. 2017); the class is how many they are."""

    _URL, _MD5 = "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip", "b11922020e72d0cd9154779b2d3d07d2"

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        base = Path(root).expanduser() / "clevr" / "CLEVR_v1.0"
        if download and not base.is_dir():
            download_and_extract_archive(self._URL, base.parent, md5=self._MD5)
        need((base / "images").is_dir(), "CLEVRClassification", base)
        counts = {}
        if split != "test":
            said = json.loads((base / "scenes" / f"CLEVR_{split}_scenes.json").read_text())
            counts = {scene["image_filename"]: len(scene["objects"]) for scene in said["scenes"]}
        paths = sorted((base / "images" / split).glob("*"))
        super().__init__(root, [(path, counts.get(path.name)) for path in paths], transform, target_transform, loader)
        self._labels = [count for _, count in self._samples]

    def extra_repr(self):
        return f"split={self._split}"


class Places365(VisionDataset):
    """1.8 or 8 million pictures of 365 kinds of places (Zhou et al. 2017)."""

    _SPLITS = ("train-standard", "train-challenge", "val", "test")
    _BASE_URL = "http://data.csail.mit.edu/places/places365/"
    _DEVKIT_META = {"standard": ("filelist_places365-standard.tar", "35a0585fee1fa656440f3ab298f8479c"),
                    "challenge": ("filelist_places365-challenge.tar", "70a8307e459c3de41690a7c76c931734")}
    _CATEGORIES_META = ("categories_places365.txt", "06c963b85866bd0649f97cb43dd16673")
    _FILE_LIST_META = {"train-standard": ("places365_train_standard.txt", "30f37515461640559006b8329efbed1a"),
                       "train-challenge": ("places365_train_challenge.txt", "b2931dc997b8c33c27e7329c073a6b57"),
                       "val": ("places365_val.txt", "e9f2fd57bfd9d07630173f4e8708e4b1"),
                       "test": ("places365_test.txt", "2fce8233fe493576d724142e45d93653")}
    _IMAGES_META = {
        ("train-standard", False): ("train_large_places365standard.tar", "67e186b496a84c929568076ed01a8aa1"),
        ("train-challenge", False): ("train_large_places365challenge.tar", "605f18e68e510c82b958664ea134545f"),
        ("val", False): ("val_large.tar", "9b71c4993ad89d2d8bcbdc4aef38042f"),
        ("test", False): ("test_large.tar", "41a4b6b724b1d2cd862fb3871ed59913"),
        ("train-standard", True): ("train_256_places365standard.tar", "53ca1c756c3d1e7809517cc47c5561c5"),
        ("train-challenge", True): ("train_256_places365challenge.tar", "741915038a5e3471ec7332404dfb64ef"),
        ("val", True): ("val_256.tar", "e27b17d8d44f4af9a78502beb927f808"),
        ("test", True): ("test_256.tar", "f532f6ad7b582262a2ec8009075e186b")}

    def __init__(self, root, split="train-standard", small=False, download=False, transform=None,
                 target_transform=None, loader=default_loader):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split, self.small, self.loader = verify_str_arg(split, "split", self._SPLITS), small, loader
        if download:
            self._fetch()
        lists = (self._CATEGORIES_META, self._FILE_LIST_META[split])
        need(all(check_integrity(Path(self.root, name), md5) for name, md5 in lists), "Places365", self.root)
        rows = [line.split() for line in Path(self.root, lists[0][0]).read_text().splitlines() if line]
        self.class_to_idx = {name: int(number) for name, number in rows}
        self.classes = sorted(self.class_to_idx)
        rows = [line.split() for line in Path(self.root, lists[1][0]).read_text().splitlines() if line]
        self.imgs = [(os.path.join(self.images_dir, row[0].lstrip("/")), int(row[1]) if len(row) > 1 else None)
                     for row in rows]
        self.targets = [number for _, number in self.imgs]

    @property
    def variant(self):
        """Which of the two lists."""
        return "challenge" if "challenge" in self.split else "standard"

    @property
    def images_dir(self):
        """Where the pictures of this part lie."""
        size = "256" if self.small else "large"
        name = f"data_{size}_{self.variant}" if self.split.startswith("train") else f"{self.split}_{size}"
        return os.path.join(self.root, name)

    def _fetch(self):
        for name, md5 in (self._DEVKIT_META[self.variant], self._IMAGES_META[self.split, self.small]):
            if not (name.startswith(("train_", "val_", "test_")) and os.path.isdir(self.images_dir)):
                download_and_extract_archive(self._BASE_URL + name, self.root, md5=md5)
        unpacked = Path(self.root, self._IMAGES_META[self.split, self.small][0].split(".")[0])
        if self.split.startswith("train") and unpacked.is_dir():
            unpacked.replace(self.images_dir)

    def __getitem__(self, index):
        path, target = self.imgs[index]
        return self._changed(self.loader(path), target)

    def __len__(self):
        return len(self.imgs)

    def extra_repr(self):
        return f"Split: {self.split}\nSmall: {self.small}"


_NATURE = "https://ml-inat-competition-datasets.s3.amazonaws.com/"
_INATURALIST = {
    "2017": ("2017/train_val_images.tar.gz", "7c784ea5e424efaec655bd392f87301f"),
    "2018": ("2018/train_val2018.tar.gz", "b1c6952ce38f31868cc50ea72d066cc3"),
    "2019": ("2019/train_val2019.tar.gz", "c60a6e2962c9b8ccbd458d12c8582644"),
    "2021_train": ("2021/train.tar.gz", "e0526d53c7f7b2e3167b2b43bb2690ed"),
    "2021_train_mini": ("2021/train_mini.tar.gz", "db6ed8330e634445efc8fec83ae81442"),
    "2021_valid": ("2021/val.tar.gz", "f6f6e0e242e3d4c9569ba56400938afc")}
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")


class INaturalist(VisionDataset):
    """Photographs of plants, animals and fungi by species (Van Horn et al. 2018, 2021)."""

    def __init__(self, root, version="2021_train", target_type="full", transform=None, target_transform=None,
                 download=False, loader=None):
        self.version = verify_str_arg(version, "version", tuple(_INATURALIST))
        super().__init__(os.path.join(root, version), transform=transform, target_transform=target_transform)
        self.loader = loader or default_loader
        kinds = target_type if isinstance(target_type, list) else [target_type]
        ranks = _RANKS if version.startswith("2021") else ("super",)
        self.target_type = [verify_str_arg(kind, "target_type", ("full", *ranks)) for kind in kinds]
        if download:
            self._fetch(root)
        need(os.path.isdir(self.root), "INaturalist", self.root)
        self.categories_index, self.categories_map = {}, []
        (self._by_ranks if version.startswith("2021") else self._by_folders)()
        self.index = [(number, name) for number, folder in enumerate(self.all_categories)
                      for name in sorted(os.listdir(os.path.join(self.root, folder)))]

    def _fetch(self, root):
        url, md5 = _INATURALIST[self.version]
        if os.path.isdir(self.root):
            return
        download_and_extract_archive(_NATURE + url, root, filename=f"{self.version}.tgz", md5=md5)
        Path(root, url.split("/")[1].split(".")[0]).replace(self.root)

    def _by_ranks(self):
        """Folders as 00012_Animalia_Chordata_Aves_…: a number, the ranks, the species."""
        self.all_categories = sorted(os.listdir(self.root))
        self.categories_index = {rank: {} for rank in _RANKS}
        for folder in self.all_categories:
            names = folder.split("_")
            if len(names) != 8:
                raise RuntimeError(f"INaturalist: the folder {shown(folder)} does not name a number and seven ranks")
            self.categories_map.append({rank: self.categories_index[rank].setdefault(
                name, len(self.categories_index[rank])) for rank, name in zip(_RANKS, names[1:7], strict=True)})

    def _by_folders(self):
        """Folders of species in folders of larger groups; since 2018 a species' folder is its number."""
        groups = sorted(os.listdir(self.root))
        self.categories_index = {"super": numbered(groups)}
        found = [(os.path.join(group, name), number) for number, group in enumerate(groups)
                 for name in sorted(os.listdir(os.path.join(self.root, group)))]
        if self.version != "2017":
            found.sort(key=lambda entry: int(os.path.basename(entry[0])))
            gap = next((k for k, (name, _) in enumerate(found) if int(os.path.basename(name)) != k), None)
            need(gap is None, f"INaturalist (species {gap})", self.root)
        self.all_categories = [name for name, _ in found]
        self.categories_map = [{"super": number} for _, number in found]

    def category_name(self, category_type, category_id):
        """The name of class number `category_id` of a rank, or of the species ("full")."""
        if category_type == "full":
            return self.all_categories[category_id]
        if category_type not in self.categories_index:
            raise ValueError(f"INaturalist: category_type must be one of full, {', '.join(self.categories_index)}, "
                             f"got {shown(category_type)}")
        for name, number in self.categories_index[category_type].items():
            if number == category_id:
                return name
        raise ValueError(f"INaturalist: there is no {category_type} number {shown(category_id)}")

    def __getitem__(self, index):
        number, name = self.index[index]
        picture = self.loader(os.path.join(self.root, self.all_categories[number], name))
        targets = tuple(number if kind == "full" else self.categories_map[number][kind] for kind in self.target_type)
        return self._changed(picture, targets if len(targets) > 1 else targets[0])

    def __len__(self):
        return len(self.index)


class Imagenette(ImageFolder):
    """10 classes of ImageNet that are easy to tell apart (fast.ai)."""

    _PAGE = "https://s3.amazonaws.com/fast-ai-imageclas/"
    _ARCHIVES = {"full": (f"{_PAGE}imagenette2.tgz", "fe2fc210e6bb7c5664d602c3cd71e612"),
                 "320px": (f"{_PAGE}imagenette2-320.tgz", "3df6f0d01a2c9592104656642f5e78a3"),
                 "160px": (f"{_PAGE}imagenette2-160.tgz", "e793b78cc4c9e9a4ccc0c1155377a412")}
    _WNID_TO_CLASS = {
        "n01440764": ("tench", "Tinca tinca"), "n02102040": ("English springer", "English springer spaniel"),
        "n02979186": ("cassette player",), "n03000684": ("chain saw", "chainsaw"),
        "n03028079": ("church", "church building"), "n03394916": ("French horn", "horn"),
        "n03417042": ("garbage truck", "dustcart"),
        "n03425413": ("gas pump", "gasoline pump", "petrol pump", "island dispenser"), "n03445777": ("golf ball",),
        "n03888257": ("parachute", "chute")}

    def __init__(self, root, split="train", size="full", download=False, transform=None, target_transform=None,
                 loader=default_loader):
        self._split = verify_str_arg(split, "split", ("train", "val"))
        url, md5 = self._ARCHIVES[verify_str_arg(size, "size", ("full", "320px", "160px"))]
        base = Path(root).expanduser() / Path(url).stem
        if download and not base.is_dir():
            download_and_extract_archive(url, root, md5=md5)
        need((base / split).is_dir(), "Imagenette", base)
        VisionDataset.__init__(self, root, transform=transform, target_transform=target_transform)
        self.loader, self._size_root, self._image_root = loader, str(base), str(base / split)
        self.wnids, self.wnid_to_idx = find_classes(self._image_root)
        self.samples = self.imgs = self._samples = make_dataset(self._image_root, self.wnid_to_idx, ".jpeg")
        self.targets = [target for _, target in self.samples]
        self.classes = [self._WNID_TO_CLASS[name] for name in self.wnids]
        self.class_to_idx = {name: k for k, names in enumerate(self.classes) for name in names}
