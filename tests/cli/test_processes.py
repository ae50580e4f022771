"""Law: a training in several processes has one process's numbers, and a continued one those of one that was not."""

import json
import signal

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau.cli import ranks as processes
from flambeau.cli.digits import digits_task
from flambeau.cli.ranks import Ranks
from flambeau.cli.task import Settings
from flambeau.cli.training import Training
from tests.distributed.pool import Ranks as Pool

from .helpers import start

SETTINGS = Settings(epochs=2, batch_size=357, lr=3e-3, seed=3)  # the last batch of an epoch has 9 pictures


@pytest.fixture(scope="module")
def pool():
    made = Pool(4)
    yield made
    made.end()


def begun(ranks, dropout):
    training = Training(digits_task(), SETTINGS, 0, ranks)
    for layer in training.network.modules():
        if isinstance(layer, flambeau.nn.Dropout):
            layer.p = dropout
    return training


def trained(training, stop_at=None):
    """Runs to the end, or to a number of steps."""
    while not training.done:
        for images, labels in training.epoch_batches():
            training.step(images, labels)
            if sum("step" in row for row in training.history) == stop_at:
                return training
        training.end_epoch()
    return training


def train(dropout):
    return trained(begun(Ranks(dist.get_rank(), dist.get_world_size()), dropout)).history


def train_in_two_parts():
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    training = trained(begun(ranks, 0.25), stop_at=7)
    training.remember_random()
    saved = training.state_dict()
    flambeau.rand(5)
    again = begun(ranks, 0.25)
    again.load_state_dict(saved if ranks.leads else {**training.state_dict(), "random": saved["random"]})
    return trained(again).history, sorted(saved)


def test_several_processes_train_as_one_does(pool):
    alone = trained(begun(None, 0.0)).history
    for history in pool.run(train, 0.0):
        assert [row.keys() for row in history] == [row.keys() for row in alone]
        for row, expected in zip(history, alone):
            assert row == pytest.approx(expected, rel=2e-3, abs=2e-3)


def test_a_continued_training_has_the_same_numbers(pool):
    whole = pool.run(train, 0.25)
    for (history, names), expected in zip(pool.run(train_in_two_parts), whole):
        assert history == expected == whole[0] and "random_others" in names


def test_a_batch_that_is_too_small_is_everybodys():
    assert [Ranks(r, 3).share(list(range(7))) for r in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert Ranks(1, 3).share([4, 5]) == [4, 5]
    assert [Ranks(r, 3).part(5) for r in range(3)] == [(0, 1), (1, 3), (3, 5)]


def test_the_command_in_two_processes(tmp_path):
    """Interrupted by Ctrl-C, and continued through the launcher."""
    process = start("train", "digits", "--epochs", 30, "--batch-size", 100, "--nproc", 2, "--output", tmp_path)
    for line in process.stdout:
        if line.startswith("epoch  1/"):
            process.send_signal(signal.SIGINT)
            break
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.count("Traceback") == 0, err
    assert rest.count("interrupted in epoch") == 1 and f"--resume {tmp_path / 'checkpoint.pt'} --nproc 2" in rest
    steps = sum("step" in json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines())
    saved = flambeau.load(tmp_path / "checkpoint.pt")
    assert saved["state"]["epoch"] * 15 + saved["state"]["batch"] == steps >= 15

    saved["settings"]["epochs"] = saved["state"]["epoch"] + 1
    saved["state"]["schedule"]["total_steps"] = (saved["state"]["epoch"] + 1) * 15
    flambeau.save(saved, tmp_path / "checkpoint.pt")
    process = start("launch", "--nproc-per-node", 2, "-m", "flambeau", "train", "digits", "--resume",
                    tmp_path / "checkpoint.pt")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.count("2 processes of 1 thread") == out.count("test accuracy") == 1 and err.count("\r") <= 1


def test_mistakes_are_said_once(tmp_path):
    process = start("train", "mnist", "--data", tmp_path / "nothing", "--nproc", 2)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == ""
    assert err.startswith("flambeau: ") and err.count("\n") == 1


def test_a_launcher_counts_for_itself(monkeypatch, refused):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "leave --nproc out" in refused("train", "digits", "--nproc", 3)
    assert processes.EXPLAINED == (2, 130)
