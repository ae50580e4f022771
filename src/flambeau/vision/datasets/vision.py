"""What data sets of pictures have in common: a folder, transforms of pictures and targets, how they are shown."""

from pathlib import Path

from ...utils.data import Dataset


class VisionDataset(Dataset):
    """Pictures below `root`; `transforms` takes picture and target, or `transform` and `target_transform` one each."""

    _repr_indent = 4

    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        self.root = str(Path(root).expanduser()) if isinstance(root, str) else root
        separate = transform is not None or target_transform is not None
        if transforms is not None and separate:
            raise ValueError(f"{type(self).__name__}: give transforms (of picture and target), or transform and "
                             "target_transform, but not both")
        self.transform, self.target_transform = transform, target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__}.__getitem__ is missing")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__}.__len__ is missing")

    def _changed(self, picture, target):
        """The two, through the transforms."""
        return (picture, target) if self.transforms is None else self.transforms(picture, target)

    def extra_repr(self):
        """Lines that say more of a data set."""
        return ""

    def __repr__(self):
        body = [f"Number of datapoints: {len(self)}"]
        body += [f"Root location: {self.root}"] if self.root is not None else []
        body += [line for line in self.extra_repr().splitlines() if line]
        if self.transforms is not None:
            body += repr(self.transforms).splitlines()
        return "\n".join([f"Dataset {type(self).__name__}", *(" " * self._repr_indent + line for line in body)])


class StandardTransform:
    """A transform of the picture and one of the target, as one of both."""

    def __init__(self, transform=None, target_transform=None):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, picture, target):
        picture = picture if self.transform is None else self.transform(picture)
        return picture, target if self.target_transform is None else self.target_transform(target)

    def __repr__(self):
        lines = ["StandardTransform"]
        for name, change in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if change is not None:
                first, *rest = repr(change).splitlines()
                lines += [name + first, *(" " * len(name) + line for line in rest)]
        return "\n".join(lines)
