"""vision.io: pictures written and read again, in every format and mode."""

import io

import numpy as np
import pytest

import flambeau
from flambeau.vision import io as vision_io
from flambeau.vision.io import ImageReadMode

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 9, 4)).astype(np.uint8)
CHANNELS = {ImageReadMode.GRAY: 1, ImageReadMode.GRAY_ALPHA: 2, ImageReadMode.RGB: 3, ImageReadMode.RGB_ALPHA: 4}


def file_of(picture, format, **settings):
    file = io.BytesIO()
    picture.save(file, format, **settings)
    return flambeau.frombuffer(bytearray(file.getvalue()), dtype=flambeau.uint8)


def picture(channels):
    return Image.fromarray(PIXELS[:, :, 0] if channels == 1 else PIXELS[:, :, :channels])


def pixels(channels):
    return flambeau.from_numpy(PIXELS[:, :, :channels].copy()).permute(2, 0, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_is_exact_and_changes_its_channels(channels):
    data = file_of(picture(channels), "PNG")
    assert flambeau.equal(vision_io.decode_png(data), pixels(channels))
    assert flambeau.equal(vision_io.decode_image(data), pixels(channels))
    for mode, wanted in CHANNELS.items():
        found = vision_io.decode_image(data, mode)
        assert found.shape == (wanted, 7, 9) and found.dtype == flambeau.uint8
        assert flambeau.equal(found, vision_io.decode_image(data, mode.name))
        if mode.name.endswith("ALPHA"):
            assert flambeau.equal(found[-1:], pixels(channels)[-1:] if channels in (2, 4) else found[-1:] * 0 + 255)


def test_webp_without_loss():
    for channels in (3, 4):
        data = file_of(picture(channels), "WEBP", lossless=True, exact=True)
        assert flambeau.equal(vision_io.decode_webp(data), pixels(channels))
        assert vision_io.decode_image(data, "RGB").shape == (3, 7, 9)


def test_gif_frames_are_rgb():
    grey = [Image.fromarray(np.full((7, 9), v, np.uint8)) for v in (10, 200)]
    one = vision_io.decode_gif(file_of(grey[0], "GIF"))
    assert one.shape == (3, 7, 9) and (one == 10).all()
    two = vision_io.decode_image(file_of(grey[0], "GIF", save_all=True, append_images=grey[1:]), "GRAY")
    assert two.shape == (2, 3, 7, 9) and two[:, 0, 0, 0].tolist() == [10, 200]


def test_sixteen_bits_stay_sixteen_bits():
    values = np.arange(63, dtype=np.uint16).reshape(7, 9) * 1000
    data = file_of(Image.fromarray(values), "PNG")
    found = vision_io.decode_png(data)
    assert found.dtype == flambeau.uint16 and found.numpy()[0].tolist() == values.tolist()
    assert vision_io.decode_png(data, "RGB_ALPHA").numpy()[:, 0, 1].tolist() == [1000, 1000, 1000, 65535]


def test_palettes_and_bits_become_pixels():
    assert flambeau.equal(vision_io.decode_png(file_of(picture(3).quantize(), "PNG")),
                          flambeau.from_numpy(np.array(picture(3).quantize().convert("RGB"))).permute(2, 0, 1))
    assert vision_io.decode_png(file_of(picture(1).convert("1"), "PNG")).unique().tolist() == [0, 255]
    assert vision_io.decode_jpeg(file_of(picture(3).convert("CMYK"), "JPEG")).shape == (3, 7, 9)


def test_what_is_encoded_is_decoded(tmp_path):
    smooth = (flambeau.arange(3 * 16 * 16).reshape(3, 16, 16) // 4).to(flambeau.uint8)
    for image in (smooth, smooth[:1]):
        assert flambeau.equal(vision_io.decode_png(vision_io.encode_png(image)), image)
        near = vision_io.decode_jpeg(vision_io.encode_jpeg(image, quality=95))
        assert (near.int() - image.int()).abs().max() < 12
    assert len(vision_io.encode_jpeg(smooth, 10)) < len(vision_io.encode_jpeg(smooth, 95))
    assert len(vision_io.encode_png(smooth, 9)) < len(vision_io.encode_png(smooth, 0))
    vision_io.write_png(smooth, tmp_path / "a.png")
    vision_io.write_jpeg(smooth, tmp_path / "a.jpg", 95)
    assert flambeau.equal(vision_io.read_image(tmp_path / "a.png"), smooth)
    assert flambeau.equal(vision_io.decode_image(str(tmp_path / "a.png")), smooth)
    assert vision_io.read_image(tmp_path / "a.jpg", ImageReadMode.GRAY).shape == (1, 16, 16)


def test_lists_of_jpegs():
    files = vision_io.encode_jpeg([pixels(3), pixels(3)], 90)
    found = vision_io.decode_jpeg(files)
    assert len(found) == 2 and flambeau.equal(found[0], vision_io.decode_jpeg(files[0]))


def test_turned_cameras():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    data = file_of(picture(3), "JPEG", exif=exif, quality=95)
    plain, turned = vision_io.decode_image(data), vision_io.decode_image(data, apply_exif_orientation=True)
    assert flambeau.equal(turned, plain.rot90(-1, (1, 2)))


def test_files_are_bytes(tmp_path):
    data = flambeau.arange(256).to(flambeau.uint8)
    vision_io.write_file(tmp_path / "data", data)
    assert flambeau.equal(vision_io.read_file(tmp_path / "data"), data)
    vision_io.write_file(tmp_path / "nothing", data[:0])
    assert vision_io.read_file(tmp_path / "nothing").shape == (0,)


@pytest.mark.parametrize("call, error, message", [
    (lambda: vision_io.decode_png(file_of(picture(3), "JPEG")), RuntimeError, "PNG"),
    (lambda: vision_io.decode_jpeg(file_of(picture(3), "PNG")), RuntimeError, "JPEG"),
    (lambda: vision_io.decode_image(flambeau.zeros(9, dtype=flambeau.uint8)), RuntimeError, "9 bytes"),
    (lambda: vision_io.decode_image(file_of(picture(3), "PNG")[:-30]), RuntimeError, "not a whole picture"),
    (lambda: vision_io.decode_image(flambeau.zeros(9)), RuntimeError, "uint8"),
    (lambda: vision_io.decode_image(file_of(picture(3), "PNG"), "PINK"), ValueError, "RGB_ALPHA"),
    (lambda: vision_io.read_image("/nowhere/at/all.png"), FileNotFoundError, "nowhere"),
    (lambda: vision_io.encode_png(flambeau.zeros(3, 4, 4)), RuntimeError, "uint8"),
    (lambda: vision_io.encode_png(pixels(2)), RuntimeError, "1 or 3"),
    (lambda: vision_io.encode_png(pixels(3), 10), ValueError, "compression_level"),
    (lambda: vision_io.encode_jpeg(pixels(3), 0), ValueError, "quality"),
    (lambda: vision_io.decode_heic(flambeau.zeros(3, dtype=flambeau.uint8)), NotImplementedError, "pillow-heif"),
    (lambda: vision_io.read_video("a.mp4"), NotImplementedError, "PyAV"),
    (lambda: vision_io.VideoReader("a.mp4"), NotImplementedError, "a.mp4"),
])
def test_what_cannot_be_done_says_why(call, error, message):
    with pytest.raises(error, match=message):
        call()
