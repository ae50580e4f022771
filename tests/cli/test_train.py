"""What a run leaves behind, and that the bar of 98 % is passed."""

import json
import re
import sys

import pytest

import flambeau

from .helpers import MNIST

FILES = {"checkpoint.pt", "metrics.jsonl", "picture.png", "time.json"}


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_digits_reaches_98_percent_and_writes_its_files(run, tmp_path):
    code, out, err = run("train", "digits", "--output", tmp_path / "new" / "folder")
    assert code == 0 and err == ""
    folder = tmp_path / "new" / "folder"
    assert {path.name for path in folder.iterdir()} == FILES
    rows = rows_of(folder)
    steps, epochs = [r for r in rows if "step" in r], [r for r in rows if "test_loss" in r]
    assert [row["step"] for row in steps] == list(range(1, 15 * 45 + 1))
    assert [row["epoch"] for row in epochs] == list(range(1, 16))
    assert epochs[-1]["test_accuracy"] >= 0.98
    assert f"test accuracy {100 * epochs[-1]['test_accuracy']:.2f} %" in out
    picture = (folder / "picture.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 40_000


def test_mnist_trains_and_takes_its_options(run, tmp_path, mnist_folder):
    code, out, _ = run("train", "mnist", "--data", mnist_folder, "--epochs", 2, "--batch-size", 50, "--lr", 0.004,
                       "--seed", 3, "--threads", 1, "--output", tmp_path)
    assert code == 0
    assert "200 training and 60 test images" in out and "1 threads" in out
    rows = rows_of(tmp_path)
    assert len(rows) == 2 * (4 + 1)
    assert max(row["lr"] for row in rows if "lr" in row) <= 0.004
    saved = flambeau.load(tmp_path / "checkpoint.pt")
    assert saved["settings"] == {"epochs": 2, "batch_size": 50, "lr": 0.004, "seed": 3}


def test_the_same_seed_gives_the_same_numbers_for_any_thread_count(run, tmp_path):
    arguments = "train", "digits", "--epochs", 1, "--batch-size", 100
    threads = flambeau.get_num_threads()
    try:
        for name, seed, number in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
            assert run(*arguments, "--seed", seed, "--threads", number, "--output", tmp_path / name)[0] == 0
    finally:
        flambeau.set_num_threads(threads)
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    assert rows_of(tmp_path / "a") != rows_of(tmp_path / "c")


def test_workers_change_no_number_and_the_wait_for_data_is_shown(run, tmp_path):
    for workers in (0, 2):
        code, out, err = run("train", "digits", "--epochs", 1, "--batch-size", 100, "--workers", workers, "--output",
                             tmp_path / str(workers))
        assert code == 0 and not err
        assert re.search(r"the model waited for data \d+ % of the time", out)
    assert rows_of(tmp_path / "0") == rows_of(tmp_path / "2")


def test_without_matplotlib_everything_else_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, _ = run("train", "digits", "--epochs", 1, "--output", tmp_path)
    assert code == 0
    assert "pip install 'flambeau[plot]'" in out
    assert {path.name for path in tmp_path.iterdir()} == FILES - {"picture.png"}


def test_a_new_run_keeps_the_checkpoint_of_an_earlier_one(run, tmp_path):
    arguments = "train", "digits", "--epochs", 1, "--batch-size", 500, "--output", tmp_path
    run(*arguments)
    earlier = (tmp_path / "checkpoint.pt").read_bytes()
    code, out, _ = run(*arguments, "--seed", 5)
    assert code == 0 and "checkpoint.old.pt" in out
    assert (tmp_path / "checkpoint.old.pt").read_bytes() == earlier


def test_a_loss_that_is_not_finite_ends_the_run(refused, tmp_path):
    err = refused("train", "digits", "--epochs", 2, "--lr", 1e30, "--output", tmp_path)
    assert "--lr" in err and "the loss became" in err
    assert (tmp_path / "checkpoint.pt").exists()


@pytest.mark.parametrize("option", [("--epochs", "0"), ("--batch-size", "-3"), ("--lr", "nan"), ("--lr", "0"),
                                    ("--seed", "-1"), ("--threads", "0"), ("--epochs", "many")])
def test_impossible_options_are_refused_by_name(option, run, capsys):
    with pytest.raises(SystemExit) as exit:
        run("train", "digits", *option)
    assert exit.value.code == 2
    assert option[0] in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.skipif(not MNIST.is_dir(), reason=f"no MNIST in {MNIST}")
@pytest.mark.parametrize("seed", range(3))
def test_mnist_reaches_99_percent_in_three_epochs(seed, run, tmp_path):
    code, _, _ = run("train", "mnist", "--data", MNIST, "--epochs", 3, "--seed", seed, "--output", tmp_path)
    assert code == 0
    assert rows_of(tmp_path)[-1]["test_accuracy"] >= 0.99


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 10))
def test_digits_reaches_98_percent_from_every_seed(seed, run, tmp_path):
    assert run("train", "digits", "--seed", seed, "--output", tmp_path)[0] == 0
    assert rows_of(tmp_path)[-1]["test_accuracy"] >= 0.98


@pytest.mark.parametrize("device", ["tpu", "meta", "cuda"])
def test_a_device_that_is_not_there_is_refused(device, refused, tmp_path):
    if device == "cuda" and flambeau.cuda.is_available():
        return
    assert f"--device {device}: " in refused("train", "digits", "--device", device, "--output", tmp_path)
