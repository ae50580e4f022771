"""Color pictures for training: CIFAR-10's batches and folders of images, read and checked before a run begins."""

import pickle
from pathlib import Path

import numpy
from tqdm import tqdm

import flambeau

from .errors import UserError, reason
from .images import pillow
from .task import Settings, make_picture_task

CIFAR_DEFAULTS = Settings(epochs=10, batch_size=128, lr=0.002, seed=0)
FOLDER_DEFAULTS = Settings(epochs=5, batch_size=32, lr=0.0005, seed=0)
CIFAR_SIZE, FOLDER_SIZE = 32, 224
TEST_NAMES = "val", "valid", "validation", "test"
TEST_PART = 5  # where a folder has no pictures for the test, one in so many is kept for it


def cifar10_task(folder, model, size):
    """What of CIFAR-10 lies in a folder: `data_batch_*` and `test_batch*`, python, or binary (.bin, .bin.gz)."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: --data takes the folder with CIFAR-10's batches")
    inner = [folder / name for name in ("cifar-10-batches-py", "cifar-10-batches-bin")]
    place = next((path for path in inner if path.is_dir()), folder)
    train, test = (read_batches(place, start) for start in ("data_batch_", "test_batch"))
    classes = list(flambeau.vision.datasets.cifar.NAMES)
    return make_picture_task("cifar10", train, test, (model, classes, size or CIFAR_SIZE), CIFAR_DEFAULTS)


def read_batches(folder, start):
    """Pictures uint8 [n, 3, 32, 32] and labels of all files whose names begin so; one kind of them if there are two."""
    files = sorted(path for path in folder.glob(f"{start}*") if path.is_file())
    binary = [path for path in files if ".bin" in path.suffixes]
    files = [path for path in files if not path.suffix] or binary
    if not files:
        raise UserError(f"{folder}: no {start}* there, neither a python nor a binary batch (.bin, .bin.gz)")
    parts = [read_batch(path) for path in files]
    return tuple(numpy.concatenate(column) for column in zip(*parts, strict=True))


def read_batch(path):
    cifar = flambeau.vision.datasets.cifar
    try:
        if ".bin" in path.suffixes:
            pictures, labels = cifar.read_binary(path)
            pictures = pictures.transpose(0, 3, 1, 2)
        else:
            entry = cifar.read_pickle(path)
            pictures, labels = numpy.asarray(entry["data"], numpy.uint8).reshape(-1, 3, 32, 32), entry["labels"]
        labels = numpy.asarray(labels, numpy.int64)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, IndexError,
            pickle.UnpicklingError) as error:
        raise UserError(f"{path}: not a batch of CIFAR-10, or a damaged one: {reason(error)}") from error
    if len(labels) != len(pictures):
        raise UserError(f"{path}: {len(labels)} labels, but {len(pictures)} pictures")
    if len(labels) == 0 or not 0 <= labels.min() <= labels.max() <= 9:
        raise UserError(f"{path}: expected pictures with labels 0 to 9, got {len(labels)} pictures"
                        + (f" and labels {labels.min()} to {labels.max()}" if len(labels) else ""))
    return pictures, labels


def folder_task(folder, model, size, seed):
    """DIR/train/CLASS/… with DIR/val/CLASS/…, or DIR/CLASS/…, of which the seed chooses one in five for the test."""
    folder, size = Path(folder), size or FOLDER_SIZE
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: --data takes a folder with a folder of pictures for each class")
    if (folder / "train").is_dir():
        test_folder = next((folder / name for name in TEST_NAMES if (folder / name).is_dir()), None)
        if test_folder is None:
            raise UserError(f"{folder}: it has train/, but no pictures for the test: put some into {folder / 'val'}, "
                            f"or give {folder / 'train'} itself, of which one in {TEST_PART} is then kept for it")
        classes, train = list_pictures(folder / "train")
        _, test = list_pictures(test_folder, classes)
    else:
        classes, found = list_pictures(folder)
        train, test = split(found, seed)
    return make_picture_task("folder", read_pictures(train, size), read_pictures(test, size), (model, classes, size),
                             FOLDER_DEFAULTS)


def list_pictures(folder, expected=None):
    """(the classes, [(path, class), …]); at least two classes, and pictures in each."""
    datasets = flambeau.vision.datasets.folder
    classes = expected or sorted(path.name for path in folder.iterdir() if path.is_dir())
    if len(classes) < 2:
        raise UserError(f"{folder}: expected a folder for each of two or more classes, "
                        f"found {f'only {classes[0]}' if classes else 'none'}")
    strange = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name not in classes)
    if strange:
        raise UserError(f"{folder}: {', '.join(strange)}: no such class in the training pictures, "
                        f"which have {', '.join(classes[:10])}")
    try:
        numbers = {name: k for k, name in enumerate(classes)}
        return classes, datasets.make_dataset(folder, numbers, datasets.IMG_EXTENSIONS)
    except FileNotFoundError as error:
        empty = [name for name in classes if not (folder / name).is_dir()]
        empty = empty or [name for name in classes if not any((folder / name).rglob("*.*"))] or classes
        raise UserError(f"{folder}: a class without pictures (one of {', '.join(empty)}): each needs at least one "
                        f"file of {', '.join(datasets.IMG_EXTENSIONS)}") from error


def split(found, seed):
    """One picture in five of every class, chosen by the seed, is for the test: (train, test)."""
    draw, train, test = numpy.random.RandomState(seed % 2**32), [], []
    for label in sorted({label for _, label in found}):
        mine = [entry for entry in found if entry[1] == label]
        if len(mine) < 2:
            raise UserError(f"{Path(mine[0][0]).parent}: one picture only: training and test need one each")
        order, kept = draw.permutation(len(mine)), max(len(mine) // TEST_PART, 1)
        test += [mine[k] for k in sorted(order[:kept])]
        train += [mine[k] for k in sorted(order[kept:])]
    return train, test


def read_pictures(entries, size):
    """(uint8 [n, 3, size, size], labels): decoded once, so that an unreadable file shows before the run begins."""
    pictures = numpy.empty((len(entries), 3, size, size), numpy.uint8)
    for k, (path, _) in enumerate(tqdm(entries, desc="reading", unit=" pictures", disable=None, leave=False)):
        pictures[k] = middle(read_color(path), size)
    return pictures, numpy.array([label for _, label in entries], numpy.int64)


def read_color(path):
    """A picture file in RGB."""
    image_module = pillow(path)
    try:
        with image_module.open(path) as picture:
            return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise UserError(f"{path}: not an image, or a damaged one: {reason(error)}") from error


def read_color_image(text):
    """The picture of `flambeau predict`: a file, or number N of a batch of CIFAR-10 as FILE:N."""
    path = Path(text)
    name, _, index = text.rpartition(":")
    if path.is_file():
        return read_color(path)
    if name and index.isdecimal() and Path(name).is_file():
        pictures, _ = read_batch(Path(name))
        if int(index) >= len(pictures):
            raise UserError(f"{text}: image {index} of {len(pictures)} does not exist")
        return pillow(text).fromarray(numpy.ascontiguousarray(pictures[int(index)].transpose(1, 2, 0)))
    raise UserError(f"{path}: no such image")


def middle(picture, size):
    """uint8 [3, size, size]: the shorter side scaled to `size`, and the middle of the longer one."""
    scale = size / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    small = picture.resize((width, height), pillow("the picture").Resampling.BILINEAR)
    return numpy.asarray(small.crop((left, top, left + size, top + size))).transpose(2, 0, 1)
