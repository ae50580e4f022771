"""What `runs`, `compare` and `predict` say of trainings, and runs that are made longer."""

import json

import numpy
import pytest

import flambeau
from flambeau.cli import main
from flambeau.cli.unlike import unlike

QUICK = ["train", "digits", "--batch-size", "400", "--epochs"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs: one of 1 epoch, one of 2."""
    place = tmp_path_factory.mktemp("runs")
    for name, epochs in (("short", "1"), ("deep/long", "2")):
        assert main([*QUICK, epochs, "--output", str(place / name)]) == 0
    return place


def test_runs_are_listed_with_accuracy_time_and_settings(run, folder):
    code, out, _ = run("runs", folder)
    lines = out.splitlines()
    accuracy = json.loads((folder / "short/metrics.jsonl").read_text().splitlines()[-1])["test_accuracy"]
    assert code == 0 and len(lines) == 3 and lines[1].startswith("deep/long") and "2/2" in lines[1]
    assert f"{100 * accuracy:.2f} %" in lines[2] and " s " in lines[2] and "batch 400, lr 0.005, seed 0" in lines[2]


def test_files_that_are_no_runs_are_named(run, refused, folder, tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(b"junk")
    code, out, _ = run("runs", tmp_path)
    assert code == 0 and f"not read: {tmp_path / 'checkpoint.pt'}: not a checkpoint" in out
    assert "no such folder" in refused("runs", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no runs below it" in refused("runs", tmp_path / "empty")


def test_two_runs_are_compared(run, refused, folder, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "both.png"
    code, out, _ = run("compare", folder / "short", folder / "deep/long/checkpoint.pt", "--output", picture)
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert code == 0 and rows[0][0] == "1" and rows[0].count("%") == 2 and rows[1][1] == "-"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert "metrics.jsonl: cannot be read" in refused("compare", folder / "short", tmp_path / "nowhere")
    (tmp_path / "metrics.jsonl").write_text("{broken")
    assert "not the metrics of a run" in refused("compare", folder / "short", tmp_path)


def test_a_finished_run_is_extended(run, refused, tmp_path):
    assert main([*QUICK, "1", "--output", str(tmp_path)]) == 0
    before = (tmp_path / "metrics.jsonl").read_text()
    code, out, _ = run("train", "digits", "--resume", tmp_path / "checkpoint.pt", "--epochs", 3)
    assert code == 0 and "continuing in epoch 2" in out and "epoch 3/3" in out
    after = (tmp_path / "metrics.jsonl").read_text()
    assert after.startswith(before) and after.count("test_accuracy") == 3
    state = flambeau.load(tmp_path / "checkpoint.pt")["state"]
    assert state["epoch"] == 3 and state["first_epoch"] == 1
    rates = [row["lr"] for row in map(json.loads, after.splitlines()) if "lr" in row]
    assert max(rates[4:]) == pytest.approx(0.005, rel=0.2) and rates[-1] < 1e-3  # a cycle of its own
    resumed = "train", "digits", "--resume", tmp_path / "checkpoint.pt"
    assert "extended to more epochs" in refused(*resumed, "--epochs", 2)
    code, out, _ = run(*resumed)
    assert code == 0 and "test accuracy" in out


def test_the_three_most_likely_and_what_is_unusual(run, folder, tmp_path):
    code, out, _ = run("predict", folder / "short/checkpoint.pt", "digits:3")
    first = out.splitlines()[-2].removeprefix("most likely: ").split(" (")[0]
    assert code == 0 and out.splitlines()[-2].count("%") == 3 and out.splitlines()[-1] == f"prediction: {first}"
    assert "unlike" not in out
    faint = numpy.full((20, 90), 0.5, numpy.float32)
    faint[8:10, 10:80] = 0.6
    numpy.save(tmp_path / "faint.npy", faint)
    code, out, _ = run("predict", folder / "short/checkpoint.pt", tmp_path / "faint.npy")
    assert code == 0 and all(f"unlike the training pictures: {what}:" in out for what in ("size", "shape", "contrast"))


def test_a_picture_like_those_of_the_training_is_not_remarked():
    picture = numpy.zeros((8, 8), numpy.float32)
    picture[1:7, 3:5] = 1
    picture[6, 2:6] = 1
    assert unlike(picture, picture, "digits", 8) == []
    assert "ink: 100 %" in unlike(numpy.ones((8, 8), numpy.float32), numpy.ones((8, 8)), "digits", 8)[-1]
