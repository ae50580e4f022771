"""ps_roi_align: roi_align where every bin has channels of its own."""

import flambeau

from ._regions import RegionLayer, as_pair, as_regions


def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1):
    """`roi_align` with aligned=True of position-sensitive maps: bin (i, j) of output channel c reads input channel
    (c * rows + i) * columns + j   (Li et al. 2017)."""
    return flambeau.ops.torchvision.ps_roi_align(input, as_regions(boxes, "ps_roi_align"), spatial_scale,
                                                 *as_pair(output_size), sampling_ratio)[0]


class PSRoIAlign(RegionLayer):
    """`ps_roi_align` as a layer."""

    _operator = staticmethod(ps_roi_align)
    _settings = ("output_size", "spatial_scale", "sampling_ratio")

    def __init__(self, output_size, spatial_scale, sampling_ratio):
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio = output_size, spatial_scale, sampling_ratio
