"""ps_roi_pool: the mean of each bin's pixels, where every bin has channels of its own."""

import flambeau

from ._regions import RegionLayer, as_pair, as_regions


def ps_roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """Each region as output_size bins, each the mean of its whole pixels; channels as for `ps_roi_align`
    (Dai et al. 2016)."""
    return flambeau.ops.torchvision.ps_roi_pool(input, as_regions(boxes, "ps_roi_pool"), spatial_scale,
                                                *as_pair(output_size))[0]


class PSRoIPool(RegionLayer):
    """`ps_roi_pool` as a layer."""

    _operator = staticmethod(ps_roi_pool)
    _settings = ("output_size", "spatial_scale")

    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
