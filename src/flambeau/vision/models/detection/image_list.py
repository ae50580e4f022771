"""Images of different sizes in one tensor."""


class ImageList:
    """Images padded to one size, with the size (height, width) that each has without the padding."""

    def __init__(self, tensors, image_sizes):
        self.tensors, self.image_sizes = tensors, image_sizes

    def to(self, device):
        """The same on another device."""
        return ImageList(self.tensors.to(device), self.image_sizes)
