"""roi_align: regions of an image as a fixed grid of averaged bilinear samples."""

import flambeau

from ._regions import RegionLayer, as_pair, as_regions


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Each region as output_size bins, each the mean of bilinear samples   (He et al. 2017).

    boxes: [K, 5] with the image's number first, or a list of [L, 4], one per image. spatial_scale: pixels of input per
    unit of the boxes. sampling_ratio: samples per bin along each axis; zero or less means one per pixel. aligned: boxes
    are moved by half a pixel, so that coordinates name centres of pixels.

    >>> image = flambeau.arange(16.).reshape(1, 1, 4, 4)
    >>> flambeau.vision.ops.roi_align(image, [flambeau.tensor([[0., 0., 4., 4.]])], 2, aligned=True)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    return flambeau.ops.torchvision.roi_align(input, as_regions(boxes, "roi_align"), spatial_scale,
                                              *as_pair(output_size), sampling_ratio, aligned)


class RoIAlign(RegionLayer):
    """`roi_align` as a layer."""

    _operator = staticmethod(roi_align)
    _settings = ("output_size", "spatial_scale", "sampling_ratio", "aligned")

    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned
