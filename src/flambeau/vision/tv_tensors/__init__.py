"""Tensors that say what they are of a picture, so that `transforms.v2` knows what to do with each."""

from ._kinds import BoundingBoxes as BoundingBoxes
from ._kinds import BoundingBoxFormat as BoundingBoxFormat
from ._kinds import Image as Image
from ._kinds import KeyPoints as KeyPoints
from ._kinds import Mask as Mask
from ._kinds import Video as Video
from ._kinds import is_rotated_bounding_format as is_rotated_bounding_format
from ._tensor import TVTensor as TVTensor
from ._tensor import set_return_type as set_return_type
from ._tensor import wrap as wrap
