"""A run that was interrupted anywhere and continued ends with the very numbers of one that was not."""

import signal

import pytest

import flambeau
from flambeau.cli import main
from flambeau.cli import train as command
from flambeau.cli.interrupt import Interrupt

from .helpers import start

BATCHES = 8  # an epoch of 1,437 images in batches of 200
ARGUMENTS = "train", "digits", "--epochs", 2, "--batch-size", 200, "--seed", 4


class After(Interrupt):
    """An interrupt that comes when it has been asked for `steps` times."""

    steps = 0

    def __init__(self):
        super().__init__()
        self.left = self.steps

    def __bool__(self):
        self.left -= 1
        return self.left < 0


def same(a, b):
    """Equal in structure and in every bit."""
    if isinstance(a, flambeau.Tensor):
        return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def finish(folder, *arguments):
    assert main([str(argument) for argument in (*arguments, "--output", folder)]) == 0
    return flambeau.load(folder / "checkpoint.pt"), (folder / "metrics.jsonl").read_text()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("uninterrupted"), *ARGUMENTS)


@pytest.mark.parametrize("steps", [0, 3, BATCHES, BATCHES + 5, 2 * BATCHES - 1])
def test_resumed_equals_uninterrupted(steps, uninterrupted, tmp_path, monkeypatch, run):
    with monkeypatch.context() as patch:
        patch.setattr(After, "steps", steps)
        patch.setattr(command, "Interrupt", After)
        code, out, _ = run(*ARGUMENTS, "--output", tmp_path)
    assert code == 130
    assert f"--resume {tmp_path / 'checkpoint.pt'}" in out
    rows = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert sum('"step"' in row for row in rows) == steps
    flambeau.rand(7)  # the stream has moved on since; the checkpoint knows where it was
    checkpoint, metrics = finish(tmp_path, "train", "digits", "--resume", tmp_path / "checkpoint.pt")
    assert metrics == uninterrupted[1]
    assert same(checkpoint, uninterrupted[0])


def test_a_run_can_be_resumed_into_another_folder(uninterrupted, tmp_path, monkeypatch, run):
    first, second = tmp_path / "first", tmp_path / "second"
    with monkeypatch.context() as patch:
        patch.setattr(After, "steps", 5)
        patch.setattr(command, "Interrupt", After)
        run(*ARGUMENTS, "--output", first)
    before = (first / "checkpoint.pt").read_bytes()
    checkpoint, metrics = finish(second, "train", "digits", "--resume", first / "checkpoint.pt")
    assert metrics == uninterrupted[1] and same(checkpoint, uninterrupted[0])
    assert (first / "checkpoint.pt").read_bytes() == before


def test_resuming_a_finished_run_only_reports(run, tmp_path):
    arguments = "train", "digits", "--epochs", 1, "--batch-size", 500
    first = finish(tmp_path, *arguments)
    code, out, _ = run("train", "digits", "--resume", tmp_path / "checkpoint.pt")
    assert code == 0 and "test accuracy" in out
    assert (tmp_path / "metrics.jsonl").read_text() == first[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_that_continues_exactly(number, tmp_path):
    arguments = "train", "digits", "--epochs", 6, "--batch-size", 20
    process = start(*arguments, "--output", tmp_path / "a")
    for line in process.stdout:
        if line.startswith("epoch 1/"):
            process.send_signal(number)
            break
    rest, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "interrupted in epoch" in rest
    _, resumed = finish(tmp_path / "a", "train", "digits", "--resume", tmp_path / "a" / "checkpoint.pt")
    _, whole = finish(tmp_path / "b", *arguments)
    assert resumed == whole


def test_a_second_interrupt_ends_at_once():
    with Interrupt() as interrupt:
        assert not interrupt
        signal.raise_signal(signal.SIGINT)
        assert interrupt
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
