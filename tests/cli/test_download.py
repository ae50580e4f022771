"""--download: what is missing is fetched, what is damaged is not kept, what is there is left alone."""

import functools
import gzip
import hashlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flambeau.cli import mnist

from .helpers import write_mnist


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A server of four small files, and the module told that these are the published ones."""
    folder = write_mnist(tmp_path / "published")
    checksums = {}
    for name in mnist.CHECKSUMS:
        data = gzip.compress((folder / name.removesuffix(".gz")).read_bytes())
        (folder / name).write_bytes(data)
        checksums[name] = hashlib.md5(data).hexdigest()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(mnist, "CHECKSUMS", checksums)
    monkeypatch.setattr(mnist, "SOURCE", f"http://127.0.0.1:{server.server_port}/")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloads_what_is_missing(published, run, tmp_path):
    data = tmp_path / "new" / "data"
    code, _, err = run("train", "mnist", "--data", data, "--download", "--epochs", 1, "--output", tmp_path / "out")
    assert code == 0, err
    assert sorted(path.name for path in data.iterdir()) == sorted(mnist.CHECKSUMS)


def test_a_damaged_download_is_not_kept(published, refused, tmp_path):
    name = "t10k-labels-idx1-ubyte.gz"
    (published / name).write_bytes(b"changed")
    data = tmp_path / "data"
    err = refused("train", "mnist", "--data", data, "--download", "--output", tmp_path / "out")
    assert name in err and "md5" in err
    assert sorted(path.name for path in data.iterdir()) == sorted(set(mnist.CHECKSUMS) - {name})


def test_a_file_that_is_not_on_the_server(published, refused, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    (published / name).unlink()
    err = refused("train", "mnist", "--data", tmp_path / "data", "--download", "--output", tmp_path / "out")
    assert name in err and "failed: " in err


def test_files_that_are_there_are_not_checked_against_the_checksums(published, run, tmp_path):
    data = write_mnist(tmp_path / "mine", train=100)
    code, out, err = run("train", "mnist", "--data", data, "--download", "--epochs", 1, "--output", tmp_path / "out")
    assert code == 0, err
    assert "100 training" in out
