"""Data sets whose targets are more than a class: VOC, COCO, CelebA."""

import importlib
import json
import os
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from ... import tensor
from .folder import default_loader, stored
from .utils import download_and_extract_archive, download_file_from_google_drive, extract_archive, need, verify_str_arg
from .vision import VisionDataset

_HOST = "https://thor.robots.ox.ac.uk/pascal/VOC/"
#: year: (folder of the page, archive, MD5, folder in the archive)
_VOC = {"2012": ("voc2012", "VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", "VOCdevkit/VOC2012"),
        "2011": ("voc2011", "VOCtrainval_25-May-2011.tar", "6c3384ef61512963050cb5d687e5bf1e",
                 "TrainVal/VOCdevkit/VOC2011"),
        "2010": ("voc2010", "VOCtrainval_03-May-2010.tar", "da459979d0c395079b5c75ee67908abb", "VOCdevkit/VOC2010"),
        "2009": ("voc2009", "VOCtrainval_11-May-2009.tar", "a3e00b113cfcfebf17e343f59da3caa1", "VOCdevkit/VOC2009"),
        "2008": ("voc2008", "VOCtrainval_14-Jul-2008.tar", "2629fa636546599198acfcfbfcf1904a", "VOCdevkit/VOC2008"),
        "2007": ("voc2007", "VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", "VOCdevkit/VOC2007"),
        "2007-test": ("voc2007", "VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", "VOCdevkit/VOC2007")}


class _Voc(VisionDataset):
    """Pictures of a list, and a file for each."""

    _lists = _folder = _suffix = ""

    def __init__(self, root, year="2012", image_set="train", download=False, transform=None, target_transform=None,
                 transforms=None):
        super().__init__(root, transforms, transform, target_transform)
        self.year = verify_str_arg(year, "year", tuple(str(y) for y in range(2007, 2013)))
        sets = ("train", "trainval", "val", *(("test",) if year == "2007" else ()))
        self.image_set = verify_str_arg(image_set, "image_set", sets)
        page, archive, md5, inner = _VOC["2007-test" if year == "2007" and image_set == "test" else year]
        base = Path(self.root, inner)
        if download and not (base / "JPEGImages").is_dir():
            download_and_extract_archive(f"{_HOST}{page}/{archive}", self.root, filename=archive, md5=md5)
        need(base.is_dir(), type(self).__name__, base)
        names = (base / "ImageSets" / self._lists / f"{image_set}.txt").read_text().split()
        self.images = [str(base / "JPEGImages" / f"{name}.jpg") for name in names]
        self.targets = [str(base / self._folder / f"{name}{self._suffix}") for name in names]

    def __len__(self):
        return len(self.images)


class VOCSegmentation(_Voc):
    """PASCAL VOC: pictures with what each pixel belongs to (Everingham et al. 2010)."""

    _lists, _folder, _suffix = "Segmentation", "SegmentationClass", ".png"

    @property
    def masks(self):
        """The files of the masks."""
        return self.targets

    def __getitem__(self, index):
        return self._changed(default_loader(self.images[index]), stored(self.masks[index]))


class VOCDetection(_Voc):
    """PASCAL VOC: pictures with boxes (Everingham et al. 2010), as the dict of the XML file."""

    _lists, _folder, _suffix = "Main", "Annotations", ".xml"

    @property
    def annotations(self):
        """The XML files."""
        return self.targets

    def __getitem__(self, index):
        tree = ElementTree.parse(self.annotations[index]).getroot()
        return self._changed(default_loader(self.images[index]), self.parse_voc_xml(tree))

    @staticmethod
    def parse_voc_xml(node):
        """{tag: text or dict}; `object` is a list, since there may be several."""
        if not len(node):
            return {node.tag: node.text.strip() if node.text else ""}
        inner = defaultdict(list)
        for child in node:
            for tag, value in VOCDetection.parse_voc_xml(child).items():
                inner[tag].append(value)
        plain = {tag: values[0] if len(values) == 1 else values for tag, values in inner.items()}
        if node.tag == "annotation":
            plain["object"] = inner["object"]
        return {node.tag: plain}


class _Annotations:
    """What a COCO file of annotations says, without pycocotools."""

    def __init__(self, file):
        said = json.loads(Path(file).read_text("utf-8"))
        self.imgs = {image["id"]: image for image in said["images"]}
        self.cats = {category["id"]: category for category in said.get("categories", [])}
        self.imgToAnns = defaultdict(list)
        for mark in said.get("annotations", []):
            self.imgToAnns[mark["image_id"]].append(mark)

    def loadImgs(self, numbers):
        return [self.imgs[number] for number in ([numbers] if isinstance(numbers, int) else numbers)]

    def marks(self, number):
        return self.imgToAnns[number]


class _Tool:
    """pycocotools' reader, asked in the same way."""

    def __init__(self, file):
        self.coco = importlib.import_module("pycocotools.coco").COCO(file)
        self.imgs = self.coco.imgs

    def marks(self, number):
        return self.coco.loadAnns(self.coco.getAnnIds(number))


class CocoDetection(VisionDataset):
    """COCO: pictures with a list of annotations (Lin et al. 2014); pycocotools reads the file where it is installed."""

    def __init__(self, root, annFile, transform=None, target_transform=None, transforms=None):
        super().__init__(root, transforms, transform, target_transform)
        try:
            tool = _Tool(annFile)
            self._marks, self.coco = tool.marks, tool.coco
        except ImportError:
            self.coco = _Annotations(annFile)
            self._marks = self.coco.marks
        self.ids = sorted(self.coco.imgs)

    def _load_image(self, id):
        return default_loader(os.path.join(self.root, self.coco.loadImgs(id)[0]["file_name"]))

    def _load_target(self, id):
        return self._marks(id)

    def __getitem__(self, index):
        if not isinstance(index, int):
            raise ValueError(f"{type(self).__name__}: the index must be an int, got {type(index).__name__}")
        number = self.ids[index]
        return self._changed(self._load_image(number), self._load_target(number))

    def __len__(self):
        return len(self.ids)


class CocoCaptions(CocoDetection):
    """COCO: pictures with sentences that describe them (Chen et al. 2015)."""

    def _load_target(self, id):
        return [mark["caption"] for mark in super()._load_target(id)]


class CelebA(VisionDataset):
    """202,599 faces with 40 attributes, identity, box and landmarks (Liu et al. 2015)."""

    base_folder = "celeba"
    file_list = [
        ("0B7EVK8r0v71pZjFTYXZWM3FlRnM", "00d2c5bc6d35e252742224ab0c1e8fcb", "img_align_celeba.zip"),
        ("0B7EVK8r0v71pblRyaVFSWGxPY0U", "75e246fa4810816ffd6ee81facbd244c", "list_attr_celeba.txt"),
        ("1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS", "32bd1bd63d3c78cd57e08160ec5ed1e2", "identity_CelebA.txt"),
        ("0B7EVK8r0v71pbThiMVRxWXZ4dU0", "00566efa6fedff7a56946cd1c10f1c16", "list_bbox_celeba.txt"),
        ("0B7EVK8r0v71pd0FJY3Blby1HUTQ", "cc24ecafdb5b50baae59b03474781f8c", "list_landmarks_align_celeba.txt"),
        ("0B7EVK8r0v71pY0NSMzRuSXJEVkk", "d32c9cbf5e040fd4025c592c306e6668", "list_eval_partition.txt")]
    _KINDS = ("attr", "identity", "bbox", "landmarks")
    _SPLITS = {"train": 0, "valid": 1, "test": 2, "all": None}

    def __init__(self, root, split="train", target_type="attr", transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split.lower() if isinstance(split, str) else split, "split", tuple(self._SPLITS))
        kinds = target_type if isinstance(target_type, list) else [target_type]
        self.target_type = [verify_str_arg(kind, "target_type", self._KINDS) for kind in kinds if kind]
        if not self.target_type and target_transform is not None:
            raise RuntimeError("CelebA: a target_transform needs a target_type")
        base = Path(self.root, self.base_folder)
        if download and not (base / "img_align_celeba").is_dir():
            for drive, md5, name in self.file_list:
                download_file_from_google_drive(drive, base, name, md5)
            extract_archive(base / "img_align_celeba.zip")
        need((base / "img_align_celeba").is_dir(), "CelebA", base)
        self._read(base)

    def _read(self, base):
        parts = self._table(base / "list_eval_partition.txt")[1]
        wanted = self._SPLITS[self.split]
        rows = [k for k, (_, (part,)) in enumerate(parts) if wanted is None or part == wanted]
        self.filename = [parts[k][0] for k in rows]
        columns = {"attr": ("list_attr_celeba.txt", 1), "identity": ("identity_CelebA.txt", None),
                   "bbox": ("list_bbox_celeba.txt", 1), "landmarks": ("list_landmarks_align_celeba.txt", 1)}
        for kind, (file, header) in columns.items():
            names, lines = self._table(base / file, header)
            values = tensor([lines[k][1] for k in rows])
            if kind == "attr":
                values, self.attr_names = (values + 1).div(2, rounding_mode="floor"), names
            setattr(self, {"landmarks": "landmarks_align"}.get(kind, kind), values)

    @staticmethod
    def _table(file, header=None):
        """(names of the columns, [(file, numbers), …])."""
        lines = file.read_text().splitlines()
        names = lines[header].split() if header is not None else []
        body = [line.split() for line in (lines[header + 1:] if header is not None else lines) if line.strip()]
        return names, [(name, [int(value) for value in values]) for name, *values in body]

    def __getitem__(self, index):
        picture = default_loader(Path(self.root, self.base_folder, "img_align_celeba", self.filename[index]))
        found = {"attr": self.attr, "identity": self.identity, "bbox": self.bbox, "landmarks": self.landmarks_align}
        targets = [found[kind][index, 0] if kind == "identity" else found[kind][index] for kind in self.target_type]
        target = None if not targets else targets[0] if len(targets) == 1 else tuple(targets)
        return self._changed(picture, target)

    def __len__(self):
        return len(self.filename)

    def extra_repr(self):
        return f"Target type: {self.target_type}\nSplit: {self.split}"
