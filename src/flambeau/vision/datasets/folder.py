"""Pictures in one folder per class."""

import io
import os
from pathlib import Path

from ..._shown import shown
from ..transforms._kinds import pillow
from .vision import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename, extensions):
    """Whether a name ends in one of these."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename):
    """Whether a name is a picture's."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory):
    """(the names of the folders in order, {name: number})."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"find_classes: {shown(str(directory))} has no folders, one of which would be a class")
    return classes, {name: k for k, name in enumerate(classes)}


def make_dataset(directory, class_to_idx=None, extensions=None, is_valid_file=None, allow_empty=False):
    """[(path, class), …] of the files below the folders of the classes, in order of their names."""
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    if not class_to_idx:
        raise ValueError("make_dataset: class_to_idx must have at least one class")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("make_dataset: give extensions, or is_valid_file, but not both")
    good = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions))
    found, empty = [], []
    for name in sorted(class_to_idx):
        paths = [os.path.join(folder, file)
                 for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True))
                 for file in sorted(files)]
        kept = [(path, class_to_idx[name]) for path in paths if good(path)]
        found += kept
        empty += [] if kept else [name]
    if empty and not allow_empty:
        endings = [extensions] if isinstance(extensions, str) else extensions or []
        kinds = f" that ends in {', '.join(endings)}" if endings else ""
        raise FileNotFoundError(f"make_dataset: no file{kinds} in the folders of {', '.join(map(shown, empty))}")
    return found


def pil_loader(path):
    """A picture file as an RGB image; a JPEG file is decoded when its pixels are asked for, since a crop needs few."""
    with open(path, "rb") as file:
        image = pillow("pil_loader").open(io.BytesIO(file.read()))
    if image.mode != "RGB":
        return image.convert("RGB")
    if image.format != "JPEG":
        image.load()
    return image


default_loader = pil_loader


def stored(path):
    """A picture file as it is: numbers of classes are not turned into colors."""
    with pillow("stored").open(path) as image:
        image.load()
        return image


class DatasetFolder(VisionDataset):
    """Files below `root/CLASS/`, read by `loader`."""

    def __init__(self, root, loader, extensions=None, transform=None, target_transform=None, is_valid_file=None,
                 allow_empty=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.loader, self.extensions = loader, extensions
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
        """[(path, class), …]."""
        if class_to_idx is None:
            raise ValueError("DatasetFolder.make_dataset: class_to_idx is missing")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory):
        """(the classes, {name: number})."""
        return find_classes(directory)

    def __getitem__(self, index):
        path, target = self.samples[index]
        return self._changed(self.loader(path), target)

    def __len__(self):
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Pictures in one folder per class: `root/dog/1.png`, `root/cat/2.jpg`."""

    def __init__(self, root, transform=None, target_transform=None, loader=default_loader, is_valid_file=None,
                 allow_empty=False):
        super().__init__(root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform, target_transform,
                         is_valid_file, allow_empty)
        self.imgs = self.samples


class Listed(VisionDataset):
    """Pictures with targets that a data set has listed: [(path, target), …]."""

    def __init__(self, root, samples, transform=None, target_transform=None, loader=default_loader):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._samples, self.loader = samples, loader

    def __getitem__(self, index):
        path, target = self._samples[index]
        return self._changed(self.loader(path), target)

    def __len__(self):
        return len(self._samples)


def numbered(names):
    """{name: number} in the order given."""
    return {name: k for k, name in enumerate(names)}


def under(root, *parts):
    """A path below the folder of a data set."""
    return Path(root).expanduser().joinpath(*parts)
