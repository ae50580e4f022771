"""Flow, stereo, videos and the rest: what torchvision gives for the same files, and what it has no answer for here."""

import hashlib
import json
import sys
import types
from fractions import Fraction
from pathlib import Path

import pytest

import flambeau
from flambeau.vision import datasets
from flambeau.vision.datasets import _formats, clips, described

Image = pytest.importorskip("PIL.Image")
numpy = pytest.importorskip("numpy")

from . import dataset_files as files  # noqa: E402  it needs Pillow and NumPy

KNOWN = json.loads((Path(__file__).parent / "dataset_files.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("datasets")
    files.make_all(made)
    return made


@pytest.mark.parametrize("case", KNOWN)
def test_samples_are_those_of_torchvision(folder, case):
    assert json.loads(json.dumps(files.read(datasets, folder, case))) == KNOWN[case]


def test_every_case_is_compared_or_tested_below():
    named_below = {"D.KittiFlow(r)", "D.HD1K(r)", "D.WIDERFace(r)"}
    assert set(files.CASES) - set(KNOWN) == named_below


def test_colors_of_16_bits_are_read_whole(tmp_path):
    make = files.Maker(tmp_path)
    make.color16("x.png", (7, 11))
    values = make.numbers("x.png", 11, 7, 3, 2)
    values[..., 2, :] = values[..., 2, :1] % 2 * [[[0, 1]]]
    wanted = values[..., 0].astype(int) * 256 + values[..., 1]
    assert numpy.array_equal(_formats.read_png16(tmp_path / "x.png"), wanted)
    make.gray16("g.png")
    assert _formats.read_png16(tmp_path / "g.png").max() == numpy.asarray(Image.open(tmp_path / "g.png")).max() > 255
    make.picture("eight.png")
    assert _formats.read_png16(tmp_path / "eight.png").shape == (4, 6, 3)


@pytest.mark.parametrize("kind", [datasets.KittiFlow, datasets.HD1K])
def test_flow_of_kitti_and_what_is_known_of_it(folder, kind):
    found = kind(folder)
    assert len(found) == (2 if kind is datasets.KittiFlow else 4)
    flow, known = found[0][2:]
    numbers = _formats.read_png16(found._flow_list[0])
    assert flow.dtype == numpy.float32 and flow.shape == (2, 4, 6) and known.dtype == bool
    assert numpy.array_equal(flow, (numbers[..., :2].transpose(2, 0, 1) - 32768) / 64)
    assert numpy.array_equal(known, numbers[..., 2] == 1) and known.any() and not known.all()
    assert kind(folder, transforms=lambda *parts: parts[::-1])[0][0] is not None
    assert kind(folder, split="test")[0][2:] == (None, None) and len(2 * found) == 2 * len(found)


@pytest.mark.parametrize("read, data", [
    (_formats.read_flo, b"PIEX" + bytes(8)), (_formats.read_flo, b"PIEH" + b"\x09\0\0\0\x09\0\0\0" + bytes(40)),
    (_formats.read_flo, b"PIEH" + b"\xff\xff\xff\xff\x01\0\0\0"), (_formats.read_pfm, b"P6\n1 1\n1\n"),
    (_formats.read_pfm, b"PF\nx y\n-1\n"), (_formats.read_pfm, b"Pf\n3 3\n-1\n" + bytes(8))])
def test_broken_files_of_flow_are_refused(tmp_path, read, data):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=r"is no|too few|has no size|not those of"):
        read(tmp_path / "file")


def test_pfm_of_the_other_byte_order(tmp_path):
    values = numpy.arange(6, dtype=">f4").reshape(2, 3)
    (tmp_path / "x.pfm").write_bytes(b"Pf\n3 2\n1.0\n" + values.tobytes())
    assert _formats.read_pfm(tmp_path / "x.pfm").tolist() == [values[::-1].tolist()]


def test_faces_are_described_in_the_order_of_the_published_files(folder):
    found = datasets.WIDERFace(folder)
    marks = found[0][1]
    assert marks["bbox"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert {name: marks[name].tolist() for name in marks if name != "bbox"} == {
        "blur": [0, 1], "expression": [1, 0], "illumination": [0, 0], "invalid": [0, 1], "occlusion": [2, 0],
        "pose": [1, 0]}
    assert found[1][1]["bbox"].tolist() == [[0, 0, 0, 0]]


def test_outlines_of_sbd(tmp_path):
    pytest.importorskip("scipy")
    make = files.Maker(tmp_path)
    files.outlines(make)
    _, edges = datasets.SBDataset(tmp_path)[0]
    assert edges.shape == (20, 4, 6)
    assert all(numpy.array_equal(edges[k], make.numbers(f"2008_1{k}", 4, 6) > 200) for k in range(20))
    _, mask = datasets.SBDataset(tmp_path, "val", mode="segmentation")[0]
    assert numpy.array_equal(numpy.asarray(mask), make.numbers("2008_2", 4, 6) % 21)


def test_street_classes():
    kinds = datasets.Cityscapes.classes
    assert len(kinds) == 35 and kinds[26].name == "car" and kinds[26].color == (0, 0, 142) and kinds[-1].id == -1
    assert [kind.train_id for kind in kinds if not kind.ignore_in_eval] == list(range(19))


def summed(path, text):
    path.write_text(text)
    return path.name, hashlib.md5(path.read_bytes()).hexdigest()


def test_places(tmp_path, monkeypatch):
    kind = datasets.Places365
    monkeypatch.setattr(kind, "_CATEGORIES_META", summed(tmp_path / "categories_places365.txt", "/a/air 0\n/b/bar 1\n"))
    monkeypatch.setattr(kind, "_FILE_LIST_META", {
        "train-standard": summed(tmp_path / "train.txt", "/b/bar/1.jpg 1\n/a/air/2.jpg 0\n"),
        "test": summed(tmp_path / "test.txt", "T_1.jpg\n")})
    make = files.Maker(tmp_path)
    for name in ("data_256_standard/b/bar/1", "data_256_standard/a/air/2", "test_large/T_1"):
        make.picture(f"{name}.png")
        make.path(f"{name}.png").rename(make.path(f"{name}.jpg"))
    found = kind(tmp_path, small=True, transform=lambda x: x.size)
    assert [found[k] for k in (0, 1)] == [((6, 4), 1), ((6, 4), 0)] and found.classes == ["/a/air", "/b/bar"]
    assert kind(tmp_path, "test")[0][1] is None and "Split: test" in repr(kind(tmp_path, "test"))
    with pytest.raises(RuntimeError, match=r"Places365: its files are not in"):
        kind(tmp_path / "empty")


@pytest.mark.parametrize("name, head", [("fer", "emotion,pixels,Usage"), ("icml", "emotion, Usage, pixels"),
                                        ("train", "emotion,pixels")])
def test_faces_as_a_table(tmp_path, monkeypatch, name, head):
    rows = [(k, "Training PublicTest PrivateTest".split()[k % 3], " ".join(["7"] * 2303 + [str(k)])) for k in range(6)]
    order = [column.strip() for column in head.split(",")]
    text = head + "\n" + "".join(
        ",".join(str({"emotion": e, "Usage": u, "pixels": p}[column]) for column in order) + "\n" for e, u, p in rows)
    (tmp_path / "fer2013").mkdir()
    file = datasets.FER2013._RESOURCES[name][0]
    monkeypatch.setitem(datasets.FER2013._RESOURCES, name, summed(tmp_path / "fer2013" / file, text))
    found = datasets.FER2013(tmp_path)
    assert [found[k][1] for k in range(len(found))] == ([0, 3] if name != "train" else list(range(6)))
    assert found[1][0].getpixel((47, 47)) == found[1][1] and found[1][0].size == (48, 48)


class Database:
    """What lmdb gives of a folder of files."""

    def __init__(self, folder, **options):
        self.data = {path.name.encode(): path.read_bytes() for path in sorted(Path(folder).iterdir())}

    def begin(self, write=False):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def stat(self):
        return {"entries": len(self.data)}

    def cursor(self):
        return types.SimpleNamespace(iternext=lambda keys, values: iter(self.data))

    def get(self, key):
        return self.data[key]


def test_databases_of_scenes(tmp_path, monkeypatch):
    with monkeypatch.context() as none:
        none.setitem(sys.modules, "lmdb", None)
        with pytest.raises(ImportError, match="pip install lmdb"):
            datasets.LSUNClass(str(tmp_path))
    monkeypatch.setitem(sys.modules, "lmdb", types.SimpleNamespace(open=Database))
    make = files.Maker(tmp_path)
    for name in ("bridge_train_lmdb/a.png", "bridge_train_lmdb/b.png", "tower_val_lmdb/c.png"):
        make.picture(name)
    found = datasets.LSUN(str(tmp_path), ["bridge_train", "tower_val"], transform=numpy.asarray)
    assert len(found) == 3 and [found[k][1] for k in range(3)] == [0, 0, 1]
    assert numpy.array_equal(found[2][0], make.numbers("tower_val_lmdb/c.png", 4, 6, 3))
    with pytest.raises(IndexError, match="index 3 of 3"):
        found[3]
    with pytest.raises(ValueError, match="'castle_train'"):
        datasets.LSUN(str(tmp_path), ["castle_train"])


def test_patches_are_kept_in_one_file(folder):
    found = datasets.PhotoTour(str(folder), "liberty")
    (Path(found.data_dir) / "info.txt").rename(Path(found.data_dir) / "moved.txt")
    again = datasets.PhotoTour(str(folder), "liberty", train=False)
    (Path(found.data_dir) / "moved.txt").rename(Path(found.data_dir) / "info.txt")
    assert flambeau.equal(again.data, found.data) and len(again) == 2 and described.PhotoTour.means["liberty"] == 0.4437


class Video:
    """What PyAV gives of a file whose bytes are: frames, frames per second, whether there is sound."""

    def __init__(self, path):
        frames, rate, sound = Path(path).read_bytes()
        self.count, base = frames, Fraction(1, rate * 2)
        self.video = types.SimpleNamespace(average_rate=Fraction(rate), time_base=base)
        audio = [types.SimpleNamespace()] if sound else []
        self.streams = types.SimpleNamespace(video=[self.video], audio=audio)
        self.start, self.rate = 0, rate

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def demux(self, stream):
        return [types.SimpleNamespace(pts=pts) for pts in (*range(0, 2 * self.count, 2), None)]

    def seek(self, offset, stream, backward):
        self.start = offset // 2 // 4 * 4  # every fourth frame is a key frame

    def decode(self, stream):
        if stream is not self.video:
            for k in range(self.count):
                values = numpy.full((2, 10), k, numpy.float32)
                yield types.SimpleNamespace(to_ndarray=lambda values=values: values, sample_rate=10 * self.rate,
                                            format=types.SimpleNamespace(is_planar=True), time=k / self.rate)
            return
        for k in range(self.start, self.count):
            yield types.SimpleNamespace(pts=2 * k, to_ndarray=lambda format, k=k: numpy.full((2, 3, 3), k, numpy.uint8))


@pytest.fixture
def videos(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", types.SimpleNamespace(open=Video))
    for name, data in (("Run/a.avi", [9, 4, 1]), ("Run/b.avi", [7, 4, 0]), ("Walk/c.avi", [5, 2, 0])):
        (tmp_path / "v" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "v" / name).write_bytes(bytes(data))
    for name, text in (("trainlist01.txt", "Run/a.avi 1\nWalk/c.avi 2\n"), ("testlist01.txt", "Run/b.avi\n"),
                       ("Run_test_split1.txt", "a.avi 1\nb.avi 2\n"), ("Walk_test_split1.txt", "c.avi 1\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("kind", [datasets.UCF101, datasets.HMDB51])
def test_clips_of_videos(videos, kind):
    found = kind(str(videos / "v"), str(videos), 3, step_between_clips=2)
    assert [(x[:, 0, 0, 0].tolist(), label) for x, _, label in (found[k] for k in range(len(found)))] == [
        ([0, 1, 2], 0), ([2, 3, 4], 0), ([4, 5, 6], 0), ([6, 7, 8], 0), ([0, 1, 2], 1), ([2, 3, 4], 1)]
    frames, sound, _ = found[1]
    assert frames.shape == (3, 2, 3, 3) and frames.dtype == flambeau.uint8
    assert sound.shape == (2, 20) and sound[0, ::10].tolist() == [2, 3] and found[5][1].shape == (1, 0)
    test = kind(str(videos / "v"), str(videos), 3, train=False, output_format="TCHW",
                _precomputed_metadata=found.full_video_clips.metadata)
    assert len(test) == 5 and test[0][0].shape == (3, 3, 2, 3)


def test_clips_at_another_rate_and_of_kinetics(videos):
    (videos / "k").mkdir()
    (videos / "v").rename(videos / "k" / "train")
    found = datasets.Kinetics(str(videos / "k"), 2, frame_rate=2, step_between_clips=2)
    assert [found[k][0][:, 0, 0, 0].tolist() for k in range(len(found))] == [[0, 2], [4, 6], [0, 2], [0, 1], [2, 3]]
    assert found[0][0].shape == (2, 3, 2, 3) and found.classes == ["Run", "Walk"]
    with pytest.raises(NotImplementedError, match="_video_width"):
        datasets.Kinetics(str(videos / "k"), 2, _video_width=8)
    with pytest.raises(NotImplementedError, match="not fetched here"):
        datasets.Kinetics(str(videos / "k"), 2, download=True)


def test_videos_need_a_decoder(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.avi").write_bytes(b"x")
    with pytest.raises(ImportError, match="pip install av"):
        datasets.UCF101(str(tmp_path), str(tmp_path), 2)
    with pytest.raises(ImportError, match="pip install av"):
        clips.read_frames(tmp_path / "a" / "1.avi", [0])


def test_the_right_picture_in_another_light(folder, monkeypatch):
    found = datasets.Middlebury2014Stereo(folder, use_ambient_views=True)
    make = files.Maker(Path(found._images[0][1]).parent)
    make.picture("im1E.png")
    views = []
    monkeypatch.setattr("random.choice", lambda given: views.append([path.name for path in given]) or given[-1])
    assert numpy.array_equal(numpy.asarray(found[0][1]), make.numbers("im1E.png", 4, 6, 3))
    assert views == [["im1.png", "im1E.png"]]
    make.path("im1E.png").unlink()
    with pytest.raises(ValueError, match="calibration is None for the test set"):
        datasets.Middlebury2014Stereo(folder, split="test")


@pytest.mark.parametrize("kind", [datasets.Sintel, datasets.KittiFlow, datasets.HD1K, datasets.FlyingChairs,
                                  datasets.CarlaStereo, datasets.Kitti2015Stereo, datasets.Cityscapes,
                                  datasets.WIDERFace, datasets.SBDataset, datasets.INaturalist, datasets.Imagenette,
                                  datasets.FER2013, datasets.MovingMNIST, datasets.CLEVRClassification])
def test_missing_files_are_named(tmp_path, kind):
    with pytest.raises(RuntimeError, match=rf"{kind.__name__}.*: its files are not in"):
        kind(str(tmp_path))
