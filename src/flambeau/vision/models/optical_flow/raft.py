"""RAFT (Teed and Deng 2020): optical flow, improved step by step by looking up how pixels of both images match."""

import math

import flambeau
from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ...ops.misc import Conv2dNormActivation
from .._api import builder, weights_enum
from .._utils import he_fan_out
from ._utils import grid_sample, make_coords_grid, upsample_flow

__all__ = ["RAFT", "Raft_Large_Weights", "Raft_Small_Weights", "raft_large", "raft_small"]

Raft_Large_Weights = weights_enum("Raft_Large_Weights", __name__)
Raft_Small_Weights = weights_enum("Raft_Small_Weights", __name__)


def _conv(in_channels, out_channels, kernel_size, norm_layer=None, **more):
    """A convolution with bias, a norm and ReLU."""
    return Conv2dNormActivation(in_channels, out_channels, kernel_size, norm_layer=norm_layer, bias=True, **more)


class _Block(nn.Module):
    """relu(shortcut + branch), where the branch is convnormrelu1, convnormrelu2 …"""

    def _parts(self, in_channels, out_channels, norm_layer, stride, project, layers):
        for k, layer in enumerate(layers, 1):
            self.add_module(f"convnormrelu{k}", layer)
        self.depth = len(layers)
        self.downsample = _conv(in_channels, out_channels, 1, norm_layer, stride=stride,
                                activation_layer=None) if project else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x
        for k in range(1, self.depth + 1):
            y = getattr(self, f"convnormrelu{k}")(y)
        return self.relu(self.downsample(x) + y)


class ResidualBlock(_Block):
    """Two 3x3 convolutions. always_project: the shortcut is a convolution even where the shapes agree."""

    def __init__(self, in_channels, out_channels, *, norm_layer, stride=1, always_project=False):
        super().__init__()
        self._parts(in_channels, out_channels, norm_layer, stride, stride != 1 or always_project, [
            _conv(in_channels, out_channels, 3, norm_layer, stride=stride),
            _conv(out_channels, out_channels, 3, norm_layer)])


class BottleneckBlock(_Block):
    """1x1 to a quarter of the channels, 3x3, 1x1."""

    def __init__(self, in_channels, out_channels, *, norm_layer, stride=1):
        super().__init__()
        narrow = out_channels // 4
        self._parts(in_channels, out_channels, norm_layer, stride, stride != 1, [
            _conv(in_channels, narrow, 1, norm_layer), _conv(narrow, narrow, 3, norm_layer, stride=stride),
            _conv(narrow, out_channels, 1, norm_layer)])


class FeatureEncoder(nn.Module):
    """Features at an eighth of the size. layers: channels of the first convolution, of three stages, of the last."""

    def __init__(self, *, block=ResidualBlock, layers=(64, 64, 96, 128, 256), strides=(2, 1, 2, 2),
                 norm_layer=nn.BatchNorm2d):
        super().__init__()
        if len(layers) != 5 or len(strides) != 4:
            raise ValueError(f"FeatureEncoder: expected 5 layers and 4 strides; got {shown(layers)} and "
                             f"{shown(strides)}")
        self.convnormrelu = _conv(3, layers[0], 7, norm_layer, stride=strides[0])
        for k in (1, 2, 3):
            self.add_module(f"layer{k}", self._make_2_blocks(block, layers[k - 1], layers[k], norm_layer, strides[k]))
        self.conv = nn.Conv2d(layers[3], layers[4], 1)
        self.output_dim, self.downsample_factor = layers[-1], math.prod(strides)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                he_fan_out(module.weight)

    def _make_2_blocks(self, block, in_channels, out_channels, norm_layer, first_stride):
        return nn.Sequential(block(in_channels, out_channels, norm_layer=norm_layer, stride=first_stride),
                             block(out_channels, out_channels, norm_layer=norm_layer, stride=1))

    def forward(self, x):
        return self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(x)))))


class MotionEncoder(nn.Module):
    """What the matches and the flow so far say of the motion; the flow itself is the last two channels."""

    def __init__(self, *, in_channels_corr, corr_layers=(256, 192), flow_layers=(128, 64), out_channels=128):
        super().__init__()
        if len(flow_layers) != 2 or len(corr_layers) not in (1, 2):
            raise ValueError(f"MotionEncoder: expected 2 flow_layers and 1 or 2 corr_layers; got {shown(flow_layers)} "
                             f"and {shown(corr_layers)}")
        self.convcorr1 = _conv(in_channels_corr, corr_layers[0], 1)
        self.convcorr2 = _conv(corr_layers[0], corr_layers[1], 3) if len(corr_layers) == 2 else nn.Identity()
        self.convflow1, self.convflow2 = _conv(2, flow_layers[0], 7), _conv(flow_layers[0], flow_layers[1], 3)
        self.conv = _conv(corr_layers[-1] + flow_layers[-1], out_channels - 2, 3)
        self.out_channels = out_channels

    def forward(self, flow, corr_features):
        parts = [self.convcorr2(self.convcorr1(corr_features)), self.convflow2(self.convflow1(flow))]
        return flambeau.cat([self.conv(flambeau.cat(parts, dim=1)), flow], dim=1)


class ConvGRU(nn.Module):
    """A gated recurrent unit made of convolutions."""

    def __init__(self, *, input_size, hidden_size, kernel_size, padding):
        super().__init__()
        self.convz, self.convr, self.convq = (
            nn.Conv2d(hidden_size + input_size, hidden_size, kernel_size, padding=padding) for _ in "zrq")

    def forward(self, h, x):
        both = flambeau.cat([h, x], dim=1)
        update, reset = flambeau.sigmoid(self.convz(both)), flambeau.sigmoid(self.convr(both))
        new = flambeau.tanh(self.convq(flambeau.cat([reset * h, x], dim=1)))
        return (1 - update) * h + update * new


class RecurrentBlock(nn.Module):
    """One ConvGRU, or one along rows and then one along columns."""

    def __init__(self, *, input_size, hidden_size, kernel_size=((1, 5), (5, 1)), padding=((0, 2), (2, 0))):
        super().__init__()
        if len(kernel_size) != len(padding) or len(kernel_size) not in (1, 2):
            raise ValueError(f"RecurrentBlock: expected 1 or 2 kernel sizes and as many paddings; got "
                             f"{shown(kernel_size)} and {shown(padding)}")
        self.depth, self.hidden_size = len(kernel_size), hidden_size
        for k, (kernel, around) in enumerate(zip(kernel_size, padding, strict=True), 1):
            self.add_module(f"convgru{k}", ConvGRU(input_size=input_size, hidden_size=hidden_size, kernel_size=kernel,
                                                   padding=around))

    def forward(self, h, x):
        h = self.convgru1(h, x)
        return self.convgru2(h, x) if self.depth == 2 else h


class FlowHead(nn.Module):
    """The step of the flow that the hidden state suggests."""

    def __init__(self, *, in_channels, hidden_size):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, hidden_size, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_size, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.conv2(self.relu(self.conv1(x)))


class UpdateBlock(nn.Module):
    """(new hidden state, step of the flow)."""

    def __init__(self, *, motion_encoder, recurrent_block, flow_head):
        super().__init__()
        self.motion_encoder, self.recurrent_block, self.flow_head = motion_encoder, recurrent_block, flow_head
        self.hidden_state_size = recurrent_block.hidden_size

    def forward(self, hidden_state, context, corr_features, flow):
        motion = self.motion_encoder(flow, corr_features)
        hidden_state = self.recurrent_block(hidden_state, flambeau.cat([context, motion], dim=1))
        return hidden_state, self.flow_head(hidden_state)


class MaskPredictor(nn.Module):
    """Weights for upsample_flow; `multiplier` keeps their gradients small."""

    def __init__(self, *, in_channels, hidden_size, multiplier=0.25):
        super().__init__()
        self.convrelu = _conv(in_channels, hidden_size, 3)
        self.conv = nn.Conv2d(hidden_size, 8 * 8 * 9, 1)
        self.multiplier = multiplier

    def forward(self, x):
        return self.multiplier * self.conv(self.convrelu(x))


class CorrBlock(nn.Module):
    """How well pixels of both images match: all pairs, at num_levels sizes, looked up `radius` around a position."""

    def __init__(self, *, num_levels=4, radius=4):
        super().__init__()
        self.num_levels, self.radius, self.corr_pyramid = num_levels, radius, []
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, fmap1, fmap2):
        """Keeps the products of all features of the first image with those of the second, pooled again and again."""
        if fmap1.shape != fmap2.shape:
            raise ValueError(f"CorrBlock: features of both images have one shape; got {list(fmap1.shape)} and "
                             f"{list(fmap2.shape)}")
        smallest = 2 ** self.num_levels
        if min(fmap1.shape[-2:]) < smallest:
            raise ValueError(f"CorrBlock: {self.num_levels} levels need features of {smallest} x {smallest} at least, "
                             f"images of {8 * smallest} pixels; got features of {list(fmap1.shape[-2:])}")
        volume = self._compute_corr_volume(fmap1, fmap2)
        self.corr_pyramid = [volume]
        for _ in range(self.num_levels - 1):
            self.corr_pyramid.append(F.avg_pool2d(self.corr_pyramid[-1], 2, 2))

    def index_pyramid(self, centroids_coords):
        """[batch, out_channels, height, width] at positions [batch, 2, height, width] in the second image."""
        batch, _, height, width = centroids_coords.shape
        offsets = flambeau.linspace(-self.radius, self.radius, 2 * self.radius + 1, device=centroids_coords.device,
                                    dtype=centroids_coords.dtype)
        around = flambeau.stack(flambeau.meshgrid(offsets, offsets, indexing="ij"), -1).unsqueeze(0)
        centre = centroids_coords.permute(0, 2, 3, 1).reshape(batch * height * width, 1, 1, 2)
        found = []
        for k, volume in enumerate(self.corr_pyramid):
            sampled = grid_sample(volume, centre / 2 ** k + around, align_corners=True)
            found.append(sampled.view(batch, height, width, -1))
        return flambeau.cat(found, dim=-1).permute(0, 3, 1, 2).contiguous()

    def _compute_corr_volume(self, fmap1, fmap2):
        """[batch * height * width, 1, height, width]."""
        batch, channels, height, width = fmap1.shape
        products = flambeau.matmul(fmap1.flatten(2).transpose(1, 2), fmap2.flatten(2)) / math.sqrt(channels)
        return products.view(batch * height * width, 1, height, width)


class RAFT(nn.Module):
    """Images of one shape, their sides multiples of 8; gives the flow after each update, the last one the best.

    mask_predictor: None upsamples the flow bilinearly.
    """

    def __init__(self, *, feature_encoder, context_encoder, corr_block, update_block, mask_predictor=None):
        super().__init__()
        self.feature_encoder, self.context_encoder, self.corr_block = feature_encoder, context_encoder, corr_block
        self.update_block, self.mask_predictor = update_block, mask_predictor

    def forward(self, image1, image2, num_flow_updates=12):
        batch, _, height, width = image1.shape
        if image2.shape[-2:] != (height, width) or height % 8 or width % 8:
            raise ValueError(f"RAFT: both images have one size, with sides that are multiples of 8; got "
                             f"{list(image1.shape)} and {list(image2.shape)}")
        first, second = flambeau.chunk(self.feature_encoder(flambeau.cat([image1, image2], dim=0)), 2, dim=0)
        self.corr_block.build_pyramid(first, second)
        hidden, context = self._context(image1)
        start = make_coords_grid(batch, height // 8, width // 8, image1.device).to(first.dtype)
        position, flows = start, []
        for _ in range(num_flow_updates):
            position = position.detach()  # a step is not blamed for where the ones before it led
            found = self.corr_block.index_pyramid(position)
            hidden, delta = self.update_block(hidden, context, found, position - start)
            position = position + delta
            mask = None if self.mask_predictor is None else self.mask_predictor(hidden)
            flows.append(upsample_flow(position - start, mask))
        return flows

    def _context(self, image):
        """(the first hidden state, what every update sees)."""
        whole, size = self.context_encoder(image), self.update_block.hidden_state_size
        hidden, context = whole[:, :size], whole[:, size:]
        if not context.shape[1]:
            raise ValueError(f"RAFT: context_encoder gives {whole.shape[1]} channels, and the hidden state alone has "
                             f"{size}")
        return flambeau.tanh(hidden), F.relu(context)


def _raft(kwargs, *, block, feature_layers, context_layers, context_norm, radius, corr_layers, flow_layers, motion,
          hidden, recurrent, head, mask):
    """A RAFT of these widths; parts that are in kwargs are taken from there."""
    features = kwargs.pop("feature_encoder", None) or FeatureEncoder(
        block=block, layers=feature_layers, norm_layer=nn.InstanceNorm2d)
    context = kwargs.pop("context_encoder", None) or FeatureEncoder(
        block=block, layers=context_layers, norm_layer=context_norm)
    corr = kwargs.pop("corr_block", None) or CorrBlock(num_levels=4, radius=radius)
    update = kwargs.pop("update_block", None)
    if update is None:
        encoder = MotionEncoder(in_channels_corr=corr.out_channels, corr_layers=corr_layers, flow_layers=flow_layers,
                                out_channels=motion)
        unit = RecurrentBlock(input_size=motion + context_layers[-1] - hidden, hidden_size=hidden, **recurrent)
        update = UpdateBlock(motion_encoder=encoder, recurrent_block=unit,
                             flow_head=FlowHead(in_channels=hidden, hidden_size=head))
    predictor = kwargs.pop("mask_predictor", None)
    if predictor is None and mask:
        predictor = MaskPredictor(in_channels=hidden, hidden_size=256)
    return RAFT(feature_encoder=features, context_encoder=context, corr_block=corr, update_block=update,
                mask_predictor=predictor, **kwargs)


@builder(Raft_Large_Weights)
def raft_large(**kwargs):
    """RAFT; also takes feature_encoder, context_encoder, corr_block, update_block and mask_predictor."""
    widths = (64, 64, 96, 128, 256)
    return _raft(kwargs, block=ResidualBlock, feature_layers=widths, context_layers=widths,
                 context_norm=nn.BatchNorm2d, radius=4, corr_layers=(256, 192), flow_layers=(128, 64), motion=128,
                 hidden=128, recurrent={}, head=256, mask=True)


@builder(Raft_Small_Weights)
def raft_small(**kwargs):
    """RAFT with a fifth of the parameters; takes the same parts as raft_large."""
    return _raft(kwargs, block=BottleneckBlock, feature_layers=(32, 32, 64, 96, 128),
                 context_layers=(32, 32, 64, 96, 160), context_norm=None, radius=3, corr_layers=(96,),
                 flow_layers=(64, 32), motion=82, hidden=96, recurrent={"kernel_size": (3,), "padding": (1,)}, head=128,
                 mask=False)
