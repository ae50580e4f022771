"""The networks the command trains: two small ones for pictures of digits, and vision's models for color pictures.

The two are smooth (SiLU, average pooling): where relu and max pooling make decisions, a rounding error in the last
digit can turn one, and the losses of two correct implementations drift apart within 50 steps. These agree to 1e-6.
"""

from flambeau import nn

from .classifier import Classifier


class Block(nn.Sequential):
    """3x3 convolution, batch normalization, SiLU. The normalization has a shift, so the convolution needs no bias."""

    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(),
        )


class DigitsNet(nn.Sequential):
    """For 8x8 pictures (UCI handwritten digits): 24 thousand parameters."""

    size = 8

    def __init__(self):
        super().__init__(
            Block(1, 16),
            Block(16, 32), nn.AvgPool2d(2),  # 8x8 -> 4x4
            Block(32, 32), nn.AvgPool2d(2),  # 4x4 -> 2x2
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(32 * 2 * 2, 64), nn.SiLU(),
            nn.Linear(64, 10),
        )


class MnistNet(nn.Sequential):
    """For 28x28 pictures (MNIST): 57 thousand parameters."""

    size = 28

    def __init__(self):
        super().__init__(
            Block(1, 32), nn.AvgPool2d(2),   # 28x28 -> 14x14
            Block(32, 64), nn.AvgPool2d(2),  # 14x14 -> 7x7
            Block(64, 64), nn.AvgPool2d(2),  # 7x7 -> 3x3
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(64 * 3 * 3, 10),
        )


#: what a checkpoint's `task` says -> the network to build
NETWORKS = {"digits": DigitsNet, "mnist": MnistNet, "cifar10": Classifier, "folder": Classifier}


def build_network(task, model=None):
    """A new network for a task; `model` says which one where there is a choice."""
    return NETWORKS[task](**model) if model else NETWORKS[task]()
