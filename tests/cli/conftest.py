"""The command as a function, and a small MNIST."""

import pytest

from flambeau.cli import main

from .helpers import write_mnist


@pytest.fixture(scope="session")
def mnist_folder(tmp_path_factory):
    """Not to be changed by a test."""
    return write_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture
def run(capsys):
    """run("train", "digits", …) -> (exit code, stdout, stderr)."""
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return call


@pytest.fixture
def refused(run):
    """Runs what must be refused: exit code 2, one line, no traceback; the line."""
    def call(*arguments):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.startswith("flambeau: ") and err.count("\n") == 1 and len(err) < 600, err
        return err
    return call
