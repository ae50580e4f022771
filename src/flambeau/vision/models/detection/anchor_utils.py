"""Reference boxes at every place of feature maps."""

import math

import flambeau
from flambeau import nn


class AnchorGenerator(nn.Module):
    """Boxes of given sizes and aspect ratios (height / width) around every pixel of feature maps   (Ren et al. 2015).

    sizes, aspect_ratios: for each map, the square roots of the areas and the ratios.

    >>> anchors = flambeau.vision.models.detection.anchor_utils.AnchorGenerator(((4, 8),), ((1.0,),))
    >>> anchors.num_anchors_per_location()
    [2]
    """

    def __init__(self, sizes=((128, 256, 512),), aspect_ratios=((0.5, 1.0, 2.0),)):
        super().__init__()
        if not isinstance(sizes[0], (list, tuple)):
            sizes = tuple((s,) for s in sizes)
        if not isinstance(aspect_ratios[0], (list, tuple)):
            aspect_ratios = (aspect_ratios,) * len(sizes)
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cell_anchors = [self.generate_anchors(s, r) for s, r in zip(sizes, aspect_ratios, strict=False)]

    def generate_anchors(self, scales, aspect_ratios, dtype=flambeau.float32, device="cpu"):
        """The boxes around the origin, in whole numbers: all sizes of the first ratio, then of the next."""
        scales = flambeau.as_tensor(scales, dtype=dtype, device=device)
        heights = flambeau.as_tensor(aspect_ratios, dtype=dtype, device=device).sqrt()
        h, w = ((side[:, None] * scales).reshape(-1) for side in (heights, 1 / heights))
        return (flambeau.stack([-w, -h, w, h], 1) / 2).round()

    def set_cell_anchors(self, dtype, device):
        """Converts the boxes around the origin."""
        self.cell_anchors = [a.to(dtype=dtype, device=device) for a in self.cell_anchors]

    def num_anchors_per_location(self):
        """How many boxes each map has at a pixel."""
        return [len(s) * len(r) for s, r in zip(self.sizes, self.aspect_ratios, strict=False)]

    def grid_anchors(self, grid_sizes, strides):
        """For each map its boxes [rows * columns * boxes, 4], from its size and the image's pixels per step."""
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise AssertionError(f"AnchorGenerator: sizes and aspect_ratios are given for {len(self.cell_anchors)} "
                                 f"maps, and there are {len(grid_sizes)}; give one tuple for each map")
        found = []
        for (rows, columns), (down, right), base in zip(grid_sizes, strides, self.cell_anchors, strict=True):
            y = flambeau.arange(rows, dtype=flambeau.int32, device=base.device) * down
            x = flambeau.arange(columns, dtype=flambeau.int32, device=base.device) * right
            y, x = (t.reshape(-1) for t in flambeau.meshgrid(y, x, indexing="ij"))
            shifts = flambeau.stack([x, y, x, y], 1)
            found.append((shifts[:, None] + base).reshape(-1, 4))
        return found

    def forward(self, image_list, feature_maps):
        """All boxes of each image, map after map."""
        sizes = [tuple(x.shape[-2:]) for x in feature_maps]
        height, width = image_list.tensors.shape[-2:]
        strides = [(height // rows, width // columns) for rows, columns in sizes]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        boxes = flambeau.cat(self.grid_anchors(sizes, strides))
        return [boxes.clone() for _ in image_list.image_sizes]


class DefaultBoxGenerator(nn.Module):
    """The default boxes of SSD: at every place a square of the map's scale, one between that and the next scale, and
    two for each aspect ratio   (Liu et al. 2016).

    scales: shares of the image, one more than maps; without them they are spread from min_ratio to max_ratio. steps:
    pixels per place, where they do not follow from the maps' sizes. clip: centres and sides are kept within the image.
    """

    def __init__(self, aspect_ratios, min_ratio=0.15, max_ratio=0.9, scales=None, steps=None, clip=True):
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError(f"DefaultBoxGenerator: {len(aspect_ratios)} maps need as many steps, got {len(steps)}")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        count = len(aspect_ratios)
        if scales is None:
            between = (max_ratio - min_ratio) / max(count - 1, 1)
            scales = [min_ratio + between * k for k in range(count)] + [1.0] if count > 1 else [min_ratio, max_ratio]
        self.scales = scales
        self._wh_pairs = self._generate_wh_pairs(count)

    def _generate_wh_pairs(self, num_outputs, dtype=flambeau.float32, device="cpu"):
        """Width and height of each box of each map."""
        found = []
        for k in range(num_outputs):
            scale, between = self.scales[k], math.sqrt(self.scales[k] * self.scales[k + 1])
            pairs = [[scale, scale], [between, between]]
            for ratio in self.aspect_ratios[k]:
                root = math.sqrt(ratio)
                pairs += [[scale * root, scale / root], [scale / root, scale * root]]
            found.append(flambeau.tensor(pairs, dtype=dtype, device=device))
        return found

    def num_anchors_per_location(self):
        """How many boxes each map has at a place."""
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _grid_default_boxes(self, grid_sizes, image_size, dtype=flambeau.float32):
        """Centre and sides of all boxes, as shares of the image."""
        found = []
        for k, (rows, columns) in enumerate(grid_sizes):
            down, right = (side / self.steps[k] for side in image_size) if self.steps is not None else (rows, columns)
            y = ((flambeau.arange(rows) + 0.5) / down).to(dtype)
            x = ((flambeau.arange(columns) + 0.5) / right).to(dtype)
            y, x = (t.reshape(-1) for t in flambeau.meshgrid(y, x, indexing="ij"))
            sides = self._wh_pairs[k].clamp(0, 1) if self.clip else self._wh_pairs[k]
            centres = flambeau.stack([x, y], -1)[:, None].expand(-1, len(sides), -1)
            found.append(flambeau.cat([centres, sides.expand(len(x), -1, -1)], -1).reshape(-1, 4))
        return flambeau.cat(found)

    def __repr__(self):
        said = (f"{name}={getattr(self, name)}" for name in ("aspect_ratios", "clip", "scales", "steps"))
        return f"{type(self).__name__}({', '.join(said)})"

    def forward(self, image_list, feature_maps):
        """All boxes of each image, in pixels."""
        sizes = [tuple(x.shape[-2:]) for x in feature_maps]
        height, width = image_list.tensors.shape[-2:]
        boxes = self._grid_default_boxes(sizes, (height, width), feature_maps[0].dtype).to(feature_maps[0].device)
        half = 0.5 * boxes[:, 2:]
        scale = flambeau.tensor([width, height], device=boxes.device)
        boxes = flambeau.cat([(boxes[:, :2] - half) * scale, (boxes[:, :2] + half) * scale], -1)
        return [boxes.clone() for _ in image_list.image_sizes]
