"""What both Inception networks share: a convolution with norm and ReLU, initial values, inputs of the first weights."""

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

#: means and deviations of ImageNet, which the first published weights expect to find halved around 0.5
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class BasicConv2d(nn.Module):
    """A convolution without bias, its norm, ReLU."""

    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Normalized(nn.Module):
    """The base of both networks: `transform_input` asks for images as the first published weights saw them."""

    def _transform_input(self, x):
        if not self.transform_input:
            return x
        planes = [flambeau.unsqueeze(x[:, k], 1) * (std / 0.5) + (mean - 0.5) / 0.5
                  for k, (mean, std) in enumerate(zip(_MEAN, _STD, strict=True))]
        return flambeau.cat(planes, 1)


def truncated_init(model, std):
    """Normal values cut at 2, of deviation `std`, or what a layer's `stddev` says; norms 1 and 0."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(module.weight, 0.0, getattr(module, "stddev", std), -2, 2)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def without_auxiliaries(model, *names):
    """The model with these branches taken out after its weights are loaded."""
    model.aux_logits = False
    for name in names:
        setattr(model, name, None)
    return model
