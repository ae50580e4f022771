"""AlexNet (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014)."""

import itertools

import flambeau
from flambeau import nn

from ._api import builder, weights_enum

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]

AlexNet_Weights = weights_enum("AlexNet_Weights", __name__)
#: channels, kernel, stride, padding of the convolutions; None: a pooling
_LAYERS = ((64, 11, 4, 2), None, (192, 5, 1, 2), None, (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1), None)


def _features():
    channels = 3
    for layer in _LAYERS:
        if layer is None:
            yield nn.MaxPool2d(3, 2)
        else:
            yield nn.Conv2d(channels, *layer)
            yield nn.ReLU(inplace=True)
            channels = layer[0]


class AlexNet(nn.Module):
    """Five convolutions and three linear layers, for images of 63 x 63 and more."""

    def __init__(self, num_classes=1000, dropout=0.5):
        super().__init__()
        self.features = nn.Sequential(*_features())
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        widths = (256 * 6 * 6, 4096, 4096)
        hidden = [layer for a, b in itertools.pairwise(widths)
                  for layer in (nn.Dropout(dropout), nn.Linear(a, b), nn.ReLU(inplace=True))]
        self.classifier = nn.Sequential(*hidden, nn.Linear(widths[-1], num_classes))

    def forward(self, x):
        return self.classifier(flambeau.flatten(self.avgpool(self.features(x)), 1))


@builder(AlexNet_Weights)
def alexnet(**kwargs):
    """AlexNet."""
    return AlexNet(**kwargs)
