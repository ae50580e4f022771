"""What is asked of inputs, and changes of what they are kept in: sizes, dtypes, kinds."""

from ..... import Tensor, float32, from_numpy, linspace, long
from .... import tv_tensors
from ... import _geometry
from ... import functional as F1
from ..._convert import is_array, pil_to_tensor
from ..._kinds import channels_of, is_pil, size_of
from ._dispatch import KERNELS, kernels, run


def get_dimensions(inpt):
    """[channels, height, width]."""
    return run(get_dimensions, inpt)


def get_dimensions_image(image):
    """[channels, height, width] of a tensor."""
    return [channels_of(image), *image.shape[-2:]]


def get_num_channels(inpt):
    """The number of channels."""
    return run(get_num_channels, inpt)


def get_num_channels_image(image):
    """The number of channels of a tensor."""
    return channels_of(image)


def get_size(inpt):
    """[height, width]."""
    return run(get_size, inpt)


def get_size_image(image):
    """[height, width] of a tensor."""
    return list(image.shape[-2:])


def _get_size_pil(image):
    return list(size_of(image))


def get_size_bounding_boxes(bounding_box):
    """[height, width] of the picture that boxes lie on."""
    return list(bounding_box.canvas_size)


def get_size_keypoints(keypoints):
    """[height, width] of the picture that points lie on."""
    return list(keypoints.canvas_size)


def get_num_frames(inpt):
    """The number of frames."""
    return run(get_num_frames, inpt)


def get_num_frames_video(video):
    """The number of frames of a tensor."""
    return video.shape[-4]


def get_image_size(inpt):
    """[width, height]."""
    return get_size(inpt)[::-1]


get_dimensions_video, get_num_channels_video, get_image_num_channels = (
    get_dimensions_image, get_num_channels_image, get_num_channels)
get_size_mask = get_size_video = get_size_image


def to_dtype(inpt, dtype=float32, scale=False):
    """Another dtype; with `scale`, white of pictures stays white."""
    return run(to_dtype, inpt, dtype=dtype, scale=scale)


def to_dtype_image(image, dtype=float32, scale=False):
    """A tensor in another dtype."""
    return _geometry.to_dtype(image, dtype, v2=True) if scale else image.to(dtype)


def _cast(values, dtype=float32):
    return values.to(dtype)


to_dtype_video = to_dtype_image


def convert_image_dtype(image, dtype=float32):
    """A picture in another dtype, white staying white."""
    return to_dtype_image(image, dtype, scale=True)


def to_image(inpt):
    """An Image of a tensor, a Pillow image or an array [height, width, channels]."""
    if is_array(inpt):
        values = from_numpy(inpt if inpt.ndim > 2 else inpt[:, :, None]).permute(2, 0, 1).contiguous()
    elif is_pil(inpt):
        values = pil_to_tensor(inpt)
    elif isinstance(inpt, Tensor):
        values = inpt
    else:
        raise TypeError(f"to_image: a tensor, a Pillow image or an array is needed, got {type(inpt).__name__}")
    return tv_tensors.Image(values)


def uniform_temporal_subsample(inpt, num_samples):
    """That many frames at equal distances, the first and the last among them."""
    return run(uniform_temporal_subsample, inpt, num_samples=num_samples)


def uniform_temporal_subsample_video(video, num_samples):
    """Frames of a tensor [..., frames, channels, height, width]."""
    last = video.shape[-4] - 1
    return video.index_select(-4, linspace(0, last, num_samples).clamp(0, last).to(video.device, long))


kernels(get_dimensions, get_dimensions_image, F1.get_dimensions)
kernels(get_num_channels, get_num_channels_image, channels_of)
kernels(get_size, get_size_image, _get_size_pil, get_size_mask)
KERNELS[get_size] |= {tv_tensors.BoundingBoxes: lambda inpt, given: get_size_bounding_boxes(inpt),
                      tv_tensors.KeyPoints: lambda inpt, given: get_size_keypoints(inpt)}
kernels(get_num_frames, video=get_num_frames_video)
KERNELS[get_num_frames]["pure"] = lambda inpt, given: get_num_frames_video(inpt)
kernels(to_dtype, to_dtype_image, None, _cast, _cast, _cast)
kernels(uniform_temporal_subsample, video=uniform_temporal_subsample_video)
KERNELS[uniform_temporal_subsample]["pure"] = lambda inpt, given: uniform_temporal_subsample_video(inpt, **given)
