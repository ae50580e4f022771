"""A closed standard output, and a reader that goes away: the command ends quietly, and a training keeps its work."""

import os
import signal
import subprocess
import sys

import pytest

import flambeau

QUICK = "train", "digits", "--epochs", "1", "--batch-size", "500", "--output"
TWO_EPOCHS = *QUICK[:3], "2", *QUICK[4:]
SIGPIPE_STATUS = 128 + signal.SIGPIPE


def shell(line, *arguments, unbuffered=""):
    """(exit status, output, errors) of a line for the shell, in which $0 is the command."""
    found = subprocess.run(["bash", "-c", f"set -o pipefail; {line}", f"{sys.executable} -m flambeau", *arguments],
                           text=True, capture_output=True, timeout=300, check=False,
                           env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_training_with_closed_streams(closed, tmp_path):
    code, _, err = shell(f'$0 "$@" {closed}', *QUICK, str(tmp_path))
    assert code == 0 and err == ""
    assert flambeau.load(tmp_path / "checkpoint.pt")["state"]["epoch"] == 1
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.pt", "metrics.jsonl", "picture.png", "time.json"]


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
@pytest.mark.parametrize("arguments", [["info"], ["--version"], ["train", "digits", "--help"]], ids=" ".join)
def test_other_commands_with_closed_streams(arguments, closed):
    assert shell(f'$0 "$@" {closed}', *arguments) == (0, "", "")


def test_predict_with_closed_output(tmp_path):
    assert shell('$0 "$@"', *QUICK, str(tmp_path))[0] == 0
    arguments = "predict", str(tmp_path / "checkpoint.pt"), "digits:0"
    assert shell('$0 "$@" >&-', *arguments) == (0, "", "")
    assert shell('$0 "$@" | (exec <&-; sleep 0.1)', *arguments) == (SIGPIPE_STATUS, "", "")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_training_whose_reader_goes_away(unbuffered, tmp_path):
    code, out, err = shell('$0 "$@" | head -1', *TWO_EPOCHS, str(tmp_path), unbuffered=unbuffered)
    assert code == SIGPIPE_STATUS or (code == 0 and not unbuffered)  # all lines at once may fit into the pipe
    assert err == "" and out.startswith("digits: ") and out.count("\n") == 1
    state = flambeau.load(tmp_path / "checkpoint.pt")["state"]
    assert state["epoch"] >= 1  # the epoch whose line could not be printed is kept
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize("arguments", [["info"], ["--help"]], ids=" ".join)
def test_other_commands_whose_reader_goes_away(arguments):
    assert shell('$0 "$@" | (exec <&-; sleep 0.1)', *arguments) == (SIGPIPE_STATUS, "", "")


def test_a_full_disk_behind_standard_output():
    code, _, err = shell('$0 "$@" > /dev/full', "info")
    assert code == 2 and err == "flambeau: cannot print: No space left on device\n"
