"""Bad files and folders: one line that names them, exit code 2, and nothing that was there is lost."""

import gzip
import resource
import shutil

import numpy
import pytest

import flambeau

from .helpers import idx_bytes, start, write_mnist

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
QUICK = "train", "digits", "--epochs", 1, "--batch-size", 500


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from flambeau.cli import main
    folder = tmp_path_factory.mktemp("run")
    assert main([str(argument) for argument in (*QUICK, "--output", folder)]) == 0
    return folder / "checkpoint.pt"


# ------------------------------------------------------------------------------------------------- data

def images(n=4, height=28, width=28):
    return numpy.zeros((n, height, width), numpy.uint8)


def labels(n=4, value=1):
    return numpy.full(n, value, numpy.uint8)


CORRUPT = {
    "empty": (TRAIN_IMAGES, b"", "not an idx file"),
    "text": (TRAIN_IMAGES, b"<html>not found</html>", "not an idx file"),
    "floats": (TRAIN_IMAGES, b"\0\0\x0d\x03" + bytes(100), "not an idx file of bytes"),
    "header": (TRAIN_IMAGES, idx_bytes(images())[:10], "header"),
    "truncated": (TRAIN_IMAGES, idx_bytes(images())[:-1], "cut short"),
    "too long": (TRAIN_IMAGES, idx_bytes(images()) + b"x", "too long"),
    "huge sizes": (TRAIN_IMAGES, b"\0\0\x08\x03" + b"\xff" * 12 + bytes(9), "cut short"),
    "wrong size": (TRAIN_IMAGES, idx_bytes(images(4, 27, 28)), "28 x 28"),
    "labels for images": (TRAIN_IMAGES, idx_bytes(labels()), "28 x 28"),
    "images for labels": (TRAIN_LABELS, idx_bytes(images()), "expected labels"),
    "count": (TRAIN_LABELS, idx_bytes(labels(7)), "7 labels"),
    "range": (TRAIN_LABELS, idx_bytes(labels(200, 10)), "label 10"),
    "broken gzip": (TRAIN_IMAGES, gzip.compress(idx_bytes(images()))[:-12], "gzip"),
    "garbage gzip": (TRAIN_IMAGES, b"\x1f\x8b\x08\0" + bytes(range(90)), "gzip"),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_corrupt_data_files(case, refused, tmp_path, mnist_folder):
    name, content, text = CORRUPT[case]
    shutil.copytree(mnist_folder, tmp_path / "data")
    (tmp_path / "data" / name).write_bytes(content)
    err = refused("train", "mnist", "--data", tmp_path / "data", "--output", tmp_path / "out")
    assert name in err and text in err
    assert not (tmp_path / "out").exists()


def test_no_images_at_all(refused, tmp_path):
    assert "no pictures" in refused("train", "mnist", "--data", write_mnist(tmp_path, train=0))


def test_missing_folder_and_missing_files(refused, tmp_path):
    err = refused("train", "mnist", "--data", tmp_path / "nowhere")
    assert "nowhere" in err and "--download" in err
    folder = write_mnist(tmp_path / "data")
    (folder / TRAIN_LABELS).unlink()
    err = refused("train", "mnist", "--data", folder)
    assert TRAIN_LABELS in err and TRAIN_IMAGES not in err


def test_gzip_files_are_read_whatever_their_name(run, tmp_path):
    folder = write_mnist(tmp_path / "data")
    path = folder / TRAIN_IMAGES
    path.write_bytes(gzip.compress(path.read_bytes()))
    code, _, err = run("train", "mnist", "--data", folder, "--epochs", 1, "--output", tmp_path / "out")
    assert code == 0, err


# ------------------------------------------------------------------------------------------------- checkpoints

def damaged(checkpoint, tmp_path, change):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(change(checkpoint.read_bytes()))
    return path


@pytest.mark.parametrize("change", [lambda b: b"", lambda b: b"hello", lambda b: b[:len(b) // 2], lambda b: b[:-1],
                                    lambda b: b[:5000] + bytes(64) + b[5064:]],
                         ids=["empty", "text", "half", "one byte short", "zeros inside"])
def test_damaged_checkpoints(change, checkpoint, tmp_path, refused):
    path = damaged(checkpoint, tmp_path, change)
    before = path.read_bytes()
    assert str(path) in refused("train", "digits", "--resume", path)
    assert str(path) in refused("predict", path, "digits:0")
    assert path.read_bytes() == before


def test_missing_checkpoint(refused, tmp_path):
    assert "no such checkpoint" in refused("train", "digits", "--resume", tmp_path / "no.pt")
    assert "no such checkpoint" in refused("predict", tmp_path / "no.pt", "digits:0")


def edited(checkpoint, tmp_path, edit):
    content = flambeau.load(checkpoint)
    edit(content)
    flambeau.save(content, tmp_path / "edited.pt")
    return tmp_path / "edited.pt"


def drop_weight(content):
    content["state"]["network"].popitem()


def widen_weight(content):
    network = content["state"]["network"]
    network[next(iter(network))] = flambeau.zeros(3, 3)


EDITS = {
    "version": lambda content: content.update(version=99),
    "format": lambda content: content.update(format="?"),
    "task": lambda content: content.update(task="faces"),
    "no state": lambda content: content.pop("state"),
    "settings": lambda content: content["settings"].update(epochs="many"),
    "no epochs": lambda content: content["settings"].update(epochs=0),
    "place": lambda content: content["state"].update(batch=10**6),
    "data": lambda content: content.update(fingerprint=1),
    "optimizer": lambda content: content["state"].update(optimizer={}),
    "schedule": lambda content: content["state"].update(schedule={}),
    "random": lambda content: content["state"].update(random=flambeau.zeros(3, dtype=flambeau.uint8)),
    "history": lambda content: content["state"].update(history=[1, 2]),
    "weight missing": drop_weight,
    "weight of another shape": widen_weight,
}


@pytest.mark.parametrize("case", EDITS)
def test_checkpoints_that_do_not_fit(case, checkpoint, tmp_path, refused):
    path = edited(checkpoint, tmp_path, EDITS[case])
    assert str(path) in refused("train", "digits", "--resume", path)


def test_a_checkpoint_of_another_model(checkpoint, refused, mnist_folder, tmp_path):
    err = refused("train", "mnist", "--data", mnist_folder, "--resume", checkpoint)
    assert "a checkpoint of digits, not of mnist" in err
    path = edited(checkpoint, tmp_path, lambda content: content.update(task="mnist"))
    assert "does not fit the network of mnist" in refused("predict", path, "digits:0")


def test_a_plain_state_dict_is_not_a_checkpoint(refused, tmp_path):
    flambeau.save({"weight": flambeau.zeros(2)}, tmp_path / "weights.pt")
    assert "flambeau train" in refused("train", "digits", "--resume", tmp_path / "weights.pt")


def test_other_settings_cannot_be_mixed_into_a_run(checkpoint, refused):
    assert "--batch-size 500" in refused("train", "digits", "--resume", checkpoint, "--batch-size", 7)


# ------------------------------------------------------------------------------------------------- output

def test_unwritable_output(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "sub"):
        assert str(place) in refused(*QUICK, "--output", place)
    assert (tmp_path / "file").read_text() == "mine"


def limit_file_size(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_no_room_for_the_first_checkpoint(tmp_path):
    process = start(*QUICK, "--output", tmp_path / "out", preexec_fn=limit_file_size(20_000))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert err.startswith("flambeau: ") and "checkpoint.pt" in err and "Traceback" not in err
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_fills_up_keeps_the_last_checkpoint(run, tmp_path, monkeypatch):
    saves = []
    save = flambeau.save

    def fills_up(content, path):
        saves.append(path)
        if len(saves) > 2:
            raise OSError(28, "No space left on device")
        save(content, path)

    monkeypatch.setattr(flambeau, "save", fills_up)
    code, out, err = run("train", "digits", "--epochs", 3, "--batch-size", 500, "--output", tmp_path)
    assert code == 2
    assert out.count("warning: ") == 2  # the run goes on as long as it can
    assert err == f"flambeau: {tmp_path}/checkpoint.pt: the checkpoint could not be written: No space left on device\n"
    assert flambeau.load(tmp_path / "checkpoint.pt")["state"]["epoch"] == 1
