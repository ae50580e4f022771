"""Feature pyramids: maps of all scales with the meaning of the deepest   (Lin et al. 2017)."""

from collections import OrderedDict

from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from .misc import Conv2dNormActivation


class ExtraFPNBlock(nn.Module):
    """A block that adds levels to a pyramid: from the levels' results, the maps they were made of, and their names."""

    def forward(self, results, x, names):
        """(results, names) with what the block adds."""
        raise NotImplementedError(f"{type(self).__name__} needs a forward(results, x, names)")


class FeaturePyramidNetwork(nn.Module):
    """Maps of growing depth, each given `out_channels`, added to the next deeper one enlarged, and smoothed.

    in_channels_list: the channels of the maps, shallowest first. extra_blocks: an ExtraFPNBlock that adds levels.

    >>> pyramid = flambeau.vision.ops.FeaturePyramidNetwork([4, 8], 6)
    >>> maps = {"a": flambeau.zeros(1, 4, 8, 8), "b": flambeau.zeros(1, 8, 4, 4)}
    >>> {name: tuple(x.shape) for name, x in pyramid(maps).items()}
    {'a': (1, 6, 8, 8), 'b': (1, 6, 4, 4)}
    """

    _version = 2

    def __init__(self, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for channels in in_channels_list:
            if channels == 0:
                raise ValueError(f"FeaturePyramidNetwork: a level without channels: {shown(in_channels_list)}")
            for blocks, given, size in ((self.inner_blocks, channels, 1), (self.layer_blocks, out_channels, 3)):
                blocks.append(Conv2dNormActivation(given, out_channels, kernel_size=size, norm_layer=norm_layer,
                                                   activation_layer=None))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"FeaturePyramidNetwork: extra_blocks must be an ExtraFPNBlock, got {shown(extra_blocks)}")
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if (local_metadata.get("version") or 1) < 2:  # a block was its convolution, without a number of its own
            for blocks in ("inner_blocks", "layer_blocks"):
                for k in range(len(getattr(self, blocks))):
                    for kind in ("weight", "bias"):
                        old = f"{prefix}{blocks}.{k}.{kind}"
                        if old in state_dict:
                            state_dict[f"{prefix}{blocks}.{k}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def forward(self, x):
        """{name: map} of the same names, shallowest first, and the extra blocks' levels after them."""
        names, maps = list(x), list(x.values())
        results, above = [], None
        for k in reversed(range(len(maps))):
            inner = self.inner_blocks[k](maps[k])
            above = inner if above is None else inner + F.interpolate(above, size=inner.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[k](above))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=True))


class LastLevelMaxPool(ExtraFPNBlock):
    """One more level: every second pixel of the deepest."""

    def forward(self, results, x, names):
        deepest = F.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0)
        return [*results, deepest], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two more levels by convolutions of stride 2, from the last result or, where the channels differ, the last map."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.zeros_(module.bias)
        self.use_P5 = in_channels == out_channels

    def forward(self, results, x, names):
        p6 = self.p6((results if self.use_P5 else x)[-1])
        return [*results, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]
