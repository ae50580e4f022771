"""Pictures as files and as tensors of bytes [channels, height, width]; Pillow reads and writes them."""

from .image import ImageReadMode as ImageReadMode
from .image import decode_avif as decode_avif
from .image import decode_gif as decode_gif
from .image import decode_heic as decode_heic
from .image import decode_image as decode_image
from .image import decode_jpeg as decode_jpeg
from .image import decode_png as decode_png
from .image import decode_webp as decode_webp
from .image import encode_jpeg as encode_jpeg
from .image import encode_png as encode_png
from .image import read_file as read_file
from .image import read_image as read_image
from .image import write_file as write_file
from .image import write_jpeg as write_jpeg
from .image import write_png as write_png
from .video import VideoReader as VideoReader
from .video import read_video as read_video
from .video import read_video_timestamps as read_video_timestamps
from .video import write_video as write_video
