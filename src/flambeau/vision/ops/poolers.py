"""Regions pooled from a pyramid: each from the level that fits its size."""

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ._regions import as_pair, as_regions
from .boxes import box_area
from .roi_align import roi_align


class LevelMapper:
    """The pyramid level of each box: level0 + log2(side / side0), between the first and the last (Lin et al. 2017)."""

    def __init__(self, k_min, k_max, canonical_scale=224, canonical_level=4, eps=1e-6):
        self.k_min, self.k_max, self.s0, self.lvl0, self.eps = k_min, k_max, canonical_scale, canonical_level, eps

    def __call__(self, boxlists):
        """The levels of the boxes of all images, counted from the first."""
        sides = flambeau.cat([box_area(boxes) for boxes in boxlists]).sqrt()
        level = (self.lvl0 + (sides / self.s0).log2() + self.eps).floor()
        return level.clamp(min=self.k_min, max=self.k_max).long() - self.k_min


def initLevelMapper(k_min, k_max, canonical_scale=224, canonical_level=4, eps=1e-6):
    """A LevelMapper."""
    return LevelMapper(k_min, k_max, canonical_scale, canonical_level, eps)


class MultiScaleRoIAlign(nn.Module):
    """`roi_align` of boxes from the maps of a pyramid, each box from the level of its size   (Lin et al. 2017).

    featmap_names: the maps to use. A box with sides of canonical_scale belongs to canonical_level.
    """

    def __init__(self, featmap_names, output_size, sampling_ratio, *, canonical_scale=224, canonical_level=4):
        super().__init__()
        self.featmap_names = [featmap_names] if isinstance(featmap_names, str) else featmap_names
        self.sampling_ratio, self.output_size = sampling_ratio, as_pair(output_size)
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales = self.map_levels = None  # of the last call

    def _set_up(self, maps, image_shapes):
        """How much smaller than the images each map is: always a power of two; and the levels these are."""
        if not image_shapes:
            raise ValueError("MultiScaleRoIAlign: image_shapes is empty; give the size of every image")
        largest = [max(sizes) for sizes in zip(*image_shapes, strict=True)]
        self.scales = []
        for x in maps:
            level = flambeau.tensor(float(x.shape[-2]) / float(largest[0])).log2().round()
            self.scales.append(2.0 ** float(level))
        first, last = (-float(flambeau.tensor(s).log2()) for s in (self.scales[0], self.scales[-1]))
        self.map_levels = LevelMapper(int(first), int(last), self.canonical_scale, self.canonical_level)

    def forward(self, x, boxes, image_shapes):
        """x: {name: map}; boxes: [L, 4] per image, in pixels of the images; image_shapes: (height, width) of each."""
        maps = [value for name, value in x.items() if name in self.featmap_names]
        if not maps:
            raise ValueError(f"MultiScaleRoIAlign: of the maps {shown(self.featmap_names)} none is in {shown(list(x))}")
        if self.scales is None:
            self._set_up(maps, image_shapes)
        regions = as_regions(boxes, "MultiScaleRoIAlign")
        if len(maps) == 1:
            return roi_align(maps[0], regions, self.output_size, self.scales[0], self.sampling_ratio)
        levels = self.map_levels(boxes)
        found, where = [], []
        for level, (value, scale) in enumerate(zip(maps, self.scales, strict=True)):
            members = (levels == level).nonzero().squeeze(1)
            where.append(members)
            found.append(roi_align(value, regions[members], self.output_size, scale, self.sampling_ratio))
        return flambeau.cat(found)[flambeau.cat(where).argsort()]

    def __repr__(self):
        return (f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
                f"sampling_ratio={self.sampling_ratio})")
