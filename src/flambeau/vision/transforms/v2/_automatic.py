"""Automatic augmentation (v2): as v1, with other draws of signs, on samples of one picture."""

from .... import Tensor, rand
from ...._shown import shown
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .. import _draws, _policies
from .._kinds import InterpolationMode, is_pil, mode_of, size_of
from .._policies import AutoAugmentPolicy
from ..autoaugment import mixture
from . import functional as F
from ._transform import Transform, fill_for, fills, is_picture


class _Automatic(Transform):
    """Draws operations and applies them to the one picture of a sample."""

    def __init__(self, *, interpolation, fill):
        super().__init__()
        mode_of(interpolation, type(self).__name__)
        self.interpolation, self.fill = interpolation, fill
        self._fills = fills(fill, type(self).__name__)

    def forward(self, *inputs):
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        at = self._place(flat)
        flat[at] = self._changed(flat[at])
        return tree_unflatten(flat, spec)

    def _place(self, flat):
        """Where the picture is; other things than a picture and plain values cannot follow it."""
        for value in flat:
            if isinstance(value, (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints)):
                raise TypeError(f"{type(self).__name__}: {type(value).__name__} cannot follow the picture")
        wanted = self._wanted(flat)
        places = [k for k, value in enumerate(flat) if wanted[k] and is_picture(value)]
        if len(places) != 1:
            raise (ValueError if places else TypeError)(
                f"{type(self).__name__}: the sample must have one picture, it has {len(places)}")
        return places[0]

    def _apply(self, image, name, magnitude):
        if name == "Solarize" and not is_pil(image):
            magnitude = magnitude if image.is_floating_point() else magnitude * 255.0
        elif name == "Solarize":
            magnitude *= 255.0
        return _policies.apply(F, image, name, magnitude, self.interpolation, fill_for(self._fills, image))

    def _drawn(self, space, bins, size, step):
        """(operation, magnitude) by chance; `step` draws which magnitude."""
        name = list(space)[_draws.whole(0, len(space))]
        magnitudes, signed = space[name]
        magnitudes = magnitudes(bins, *size)
        if magnitudes is None:
            return name, 0.0
        magnitude = float(magnitudes[step(magnitudes)])
        return name, -magnitude if signed and rand(()).item() <= 0.5 else magnitude


class AutoAugment(_Automatic):
    """Two operations of a policy that was found for a data set (Cubuk et al. 2019)."""

    def __init__(self, policy=AutoAugmentPolicy.IMAGENET, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation=interpolation, fill=fill)
        if policy not in AutoAugmentPolicy:
            raise ValueError(f"AutoAugment: policy must be one of AutoAugmentPolicy, got {shown(policy)}")
        self.policy = policy
        self._policies = _policies.searched(policy)

    def _changed(self, image):
        size = size_of(image)
        for name, p, step in self._policies[_draws.whole(0, len(self._policies))]:
            if rand(()).item() > p:
                continue
            magnitudes, signed = _policies.AUTO[name]
            magnitude = 0.0 if step is None else float(magnitudes(10, *size)[step])
            image = self._apply(image, name, -magnitude if signed and rand(()).item() <= 0.5 else magnitude)
        return image


class RandAugment(_Automatic):
    """Some operations, each with the same strength (Cubuk et al. 2020)."""

    def __init__(self, num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST,
                 fill=None):
        super().__init__(interpolation=interpolation, fill=fill)
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def _changed(self, image):
        size = size_of(image)
        for _ in range(self.num_ops):
            drawn = self._drawn(_policies.RAND, self.num_magnitude_bins, size, lambda magnitudes: self.magnitude)
            image = self._apply(image, *drawn)
        return image


class TrivialAugmentWide(_Automatic):
    """One operation with any strength (Müller and Hutter 2021)."""

    def __init__(self, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation=interpolation, fill=fill)
        self.num_magnitude_bins = num_magnitude_bins

    def _changed(self, image):
        drawn = self._drawn(_policies.WIDE, self.num_magnitude_bins, size_of(image),
                            lambda magnitudes: _draws.whole(0, len(magnitudes)))
        return self._apply(image, *drawn)


class AugMix(_Automatic):
    """A mixture of chains of operations with the picture itself (Hendrycks et al. 2020)."""

    def __init__(self, severity=3, mixture_width=3, chain_depth=-1, alpha=1.0, all_ops=True,
                 interpolation=InterpolationMode.BILINEAR, fill=None):
        super().__init__(interpolation=interpolation, fill=fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"AugMix: severity must be between 1 and 10, got {shown(severity)}")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def _changed(self, image):
        values = F.pil_to_tensor(image) if is_pil(image) else image.as_subclass(Tensor)
        mixed = self._mixed(values)
        return F.to_pil_image(mixed) if is_pil(image) else tv_tensors.wrap(mixed, like=image)

    def _mixed(self, values):
        batch = values.reshape([1] * max(4 - values.dim(), 0) + list(values.shape))
        space = _policies.MIX if self.all_ops else _policies.PART
        kept, weights = mixture(self.alpha, self.mixture_width, len(batch))
        mix = kept * batch
        for k in range(self.mixture_width):
            chain = batch
            for _ in range(self.chain_depth if self.chain_depth > 0 else _draws.whole(1, 4)):
                drawn = self._drawn(space, 10, values.shape[-2:], lambda magnitudes: _draws.whole(0, self.severity))
                chain = self._apply(chain, *drawn)
            mix = mix + weights[:, k].view(-1, 1, 1, 1) * chain
        return mix.view(values.shape).to(values.dtype)
