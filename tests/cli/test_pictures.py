"""`train cifar10` and `train folder`: from small files made here to a checkpoint, continued, and used."""

import json
import pickle

import numpy
import pytest

import flambeau
from flambeau.cli.classifier import Classifier, load_weights, varied
from flambeau.cli.errors import UserError
from flambeau.cli.pictures import folder_task, read_batches

image_module = pytest.importorskip("PIL.Image")
MODEL = "shufflenet_v2_x0_5"  # the smallest: 0.3 million parameters
QUICK = "--epochs", 1, "--batch-size", 16


def colored(count, size=32, seed=0):
    """Pictures [count, 3, size, size] with labels 0 to 9: the label is their color."""
    draw = numpy.random.RandomState(seed)
    labels = numpy.arange(count) % 10
    base = numpy.stack([labels * 25, 255 - labels * 25, labels % 3 * 100], 1)[:, :, None, None]
    noise = draw.randint(-20, 20, (count, 3, size, size))
    return (base + noise).clip(0, 255).astype(numpy.uint8), labels


def write_binary(path, count, seed=0):
    pictures, labels = colored(count, seed=seed)
    rows = numpy.concatenate([labels[:, None].astype(numpy.uint8), pictures.reshape(count, -1)], 1)
    path.write_bytes(rows.tobytes())


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar")
    write_binary(folder / "data_batch_1.bin", 40)
    write_binary(folder / "test_batch.bin", 20, seed=1)
    return folder


@pytest.fixture
def photos(tmp_path):
    """Twelve pictures of red and of blue things, of different shapes."""
    root = tmp_path / "photos"
    for name, color in (("blue", (20, 30, 220)), ("red", (220, 30, 20))):
        (root / name).mkdir(parents=True)
        for k in range(6):
            picture = image_module.new("RGB", (40 + 4 * k, 48), color)
            picture.paste((255, 255, 255), (5, 5, 10 + k, 20))
            picture.save(root / name / f"{k}.{'png' if k % 2 else 'jpg'}")
    return root


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_cifar10_trains_draws_and_predicts(run, cifar, tmp_path):
    code, out, err = run("train", "cifar10", "--data", cifar, "--model", MODEL, *QUICK, "--output", tmp_path / "a")
    assert code == 0, err
    assert f"cifar10 {MODEL}: 40 training and 20 test images" in out
    assert (tmp_path / "a" / "picture.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = run("predict", tmp_path / "a" / "checkpoint.pt", f"{cifar / 'test_batch.bin'}:3")
    assert code == 0 and out.splitlines()[-1].startswith("prediction: ") and out.count(" %") >= 3, err
    code, out, _ = run("runs", tmp_path)
    assert code == 0 and f"cifar10 {MODEL}" in out


def test_cifar10_resumed_gives_the_numbers_of_an_uninterrupted_run(run, cifar, tmp_path, monkeypatch):
    """The variation of the pictures is drawn anew in each step, and continues where it was."""
    from flambeau.cli import train as train_module
    whole = "train", "cifar10", "--data", cifar, "--model", MODEL, "--epochs", 2, "--batch-size", 16, "--output"
    assert run(*whole, tmp_path / "a")[0] == 0
    count = iter(range(100))

    class Stop(train_module.Interrupt):
        def __bool__(self):
            return next(count) == 4  # in the second epoch

    monkeypatch.setattr(train_module, "Interrupt", Stop)
    assert run(*whole, tmp_path / "b")[0] == 130
    monkeypatch.undo()
    code, _, err = run("train", "cifar10", "--data", cifar, "--resume", tmp_path / "b" / "checkpoint.pt")
    assert code == 0, err
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")


def test_python_and_binary_batches_are_the_same_pictures(cifar, tmp_path):
    pictures, labels = colored(40)
    entry = {"data": pictures.reshape(40, -1), "labels": labels.tolist(), "batch_label": "1", "filenames": []}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(entry, protocol=2))
    for folder in (tmp_path, cifar):
        found = read_batches(folder, "data_batch_")
        assert numpy.array_equal(found[0], pictures) and numpy.array_equal(found[1], labels)


def test_what_is_wrong_with_cifar10s_files_is_said(refused, cifar, tmp_path):
    arguments = "train", "cifar10", "--model", MODEL, "--output", tmp_path / "out", "--data"
    assert "no such folder" in refused(*arguments, tmp_path / "nowhere")
    assert "no data_batch_* there" in refused(*arguments, tmp_path)
    write_binary(tmp_path / "data_batch_1.bin", 4)
    assert "no test_batch* there" in refused(*arguments, tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes(100))
    assert "test_batch.bin" in refused(*arguments, tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes([77]) + bytes(3072))
    assert "labels 77" in refused(*arguments, tmp_path)
    assert "not a classification model" in refused("train", "cifar10", "--data", cifar, "--model", "resnet17")
    assert "--model" in refused("train", "cifar10", "--data", cifar)
    assert "another --size" in refused("train", "cifar10", "--data", cifar, "--model", "alexnet")


def test_a_folder_is_split_by_the_seed_learned_and_predicted(run, photos, tmp_path):
    code, out, err = run("train", "folder", "--data", photos, "--model", MODEL, "--size", 32, "--epochs", 1,
                         "--output", tmp_path / "a")
    assert code == 0, err
    assert "10 training and 2 test images" in out
    code, out, err = run("predict", tmp_path / "a" / "checkpoint.pt", photos / "red" / "0.jpg")
    assert code == 0 and out.splitlines()[-1] in ("prediction: red", "prediction: blue"), err
    code, _, err = run("train", "folder", "--data", photos, "--resume", tmp_path / "a" / "checkpoint.pt",
                       "--epochs", 2)
    assert code == 0 and sum("test_loss" in row for row in rows_of(tmp_path / "a")) == 2, err
    one, same, other = (folder_task(photos, MODEL, 32, seed).fingerprint for seed in (1, 1, 2))
    assert one == same != other


def test_a_folder_with_train_and_val_is_taken_as_it_is(photos, tmp_path):
    root = tmp_path / "both"
    root.mkdir()
    (photos).rename(root / "train")
    for name in ("blue", "red"):
        (root / "val" / name).mkdir(parents=True)
        (root / "train" / name / "0.jpg").rename(root / "val" / name / "0.jpg")
    task = folder_task(root, MODEL, 32, 0)
    assert len(task.train) == 10 and task.test.tensors[1].tolist() == [0, 1]
    assert task.model["classes"] == ["blue", "red"]
    assert task.test.tensors[0][1, 0].float().mean() > task.test.tensors[0][1, 2].float().mean()


def test_what_is_wrong_with_a_folder_is_said(refused, photos, tmp_path):
    arguments = "train", "folder", "--model", MODEL, "--size", 32, "--output", tmp_path / "out", "--data"
    assert "no such folder" in refused(*arguments, tmp_path / "nowhere")
    (photos / "red" / "broken.png").write_bytes(b"\x89PNG\r\n")
    assert "broken.png" in (text := refused(*arguments, photos)) and "not an image" in text
    (photos / "red" / "broken.png").unlink()
    (photos / "green").mkdir()
    assert "green" in refused(*arguments, photos)
    (photos / "green").rmdir()
    (tmp_path / "one").mkdir()
    (photos / "red").rename(tmp_path / "one" / "red")
    assert "only red" in refused(*arguments, tmp_path / "one")
    (tmp_path / "half").mkdir()
    photos.rename(tmp_path / "half" / "train")
    (tmp_path / "one" / "red").rename(tmp_path / "half" / "train" / "red")
    assert "val" in refused(*arguments, tmp_path / "half")


def test_weights_are_loaded_but_for_the_head(run, refused, photos, tmp_path):
    from flambeau.vision import models
    many = models.get_model(MODEL, num_classes=7)
    flambeau.save(many.state_dict(), tmp_path / "weights.pth")
    network = Classifier(MODEL, ["a", "b"], 32)
    head = network.model.fc.weight.clone()
    assert load_weights(network, tmp_path / "weights.pth") == ["fc.weight", "fc.bias"]
    assert flambeau.equal(network.model.conv1[0].weight, many.conv1[0].weight)
    assert flambeau.equal(network.model.fc.weight, head)
    assert load_weights(Classifier(MODEL, list("abcdefg"), 32), tmp_path / "weights.pth") == []
    arguments = "train", "folder", "--data", photos, "--model", MODEL, "--size", 32, *QUICK, "--output"
    code, out, err = run(*arguments, tmp_path / "a", "--weights", tmp_path / "weights.pth")
    assert code == 0 and "new: fc.weight, fc.bias" in out, err
    assert load_weights(network, tmp_path / "a" / "checkpoint.pt") == []  # a checkpoint of the command
    flambeau.save({"fc.weight": flambeau.ones(2)}, tmp_path / "other.pth")
    (tmp_path / "text.pth").write_text("no weights")
    for name, text in {"other.pth": "it lacks", "text.pth": "not a file of weights", "gone.pth": "no such"}.items():
        err = refused(*arguments, tmp_path / "b", "--weights", tmp_path / name)
        assert name in err and text in err
    resumed = "train", "folder", "--data", photos, "--resume", tmp_path / "a" / "checkpoint.pt"
    assert "--weights" in refused(*resumed, "--weights", tmp_path / "weights.pth")
    assert "--model shufflenet" in refused(*resumed, "--model", "resnet18")


@pytest.mark.parametrize("name, head", [("squeezenet1_1", "classifier.1"),
                                        ("mobilenet_v3_small", "classifier.3")])
def test_the_head_is_the_layer_that_gives_the_classes(name, head):
    from flambeau.cli.classifier import head_of
    assert head_of(Classifier(name, ["a", "b", "c"], 64)) == head


def test_the_variation_moves_and_flips_and_follows_the_seed():
    images = flambeau.arange(2 * 3 * 16 * 16, dtype=flambeau.float32).view(2, 3, 16, 16)
    flambeau.manual_seed(1)
    first, second = varied(images), varied(images)
    flambeau.manual_seed(1)
    assert flambeau.equal(first, varied(images)) and not flambeau.equal(first, second)
    assert first.shape == images.shape and set(first.unique().tolist()) <= set(images.unique().tolist())


def test_a_batch_of_one_picture_is_avoided_or_refused(cifar):
    network = Classifier(MODEL, ["a", "b"], 32).train()
    with pytest.raises(UserError, match="--batch-size"):
        network(flambeau.zeros(1, 3, 32, 32, dtype=flambeau.uint8))
    from flambeau.cli.task import Settings, make_picture_task
    pictures, labels = colored(33)
    settings = Settings(epochs=1, batch_size=32, lr=0.1, seed=0)
    task = make_picture_task("cifar10", (pictures, labels), (pictures, labels), (MODEL, ["a", "b"], 32), settings)
    assert 33 % task.defaults.batch_size != 1


def test_predict_says_what_is_unusual_about_a_photo():
    from flambeau.cli.unlike import unlike_photo
    assert unlike_photo(image_module.linear_gradient("L").convert("RGB"), 224) == []
    said = unlike_photo(image_module.new("RGB", (100, 20), (9, 9, 9)), 32)
    assert [sentence.partition(":")[0] for sentence in said] == ["size", "shape", "contrast"]
