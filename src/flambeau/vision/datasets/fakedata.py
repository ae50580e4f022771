"""Pictures of noise, for programs that need some."""

from ... import Generator, float32, randint, randn
from ..transforms.functional import to_pil_image
from .vision import VisionDataset


class FakeData(VisionDataset):
    """`size` pictures of noise, the same ones each time they are asked for."""

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None,
                 random_offset=0):
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.random_offset = random_offset

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"FakeData has {len(self)} pictures, asked for number {index}")
        draws = Generator().manual_seed(index + self.random_offset)
        picture = randn(*self.image_size, generator=draws, dtype=float32)
        target = randint(0, self.num_classes, (1,), generator=draws)[0]
        return self._changed(to_pil_image(picture), int(target))

    def __len__(self):
        return self.size
