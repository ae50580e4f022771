"""roi_pool: regions of an image as a fixed grid of maxima."""

import flambeau

from ._regions import RegionLayer, as_pair, as_regions


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """Each region as output_size bins, each the largest of its whole pixels   (Girshick 2015).

    boxes and spatial_scale are those of `roi_align`.
    """
    return flambeau.ops.torchvision.roi_pool(input, as_regions(boxes, "roi_pool"), spatial_scale,
                                             *as_pair(output_size))[0]


class RoIPool(RegionLayer):
    """`roi_pool` as a layer."""

    _operator = staticmethod(roi_pool)
    _settings = ("output_size", "spatial_scale")

    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
