"""Data sets on small files that are made here: what they read, what they refuse, how downloads and archives behave."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import zipfile

import pytest

import flambeau
from flambeau.vision import datasets, tv_tensors
from flambeau.vision.datasets import utils
from flambeau.vision.datasets.mnist import read_idx

Image = pytest.importorskip("PIL.Image")
numpy = pytest.importorskip("numpy")


def picture(path, size=(6, 4), color=(10, 20, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def idx(path, array, code=8):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes([0, 0, code, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    data = head + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("kind", [datasets.MNIST, datasets.FashionMNIST, datasets.KMNIST])
def test_pictures_and_labels_of_the_idx_format(tmp_path, kind, end):
    images = numpy.arange(3 * 28 * 28, dtype=numpy.uint8).reshape(3, 28, 28)
    for name in ("train", "t10k"):
        idx(tmp_path / kind.__name__ / "raw" / f"{name}-images-idx3-ubyte{end}", images)
        idx(tmp_path / kind.__name__ / "raw" / f"{name}-labels-idx1-ubyte{end}", numpy.array([5, 0, 9], numpy.uint8))
    found = kind(tmp_path, train=False, target_transform=lambda label: label * 2)
    assert len(found) == 3 and found[2][1] == 18 and numpy.array_equal(numpy.asarray(found[1][0]), images[1])
    assert found.targets.tolist() == [5, 0, 9] and found.data.shape == (3, 28, 28) and "Split: Test" in repr(found)


def test_the_other_sets_of_the_idx_format(tmp_path):
    images = numpy.zeros((2, 28, 28), numpy.uint8)
    idx(tmp_path / "EMNIST/raw/emnist-letters-train-images-idx3-ubyte.gz", images)
    idx(tmp_path / "EMNIST/raw/emnist-letters-train-labels-idx1-ubyte.gz", numpy.array([1, 26], numpy.uint8))
    for kind in ("images-idx3", "labels-idx1"):
        idx(tmp_path / f"EMNIST/raw/emnist-letters-test-{kind}-ubyte.gz", images)
    found = datasets.EMNIST(tmp_path, "letters")
    assert [found.classes[found[k][1]] for k in (0, 1)] == ["a", "z"]
    idx(tmp_path / "QMNIST/raw/qmnist-test-images-idx3-ubyte.gz", images)
    rows = numpy.array([[7, 1, 2, 3, 4, 5, 6, 0], [300, 1, 2, 3, 4, 5, 6, 0]], ">i4")
    idx(tmp_path / "QMNIST/raw/qmnist-test-labels-idx2-int.gz", rows, 12)
    assert datasets.QMNIST(tmp_path, train=False)[0][1] == 7
    assert datasets.QMNIST(tmp_path, "test", compat=False)[1][1].tolist() == rows[1].tolist()


@pytest.mark.parametrize("data", [b"", b"\0\0\x08", b"\0\0\x99\x01\0\0\0\0", b"\0\0\x08\x01\0\0\0\x05abc", b"junk" * 9])
def test_broken_idx_files_are_refused(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises((ValueError, IndexError), match=r"no IDX file|bytes|takes"):
        read_idx(tmp_path / "file")


def batches(folder, kind, monkeypatch):
    """Batches of two pictures each, with checksums that fit."""
    def put(name, value):
        path = folder / kind.base_folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(pickle.dumps(value, 2))
        return [name, hashlib.md5(path.read_bytes()).hexdigest()]

    rows = numpy.arange(2 * 3072, dtype=numpy.uint64).astype(numpy.uint8).reshape(2, 3072)
    for lists in ("train_list", "test_list"):
        names = [name for name, _ in getattr(kind, lists)]
        monkeypatch.setattr(kind, lists, [put(name, {"data": rows, kind._key: [3, 1]}) for name in names])
    _, md5 = put(kind.meta["filename"], {kind.meta["key"]: list("abcd")})
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5})
    return rows


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_batches_of_cifar(tmp_path, monkeypatch, kind):
    rows = batches(tmp_path, kind, monkeypatch)
    found = kind(tmp_path, transform=lambda x: x.getpixel((1, 0)))
    assert len(found) == 2 * len(kind.train_list) and found.classes == list("abcd")
    assert found[0] == ((rows[0, 1], rows[0, 1025], rows[0, 2049]), 3) and found.data.shape[1:] == (32, 32, 3)


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("run",)

    (tmp_path / "batch").write_bytes(pickle.dumps({"data": Evil()}))
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print"):
        datasets.cifar.read_pickle(tmp_path / "batch")


def test_folders_are_classes(tmp_path):
    for name in ("b/2.png", "a/1.jpg", "a/deep/3.png"):
        picture(tmp_path / name)
    (tmp_path / "a" / "note.txt").write_text("no picture")
    found = datasets.ImageFolder(tmp_path, transform=lambda x: x.size)
    assert found.classes == ["a", "b"] and found.targets == [0, 0, 1] and found[2] == ((6, 4), 1)
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file that ends in .*'c'"):
        datasets.ImageFolder(tmp_path)
    assert len(datasets.ImageFolder(tmp_path, allow_empty=True).classes) == 3
    with pytest.raises(FileNotFoundError, match="no folders"):
        datasets.ImageFolder(tmp_path / "c")


XML = """<annotation><size><width>6</width></size><object><name>dog</name><bndbox><xmin>1</xmin><ymin>0</ymin>
<xmax>4</xmax><ymax>3</ymax></bndbox></object></annotation>"""


def voc(folder):
    base = folder / "VOCdevkit/VOC2012"
    picture(base / "JPEGImages/x.jpg")
    for part, text in (("Annotations/x.xml", XML), ("ImageSets/Main/train.txt", "x\n"),
                       ("ImageSets/Segmentation/train.txt", "x\n")):
        (base / part).parent.mkdir(parents=True, exist_ok=True)
        (base / part).write_text(text)
    (base / "SegmentationClass").mkdir()
    Image.new("P", (6, 4), 1).save(base / "SegmentationClass/x.png")


def test_voc_and_its_boxes(tmp_path):
    voc(tmp_path)
    found = datasets.VOCDetection(tmp_path)
    assert found[0][1]["annotation"]["object"][0]["bndbox"]["xmax"] == "4"
    _, target = datasets.wrap_dataset_for_transforms_v2(found, target_keys=["boxes", "labels"])[0]
    assert target["boxes"].tolist() == [[1, 0, 4, 3]] and target["boxes"].canvas_size == (4, 6)
    assert target["labels"].tolist() == [12] and set(target) == {"boxes", "labels"}
    mask = datasets.wrap_dataset_for_transforms_v2(datasets.VOCSegmentation(tmp_path))[0][1]
    assert type(mask) is tv_tensors.Mask and mask.unique().tolist() == [1]


def test_coco_with_boxes_masks_and_captions(tmp_path):
    picture(tmp_path / "1.png", (8, 6))
    marks = [{"image_id": 9, "id": 1, "bbox": [1, 2, 3, 4], "category_id": 5, "caption": "a box",
              "segmentation": [[0, 0, 3, 0, 3, 3, 0, 3]]}]
    (tmp_path / "marks.json").write_text(json.dumps(
        {"images": [{"id": 9, "file_name": "1.png"}], "annotations": marks, "categories": []}))
    found = datasets.CocoDetection(tmp_path, str(tmp_path / "marks.json"))
    assert found[0][1] == marks and datasets.CocoCaptions(tmp_path, str(tmp_path / "marks.json"))[0][1] == ["a box"]
    _, target = datasets.wrap_dataset_for_transforms_v2(found, target_keys="all")[0]
    assert target["boxes"].tolist() == [[1, 2, 4, 6]] and target["image_id"] == 9
    assert target["masks"].shape == (1, 6, 8) and target["masks"].sum() == 16


def test_celeba_splits_and_attributes(tmp_path):
    base = tmp_path / "celeba"
    for k in (1, 2):
        picture(base / f"img_align_celeba/{k}.jpg")
    for name, text in (("list_eval_partition.txt", "1.jpg 0\n2.jpg 2\n"), ("identity_CelebA.txt", "1.jpg 7\n2.jpg 8\n"),
                       ("list_attr_celeba.txt", "2\nSmiling Young\n1.jpg 1 -1\n2.jpg -1 1\n"),
                       ("list_bbox_celeba.txt", "2\nimage x y w h\n1.jpg 1 2 3 4\n2.jpg 0 1 2 3\n"),
                       ("list_landmarks_align_celeba.txt", "2\nx y\n1.jpg 5 6\n2.jpg 7 8\n")):
        (base / name).write_text(text)
    found = datasets.CelebA(tmp_path, "test", ["attr", "identity", "bbox"])
    attributes, identity, box = found[0][1]
    assert len(found) == 1 and attributes.tolist() == [0, 1] and identity == 8 and box.tolist() == [0, 1, 2, 3]
    assert found.attr_names == ["Smiling", "Young"]


def test_sets_of_listed_files(tmp_path):
    picture(tmp_path / "food-101/images/pie/1.jpg")
    (tmp_path / "food-101/meta").mkdir()
    (tmp_path / "food-101/meta/test.json").write_text('{"pie": ["pie/1"]}')
    assert datasets.Food101(tmp_path, "test", transform=lambda x: x.size)[0] == ((6, 4), 0)
    picture(tmp_path / "dtd/dtd/images/dotted/d.jpg")
    (tmp_path / "dtd/dtd/labels").mkdir()
    (tmp_path / "dtd/dtd/labels/val2.txt").write_text("dotted/d.jpg\n")
    assert datasets.DTD(tmp_path, "val", 2).classes == ["dotted"]
    picture(tmp_path / "country211/valid/AD/1.jpg")
    assert len(datasets.Country211(tmp_path, "val")) == 1
    picture(tmp_path / "gtsrb/GTSRB/Training/00001/1.ppm")
    assert datasets.GTSRB(tmp_path)[0][1] == 0
    picture(tmp_path / "oxford-iiit-pet/images/Abyssinian_1.jpg")
    (tmp_path / "oxford-iiit-pet/annotations/trimaps").mkdir(parents=True)
    (tmp_path / "oxford-iiit-pet/annotations/test.txt").write_text("Abyssinian_1 1 1 1\n")
    Image.new("L", (6, 4), 2).save(tmp_path / "oxford-iiit-pet/annotations/trimaps/Abyssinian_1.png")
    pets = datasets.OxfordIIITPet(tmp_path, "test", ["category", "segmentation"])
    assert pets[0][1][0] == 0 and pets[0][1][1].getpixel((0, 0)) == 2 and pets.classes == ["Abyssinian"]


def test_faces_pairs_captions_and_roads(tmp_path):
    for name in ("Ada_B/Ada_B_0001", "Ada_B/Ada_B_0002", "Cy_D/Cy_D_0001"):
        picture(tmp_path / f"lfw-py/lfw_funneled/{name}.jpg")
    for name, text in (("lfw-names", "Ada_B\t2\nCy_D\t1\n"), ("peopleDevTrain", "2\nAda_B\t2\nCy_D\t1\n"),
                       ("pairsDevTrain", "1\nAda_B\t1\t2\nAda_B\t1\tCy_D\t1\n")):
        (tmp_path / f"lfw-py/{name}.txt").write_text(text)
    assert datasets.LFWPeople(tmp_path, "train").targets == [0, 0, 1]
    pairs = datasets.LFWPairs(tmp_path, "train", transform=lambda x: x.size)
    assert [pairs[k] for k in (0, 1)] == [((6, 4), (6, 4), 1), ((6, 4), (6, 4), 0)]
    picture(tmp_path / "dataset/there.jpg")
    for name, text in (("urls", "http://x/there.jpg\nhttp://x/gone.jpg\n"), ("captions", "a dog\na cat\n")):
        (tmp_path / f"dataset/SBU_captioned_photo_dataset_{name}.txt").write_text(text)
    found = datasets.SBU(tmp_path, download=False)
    assert len(found) == 1 and found[0][1] == "a dog"
    picture(tmp_path / "Kitti/raw/training/image_2/000.png")
    (tmp_path / "Kitti/raw/training/label_2").mkdir()
    (tmp_path / "Kitti/raw/training/label_2/000.txt").write_text("Car 0.5 1 -1.5 1 2 3 4 1.5 1.6 3.9 0 1 2 0.1\n")
    car, = datasets.Kitti(tmp_path)[0][1]
    assert car["type"] == "Car" and car["bbox"] == [1, 2, 3, 4] and car["occluded"] == 1 and car["rotation_y"] == 0.1


def test_fake_pictures_are_the_same_each_time():
    found = datasets.FakeData(5, (3, 8, 8))
    state = flambeau.get_rng_state()
    first, again = found[1], found[1]
    assert first[0].tobytes() == again[0].tobytes() and first[1] == again[1] == 9 and found[0][1] == 6
    assert flambeau.get_rng_state().equal(state)
    with pytest.raises(IndexError):
        found[5]


@pytest.mark.parametrize("kind", [datasets.MNIST, datasets.CIFAR10, datasets.STL10, datasets.Food101, datasets.CelebA,
                                  datasets.VOCDetection, datasets.ImageNet, datasets.USPS, datasets.Omniglot])
def test_missing_files_are_named(tmp_path, kind):
    with pytest.raises(RuntimeError, match=rf"{kind.__name__}: its files are not in .*download=True"):
        kind(tmp_path)


def test_downloads_are_checked_and_whole(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"flame" * 99)
    good = hashlib.md5(source.read_bytes()).hexdigest()
    with pytest.raises(RuntimeError, match=f"gave a file with the MD5 {good}, expected 0000"):
        utils.download_url(source.as_uri(), tmp_path / "in", md5="0000")
    assert not list((tmp_path / "in").iterdir())
    utils.download_url(source.as_uri(), tmp_path / "in", "kept.bin", good)
    source.unlink()
    utils.download_url(source.as_uri(), tmp_path / "in", "kept.bin", good)  # is there, so nothing is fetched
    assert (tmp_path / "in" / "kept.bin").read_bytes() == b"flame" * 99


def packed(path, names):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"x")
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 1
                archive.addfile(member, io.BytesIO(b"x"))


@pytest.mark.parametrize("end", [".zip", ".tar.gz"])
def test_archives_stay_in_their_folder(tmp_path, end):
    packed(tmp_path / f"good{end}", ["a/b.txt"])
    utils.extract_archive(tmp_path / f"good{end}", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"x"
    packed(tmp_path / f"bad{end}", ["fine.txt", "../escaped.txt"])
    with pytest.raises(ValueError, match=r"\.\./escaped\.txt.*outside"):
        utils.extract_archive(tmp_path / f"bad{end}", tmp_path / "out")
    assert not (tmp_path / "escaped.txt").exists() and not (tmp_path / "out/fine.txt").exists()
