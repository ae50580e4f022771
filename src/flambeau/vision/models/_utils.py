"""What several families of models share: widths, parts of a network, initial values."""

import functools

from flambeau import nn


def _make_divisible(v, divisor, min_value=None):
    """v rounded to a multiple of `divisor`: at least min_value (default divisor), and at least 0.9 v."""
    rounded = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


class IntermediateLayerGetter(nn.ModuleDict):
    """The first children of a model up to the last one asked for; gives {new name: that child's result}.

    return_layers: {name of a child: the name of its result}.

    >>> model = flambeau.vision.models.resnet18()
    >>> parts = flambeau.vision.models._utils.IntermediateLayerGetter(model, {"layer1": "low", "layer4": "high"})
    >>> {name: list(x.shape) for name, x in parts(flambeau.rand(1, 3, 64, 64)).items()}
    {'low': [1, 64, 16, 16], 'high': [1, 512, 2, 2]}
    """

    _version = 2

    def __init__(self, model, return_layers):
        children = dict(model.named_children())
        missing = set(return_layers) - set(children)
        if missing:
            raise ValueError(f"return_layers: {', '.join(sorted(map(str, missing)))} not among the children "
                             f"{', '.join(children)}")
        self.return_layers = {str(name): str(new) for name, new in return_layers.items()}
        last = max(list(children).index(name) for name in self.return_layers)
        super().__init__(dict(list(children.items())[:last + 1]))

    def forward(self, x):
        results = {}
        for name, child in self.items():
            x = child(x)
            if name in self.return_layers:
                results[self.return_layers[name]] = x
        return results


def init(model, conv=None, linear=None, norms=True, biases=True):
    """Initial values, module by module in order: `conv(weight)` and `linear(weight)`, norms 1 and 0, biases 0.

    biases: False leaves those of convolutions as they were drawn.
    """
    fills = (((nn.Conv1d, nn.Conv2d, nn.Conv3d), conv), (nn.Linear, linear),
             ((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm), nn.init.ones_ if norms else None))
    for module in model.modules():
        for kinds, fill in fills:
            if fill is not None and isinstance(module, kinds):
                fill(module.weight)
                if module.bias is not None and (biases or fill is not conv):
                    nn.init.zeros_(module.bias)


def he_fan_out(weight):
    """Normal, for ReLU, by the number of outputs (He et al. 2015)."""
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


def normal_convs(model):
    """Small normal weights and zero biases for all convolutions."""
    init(model, conv=functools.partial(nn.init.normal_, std=0.01), norms=False)
