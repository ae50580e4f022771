"""Stereo: pictures of two cameras, and by how many pixels things are shifted between them (disparity)."""

import json
import random
import shutil
from pathlib import Path

from ..._shown import shown
from ...vision.transforms._kinds import pillow
from ._formats import _numpy, read_pfm, read_png16
from .utils import download_and_extract_archive, need, verify_str_arg
from .vision import VisionDataset


class StereoMatchingDataset(VisionDataset):
    """(left, right, disparity [1, h, w] of the left one), and which pixels are known where the files say so.

    A test set's disparity is None. `transforms` takes and gives ((left, right), (disparity, of the right one or None),
    (known, known)).
    """

    _has_built_in_disparity_mask = False

    def __init__(self, root, transforms=None):
        super().__init__(root, transforms=transforms)
        self._images, self._disparities = [], []  # [(left, right)], [(of the left one, of the right one or None)]

    def _pairs(self, folder, left, right=None):
        """[(left, right or None)] of the files that fit."""
        lefts = sorted(str(path) for path in folder.glob(left))
        if right is None:
            return [(path, None) for path in lefts]
        rights = sorted(str(path) for path in folder.glob(right))
        need(lefts and len(lefts) == len(rights), type(self).__name__, folder)
        return list(zip(lefts, rights, strict=True))

    def _unknown(self):
        return [(None, None)] * len(self._images)

    def _read_img(self, path):
        with pillow(type(self).__name__).open(path) as picture:
            return picture if picture.mode == "RGB" and picture.load() else picture.convert("RGB")

    def _read_disparity(self, path):
        """(disparity [1, h, w], which are known or None) of one file."""
        raise NotImplementedError(f"{type(self).__name__}._read_disparity is missing")

    def __getitem__(self, index):
        images = tuple(self._read_img(path) for path in self._images[index])
        found = [(None, None) if path is None else self._read_disparity(path) for path in self._disparities[index]]
        maps, known = zip(*found, strict=True)
        if self.transforms is not None:
            images, maps, known = self.transforms(images, maps, known)
        result = (*images, maps[0])
        return (*result, known[0]) if self._has_built_in_disparity_mask or known[0] is not None else result

    def __len__(self):
        return len(self._images)


def _pfm(path):
    return abs(read_pfm(path))


def _png(path, scale):
    """The disparity [1, h, w] of a PNG file whose numbers are `scale` times as large, as doubles."""
    return read_png16(path)[None] / scale


class CarlaStereo(StereoMatchingDataset):
    """Streets drawn by the simulator CARLA (Dosovitskiy et al. 2017)."""

    def __init__(self, root, transforms=None):
        super().__init__(root, transforms)
        base = Path(self.root, "carla-highres", "trainingF")
        self._images = self._pairs(base, "*/im0.png", "*/im1.png")
        self._disparities = self._pairs(base, "*/disp0GT.pfm", "*/disp1GT.pfm")

    def _read_disparity(self, path):
        return _pfm(path), None


class _Kitti(StereoMatchingDataset):
    """Streets from a moving car, with 256 disparities to a pixel."""

    _has_built_in_disparity_mask = True
    _folder = ""
    _cameras = _maps = ("", "")

    def __init__(self, root, split="train", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(split, "split", ("train", "test"))
        base = Path(self.root, self._folder, f"{split}ing")
        self._images = self._pairs(base, *(f"{camera}/*_10.png" for camera in self._cameras))
        self._disparities = self._unknown() if split == "test" else self._known(base)

    def _known(self, base):
        return self._pairs(base, *(f"{folder}/*.png" for folder in self._maps))

    def _read_disparity(self, path):
        return _png(path, 256), None


class Kitti2012Stereo(_Kitti):
    """KITTI's 389 pairs of 2012 (Geiger et al. 2012)."""

    _folder, _cameras = "Kitti2012", ("colored_0", "colored_1")

    def _known(self, base):
        return self._pairs(base, "disp_noc/*.png")


class Kitti2015Stereo(_Kitti):
    """KITTI's 400 pairs of 2015 (Menze and Geiger 2015)."""

    _folder, _cameras, _maps = "Kitti2015", ("image_2", "image_3"), ("disp_occ_0", "disp_occ_1")


class CREStereo(StereoMatchingDataset):
    """200,000 drawn pairs (Li et al. 2022)."""

    _has_built_in_disparity_mask = True

    def __init__(self, root, transforms=None):
        super().__init__(root, transforms)
        for kind in ("shapenet", "reflective", "tree", "hole"):
            base = Path(self.root, "CREStereo", kind)
            self._images += self._pairs(base, "*_left.jpg", "*_right.jpg")
            self._disparities += self._pairs(base, "*_left.disp.png", "*_right.disp.png")

    def _read_disparity(self, path):
        return _png(path, 32).astype("float32"), None


class FallingThingsStereo(StereoMatchingDataset):
    """Household objects that fall in rooms (Tremblay et al. 2018); the files have depths."""

    def __init__(self, root, variant="single", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", ("single", "mixed", "both"))
        for kind, depth in (("single", "*/*"), ("mixed", "*")):
            if variant in (kind, "both"):
                base = Path(self.root, "FallingThings", kind)
                self._images += self._pairs(base, f"{depth}/*.left.jpg", f"{depth}/*.right.jpg")
                self._disparities += self._pairs(base, f"{depth}/*.left.depth.png", f"{depth}/*.right.depth.png")

    def _read_disparity(self, path):
        camera = json.loads(Path(path).with_name("_camera_settings.json").read_text())
        focal = camera["camera_settings"][0]["intrinsic_settings"]["fx"]
        numpy = _numpy()
        with numpy.errstate(divide="ignore"):  # the cameras are 6 cm apart, depths are in tenths of a millimeter
            return numpy.float32(focal * 600.0) / read_png16(path)[None].astype(numpy.float32), None


class SceneFlowStereo(StereoMatchingDataset):
    """Drawn films: flying things, a monkey, and driving (Mayer et al. 2016)."""

    _DEPTHS = {"Monkaa": "*", "FlyingThings3D": "*/*/*", "Driving": "*/*/*"}

    def __init__(self, root, variant="FlyingThings3D", pass_name="clean", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", ("FlyingThings3D", "Driving", "Monkaa"))
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        base, depth = Path(self.root, "SceneFlow", variant), self._DEPTHS[variant]
        for name in ("clean", "final") if pass_name == "both" else (pass_name,):
            frames = base / f"frames_{name}pass"
            self._images += self._pairs(frames, f"{depth}/left/*.png", f"{depth}/right/*.png")
            self._disparities += self._pairs(base / "disparity", f"{depth}/left/*.pfm", f"{depth}/right/*.pfm")

    def _read_disparity(self, path):
        return _pfm(path), None


class SintelStereo(StereoMatchingDataset):
    """Scenes of an animated film (Butler et al. 2012), with what is hidden from the right camera."""

    _has_built_in_disparity_mask = True

    def __init__(self, root, pass_name="final", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(pass_name, "pass_name", ("final", "clean", "both"))
        base = Path(self.root, "Sintel", "training")
        for name in ("final", "clean") if pass_name == "both" else (pass_name,):
            self._images += self._pairs(base, f"{name}_left/*/*.png", f"{name}_right/*/*.png")
            self._disparities += self._pairs(base, "disparities/*/*.png")

    def _read_disparity(self, path):
        numpy, path = _numpy(), Path(path)
        red, green, blue = self._values(path).transpose(2, 0, 1).astype(numpy.float32)
        scene, base = path.parent.name, path.parents[2]
        hidden = [self._values(base / folder / scene / path.name) for folder in ("occlusions", "outofframe")]
        return (red * 4 + green / 64 + blue / 16384)[None], (hidden[0] == 0) & (hidden[1] == 0)

    @staticmethod
    def _values(path):
        with pillow("SintelStereo").open(path) as picture:
            return _numpy().asarray(picture)


class InStereo2k(StereoMatchingDataset):
    """2,060 pairs taken indoors (Bao et al. 2020)."""

    def __init__(self, root, split="train", transforms=None):
        super().__init__(root, transforms)
        base = Path(self.root, "InStereo2k", verify_str_arg(split, "split", ("train", "test")))
        self._images = self._pairs(base, "*/left.png", "*/right.png")
        self._disparities = self._pairs(base, "*/left_disp.png", "*/right_disp.png")

    def _read_disparity(self, path):
        return _png(path, 1024).astype("float32"), None


class ETH3DStereo(StereoMatchingDataset):
    """47 pairs in gray, measured by a laser (Schöps et al. 2017)."""

    _has_built_in_disparity_mask = True

    def __init__(self, root, split="train", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(split, "split", ("train", "test"))
        base = Path(self.root, "ETH3D")
        folder = "two_view_training" if split == "train" else "two_view_test"
        self._images = self._pairs(base / folder, "*/im0.png", "*/im1.png")
        self._disparities = self._unknown() if split == "test" else self._pairs(base / "two_view_training_gt",
                                                                                "*/disp0GT.pfm")

    def _read_disparity(self, path):
        with pillow("ETH3DStereo").open(Path(path).with_name("mask0nocc.png")) as mask:
            return _pfm(path), _numpy().asarray(mask).astype(bool)


class Middlebury2014Stereo(StereoMatchingDataset):
    """33 scenes taken indoors (Scharstein et al. 2014), with the right picture in three lights."""

    _has_built_in_disparity_mask = True
    _URL = "https://vision.middlebury.edu/stereo/"
    splits = {"train": "Adirondack Jadeplant Motorcycle Piano Pipes Playroom Playtable Recycle Shelves Vintage".split(),
              "additional": "Backpack Bicycle1 Cable Classroom1 Couch Flowers Mask Shopvac Sticks Storage Sword1 "
                            "Sword2 Umbrella".split(),
              "test": "Plants Classroom2E Classroom2 Australia DjembeL CrusadeP Crusade Hoops Bicycle2 Staircase "
                      "Newkuba AustraliaP Djembe Livingroom Computer".split()}

    def __init__(self, root, split="train", calibration="perfect", use_ambient_views=False, transforms=None,
                 download=False):
        super().__init__(root, transforms)
        self.split = verify_str_arg(split, "split", tuple(self.splits))
        if (calibration is None) != (split == "test"):
            raise ValueError(f"Middlebury2014Stereo: calibration is None for the test set and only there, got "
                             f"{shown(calibration)} for {shown(split)}")
        self.use_ambient_views = use_ambient_views
        kinds = self._kinds(calibration)
        base = Path(self.root, "Middlebury2014")
        if download:
            self._fetch(base, kinds)
        scenes = [base / split / f"{name}{kind}" for name in self.splits[split] for kind in kinds]
        need(all(scene.is_dir() for scene in scenes), "Middlebury2014Stereo", base / split)
        for kind in kinds:
            self._images += self._pairs(base / split, f"*{kind}/im0.png", f"*{kind}/im1.png")
            self._disparities += (self._unknown() if split == "test" else
                                  self._pairs(base / split, f"*{kind}/disp0.pfm", f"*{kind}/disp1.pfm"))

    @staticmethod
    def _kinds(calibration):
        if calibration is None:
            return [""]
        verify_str_arg(calibration, "calibration", ("perfect", "imperfect", "both"))
        return ["-perfect", "-imperfect"] if calibration == "both" else [f"-{calibration}"]

    def _fetch(self, base, kinds):
        if self.split == "test":
            download_and_extract_archive(f"{self._URL}submit3/zip/MiddEval3-data-F.zip", base)
            (base / "test").mkdir(exist_ok=True)
            for scene in (base / "MiddEval3" / "testF").iterdir():
                shutil.move(scene, base / "test" / scene.name)
            shutil.rmtree(base / "MiddEval3")
            return
        for name in self.splits[self.split]:
            for kind in kinds:
                if not (base / self.split / f"{name}{kind}").is_dir():
                    download_and_extract_archive(f"{self._URL}data/scenes2014/zip/{name}{kind}.zip", base / self.split,
                                                 remove_finished=True)

    def _read_img(self, path):
        """The picture, or the same view in another light, drawn with Python's `random`."""
        path = Path(path)
        if self.use_ambient_views and path.name == "im1.png":
            views = [path, *(view for light in "EL" if (view := path.with_name(f"im1{light}.png")).exists())]
            path = random.choice(views)
        return super()._read_img(path)

    def _read_disparity(self, path):
        found = _pfm(path)
        found[found == _numpy().inf] = 0
        return found, found[0] > 0
