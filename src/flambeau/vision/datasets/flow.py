"""Optical flow: pairs of pictures, and how far each pixel moves from the first to the second."""

from itertools import pairwise
from pathlib import Path

from ...utils.data import ConcatDataset
from ._formats import _numpy, read_flo, read_pfm, read_png16
from .folder import default_loader
from .utils import need, verify_str_arg
from .vision import VisionDataset


class FlowDataset(VisionDataset):
    """(first picture, second picture, flow [2, h, w]), and which pixels are known where the files say so.

    A test set's flow is None. `transforms` takes and gives (first, second, flow, known); `3 * dataset` is the data set
    three times over.
    """

    _has_builtin_flow_mask = False

    def __init__(self, root, transforms=None, loader=default_loader):
        super().__init__(root)
        self.transforms, self._loader = transforms, loader
        self._image_list, self._flow_list = [], []

    def _read_flow(self, path):
        return read_flo(path)

    def __getitem__(self, index):
        first, second = (self._loader(path) for path in self._image_list[index])
        flow = known = None
        if self._flow_list:
            flow = self._read_flow(self._flow_list[index])
            flow, known = flow if self._has_builtin_flow_mask else (flow, None)
        if self.transforms is not None:
            first, second, flow, known = self.transforms(first, second, flow, known)
        masked = known is not None or self._has_builtin_flow_mask
        return (first, second, flow, known) if masked else (first, second, flow)

    def __len__(self):
        return len(self._image_list)

    def __rmul__(self, times):
        return ConcatDataset([self] * times)


def _files(folder, pattern):
    return sorted(str(path) for path in folder.glob(pattern))


class Sintel(FlowDataset):
    """Scenes of an animated film (Butler et al. 2012), as drawn (clean) or with blur and air (final)."""

    def __init__(self, root, split="train", pass_name="clean", transforms=None, loader=default_loader):
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        base = Path(self.root, "Sintel", "training" if split == "train" else "test")
        need(base.is_dir(), "Sintel", base)
        for name in ("clean", "final") if pass_name == "both" else (pass_name,):
            for scene in sorted((base / name).iterdir()):
                self._image_list += pairwise(_files(scene, "*.png"))
                self._flow_list += _files(base / "flow" / scene.name, "*.flo") if split == "train" else []


class _Masked(FlowDataset):
    """Flow as a PNG picture of 16 bits: (u + 512) * 64, (v + 512) * 64, and whether they are known (KITTI)."""

    _has_builtin_flow_mask = True

    def _read_flow(self, path):
        numpy = _numpy()
        values = read_png16(path)
        return ((values[..., :2].transpose(2, 0, 1) - 2.0 ** 15) / 64).astype(numpy.float32), values[..., 2] != 0


class KittiFlow(_Masked):
    """Streets from a moving car (Menze and Geiger 2015)."""

    def __init__(self, root, split="train", transforms=None, loader=default_loader):
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        base = Path(self.root, "KittiFlow", f"{split}ing")
        firsts, seconds = (_files(base / "image_2", f"*_{k}.png") for k in (10, 11))
        need(firsts and len(firsts) == len(seconds), "KittiFlow", base)
        self._image_list = list(zip(firsts, seconds, strict=True))
        self._flow_list = _files(base / "flow_occ", "*_10.png") if split == "train" else []


class HD1K(_Masked):
    """Streets in 36 sequences (Kondermann et al. 2016)."""

    def __init__(self, root, split="train", transforms=None, loader=default_loader):
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        base = Path(self.root, "hd1k")
        if split == "train":
            for k in range(36):
                flows = _files(base / "hd1k_flow_gt" / "flow_occ", f"{k:06d}_*.png")
                images = _files(base / "hd1k_input" / "image_2", f"{k:06d}_*.png")
                self._flow_list += flows[:max(len(images) - 1, 0)]  # the last picture has no successor
                self._image_list += pairwise(images)
        else:
            firsts, seconds = (_files(base / "hd1k_challenge" / "image_2", f"*{k}.png") for k in (10, 11))
            self._image_list = list(zip(firsts, seconds, strict=True))
        need(self._image_list, "HD1K", base)


class FlyingChairs(FlowDataset):
    """22,872 pairs of chairs that fly over photographs (Dosovitskiy et al. 2015)."""

    def __init__(self, root, split="train", transforms=None):
        super().__init__(root, transforms)
        verify_str_arg(split, "split", ("train", "val"))
        base = Path(self.root, "FlyingChairs")
        parts = base / "FlyingChairs_train_val.txt"
        need(parts.exists() and (base / "data").is_dir(), "FlyingChairs", base)
        images, flows = _files(base / "data", "*.ppm"), _files(base / "data", "*.flo")
        wanted = "1" if split == "train" else "2"
        for k, part in enumerate(parts.read_text().split()):
            if part == wanted:
                self._flow_list.append(flows[k])
                self._image_list.append((images[2 * k], images[2 * k + 1]))


class FlyingThings3D(FlowDataset):
    """Objects that fly through rooms (Mayer et al. 2016), seen by two cameras, forwards and backwards in time."""

    def __init__(self, root, split="train", pass_name="clean", camera="left", transforms=None, loader=default_loader):
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        verify_str_arg(camera, "camera", ("left", "right", "both"))
        base, part = Path(self.root, "FlyingThings3D"), split.upper()
        names = {"clean": ["cleanpass"], "final": ["finalpass"], "both": ["cleanpass", "finalpass"]}[pass_name]
        for name in names:
            for side in ("left", "right") if camera == "both" else (camera,):
                for forwards in (True, False):
                    self._collect(base / f"frames_{name}" / part, base / "optical_flow" / part, side, forwards)
        need(self._image_list, "FlyingThings3D", base)

    def _collect(self, frames, flows, side, forwards):
        for scene in sorted(folder for folder in frames.glob("*/*") if folder.is_dir()):
            way = "into_future" if forwards else "into_past"
            images = _files(scene / side, "*.png")
            known = _files(flows / scene.relative_to(frames) / way / side, "*.pfm")
            pairs = list(pairwise(images))
            self._image_list += pairs if forwards else [pair[::-1] for pair in pairs]
            self._flow_list += known[:-1] if forwards else known[1:]

    def _read_flow(self, path):
        return read_pfm(path)[:2]
