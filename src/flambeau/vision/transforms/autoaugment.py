"""Automatic augmentation (v1): AutoAugment, RandAugment, TrivialAugment and AugMix, by their papers."""

from ... import _sample_dirichlet, rand, randint, tensor
from ..._shown import shown
from ...nn import Module
from . import _draws, _policies
from . import functional as F
from ._kinds import InterpolationMode, check_picture, is_pil
from ._policies import AutoAugmentPolicy as AutoAugmentPolicy


class _Automatic(Module):
    """Draws operations and applies them with an interpolation and a fill."""

    def __init__(self, interpolation, fill):
        super().__init__()
        self.interpolation, self.fill = interpolation, fill

    def _color_for(self, channels):
        if isinstance(self.fill, (int, float)):
            return [float(self.fill)] * channels
        return None if self.fill is None else [float(f) for f in self.fill]

    def _apply(self, img, name, magnitude, fill):
        return _policies.apply(F, img, name, magnitude, self.interpolation, fill)

    def _drawn(self, table, step):
        """(operation, magnitude) by chance; `step` draws which magnitude."""
        name = list(table)[_draws.whole(0, len(table))]
        magnitudes, signed = table[name]
        magnitude = float(magnitudes[step(magnitudes)]) if magnitudes.dim() > 0 else 0.0
        return name, -magnitude if signed and _draws.whole(0, 2) else magnitude

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self._told)})"


class AutoAugment(_Automatic):
    """Two operations of a policy that was found for a data set (Cubuk et al. 2019)."""

    _told = ("policy", "fill")

    def __init__(self, policy=AutoAugmentPolicy.IMAGENET, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        if policy not in AutoAugmentPolicy:
            raise ValueError(f"AutoAugment: policy must be one of AutoAugmentPolicy, got {shown(policy)}")
        self.policy = policy
        self.policies = _policies.searched(policy)

    @staticmethod
    def get_params(transform_num):
        """(which pair, a probability for each operation, a sign for each)."""
        return _draws.whole(0, transform_num), rand((2,)), randint(2, (2,))

    def forward(self, img):
        channels, height, width = F.get_dimensions(img)
        fill = self._color_for(channels)
        which, chances, signs = self.get_params(len(self.policies))
        for k, (name, p, step) in enumerate(self.policies[which]):
            if chances[k] <= p:
                magnitudes, signed = _policies.tables(_policies.AUTO, 10, (height, width))[name]
                magnitude = float(magnitudes[step]) if step is not None else 0.0
                img = self._apply(img, name, -magnitude if signed and signs[k] == 0 else magnitude, fill)
        return img


class RandAugment(_Automatic):
    """Some operations, each with the same strength (Cubuk et al. 2020)."""

    _told = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(self, num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST,
                 fill=None):
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def forward(self, img):
        channels, height, width = F.get_dimensions(img)
        for _ in range(self.num_ops):
            table = _policies.tables(_policies.RAND, self.num_magnitude_bins, (height, width))
            img = self._apply(img, *self._drawn(table, lambda magnitudes: self.magnitude), self._color_for(channels))
        return img


class TrivialAugmentWide(_Automatic):
    """One operation with any strength (Müller and Hutter 2021)."""

    _told = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(self, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img):
        channels, height, width = F.get_dimensions(img)
        table = _policies.tables(_policies.WIDE, self.num_magnitude_bins, (height, width))
        drawn = self._drawn(table, lambda magnitudes: _draws.whole(0, len(magnitudes)))
        return self._apply(img, *drawn, self._color_for(channels))


class AugMix(_Automatic):
    """A mixture of chains of operations with the picture itself (Hendrycks et al. 2020)."""

    _told = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")

    def __init__(self, severity=3, mixture_width=3, chain_depth=-1, alpha=1.0, all_ops=True,
                 interpolation=InterpolationMode.BILINEAR, fill=None):
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"AugMix: severity must be between 1 and 10, got {shown(severity)}")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def forward(self, img):
        check_picture(img, "AugMix")
        values = F.pil_to_tensor(img) if is_pil(img) else img
        mixed = self._mixed(values, self._color_for(F.get_image_num_channels(img)))
        return F.to_pil_image(mixed) if is_pil(img) else mixed

    def _mixed(self, values, fill):
        batch = values.reshape([1] * max(4 - values.dim(), 0) + list(values.shape))
        table = _policies.tables(_policies.MIX if self.all_ops else _policies.PART, 10, values.shape[-2:])
        kept, weights = mixture(self.alpha, self.mixture_width, len(batch))
        mix = kept * batch
        for k in range(self.mixture_width):
            chain = batch
            for _ in range(self.chain_depth if self.chain_depth > 0 else _draws.whole(1, 4)):
                drawn = self._drawn(table, lambda magnitudes: _draws.whole(0, self.severity))
                chain = self._apply(chain, *drawn, fill)
            mix = mix + weights[:, k].view(-1, 1, 1, 1) * chain
        return mix.view(values.shape).to(values.dtype)


def mixture(alpha, width, count):
    """(the picture's own part [count, 1, 1, 1], each chain's part [count, width])."""
    parts = _sample_dirichlet(tensor([alpha, alpha]).expand(count, -1))
    return parts[:, 0].view(-1, 1, 1, 1), _sample_dirichlet(tensor([alpha] * width).expand(count, -1)) * parts[:, 1:2]
