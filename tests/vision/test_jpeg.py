"""Crops of JPEG pictures that decode only the rows they need: the same pixels and errors as a whole decode."""

import io
import pickle

import pytest

import flambeau
from flambeau.vision import datasets
from flambeau.vision import transforms as T
from flambeau.vision.transforms import _jpeg, functional, v2

Image = pytest.importorskip("PIL.Image")
numpy = pytest.importorskip("numpy")


def pixels(mode, width, height):
    draw = numpy.random.RandomState(width * height)
    bands = {"L": (), "RGB": (3,), "CMYK": (4,)}[mode]
    smooth = numpy.linspace(0, 200, height)[:, None].reshape(-1, 1, *(1,) * len(bands))
    values = smooth + draw.randint(0, 55, (height, width, *bands))
    return Image.fromarray(values.astype(numpy.uint8), mode if mode == "CMYK" else None)


def jpeg(mode="RGB", size=(90, 70), **options):
    file = io.BytesIO()
    pixels(mode, *size).save(file, "JPEG", **options)
    return file.getvalue()


def rotated():
    """With the note of a camera that it was turned."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(exif=exif)


FILES = {"rgb": jpeg(), "gray": jpeg("L"), "cmyk": jpeg("CMYK"), "progressive": jpeg(progressive=True),
         "4:4:4": jpeg(subsampling=0), "4:2:2": jpeg(subsampling=1), "4:2:0": jpeg(subsampling=2),
         "optimized": jpeg(optimize=True), "restarts": jpeg(restart_marker_rows=1), "turned": rotated(),
         "odd": jpeg(size=(33, 41)), "tiny": jpeg(size=(1, 2)), "flat": jpeg(size=(50, 1)),
         "narrow": jpeg(size=(1, 50)), "large": jpeg(size=(300, 500)), "low quality": jpeg(quality=3)}
CROPS = [(0, 0, 8, 8), (0, 0, 1, 1), (5, 7, 16, 20), (30, 40, 17, 50), (3, 2, 66, 80), (40, 0, 29, 90),
         (-4, -5, 20, 30), (60, 80, 40, 40), (200, 3, 10, 10), (-30, 0, 20, 20), (0, 0, 69, 90), (0, 0, 70, 90)]


def opened(data):
    return Image.open(io.BytesIO(data))


def whole(data):
    picture = opened(data)
    picture.load()
    return picture


@pytest.mark.parametrize("name", FILES)
def test_crops_are_those_of_the_whole_picture(name):
    for top, left, height, width in CROPS:
        found = functional.crop(opened(FILES[name]), top, left, height, width)
        wanted = whole(FILES[name]).crop((left, top, left + width, top + height))
        assert (found.mode, found.size, found.info) == (wanted.mode, wanted.size, wanted.info)
        assert found.tobytes() == wanted.tobytes(), (top, left, height, width)


@pytest.mark.parametrize("name", ["rgb", "gray", "cmyk", "progressive", "turned", "large"])
def test_rows_are_really_left_out(name):
    picture = opened(FILES[name])
    functional.crop(picture, 2, 3, 20, 30)
    assert picture.tile and not numpy.asarray(picture._rows_above[1])[23:].any()


def test_several_crops_of_one_picture():
    picture, reference = opened(FILES["large"]), whole(FILES["large"])
    crops = functional.five_crop(picture, (100, 120))
    assert [c.tobytes() for c in crops] == [c.tobytes() for c in functional.five_crop(reference, (100, 120))]
    assert not picture.tile  # decoded once with a part, then whole
    again = opened(FILES["large"])
    first = functional.crop(again, 0, 0, 60, 50)
    kept = again._rows_above
    assert functional.crop(again, 0, 0, 60, 50).tobytes() == first.tobytes() and again._rows_above is kept


def test_a_draft_is_cropped_too():
    small, reference = opened(FILES["large"]), opened(FILES["large"])
    small.draft("RGB", (80, 120))
    reference.draft("RGB", (80, 120))
    reference.load()
    assert small.size != (300, 500)
    assert functional.crop(small, 4, 5, 20, 30).tobytes() == reference.crop((5, 4, 35, 24)).tobytes()


def folder(tmp_path, data, end="jpg"):
    (tmp_path / "a").mkdir(exist_ok=True)
    (tmp_path / "a" / f"0.{end}").write_bytes(data)
    return tmp_path


def test_the_folder_loader_leaves_pictures_undecoded(tmp_path):
    picture, _ = datasets.ImageFolder(folder(tmp_path, FILES["large"]))[0]
    assert picture.tile and picture.mode == "RGB" and picture.size == (300, 500)
    copy = pickle.loads(pickle.dumps(picture))
    assert copy.tobytes() == whole(FILES["large"]).tobytes() == picture.tobytes()
    for name in ("gray", "cmyk"):
        picture, _ = datasets.ImageFolder(folder(tmp_path, FILES[name]))[0]
        assert picture.mode == "RGB" and picture.tobytes() == whole(FILES[name]).convert("RGB").tobytes()
    for end in ("png", "bmp"):
        file = io.BytesIO()
        whole(FILES["rgb"]).save(file, end)
        (tmp_path / end).mkdir()
        picture, _ = datasets.ImageFolder(folder(tmp_path / end, file.getvalue(), end))[0]
        assert not getattr(picture, "tile", None) and picture.tobytes() == whole(FILES["rgb"]).tobytes()


@pytest.mark.parametrize("change", [
    T.RandomCrop(100), T.RandomCrop(600, pad_if_needed=True), T.RandomCrop(64, padding=9), T.RandomResizedCrop(64),
    T.CenterCrop(80), T.TenCrop(90), T.RandomHorizontalFlip(1.0), T.Resize(50), v2.RandomCrop(100), v2.CenterCrop(80),
    v2.RandomResizedCrop(64), v2.FiveCrop(90), v2.ScaleJitter((64, 64))], ids=repr)
def test_transforms_do_not_see_whether_a_picture_is_decoded(change):
    results = []
    for make in (opened, whole):
        flambeau.manual_seed(3)
        found = change(make(FILES["large"]))
        results.append([x.tobytes() for x in (found if isinstance(found, tuple) else [found])])
    assert results[0] == results[1]


def cut(data, part):
    return data[:int(len(data) * part)]


@pytest.mark.parametrize("name", ["rgb", "progressive", "large", "gray"])
def test_truncated_files_raise_where_their_rows_are_needed(name):
    broken = cut(FILES[name], 0.5)
    width, height = opened(broken).size
    with pytest.raises(OSError, match="truncated") as before:
        whole(broken)
    with pytest.raises(OSError, match="truncated") as now:
        functional.crop(opened(broken), height - 30, 0, 20, width)
    assert str(now.value) == str(before.value)
    if name != "progressive":  # whose every row needs the end of the file
        found = functional.crop(opened(broken), 0, 0, 8, 8)
        assert found.tobytes() == whole(FILES[name]).crop((0, 0, 8, 8)).tobytes()


def test_broken_data_gives_what_a_whole_decode_gives():
    data = FILES["large"]
    draw = numpy.random.RandomState(0)
    for _ in range(60):
        broken = bytearray(data)
        for place in draw.randint(len(data) // 20, len(data), 3):
            broken[place] = draw.randint(256)
        results = []
        for make in (opened, whole):
            try:
                results.append(functional.crop(make(bytes(broken)), 100, 30, 150, 200).tobytes())
            except (OSError, SyntaxError) as error:
                results.append(str(error))
        assert results[0] == results[1] or "truncated" in str(results[1]) or "broken" in str(results[1])


def test_a_decoder_that_stops_early_is_noticed(monkeypatch):
    class Lazy:
        setimage = decode = cleanup = staticmethod(lambda *arguments: (-1, -2))

    monkeypatch.setattr(Image, "_getdecoder", lambda *arguments: Lazy)
    assert _jpeg._decoded(opened(FILES["large"]), 100) is None


def test_files_that_are_not_in_memory_are_left_to_pillow(tmp_path):
    (tmp_path / "x.jpg").write_bytes(FILES["large"])
    with Image.open(tmp_path / "x.jpg") as picture:
        assert _jpeg.rows_above(picture, 20) is None
        assert functional.crop(picture, 0, 0, 20, 20).tobytes() == whole(FILES["large"]).crop((0, 0, 20, 20)).tobytes()
